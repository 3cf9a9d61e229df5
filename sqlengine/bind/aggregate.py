"""Aggregation: the plan under the groups, and what an expression over groups becomes.

Before:  SELECT UPPER(item), SUM(price * qty) ... GROUP BY UPPER(item)      with SUM(..) inside the expression
After:   Project[UPPER(item) as f0, price * qty as f1] -> Aggregate[f0, SUM(f1) as agg0], and references to f0 and agg0

With grouping sets an Expand stands between: each row once per set, with NULL for the keys that the set leaves out and a
number that tells the sets apart. With a window in GROUP BY a WindowTable stands there.

A time attribute among the keys becomes a plain timestamp, save window_time beside the start and end of the same window.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.logical.expressions import all_expressions, map_outer, outer_ids, walk_plan
from planner.logical.nodes import Aggregate, Expand, LogicalNode, Project, WindowTable
from runtime.core.errors import BindError, Span
from runtime.core.types import BIGINT, DataType
from runtime.expr.nodes import (
    AggregateCall,
    Call,
    Case,
    Cast,
    Column,
    ColumnRef,
    Expr,
    Literal,
    OuterRef,
    SubqueryExpr,
    fresh_column,
    map_children,
    walk,
)
from sqlengine.bind.calls import GROUPING_FUNCTIONS, WINDOW_PROPERTIES
from sqlengine.bind.grouping import GroupBy
from sqlengine.bind.operators import equality
from sqlengine.bind.table_functions import window_table

__all__ = ["Grouped", "group_distinct", "has_aggregates", "materialize_keys"]


def has_aggregates(expressions: Sequence[Expr]) -> bool:
    """Whether any of the expressions is only meaningful over groups."""
    return any(
        isinstance(e, AggregateCall) or (isinstance(e, Call) and e.function in GROUPING_FUNCTIONS | WINDOW_PROPERTIES)
        for root in expressions
        for e in walk(root)
    )


class _Projection:
    """Columns computed below a node that takes only columns: what is a column already stays, equal expressions are
    computed once.
    """

    def __init__(self) -> None:
        self.items: list[tuple[Column, Expr]] = []
        self._known: dict[Expr, ColumnRef] = {}
        self.computes = False

    def column(self, expr: Expr, type_: DataType | None = None) -> ColumnRef:
        known = self._known.get(expr)
        if known is None:
            if isinstance(expr, ColumnRef):
                column = expr.column
            else:
                self.computes = True
                column = fresh_column(f"f{len(self.items)}", type_ or expr.type)
            self.items.append((column, expr))
            known = self._known[expr] = column.ref()
        return known

    def argument(self, expr: Expr) -> Expr:
        """A constant stays as it is; anything else becomes a column."""
        return expr if isinstance(expr, Literal) else self.column(expr)

    def over(self, plan: LogicalNode) -> LogicalNode:
        return Project(plan, tuple(self.items)) if self.computes else plan


class Grouped:
    """A query's groups: `plan` gives a row per group, `rewrite` turns expressions over rows into expressions over
    groups.

    All expressions of the query that may hold aggregates are given at once, so that their arguments are computed in one
    projection.
    """

    def __init__(
        self, plan: LogicalNode, group: GroupBy, expressions: Sequence[Expr], mentions: dict[int, Span], ttl: int | None
    ) -> None:
        self._group = group
        self._mentions = mentions
        self._own = {c.id for c in plan.columns}
        self._meaning: dict[Expr, Expr] = {}
        self._gid: ColumnRef | None = None
        below = _Projection()
        keys = self._keys(plan, below)
        calls = self._calls(expressions, below)
        if group.window is not None:
            below.column(group.window.time)
        self._window: WindowTable | None = None
        plan = below.over(plan)
        if group.window is not None:
            plan = self._windowed(plan, keys)
            keys = [*keys, *(c.ref() for c in (self._window.start, self._window.end, self._window.window_time))]  # type: ignore[union-attr]
        elif not group.is_simple:
            plan, keys = self._expanded(plan, keys, calls)
        for key, ref in zip(group.keys, keys, strict=False):
            self._meaning[key] = ref
        self.plan: LogicalNode = Aggregate(plan, tuple(keys), tuple(calls.values()), ttl=ttl)

    def _keys(self, plan: LogicalNode, below: _Projection) -> list[ColumnRef]:
        kept = _window_times(plan, [k.id for k in self._group.keys if isinstance(k, ColumnRef)])
        found: list[ColumnRef] = []
        for key in self._group.keys:
            if key.type.time_attribute is not None and not (isinstance(key, ColumnRef) and key.id in kept):
                found.append(below.column(Cast(key, key.type.materialized())))
            else:
                found.append(below.column(key))
        return found

    def _calls(
        self, expressions: Sequence[Expr], below: _Projection
    ) -> dict[AggregateCall, tuple[Column, AggregateCall]]:
        calls: dict[AggregateCall, tuple[Column, AggregateCall]] = {}
        for expr in (e for root in expressions for e in walk(root)):
            if not isinstance(expr, AggregateCall) or expr in calls:
                continue
            over_columns = expr.with_(
                args=tuple(below.argument(a) for a in expr.args),
                filter=None if expr.filter is None else below.column(expr.filter),
                order_by=tuple(key.with_(expr=below.column(key.expr)) for key in expr.order_by),
            )
            column = fresh_column(f"agg{len(calls)}", expr.type)
            calls[expr] = (column, over_columns)
            self._meaning[expr] = column.ref()
        return calls

    def _windowed(self, plan: LogicalNode, keys: list[ColumnRef]) -> LogicalNode:
        window = self._group.window
        assert window is not None
        partition = tuple(keys) if window.name == "SESSION" else ()
        kind = window.time.type.with_(precision=3, nullable=window.time.type.is_rowtime)
        table = window_table(plan, window.time, window.spec, partition, window.span, window.name, kind, plain=True)
        self._window = table if window.emit is None else table.with_(emit=window.emit)
        return self._window

    def _expanded(
        self, plan: LogicalNode, keys: list[ColumnRef], calls: dict[AggregateCall, tuple[Column, AggregateCall]]
    ) -> tuple[LogicalNode, list[ColumnRef]]:
        group = self._group
        common = group.common
        out = [k if i in common else fresh_column(k.name, k.type.with_nullable(True)).ref() for i, k in enumerate(keys)]
        read = [keys[i] for i in sorted(common)]
        for _, call in calls.values():
            read += [
                a
                for a in (
                    *call.args,
                    *((call.filter,) if call.filter is not None else ()),
                    *(key.expr for key in call.order_by),
                )
                if isinstance(a, ColumnRef)
            ]
        passed = list(dict.fromkeys(read))
        gid = fresh_column("grouping_id", BIGINT.not_null())
        self._gid = gid.ref()
        varying = [i for i in range(len(keys)) if i not in common]
        produced = (*(p.column for p in passed), *(out[i].column for i in varying), gid)
        projections = tuple(
            (
                *passed,
                *(keys[i] if i in chosen else Literal(None, keys[i].type.with_nullable(True)) for i in varying),
                Literal(number, gid.type),
            )
            for number, chosen in enumerate(group.sets)
        )
        return Expand(plan, projections, produced), [*out, gid.ref()]

    # Expressions over groups

    def rewrite(self, expr: Expr) -> Expr:
        """The expression over the columns of `plan`.

        Raises:
            BindError: E1217 when it reads a column that is neither grouped nor aggregated.
        """
        meaning = self._meaning.get(expr)
        if meaning is not None:
            return meaning
        match expr:
            case ColumnRef(id=identity, name=name) if identity in self._own:
                raise self._not_grouped(identity, name)
            case Call(function=function) if function in GROUPING_FUNCTIONS:
                return self._grouping(expr)
            case Call(function=function) if function in WINDOW_PROPERTIES:
                return self._property(expr)
            case SubqueryExpr(plan=plan) if isinstance(plan, LogicalNode):
                return map_children(expr.with_(plan=self._inner(plan, expr.span)), self.rewrite)
            case _:
                return map_children(expr, self.rewrite)

    def _inner(self, plan: LogicalNode, span: Span | None) -> LogicalNode:
        """The plan of a subquery, with its references to grouped columns brought to those of the groups."""
        targets: dict[int, ColumnRef] = {}
        for identity in outer_ids(plan) & self._own:
            meaning = next((m for k, m in self._meaning.items() if isinstance(k, ColumnRef) and k.id == identity), None)
            if not isinstance(meaning, ColumnRef):
                raise self._not_grouped(identity, _outer_name(plan, identity), span)
            if meaning.id != identity:
                targets[identity] = meaning
        return _redirect(plan, targets) if targets else plan

    def _not_grouped(self, identity: int, name: str, span: Span | None = None) -> BindError:
        hint = "add it to GROUP BY, or aggregate it, for example MAX(..)"
        if any(isinstance(k, Literal) and k.type.is_integer for k in self._group.keys):
            hint = "a number in GROUP BY is a constant, not the position of a column: repeat the expression"
        return BindError(
            f'the column "{name}" is not grouped', code="E1217", span=span or self._mentions.get(identity), hint=hint
        )

    def _grouping(self, call: Call) -> Expr:
        group = self._group
        if call.function == "GROUP_ID":
            return self._by_set(
                [sum(frozenset(s) == frozenset(e) for e in group.sets[:i]) for i, s in enumerate(group.sets)]
            )
        positions: list[int] = []
        for arg in call.args:
            if arg not in group.keys:
                raise BindError(
                    f"{call.function} takes expressions of GROUP BY",
                    code="E1218",
                    span=call.span,
                    hint="name keys of GROUP BY, as they are written there",
                )
            positions.append(group.keys.index(arg))
        return self._by_set([sum((p not in s) << n for n, p in enumerate(reversed(positions))) for s in group.sets])

    def _by_set(self, values: list[int]) -> Expr:
        """A constant per grouping set."""
        literals = [Literal(v, BIGINT.not_null()) for v in values]
        if self._gid is None or len(set(values)) == 1:
            return literals[0]
        branches = tuple(
            (equality(self._gid, Literal(i, BIGINT.not_null())), value)
            for i, value in enumerate(literals[:-1])
            if value != literals[-1]
        )
        return Case(branches, literals[-1], BIGINT.not_null())

    def _property(self, call: Call) -> Expr:
        name, _, what = call.function.partition("_")
        window = self._group.window
        if window is None or self._window is None or window.name != name or window.args != call.args:
            raise BindError(
                f"{call.function} has no {name} with the same arguments in GROUP BY",
                code="E1216",
                span=call.span,
                hint="repeat the window exactly",
            )
        match what:
            case "START":
                return self._window.start.ref()
            case "END":
                return self._window.end.ref()
            case _:
                time = self._window.window_time
                if time.type.is_rowtime == (what == "ROWTIME"):
                    return time.ref()
                if what == "PROCTIME":
                    return Call("PROCTIME", (), call.type)
                raise BindError(
                    f"{call.function} does not fit the time attribute of the window",
                    code="E1216",
                    span=call.span,
                    hint=f"_ROWTIME is for windows of event time; {name}_PROCTIME and {name}_END are for both",
                )


def group_distinct(plan: LogicalNode) -> LogicalNode:
    """The different rows of a plan: one group per row, without calls. Time attributes become plain timestamps."""
    plan = materialize_keys(plan)
    return Aggregate(plan, tuple(c.ref() for c in plan.columns), ())


def materialize_keys(plan: LogicalNode) -> LogicalNode:
    """The plan with its time attributes as plain timestamps, save window_time beside its window's start and end."""
    kept = _window_times(plan, [c.id for c in plan.columns])
    if not any(c.type.time_attribute is not None and c.id not in kept for c in plan.columns):
        return plan
    items: list[tuple[Column, Expr]] = []
    for column in plan.columns:
        if column.type.time_attribute is None or column.id in kept:
            items.append((column, column.ref()))
        else:
            plain = column.type.materialized()
            items.append((fresh_column(column.name, plain), Cast(column.ref(), plain)))
    return Project(plan, tuple(items))


def _window_times(plan: LogicalNode, keys: list[int]) -> frozenset[int]:
    """Ids of the window_time columns whose window's start and end are both among the keys."""
    wanted = set(keys)
    return frozenset(
        n.window_time.id for n in walk_plan(plan) if isinstance(n, WindowTable) and {n.start.id, n.end.id} <= wanted
    )


def _outer_name(plan: LogicalNode, identity: int) -> str:
    return next((e.name for e in all_expressions(plan) if isinstance(e, OuterRef) and e.id == identity), "?")


def _redirect(plan: LogicalNode, targets: dict[int, ColumnRef]) -> LogicalNode:
    def change(ref: OuterRef) -> Expr:
        target = targets.get(ref.id)
        return ref if target is None else OuterRef(target.id, target.name, target.type)

    return map_outer(plan, change)
