"""What expressions of MATCH_RECOGNIZE read of the rows of a match.

A name stands for a row of a variable: `A.price` is that of the last row that is mapped to A, `price` that of the last row
of the match, in DEFINE the row that is tested. So each variable, each subset and the match as a whole have columns of their
own while an expression is bound, one of them for CLASSIFIER; then they become what the `Match` computes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.logical.match import MatchItem
from runtime.core.errors import BindError, Span, TypeMismatchError, UnsupportedError, did_you_mean
from runtime.core.types import BIGINT, BOOLEAN, STRING, TimeAttribute, timestamp_ltz
from runtime.expr.nodes import (
    AggregateCall,
    Call,
    Case,
    Column,
    ColumnRef,
    Expr,
    Literal,
    fresh_column,
    map_children,
    transform,
    walk,
)
from runtime.plan.pattern import UNIVERSAL, MatchRows, Pattern, ValueSide
from sqlengine.bind.coerce import as_boolean
from sqlengine.bind.expression import ExpressionBinder
from sqlengine.bind.scope import Scope, Source
from sqlengine.bind.session import Clause, QueryEnv
from sqlengine.parse.nodes import FunctionCall
from sqlengine.parse.spans import span_of

__all__ = ["MatchValues", "variable_number"]

_NAVIGATIONS = {"FIRST": "FIRST_VALUE", "LAST": "LAST_VALUE"}
_REFUSED = {
    "PREV": "LAST(x, 1) is the value of the row before, among those that are mapped",
    "NEXT": "test the row before in the condition of the variable behind it",
}
_MEASURES = Clause("MEASURES", aggregates=True, subqueries=False)
_DEFINE = Clause("DEFINE", aggregates=True, subqueries=False)
_NAME = STRING.not_null()


def variable_number(name: str, names: list[str], span: Span | None) -> int:
    """The place of a name among those of variables, or of variables and subsets.

    Raises:
        BindError: E1261, there is none.
    """
    if name in names:
        return names.index(name)
    raise BindError(
        f'there is no variable "{name}" in PATTERN',
        code="E1261",
        span=span,
        hint=did_you_mean(name, names) or "variables are named in PATTERN",
    )


@dataclass(frozen=True, slots=True)
class _Of:
    """What arguments are of: the one variable or subset, and its rows or the `names` of its variables, where there are no
    arguments."""

    args: tuple[Expr, ...]
    variable: int
    names: bool


class MatchValues:
    """The variables with their columns, and what expressions have been found to read of the rows of a match.

    `items`: the values of the rows of variables so far.
    """

    def __init__(
        self,
        env: QueryEnv,
        scope: Scope,
        columns: tuple[Column, ...],
        pattern: Pattern,
        rowtime: Expr,
        rows: MatchRows,
    ) -> None:
        self.pattern = pattern
        self.items: list[MatchItem] = []
        self.rowtime = rowtime
        self._all_rows = rows is not MatchRows.ONE
        self._unmatched = rows is MatchRows.UNMATCHED
        self._tested: int | None = None
        self._of: dict[int, tuple[int, ColumnRef | None]] = {}
        self._names: dict[int, ColumnRef] = {}
        by_id = {c.id: c for c in columns}

        def copies(variable: int) -> dict[int, Column]:
            made = {c.id: fresh_column(c.name, c.type) for c in columns}
            self._of.update({copy.id: (variable, by_id[id_].ref()) for id_, copy in made.items()})
            return made

        named = [(c.name, c.id) for source in scope.sources for c in source.columns]
        sources: list[Source] = []
        for number, variable in enumerate((*pattern.variables, *pattern.subsets)):
            made = copies(number)
            sources.append(Source(variable.name, tuple(Column(made[i].id, n, made[i].type) for n, i in named)))
        whole = copies(UNIVERSAL)
        shows: list[tuple[str, Expr]] = [(n, Column(whole[i].id, n, whole[i].type).ref()) for n, i in named]
        self._env = env
        self._scope = Scope(sources, shows)

    # --- expressions

    def measure(self, tree: exp.Expr) -> Expr:
        """A value of MEASURES; NULL for rows in no match."""
        self._tested = None
        value = self._bound(tree, _MEASURES)
        if not self._unmatched:
            return value
        matched = self._item(_Of((), UNIVERSAL, False), AggregateCall("IS_MATCHED", (), BOOLEAN.not_null()), None)
        nullable = value.type.with_nullable(True)
        return Case(((matched, value),), Literal(None, nullable), nullable)

    def condition(self, tree: exp.Expr, variable: int) -> Expr:
        """A condition of DEFINE."""
        self._tested = variable
        return as_boolean(self._bound(tree, _DEFINE), "DEFINE", span_of(tree))

    @property
    def is_tested(self) -> bool:
        """Whether the expression is a condition of DEFINE."""
        return self._tested is not None

    def _bound(self, tree: exp.Expr, clause: Clause) -> Expr:
        return self._resolved(_MatchBinder(self, self._env, self._scope, clause).bind(tree))

    def _resolved(self, expr: Expr) -> Expr:
        """The expression over the columns of items, and of the row that is tested."""
        if isinstance(expr, ColumnRef):
            if expr.id not in self._of:
                return expr
            of = self.of_input((expr,), "", None)
            return self.navigation(AggregateCall("LAST_VALUE", of.args, expr.type), of, 0)
        if isinstance(expr, AggregateCall):
            return self._aggregate(expr)
        return map_children(expr, self._resolved)

    # --- what they read

    def of_row(self, column: Column) -> tuple[Column, Expr]:
        """A column of the rows of matches, as it is."""
        call = AggregateCall("LAST_VALUE", (column.ref(),), column.type)
        value = self._item(_Of(call.args, UNIVERSAL, False), call, 0, ValueSide.ROW)
        return fresh_column(column.name, column.type), value

    def navigation(self, call: AggregateCall, of: _Of, offset: int, *, final: bool = False) -> Expr:
        """A value of one row."""
        members = self.pattern.members(of.variable)
        if self._tested in members and call.function == "LAST_VALUE" and not offset:
            return Literal(self.pattern.name(self._tested), _NAME) if of.names else of.args[0]
        sure = self._tested is None and sum(self.pattern.variables[v].least for v in members) > offset
        if self._all_rows and not final:
            # Up to the first row of a match there is one row, of any variable.
            sure = sure and of.variable == UNIVERSAL and not offset
        call = call if sure else call.with_(type=call.type.with_nullable(True))
        return self._item(of, call, offset, self._side(final))

    def _side(self, final: bool) -> ValueSide:
        return ValueSide.FINAL if final and self._all_rows else ValueSide.RUNNING

    def final(self, call: AggregateCall) -> Expr:
        """An aggregate over all rows of the match, whichever row it stands beside."""
        return self._aggregate(call, final=True)

    def _aggregate(self, call: AggregateCall, *, final: bool = False) -> Expr:
        if call.filter is not None or call.order_by:
            raise UnsupportedError(
                f"{call.function} takes neither FILTER nor ORDER BY in MATCH_RECOGNIZE",
                span=call.span,
                hint="give NULL to what is to be left out: SUM(CASE WHEN A.x > 0 THEN A.x END)",
            )
        of = self.of_input(call.args, call.function, call.span)
        if of.names and call.function == "COUNT" and not call.distinct:
            # Each row has a name.
            of = replace(of, names=False)
        return self._item(of, call.with_(args=of.args), None, self._side(final))

    def number(self) -> Expr:
        """The number of the match."""
        return self._item(_Of((), UNIVERSAL, False), AggregateCall("MATCH_NUMBER", (), BIGINT.not_null()), None)

    def _item(self, of: _Of, call: AggregateCall, offset: int | None, side: ValueSide = ValueSide.RUNNING) -> Expr:
        if self._unmatched and not self.is_tested and side is not ValueSide.ROW and call.function != "IS_MATCHED":
            call = call.with_(type=call.type.with_nullable(True))
        known = (of.variable, call, offset, of.names, side)
        for item in self.items:
            if (item.variable, item.call, item.offset, item.names, item.side) == known:
                return item.column.ref()
        name = "match" if of.variable == UNIVERSAL else self.pattern.name(of.variable)
        column = fresh_column(f"{name}.{len(self.items)}", call.type)
        self.items.append(MatchItem(column, of.variable, call, offset, of.names, side))
        return column.ref()

    def names(self, variable: int) -> ColumnRef:
        """The column of the names of the variables to which rows are mapped."""
        if variable not in self._names:
            column = fresh_column("CLASSIFIER", _NAME)
            self._of[column.id] = (variable, None)
            self._names[variable] = column.ref()
        return self._names[variable]

    def of_input(self, args: tuple[Expr, ...], name: str, span: Span | None) -> _Of:
        """Arguments over the columns of the input, and what they are of."""
        found = [self._of[e.id] for arg in args for e in walk(arg) if isinstance(e, ColumnRef) and e.id in self._of]
        variables = {variable for variable, _ in found}
        if len(variables) > 1:
            names = sorted("all rows" if v == UNIVERSAL else self.pattern.name(v) for v in variables)
            raise BindError(
                f"{name} is of the rows of one variable, not of those of {' and '.join(names)}",
                code="E1262",
                span=span,
                hint=f"combine the values of each: {name}(A.x) + {name}(B.x)",
            )
        variable = variables.pop() if variables else UNIVERSAL
        if any(column is None for _, column in found):
            if len(args) != 1 or not isinstance(args[0], ColumnRef):
                raise UnsupportedError(
                    f"CLASSIFIER is the whole argument of {name}, not a part of it",
                    span=span,
                    hint="read the name first, then compute with it: UPPER(LAST(CLASSIFIER()))",
                )
            return _Of((), variable, True)

        def change(e: Expr) -> Expr:
            column = self._of[e.id][1] if isinstance(e, ColumnRef) and e.id in self._of else None
            return e if column is None else column

        return _Of(tuple(transform(arg, change) for arg in args), variable, False)


# --- functions of the rows of a match -------------------------------------------------------------------------------------


class _MatchBinder(ExpressionBinder):
    """Binds an expression of MEASURES or DEFINE: functions of the rows of a match are items of the values."""

    def __init__(self, values: MatchValues, env: QueryEnv, scope: Scope, clause: Clause) -> None:
        super().__init__(env, scope, clause)
        self._values = values

    def within(self, clause: Clause) -> _ArgumentBinder:
        return _ArgumentBinder(self._values, self.env, self.scope, clause)

    def bind(self, tree: exp.Expr) -> Expr:
        if not isinstance(tree, FunctionCall) or tree.qualifier:
            return super().bind(tree)
        name, side = tree.name.upper(), tree.args.get("side")
        if side == "FINAL" and self._values.is_tested:
            raise BindError(
                "FINAL has no meaning in DEFINE, where the match is not complete",
                code="E1262",
                span=span_of(tree),
                hint="leave FINAL out",
            )
        rule = _CALLS.get(name)
        if name in _NAVIGATIONS and self.env.context.functions.find(name) is not None:
            rule = None
        value = super().bind(tree) if rule is None else rule(self, self._values, tree)
        if side is not None and not isinstance(value, AggregateCall) and name not in _NAVIGATIONS:
            raise BindError(
                f"{side} stands before FIRST, LAST or an aggregate",
                code="E1262",
                span=span_of(tree),
                hint=f"leave {side} out",
            )
        if side == "FINAL" and isinstance(value, AggregateCall):
            return self._values.final(value)
        return value


class _ArgumentBinder(ExpressionBinder):
    """Binds the argument of FIRST, LAST or an aggregate, where CLASSIFIER is a column of the rows of a variable."""

    def __init__(self, values: MatchValues, env: QueryEnv, scope: Scope, clause: Clause) -> None:
        super().__init__(env, scope, clause)
        self._values = values

    def bind(self, tree: exp.Expr) -> Expr:
        if isinstance(tree, FunctionCall) and not tree.qualifier and tree.name.upper() == "CLASSIFIER":
            return _names(self._values, tree)
        return super().bind(tree)


def _navigation(binder: _MatchBinder, values: MatchValues, tree: FunctionCall) -> Expr:
    name, span = tree.name.upper(), span_of(tree)
    given = tree.expressions
    if len(given) not in (1, 2):
        raise TypeMismatchError(
            f"{name} takes a value and how many rows on it is",
            code="E1301",
            span=span,
            hint=f"for example {name}(A.x, 1)",
        )
    inner = _ArgumentBinder(values, binder.env, binder.scope, Clause(f"the arguments of {name}", subqueries=False))
    offset = inner.bind(given[1]) if len(given) == 2 else None
    number = 0 if offset is None else offset.value if isinstance(offset, Literal) else None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise TypeMismatchError(
            f"the offset of {name} is a whole number, at least 0",
            code="E1309",
            span=span_of(given[-1]),
            hint=f"for example {name}(A.x, 1)",
        )
    value = inner.bind(given[0])
    of = values.of_input((value,), name, span)
    call = AggregateCall(_NAVIGATIONS[name], of.args, value.type, span=span)
    return values.navigation(call, of, number, final=tree.args.get("side") == "FINAL")


def _classifier(binder: _MatchBinder, values: MatchValues, tree: FunctionCall) -> Expr:
    return _names(values, tree)


def _names(values: MatchValues, tree: FunctionCall) -> ColumnRef:
    """CLASSIFIER, as a column of the rows of a variable, a subset or the match."""
    given = tree.expressions
    if not given:
        return values.names(UNIVERSAL)
    if len(given) > 1 or not isinstance(given[0], exp.Column) or len(given[0].parts) > 1:
        raise BindError(
            "CLASSIFIER takes the name of a variable or of a subset",
            code="E1262",
            span=span_of(tree),
            hint="for example CLASSIFIER(S), with SUBSET S = (A, B)",
        )
    pattern = values.pattern
    names = [v.name for v in (*pattern.variables, *pattern.subsets)]
    return values.names(variable_number(given[0].name, names, span_of(given[0])))


def _match_rowtime(binder: _MatchBinder, values: MatchValues, tree: FunctionCall) -> Expr:
    span, given = span_of(tree), tree.expressions
    value = values.rowtime
    if given:
        inner = ExpressionBinder(binder.env, binder.scope, Clause("MATCH_ROWTIME"))
        (value,) = values.of_input((inner.bind(given[0]),), "MATCH_ROWTIME", span).args
    if len(given) > 1 or not value.type.is_rowtime:
        raise BindError(
            "MATCH_ROWTIME is of a column that carries event time",
            code="E1262",
            span=span,
            hint="MATCH_PROCTIME() is the time of processing" if not given else "leave its argument out",
        )
    of = _Of((value,), UNIVERSAL, False)
    return values.navigation(AggregateCall("LAST_VALUE", of.args, value.type, span=span), of, 0)


def _match_proctime(binder: _MatchBinder, values: MatchValues, tree: FunctionCall) -> Expr:
    return Call("PROCTIME", (), timestamp_ltz(3, TimeAttribute.PROCTIME).not_null(), span=span_of(tree))


def _match_number(binder: _MatchBinder, values: MatchValues, tree: FunctionCall) -> Expr:
    if values.is_tested:
        raise UnsupportedError(
            "MATCH_NUMBER is not supported in DEFINE", span=span_of(tree), hint="number the matches in MEASURES"
        )
    if tree.expressions:
        raise TypeMismatchError(
            "MATCH_NUMBER takes no arguments", code="E1301", span=span_of(tree), hint="write MATCH_NUMBER()"
        )
    return values.number()


def _refused(binder: _MatchBinder, values: MatchValues, tree: FunctionCall) -> Expr:
    name = tree.name.upper()
    raise UnsupportedError(f"{name} is not supported in MATCH_RECOGNIZE", span=span_of(tree), hint=_REFUSED[name])


_CALLS: dict[str, Callable[[_MatchBinder, MatchValues, FunctionCall], Expr]] = {
    **dict.fromkeys(_NAVIGATIONS, _navigation),
    "CLASSIFIER": _classifier,
    "MATCH_NUMBER": _match_number,
    "MATCH_ROWTIME": _match_rowtime,
    "MATCH_PROCTIME": _match_proctime,
    **dict.fromkeys(_REFUSED, _refused),
}
