"""An append-only store of byte strings, readable as one Arrow array at any time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.kernels.arrow_buffers import binary_array, byte_spans, string_buffers
from runtime.kernels.grow import grow, kept_bytes
from runtime.kernels.native import kernel

__all__ = ["ByteArena"]

_string_offsets = kernel("string_offsets", "iiI")
_copy_strings = kernel("copy_strings", "ixiiX")
_same_strings = kernel("same_strings", "ixiixB")


class ByteArena:
    """Byte strings at dense positions 0, 1, 2, ...; appending costs amortised O(bytes), reading does not copy the
    store.
    """

    def __init__(self) -> None:
        self._data = np.empty(1024, np.uint8)
        self._offsets = np.zeros(65, np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return self.used_bytes + kept_bytes(self._offsets, self._count + 1)

    @property
    def used_bytes(self) -> int:
        """The bytes of all strings appended so far."""
        return int(self._offsets[self._count])

    def append(self, array: pa.Array) -> np.ndarray:
        """Adds the strings of a large_binary array (NULL as the empty string): their positions, int64, ascending."""
        data, starts, lengths = byte_spans(array)
        total = int(lengths.sum())
        if total != len(data):
            # NULLs may hide bytes; keep only what is addressed.
            array = array.filter(pa.array(lengths > 0))
            data = byte_spans(array)[0]
        first, count = self._count, len(starts)
        end = self.used_bytes
        grow(self, "_data", end + total)
        self._data[end : end + total] = data
        grow(self, "_offsets", first + count + 1)
        np.cumsum(lengths, out=self._offsets[first + 1 : first + count + 1])
        self._offsets[first + 1 : first + count + 1] += end
        self._count = first + count
        return np.arange(first, first + count, dtype=np.int64)

    def array(self, type_: pa.DataType | None = None) -> pa.Array:
        """The whole store as a large_binary (or large_string) array: a view, valid until the next append."""
        return binary_array(self._offsets[: self._count + 1], self._data, type_ or pa.large_binary())

    def part(self, first: int, end: int, type_: pa.DataType | None = None) -> pa.Array:
        """The strings from position `first` up to `end`, a new large_binary (or large_string) array."""
        offsets = self._offsets[first : end + 1]
        data = self._data[int(offsets[0]) : int(offsets[-1])].copy()
        return binary_array(offsets - offsets[0], data, type_ or pa.large_binary())

    def lengths(self, positions: np.ndarray) -> np.ndarray:
        """The length of each string in bytes, int64."""
        return self._offsets[positions + 1] - self._offsets[positions]

    def take(self, positions: np.ndarray, type_: pa.DataType | None = None) -> pa.Array:
        """The strings at the positions (int64), a new large_binary (or large_string) array; NULL at positions below 0."""
        count = len(positions)
        absent = positions < 0 if count and positions.min() < 0 else None
        if _string_offsets is None or _copy_strings is None:
            return self.array(type_).take(pa.array(positions, mask=absent))
        stored, offsets = self._offsets[: self._count + 1], np.empty(count + 1, np.int64)
        data = np.empty(_string_offsets(stored, positions, offsets), np.uint8)
        _copy_strings(stored, self._data, positions, offsets, data)
        return binary_array(offsets, data, type_ or pa.large_binary(), absent)

    def same(self, positions: np.ndarray, strings: pa.Array) -> np.ndarray:
        """Whether each string of a large_binary array without NULLs is the one at the position beside it, bool (n,)."""
        if _same_strings is None or not len(strings):
            return pc.equal(self.take(positions), strings).to_numpy(zero_copy_only=False)
        same = np.empty(len(strings), np.bool_)
        _same_strings(self._offsets[: self._count + 1], self._data, positions, *string_buffers(strings), same)
        return same
