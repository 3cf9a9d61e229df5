"""SEARCH and CYCLE of a recursive query: columns that a row has from the row that gave it.

    SEARCH DEPTH FIRST BY k SET s      s is ARRAY[ROW(k)] at first, then ARRAY_APPEND(s, ROW(k))
    SEARCH BREADTH FIRST BY k SET s    s is ROW(0, k) at first, then ROW(s.$depth + 1, k)
    CYCLE k SET m TO x DEFAULT y USING p
                                       p is ARRAY[ROW(k)] at first, then ARRAY_APPEND(p, ROW(k));
                                       m is y at first, then x where ARRAY_CONTAINS(p, ROW(k)) of the p before, else y;
                                       a step reads the rows whose m is not x

as PostgreSQL rewrites them, by which they mean the same (https://www.postgresql.org/docs/15/queries-with.html). The columns
belong to the rows: with UNION a row that is there by another way is another row. The binder hands them on through the step
as it does the number of the round (`recursion.py`), so the step may have any form in which that is possible; within it
they can be named, and `*` leaves them out.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from runtime.core.errors import BindError, Span, did_you_mean
from runtime.core.types import BIGINT, BOOLEAN, DataType, RowField, TypeRoot, array
from runtime.expr.nodes import Call, Case, Cast, Expr, Literal
from sqlengine.bind.coerce import cast_to, unify
from sqlengine.bind.construct import get_field, row_of
from sqlengine.bind.expression import ExpressionBinder
from sqlengine.bind.operators import comparison, scalar_function
from sqlengine.bind.scope import Scope
from sqlengine.bind.session import Clause, CommonTable
from sqlengine.parse.nodes import CycleClause, SearchClause
from sqlengine.parse.spans import span_of

__all__ = ["Traces"]

_DEPTH = "$depth"
_COUNT = BIGINT.not_null()


class Traces:
    """The columns that the clauses of a recursive query add behind its own, whose `names` and `types` are given.

    Raises:
        BindError: E1201 for a column that the query has not, E1264 for a name that is given twice, and for marks that are
            no constants.
        TypeMismatchError: E1303 for marks without a common type.
    """

    def __init__(self, common: CommonTable, names: Sequence[str], types: Sequence[DataType]) -> None:
        self._search, self._cycle = common.search, common.cycle
        self._functions = common.env.context.functions
        self._check_names(names)
        added: list[tuple[str, DataType]] = []
        if self._search is not None:
            self._keys = _positions(self._search, names)
            key = _row_type(self._keys, names, types)
            self._depth = self._search.args["kind"] == "DEPTH"
            if not self._depth:
                key = key.with_(fields=(RowField(_DEPTH, _COUNT), *key.fields))
            self._key = key
            added.append((self._search.args["sequence"].name, array(key) if self._depth else key))
        if self._cycle is not None:
            self._way = _positions(self._cycle, names)
            self._place = _row_type(self._way, names, types)
            self._marks = _marks(self._cycle, common)
            mark = self._cycle.args["mark"]
            added.append((mark.name, self._marks[0].type))
            added.append((self._cycle.args["path"].name, array(self._place)))
        self.names = tuple(name for name, _ in added)
        self.types = tuple(type_.with_nullable(True) for _, type_ in added)

    def first(self, values: Sequence[Expr]) -> list[Expr]:
        """The added columns of a row that the query begins with."""
        found: list[Expr] = []
        if self._search is not None:
            if self._depth:
                found.append(_alone(self._row(self._keys, values, self._key)))
            else:
                found.append(self._row(self._keys, values, self._key, Literal(0, _COUNT)))
        if self._cycle is not None:
            found += [self._marks[1], _alone(self._row(self._way, values, self._place))]
        return found

    def following(self, values: Sequence[Expr], before: Sequence[Expr]) -> list[Expr]:
        """Those of a row that a step gives; `before` are those of the row which it was made of."""
        found: list[Expr] = []
        if self._search is not None:
            sequence = before[0]
            if self._depth:
                found.append(self._called("ARRAY_APPEND", sequence, self._row(self._keys, values, self._key)))
            else:
                depth = get_field(sequence, _DEPTH, None)
                deeper = Call("+", (depth, Literal(1, _COUNT)), BIGINT)
                found.append(self._row(self._keys, values, self._key, deeper))
        if self._cycle is not None:
            path, place = before[-1], self._row(self._way, values, self._place)
            back, other = self._marks
            been = self._called("ARRAY_CONTAINS", path, place)
            found += [Case(((been, back),), other, back.type), self._called("ARRAY_APPEND", path, place)]
        return found

    def goes_on(self, row: Sequence[Expr]) -> Expr | None:
        """Which rows a step reads, by their added columns; None for all."""
        if self._cycle is None:
            return None
        return comparison("<>", row[-2], self._marks[0], span_of(self._cycle))

    def _called(self, function: str, way: Expr, place: Expr) -> Expr:
        return scalar_function(self._functions, function, (way, place), None)

    @staticmethod
    def _row(places: Sequence[int], values: Sequence[Expr], type_: DataType, *more: Expr) -> Expr:
        return Cast(row_of([*more, *(values[i] for i in places)], None), type_)

    def _check_names(self, names: Sequence[str]) -> None:
        seen = set(names)
        clauses = [c for c in (self._search, self._cycle) if c is not None]
        for identifier in (
            clause.args[key] for clause in clauses for key in ("sequence", "mark", "path") if key in clause.args
        ):
            if identifier.name in seen:
                raise BindError(
                    f'the recursive query has a column "{identifier.name}" already',
                    code="E1264",
                    span=span_of(identifier),
                    hint="SET and USING name new columns",
                )
            seen.add(identifier.name)


def _positions(clause: SearchClause | CycleClause, names: Sequence[str]) -> list[int]:
    found: list[int] = []
    for column in clause.expressions:
        if column.name not in names:
            raise BindError(
                f'the recursive query has no column "{column.name}"',
                code="E1201",
                span=span_of(column),
                hint=did_you_mean(column.name, list(names)),
            )
        at = list(names).index(column.name)
        if at in found:
            raise BindError(
                f'the column "{column.name}" is named twice', code="E1264", span=span_of(column), hint="name it once"
            )
        found.append(at)
    return found


def _row_type(places: Sequence[int], names: Sequence[str], types: Sequence[DataType]) -> DataType:
    fields = tuple(RowField(names[i], types[i]) for i in places)
    return DataType(TypeRoot.ROW, fields=fields, nullable=False)


def _alone(value: Expr) -> Expr:
    return Call("ARRAY", (value,), array(value.type).not_null())


def _marks(clause: CycleClause, common: CommonTable) -> tuple[Expr, Expr]:
    """The mark of a row that leads back, and that of others, of one type."""
    written = [clause.args.get("value"), clause.args.get("default")]
    if written == [None, None]:
        return Literal(True, BOOLEAN), Literal(False, BOOLEAN)
    binder = ExpressionBinder(common.env, Scope(), Clause("CYCLE", subqueries=False))
    values: list[Expr] = [_constant(binder, tree) for tree in written if tree is not None]
    values, type_ = unify(values, "CYCLE", span_of(written[-1]))
    back, other = (cast_to(value, type_.materialized().with_nullable(True)) for value in values)
    return back, other


def _constant(binder: ExpressionBinder, tree: exp.Expr) -> Expr:
    value = binder.bind(tree)
    if not isinstance(value, Literal):
        raise _no_constant(span_of(tree))
    return value


def _no_constant(span: Span | None) -> BindError:
    return BindError(
        "the marks of CYCLE are constants",
        code="E1264",
        span=span,
        hint="for example CYCLE id SET leads_back TO 'Y' DEFAULT 'N' USING path",
    )
