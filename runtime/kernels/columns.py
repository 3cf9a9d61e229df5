"""Rows of any Arrow types, stored by column and addressed by slot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from runtime.kernels.arrow_buffers import (
    coded_array,
    fixed_array,
    fixed_dtype,
    fixed_values,
    is_bytes_like,
    is_fixed,
    large_binary,
    null_mask,
)
from runtime.kernels.byte_arena import ByteArena
from runtime.kernels.grow import grow, grown, kept_bytes
from runtime.kernels.indexed import put_at, take_at
from runtime.kernels.slots import SlotAllocator

__all__ = ["ColumnStore", "SlotAllocator"]

_GARBAGE_ROWS = 4096
_GARBAGE_BYTES = 1 << 16
_JOINED_BYTES = 1 << 30
_MANY = 1024  # From so many strings on it pays to look how they lie.
_SPARSE = 4  # Where every so manieth string of a range is wanted, the range is gone through.


class ColumnStore:
    """Columnar storage of rows by slot id; slots are chosen by the caller (of a `HashIndex` or a `SlotAllocator`).

    Fixed-width types live in growing numpy arrays, strings in a byte arena, lists and maps in a log of Arrow arrays,
    structs in the columns of their fields. What is overwritten or freed is reclaimed when it makes up half, so that
    both space and time stay proportional to live rows and changes.

    While rows are held (`hold`) another thread may `read_held` those that were there: their slots must not be written.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = list(types)
        self._columns: list[_Column] = [_column_for(t) for t in self._types]
        self._held: list[np.ndarray] | None = None
        self._changing = threading.Lock()
        self._wants_to_change = False

    @property
    def types(self) -> list[pa.DataType]:
        return list(self._types)

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._columns)

    def put(self, slots: np.ndarray, columns: Sequence[pa.Array | pa.ChunkedArray]) -> None:
        """Writes row i of the columns to `slots[i]`, over whatever was there.

        Args:
            slots: int64 (n,), no slot twice.
            columns: one of n rows for each type; strings may come as Arrow dictionaries and are then kept once each.
        """
        if len(slots) == 0:
            return
        high = int(slots.max()) + 1
        # A lock alone would go to the thread that reads again and again, column after column.
        self._wants_to_change = True
        with self._changing:
            self._wants_to_change = False
            for column, type_, values in zip(self._columns, self._types, columns, strict=True):
                # Strings need not be of the very type: of more than 2 GB none is a `string`.
                wanted = values.type if is_bytes_like(type_) and is_bytes_like(values.type) else type_
                column.put(slots, coded_array(values, wanted), high)

    def take(self, slots: np.ndarray, *, wide: bool = False) -> list[pa.Array]:
        """The rows at the slots (any order, repeats allowed), one array of exactly its type per column; `wide`: strings
        as large ones, so that there may be more than 2 GB of them.

        A slot of -1 gives a row of NULLs, as an outer join needs it. Slots never written are undefined. Slots that follow
        each other are copied as they lie; of others `reading_order` is the fastest.
        """
        read = _reader(slots)
        found = [read(column) for column in self._columns]
        return found if wide else [_exactly(c, t) for c, t in zip(found, self._types, strict=True)]

    def take_column(self, index: int, slots: np.ndarray) -> pa.Array:
        """One column of `take`."""
        return _exactly(_reader(slots)(self._columns[index]), self._types[index])

    def reading_order(self, slots: np.ndarray) -> np.ndarray:
        """The same slots (each once) in the order in which their strings lie: many of them are read faster so."""
        positions = self.reading_positions(slots)
        return slots if positions is None else slots[positions]

    def reading_positions(self, slots: np.ndarray) -> np.ndarray | None:
        """The positions of slots in that order, None for as they are; of held ones also in another thread."""
        column = next((c for c in self._columns if isinstance(c, _BytesColumn)), None)
        if column is None:
            return None
        with self._changing:
            places = column.places(slots)
        return None if places is None else column.ascending(places)

    def free(self, slots: np.ndarray) -> None:
        """Lets go of the rows at live slots (each once), so that their variable-width values can be reclaimed."""
        if self._held is not None:
            self._held.append(slots)
            return
        for column in self._columns if len(slots) else ():
            column.free(slots)

    def hold(self) -> None:
        """Rows that are freed from now on can still be read, until `release`."""
        self._held = []

    def read_held(self, slots: np.ndarray) -> list[pa.Array]:
        """Wide `take` in another thread, of rows that were there when they were held."""
        read = _reader(slots)
        found: list[pa.Array] = []
        for column in self._columns:
            while self._wants_to_change:
                time.sleep(0.0002)
            with self._changing:
                found.append(read(column))
        return found

    def release(self) -> None:
        """Nobody reads any more: what was freed meanwhile is let go of. In the thread that writes."""
        held, self._held = self._held or [], None
        for slots in held:
            self.free(slots)


