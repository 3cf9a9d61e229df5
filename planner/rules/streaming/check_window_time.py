"""Refuse a window over a time column that lost its watermark on the way.

    WindowTable TUMBLE of ts (Join … )   →   PlanningError

Streaming: changes nothing. A regular join or an aggregate gives rows in no relation to the watermark, so no window
over them could ever be closed.
"""

from __future__ import annotations

from planner.logical.nodes import LogicalNode, WindowTable
from planner.rule import Rule, RuleContext
from planner.rules.streaming.time_attributes import time_attributes
from runtime.core.errors import PlanningError

__all__ = ["RULE"]


def check_window_time(node: WindowTable, context: RuleContext) -> LogicalNode | None:
    if node.time.type.time_attribute is None or node.time.id in time_attributes(node.input, context):
        return None
    raise PlanningError(
        f'the window function needs a time attribute, but "{node.time.name}" is {node.time.type.materialized()} here',
        span=node.span,
        hint="regular joins and aggregates make time attributes plain timestamps; "
        "use window_time, an interval join or a window join before the window",
    )


RULE = Rule(
    "check_window_time", WindowTable, check_window_time, after=("convert_join_to_interval_join",), essential=True
)
