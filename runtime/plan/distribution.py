"""By which columns the input of an operator may be divided among tasks, so that each has all that it needs.

Rows of equal values in these columns go to the same task; what an operator keeps belongs to their key group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.core.changelog import ChangelogMode
from runtime.kernels.arrow_buffers import is_bytes_like, is_fixed
from runtime.plan import nodes as p
from runtime.plan.at_end import emits_at_end
from runtime.plan.nodes import PhysicalNode
from runtime.plan.windows import SessionWindow

__all__ = ["distribution", "leaves_memory"]

Keys = tuple[tuple[int, ...], ...]


def distribution(node: PhysicalNode) -> Keys | None:
    """Positions of the columns for each input; None for an operator that one task must run: it keeps nothing, or all of
    it belongs together, or changes of its input do not tell to which task the row went before."""
    found = _KEYS.get(type(node))
    keys = None if found is None else found(node)
    return keys if keys is not None and all(keys) else None


def leaves_memory(node: PhysicalNode) -> bool:
    """Whether keys that are not in use may be kept outside of memory: all that the operator keeps is by key and changes
    with rows of its key alone (or expires), every change tells the key, no part of the key is an array, map or
    row, and not all keys are asked for at the end of the input."""
    if type(node) not in _BY_KEY_ALONE or emits_at_end(node):
        return False
    if isinstance(node, p.DeduplicateExec):
        # The first row by time waits for the watermark.
        waits = node.time is not None and not node.keep_last and node.input.mode.is_append_only
        if waits:
            return False
    if isinstance(node, p.SinkMaterializeExec) and node.waits:
        return False
    keys = distribution(node)
    if keys is None:
        return False
    types = [node.inputs[0].schema[k].type.arrow for k in keys[0]]
    return all(is_fixed(t) or is_bytes_like(t) for t in types)


def _told(mode: ChangelogMode, keys: tuple[int, ...], unique: tuple[int, ...] | None) -> bool:
    """Whether every change of a row reaches the task that has it: an after-image or a delete by unique key alone does
    only if the columns are part of that key."""
    if not (mode.is_upsert or mode.key_only_deletes):
        return True
    return unique is not None and set(keys) <= set(unique)


def _one(keys: str) -> Callable[[Any], Keys | None]:
    """The columns of a field, for an input that is no upsert stream."""

    def found(node: Any) -> Keys | None:
        columns: tuple[int, ...] = getattr(node, keys)
        return (columns,) if _told(node.input.mode, columns, None) else None

    return found


def _both(node: Any) -> Keys | None:
    """The keys of a join of inputs that are no upsert streams."""
    told = _told(node.left.mode, node.left_keys, None) and _told(node.right.mode, node.right_keys, None)
    return (node.left_keys, node.right_keys) if told else None


def _hash_join(node: p.HashJoinExec) -> Keys | None:
    left = _told(node.left.mode, node.left_keys, node.left_unique)
    right = _told(node.right.mode, node.right_keys, node.right_unique)
    return (node.left_keys, node.right_keys) if left and right else None


def _temporal_join(node: p.TemporalJoinExec) -> Keys | None:
    left = _told(node.left.mode, node.left_keys, None)
    right = _told(node.right.mode, node.right_keys, node.right_keys)
    return (node.left_keys, node.right_keys) if left and right else None


def _top_n(node: p.TopNExec) -> Keys | None:
    return (node.partition,) if _told(node.input.mode, node.partition, node.unique) else None


def _normalize(node: p.ChangelogNormalizeExec) -> Keys | None:
    return (node.keys,)


def _final_rows(node: p.FinalRowsExec) -> Keys | None:
    return (tuple(range(len(node.schema))) if node.keys is None else node.keys,)


def _set_operation(node: p.SetOperationExec) -> Keys | None:
    every = tuple(range(len(node.schema)))
    told = _told(node.left.mode, every, None) and _told(node.right.mode, every, None)
    return (every, every) if told else None


def _window_table(node: p.WindowTableExec) -> Keys | None:
    if not isinstance(node.window, SessionWindow):
        return None
    return (node.partition,) if _told(node.input.mode, node.partition, None) else None


_BY_KEY_ALONE = frozenset(
    {
        p.GroupAggregateExec,
        p.HashJoinExec,
        p.TopNExec,
        p.DeduplicateExec,
        p.SetOperationExec,
        p.ChangelogNormalizeExec,
        p.SinkMaterializeExec,
    }
)

_KEYS: dict[type[PhysicalNode], Callable[[Any], Keys | None]] = {
    p.GroupAggregateExec: _one("keys"),
    p.WindowAggregateExec: _one("keys"),
    p.HashJoinExec: _hash_join,
    p.IntervalJoinExec: _both,
    p.TemporalJoinExec: _temporal_join,
    p.WindowJoinExec: _both,
    p.TopNExec: _top_n,
    p.DeduplicateExec: _one("keys"),
    p.WindowTopNExec: _one("partition"),
    p.OverAggregateExec: _one("partition"),
    p.SetOperationExec: _set_operation,
    p.ChangelogNormalizeExec: _normalize,
    p.FinalRowsExec: _final_rows,
    p.SinkMaterializeExec: _one("keys"),
    p.WindowTableExec: _window_table,
}
