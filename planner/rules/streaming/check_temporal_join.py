"""Refuse temporal joins that cannot be answered.

`left JOIN right FOR SYSTEM_TIME AS OF left.time` needs event time on the left, a versioned table on the right (a key
and event time), and the key covered by equalities. PlanningError says which is missing. Streaming: changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.logical.nodes import LogicalNode, TemporalJoin
from planner.rule import Rule, RuleContext
from planner.rules.streaming.time_attributes import is_rowtime, time_attributes
from planner.traits.conditions import split_equalities
from planner.traits.keys import unique_keys
from runtime.core.errors import PlanningError
from runtime.core.rooms import Room
from runtime.core.types import TimeAttribute
from runtime.expr.nodes import ColumnRef

if TYPE_CHECKING:
    import planner.logical.known_keys as _known_keys
else:
    _known_keys = Room("planner.logical.known_keys")

__all__ = ["RULE"]


def check_temporal_join(node: TemporalJoin, context: RuleContext) -> LogicalNode | None:
    if node.snapshot is not None:
        return _checked_snapshot(node, context)
    if node.time.type.is_proctime:
        return None
    if not isinstance(node.time, ColumnRef) or not is_rowtime(node.left, node.time.id, context):
        raise PlanningError(
            "FOR SYSTEM_TIME AS OF needs a time attribute of the left side",
            span=node.span,
            hint="use a column with a WATERMARK; a regular join or an aggregate below makes it a plain timestamp",
        )
    if TimeAttribute.ROWTIME not in time_attributes(node.right, context).values():
        raise PlanningError(
            "the right side of a temporal join has no event time",
            span=node.span,
            hint="declare WATERMARK FOR <column> on the versioned table; a view has to keep that column as it is, and an "
            "aggregate loses it",
        )
    # A kept answer has none of the versions that were before it was made.
    keys = unique_keys(_known_keys.without_known_keys(node.right)[0], context.traits)
    if not keys:
        raise PlanningError(
            "a temporal join needs a primary key in the versioned table, but none can be found",
            span=node.span,
            hint="declare PRIMARY KEY (...) NOT ENFORCED, or use a view that keeps the last row per key: SELECT .. FROM "
            "(SELECT *, ROW_NUMBER() OVER (PARTITION BY key ORDER BY time DESC) AS n FROM t) WHERE n = 1",
        )
    pairs, _ = split_equalities(node.condition, node.left, node.right)
    covered = {p.right.id for p in pairs if isinstance(p.right, ColumnRef)}
    if not any(key <= covered for key in keys):
        names = {c.id: c.name for c in node.right.columns}
        wanted = ", ".join(names.get(i, "?") for i in sorted(keys[0]))
        raise PlanningError(
            "the join condition must contain the primary key of the versioned table",
            span=node.span,
            hint=f"add equalities for: {wanted}",
        )
    return None


def _checked_snapshot(node: TemporalJoin, context: RuleContext) -> None:
    if TimeAttribute.ROWTIME not in time_attributes(node.right, context).values():
        raise PlanningError(
            "the table of SNAPSHOT has no event time",
            span=node.span,
            hint="declare WATERMARK FOR one of its columns, and keep that column in a view; an aggregate loses it",
        )
    if not split_equalities(node.condition, node.left, node.right)[0]:
        raise PlanningError(
            "a join with SNAPSHOT needs an equality between its sides",
            span=node.span,
            hint="write ON left.key = s.key",
        )


RULE = Rule(
    "check_temporal_join", TemporalJoin, check_temporal_join, after=("convert_temporal_to_lookup_join",), essential=True
)
