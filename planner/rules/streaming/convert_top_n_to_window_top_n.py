"""A top-n whose partition holds a window is final when the window closes.

    TopN 1..2 by (window_start, window_end, item) order price DESC X
      →   WindowTopN 1..2 window (window_start, window_end) by (item) order price DESC X

Window deduplication (`= 1` ordered by time) is the same. Streaming: append-only, emitted once per window; state is
freed then. The input must be append-only and carry its window from a window function, aggregate or join; else the
top-n is followed row by row.
"""

from __future__ import annotations

from planner.logical.nodes import LogicalNode, TopN, WindowTopN
from planner.rule import Rule, RuleContext
from planner.rules.streaming.windowed import window_on
from planner.traits.changes import is_append_only

__all__ = ["RULE"]


def convert_top_n_to_window_top_n(node: TopN, context: RuleContext) -> LogicalNode | None:
    window = window_on(node.input, frozenset(p.id for p in node.partition), context)
    if window is None or node.end is None or not is_append_only(node.input, context.traits):
        return None
    refs = {p.id: p for p in node.partition}
    partition = tuple(p for p in node.partition if p.id not in window.columns)
    return WindowTopN(
        node.input,
        node.function,
        partition,
        (refs[window.start], refs[window.end]),
        node.order,
        node.start,
        node.end,
        node.rank,
    )


RULE = Rule("convert_top_n_to_window_top_n", TopN, convert_top_n_to_window_top_n, after=("convert_over_to_top_n",))