class _Column:
    """One column: `high` is the exclusive bound of the slots written, `missing` the positions that shall be NULL."""

    @property
    def nbytes(self) -> int:
        return 0

    def put(self, slots: np.ndarray, array: pa.Array, high: int) -> None:
        raise NotImplementedError

    def take(self, slots: np.ndarray, missing: np.ndarray | None) -> pa.Array:
        """The values at slots; strings may be of the large type."""
        raise NotImplementedError

    def part(self, first: int, end: int) -> pa.Array:
        """The slots from `first` up to `end`, in order: `take` of them."""
        return self.take(np.arange(first, end, dtype=np.int64), None)

    def free(self, slots: np.ndarray) -> None:
        """Fixed-width columns have nothing to reclaim."""


def _column_for(type_: pa.DataType) -> _Column:
    if pt.is_null(type_):
        return _NullColumn()
    if is_fixed(type_):
        return _FixedColumn(type_)
    if is_bytes_like(type_):
        return _BytesColumn(type_)
    if pt.is_struct(type_) and type_.num_fields:
        return _StructColumn(type_)
    return _LogColumn(type_)


class _NullColumn(_Column):
    """A column of the type NULL."""

    def put(self, slots: np.ndarray, array: pa.Array, high: int) -> None:
        pass

    def take(self, slots: np.ndarray, missing: np.ndarray | None) -> pa.Array:
        return pa.nulls(len(slots))


class _NullFlags:
    """One null flag per slot, allocated only when the first NULL arrives."""

    def __init__(self) -> None:
        self._flags: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        return 0 if self._flags is None else self._flags.nbytes

    def put(self, slots: np.ndarray, nulls: np.ndarray | None, high: int) -> None:
        if nulls is None and self._flags is None:
            return
        flags = np.zeros(high, np.bool_) if self._flags is None else grown(self._flags, high, False)
        put_at(flags, slots, False if nulls is None else nulls)
        self._flags = flags

    def take(self, slots: np.ndarray, missing: np.ndarray | None) -> np.ndarray | None:
        if self._flags is None or len(self._flags) == 0:
            return missing
        # Flags may be shorter than the column: slots beyond them have never been NULL.
        nulls = take_at(self._flags, slots)
        return nulls if missing is None else nulls | missing

    def part(self, first: int, end: int) -> np.ndarray | None:
        if self._flags is None:
            return None
        nulls = np.zeros(end - first, np.bool_)
        known = self._flags[first:end]
        nulls[: len(known)] = known
        return nulls


class _FixedColumn(_Column):
    """Values of a fixed width in a numpy array."""

    def __init__(self, type_: pa.DataType) -> None:
        dtype, shape = fixed_dtype(type_)
        self._type = type_
        self._values = np.zeros((0, *shape), dtype=dtype)
        self._high = 0
        self._nulls = _NullFlags()

    @property
    def nbytes(self) -> int:
        return kept_bytes(self._values, self._high) + self._nulls.nbytes

    def put(self, slots: np.ndarray, array: pa.Array, high: int) -> None:
        grow(self, "_values", high)
        self._high = max(self._high, high)
        put_at(self._values, slots, fixed_values(array))
        self._nulls.put(slots, null_mask(array), high)

    def take(self, slots: np.ndarray, missing: np.ndarray | None) -> pa.Array:
        if len(self._values) == 0:
            return pa.nulls(len(slots), self._type)
        values = take_at(self._values, slots)
        return fixed_array(values, self._type, self._nulls.take(slots, missing))

    def part(self, first: int, end: int) -> pa.Array:
        if end > len(self._values):
            return super().part(first, end)
        return fixed_array(self._values[first:end].copy(), self._type, self._nulls.part(first, end))


