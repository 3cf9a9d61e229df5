"""Top-n of rows that are never taken back: only the best n of each partition are kept, as a small matrix of row
slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch, plain_column
from runtime.kernels.columns import ColumnStore, SlotAllocator
from runtime.kernels.grow import grown
from runtime.kernels.indexed import put_at
from runtime.kernels.order_words import OrderEncoder
from runtime.kernels.ranking import contenders, places_in_runs
from runtime.kernels.sort import run_starts, sort_words
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.touched_table import touched_table
from runtime.plan.nodes import RankFunction, TopNExec
from runtime.plan.state import column_names
from runtime.state.held_rows import RowsInPlace
from runtime.state.idle_slots import IdleSlots
from runtime.state.keyed import KeyIndex
from runtime.state.keyed_state import KeyedState
from runtime.state.table import StateTable

__all__ = ["MOST_KEPT", "AppendTopNOperator", "keeps_few"]

MOST_KEPT = 128
"""Beyond this n a matrix with n places for every partition would waste more than it saves."""


def keeps_few(node: TopNExec) -> bool:
    """Whether this operator can run the node: ROW_NUMBER up to a small n, over rows that are never taken back."""
    return (
        node.input.mode.is_append_only
        and node.function is RankFunction.ROW_NUMBER
        and node.end is not None
        and node.end <= MOST_KEPT
    )


class AppendTopNOperator(Operator):
    """Per epoch: drop rows that are no better than the n-th of their partition, take the best n of the rest, merge them
    with those kept.

    A partition that no row has entered for longer than the node's `ttl` is forgotten; nothing is sent for that.

    Costs a sort of the rows that survive the first step. Ties rank by arrival, so a row equal to the n-th is dropped.
    Output as `TopNOperator`'s; in a batch plan all rows once, at the end of the input.
    """

    def __init__(self, node: TopNExec, context: OperatorContext) -> None:
        del context
        assert node.end is not None
        self._node = node
        self._n = node.end
        self._at_end = node.emits_at_end
        schema = node.input.schema
        self._keys = KeyIndex.of(schema, node.partition)
        self._idle = IdleSlots(node.ttl) if node.ttl else None
        self._best = np.full((0, self._n), -1, dtype=np.int64)
        self._rows = ColumnStore([f.type.arrow for f in schema])
        self._slots = SlotAllocator()
        order = node.order
        self._encoder = OrderEncoder(
            [schema[s.index].type.arrow for s in order], [s.descending for s in order], [s.nulls_last for s in order]
        )
        self._words = np.zeros((0, self._encoder.width), dtype=np.uint64)
        self._arrival = np.zeros(0, dtype=np.int64)
        self._next_arrival = 0
        names = column_names(schema)
        kept = node.kept("rows")
        self._table = StateTable(
            kept.name,
            [*((name, f.type.arrow) for name, f in zip(names, schema, strict=True)), ("$arrival", pa.int64())],
            live=self._slots.live_slots,
            read=lambda slots: [*self._rows.take(slots, wide=True), pa.array(self._arrival[slots])],
            in_place=RowsInPlace(self._rows, self._slots, lambda slots: [pa.array(self._arrival[slots])]),
            load=self._load,
            key=kept.key_names,
            of=self._of,
            order=self._rows.reading_order,
        )
        self._touched = None if self._idle is None else touched_table(self._keys, self._idle, node.kept("touched"))

    @property
    def tables(self) -> Sequence[StateTable]:
        return (self._table,) if self._touched is None else (self._table, self._touched)

    @property
    def keyed(self) -> KeyedState:
        types = [self._node.input.schema[p].type.arrow for p in self._node.partition]
        return KeyedState.of(self._keys, types, self._drop, expires=self._idle is not None)

    def _of(self, partitions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        best = self._best[partitions]
        index, place = np.nonzero(best >= 0)
        return index, best[index, place]

    def _drop(self, partitions: np.ndarray) -> None:
        self._expire(partitions)
        if self._idle is not None:
            self._idle.forget(partitions)

    def _load(self, columns: list[pa.Array]) -> np.ndarray:
        *rows, arrivals = columns
        arrival = arrivals.to_numpy()
        keys, is_new = self._keys.insert([rows[i] for i in self._node.partition], len(arrival))
        self._grow(keys[is_new])
        words = self._encode(rows)
        slots = self._slots.allocate(len(arrival))
        self._put(slots, rows, words, arrival)
        by_arrival = np.argsort(arrival, kind="stable")
        columns_of_order = (keys.astype(np.uint64).reshape(-1, 1)[by_arrival], words[by_arrival])
        order = by_arrival[sort_words(np.concatenate(columns_of_order, axis=1))]
        self._best[keys[order], places_in_runs(keys[order])] = slots[order]
        self._next_arrival = max(self._next_arrival, int(arrival.max()) + 1)
        return slots

    @property
    def state_size(self) -> StateSize:
        size = self._rows.nbytes + self._keys.nbytes + self._best.nbytes + self._words.nbytes
        return StateSize(len(self._slots), size)

    @property
    def takes_codes(self) -> bool:
        return True

    def takes_parts(self, position: int) -> bool:
        return True

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        if self._idle is not None:
            self._expire(self._idle.expired(time.processing_time))
        (batch,) = inputs
        output = None if batch is None or not len(batch) else self._take_in(batch, time)
        if not self._at_end:
            return output
        if not time.ends:
            return None
        after = self._best[self._keys.live_slots()]
        return self._difference(np.full_like(after, -1), after)

    def _difference(self, before: np.ndarray, after: np.ndarray) -> ChangelogBatch | None:
        if self._node.rank_column:
            return self._ranks_that_changed(before, after)
        return self._rows_that_changed(before, after)

    def _take_in(self, batch: ChangelogBatch, time: EpochTime) -> ChangelogBatch | None:
        keys, is_new = self._keys.insert([batch.column(i) for i in self._node.partition], len(batch))
        self._grow(keys[is_new])
        words = self._encode(batch.columns)
        rows, owners, words = self._contenders(keys, words)
        if not len(rows):
            return None
        # The contenders stand in runs of one partition each.
        begins = run_starts(owners.view(np.uint64).reshape(-1, 1))
        touched = owners[begins]
        owner = np.repeat(np.arange(len(begins), dtype=np.int64), np.diff(np.append(begins, len(owners))))
        before = self._best[touched]
        after, gone = self._merged(batch, rows, owner, words, before)
        self._best[touched] = after
        output = None
        if not self._at_end:
            # In order of first touch, so that what comes out does not depend on where state stands.
            order = np.argsort(np.minimum.reduceat(rows, begins))
            output = self._difference(before[order], after[order])
        self._free(gone)
        if self._idle is not None:
            self._idle.touch(touched, time.processing_time)
        if self._touched is not None:
            self._touched.wrote(touched)
        return output

    def _expire(self, partitions: np.ndarray) -> None:
        if len(partitions):
            best = self._best[partitions]
            self._free(best[best >= 0])
            self._keys.remove(partitions)
            if self._touched is not None:
                self._touched.freed(partitions)

    def _put(self, slots: np.ndarray, rows: Sequence[pa.Array], words: np.ndarray, arrival: np.ndarray) -> None:
        self._words = grown(self._words, self._slots.high)
        self._arrival = grown(self._arrival, self._slots.high)
        put_at(self._words, slots, words)
        put_at(self._arrival, slots, arrival)
        self._rows.put(slots, rows)

    def _free(self, slots: np.ndarray) -> None:
        self._table.freed(slots)
        self._rows.free(slots)
        self._slots.free(slots)

    def _grow(self, fresh: np.ndarray) -> None:
        size = self._keys.capacity
        if size > len(self._best):
            wider = np.full((max(size, 2 * len(self._best)), self._n), -1, dtype=np.int64)
            wider[: len(self._best)] = self._best
            self._best = wider
        self._best[fresh] = -1

    def _encode(self, columns: Sequence[pa.Array]) -> np.ndarray:
        words = self._encoder.encode([plain_column(columns[s.index]) for s in self._node.order])
        if words.shape[1] != self._words.shape[1]:
            self._words = self._encoder.adapt(self._words)
        return words

    def _contenders(self, keys: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of the batch that may be among the best n: (positions, partition slots, order words), sorted by
        partition and order."""
        rows = contenders(keys, words, self._best, self._words)
        keys, words = keys[rows], words[rows]
        order = sort_words(np.concatenate((keys.astype(np.uint64).reshape(-1, 1), words), axis=1))
        keys = keys[order]
        place = places_in_runs(keys)
        chosen = order[place < self._n]
        return rows[chosen], keys[place < self._n], words[chosen]

    def _merged(
        self, batch: ChangelogBatch, rows: np.ndarray, owner: np.ndarray, words: np.ndarray, before: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The best n of each touched partition after the batch, and the slots that are no longer among them; stores the
        rows that come in."""
        old_owner, old_place = np.nonzero(before >= 0)
        old = before[old_owner, old_place]
        owners = np.concatenate((old_owner, owner))
        all_words = np.concatenate((self._words[old], words))
        order = sort_words(np.concatenate((owners.astype(np.uint64).reshape(-1, 1), all_words), axis=1))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = places_in_runs(owners[order])
        kept = place < self._n
        new = kept[len(old) :]
        slots = self._slots.allocate(int(new.sum()))
        arrival = self._next_arrival + rows[new]
        self._next_arrival += len(batch)
        self._put(slots, batch.take(rows[new]).columns, words[new], arrival)
        self._table.wrote(slots)
        after = np.full_like(before, -1)
        old_kept = kept[: len(old)]
        after[old_owner[old_kept], place[: len(old)][old_kept]] = old[old_kept]
        after[owner[new], place[len(old) :][new]] = slots
        return after, old[~old_kept]

    def _ranks_that_changed(self, before: np.ndarray, after: np.ndarray) -> ChangelogBatch | None:
        changed = before != after
        changed[:, : self._node.start - 1] = False
        owner, place = np.nonzero(changed)
        if not len(owner):
            return None
        old, new = before[owner, place], after[owner, place]
        kinds = np.where(old >= 0, UPDATE_AFTER, INSERT).astype(np.int8)
        if not self._node.mode.update_before:
            return self._batch(new, kinds, place + 1)
        was = np.flatnonzero(old >= 0)
        slots = np.concatenate((old[was], new))
        ranks = np.concatenate((place[was], place)) + 1
        all_kinds = np.concatenate((np.full(len(was), UPDATE_BEFORE, dtype=np.int8), kinds))
        order = np.argsort(np.concatenate((was * 2, np.arange(len(new)) * 2 + 1)), kind="stable")
        return self._batch(slots[order], all_kinds[order], ranks[order])

    def _rows_that_changed(self, before: np.ndarray, after: np.ndarray) -> ChangelogBatch | None:
        old, new = before[:, self._node.start - 1 :], after[:, self._node.start - 1 :]
        left = (old >= 0) & ~np.isin(old, new)
        entered = (new >= 0) & ~np.isin(new, old)
        slots = np.concatenate((old[left], new[entered]))
        if not len(slots):
            return None
        kinds = np.concatenate(
            (np.full(int(left.sum()), DELETE, np.int8), np.full(int(entered.sum()), INSERT, np.int8))
        )
        owner = np.concatenate((np.nonzero(left)[0], np.nonzero(entered)[0]))
        order = np.argsort(owner, kind="stable")
        return self._batch(slots[order], kinds[order], None)

    def _batch(self, slots: np.ndarray, kinds: np.ndarray, ranks: np.ndarray | None) -> ChangelogBatch:
        columns = self._rows.take(slots)
        if ranks is not None:
            columns.append(pa.array(ranks.astype(np.int64)))
        return ChangelogBatch.of(columns, self._node.schema, kinds)
