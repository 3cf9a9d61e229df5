"""How the twins of kernels add values to columns (`column_filling`), one by one, as `native/columns.h` does."""

from __future__ import annotations

import numpy as np

from runtime.kernels.column_filling import (
    COUNT,
    DATA_AT,
    DATA_ROOM,
    DATA_USED,
    DATA_WANTED,
    KIND,
    LISTS,
    NULLS,
    ROOM,
    STRINGS,
    STRUCT,
    VALID_AT,
    VALUES_AT,
    WANTED,
)

__all__ = ["ColumnAdding", "Full", "TooLarge"]

_MOST = (1 << 31) - 1


class Full(Exception):
    """A column needs more room."""


class TooLarge(Exception):
    """A column cannot have so many bytes or elements."""


class ColumnAdding:
    """Columns within an arena. `table`: their numbers, int64 (columns, COLUMN)."""

    def __init__(self, table: np.ndarray, arena: np.ndarray) -> None:
        self.table = table
        self._arena = memoryview(arena)  # pyright: ignore[reportArgumentType]

    def add_number(self, column: int, value: int) -> None:
        """The lowest bytes of a number, as many as the column has."""
        width = int(self.table[column][KIND])
        self.add(column, True, (value & (1 << 8 * width) - 1).to_bytes(width, "little"))

    def add_bytes(self, column: int, value: bytes) -> None:
        """Bytes or a text."""
        words = self.table[column]
        used = int(words[DATA_USED])
        if used + len(value) > _MOST:
            raise TooLarge
        if len(value) > words[DATA_ROOM] - used:
            words[DATA_WANTED] = used + len(value)
            raise Full
        if words[COUNT] >= words[ROOM]:
            words[WANTED] = words[COUNT] + 1
            raise Full
        at = int(words[DATA_AT]) + used
        self._arena[at : at + len(value)] = value
        words[DATA_USED] += len(value)
        self.add(column, True, None)

    def add_list(self, column: int, items: int) -> None:
        """A list of what was added to its elements last."""
        words = self.table[column]
        if words[DATA_USED] + items > _MOST:
            raise TooLarge
        words[DATA_USED] += items
        self.add(column, True, None)

    def add(self, column: int, valid: bool, value: bytes | None) -> None:
        """One more item: a value, or what takes its room."""
        words = self.table[column]
        count, kind = int(words[COUNT]), int(words[KIND])
        if count >= words[ROOM]:
            words[WANTED] = count + 1
            raise Full
        self._arena[int(words[VALID_AT]) + count] = int(valid)
        words[NULLS] += not valid
        if kind in (STRINGS, LISTS):
            at, value = int(words[VALUES_AT]) + 4 * (count + 1), int(words[DATA_USED]).to_bytes(4, "little")
        else:
            at, value = int(words[VALUES_AT]) + count * kind, value or bytes(kind)
        if kind != STRUCT:
            self._arena[at : at + len(value)] = value
        words[COUNT] += 1
