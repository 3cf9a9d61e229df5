"""Rows that are enriched with what is found for them when they come, and never corrected: what lookup joins share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Schema
from runtime.kernels.block_lists import BlockLists
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grow import grown
from runtime.kernels.slots import SlotAllocator
from runtime.operators.join_output import PairOutput
from runtime.operators.operator import PIECE_MAX_ROWS, EpochTime, OperatorContext, PiecewiseOperator, StateSize
from runtime.plan.nodes import CurrentJoinExec, JoinKind, LookupJoinExec
from runtime.plan.state import column_names
from runtime.state.row_table import RowColumn, row_table
from runtime.state.rows import Identity, RowStore
from runtime.state.table import OWNER, StateTable

__all__ = ["EnrichingOperator", "KeptAnswers"]


class EnrichingOperator(PiecewiseOperator):
    """INNER or LEFT; `found` says what there is for rows, and subclasses implement it.

    No state for inserts and for upserts (row kinds pass on; the reader goes by key). For an input that takes rows
    back the answers are kept with the rows, so that a row leaves with what it came with, whatever there is by then: Flink
    looks up again and may take back rows that it never gave ("non-deterministic update"). They are forgotten when the row
    has not changed for longer than the node's `ttl`; nothing is sent for that.

    Args:
        right: the columns that are found.
    """

    def __init__(self, node: LookupJoinExec | CurrentJoinExec, right: Schema, context: OperatorContext) -> None:
        self._schema = node.schema
        self._outer = node.kind is JoinKind.LEFT
        self._max_rows = max(1, context.options.get(PIECE_MAX_ROWS))
        self._ttl = node.ttl
        self._kept: KeptAnswers | None = None
        if any(spec.name == "answers" for spec in node.state()):
            self._kept = KeptAnswers(node, right, self.row_columns())
            self._output = PairOutput(node.schema, node.mode, self._kept.rows, self._kept, False, self._max_rows)

    def found(self, rows: pa.RecordBatch, time: EpochTime) -> tuple[np.ndarray, list[pa.Array]]:
        """What there is now for each row: `(row, columns)`, by row."""
        raise NotImplementedError

    def row_columns(self) -> Sequence[RowColumn]:
        """What else is kept beside rows."""
        return ()

    @property
    def tables(self) -> Sequence[StateTable]:
        return () if self._kept is None else self._kept.tables

    @property
    def state_size(self) -> StateSize:
        return StateSize(0, 0) if self._kept is None else StateSize(self._kept.rows.rows, self._kept.nbytes)

    def enriched(self, batch: ChangelogBatch | None, time: EpochTime) -> Iterator[ChangelogBatch]:
        """The changes of an epoch with what is found for them."""
        if self._kept is not None and self._ttl:
            self._kept.expire(time.processing_time - self._ttl)
        if batch is None or not len(batch):
            return
        if self._kept is not None:
            yield from self._with_kept(self._kept, batch, time)
            return
        index, found = self.found(batch.rows, time)
        if self._outer:
            index, found = _padded(index, len(batch), found)
        for at in range(0, len(index), self._max_rows):
            part = index[at : at + self._max_rows]
            kinds = None if batch.kinds is None else batch.kinds[part]
            columns = [column.slice(at, len(part)) for column in found]
            rows = batch.rows if _is_all(part, len(batch)) else batch.rows.take(pa.array(part))
            yield ChangelogBatch.of(rows.columns + columns, self._schema, kinds)

    def _with_kept(self, kept: KeptAnswers, batch: ChangelogBatch, time: EpochTime) -> Iterator[ChangelogBatch]:
        changed = kept.rows.apply(batch, np.full(len(batch), -1, np.int64))
        if self._ttl:
            kept.rows.write_times(changed, time.processing_time)
        fresh = changed[kept.rows.count[changed] == kept.rows.delta[changed]]
        if len(fresh):
            self.ask(kept, fresh, time)
        yield from self.give(kept, changed, kept.rows.delta[changed])
        kept.remove(changed[kept.rows.count[changed] == 0])
        kept.rows.settle(changed)

    def ask(self, kept: KeptAnswers, slots: np.ndarray, time: EpochTime) -> np.ndarray:
        """Keeps what there is for rows, by slot; gives those for which there is nothing."""
        columns = kept.rows.take(slots)
        rows = pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(len(columns))])
        index, found = self.found(rows, time)
        kept.add(slots[index], found)
        return slots[np.bincount(index, minlength=len(slots)) == 0]

    def give(self, kept: KeptAnswers, slots: np.ndarray, delta: np.ndarray) -> Iterator[ChangelogBatch]:
        """Rows, so many more of each than before, with what is kept for them."""
        index, answers = kept.of(slots)
        self._output.add(slots[index], answers, delta[index])
        if self._outer:
            alone = np.bincount(index, minlength=len(slots)) == 0
            self._output.add_left(slots[alone], delta[alone])
        if self._output.full:
            yield from self._output.pieces()
        else:
            parts = [part for part in self._output.finish() if part is not None]
            if parts:
                yield ChangelogBatch.concat(parts)


class KeptAnswers:
    """Rows with what was looked up for them."""

    def __init__(self, node: LookupJoinExec | CurrentJoinExec, right: Schema, extra: Sequence[RowColumn]) -> None:
        kept, answers = node.kept("rows"), node.kept("answers")
        types = [f.type.arrow for f in right]
        self.rows = RowStore(kept.schema, Identity.FULL)
        self._store = ColumnStore(types)
        self._slots = SlotAllocator()
        self._lists = BlockLists()
        self._owner = np.empty(0, np.int64)
        self._arrival = np.empty(0, np.int64)
        self._next_arrival = 0
        rows = row_table(
            self.rows, kept, lambda columns: np.full(len(columns[0]), -1, np.int64), ttl=node.ttl, extra=extra
        )
        self._table = StateTable(
            answers.name,
            [(OWNER, pa.int64()), *zip(column_names(right), types, strict=True), ("$arrival", pa.int64())],
            live=self._slots.live_slots,
            read=lambda slots: [
                pa.array(self._owner[slots]),
                *self._store.take(slots),
                pa.array(self._arrival[slots]),
            ],
            load=self._load,
            owner=rows,
        )
        self.tables = (rows, self._table)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self._store.nbytes + self._slots.nbytes + self._lists.nbytes

    def add(self, owners: np.ndarray, columns: Sequence[pa.Array]) -> np.ndarray:
        """Answers for rows, by slot; the slots of the answers."""
        slots = self._slots.allocate(len(owners))
        self._store.put(slots, columns)
        self._lists.append(owners, slots)
        self._owner = grown(self._owner, self._slots.high)
        self._owner[slots] = owners
        self._arrival = grown(self._arrival, self._slots.high)
        self._arrival[slots] = np.arange(self._next_arrival, self._next_arrival + len(slots))
        self._next_arrival += len(slots)
        self._table.wrote(slots)
        return slots

    def _load(self, columns: list[pa.Array]) -> np.ndarray:
        order = np.argsort(columns[-1].to_numpy(), kind="stable")
        owners, *values = (c.take(pa.array(order)) for c in columns[:-1])
        slots = np.empty(len(order), np.int64)
        slots[order] = self.add(owners.to_numpy(), values)
        return slots

    def of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The answers of rows: `(position in rows, answer)`."""
        return self._lists.probe(rows)

    def remove(self, rows: np.ndarray) -> None:
        """Forgets the answers of rows."""
        _, slots = self._lists.probe(rows)
        self._lists.drop_keys(rows)
        self._table.freed(slots)
        self._store.free(slots)
        self._slots.free(slots)

    def expire(self, before: int) -> np.ndarray:
        """Forgets rows that were last written before a time, and their answers; gives their slots."""
        slots = self.rows.expired(before)
        if len(slots):
            self.remove(slots)
            self.rows.settle(self.rows.take_away(slots))
        return slots

    def take(self, slots: np.ndarray) -> list[pa.Array]:
        return self._store.take(slots)


def _is_all(rows: np.ndarray, count: int) -> bool:
    """Whether ascending positions are those of all of so many rows, each once."""
    return len(rows) == count and (count == 0 or bool((rows == np.arange(count)).all()))


def _padded(index: np.ndarray, count: int, columns: list[pa.Array]) -> tuple[np.ndarray, list[pa.Array]]:
    """Adds a row of NULLs for each of the `count` rows that is not in `index`; by row."""
    alone = np.flatnonzero(np.bincount(index, minlength=count) == 0)
    if not len(alone):
        return index, columns
    whole = np.concatenate((index, alone))
    order = np.argsort(whole, kind="stable")
    source = np.concatenate((np.arange(len(index)), np.full(len(alone), -1)))[order]
    picked = pa.array(source, mask=source < 0)
    return whole[order], [column.take(picked) for column in columns]
