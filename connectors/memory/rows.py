"""The rows of a table in memory: chunks of columns that do not change, and which of their rows count.

A row has a position, in the order of arrival. What changes a row appends its new image and lets the old one count no
more, so that a version of the table is a list of chunks: it costs nothing to keep, nobody who reads it is in the way of
who writes, and reading copies only chunks in which rows were changed.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from connectors.memory.column_files import ColumnFiles
from runtime.core.changelog import ChangelogBatch

if TYPE_CHECKING:
    from runtime.state.arranged import ArrangedRows

__all__ = ["RowStore", "RowsInPlace", "TableParts", "TableVersion"]

Recount = Callable[[pa.RecordBatch, np.ndarray], np.ndarray]

_CHUNK_ROWS = 1 << 16
_CHUNK_BYTES = 1 << 26
_LEVEL_BITS = 3
_ALIKE = 1 << _LEVEL_BITS
"""So many chunks of one order of magnitude become one."""
_DEAD_ROWS = 4096
"""So many rows that count no more are left where they are."""


class _Chunk:
    """Some rows, and how often each counts (None: once). `written`: which state of the store may write the counts; those
    of older ones are read by versions. `in_file`: the rows take no memory of the process."""

    __slots__ = ("_row_bytes", "counts", "in_file", "rows", "written")

    def __init__(self, rows: pa.RecordBatch, counts: np.ndarray | None, written: int, *, in_file: bool = False) -> None:
        self.rows = rows
        self._row_bytes = -1
        self.counts = counts
        self.written = written
        self.in_file = in_file

    @property
    def row_bytes(self) -> int:
        if self._row_bytes < 0:
            self._row_bytes = self.rows.nbytes
        return self._row_bytes

    @property
    def nbytes(self) -> int:
        return (0 if self.in_file else self.row_bytes) + (0 if self.counts is None else self.counts.nbytes)


class TableVersion:
    """The rows of a table at one moment. Any thread may read it, at any time.

    Args:
        num_rows: how many there are, a row that is there n times counted n times.
    """

    def __init__(
        self, schema: pa.Schema, chunks: Sequence[_Chunk], num_rows: int, files: ColumnFiles | None = None
    ) -> None:
        self.schema = schema
        self.num_rows = num_rows
        self._chunks = tuple(chunks)
        self._files = files
        self._read: dict[tuple[int, ...], weakref.ref[pa.Table]] = {}

    def rows(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, or some columns of them, in the order in which their newest images have come, a row of count n n
        times. The same object as long as somebody has it."""
        wanted = range(len(self.schema)) if columns is None else [self.schema.get_field_index(c) for c in columns]
        key = tuple(wanted)
        known = self._read[key]() if key in self._read else None
        if known is None:
            known = self._gathered(key)
            self._read[key] = weakref.ref(known)
        return known

    @property
    def in_memory(self) -> list[pa.RecordBatch]:
        """The rows that are in memory."""
        return [chunk.rows for chunk in self._chunks if not chunk.in_file]

    def pieces(self, rows: int) -> list[TableVersion]:
        """The same rows as versions of at least so many rows, in order; itself alone when it is in memory."""
        if self._files is None:
            return [self]
        found: list[TableVersion] = []
        chunks: list[_Chunk] = []
        count = 0
        for chunk in self._chunks:
            chunks.append(chunk)
            count += len(chunk.rows) if chunk.counts is None else int(chunk.counts.sum())
            if count >= rows:
                found.append(TableVersion(self.schema, chunks, count, self._files))
                chunks, count = [], 0
        if count or not found:
            found.append(TableVersion(self.schema, chunks, count, self._files))
        return found

    def recounted(self, change: Recount, more: pa.RecordBatch, counts: np.ndarray) -> TableVersion:
        """The rows, counted otherwise, and some more. Costs as much as there are of both.

        Args:
            change: gives how often the rows of a chunk count, from how often they did; called in their order.
            counts: how often those in `more` count.
        """
        found: list[_Chunk] = []
        for chunk in self._chunks:
            before = np.ones(len(chunk.rows), np.int32) if chunk.counts is None else chunk.counts
            after = change(chunk.rows, before)
            same = after is before or np.array_equal(after, before)
            found.append(chunk if same else _Chunk(chunk.rows, after, 0, in_file=chunk.in_file))
        if len(more):
            found.append(_Chunk(more, counts, 0))
        total = sum(len(c.rows) if c.counts is None else int(c.counts.sum()) for c in found)
        return TableVersion(self.schema, found, total, self._files)

    def _gathered(self, columns: tuple[int, ...]) -> pa.Table:
        schema = pa.schema([self.schema.field(i) for i in columns])
        if not columns:
            return pa.table({"rows": pa.nulls(self.num_rows)}).select([])
        parts: list[pa.RecordBatch] = []
        for chunk in self._chunks:
            rows = pa.RecordBatch.from_arrays([chunk.rows.column(i) for i in columns], schema=schema)
            if chunk.counts is not None and not np.all(chunk.counts == 1):
                rows = rows.take(pa.array(np.repeat(np.arange(len(rows)), chunk.counts)))
                if self._files is not None:
                    rows = self._files.keep(rows)
            if len(rows):
                parts.append(rows)
        return pa.Table.from_batches(parts, schema=schema)


