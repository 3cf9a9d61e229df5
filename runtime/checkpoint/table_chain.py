"""How a table of state lies in files: pieces, each what one save wrote, of which the last word on a row counts.

A save appends a piece with the rows that changed. So that a restore reads no more than about twice what is live, and no
long list of small pieces:

- when the rows of all pieces together are more than twice the live ones, all become one piece;
- when `FAN` pieces at the end are of one size class (classes grow by `FAN`), they become one. Pieces of more than a million
  rows are left alone: to read many of them costs no more than to read one.

Both are paid for by the changes since the last time: a row is written again once per size class, and once for each time
that as many changes came as there are rows. (This is the size-tiered compaction of log-structured merge trees, O'Neil
et al. 1996, with one run per save.)
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.checkpoint.segments import Segment, SegmentReader, SegmentWriter, batches_of
from runtime.checkpoint.storage import Damage
from runtime.kernels.grow import grown
from runtime.state.snapshot import single_batch
from runtime.state.table import SLOT, TableChanges

__all__ = ["FAN", "Piece", "TableChain", "known_chain", "read_chain", "read_pieces"]

FAN = 16
_SMALLEST_CLASS = 256
_LARGEST_CLASS = 1 << 20
_SLACK = 64
_REMOVED_WEIGHT = 0.25
"""A slot that holds nothing any more is one number; a row is several."""
_MERGED_ROWS = 65_536
_SPARSE, _ROOM = 16, 1 << 20
"""Slots are sparse when there is room for so many times as many, beyond so much room."""
_LOOSE, _MOST_GAPS = 4, 1 << 14
"""Rows are put in order of their slots when at most a quarter of them move, and so many gaps are filled."""
_REMOVED = pa.schema([pa.field(SLOT, pa.int64())])


@dataclass(frozen=True, slots=True)
class Piece:
    """What one save wrote of a table: rows, and the slots that were freed. Either may be missing."""

    rows: Segment | None
    removed: Segment | None

    @property
    def weight(self) -> float:
        """What reading it costs, in rows."""
        rows = self.rows.rows if self.rows else 0
        return rows + _REMOVED_WEIGHT * (self.removed.rows if self.removed else 0)

    @property
    def turned(self) -> Piece:
        """The same, of the copies of its files."""
        return Piece(self.rows and self.rows.turned, self.removed and self.removed.turned)

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(s for s in (self.rows, self.removed) if s is not None)


class TableChain:
    """The pieces of one table, oldest first, and which of them holds each row: an int32 per slot, in memory.

    After a failed `add` the chain must not be used any more.
    """

    def __init__(self) -> None:
        self.pieces: tuple[Piece, ...] = ()
        self._numbers: list[int] = []
        self._next = 0
        # By slot the number of the piece with the last word on it, -1 when there is no row.
        self._owner = np.empty(0, np.int32)
        # How many rows of each piece are live, by number.
        self._live: dict[int, int] = {}

    @staticmethod
    def behind(pieces: Sequence[Piece], owner: np.ndarray, live: Mapping[int, int]) -> TableChain:
        """The chain of pieces that were read. `owner`: by slot the place of the piece with the last word on it, -1 when there
        is no row, int32; `live`: how many of the rows of each piece count."""
        chain = TableChain()
        chain.pieces = tuple(pieces)
        chain._numbers = list(range(len(pieces)))
        chain._next = len(pieces)
        chain._owner = owner
        chain._live = {number: count for number, count in live.items() if count}
        return chain

    def add(self, changes: TableChanges, writer: SegmentWriter, reader: SegmentReader) -> None:
        """Writes what a table has become since the last call.

        Raises:
            OSError: the store failed.
            Damage: an older piece that was to be merged cannot be read.
        """
        if changes.complete:
            self.pieces, self._numbers, self._live = (), [], {}
            self._owner = np.empty(0, np.int32)
        slots = changes.slots
        removed = self._mark(slots, changes.removed)
        self._drop_dead_front()
        if not self._live:
            self.pieces, self._numbers = (), []
            return
        if not len(slots) and not len(removed):
            return
        if not self.pieces:
            # Nothing older, in which it would be missed that slots were freed.
            removed = removed[:0]
        added = len(slots) + _REMOVED_WEIGHT * len(removed)
        start = _merge_start([*(piece.weight for piece in self.pieces), added], sum(self._live.values()))
        if start < len(self.pieces):
            piece = self._merged(start, changes, removed, writer, reader)
        else:
            rows = writer.rows(changes.rows.schema, changes.batches(), changes.nbytes) if len(slots) else None
            piece = Piece(rows, self._removed(removed, writer))
        # Merged pieces may have cancelled each other out.
        added_pieces = [piece] if piece.segments else []
        self.pieces = (*self.pieces[:start], *added_pieces)
        self._numbers = [*self._numbers[:start], *(self._next for _ in added_pieces)]
        self._next += 1

    def _mark(self, slots: np.ndarray, removed: np.ndarray) -> np.ndarray:
        """Notes that the next piece has the last word on slots. Returns those of `removed` that an older piece has."""
        high = max((int(s.max()) + 1 for s in (slots, removed) if len(s)), default=0)
        self._owner = grown(self._owner, high, -1)
        removed = removed[self._owner[removed] >= 0]
        first = min(self._live, default=0)
        for changed in (slots, removed):
            before = self._owner[changed]
            counts = np.bincount(before[before >= 0] - first)
            for number in np.flatnonzero(counts).tolist():
                self._live[first + number] -= int(counts[number])
        self._owner[removed] = -1
        self._owner[slots] = self._next
        self._live[self._next] = len(slots)
        self._live = {number: count for number, count in self._live.items() if count}
        return removed

    def _drop_dead_front(self) -> None:
        """Leaves out pieces at the beginning of which no row is live: what they removed is not there any more."""
        dead = 0
        while dead < len(self._numbers) and self._numbers[dead] not in self._live:
            dead += 1
        self.pieces, self._numbers = self.pieces[dead:], self._numbers[dead:]

    def _merged(
        self, start: int, changes: TableChanges, removed: np.ndarray, writer: SegmentWriter, reader: SegmentReader
    ) -> Piece:
        """The pieces from `start` on and the new rows as one piece."""
        old = self.pieces[start:]
        nbytes = changes.nbytes + sum(piece.rows.length for piece in old if piece.rows)
        segment = None
        if any(number in self._live for number in (*self._numbers[start:], self._next)):
            segment = writer.rows(changes.rows.schema, _gathered(self._live_rows(start, changes, reader)), nbytes)
        self._live = {n: c for n, c in self._live.items() if n not in self._numbers[start:] and n != self._next}
        if segment is not None:
            self._live[self._next] = segment.rows
        if start == 0:
            return Piece(segment, None)
        gone = [removed]
        for piece in old:
            if piece.removed:
                gone += [batch.column(0).to_numpy() for batch in reader.batches(piece.removed)]
        slots = np.unique(np.concatenate(gone))
        return Piece(segment, self._removed(slots[self._owner[slots] < 0], writer))

    def _live_rows(self, start: int, changes: TableChanges, reader: SegmentReader) -> Iterator[pa.RecordBatch]:
        for piece, number in zip(self.pieces[start:], self._numbers[start:], strict=True):
            if piece.rows is None or number not in self._live:
                continue
            for batch in reader.batches(piece.rows):
                slots = batch.column(SLOT).to_numpy()
                kept = self._owner[slots] == number
                self._owner[slots[kept]] = self._next
                yield batch if kept.all() else batch.filter(pa.array(kept))
        yield from changes.batches()

    def _removed(self, slots: np.ndarray, writer: SegmentWriter) -> Segment | None:
        if not len(slots):
            return None
        batch = pa.RecordBatch.from_arrays([pa.array(slots, pa.int64())], schema=_REMOVED)
        return writer.rows(_REMOVED, [batch], batch.nbytes)


def read_pieces(pieces: Sequence[Piece], reader: SegmentReader) -> pa.RecordBatch:
    """All rows of a table that has any.

    Raises:
        Damage: a piece cannot be read, or holds no rows of a table.
        CheckpointError: the rows do not fit into one batch.
    """
    return _joined(_read(pieces, reader)[0], pieces)


def read_chain(pieces: Sequence[Piece], reader: SegmentReader) -> tuple[pa.RecordBatch, TableChain | None]:
    """All rows of a table that has any, and the chain that its next save goes on from.

    Who loads the rows one by one into slots from 0 on has most of them at their old slots: they are in that order, and the
    last ones fill the gaps. None where slots are sparse, or too many rows would have to be put in order. Raises as
    `read_pieces`.
    """
    parts, last = _read(pieces, reader)
    with _same_columns(pieces):
        ordered = _in_order([batch for _, batch in parts])
    if last.numbers is None or ordered is None:
        return _joined(parts, pieces), None
    live: dict[int, int] = {}
    for number, batch in parts:
        live[number] = live.get(number, 0) + batch.num_rows
    return _joined([(0, batch) for batch in ordered], pieces), TableChain.behind(pieces, last.numbers, live)


def known_chain(pieces: Sequence[Piece], reader: SegmentReader) -> TableChain | None:
    """The chain of pieces whose table goes on with its slots; None where these are sparse. Raises as `read_pieces`."""
    if not pieces:
        return TableChain()
    parts, last = _read(pieces, reader)
    if last.numbers is None:
        return None
    live: dict[int, int] = {}
    for number, batch in parts:
        live[number] = live.get(number, 0) + batch.num_rows
    return TableChain.behind(pieces, last.numbers, live)


def _in_order(parts: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch] | None:
    """The same rows in the order of their slots, those behind the last slot that is needed in the gaps between others.
    Nothing is copied but rows that move; None when there are many of them, or many gaps."""
    count = sum(part.num_rows for part in parts)
    steady: list[pa.RecordBatch] = []
    loose: list[pa.RecordBatch] = []
    gap = np.ones(count, np.bool_)
    high = -1
    for part in parts:
        slots = _slots(part)
        follows = len(slots) > 0 and int(slots[0]) > high and bool((slots[1:] > slots[:-1]).all())
        within = int(np.searchsorted(slots, count)) if follows else 0
        if within:
            steady.append(part.slice(0, within))
            gap[slots[:within]] = False
            high = int(slots[within - 1])
        loose.append(part.slice(within))
    gaps = np.flatnonzero(gap)
    if not len(gaps):
        return steady or list(parts)
    starts = np.flatnonzero(np.diff(gaps, prepend=-2) != 1)
    if len(gaps) > count // _LOOSE or len(starts) > _MOST_GAPS:
        return None
    moved = single_batch(loose)
    target = _slots(moved).copy()
    target[target >= count] = np.setdiff1d(gaps, target, assume_unique=True)
    moved = moved.take(pa.array(np.argsort(target)))
    ends = [*starts[1:].tolist(), len(gaps)]
    return _filled(steady, moved, gaps[starts].tolist(), ends)


def _filled(
    steady: Sequence[pa.RecordBatch], moved: pa.RecordBatch, starts: Sequence[int], ends: Sequence[int]
) -> list[pa.RecordBatch]:
    """Rows with others in their gaps, which begin at slots `starts`; `ends`: how many of the others are in them and in those
    before."""
    found: list[pa.RecordBatch] = []
    gap, used = 0, 0
    for part in steady:
        slots = _slots(part)
        at = 0
        while gap < len(starts) and starts[gap] < slots[-1]:
            until = int(np.searchsorted(slots, starts[gap]))
            found += [part.slice(at, until - at), moved.slice(used, ends[gap] - used)]
            at, used, gap = until, ends[gap], gap + 1
        found.append(part.slice(at))
    return [*found, moved.slice(used)]


def _read(pieces: Sequence[Piece], reader: SegmentReader) -> tuple[list[tuple[int, pa.RecordBatch]], _LastWord]:
    """The rows that count, each batch with the place of its piece. Raises Damage."""
    rows = [list(reader.batches(piece.rows)) if piece.rows else [] for piece in pieces]
    removed = [list(reader.batches(piece.removed)) if piece.removed else [] for piece in pieces]
    if not any(rows):
        raise Damage(f"{pieces[0].segments[0].file} removes rows that nothing holds")
    last = _LastWord([_slots(batch) for found in (*rows, *removed) for batch in found])
    for number in range(len(pieces)):
        for batch in rows[number]:
            last.note(_slots(batch), number)
        for batch in removed[number]:
            last.note(_slots(batch), -1)
    parts: list[tuple[int, pa.RecordBatch]] = []
    for number, batches in enumerate(rows):
        for batch in batches:
            kept = last.has(_slots(batch), number)
            parts.append((number, batch if kept.all() else batch.filter(pa.array(kept))))
    if sum(part.num_rows for _, part in parts) != last.count:
        raise Damage(f"{pieces[0].segments[0].file} holds a row twice")
    return parts, last


def _joined(parts: Sequence[tuple[int, pa.RecordBatch]], pieces: Sequence[Piece]) -> pa.RecordBatch:
    with _same_columns(pieces):
        return single_batch([batch for _, batch in parts])


@contextmanager
def _same_columns(pieces: Sequence[Piece]) -> Generator[None]:
    """Raises Damage where rows cannot be put together."""
    try:
        yield
    except pa.ArrowException as error:
        raise Damage(
            f"{pieces[0].segments[0].file} has other columns than the files that it follows: {error}"
        ) from error


class _LastWord:
    """The number of the piece that has the last word on each slot, -1 for one that holds nothing.

    Args:
        slots: all that there are. They are mostly dense; where they are not, the room that is taken follows their number.
    """

    def __init__(self, slots: Sequence[np.ndarray]) -> None:
        high = max((int(s.max()) + 1 for s in slots if len(s)), default=0)
        self._known = np.unique(np.concatenate(slots)) if high > _SPARSE * sum(map(len, slots)) + _ROOM else None
        self._last = np.full(high if self._known is None else len(self._known), -1, np.int32)

    def note(self, slots: np.ndarray, number: int) -> None:
        self._last[self._places(slots)] = number

    def has(self, slots: np.ndarray, number: int) -> np.ndarray:
        return self._last[self._places(slots)] == number

    @property
    def count(self) -> int:
        """How many slots hold a row."""
        return int(np.count_nonzero(self._last >= 0))

    @property
    def numbers(self) -> np.ndarray | None:
        """By slot; None where they are sparse."""
        return self._last if self._known is None else None

    def _places(self, slots: np.ndarray) -> np.ndarray:
        return slots if self._known is None else np.searchsorted(self._known, slots)


def _slots(batch: pa.RecordBatch) -> np.ndarray:
    """The slots of rows. Raises Damage when they are none."""
    index = batch.schema.get_field_index(SLOT)
    if index < 0 or batch.schema.types[index] != pa.int64():
        raise Damage("rows of a table have no slots")
    slots = batch.column(index)
    found = slots.to_numpy(zero_copy_only=not slots.null_count)
    if slots.null_count or (len(found) and found.min() < 0):
        raise Damage("rows of a table have no slots")
    return found


def _merge_start(weights: Sequence[float], live: int) -> int:
    """The first of the pieces, the new one being the last, that are to become one; the last itself when none are."""
    if sum(weights) > 2 * live + _SLACK:
        return 0
    limit = float(_SMALLEST_CLASS)
    while limit <= _LARGEST_CLASS:
        run, counted = 0, 0
        for weight in reversed(weights):
            if weight > limit:
                break
            run += 1
            counted += weight > limit / FAN or limit == _SMALLEST_CLASS
        if counted >= FAN:
            return len(weights) - run
        if run == len(weights):
            break
        limit *= FAN
    return len(weights) - 1


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are not small."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            count += batch.num_rows
        if count >= _MERGED_ROWS:
            yield from batches_of(pa.Table.from_batches(waiting))
            waiting, count = [], 0
    if waiting:
        yield from batches_of(pa.Table.from_batches(waiting))
