"""MATCH_RECOGNIZE: a `Match` that finds the matches and reads what MEASURES need of their rows, and a projection that
computes the measures.

A name stands for a row of a variable: `A.price` is that of the last row that is mapped to A, `price` that of the last row
of the match, in DEFINE the row that is tested. So each variable, and the match as a whole, has columns of its own while an
expression is bound; then they become what the `Match` computes.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.logical.match import Match, MatchItem
from planner.logical.nodes import LogicalNode, Project
from runtime.core.errors import BindError, Span, TypeMismatchError, UnsupportedError, did_you_mean
from runtime.core.types import TimeAttribute, timestamp_ltz
from runtime.expr.analysis import conjuncts
from runtime.expr.nodes import (
    AggregateCall,
    Call,
    Column,
    ColumnRef,
    Expr,
    Literal,
    SortKey,
    fresh_column,
    map_children,
    transform,
    walk,
)
from runtime.expr.rewrite import conjunction
from runtime.plan.pattern import UNIVERSAL, AfterMatch, Pattern, PatternVariable
from sqlengine.bind.coerce import as_boolean
from sqlengine.bind.expression import ExpressionBinder
from sqlengine.bind.match_pattern import read_pattern
from sqlengine.bind.scope import Scope, Source
from sqlengine.bind.session import BoundRelation, Clause, QueryEnv
from sqlengine.bind.sort_keys import sort_key
from sqlengine.bind.table_functions import milliseconds
from sqlengine.parse.nodes import FunctionCall, MatchRecognize
from sqlengine.parse.spans import span_of

__all__ = ["bind_match"]

_NAVIGATIONS = {"FIRST": "FIRST_VALUE", "LAST": "LAST_VALUE"}
_REFUSED = {
    "PREV": "LAST(x, 1) is the value of the row before, among those that are mapped",
    "NEXT": "test the row before in the condition of the variable behind it",
    "CLASSIFIER": "count the rows of a variable: COUNT(A.x)",
    "MATCH_NUMBER": "number the matches with ROW_NUMBER() OVER (ORDER BY ..) in a query around",
}
_SKIPS = {
    "PAST LAST ROW": AfterMatch.PAST_LAST_ROW,
    "TO NEXT ROW": AfterMatch.TO_NEXT_ROW,
    "TO FIRST": AfterMatch.TO_FIRST,
    "TO LAST": AfterMatch.TO_LAST,
}
_MEASURES = Clause("MEASURES", aggregates=True, subqueries=False)
_DEFINE = Clause("DEFINE", aggregates=True, subqueries=False)


def bind_match(tree: MatchRecognize, source: BoundRelation, env: QueryEnv) -> LogicalNode:
    """The matches of a relation: its partition columns, then the measures.

    Raises:
        BindError: E1260 for a pattern that cannot be matched, E1261 for a variable that is not in it, E1262 for a value
            that is of more than one variable, or a definition that has no meaning.
        UnsupportedError: what Flink refuses, too.
    """
    arguments = tree.args
    if arguments.get("rows") == "ALL ROWS PER MATCH":
        raise UnsupportedError(
            "ALL ROWS PER MATCH is not supported",
            span=span_of(tree),
            hint="ONE ROW PER MATCH gives a row for each match; ARRAY_AGG(A.x) in MEASURES holds the values of its rows",
        )
    if not arguments.get("measures"):
        raise BindError(
            "MATCH_RECOGNIZE needs MEASURES", code="E1262", span=span_of(tree), hint="for example MEASURES A.x AS x"
        )
    pattern = _pattern(tree, env)
    columns = source.plan.columns
    plain = ExpressionBinder(env, source.scope, Clause("MATCH_RECOGNIZE", subqueries=False))
    partition = _partition(arguments.get("partition_by") or (), plain)
    order = _order(tree, plain)
    rowtime = order[0].expr
    rooms = _Rooms(env, source.scope, columns, pattern, rowtime)
    alone, asked = _definitions(arguments["define"], rooms)
    tested = rooms.items
    rooms.items = []
    items: list[tuple[Column, Expr]] = [(c, c.ref()) for c, _ in partition]
    for measure in arguments["measures"]:
        name = measure.args["alias"]
        if any(c.name == name.name for c, _ in items):
            raise BindError(
                f'two columns of MATCH_RECOGNIZE are called "{name.name}"',
                code="E1262",
                span=span_of(name),
                hint="give the measure another name",
            )
        value = rooms.measure(measure.this)
        items.append((fresh_column(name.name, value.type), value))
    match = Match(
        source.plan, tuple(partition), order, pattern, tuple(alone), tuple(asked), tuple(tested), tuple(rooms.items)
    )
    return Project(match, tuple(items))


def _pattern(tree: MatchRecognize, env: QueryEnv) -> Pattern:
    read = read_pattern(tree.args["pattern"])
    variables = tuple(v for v, _ in read)
    after, kind, skip_to = tree.args.get("after"), AfterMatch.TO_NEXT_ROW, UNIVERSAL
    if after is not None:
        kind = _SKIPS[after.this]
        named = after.args.get("expression")
        if named is not None:
            skip_to = _number(named.name, variables, span_of(named))
            if kind is AfterMatch.TO_FIRST and skip_to == 0:
                raise BindError(
                    f'AFTER MATCH SKIP TO FIRST "{named.name}" leads to the first row of the match again',
                    code="E1260",
                    span=span_of(after),
                    hint="skip to a variable behind it, or SKIP TO NEXT ROW",
                )
    within = tree.args.get("within")
    length = 0
    if within is not None:
        binder = ExpressionBinder(env, Scope(), Clause("WITHIN", subqueries=False))
        # Flink takes a length that is not positive for none.
        length = max(milliseconds(binder.bind(within), "WITHIN", span_of(within)), 0)
    return Pattern(variables, kind, skip_to, length)


def _number(name: str, variables: tuple[PatternVariable, ...], span: Span | None) -> int:
    for number, variable in enumerate(variables):
        if variable.name == name:
            return number
    raise BindError(
        f'there is no variable "{name}" in PATTERN',
        code="E1261",
        span=span,
        hint=did_you_mean(name, [v.name for v in variables]) or "variables are named in PATTERN",
    )


def _partition(trees: list[exp.Expr] | tuple[()], binder: ExpressionBinder) -> list[tuple[Column, ColumnRef]]:
    found: list[tuple[Column, ColumnRef]] = []
    for tree in trees:
        value = binder.bind(tree)
        if not isinstance(value, ColumnRef):
            raise UnsupportedError(
                "PARTITION BY of MATCH_RECOGNIZE takes columns only",
                span=span_of(tree),
                hint="compute the value in a query in FROM",
            )
        if all(ref.id != value.id for _, ref in found):
            found.append((fresh_column(value.name, value.type), value))
    return found


def _order(tree: MatchRecognize, binder: ExpressionBinder) -> tuple[SortKey, ...]:
    order = tree.args.get("order")
    if order is None:
        raise BindError(
            "MATCH_RECOGNIZE needs ORDER BY", code="E1262", span=span_of(tree), hint="ORDER BY a time attribute first"
        )
    keys = tuple(sort_key(binder.bind(item.this), item) for item in order.expressions)
    first = keys[0]
    if first.descending or not isinstance(first.expr, ColumnRef) or first.expr.type.time_attribute is None:
        raise UnsupportedError(
            "MATCH_RECOGNIZE takes rows in the order of time",
            code="E1614",
            span=span_of(order.expressions[0]),
            hint="ORDER BY an ascending time attribute first; a column is one with WATERMARK FOR, or AS PROCTIME()",
        )
    return keys


def _definitions(trees: list[exp.Expr], rooms: _Rooms) -> tuple[list[tuple[int, Expr]], list[tuple[int, Expr]]]:
    """The conditions by variable: what they say of the row alone, and the rest."""
    alone: list[tuple[int, Expr]] = []
    asked: list[tuple[int, Expr]] = []
    defined: set[int] = set()
    for tree in trees:
        name = tree.args["alias"]
        number = _number(name.name, rooms.variables, span_of(name))
        if number in defined:
            raise BindError(
                f'the variable "{name.name}" is defined twice',
                code="E1262",
                span=span_of(name),
                hint="combine the conditions with AND",
            )
        defined.add(number)
        parts = conjuncts(rooms.condition(tree.this, number))
        of_match = {item[0].id for item in rooms.items}
        depends = [any(isinstance(e, ColumnRef) and e.id in of_match for e in walk(part)) for part in parts]
        for conditions, of_run in ((alone, False), (asked, True)):
            chosen = [part for part, depending in zip(parts, depends, strict=True) if depending is of_run]
            if chosen:
                conditions.append((number, conjunction(chosen)))
    return alone, asked


class _Rooms:
    """The variables with their columns, and what expressions have been found to read of the rows of a match.

    `items`: the values of the rows of variables so far.
    """

    def __init__(
        self, env: QueryEnv, scope: Scope, columns: tuple[Column, ...], pattern: Pattern, rowtime: Expr
    ) -> None:
        self.variables = pattern.variables
        self.items: list[MatchItem] = []
        self.rowtime = rowtime
        self._tested: int | None = None
        self._of: dict[int, tuple[int, ColumnRef]] = {}
        by_id = {c.id: c for c in columns}

        def copies(variable: int) -> dict[int, Column]:
            made = {c.id: fresh_column(c.name, c.type) for c in columns}
            self._of.update({copy.id: (variable, by_id[id_].ref()) for id_, copy in made.items()})
            return made

        named = [(c.name, c.id) for source in scope.sources for c in source.columns]
        sources: list[Source] = []
        for number, variable in enumerate(self.variables):
            made = copies(number)
            sources.append(Source(variable.name, tuple(Column(made[i].id, n, made[i].type) for n, i in named)))
        whole = copies(UNIVERSAL)
        shows: list[tuple[str, Expr]] = [(n, Column(whole[i].id, n, whole[i].type).ref()) for n, i in named]
        self._env = env
        self._scope = Scope(sources, shows)

    def measure(self, tree: exp.Expr) -> Expr:
        self._tested = None
        return self._bound(tree, _MEASURES)

    def condition(self, tree: exp.Expr, variable: int) -> Expr:
        """A condition of DEFINE."""
        self._tested = variable
        return as_boolean(self._bound(tree, _DEFINE), "DEFINE", span_of(tree))

    def _bound(self, tree: exp.Expr, clause: Clause) -> Expr:
        return self._resolved(_MatchBinder(self, self._env, self._scope, clause).bind(tree))

    def _resolved(self, expr: Expr) -> Expr:
        """The expression over the columns of items, and of the row that is tested."""
        if isinstance(expr, ColumnRef):
            if expr.id not in self._of:
                return expr
            variable, column = self._of[expr.id]
            return self.navigation(AggregateCall("LAST_VALUE", (column,), expr.type), variable, 0)
        if isinstance(expr, AggregateCall):
            return self._aggregate(expr)
        return map_children(expr, self._resolved)

    def navigation(self, call: AggregateCall, variable: int, offset: int) -> Expr:
        """A value of one row; call is over the columns of the input."""
        last = call.function == "LAST_VALUE"
        if self._tested is not None and last and not offset and variable in (self._tested, UNIVERSAL):
            return call.args[0]
        least = sum(v.least for v in self.variables) if variable == UNIVERSAL else self.variables[variable].least
        sure = self._tested is None and least > offset
        return self._item(variable, offset, call if sure else call.with_(type=call.type.with_nullable(True)))

    def _aggregate(self, call: AggregateCall) -> Expr:
        if call.distinct:
            raise UnsupportedError(
                f"{call.function}(DISTINCT ..) is not supported in MATCH_RECOGNIZE",
                span=call.span,
                hint="leave DISTINCT out",
            )
        if call.filter is not None or call.order_by:
            raise UnsupportedError(
                f"{call.function} takes neither FILTER nor ORDER BY in MATCH_RECOGNIZE",
                span=call.span,
                hint="give NULL to what is to be left out: SUM(CASE WHEN A.x > 0 THEN A.x END)",
            )
        args, variable = self.of_input(call.args, call.function, call.span)
        return self._item(variable, None, call.with_(args=args))

    def _item(self, variable: int, offset: int | None, call: AggregateCall) -> Expr:
        for column, of, at, known in self.items:
            if (of, at, known) == (variable, offset, call):
                return column.ref()
        name = "match" if variable == UNIVERSAL else self.variables[variable].name
        column = fresh_column(f"{name}.{len(self.items)}", call.type)
        self.items.append((column, variable, offset, call))
        return column.ref()

    def of_input(self, args: tuple[Expr, ...], name: str, span: Span | None) -> tuple[tuple[Expr, ...], int]:
        """Arguments over the columns of the input, and the one variable whose rows they are of."""
        variables = {
            self._of[e.id][0] for arg in args for e in walk(arg) if isinstance(e, ColumnRef) and e.id in self._of
        }
        if len(variables) > 1:
            names = sorted("all rows" if v == UNIVERSAL else self.variables[v].name for v in variables)
            raise BindError(
                f"{name} is of the rows of one variable, not of those of {' and '.join(names)}",
                code="E1262",
                span=span,
                hint=f"combine the values of each: {name}(A.x) + {name}(B.x)",
            )

        def change(e: Expr) -> Expr:
            return self._of[e.id][1] if isinstance(e, ColumnRef) and e.id in self._of else e

        return tuple(transform(arg, change) for arg in args), variables.pop() if variables else UNIVERSAL


class _MatchBinder(ExpressionBinder):
    """Binds an expression of MEASURES or DEFINE: functions of the rows of a match are items of the rooms."""

    def __init__(self, rooms: _Rooms, env: QueryEnv, scope: Scope, clause: Clause) -> None:
        super().__init__(env, scope, clause)
        self._rooms = rooms

    def bind(self, tree: exp.Expr) -> Expr:
        if isinstance(tree, FunctionCall) and not tree.qualifier:
            name = tree.name.upper()
            rule = _CALLS.get(name)
            if rule is not None and (name not in _NAVIGATIONS or not self._is_function(name)):
                return rule(self, self._rooms, tree)
        return super().bind(tree)

    def _is_function(self, name: str) -> bool:
        return self.env.context.functions.find(name) is not None


def _navigation(binder: _MatchBinder, rooms: _Rooms, tree: FunctionCall) -> Expr:
    name, span = tree.name.upper(), span_of(tree)
    given = tree.expressions
    if len(given) not in (1, 2):
        raise TypeMismatchError(
            f"{name} takes a value and how many rows on it is",
            code="E1301",
            span=span,
            hint=f"for example {name}(A.x, 1)",
        )
    inner = ExpressionBinder(binder.env, binder.scope, Clause(f"the arguments of {name}", subqueries=False))
    offset = inner.bind(given[1]) if len(given) == 2 else None
    number = 0 if offset is None else offset.value if isinstance(offset, Literal) else None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise TypeMismatchError(
            f"the offset of {name} is a whole number, at least 0",
            code="E1309",
            span=span_of(given[-1]),
            hint=f"for example {name}(A.x, 1)",
        )
    (value,), variable = rooms.of_input((inner.bind(given[0]),), name, span)
    call = AggregateCall(_NAVIGATIONS[name], (value,), value.type, span=span)
    return rooms.navigation(call, variable, number)


def _match_rowtime(binder: _MatchBinder, rooms: _Rooms, tree: FunctionCall) -> Expr:
    span, given = span_of(tree), tree.expressions
    value = rooms.rowtime
    if given:
        (value,), _ = rooms.of_input((binder.within(Clause("MATCH_ROWTIME")).bind(given[0]),), "MATCH_ROWTIME", span)
    if len(given) > 1 or not value.type.is_rowtime:
        raise BindError(
            "MATCH_ROWTIME is of a column that carries event time",
            code="E1262",
            span=span,
            hint="MATCH_PROCTIME() is the time of processing" if not given else "leave its argument out",
        )
    return rooms.navigation(AggregateCall("LAST_VALUE", (value,), value.type, span=span), UNIVERSAL, 0)


def _match_proctime(binder: _MatchBinder, rooms: _Rooms, tree: FunctionCall) -> Expr:
    return Call("PROCTIME", (), timestamp_ltz(3, TimeAttribute.PROCTIME).not_null(), span=span_of(tree))


def _refused(binder: _MatchBinder, rooms: _Rooms, tree: FunctionCall) -> Expr:
    name = tree.name.upper()
    raise UnsupportedError(f"{name} is not supported in MATCH_RECOGNIZE", span=span_of(tree), hint=_REFUSED[name])


_CALLS: dict[str, Callable[[_MatchBinder, _Rooms, FunctionCall], Expr]] = {
    **dict.fromkeys(_NAVIGATIONS, _navigation),
    "MATCH_ROWTIME": _match_rowtime,
    "MATCH_PROCTIME": _match_proctime,
    **dict.fromkeys(_REFUSED, _refused),
}
