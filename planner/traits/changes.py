"""Which kinds of change a plan gives: the first pass of changelog inference (reference 0.3).

`changes(plan)` says whether rows may be updated or removed after they were inserted. The table is Flink's, so that
EXPLAIN agrees with it:
a filter that lets only the old image of an update pass sends that `-U` alone, and counts as updating, not as deleting.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Final

from planner.logical import nodes as n
from planner.logical.nodes import JoinKind, LogicalNode
from planner.traits.context import TraitContext
from planner.traits.keys import upsert_keys
from runtime.core.changelog import DELETE, UPDATE_AFTER, UPDATE_BEFORE, ChangelogMode
from runtime.core.node import Node, node
from runtime.expr.analysis import columns_of, follows_time
from runtime.expr.nodes import ColumnRef, SortKey

__all__ = ["ALL_CHANGES", "INSERTS", "Changes", "changes", "filters_on_key", "is_append_only"]


@node
class Changes(Node):
    """The kinds of change beside insertions."""

    update: bool = False
    delete: bool = False

    @property
    def append_only(self) -> bool:
        return not (self.update or self.delete)

    def union(self, other: Changes) -> Changes:
        return Changes(self.update or other.update, self.delete or other.delete)

    def mode(self, *, before: bool, key_only_deletes: bool = False) -> ChangelogMode:
        """The row kinds on an edge: old images are sent when `before` and there are updates."""
        return ChangelogMode(
            True, before and self.update, self.update, self.delete, key_only_deletes and self.delete and not before
        )


INSERTS: Final = Changes()
ALL_CHANGES: Final = Changes(True, True)


def changes(plan: LogicalNode, context: TraitContext) -> Changes:
    """What may happen to the rows of a plan after they were inserted: nothing in batch mode, where rows wait until they
    are final (`runtime/plan/at_end.py`)."""
    return INSERTS if context.batch else context.derive(_derive, plan)


def is_append_only(plan: LogicalNode, context: TraitContext) -> bool:
    return changes(plan, context).append_only


def filters_on_key(plan: n.Filter, context: TraitContext) -> bool:
    """Whether the predicate reads only columns of one upsert key, so that a row passes for its whole life or never."""
    if follows_time(plan.predicate):
        return False
    reads = columns_of(plan.predicate)
    return any(reads <= key for key in upsert_keys(plan.input, context))


def _derive(plan: LogicalNode, context: TraitContext) -> Changes:
    return _changes(plan, context)


@singledispatch
def _changes(plan: LogicalNode, context: TraitContext) -> Changes:
    raise NotImplementedError(f"no changes are defined for {type(plan).__name__}")


@_changes.register
def _(plan: n.Scan, context: TraitContext) -> Changes:
    if plan.table is None:
        return INSERTS
    mode = plan.table.changelog_mode
    return Changes(mode.update_after or mode.update_before, mode.delete)


@_changes.register
def _(plan: n.Shared, context: TraitContext) -> Changes:
    return changes(plan.plan, context)


@_changes.register
def _(plan: n.LastRound, context: TraitContext) -> Changes:
    return ALL_CHANGES if plan.revised else INSERTS


@_changes.register
def _(plan: n.Recursive, context: TraitContext) -> Changes:
    # A round never takes a row back that is there because of what only comes.
    inserts = is_append_only(plan.left, context) and is_append_only(plan.right, context)
    return INSERTS if inserts else ALL_CHANGES


@_changes.register
def _(plan: n.Values, context: TraitContext) -> Changes:
    return INSERTS


@_changes.register
def _(plan: n.Filter, context: TraitContext) -> Changes:
    given = changes(plan.input, context)
    return given.union(Changes(delete=True)) if follows_time(plan.predicate) else given


@_changes.register(n.Project)
@_changes.register(n.Remember)
@_changes.register(n.Expand)
@_changes.register(n.AssignWatermark)
@_changes.register(n.Unnest)
@_changes.register(n.LookupJoin)
@_changes.register(n.WindowTable)
@_changes.register(n.Sink)
def _(plan: n.Unary, context: TraitContext) -> Changes:
    return changes(plan.input, context)


@_changes.register
def _(plan: n.ProcessTables, context: TraitContext) -> Changes:
    return ALL_CHANGES if plan.updates else INSERTS


@_changes.register
def _(plan: n.FromChangelog, context: TraitContext) -> Changes:
    kinds = {kind for _, kind in plan.codes}
    return Changes(bool(kinds & {UPDATE_BEFORE, UPDATE_AFTER}), DELETE in kinds)


@_changes.register
def _(plan: n.Join, context: TraitContext) -> Changes:
    if plan.kind not in (JoinKind.INNER, JoinKind.SEMI):
        return ALL_CHANGES
    return changes(plan.left, context).union(changes(plan.right, context))


@_changes.register
def _(plan: n.MultiJoin, context: TraitContext) -> Changes:
    return changes(n.chain(plan), context)


@_changes.register
def _(plan: n.DependentJoin, context: TraitContext) -> Changes:
    return ALL_CHANGES


@_changes.register(n.CurrentJoin)
@_changes.register(n.VectorSearch)
def _(plan: n.CurrentJoin | n.VectorSearch, context: TraitContext) -> Changes:
    return changes(plan.left, context)


@_changes.register
def _(plan: n.TemporalJoin, context: TraitContext) -> Changes:
    return changes(plan.left, context) if plan.snapshot is None else INSERTS


@_changes.register
def _(plan: n.Aggregate, context: TraitContext) -> Changes:
    # Flink derives updates for DISTINCT too, although a group without calls never changes.
    # One that has a row over no input is made by an outer join with a constant row (planner/lower/aggregate.py).
    return ALL_CHANGES if plan.scalar else Changes(True, not is_append_only(plan.input, context))


@_changes.register
def _(plan: n.Match, context: TraitContext) -> Changes:
    return INSERTS


@_changes.register
def _(plan: n.Over, context: TraitContext) -> Changes:
    timed = all(ordered_by_time(call.order_by) for _, call in plan.calls)
    return INSERTS if timed else ALL_CHANGES


def ordered_by_time(keys: tuple[SortKey, ...]) -> bool:
    """Whether the first sort key is an ascending time attribute."""
    if not keys or keys[0].descending or not isinstance(keys[0].expr, ColumnRef):
        return False
    return keys[0].expr.type.time_attribute is not None


@_changes.register
def _(plan: n.Sort, context: TraitContext) -> Changes:
    if plan.limit is None and plan.offset == 0 and is_append_only(plan.input, context) and ordered_by_time(plan.keys):
        return INSERTS
    return ALL_CHANGES


@_changes.register
def _(plan: n.Limit, context: TraitContext) -> Changes:
    return INSERTS if is_append_only(plan.input, context) else ALL_CHANGES


@_changes.register
def _(plan: n.Union, context: TraitContext) -> Changes:
    given = INSERTS
    for part in plan.parts:
        given = given.union(changes(part, context))
    return given


@_changes.register(n.Intersect)
@_changes.register(n.Except)
def _(plan: n.Intersect | n.Except, context: TraitContext) -> Changes:
    # Flink counts the rows of both sides; only EXCEPT without ALL removes a row because one came on the right.
    inserts = is_append_only(plan.left, context) and is_append_only(plan.right, context)
    return Changes(True, not inserts or (isinstance(plan, n.Except) and not plan.all))


@_changes.register(n.AsofJoin)
@_changes.register(n.TopN)
def _(plan: LogicalNode, context: TraitContext) -> Changes:
    return ALL_CHANGES


@_changes.register
def _(plan: n.WindowAggregate, context: TraitContext) -> Changes:
    return INSERTS if plan.emit is None else Changes(True, not is_append_only(plan.input, context))


@_changes.register(n.ToChangelog)
@_changes.register(n.IntervalJoin)
@_changes.register(n.WindowJoin)
@_changes.register(n.WindowTopN)
def _(plan: LogicalNode, context: TraitContext) -> Changes:
    return INSERTS


@_changes.register
def _(plan: n.Deduplicate, context: TraitContext) -> Changes:
    if not plan.keep_last and is_append_only(plan.input, context):
        return INSERTS
    return ALL_CHANGES