class _StructColumn(_Column):
    """Structs: a null flag and the columns of the fields."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self._fields = [_column_for(type_.field(i).type) for i in range(type_.num_fields)]
        self._nulls = _NullFlags()

    @property
    def nbytes(self) -> int:
        return self._nulls.nbytes + sum(field.nbytes for field in self._fields)

    def put(self, slots: np.ndarray, array: pa.Array, high: int) -> None:
        self._nulls.put(slots, null_mask(array), high)
        for field, values in zip(self._fields, array.flatten(), strict=True):
            field.put(slots, values, high)

    def take(self, slots: np.ndarray, missing: np.ndarray | None) -> pa.Array:
        nulls = self._nulls.take(slots, missing)
        children = [_exactly(f.take(slots, missing), t.type) for f, t in zip(self._fields, self._type, strict=True)]
        mask = None if nulls is None else pa.array(nulls)
        return pa.StructArray.from_arrays(children, fields=list(self._type), mask=mask)

    def free(self, slots: np.ndarray) -> None:
        for field in self._fields:
            field.free(slots)


class _BytesColumn(_Column):
    """Strings of characters or bytes: slot to place in a byte arena, counted from 1; 0 for NULL and for free slots.

    As long as slots were written once each, in order and without NULL, a slot is its place and there is no array of
    places: so it is where rows only come. Strings that come as an Arrow dictionary are in the arena once for each call;
    what is live is counted by slot, as if they were not shared.
    """

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        is_text = pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(type_)
        self._wide = pa.large_string() if is_text else pa.large_binary()
        self._arena = ByteArena()
        self._places: np.ndarray | None = None
        self._high = 0
        self._live = 0
        self._live_bytes = 0
        self._shared = False

    @property
    def nbytes(self) -> int:
        return self._arena.nbytes + (0 if self._places is None else kept_bytes(self._places, self._high))

    def put(self, slots: np.ndarray, array: pa.Array, high: int) -> None:
        coded = pt.is_dictionary(array.type)
        nulls = null_mask(array)
        self._high = max(self._high, high)
        if self._places is None and (coded or nulls is not None or not self._continued_by(slots, high)):
            self._begin_places()
        if self._places is not None:
            grow(self, "_places", self._high)
            self._release(slots)
            if nulls is not None:
                array, slots = array.filter(pa.array(~nulls)), slots[~nulls]
        before = self._arena.used_bytes
        places = self._append_coded(array) if coded else self._arena.append(large_binary(array))
        self._live += len(slots)
        self._live_bytes += int(self._arena.lengths(places).sum()) if coded else self._arena.used_bytes - before
        if self._places is not None:
            put_at(self._places, slots, (places + 1).astype(self._places.dtype))
            self._reclaim()

    def _append_coded(self, array: pa.DictionaryArray) -> np.ndarray:
        """Adds those strings of a dictionary that rows have: the place of each row's."""
        self._shared = True
        codes = array.indices.to_numpy().astype(np.int64)
        used = np.bincount(codes, minlength=len(array.dictionary)) > 0
        of_code = np.zeros(len(used), np.int64)
        of_code[used] = self._arena.append(large_binary(array.dictionary.filter(pa.array(used))))
        return of_code.take(codes)

    def take(self, slots: np.ndarray, missing: np.ndarray | None) -> pa.Array:
        if self._places is None:
            if not len(self._arena):
                return pa.nulls(len(slots), self._type)
            places = np.minimum(slots, len(self._arena) - 1)
        else:
            places = take_at(self._places, slots).astype(np.int64)
            places -= 1
        return self._at(places)

    def part(self, first: int, end: int) -> pa.Array:
        if self._places is not None:
            known = end <= self._high
            return self._at(self._places[first:end].astype(np.int64) - 1) if known else super().part(first, end)
        if end > len(self._arena):
            return super().part(first, end)
        return self._arena.part(first, end, self._wide)

    def _at(self, places: np.ndarray) -> pa.Array:
        """The strings at places of the arena, counted from 0; NULL at -1."""
        first, end = (int(places[0]), int(places[-1]) + 1) if len(places) >= _MANY else (-1, 0)
        dense = first >= 0 and len(places) <= end - first <= _SPARSE * len(places)
        if dense and (places[1:] > places[:-1]).all():
            if end - first == len(places):
                return self._arena.part(first, end, self._wide)
            # Neighbours are copied together, which a list of places does not show.
            wanted = np.zeros(end - first, np.bool_)
            wanted[places - first] = True
            return self._arena.array(self._wide)[first:end].filter(pa.array(wanted))
        return self._arena.take(places, self._wide)

    def places(self, slots: np.ndarray) -> np.ndarray | None:
        """Where the strings lie, counted from 1; None where it does not matter."""
        return None if self._places is None or len(slots) < _MANY else self._places.take(slots, mode="clip")

    def ascending(self, places: np.ndarray) -> np.ndarray | None:
        """The positions of places in order, None for as they are."""
        if (places[1:] > places[:-1]).all():
            return None
        end = int(places.max()) + 1
        if self._shared or end > _SPARSE * len(places):
            return np.argsort(places, kind="stable")
        at = np.full(end, -1, np.int64)
        present = np.flatnonzero(places)
        at[places[present]] = present
        return np.concatenate((np.flatnonzero(places == 0), at[at >= 0]))

    def free(self, slots: np.ndarray) -> None:
        if self._places is None:
            self._begin_places()
        self._release(slots[slots < self._high])
        self._reclaim()

    def _continued_by(self, slots: np.ndarray, high: int) -> bool:
        """Whether these are the slots that come after all that were written."""
        first = len(self._arena)
        return high == first + len(slots) and bool((slots == np.arange(first, high)).all())

    def _begin_places(self) -> None:
        """From now on a slot's place is noted."""
        self._places = np.arange(1, len(self._arena) + 1, dtype=np.int32)

    def _release(self, slots: np.ndarray) -> None:
        assert self._places is not None
        places = self._places.take(slots)
        places = places[places > 0].astype(np.int64)
        if len(places):
            self._live -= len(places)
            self._live_bytes -= int(self._arena.lengths(places - 1).sum())
            put_at(self._places, slots, 0)

    def _reclaim(self) -> None:
        assert self._places is not None
        if (
            len(self._arena) > 2 * self._live + _GARBAGE_ROWS
            or self._arena.used_bytes > 2 * self._live_bytes + _GARBAGE_BYTES
        ):
            live = np.flatnonzero(self._places)
            old = self._places[live] - 1
            used = np.zeros(len(self._arena), np.bool_)
            used[old] = True
            kept = ByteArena()
            moved = np.zeros(len(used), np.int64)
            moved[used] = kept.append(self._arena.take(np.flatnonzero(used)))
            self._places[live] = moved[old] + 1
            self._arena = kept


