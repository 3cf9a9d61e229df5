"""MATCH_RECOGNIZE."""

from __future__ import annotations

from planner.logical import nodes as n
from planner.logical.match import MatchItem
from planner.lower.aggregate import aggregate_input
from planner.lower.consumers import require_append_only
from planner.lower.lowering import Lowered, Lowering, lower_node, schema_of
from planner.traits.changes import ordered_by_time
from planner.traits.naming import place_of
from planner.traits.update_kind import Demand
from runtime.core.changelog import APPEND
from runtime.core.errors import UnsupportedError
from runtime.expr.nodes import ColumnRef, Expr, InputRef, transform
from runtime.plan.nodes import MatchExec
from runtime.plan.pattern import MatchRows, MatchValue

__all__: list[str] = []


@lower_node.register
def _(plan: n.Match, run: Lowering, demand: Demand) -> Lowered:
    if not ordered_by_time(plan.order):
        raise UnsupportedError(
            "MATCH_RECOGNIZE takes rows in the order of time",
            code="E1614",
            span=place_of(plan),
            hint="ORDER BY an ascending time attribute first; a column is one with WATERMARK FOR, or AS PROCTIME()",
        )
    require_append_only(plan, "MATCH_RECOGNIZE", run.traits)
    source, partition = run.with_columns(run.input(plan, 0), [ref for _, ref in plan.partition])
    source, order = run.sort_specs(source, plan.order)
    source, alone = run.with_columns(source, [e for _, e in plan.alone])
    items = (*plan.tested, *plan.found)
    source, _, calls = aggregate_input(run, source, (), [item.call for item in items], retract=False)
    values = tuple(
        MatchValue(item.variable, call, item.offset, item.names, item.side)
        for item, call in zip(items, calls, strict=True)
    )
    tested = values[: len(plan.tested)]
    node = MatchExec(
        source.node,
        partition,
        order,
        plan.pattern,
        tuple((v, at) for (v, _), at in zip(plan.alone, alone, strict=True)),
        tuple((v, _over_both(e, source, plan.tested)) for v, e in plan.asked),
        tested,
        values[len(plan.tested) :],
        plan.order[0].expr.type.is_rowtime,
        any(
            item.column.type.is_rowtime and (plan.rows is not MatchRows.ONE or not _is_last_row(item))
            for item in plan.found
        )
        or any(c.type.is_rowtime for c, _ in plan.partition),
        schema_of(plan.columns),
        APPEND,
        plan.rows,
    )
    return Lowered(node, tuple(c.id for c in plan.columns))


def _is_last_row(item: MatchItem) -> bool:
    """Whether it is of the last row of the match."""
    return item.variable < 0 and item.offset == 0 and item.call.function == "LAST_VALUE"


def _over_both(expr: Expr, source: Lowered, tested: tuple[MatchItem, ...]) -> Expr:
    """A condition over the columns of the input and those behind them."""
    width = len(source.ids)
    at = {item.column.id: width + i for i, item in enumerate(tested)}
    positions = source.positions

    def change(e: Expr) -> Expr:
        if not isinstance(e, ColumnRef):
            return e
        return InputRef(at[e.id], e.type) if e.id in at else InputRef(positions[e.id], e.type)

    return transform(expr, change)
