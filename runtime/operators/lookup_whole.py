"""A table that is read as a whole, kept, and read again from time to time."""

from __future__ import annotations

import time as wall_clock
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.cancellation import look
from runtime.core.errors import FormatError, SqlEngineError
from runtime.expr.zones import instant_to_local, local_to_instant
from runtime.kernels.row_index import RowIndex
from runtime.operators.lookup_answers import Found, asked_again, found_in
from runtime.operators.operator import CacheFigures
from runtime.plan.parts import Reload, WholeTable
from runtime.spi.reader import RejectedRow

__all__ = ["WholeCache", "next_reload"]

_READ_ROWS = 65_536
_DAY = 86_400_000


class WholeCache:
    """Reads the table when it is first asked, and again when it is asked after the next time of its `reload` has come. So
    rows see the table as it was then. It is no state: after a restart the table is read anew."""

    def __init__(self, table: WholeTable, time_zone: str) -> None:
        self._table = table
        self._time_zone = time_zone
        self._figures = CacheFigures()
        self._rows: pa.RecordBatch | None = None
        self._indices: dict[tuple[str, ...], RowIndex] = {}
        self._next = 0

    @property
    def figures(self) -> CacheFigures:
        return self._figures

    def answer(self, keys: pa.RecordBatch, rows: int, now: int) -> Found:
        if self._rows is None or now >= self._next:
            due = None if self._rows is None else self._next
            kept = self._load()
            self._next = next_reload(self._table.reload, now, due, self._time_zone)
        else:
            kept = self._rows
        self._figures.hits += rows
        names = tuple(keys.schema.names)
        if names not in self._indices:
            self._indices[names] = RowIndex([kept.column(c) for c in names])
        positions, places = self._indices[names].find(keys.columns)
        return Found(positions, kept.take(pa.array(places)).columns)

    def _load(self) -> pa.RecordBatch:
        begin = wall_clock.perf_counter()
        try:
            rows = asked_again(self._read, self._table.retries)
        except SqlEngineError:
            self._figures.failures += 1
            raise
        self._rows = rows
        self._indices.clear()
        self._figures.loads += 1
        self._figures.latest_load = wall_clock.perf_counter() - begin
        self._figures.rows, self._figures.nbytes = rows.num_rows, rows.nbytes
        return rows

    def _read(self) -> pa.RecordBatch:
        schema = self._table.schema
        batches = [
            pa.RecordBatch.from_arrays(found_in(schema, _NONE, batch.columns).columns, schema=schema.arrow)
            for batch in self._batches()
        ]
        table = pa.Table.from_batches(batches, schema.arrow).combine_chunks()
        whole = table.to_batches()
        empty = [pa.array([], f.type.arrow) for f in schema]
        return whole[0] if whole else pa.RecordBatch.from_arrays(empty, schema=schema.arrow)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        source, context = self._table.source, _Reading(self._time_zone)
        for split in source.splits():
            reader = source.open(split, context)
            try:
                while not reader.finished:
                    look()
                    batch = reader.poll(_READ_ROWS)
                    if batch is not None and len(batch):
                        yield batch.decoded().rows
            finally:
                reader.close()


class _Reading:
    """What the readers of the table may ask for."""

    def __init__(self, time_zone: str) -> None:
        self.time_zone = time_zone

    def reject(self, rows: Sequence[RejectedRow]) -> None:
        if rows:
            raise FormatError(
                f"a row of a table that is looked up cannot be read: {rows[0].reason}: {rows[0].raw}",
                code="E3201",
                hint="correct the row, or leave such rows out of the table",
            )

    def wake(self) -> None:
        """It waits for no rows: the input ends."""


_NONE = np.empty(0, np.int64)


def next_reload(reload: Reload, now: int, due: int | None, time_zone: str) -> int:
    """When a table that is read now is to be read again, milliseconds.

    Args:
        due: when it was to be read now; None the first time.
    """
    if reload.interval is not None:
        if not reload.from_start or due is None:
            return now + reload.interval
        return due + ((now - due) // reload.interval + 1) * reload.interval
    zone = reload.zone or time_zone
    day = int(instant_to_local(np.array([now if due is None else due]), zone, "ms")[0]) // _DAY
    step = 1 if due is None else reload.days
    if due is not None:
        day += max(1, (now - due) // (_DAY * step)) * step
    while (moment := _moment(day, reload.time, zone)) <= now:
        day += step
    return moment


def _moment(day: int, time: int, zone: str) -> int:
    return int(local_to_instant(np.array([day * _DAY + time]), zone, "ms")[0])
