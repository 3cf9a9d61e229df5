"""The columns that a program writes as messages, brought into one block of bytes. `native/written.h` has the same numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from runtime.kernels.arrow_buffers import (
    byte_spans,
    fixed_values,
    is_bytes_like,
    large_binary,
    list_lengths,
    null_mask,
)

__all__ = ["COLUMN", "Unwritten", "WrittenColumns"]

COLUMN = 6
"""Numbers of a column: bytes of a value (0: none, -1: offsets), where its flags, values and bytes are, and how many."""


@dataclass(frozen=True)
class Unwritten(Exception):
    """A record that cannot be written: its number, the name of what is wrong, and whether it is a NULL or a size."""

    row: int
    name: str
    is_null: bool


@dataclass
class WrittenColumns:
    """The columns of a program, in the order of their numbers."""

    _words: list[list[int]] = field(default_factory=list[list[int]])
    _parts: list[np.ndarray] = field(default_factory=list[np.ndarray])
    _size: int = 0

    def _part(self, values: np.ndarray) -> int:
        """Where these bytes are; aligned, so that the twin can look at them as numbers."""
        raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        at = self._size
        gap = -len(raw) % 8
        self._parts += [raw, np.zeros(gap, np.uint8)]
        self._size += len(raw) + gap
        return at

    def add(self, array: pa.Array) -> tuple[int, list[pa.Array]]:
        """The number of a column, and what is within it: fields, elements, or keys and values."""
        nulls = null_mask(array)
        valid = -1 if nulls is None else self._part(~nulls)
        words = [0, valid, 0, len(array), 0, 0]
        within: list[pa.Array] = []
        if pt.is_struct(array.type):
            within = array.flatten()
        elif pt.is_list(array.type) or pt.is_map(array.type):
            lengths = list_lengths(array, nulls)
            words[0], words[2] = -1, self._part(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))
            if pt.is_map(array.type):
                plain = pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)]))
                within = array.cast(plain).flatten().flatten()
            else:
                within = [array.flatten()]
        elif is_bytes_like(array.type):
            data, starts, _ = byte_spans(large_binary(array))
            words[0], words[2] = -1, self._part(np.append(starts, len(data)))
            words[4], words[5] = self._part(data), len(data)
        elif pt.is_null(array.type):
            words[1] = self._part(np.zeros(len(array), np.bool_))
        else:
            values = fixed_values(array)
            words[0] = values.nbytes // len(array) if len(array) else array.type.bit_width // 8 or 1
            words[2] = self._part(values)
        self._words.append(words)
        return len(self._words) - 1, within

    def add_rows(self, count: int) -> int:
        """The number of a column of rows, none of which is NULL."""
        self._words.append([0, -1, 0, count, 0, 0])
        return len(self._words) - 1

    def block(self) -> tuple[np.ndarray, np.ndarray]:
        """The table of columns, int64, and the bytes of all of them."""
        parts = [part for part in self._parts if len(part)]
        return np.array(self._words, np.int64).reshape(-1), np.concatenate(parts) if parts else np.empty(0, np.uint8)