class RowStore:
    """Rows that can be appended, counted otherwise, and read by position. One thread at a time writes.

    Args:
        files: where chunks are kept that no further rows are joined to; None: in memory, too.
    """

    def __init__(self, schema: pa.Schema, files: ColumnFiles | None = None) -> None:
        self.schema = schema
        self.files = files
        self._chunks: list[_Chunk] = []
        self._starts: list[int] = []
        self._starts_array: np.ndarray | None = None
        self._state = 0
        self._size = 0
        self.num_rows = 0
        self._live = 0
        self._version: weakref.ref[TableVersion] | None = None
        self.listener: ArrangedRows | None = None
        """Hears of each change of how often rows count."""

    @property
    def nbytes(self) -> int:
        return sum(chunk.nbytes for chunk in self._chunks)

    @property
    def in_memory(self) -> list[pa.RecordBatch]:
        """The rows that are in memory. From any thread."""
        return [chunk.rows for chunk in tuple(self._chunks) if not chunk.in_file]

    @property
    def count_bytes(self) -> int:
        """The memory of how often rows count. From any thread."""
        return sum(chunk.counts.nbytes for chunk in tuple(self._chunks) if chunk.counts is not None)

    @property
    def file_bytes(self) -> int:
        """The size of the rows in files. From any thread."""
        return sum(chunk.row_bytes for chunk in tuple(self._chunks) if chunk.in_file)

    @property
    def size(self) -> int:
        """The exclusive bound of all positions."""
        return self._size

    def version(self) -> TableVersion:
        """The rows as they are now. The same object while nothing changes."""
        known = None if self._version is None else self._version()
        if known is None:
            self._state += 1
            known = TableVersion(self.schema, self._chunks, self.num_rows, self.files)
            self._version = weakref.ref(known)
        return known

    def fork(self) -> RowStore:
        """Another store of the same rows, which shares what neither changes."""
        self._state += 1
        made = RowStore(self.schema, self.files)
        made._chunks, made._starts, made._state = self._chunks.copy(), self._starts.copy(), self._state
        made._size, made.num_rows, made._live = self._size, self.num_rows, self._live
        return made

    def append(self, rows: pa.RecordBatch) -> tuple[int, pa.RecordBatch]:
        """Put rows behind the others; gives the position of the first, and the rows where they are kept now."""
        first, in_file = self._size, False
        self._version = None
        if len(rows) > _CHUNK_ROWS:
            rows, in_file = self._filed(rows)
        for at in range(0, len(rows), _CHUNK_ROWS):
            self._push(rows.slice(at, _CHUNK_ROWS), in_file)
        self.num_rows += len(rows)
        self._live += len(rows)
        if self.listener is not None:
            self.listener.appended(first, len(rows))
        return first, rows

    def _push(self, rows: pa.RecordBatch, in_file: bool) -> None:
        """A chunk behind the others. Some of about one size become one, so that there are few and rows are copied
        seldom."""
        self._chunks.append(_Chunk(rows, None, self._state, in_file=in_file))
        self._starts.append(self._size)
        self._starts_array = None
        self._size += len(rows)
        while (count := self._alike()) > 1:
            whole = _joined(self._chunks[-count:], self._state)
            del self._chunks[-count:], self._starts[-count + 1 :]
            self._chunks.append(whole)
        last = self._chunks[-1]
        if not last.in_file and len(last.rows) > _CHUNK_ROWS // 2:
            rows, in_file = self._filed(last.rows)
            self._chunks[-1] = _Chunk(rows, last.counts, self._state, in_file=in_file)

    def _alike(self) -> int:
        """How many of the last chunks are to become one: those that are no larger than the last by an order of magnitude,
        where they are many, or fill a chunk."""
        level, found, rows = _level(self._chunks[-1]), 0, 0
        for chunk in reversed(self._chunks[-_ALIKE:]):
            if _level(chunk) > level:
                return 0
            rows += len(chunk.rows)
            if rows > _CHUNK_ROWS:
                break
            found += 1
        else:
            if found < _ALIKE:
                return 0
        together = self._chunks[len(self._chunks) - found :]
        return found if sum(chunk.row_bytes for chunk in together) <= _CHUNK_BYTES else 0

    def _filed(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, bool]:
        """Rows that will not be joined to others, and whether they are in a file now."""
        kept = rows if self.files is None else self.files.keep(rows)
        return kept, kept is not rows

    def drop_front(self, rows: int) -> int:
        """Forget the first chunks, as far as they have no others than so many rows; gives how many that were. All positions
        are lower by that."""
        chunks = bisect_right(self._starts, rows) - 1
        if rows >= self._size:
            chunks = len(self._chunks)
        if chunks <= 0:
            return 0
        dropped = self._size if chunks == len(self._chunks) else self._starts[chunks]
        gone = self._chunks[:chunks]
        del self._chunks[:chunks]
        self._starts = [start - dropped for start in self._starts[chunks:]]
        self._starts_array, self._version = None, None
        self._size -= dropped
        self.num_rows -= sum(len(c.rows) if c.counts is None else int(c.counts.sum()) for c in gone)
        self._live -= sum(len(c.rows) if c.counts is None else int(np.count_nonzero(c.counts)) for c in gone)
        return dropped

    def _by_chunk(self, positions: np.ndarray) -> Iterator[tuple[int, np.ndarray | slice, np.ndarray]]:
        """The chunks of positions: `(index of the chunk, where in positions, where in the chunk)`."""
        if self._starts_array is None:
            self._starts_array = np.array(self._starts, np.int64)
        if len(positions) == 1:
            chunk = int(np.searchsorted(self._starts_array, positions[0], "right")) - 1
            yield chunk, slice(None), positions - self._starts_array[chunk]
            return
        chunks = np.searchsorted(self._starts_array, positions, "right") - 1
        for chunk in np.unique(chunks).tolist():
            where = np.flatnonzero(chunks == chunk)
            yield chunk, where, positions[where] - self._starts_array[chunk]

    def placed(self) -> RowsInPlace:
        """The rows by position as they stand now."""
        return RowsInPlace(self.schema, [chunk.rows for chunk in self._chunks], self._starts, self._size)

    def take(self, positions: np.ndarray) -> pa.RecordBatch:
        """The rows at positions, in their order, whether they count or not."""
        if len(positions) == 0:
            return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in self.schema], schema=self.schema)
        parts: list[pa.RecordBatch] = []
        order: list[np.ndarray] = []
        for chunk, where, inside in self._by_chunk(positions):
            parts.append(self._chunks[chunk].rows.take(pa.array(inside)))
            order.append(np.arange(len(positions)) if isinstance(where, slice) else where)
        if len(parts) == 1:
            return parts[0]
        together = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
        return together.take(pa.array(np.argsort(np.concatenate(order), kind="stable")))

    def counts(self, positions: np.ndarray) -> np.ndarray:
        """How often the rows at positions count, int64."""
        found = np.ones(len(positions), np.int64)
        for chunk, where, inside in self._by_chunk(positions) if len(positions) else ():
            counts = self._chunks[chunk].counts
            if counts is not None:
                found[where] = counts[inside]
        return found

    def count(self, positions: np.ndarray, counts: np.ndarray) -> None:
        """Have the rows at positions (each once) count so often, 0 for no more."""
        if len(positions) == 0:
            return
        self._version = None
        before = self.counts(positions)
        for chunk, where, inside in self._by_chunk(positions):
            self._own_counts(chunk)[inside] = counts[where]
        self.num_rows += int(counts.sum() - before.sum())
        self._live += int(np.count_nonzero(counts) - np.count_nonzero(before))
        if self.listener is not None:
            changed = counts != before
            self.listener.counted(positions[changed], (counts - before)[changed])

    def _own_counts(self, index: int) -> np.ndarray:
        """The counts of a chunk, to be written: those that a version reads are copied first."""
        chunk = self._chunks[index]
        if chunk.counts is None or chunk.written < self._state:
            counts = np.ones(len(chunk.rows), np.int32) if chunk.counts is None else chunk.counts.copy()
            chunk = self._chunks[index] = _Chunk(chunk.rows, counts, self._state, in_file=chunk.in_file)
        assert chunk.counts is not None
        return chunk.counts

    def live_positions(self) -> np.ndarray:
        """The positions of all rows that count, ascending, int64."""
        found = [
            start + (np.arange(len(chunk.rows)) if chunk.counts is None else np.flatnonzero(chunk.counts))
            for start, chunk in zip(self._starts, self._chunks, strict=True)
        ]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    @property
    def is_sparse(self) -> bool:
        """Whether most rows count no more."""
        return self._size - self._live > self._live + _DEAD_ROWS

    def compact(self, keep: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Leave out what counts no more, but for the rows at `keep`; gives `(old, new)` positions of the rows that are
        left. Costs as much as the table is large, and is worth it when it `is_sparse`."""
        before = self.live_positions()
        if keep is not None and len(keep):
            before = np.union1d(before, keep)
        counts = self.counts(before)
        old = self.fork()
        self._chunks, self._starts, self._starts_array = [], [], None
        self._size = self.num_rows = self._live = 0
        for at in range(0, len(before), _CHUNK_ROWS):
            self.append(old.take(before[at : at + _CHUNK_ROWS]))
        often = np.flatnonzero(counts != 1)
        self.count(often, counts[often])
        return before, np.arange(len(before))


class RowsInPlace:
    """The rows of a store by position, as they stood at one moment. Any thread may read them, at any time.

    Args:
        starts: the position of the first row of each of the batches, ascending.
        size: the exclusive bound of all positions.
    """

    def __init__(self, schema: pa.Schema, batches: Sequence[pa.RecordBatch], starts: Sequence[int], size: int) -> None:
        self.size = size
        self._schema = schema
        self._batches = tuple(batches)
        self._starts = np.array(starts, np.int64)

    def take(self, columns: Sequence[int], positions: np.ndarray) -> list[pa.Array]:
        """Columns at positions, in their order."""
        if not len(positions):
            return [pa.array([], self._schema.field(c).type) for c in columns]
        numbers = np.searchsorted(self._starts, positions, "right") - 1
        inside = positions - self._starts[numbers]
        if numbers[0] == numbers[-1] and (numbers == numbers[0]).all():
            wanted = pa.array(inside)
            return [self._batches[numbers[0]].column(c).take(wanted) for c in columns]
        order = None if (numbers[1:] >= numbers[:-1]).all() else np.argsort(numbers, kind="stable")
        if order is not None:
            numbers, inside = numbers[order], inside[order]
        bounds = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1], [True])))
        parts = [
            (self._batches[numbers[start]], pa.array(inside[start:end]))
            for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        ]
        found = [pa.concat_arrays([rows.column(c).take(where) for rows, where in parts]) for c in columns]
        if order is None:
            return found
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return [column.take(pa.array(back)) for column in found]


class TableParts(NamedTuple):
    """What of a table is in memory: its rows, the bytes of their index, and the changes that nobody was shown yet."""

    rows: RowStore
    index_bytes: int
    pending: Sequence[ChangelogBatch]


def _level(chunk: _Chunk) -> int:
    """The order of magnitude of its rows."""
    return (len(chunk.rows).bit_length() - 1) // _LEVEL_BITS


def _joined(chunks: Sequence[_Chunk], state: int) -> _Chunk:
    """Several chunks as one."""
    rows = pa.concat_batches([chunk.rows for chunk in chunks])
    if all(chunk.counts is None for chunk in chunks):
        return _Chunk(rows, None, state)
    counts = [np.ones(len(c.rows), np.int32) if c.counts is None else c.counts for c in chunks]
    return _Chunk(rows, np.concatenate(counts), state)
