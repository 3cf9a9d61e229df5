"""GROUP BY without windows: a result per group that changes as its rows come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch, plain_column
from runtime.eval.aggregates.aggregate_set import AggregateSet
from runtime.eval.aggregates.sums import RowCounts
from runtime.expr.function import AggregateFunction
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grouping import distinct_rows
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.interned import forget_unused
from runtime.kernels.key_encoding import KeyEncoder
from runtime.operators.column_equality import equal_columns
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.plan.nodes import GroupAggregateExec
from runtime.state.idle_slots import IdleSlots
from runtime.state.keyed_state import KeyedState
from runtime.state.table import TOUCHED, StateTable, every_row, shared_value

__all__ = ["GroupAggregateOperator"]


class GroupAggregateOperator(Operator):
    """Key columns, then one column per call.

    State: a hash index of the groups, their keys, and the accumulators; where the input takes rows back, also a count
        of live rows per group. Output, once per touched group and epoch, in order of first touch: `+I` when the group
        appears, `-U` and `+U` (only `+U` when nobody needs old images) when its result changed, `-D` when its last
        row is taken back. An unchanged result is not sent again, unless state expires (`ttl`): then downstream state
        must stay fresh; or an aggregate says that it is not deterministic. Without calls (DISTINCT) a group only appears
        and vanishes. A row taken back from a group that is not there (it expired) is ignored, as in Flink. In a batch
        plan every group comes once, at the end of the input.
    """

    def __init__(self, node: GroupAggregateExec, context: OperatorContext) -> None:
        source = node.input.schema
        self._node = node
        self._keys = node.keys
        types = [source[i].type for i in node.keys]
        arrow = [t.arrow for t in types]
        self._encoder = KeyEncoder(arrow, [t.nullable for t in types])
        self._index = HashIndex(self._encoder.width)
        self._key_store = ColumnStore(arrow)
        self._aggregates = AggregateSet(node.calls, source.types, functions=context.functions)
        self._aggregated = {i for c in node.calls for i in (*c.args, *(o.index for o in c.order_by))}
        retracts = not node.input.mode.is_append_only or any(c.retract for c in node.calls)
        self._live = RowCounts() if retracts else None
        self._at_end = node.emits_at_end
        # What was shown of a group is not known where its result is another each time.
        functions = (context.functions.find(call.function) for call in node.calls)
        self._sends_all = bool(node.ttl) or any(
            isinstance(f, AggregateFunction) and not f.deterministic for f in functions
        )
        self._next_seq = 0
        self._idle = IdleSlots(node.ttl) if node.ttl else None
        kept = node.kept("groups")
        self._groups = StateTable(
            kept.name,
            [
                *zip(kept.key_names, arrow, strict=True),
                *self._aggregates.columns(),
                *([] if self._live is None else [("$rows", pa.int64())]),
                *([] if self._idle is None else [(TOUCHED, pa.int64())]),
            ],
            live=self._index.live_slots,
            read=self._saved,
            load=self._load,
            key=kept.key_names,
            of=every_row,
            ttl=node.ttl,
        )
        self._tables = [
            self._groups,
            *self._aggregates.tables(self._groups),
            shared_value("arrivals", pa.int64(), lambda: self._next_seq, self._go_on_from),
        ]

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    @property
    def keyed(self) -> KeyedState:
        types = [self._node.input.schema[k].type for k in self._keys]
        return KeyedState(
            [t.arrow for t in types],
            [t.nullable for t in types],
            lambda columns, count: self._index.find(self._encoder.probe(columns, count)),
            self._key_store.take,
            self._index.live_slots,
            lambda: len(self._index),
            self._forget,
            self._idle is not None,
        )

    def _saved(self, slots: np.ndarray) -> list[pa.Array]:
        return [
            *self._key_store.take(slots),
            *self._aggregates.save(slots),
            *([] if self._live is None else [pa.array(self._live.at(slots))]),
            *([] if self._idle is None else [self._idle.times(slots)]),
        ]

    def _load(self, columns: list[pa.Array]) -> np.ndarray:
        keys = columns[: len(self._keys)]
        slots, _ = self._index.insert(self._encoder.encode(keys, len(columns[0]) if columns else 1))
        self._key_store.put(slots, keys)
        rest = columns[len(keys) :]
        if self._idle is not None:
            self._idle.restore(slots, rest.pop())
        if self._live is not None:
            self._live.restore(slots, rest.pop())
        self._aggregates.restore(slots, rest)
        return slots

    def _go_on_from(self, arrivals: list[object]) -> None:
        self._next_seq = max(cast("list[int]", arrivals))

    @property
    def takes_codes(self) -> bool:
        return True

    def takes_parts(self, position: int) -> bool:
        return True

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        if self._idle is not None:
            # Without a change downstream: Flink's rule.
            self._forget(self._idle.expired(time.processing_time))
        if self._at_end:
            for batch in inputs:
                if batch is not None and len(batch):
                    self._take_in(batch, time)
            return self.answer() if time.ends else None
        (batch,) = inputs
        return None if batch is None or not len(batch) else self._take_in(batch, time)

    def answer(self) -> ChangelogBatch | None:
        """All groups, as insertions."""
        slots = self._index.live_slots()
        if not len(slots):
            return None
        return ChangelogBatch.of([*self._key_store.take(slots), *self._aggregates.results(slots)], self._node.schema)

    def _take_in(self, batch: ChangelogBatch, time: EpochTime) -> ChangelogBatch | None:
        signs = None if batch.kinds is None else batch.signs()
        words = self._encoder.encode([batch.column(i) for i in self._keys], len(batch))
        slots, is_new = self._index.insert(words)
        if signs is not None and is_new.any() and (signs[is_new] < 0).any():
            kept = _known_rows(slots, is_new, signs)
            new_slots = slots[is_new]
            slots, signs, batch = slots[kept], signs[kept], batch.filter(kept)
            self._index.remove(np.setdiff1d(new_slots, slots))
            if not len(slots):
                return None
            is_new = np.zeros(len(slots), np.bool_)
            first = distinct_rows(slots)
            is_new[first] = np.isin(slots[first], new_slots)
        return self._apply(slots, is_new, signs, batch, time)

    @property
    def state_size(self) -> StateSize:
        live = 0 if self._live is None else self._live.values.nbytes
        parts = (self._index, self._encoder, self._key_store, self._aggregates)
        return StateSize(len(self._index), live + sum(part.nbytes for part in parts))

    def _apply(
        self, slots: np.ndarray, is_new: np.ndarray, signs: np.ndarray | None, batch: ChangelogBatch, time: EpochTime
    ) -> ChangelogBatch | None:
        first = distinct_rows(slots)
        touched, fresh = slots[first], is_new[first]
        if fresh.any():
            take = pa.array(first[fresh])
            self._key_store.put(touched[fresh], [batch.column(i).take(take) for i in self._keys])
        old_slots = touched[~fresh]
        old = [] if self._at_end else self._aggregates.results(old_slots)
        seqs = np.arange(self._next_seq, self._next_seq + len(slots), dtype=np.int64)
        self._next_seq += len(slots)
        # Keys may stay coded, what is aggregated may not; a column can be both.
        columns = [plain_column(c) if i in self._aggregated else c for i, c in enumerate(batch.columns)]
        self._aggregates.update(slots, signs, columns, seqs)
        gone = np.zeros(len(touched), np.bool_)
        if self._live is not None:
            self._live.add(slots, signs)
            gone = self._live.at(touched) <= 0
        self._groups.wrote(touched)
        output = None
        if not self._at_end:
            output = self._changes(touched, fresh, gone, old, self._aggregates.results(touched))
        if gone.any():
            self._forget(touched[gone])
        if self._idle is not None:
            self._idle.touch(touched[~gone], time.processing_time)
        return output

    def _changes(
        self, touched: np.ndarray, fresh: np.ndarray, gone: np.ndarray, old: list[pa.Array], new: list[pa.Array]
    ) -> ChangelogBatch | None:
        """The rows to send. `old` holds results of the touched groups that are not fresh."""
        if fresh.all() and not gone.any():
            return ChangelogBatch.of([*self._key_store.take(touched), *new], self._node.schema)
        place = np.cumsum(~fresh) - 1
        changed = ~fresh & ~gone & bool(self._node.calls)
        if not self._sends_all:
            known = np.flatnonzero(changed)
            if len(known) < len(touched):
                old_images, new_images = [_taken(c, place[known]) for c in old], [_taken(c, known) for c in new]
            else:
                old_images, new_images = old, new
            changed[known[equal_columns(old_images, new_images, len(known))]] = False
        appears, vanishes = fresh & ~gone, ~fresh & gone
        before = vanishes | (changed if self._node.mode.update_before else np.zeros(len(touched), np.bool_))
        after = appears | changed
        keys = self._key_store.take(touched)
        if not before.any():
            values, kinds = [*keys, *new], np.where(appears, INSERT, UPDATE_AFTER).astype(np.int8)
            if after.all():
                return ChangelogBatch.of(values, self._node.schema, kinds)
            sent = np.flatnonzero(after)
            if not len(sent):
                return None
            return ChangelogBatch.of([_taken(c, sent) for c in values], self._node.schema, kinds[sent])
        # Two places per group, the old image and the new one; those not sent are left out.
        sent = np.flatnonzero(_pairs(before, after))
        if not len(sent):
            return None
        group, row = sent >> 1, _pairs(place, place[-1] + 1 + np.arange(len(touched)))[sent]
        kinds = _pairs(np.where(vanishes, DELETE, UPDATE_BEFORE), np.where(appears, INSERT, UPDATE_AFTER))[sent]
        values = [_taken(pa.concat_arrays([o, n]), row) for o, n in zip(old, new, strict=True)]
        keys = [_taken(c, group) for c in keys]
        return ChangelogBatch.of([*keys, *values], self._node.schema, kinds.astype(np.int8))

    def _forget(self, slots: np.ndarray) -> None:
        if not len(slots):
            return
        self._groups.freed(slots)
        self._aggregates.release(slots)
        self._key_store.free(slots)
        self._index.remove(slots)
        if self._live is not None:
            self._live.release(slots)
        if self._idle is not None:
            self._idle.forget(slots)
        forget_unused(self._index, self._encoder)


def _pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Both arrays in one, in turns."""
    return np.stack((first, second), axis=1).ravel()