class _LogColumn(_Column):
    """Values of any type in a log of Arrow arrays whose sizes grow geometrically, so that there are few of them."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self._chunks: list[pa.Array] = []
        self._positions = np.empty(0, np.int64)
        self._length = 0
        self._live = 0

    @property
    def nbytes(self) -> int:
        return self._positions.nbytes + sum(chunk.nbytes for chunk in self._chunks)

    def put(self, slots: np.ndarray, array: pa.Array, high: int) -> None:
        self._positions = grown(self._positions, high, -1)
        self._live += len(slots) - int(np.count_nonzero(self._positions[slots] >= 0))
        self._positions[slots] = np.arange(self._length, self._length + len(slots))
        self._length += len(slots)
        self._chunks.append(array)
        first = len(self._chunks) - 1
        size = len(array)
        while first > 0 and len(self._chunks[first - 1]) <= 2 * size and self._chunks[first - 1].nbytes < _JOINED_BYTES:
            first -= 1
            size += len(self._chunks[first])
        if first < len(self._chunks) - 1:
            self._chunks[first:] = [pa.concat_arrays(self._chunks[first:])]
        self._reclaim()

    def take(self, slots: np.ndarray, missing: np.ndarray | None) -> pa.Array:
        if len(self._positions) == 0:
            return pa.nulls(len(slots), self._type)
        positions = self._positions.take(slots, mode="clip")
        if missing is not None:
            positions[missing] = -1
        return self._at(positions)

    def free(self, slots: np.ndarray) -> None:
        slots = slots[slots < len(self._positions)]
        self._live -= int(np.count_nonzero(self._positions[slots] >= 0))
        self._positions[slots] = -1
        self._reclaim()

    def _at(self, positions: np.ndarray) -> pa.Array:
        """The values at positions of the log; -1 is NULL."""
        absent = positions < 0
        mask = absent if absent.any() else None
        if len(self._chunks) == 1:
            return self._chunks[0].take(pa.array(positions, mask=mask))
        ends = np.cumsum([len(chunk) for chunk in self._chunks])
        owner = np.searchsorted(ends, positions, side="right")
        order = np.argsort(owner, kind="stable")
        bounds = np.searchsorted(owner[order], np.arange(len(self._chunks) + 1))
        parts: list[pa.Array] = []
        for i, chunk in enumerate(self._chunks):
            rows = order[bounds[i] : bounds[i + 1]]
            if len(rows):
                local = positions[rows] - (ends[i] - len(chunk))
                parts.append(chunk.take(pa.array(local, mask=None if mask is None else mask[rows])))
        if not parts:
            return pa.nulls(len(positions), self._type)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_arrays(parts).take(pa.array(back))

    def _reclaim(self) -> None:
        if self._length > 2 * self._live + _GARBAGE_ROWS:
            live = np.flatnonzero(self._positions >= 0)
            self._chunks = [self._at(self._positions[live])]
            self._positions[live] = np.arange(len(live))
            self._length = len(live)


def _exactly(array: pa.Array, type_: pa.DataType) -> pa.Array:
    return array if array.type == type_ else array.cast(type_)


def _reader(slots: np.ndarray) -> Callable[[_Column], pa.Array]:
    """Reads slots from a column; -1 gives NULL."""
    count = len(slots)
    # They follow each other without a gap.
    if count and slots[0] >= 0 and int(slots[-1]) - int(slots[0]) == count - 1 and (slots[1:] > slots[:-1]).all():
        return lambda column: column.part(int(slots[0]), int(slots[-1]) + 1)
    missing = slots < 0 if (slots < 0).any() else None
    return lambda column: column.take(slots, missing)
