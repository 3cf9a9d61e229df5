"""Records of Avro to columns, by a program (`avro_programs`).

A column is filled in a part of one arena: flags of validity (a byte for each value), then values or int32 offsets, then the
bytes of strings. One that is full stops the reading before the record that did not fit, gets more room, and reading goes on.
A record that is none leaves nothing behind. Source: Apache Avro 1.12, Specification, "Binary Encoding".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from runtime.kernels import avro_read_twin as twin
from runtime.kernels.avro_programs import LISTS, STRINGS, STRUCT, Program, Slot
from runtime.kernels.native import kernel

__all__ = ["read_records", "read_stream", "reason_of"]

_avro_read = kernel("avro_read", "xiiiixIXIIIn")

_REASONS = {
    twin.SHORT: "it ends too early",
    twin.LONG_INTEGER: "an integer has more than 64 bits",
    twin.BAD_LENGTH: "a length is negative",
    twin.NO_BRANCH: "its union has no branch of this number",
    twin.OUT_OF_RANGE: "a number is out of range",
    twin.NOT_TEXT: "not text in UTF-8",
    twin.NOT_BOOLEAN: "a BOOLEAN is neither 0 nor 1",
    twin.TOO_MANY: "too many items without bytes",
    twin.TOO_DEEP: "nested too deeply",
    twin.BAD_DECIMAL: "a number has too many digits",
    twin.LEFT_OVER: "bytes follow the record",
    twin.TOO_LARGE: "it is too large",
    twin.UNREAD: "it comes behind a malformed record",
}


def read_records(
    program: Program, data: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[list[pa.Array], np.ndarray]:
    """The columns of records that each stand from a start to an end, without those that are malformed.

    Args:
        data: uint8. starts, ends: int64 (n,).

    Returns:
        The columns of `program.roots`, and of each record 0 or what `reason_of` explains, int64 (n,).
    """
    filling = _Filling(program, len(starts), len(data))
    state = filling.run(data, starts, ends, False)
    return filling.columns(), state


def read_stream(program: Program, data: np.ndarray, begin: int, count: int) -> tuple[list[pa.Array], np.ndarray, int]:
    """The columns of records that stand one behind the other, up to the first that is malformed.

    Args:
        data: uint8; from `begin` on there are `count` records.

    Returns:
        The columns, of each record 0 or what `reason_of` explains, int64 (n,), and where the byte behind the last is.
    """
    filling = _Filling(program, count, len(data))
    filling.cursor[1] = begin
    state = filling.run(data, np.array([begin]), np.array([len(data)]), True)
    return filling.columns(), state, int(filling.cursor[1])


def reason_of(program: Program, state: int) -> str:
    """Why a record is malformed."""
    name = program.names[state >> 8]
    if state & 255 == twin.REFUSED:
        return name
    reason = _REASONS[state & 255]
    return f"{name}: {reason}" if name else reason


class _Filling:
    """Columns that are being filled from `count` records of `size` bytes."""

    def __init__(self, program: Program, count: int, size: int) -> None:
        self._program = program
        self._count = count
        self._table = np.zeros((len(program.slots), twin.COLUMN), np.int64)
        self.cursor = np.zeros(2, np.int64)
        for words, slot in zip(self._table, program.slots, strict=True):
            words[twin.KIND] = slot.kind
            words[twin.ROOM] = 2 * count + 16 if slot.nested else count
            words[twin.DATA_ROOM] = size + 64 if slot.kind == STRINGS else 0
        self._arena = self._placed()

    def _placed(self) -> np.ndarray:
        """Gives each column its part of a new arena."""
        end = 0
        for words in self._table:
            for place, size in (
                (twin.VALID_AT, words[twin.ROOM]),
                (twin.VALUES_AT, (words[twin.ROOM] + 1) * _width(int(words[twin.KIND]))),
                (twin.DATA_AT, words[twin.DATA_ROOM]),
            ):
                words[place] = end
                end += (int(size) + 63) // 64 * 64
        arena = np.empty(end, np.uint8)
        for words in self._table:
            if words[twin.KIND] in (STRINGS, LISTS):
                arena[words[twin.VALUES_AT] : words[twin.VALUES_AT] + 4] = 0
        return arena

    def run(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray, streamed: bool) -> np.ndarray:
        """Fills the columns; gives the state of each record."""
        state = np.full(self._count, twin.UNREAD, np.int64)
        saved = np.empty(3 * len(self._table), np.int64)
        program, call = self._program, _avro_read or twin.read
        while True:
            table = self._table.reshape(-1)
            given = (program.nodes, program.links, program.constants, table, self._arena, saved, state, self.cursor)
            call(data, starts, ends, *given, int(streamed))
            wanting = (self._table[:, twin.WANTED] > 0) | (self._table[:, twin.DATA_WANTED] > 0)
            if not wanting.any():
                return state
            self._grow()

    def _grow(self) -> None:
        before, old = self._table.copy(), self._arena
        for words in self._table:
            if words[twin.WANTED]:
                words[twin.ROOM] = max(words[twin.WANTED], 2 * words[twin.ROOM])
            if words[twin.DATA_WANTED]:
                words[twin.DATA_ROOM] = max(words[twin.DATA_WANTED], 2 * words[twin.DATA_ROOM])
            words[[twin.WANTED, twin.DATA_WANTED]] = 0
        self._arena = self._placed()
        for new, had in zip(self._table, before, strict=True):
            count = int(had[twin.COUNT])
            values = (count + 1 if had[twin.KIND] < 0 else count) * _width(int(had[twin.KIND]))
            for place, size in ((twin.VALID_AT, count), (twin.VALUES_AT, values), (twin.DATA_AT, _strings(had))):
                self._arena[new[place] : new[place] + size] = old[had[place] : had[place] + size]

    def columns(self) -> list[pa.Array]:
        """The columns of the record."""
        return [self._column(root) for root in self._program.roots]

    def _column(self, number: int) -> pa.Array:
        slot, words = self._program.slots[number], self._table[number]
        count, type_ = int(words[twin.COUNT]), slot.type
        validity = None
        if words[twin.NULLS]:
            flags = self._part(words[twin.VALID_AT], count)
            validity = pa.py_buffer(np.packbits(flags, bitorder="little"))
        nulls = int(words[twin.NULLS])
        if slot.kind == STRUCT:
            fields = [self._column(child) for child in slot.children]
            return pa.Array.from_buffers(type_, count, [validity], nulls, children=fields)
        if slot.kind > 0:
            values = self._part(words[twin.VALUES_AT], count * slot.kind)
            if pt.is_boolean(type_):
                values = np.packbits(values, bitorder="little")
            return pa.Array.from_buffers(type_, count, [validity, pa.py_buffer(values)], nulls)
        offsets = pa.py_buffer(self._part(words[twin.VALUES_AT], 4 * (count + 1)))
        if slot.kind == STRINGS:
            data = pa.py_buffer(self._part(words[twin.DATA_AT], int(words[twin.DATA_USED])))
            return pa.Array.from_buffers(type_, count, [validity, offsets, data], nulls)
        within = self._within(slot)
        return pa.Array.from_buffers(type_, count, [validity, offsets], nulls, children=[within])

    def _within(self, slot: Slot) -> pa.Array:
        """The elements of lists, or the entries of maps."""
        if not pt.is_map(slot.type):
            return self._column(slot.children[0])
        keys, items = (self._column(child) for child in slot.children)
        entries = pa.struct([slot.type.key_field, slot.type.item_field])
        return pa.Array.from_buffers(entries, len(keys), [None], children=[keys, items])

    def _part(self, begin: int, size: int) -> np.ndarray:
        return self._arena[int(begin) : int(begin) + size]


def _width(kind: int) -> int:
    return kind if kind >= 0 else 4


def _strings(words: np.ndarray) -> int:
    return int(words[twin.DATA_USED]) if words[twin.KIND] == STRINGS else 0
