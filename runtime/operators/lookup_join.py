"""Lookup join: rows enriched from a table outside that is asked by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Schema
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.kernels.arrow_buffers import null_mask
from runtime.kernels.block_lists import BlockLists
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grouping import group_ids
from runtime.kernels.grow import expand_ranges, grown
from runtime.kernels.key_encoding import KeyEncoder
from runtime.kernels.slots import SlotAllocator
from runtime.operators.join_condition import JoinCondition
from runtime.operators.join_output import PairOutput
from runtime.operators.operator import PIECE_MAX_ROWS, EpochTime, OperatorContext, PiecewiseOperator, StateSize
from runtime.plan.nodes import JoinKind, LookupJoinExec
from runtime.plan.state import column_names
from runtime.state.row_table import row_table
from runtime.state.rows import Identity, RowStore
from runtime.state.table import OWNER, StateTable

__all__ = ["LookupJoinOperator"]


class LookupJoinOperator(PiecewiseOperator):
    """`LookupJoinExec`, INNER or LEFT. Each distinct key of an epoch is looked up once; a key with a NULL matches
    nothing.

    No state for inserts and for upserts (row kinds pass on; the reader goes by key). For an input that takes rows
    back the answers are kept with the rows, so that a row leaves with what it came with, whatever the table holds by
    then: Flink looks up again and may take back rows that it never gave ("non-deterministic update"). They are forgotten
    when the row has not changed for longer than the node's `ttl`; nothing is sent for that.
    """

    def __init__(self, node: LookupJoinExec, context: OperatorContext) -> None:
        names = node.table.schema.names
        self._schema = node.schema
        self._outer = node.kind is JoinKind.LEFT
        self._table = node.table
        self._names = [names[position] for _, position in node.keys]
        self._types = [node.table.schema[position].type.arrow for _, position in node.keys]
        self._evaluator = Evaluator(tuple(e for e, _ in node.keys), context.functions)
        self._time_zone = context.time_zone
        self._condition = None
        if node.condition is not None:
            self._condition = JoinCondition(node.condition, len(node.input.schema), context)
        self._max_rows = max(1, context.options.get(PIECE_MAX_ROWS))
        self._ttl = node.ttl
        self._kept: _Answers | None = None
        if node.input.mode.is_retract:
            self._kept = _Answers(node, node.table.schema)
            self._output = PairOutput(node.schema, node.mode, self._kept.rows, self._kept, False, self._max_rows)

    @property
    def tables(self) -> Sequence[StateTable]:
        return () if self._kept is None else self._kept.tables

    def takes_parts(self, position: int) -> bool:
        return True

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        (batch,) = inputs
        if self._kept is not None and self._ttl:
            self._kept.expire(time.processing_time - self._ttl)
        if batch is None or not len(batch):
            return
        if self._kept is not None:
            yield from self._with_kept(self._kept, batch, time)
            return
        index, found = self._look_up(batch.rows, time)
        if self._outer:
            index, found = _padded(index, len(batch), found)
        for at in range(0, len(index), self._max_rows):
            part = index[at : at + self._max_rows]
            kinds = None if batch.kinds is None else batch.kinds[part]
            columns = [column.slice(at, len(part)) for column in found]
            rows = batch.rows if _is_all(part, len(batch)) else batch.rows.take(pa.array(part))
            yield ChangelogBatch.of(rows.columns + columns, self._schema, kinds)

    @property
    def state_size(self) -> StateSize:
        return StateSize(0, 0) if self._kept is None else StateSize(self._kept.rows.rows, self._kept.nbytes)

    def _with_kept(self, kept: _Answers, batch: ChangelogBatch, time: EpochTime) -> Iterator[ChangelogBatch]:
        changed = kept.rows.apply(batch, np.full(len(batch), -1, np.int64))
        if self._ttl:
            kept.rows.write_times(changed, time.processing_time)
        fresh = changed[kept.rows.count[changed] == kept.rows.delta[changed]]
        if len(fresh):
            columns = kept.rows.take(fresh)
            rows = pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(len(columns))])
            index, found = self._look_up(rows, time)
            kept.add(fresh[index], found)
        delta = kept.rows.delta[changed]
        index, answers = kept.of(changed)
        self._output.add(changed[index], answers, delta[index])
        if self._outer:
            alone = np.bincount(index, minlength=len(changed)) == 0
            self._output.add_left(changed[alone], delta[alone])
        if self._output.full:
            yield from self._output.pieces()
        else:
            parts = [part for part in self._output.finish() if part is not None]
            if parts:
                yield ChangelogBatch.concat(parts)
        kept.remove(changed[kept.rows.count[changed] == 0])
        kept.rows.settle(changed)

    def _look_up(self, rows: pa.RecordBatch, time: EpochTime) -> tuple[np.ndarray, list[pa.Array]]:
        """The matches of each row: `(row, columns of the looked-up table)`, by row."""
        count = rows.num_rows
        values = self._evaluator.evaluate(rows, BatchContext.at(time, count, self._time_zone))
        keys = [_column(value, type_, count) for value, type_ in zip(values, self._types, strict=True)]
        usable = np.ones(count, np.bool_)
        for key in keys:
            nulls = null_mask(key)
            if nulls is not None:
                usable &= ~nulls
        asking = np.flatnonzero(usable)
        if not len(asking):
            return np.empty(0, np.int64), [pa.nulls(0, f.type.arrow) for f in self._table.schema]
        if len(asking) < count:
            keys = [key.take(pa.array(asking)) for key in keys]
        first, group = group_ids(KeyEncoder(self._types).encode(keys))
        distinct = pa.RecordBatch.from_arrays([key.take(pa.array(first)) for key in keys], names=self._names)
        positions, found = self._table.lookup(self._names, distinct)
        index, match = _answers_of(group, np.asarray(positions, dtype=np.int64), len(first))
        index = asking[index]
        columns = [c.cast(f.type.arrow) for c, f in zip(found.columns, self._table.schema, strict=True)]
        if self._condition is not None and len(index):
            holds = self._condition.holds(
                lambda p, at: rows.column(p).take(pa.array(at)),
                index,
                lambda p, at: columns[p].take(pa.array(at)),
                match,
                time,
            )
            index, match = index[holds], match[holds]
        return index, [column.take(pa.array(match)) for column in columns]


class _Answers:
    """Rows with what was looked up for them."""

    def __init__(self, node: LookupJoinExec, right: Schema) -> None:
        kept, answers = node.kept("rows"), node.kept("answers")
        types = [f.type.arrow for f in right]
        self.rows = RowStore(kept.schema, Identity.FULL)
        self._store = ColumnStore(types)
        self._slots = SlotAllocator()
        self._lists = BlockLists()
        self._owner = np.empty(0, np.int64)
        self._arrival = np.empty(0, np.int64)
        self._next_arrival = 0
        rows = row_table(self.rows, kept, lambda columns: np.full(len(columns[0]), -1, np.int64), ttl=node.ttl)
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

    def expire(self, before: int) -> None:
        """Forgets rows that were last written before a time, and their answers."""
        slots = self.rows.expired(before)
        if len(slots):
            self.remove(slots)
            self.rows.settle(self.rows.take_away(slots))

    def take(self, slots: np.ndarray) -> list[pa.Array]:
        return self._store.take(slots)


def _answers_of(group: np.ndarray, owner: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of row, ascending, and answer: the group of each row, of so many, and the group of each answer."""
    counts = np.bincount(owner, minlength=groups)
    by_group = np.argsort(owner, kind="stable")
    begin = np.cumsum(counts) - counts
    if not (counts == 1).all():
        index, place = expand_ranges(begin[group], counts[group])
        return index, by_group[place]
    return np.arange(len(group), dtype=np.int64), by_group[begin[group]]


def _is_all(rows: np.ndarray, count: int) -> bool:
    """Whether ascending positions are those of all of so many rows, each once."""
    return len(rows) == count and (count == 0 or bool((rows == np.arange(count)).all()))


def _column(value: pa.Array | pa.Scalar, type_: pa.DataType, count: int) -> pa.Array:
    column = pa.repeat(value, count) if isinstance(value, pa.Scalar) else value
    return column if column.type == type_ else column.cast(type_)


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
