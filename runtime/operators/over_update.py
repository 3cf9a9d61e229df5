"""OVER in any order, over rows that come and go: what changes is sent again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.cancellation import look
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.eval.frames.frame_call import Frames
from runtime.eval.frames.layout import lay_out
from runtime.expr.nodes import FrameBound
from runtime.kernels.block_lists import BlockLists
from runtime.kernels.cancel import consolidate
from runtime.kernels.columns import ColumnStore, SlotAllocator
from runtime.kernels.grow import grown
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.interned import forget_unused
from runtime.kernels.key_encoding import KeyEncoder
from runtime.kernels.order_words import OrderEncoder
from runtime.kernels.sorted_runs import SortedRuns
from runtime.operators.column_equality import equal_columns
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.over_calls import OverCalls, range_numbers
from runtime.operators.touched_table import touched_table
from runtime.plan.nodes import OverAggregateExec
from runtime.plan.state import column_names
from runtime.state.idle_slots import IdleSlots
from runtime.state.keyed import KeyIndex
from runtime.state.table import StateTable

__all__ = ["OverUpdateOperator"]


class OverUpdateOperator(Operator):
    """Input columns, then one column per call. State: all rows in order, with the values that were sent for them.

    An epoch computes anew what may change, and sends what differs: `-D` of rows taken back, `-U` and `+U` (only `+U`
    when nobody needs old images) of rows whose values changed, `+I` of new rows, in this order. Ties in the order stand
    as they arrived; a row taken back is the oldest equal one.

    In a batch plan rows only come; all are sent, with their values, at the end of the input.

    A partition that no change has come to for longer than the node's `ttl` is forgotten; nothing is sent for that, and
    a row of it that is taken back later is passed over.

    Cost: where frames end at the current row and begin at the partition's start, the rows from the first change of a
    partition on, which are those to send again; with every row is noted what its partition carries after it. Other
    frames, DISTINCT, LAG, LEAD, NTILE, PERCENT_RANK, CUME_DIST and functions made of all values read the changed
    partitions whole.
    """

    def __init__(self, node: OverAggregateExec, context: OperatorContext) -> None:
        self._node = node
        self._at_end = node.emits_at_end
        self._calls = OverCalls(node, node.frame, context.functions)
        source = node.input.schema
        types = [t.arrow for t in source.types]
        partition = [source[i].type for i in node.partition]
        self._partitions = KeyIndex([t.arrow for t in partition], [t.nullable for t in partition])
        self._equal = KeyEncoder(types, [t.nullable for t in source.types], exact=True)
        self._equal_index = HashIndex(self._equal.width)
        self._equal_rows = BlockLists()
        self._key_of, self._partition_of = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._rows = SlotAllocator()
        self._store = ColumnStore(types)
        self._sent = ColumnStore([spec.type.arrow for spec in node.calls])
        self._order: OrderEncoder | None = None
        if node.order:
            self._order = OrderEncoder(
                [types[o.index] for o in node.order],
                [o.descending for o in node.order],
                [o.nulls_last for o in node.order],
            )
        self._sorted = SortedRuns(self._order.width if self._order is not None else 0)
        frame = node.frame
        self._resumes = (
            self._calls.from_start
            and (frame is None or frame.upper is FrameBound.CURRENT_ROW)
            and all(call.resumable for call in self._calls.calls)
        )
        names = column_names(source)
        kept = node.kept("rows")
        self._table = StateTable(
            kept.name,
            [
                *zip(names, types, strict=True),
                *((name, spec.type.arrow) for name, spec in zip(self._calls.names, node.calls, strict=True)),
                ("$arrival", pa.int64()),
            ],
            live=self._rows.live_slots,
            read=lambda rows: [
                *self._store.take(rows),
                *self._sent.take(rows),
                pa.array(self._sorted.seqs_of(rows)),
            ],
            load=self._load,
            key=kept.key_names,
        )
        self._idle = IdleSlots(node.ttl) if node.ttl else None
        self._touched: StateTable | None = None
        if self._idle is not None:
            self._touched = touched_table(self._partitions, self._idle, node.kept("touched"))

    @property
    def tables(self) -> Sequence[StateTable]:
        return (self._table,) if self._touched is None else (self._table, self._touched)

    def _load(self, given: list[pa.Array]) -> np.ndarray:
        order = np.argsort(given[-1].to_numpy(), kind="stable")
        width = len(self._node.input.schema)
        columns = [c.take(pa.array(order)) for c in given[:-1]]
        rows, _ = self._add(columns[:width], self._equal.encode(columns[:width]))
        self._sent.put(rows, columns[width:])
        placed = np.empty(len(order), np.int64)
        placed[order] = rows
        return placed

    def restored(self) -> None:
        """What partitions carry after each row is noted again: computed, not saved."""
        if not self._resumes:
            return
        slots = self._partitions.live_slots()
        segment, rows = self._sorted.range(slots, None, None)
        if len(rows):
            low = np.zeros((len(slots), self._sorted.width or 0), np.uint64)
            self._values(segment, rows, slots, low)

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        if self._idle is not None:
            self._expire(self._idle.expired(time.processing_time))
        (batch,) = inputs
        if self._at_end:
            if batch is not None and len(batch):
                rows, _ = self._add(batch.columns, self._equal.encode(batch.columns))
                self._sent.put(rows, [pa.nulls(len(rows), spec.type.arrow) for spec in self._node.calls])
            return self._all() if time.ends else None
        if batch is None or not len(batch):
            return None
        columns = batch.columns
        words = self._equal.encode(columns)
        kept, net = consolidate(words, batch.signs())
        removed = self._find(words[kept[net < 0]], -net[net < 0])
        added = np.repeat(kept[net > 0], net[net > 0])
        touched = [self._partition_of[removed]]
        gone = [*self._store.take(removed), *self._sent.take(removed)]
        if len(added):
            fresh, partitions = self._add([c.take(pa.array(added)) for c in columns], words[added])
            touched.append(partitions)
        else:
            fresh = np.empty(0, np.int64)
        changed = np.concatenate((removed, fresh))
        if not len(changed):
            return None
        slots, low = self._first_changes(np.concatenate(touched), changed)
        self._remove(removed)
        output = self._refresh(slots, low, gone, len(removed), fresh)
        if self._idle is not None:
            self._idle.touch(slots, time.processing_time)
        if self._touched is not None:
            self._touched.wrote(slots)
        self._forget(slots)
        return output

    def _all(self) -> ChangelogBatch | None:
        """All rows with their values."""
        slots = self._partitions.live_slots()
        segment, rows = self._sorted.range(slots, None, None)
        if not len(rows):
            return None
        low = np.zeros((len(slots), self._sorted.width or 0), np.uint64)
        values = self._values(segment, rows, slots, low)
        return ChangelogBatch.of([*self._store.take(rows), *values], self._node.schema)

    @property
    def state_size(self) -> StateSize:
        parts = (
            self._partitions,
            self._equal,
            self._equal_index,
            self._equal_rows,
            self._rows,
            self._store,
            self._sent,
            self._sorted,
            self._calls,
        )
        return StateSize(
            len(self._rows), sum(part.nbytes for part in parts) + self._key_of.nbytes + self._partition_of.nbytes
        )

    def _find(self, words: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """The oldest rows equal to each of the key words, as many as wanted; none for rows that are not there."""
        index, rows = self._equal_rows.probe(self._equal_index.find(words))
        rank = np.arange(len(index)) - np.searchsorted(index, index)
        return rows[rank < wanted[index]]

    def _add(self, columns: list[pa.Array], words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = self._rows.allocate(len(words))
        partitions, _ = self._partitions.insert([columns[i] for i in self._node.partition], len(rows))
        keys, _ = self._equal_index.insert(words)
        high = self._rows.high
        self._key_of, self._partition_of = grown(self._key_of, high), grown(self._partition_of, high)
        self._key_of[rows], self._partition_of[rows] = keys, partitions
        self._equal_rows.append(keys, rows)
        self._store.put(rows, columns)
        order = np.empty((len(rows), 0), np.uint64)
        if self._order is not None:
            order = self._order.encode([columns[o.index] for o in self._node.order])
            if self._sorted.width != self._order.width:
                self._sorted.widen(self._order.adapt)
        self._sorted.insert(partitions, order, None, rows)
        self._table.wrote(rows)
        return rows, partitions

    def _remove(self, rows: np.ndarray) -> None:
        if len(rows) == 0:
            return
        keys = self._key_of[rows]
        self._equal_rows.remove(keys, rows)
        distinct = np.unique(keys)
        self._equal_index.remove(distinct[self._equal_rows.counts(distinct) == 0])
        self._sorted.remove(rows)
        self._table.freed(rows)
        self._store.free(rows)
        self._sent.free(rows)
        self._rows.free(rows)

    def _expire(self, slots: np.ndarray) -> None:
        if len(slots):
            self._remove(self._sorted.range(slots, None, None)[1])
            self._forget(slots)

    def _first_changes(self, partitions: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The changed partitions, each once in the order given, and the order words of the first row that changes in
        each."""
        words = self._sorted.order_words_of(rows)
        order = np.lexsort((*words.T[::-1], partitions))
        first = order[np.flatnonzero(np.diff(partitions[order], prepend=-1))]
        first = first[np.argsort(np.unique(partitions, return_index=True)[1])]
        return partitions[first], words[first]

    def _refresh(
        self, slots: np.ndarray, low: np.ndarray, gone: list[pa.Array], gone_count: int, fresh: np.ndarray
    ) -> ChangelogBatch | None:
        """Computes the values of partitions, from their first change on, and tells what to send."""
        segment, rows = self._sorted.range(slots, low if self._resumes else None, None)
        is_new = np.zeros(self._rows.high, np.bool_)
        is_new[fresh] = True
        new = is_new[rows]
        values = self._values(segment, rows, slots, low) if len(rows) else []
        old = [c.slice(0, 0) for c in values]
        changed = np.zeros(len(rows), np.bool_)
        look()
        if values:
            known = np.flatnonzero(~new)
            take = pa.array(known)
            old = self._sent.take(rows[known])
            changed[known] = ~equal_columns(old, [v.take(take) for v in values], len(known))
            old = [o.filter(pa.array(changed[known])) for o in old]
            written = np.flatnonzero(changed | new)
            self._sent.put(rows[written], [v.take(pa.array(written)) for v in values])
            self._table.wrote(rows[written])
        look()
        parts: list[tuple[list[pa.Array], np.ndarray]] = []
        if gone_count:
            parts.append((gone, np.full(gone_count, DELETE, np.int8)))
        if changed.any():
            parts.append(self._updates(rows[changed], old, [v.filter(pa.array(changed)) for v in values]))
        if new.any():
            # New rows in order of arrival.
            place = np.empty(self._rows.high, np.int64)
            place[rows] = np.arange(len(rows))
            chosen = pa.array(place[fresh])
            parts.append(
                ([*self._store.take(fresh), *(v.take(chosen) for v in values)], np.full(len(fresh), INSERT, np.int8))
            )
        if not parts:
            return None
        columns = [pa.concat_arrays([part[0][i] for part in parts]) for i in range(len(self._node.schema))]
        return ChangelogBatch.of(columns, self._node.schema, np.concatenate([kinds for _, kinds in parts]))

    def _updates(self, rows: np.ndarray, old: list[pa.Array], new: list[pa.Array]) -> tuple[list[pa.Array], np.ndarray]:
        """Old and new images of rows, in pairs."""
        count = len(rows)
        if not self._node.mode.update_before:
            return [*self._store.take(rows), *new], np.full(count, UPDATE_AFTER, np.int8)
        pairs = pa.array(np.stack((np.arange(count), np.arange(count) + count), axis=1).reshape(-1))
        values = [pa.concat_arrays([o, n]).take(pairs) for o, n in zip(old, new, strict=True)]
        return [*self._store.take(np.repeat(rows, 2)), *values], np.tile(
            np.array([UPDATE_BEFORE, UPDATE_AFTER], np.int8), count
        )

    def _values(
        self, segment: np.ndarray, rows: np.ndarray, slots: np.ndarray, low_words: np.ndarray
    ) -> list[pa.Array]:
        """One column per call for rows in order; `segment` numbers the partitions, of which the rows before `low_words`
        are not among them if values are resumed."""
        new_peer = np.zeros(len(rows), np.bool_)
        if self._order is not None:
            words = self._sorted.order_words_of(rows)
            new_peer[1:] = (words[1:] != words[:-1]).any(axis=1)
        look()
        layout = lay_out(segment, new_peer)
        numbers = missing = None
        frame = self._calls.frame
        if frame is not None and frame.measures:
            order = self._node.order[0]
            numbers, missing = range_numbers(
                self._store.take_column(order.index, rows), order.descending, order.nulls_last
            )
        low, high = self._calls.bounds(layout, numbers, missing)
        needed = set(self._calls.needed)
        nothing = pa.nulls(0)
        columns = [
            self._store.take_column(i, rows) if i in needed else nothing for i in range(len(self._node.input.schema))
        ]
        frames = Frames(layout, columns, np.arange(len(rows), dtype=np.int64), low, high, self._calls.exclude)
        if not self._resumes:
            return self._calls.values(frames)
        heads = np.flatnonzero(np.diff(segment, prepend=-1))
        present = segment[heads]
        before = self._sorted.floor(slots[present], low_words[present], inclusive=False)
        self._calls.resume(before, self._sent.take(before))
        values = self._calls.run(frames, np.arange(len(heads), dtype=np.int64), heads, True)
        self._calls.note(rows)
        return values

    def _forget(self, slots: np.ndarray) -> None:
        """Forgets partitions without rows, and interned values that no row has."""
        found, _ = self._sorted.first(slots, 1)
        empty = np.ones(len(slots), np.bool_)
        empty[found] = False
        gone = slots[empty]
        self._partitions.remove(gone)
        if self._idle is not None:
            self._idle.forget(gone)
        if self._touched is not None:
            self._touched.freed(gone)
        forget_unused(self._equal_index, self._equal)