def _taken(column: pa.Array, rows: np.ndarray) -> pa.Array:
    """Rows (int64) that are known to be there."""
    return pc.take(column, pa.array(rows), boundscheck=False)


def _known_rows(slots: np.ndarray, is_new: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """False for the rows that take back from a group that has none: those at which a new group's running count sinks
    lower than ever below zero."""
    new_slots = slots[is_new]
    mark = np.zeros(int(slots.max()) + 1, np.bool_)
    mark[new_slots] = True
    rows = np.flatnonzero(mark[slots])
    rows = rows[np.argsort(slots[rows], kind="stable")]
    start = np.flatnonzero(np.diff(slots[rows], prepend=-1))
    running = np.cumsum(signs[rows], dtype=np.int64)
    lengths = np.diff(np.append(start, len(rows)))
    running -= np.repeat(running[start] - signs[rows][start], lengths)
    # The running minimum of each group: groups are set apart by offsets larger than any count.
    span = len(rows) + 2
    apart = np.repeat(np.arange(len(start), dtype=np.int64), lengths) * -2 * span
    lowest = np.minimum.accumulate(running + apart) - apart
    before = np.empty_like(lowest)
    before[1:] = lowest[:-1]
    before[start] = 0
    kept = np.ones(len(slots), np.bool_)
    kept[rows[(running < 0) & (running < np.minimum(before, 0))]] = False
    return kept
