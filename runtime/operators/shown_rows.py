"""What top-n, deduplication of updates and the sink's repair have in common: of the rows of each partition, some are
shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.kernels.grouping import distinct_rows
from runtime.operators.operator import EpochTime, Operator, StateSize
from runtime.operators.touched_table import touched_table
from runtime.plan.nodes import DeduplicateExec, SinkMaterializeExec, SortSpec, TopNExec
from runtime.state.idle_slots import IdleSlots
from runtime.state.keyed import KeyIndex
from runtime.state.keyed_state import KeyedState
from runtime.state.ordered import OrderedRows
from runtime.state.row_table import row_table
from runtime.state.rows import Identity
from runtime.state.table import StateTable

__all__ = ["ShownRowsOperator"]

Shown = TypeVar("Shown")


class ShownRowsOperator(Operator, Generic[Shown]):
    """State: the rows of each partition in an order. Per epoch and partition that changed:

        before = shown rows; apply the changes; after = shown rows; send the difference

    `at_end` (in a batch plan): nothing but the rows shown at the end of the input.

    A partition that no change has come to for longer than the node's `ttl` is forgotten; nothing is
    sent for that. Subclasses say which rows are shown, and what the difference of two such answers is.
    """

    def __init__(
        self,
        node: TopNExec | DeduplicateExec | SinkMaterializeExec,
        order: Sequence[SortSpec],
        identity: Identity,
        unique: Sequence[int] = (),
        *,
        images: bool = False,
        at_end: bool = False,
    ) -> None:
        self._at_end = at_end
        kept = node.kept("rows")
        schema = kept.schema
        self._partition = tuple(kept.key)
        self._schema_of_rows = schema
        self._keys = KeyIndex.of(schema, self._partition)
        self._rows = OrderedRows(schema, order, identity, unique, totals=True, images=images)
        self._idle = IdleSlots(node.ttl) if node.ttl else None
        self._tables = [row_table(self._rows, kept, self._key_slots, of=self._rows.all)]
        self._touched: StateTable | None = None
        if self._idle is not None:
            self._touched = touched_table(self._keys, self._idle, node.kept("touched"))
            self._tables.append(self._touched)

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    @property
    def keyed(self) -> KeyedState:
        types = [self._schema_of_rows[p].type.arrow for p in self._partition]
        return KeyedState.of(self._keys, types, self._drop, expires=self._idle is not None)

    def _drop(self, partitions: np.ndarray) -> None:
        self._expire(partitions)
        if self._idle is not None:
            self._idle.forget(partitions)

    def _key_slots(self, columns: list[pa.Array]) -> np.ndarray:
        return self._keys.insert([columns[i] for i in self._partition], len(columns[0]))[0]

    @property
    def state_size(self) -> StateSize:
        return StateSize(self._rows.rows, self._rows.nbytes + self._keys.nbytes)

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        if self._idle is not None:
            self._expire(self._idle.expired(time.processing_time))
        (batch,) = inputs
        output = None if batch is None or not len(batch) else self._take_in(batch, time)
        if not self._at_end:
            return output
        if not time.ends:
            return None
        partitions = self._keys.live_slots()
        return self._difference(self._nothing(partitions), self._shown(partitions))

    def _take_in(self, batch: ChangelogBatch, time: EpochTime) -> ChangelogBatch | None:
        keys, _ = self._keys.insert([batch.column(i) for i in self._partition], len(batch))
        # In order of first touch, so that what comes out does not depend on where state stands.
        partitions = np.concatenate((keys, self._rows.keys_left(batch)))
        partitions = partitions[distinct_rows(partitions)]
        before = self._shown(partitions)
        changed = self._rows.apply(batch, keys)
        after = self._shown(partitions)
        changed = self._forget(changed, before, after)
        output = None if self._at_end else self._difference(before, after)
        self._rows.settle(changed)
        totals, _ = self._rows.totals(partitions)
        empty = partitions[totals == 0]
        if len(empty):
            self._keys.remove(empty)
        if self._idle is not None:
            self._idle.touch(partitions[totals > 0], time.processing_time)
            self._idle.forget(empty)
        if self._touched is not None:
            self._touched.wrote(partitions[totals > 0])
            self._touched.freed(empty)
        return output

    def _expire(self, partitions: np.ndarray) -> None:
        if len(partitions):
            _, slots = self._rows.all(partitions)
            self._rows.settle(self._rows.take_away(slots))
            self._keys.remove(partitions)
            if self._touched is not None:
                self._touched.freed(partitions)

    def _shown(self, partitions: np.ndarray) -> Shown:
        """The rows of the partitions that are shown now."""
        raise NotImplementedError

    def _nothing(self, partitions: np.ndarray) -> Shown:
        """What is shown of partitions that have no rows."""
        raise NotImplementedError

    def _difference(self, before: Shown, after: Shown) -> ChangelogBatch | None:
        """The changes from one answer to the next; rows that are gone can still be read."""
        raise NotImplementedError

    def _forget(self, changed: np.ndarray, before: Shown, after: Shown) -> np.ndarray:
        """A place to drop rows that can never be shown again; gives all rows whose count changed."""
        return changed

    def _one_each(self, partitions: np.ndarray, *, last: bool) -> np.ndarray:
        """The first or the last row slot of each partition, -1 for an empty one."""
        shown = np.full(len(partitions), -1, dtype=np.int64)
        index, slots = self._rows.last(partitions, 1) if last else self._rows.first(partitions, 1)
        shown[index] = slots
        return shown
