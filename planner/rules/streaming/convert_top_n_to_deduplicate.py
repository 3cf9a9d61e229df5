"""The first row by time, or the last, is a deduplication.

    TopN ROW_NUMBER 1..1 by (k) order ts X        →   Deduplicate first by (k) of ts X
    TopN ROW_NUMBER 1..1 by (k) order ts DESC X   →   Deduplicate last by (k) of ts X

Streaming: one row per key in state; keeping the first is append-only, keeping the last updates. Only for a single
time attribute as the order and an append-only input; by any other column it stays a top-1. Where the row number
itself is read, it is the constant 1.
"""

from __future__ import annotations

from planner.logical.build import passing
from planner.logical.nodes import Deduplicate, LogicalNode, Project, RankFunction, TopN
from planner.rule import Rule, RuleContext
from planner.rules.streaming.time_attributes import time_attributes
from planner.traits.changes import is_append_only
from runtime.expr.nodes import ColumnRef, Literal

__all__ = ["RULE"]


def convert_top_n_to_deduplicate(node: TopN, context: RuleContext) -> LogicalNode | None:
    if (
        node.function is not RankFunction.ROW_NUMBER
        or (node.start, node.end) != (1, 1)
        or not node.partition
        or len(node.order) != 1
    ):
        return None
    (key,) = node.order
    if not isinstance(key.expr, ColumnRef) or key.expr.id not in time_attributes(node.input, context):
        return None
    if not is_append_only(node.input, context.traits):
        return None
    plan = Deduplicate(node.input, node.partition, key.expr, key.descending, node.ttl)
    if node.rank is None:
        return plan
    return Project(plan, (*passing(plan.columns), (node.rank, Literal(1, node.rank.type))))


RULE = Rule(
    "convert_top_n_to_deduplicate",
    TopN,
    convert_top_n_to_deduplicate,
    after=("convert_over_to_top_n", "convert_top_n_to_window_top_n"),
)
