"""A time attribute that lost its watermark becomes a plain timestamp, and references say so.

    Join l.k = r.k X Y                    →   Project ts (plain), … (Join l.k = r.k X Y)
    Aggregate by (ts) …                   →   Project ts (plain), … (Aggregate by (ts) …)

Lost in regular joins, unwindowed aggregates, INTERSECT, EXCEPT, grouping sets, in a UNION where a part has none, and
on the looked-up or versioned side of a join (reference 3.1). Streaming: no state; who reads the type (sorting by
time, sinks, the schema of the result) then sees what is true. The values do not change.
"""

from __future__ import annotations

from planner.logical.expressions import map_expressions
from planner.logical.nodes import Except, Expand, Intersect, LogicalNode, Project, Union
from planner.rule import Rule, RuleContext
from planner.rules.streaming.time_attributes import time_attributes
from runtime.expr.nodes import Column, ColumnRef, Expr, transform

__all__ = ["RULE"]


def materialize_time_attributes(plan: LogicalNode, context: RuleContext) -> LogicalNode | None:
    changed = _changed(plan, context)
    return None if changed is plan else changed


def _changed(plan: LogicalNode, context: RuleContext) -> LogicalNode:
    inputs = tuple(_changed(source, context) for source in plan.inputs)
    node = plan.with_inputs(*inputs) if inputs else plan
    node = _own_columns(_referring(node), context)
    attributes = time_attributes(node, context)
    if all(c.type.time_attribute is None or c.id in attributes for c in node.columns):
        return node
    return Project(
        node, tuple((c if c.id in attributes else c.with_type(c.type.materialized()), c.ref()) for c in node.columns)
    )


def _referring(node: LogicalNode) -> LogicalNode:
    """The node with references that have their columns' time attributes."""
    columns = {c.id: c for source in node.inputs for c in source.columns}

    def change(e: Expr) -> Expr:
        if not isinstance(e, ColumnRef) or e.id not in columns:
            return e
        attribute = columns[e.id].type.time_attribute
        return e if attribute is e.type.time_attribute else e.with_(type=e.type.with_(time_attribute=attribute))

    return map_expressions(node, lambda e: transform(e, change))


def _own_columns(node: LogicalNode, context: RuleContext) -> LogicalNode:
    """Columns that the node itself declares, with the time attributes that they really have."""
    attributes = time_attributes(node, context)

    def typed(column: Column) -> Column:
        return column.with_type(column.type.with_(time_attribute=attributes.get(column.id)))

    match node:
        case Project(items=items):
            new = tuple((typed(c), e) for c, e in items)
            return node if all(a is b for (a, _), (b, _) in zip(new, items, strict=True)) else node.with_(items=new)
        case (
            Union(produced=produced)
            | Intersect(produced=produced)
            | Except(produced=produced)
            | Expand(produced=produced)
        ):
            columns = tuple(typed(c) for c in produced)
            return node if all(a is b for a, b in zip(columns, produced, strict=True)) else node.with_(produced=columns)
        case _:
            return node


RULE = Rule(
    "materialize_time_attributes",
    LogicalNode,
    materialize_time_attributes,
    after=("convert_join_to_interval_join", "convert_temporal_to_lookup_join"),
    whole_plan=True,
)
