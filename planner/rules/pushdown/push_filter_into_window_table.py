"""Filter rows before they are copied into their windows.

    Filter price > 10 (WindowTable TUMBLE of ts X)   →   WindowTable TUMBLE of ts (Filter price > 10 X)

Streaming: the watermark is assigned further down and does not change; late rows that the filter removes are no longer
counted as late. Not for conditions over the window columns. A SESSION window ends where a row is missing, so only
conditions over its partition columns may pass it.
"""

from __future__ import annotations

from planner.logical.build import filtered
from planner.logical.nodes import Filter, LogicalNode, WindowTable
from planner.rule import Rule, RuleContext
from planner.rules.pushdown.parting import part
from runtime.plan.windows import SessionWindow

__all__ = ["RULE"]


def push_filter_into_window_table(node: Filter, context: RuleContext) -> LogicalNode | None:
    if not isinstance(node.input, WindowTable):
        return None
    windows = node.input
    columns = windows.partition if isinstance(windows.window, SessionWindow) else windows.input.columns
    moved, kept = part(node.predicate, [c.id for c in columns], context, may_fail=True)
    return filtered(windows.with_(input=filtered(windows.input, moved)), kept) if moved else None


RULE = Rule("push_filter_into_window_table", Filter, push_filter_into_window_table)
