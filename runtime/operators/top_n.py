"""Top-n: the rows of each partition whose rank lies within bounds, kept up to date.

State: the rows of each partition in order. From an append-only input only the rows within the bounds are kept, since no
other can come back; from an updating one all rows, because a deletion lets the next one move up.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.core.cancellation import look
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.operators.append_top_n import AppendTopNOperator, keeps_few
from runtime.operators.operator import Operator, OperatorContext
from runtime.operators.ranking import Ranked, ranked_rows
from runtime.operators.shown_rows import ShownRowsOperator
from runtime.plan.nodes import TopNExec
from runtime.state.keyed import KeyIndex
from runtime.state.rows import Identity

__all__ = ["TopNOperator", "top_n_operator"]


def top_n_operator(node: TopNExec, context: OperatorContext) -> Operator:
    """The operator that fits the input: rows that are never taken back need far less state."""
    return AppendTopNOperator(node, context) if keeps_few(node) else TopNOperator(node, context)


class TopNOperator(ShownRowsOperator[Ranked]):
    """For each partition that changed: its ranked rows before the epoch and after it, and the difference.

        before = ranked(partition); apply the changes; after = ranked(partition)
        without rank column: -D of rows that left, +I of rows that entered
        with rank column: per rank -U old / +U new, -D of ranks that no longer exist, +I of new ones

    Ties rank by arrival (Flink docs, Top-N). Without `-U` in the node's mode, a key that stays but shows another row
    gets a `+U` alone.
    """

    def __init__(self, node: TopNExec, context: OperatorContext) -> None:
        del context
        mode = node.input.mode
        images = mode.is_retract and not mode.key_only_deletes
        super().__init__(
            node,
            node.order,
            Identity.of(mode, node.unique),
            node.unique or (),
            images=images,
            at_end=node.emits_at_end,
        )
        self._node = node
        self._append_only = mode.is_append_only

    def _shown(self, partitions: np.ndarray) -> Ranked:
        return ranked_rows(self._rows, partitions, self._node.function, 1, self._node.end)

    def _nothing(self, partitions: np.ndarray) -> Ranked:
        nothing = np.empty(0, np.int64)
        return Ranked(nothing, nothing, nothing)

    def _difference(self, before: Ranked, after: Ranked) -> ChangelogBatch | None:
        return self._with_rank(before, after) if self._node.rank_column else self._without_rank(before, after)

    def _visible(self, ranked: Ranked) -> Ranked:
        return ranked if self._node.start <= 1 else ranked.filter(ranked.rank >= self._node.start)

    def _forget(self, changed: np.ndarray, before: Ranked, after: Ranked) -> np.ndarray:
        """Rows of an append-only input that are beyond the end will never be shown again."""
        if not self._append_only or self._node.end is None:
            return changed
        candidates = np.unique(np.concatenate((changed, before.slot)))
        look()
        beyond = np.setdiff1d(candidates, after.slot)
        look()
        self._rows.take_away(beyond)
        return np.union1d(changed, beyond)

    def _without_rank(self, before: Ranked, after: Ranked) -> ChangelogBatch | None:
        old, new = self._visible(before), self._visible(after)
        gone = _surplus(old.slot, new.slot)
        come = _surplus(new.slot, old.slot)
        gone_slots, come_slots = old.slot[gone], new.slot[come]
        partition = np.concatenate((old.partition[gone], new.partition[come]))
        kinds = np.concatenate((np.full(len(gone), DELETE, np.int8), np.full(len(come), INSERT, np.int8)))
        slots = np.concatenate((gone_slots, come_slots))
        order = np.argsort(partition, kind="stable")
        slots, kinds = slots[order], kinds[order]
        if self._node.mode.is_upsert and self._node.unique is not None:
            slots, kinds = self._as_upserts(slots, kinds)
        return self._batch(slots, kinds, None)

    def _as_upserts(self, slots: np.ndarray, kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A key that is deleted and inserted in one epoch is an update: its `-D` goes, its `+I` becomes `+U`."""
        if not len(slots):
            return slots, kinds
        assert self._node.unique is not None
        index = KeyIndex.of(self._node.input.schema, self._node.unique)
        ids, _ = index.insert([self._rows.take_column(p, slots) for p in self._node.unique], len(slots))
        deleted = np.isin(ids, ids[kinds == DELETE])
        inserted = np.isin(ids, ids[kinds == INSERT])
        both = deleted & inserted
        kinds = np.where(both & (kinds == INSERT), UPDATE_AFTER, kinds).astype(np.int8)
        keep = ~(both & (kinds == DELETE))
        return slots[keep], kinds[keep]

    def _with_rank(self, before: Ranked, after: Ranked) -> ChangelogBatch | None:
        old, new = self._visible(before), self._visible(after)
        if self._node.function.value != "ROW_NUMBER":
            return self._with_shared_ranks(old, new)
        # Rank r of partition p is one place; both sides are sorted by place.
        width = int(max(old.rank.max(initial=0), new.rank.max(initial=0))) + 1
        old_place, new_place = old.partition * width + old.rank, new.partition * width + new.rank
        at = np.searchsorted(new_place, old_place)
        at_safe = np.minimum(at, max(len(new_place) - 1, 0))
        stays = (new_place[at_safe] == old_place) if len(new_place) else np.zeros(len(old_place), dtype=bool)
        same = np.zeros(len(old_place), dtype=bool)
        same[stays] = new.slot[at_safe[stays]] == old.slot[stays]
        updated = stays & ~same
        is_new = np.ones(len(new_place), dtype=bool)
        is_new[at_safe[stays]] = False
        new_updated = np.zeros(len(new_place), dtype=bool)
        new_updated[at_safe[updated]] = True
        deleted = ~stays
        parts = [
            (old_place[deleted], old.slot[deleted], old.rank[deleted], DELETE),
            (new_place[is_new], new.slot[is_new], new.rank[is_new], INSERT),
            (new_place[new_updated], new.slot[new_updated], new.rank[new_updated], UPDATE_AFTER),
        ]
        if self._node.mode.update_before:
            parts.insert(0, (old_place[updated], old.slot[updated], old.rank[updated], UPDATE_BEFORE))
        return self._placed(parts)

    def _with_shared_ranks(self, old: Ranked, new: Ranked) -> ChangelogBatch | None:
        """RANK and DENSE_RANK: several rows may have one rank, so rows with their rank are compared as a bag."""
        width = int(max(old.rank.max(initial=0), new.rank.max(initial=0))) + 1
        old_rows, new_rows = old.slot * width + old.rank, new.slot * width + new.rank
        gone, come = _surplus(old_rows, new_rows), _surplus(new_rows, old_rows)
        return self._placed(
            [
                (old.partition[gone], old.slot[gone], old.rank[gone], DELETE),
                (new.partition[come], new.slot[come], new.rank[come], INSERT),
            ]
        )

    def _placed(self, parts: list[tuple[np.ndarray, np.ndarray, np.ndarray, int]]) -> ChangelogBatch | None:
        """Changes in order of their place; at one place in the order of the parts."""
        place = np.concatenate([p for p, _, _, _ in parts])
        order = np.argsort(place, kind="stable")
        slots = np.concatenate([s for _, s, _, _ in parts])[order]
        ranks = np.concatenate([r for _, _, r, _ in parts])[order]
        kinds = np.concatenate([np.full(len(p), kind, np.int8) for p, _, _, kind in parts])[order]
        return self._batch(slots, kinds, ranks)

    def _batch(self, slots: np.ndarray, kinds: np.ndarray, ranks: np.ndarray | None) -> ChangelogBatch | None:
        if not len(slots):
            return None
        columns = self._rows.take(slots)
        if ranks is not None:
            columns.append(pa.array(ranks, pa.int64()))
        return ChangelogBatch.of(columns, self._node.schema, kinds)


def _surplus(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """The positions in `ours` of values that stand more often there than in `theirs`: the last of them, ascending."""
    values, inverse = np.unique(np.concatenate((ours, theirs)), return_inverse=True)
    mine, other = inverse[: len(ours)], inverse[len(ours) :]
    surplus = np.bincount(mine, minlength=len(values)) - np.bincount(other, minlength=len(values))
    order = np.argsort(mine, kind="stable")
    sorted_ids = mine[order]
    starts = np.searchsorted(sorted_ids, np.arange(len(values)))
    counts = np.bincount(mine, minlength=len(values))
    from_end = counts[sorted_ids] - (np.arange(len(sorted_ids)) - starts[sorted_ids])
    return np.sort(order[from_end <= surplus[sorted_ids]])
