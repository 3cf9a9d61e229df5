"""Columns that kernels fill, record by record, within one arena.

A column has flags of validity (a byte for each value), then values or int32 offsets, then the bytes of strings. One that is
full says how much room it wants, and gets it. `native/columns.h` has the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

__all__ = ["LISTS", "STRINGS", "STRUCT", "ColumnFilling", "Slot"]

STRUCT, STRINGS, LISTS = 0, -1, -2
"""Kinds of columns that are no width in bytes."""
COLUMN = 12
"""Numbers of a column: its kind, where its flags, values and bytes are with their room, how many values, bytes (of a list:
elements) and NULLs it has, and what it wants when it is full."""
KIND, VALID_AT, VALUES_AT, ROOM, DATA_AT, DATA_ROOM, COUNT, DATA_USED, NULLS, WANTED, DATA_WANTED = range(11)

__all__ += [
    "COLUMN", "COUNT", "DATA_AT", "DATA_ROOM", "DATA_USED", "DATA_WANTED", "KIND", "NULLS", "ROOM", "VALID_AT", "VALUES_AT",
    "WANTED",
]  # fmt: skip


@dataclass(frozen=True)
class Slot:
    """A column that is filled.

    Attributes:
        kind: bytes of a value, or STRUCT, STRINGS, LISTS.
        children: the numbers of the columns within it: fields, the elements, or keys and values.
        nested: it is within a list, so that nobody knows how many values come.
    """

    kind: int
    type: pa.DataType
    children: tuple[int, ...] = ()
    nested: bool = False


class ColumnFilling:
    """Columns that are being filled from `count` records of `size` bytes.

    Attributes:
        table: the numbers of the columns, int64 (columns, COLUMN); `arena` is uint8.
    """

    def __init__(self, slots: Sequence[Slot], count: int, size: int) -> None:
        self._slots = slots
        self.table = np.zeros((len(slots), COLUMN), np.int64)
        for words, slot in zip(self.table, slots, strict=True):
            words[KIND] = slot.kind
            words[ROOM] = 2 * count + 16 if slot.nested else count
            words[DATA_ROOM] = size + 64 if slot.kind == STRINGS else 0
        self.arena = self._placed()

    def _placed(self) -> np.ndarray:
        """Gives each column its part of a new arena."""
        end = 0
        for words in self.table:
            for place, size in (
                (VALID_AT, words[ROOM]),
                (VALUES_AT, (words[ROOM] + 1) * _width(int(words[KIND]))),
                (DATA_AT, words[DATA_ROOM]),
            ):
                words[place] = end
                end += (int(size) + 63) // 64 * 64
        arena = np.empty(end, np.uint8)
        for words in self.table:
            if words[KIND] in (STRINGS, LISTS):
                arena[words[VALUES_AT] : words[VALUES_AT] + 4] = 0
        return arena

    @property
    def is_full(self) -> bool:
        """Whether a column wants more room."""
        return bool((self.table[:, [WANTED, DATA_WANTED]] > 0).any())

    def grow(self) -> None:
        """Gives full columns more room; what is there stays."""
        before, old = self.table.copy(), self.arena
        for words in self.table:
            if words[WANTED]:
                words[ROOM] = max(words[WANTED], 2 * words[ROOM])
            if words[DATA_WANTED]:
                words[DATA_ROOM] = max(words[DATA_WANTED], 2 * words[DATA_ROOM])
            words[[WANTED, DATA_WANTED]] = 0
        self.arena = self._placed()
        for new, had in zip(self.table, before, strict=True):
            count = int(had[COUNT])
            values = (count + 1 if had[KIND] < 0 else count) * _width(int(had[KIND]))
            for place, size in ((VALID_AT, count), (VALUES_AT, values), (DATA_AT, _strings(had))):
                self.arena[new[place] : new[place] + size] = old[had[place] : had[place] + size]

    def column(self, number: int) -> pa.Array:
        """A column, as far as it is filled."""
        slot, words = self._slots[number], self.table[number]
        count, type_ = int(words[COUNT]), slot.type
        validity = None
        if words[NULLS]:
            flags = self._part(words[VALID_AT], count)
            validity = pa.py_buffer(np.packbits(flags, bitorder="little"))
        nulls = int(words[NULLS])
        if slot.kind == STRUCT:
            fields = [self.column(child) for child in slot.children]
            return pa.Array.from_buffers(type_, count, [validity], nulls, children=fields)
        if slot.kind > 0:
            values = self._part(words[VALUES_AT], count * slot.kind)
            if pt.is_boolean(type_):
                values = np.packbits(values, bitorder="little")
            return pa.Array.from_buffers(type_, count, [validity, pa.py_buffer(values)], nulls)
        offsets = pa.py_buffer(self._part(words[VALUES_AT], 4 * (count + 1)))
        if slot.kind == STRINGS:
            data = pa.py_buffer(self._part(words[DATA_AT], int(words[DATA_USED])))
            return pa.Array.from_buffers(type_, count, [validity, offsets, data], nulls)
        within = self._within(slot)
        return pa.Array.from_buffers(type_, count, [validity, offsets], nulls, children=[within])

    def _within(self, slot: Slot) -> pa.Array:
        """The elements of lists, or the entries of maps."""
        if not pt.is_map(slot.type):
            return self.column(slot.children[0])
        keys, items = (self.column(child) for child in slot.children)
        entries = pa.struct([slot.type.key_field, slot.type.item_field])
        return pa.Array.from_buffers(entries, len(keys), [None], children=[keys, items])

    def _part(self, begin: int, size: int) -> np.ndarray:
        return self.arena[int(begin) : int(begin) + size]


def _width(kind: int) -> int:
    return kind if kind >= 0 else 4


def _strings(words: np.ndarray) -> int:
    return int(words[DATA_USED]) if words[KIND] == STRINGS else 0
