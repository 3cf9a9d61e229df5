"""Let the source count, add and compare, when its connector can.

    Aggregate k: COUNT(*), SUM(x) (Scan t)   →   Aggregate k: $SUM0(c), SUM(s) (Scan t by k with c = COUNT(*), s = SUM(x))

Streaming: only for sources that end and only insert. The aggregate stays, over what the source gives of each group, so that
the result changes, and is NULL or missing, as without the rule. Never below AssignWatermark or a filter that the source does
not take.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from planner.logical.nodes import Aggregate, LogicalNode, Project, Scan
from planner.rule import Rule, RuleContext
from planner.traits.changes import is_append_only
from runtime.expr.nodes import AggregateCall, Column, ColumnRef, Literal, fresh_column
from runtime.spi.abilities import AggregateName, AskedAggregate, SupportsAggregates

__all__ = ["RULE"]

_PARTS: Mapping[str, str] = {"COUNT": "$SUM0", "SUM": "SUM", "MIN": "MIN", "MAX": "MAX"}
"""By function the one that puts its results together."""


def push_aggregate_into_scan(node: Aggregate, context: RuleContext) -> LogicalNode | None:
    scan = node.input.input if isinstance(node.input, Project) else node.input
    if (
        not isinstance(scan, Scan)
        or not isinstance(scan.table, SupportsAggregates)
        or not scan.table.bounded
        or node.ttl is not None
        or not is_append_only(scan, context.traits)
    ):
        return None
    names = {column.id: field.name for column, field in zip(scan.scanned, scan.table.schema, strict=True)}
    if isinstance(node.input, Project):
        # What a filter needed is left out above it; and constants are counted.
        items = {column.id: expr for column, expr in node.input.items}
        read = {id_: names.get(expr.id) for id_, expr in items.items() if isinstance(expr, ColumnRef)}
        rows = {id_ for id_, expr in items.items() if isinstance(expr, Literal) and expr.value is not None}
    else:
        read, rows = dict[int, str | None](names), set[int]()
    keys = list(node.columns[: len(node.group)])
    group = [name for c in keys if (name := read.get(c.id)) is not None]
    calls = [call for _, c in node.calls if (call := _asked(c, read, rows)) is not None]
    if len({*group}) < len(keys) or len(calls) < len(node.calls):
        return None
    table = scan.table.with_aggregates(group, calls)
    if table is None:
        return None
    made = [fresh_column(call.text, call.type) for call in calls]
    given = scan.with_(table=table, scanned=(*keys, *made), keys=(), known_keys=(), measured=None)
    together = tuple((column, _together(call, part)) for (column, call), part in zip(node.calls, made, strict=True))
    return node.with_(input=given, calls=together)


def _asked(call: AggregateCall, read: Mapping[int, str | None], rows: set[int]) -> AskedAggregate | None:
    """A call as the source is asked for it; None for one that is none of a single column. `rows`: columns of constants."""
    if call.function not in _PARTS or call.distinct or call.filter is not None or call.order_by:
        return None
    function = cast(AggregateName, call.function)
    match call.args:
        case ():
            return AskedAggregate(function, None, call.type)
        case (ColumnRef(id=id_),) if id_ in rows and function == "COUNT":
            return AskedAggregate(function, None, call.type)
        case (ColumnRef(id=id_),) if (name := read.get(id_)) is not None:
            return AskedAggregate(function, name, call.type)
        case _:
            return None


def _together(call: AggregateCall, part: Column) -> AggregateCall:
    return AggregateCall(_PARTS[call.function], (part.ref(),), call.type, span=call.span)


RULE = Rule("push_aggregate_into_scan", Aggregate, push_aggregate_into_scan)
