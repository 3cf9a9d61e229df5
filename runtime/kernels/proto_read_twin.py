"""The twin in Python of the kernel `proto_read`: message by message, value by value, with the same answers."""

from __future__ import annotations

import struct
from bisect import bisect_left

import numpy as np

from runtime.kernels.column_adding import ColumnAdding, Full, TooLarge
from runtime.kernels.column_filling import COLUMN, COUNT, KIND, NULLS, STRINGS
from runtime.kernels.programs import NODE
from runtime.kernels.proto_programs import Encoding, Read, Wire

__all__ = ["Stop", "read", "read_tag", "read_varint", "skip", "wire_of"]

(
    FINE, SHORT, LONG_INTEGER, BAD_TAG, OUT_OF_RANGE, NOT_TEXT, TOO_DEEP, TOO_MANY, MISSING, MERGE,
) = range(10)  # fmt: skip
TOO_LARGE = 12
DEEPEST, _MOST_ABSENT = 100, 1 << 24
_EARLIEST, _LATEST = -62_135_596_800, 253_402_300_799
_WIDE, _NARROW = (Encoding.FIXED64, Encoding.SFIXED64), (Encoding.FIXED32, Encoding.SFIXED32)

__all__ += [
    "BAD_TAG", "DEEPEST", "FINE", "LONG_INTEGER", "MERGE", "MISSING", "NOT_TEXT", "OUT_OF_RANGE", "SHORT", "TOO_DEEP",
    "TOO_LARGE", "TOO_MANY",
]  # fmt: skip


class Stop(Exception):
    """A message is none, for this reason."""


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """An integer of 64 bits, and where the byte behind it is; raises Stop."""
    read = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise Stop(SHORT)
        byte = data[at]
        at += 1
        read |= (byte & 127) << shift
        if byte < 128:
            return read & (1 << 64) - 1, at
    raise Stop(LONG_INTEGER)


def read_tag(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """The number of a field, how long its value is (`Wire`), and where that begins; raises Stop."""
    read, at = read_varint(data, at, end)
    if read >> 32 or read >> 3 == 0 or read & 7 > Wire.NARROW:
        raise Stop(BAD_TAG)
    return read >> 3, read & 7, at


def skip(data: bytes, at: int, end: int, number: int, wire: int, depth: int) -> int:
    """Where the byte behind a value is; raises Stop."""
    if wire == Wire.VARINT:
        return read_varint(data, at, end)[1]
    if wire == Wire.LENGTH:
        length, at = read_varint(data, at, end)
    elif wire == Wire.START:
        if depth >= DEEPEST:
            raise Stop(TOO_DEEP)
        while True:
            inner, kind, at = read_tag(data, at, end)
            if kind == Wire.END:
                if inner != number:
                    raise Stop(BAD_TAG)
                return at
            at = skip(data, at, end, inner, kind, depth + 1)
    elif wire == Wire.END:
        raise Stop(BAD_TAG)
    else:
        length = 8 if wire == Wire.WIDE else 4
    if length > end - at:
        raise Stop(SHORT)
    return at + length


def wire_of(node: list[int]) -> int:
    """How long the values are that a node reads."""
    match node[0]:
        case Read.INTEGER | Read.DECIMAL:
            return Wire.NARROW if node[4] in _NARROW else Wire.WIDE if node[4] in _WIDE else Wire.VARINT
        case Read.ENUM:
            return Wire.VARINT
        case Read.FLOAT:
            return Wire.NARROW
        case Read.DOUBLE:
            return Wire.WIDE
        case _:
            return Wire.LENGTH


def read(
    data: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    nodes: np.ndarray,
    links: np.ndarray,
    constants: np.ndarray,
    columns: np.ndarray,
    arena: np.ndarray,
    saved: np.ndarray,
    noted: np.ndarray,
    state: np.ndarray,
    cursor: np.ndarray,
) -> int:
    """See `sqlengine_proto_read`."""
    table = columns.reshape(-1, COLUMN)
    walk = _Walk(nodes.reshape(-1, NODE).tolist(), links.tolist(), constants.tobytes(), table, arena)
    whole = data.tobytes()
    row = int(cursor[0])
    while row < len(state):
        kept = table[:, COUNT : NULLS + 1].copy()
        failed = FINE
        try:
            walk.begin(whole)
            walk.message(0, int(starts[row]), int(ends[row]))
        except Stop as stop:
            failed = stop.args[0]
        except TooLarge:
            failed = TOO_LARGE
        except Full:
            table[:, COUNT : NULLS + 1] = kept
            break
        if failed:
            table[:, COUNT : NULLS + 1] = kept
        state[row] = failed | walk.node << 8 if failed else FINE
        row += 1
    cursor[0] = row
    return row


class _Walk(ColumnAdding):
    def __init__(
        self, nodes: list[list[int]], links: list[int], constants: bytes, table: np.ndarray, arena: np.ndarray
    ) -> None:
        super().__init__(table, arena)
        self._nodes = nodes
        self._links = links
        self._constants = constants

    def begin(self, data: bytes) -> None:
        self._data, self._depth, self._absent = data, 0, _MOST_ABSENT
        self.node = 0

    def _children(self, node: list[int]) -> list[int]:
        return self._links[node[6] : node[6] + node[7]]

    def _found(self, node: list[int], count: int, number: int) -> int:
        numbers = [self._nodes[child][2] for child in self._children(node)[:count]]
        place = bisect_left(numbers, number)
        return place if place < count and numbers[place] == number else -1

    def _is_unknown(self, value: list[int], at: int, end: int) -> bool:
        """Whether the value that comes next is of a closed enum that does not have it."""
        if value[0] != Read.ENUM or not value[3]:
            return False
        try:
            found, _ = self._integer(Encoding.INT32, at, end)
        except Stop:
            return False
        return self._found(value, value[2], found) < 0

    def message(self, self_: int, begin: int, end: int) -> None:
        """The message from one byte to another."""
        node = self._nodes[self_]
        self.node = self_
        self._depth += 1
        if self._depth > DEEPEST:
            raise Stop(TOO_DEEP)
        children = self._children(node)
        noted = self._noted(node, children, begin, end)
        for place, (first, last, times) in zip(children, noted, strict=True):
            child = self._nodes[place]
            self.node = place
            if child[0] == Read.NOTHING:
                self._missing(place)
            elif child[0] == Read.REPEATED:
                if times:
                    self._repeated(child, first, last, end)
                else:
                    self._spend()
                    self.add(child[1], bool(child[5]), None)
            elif not times:
                if child[4]:
                    raise Stop(MISSING)
                if child[0] == Read.FIELD:
                    self._missing(self._links[child[6] + 1])
            elif child[0] == Read.FIELD:
                value = self._links[child[6]]
                if times > 1 and self._nodes[value][0] in (Read.MESSAGE, Read.TIMESTAMP):
                    raise Stop(MERGE)
                self._value(value, last, end)
        self._depth -= 1
        if node[1] >= 0:
            self.add(node[1], True, None)

    def _noted(self, node: list[int], children: list[int], begin: int, end: int) -> list[list[int]]:
        """Of each child where its first occurrence begins, the value of the last (of a repeated one: where that ends), and how
        many there were."""
        noted = [[0, 0, 0] for _ in children]
        members: dict[int, int] = {}
        at = begin
        while at < end:
            tag_at = at
            number, wire, at = read_tag(self._data, at, end)
            which, value_at = self._found(node, len(children), number), at
            at = skip(self._data, at, end, number, wire, self._depth)
            if which < 0:
                continue
            child = self._nodes[children[which]]
            value = None if child[0] == Read.OTHER else self._nodes[self._links[child[6]]]
            suits = wire == (child[5] if value is None else wire_of(value))
            suits = suits or (child[0] == Read.REPEATED and wire == Wire.LENGTH)
            if not suits or (child[0] == Read.FIELD and value and self._is_unknown(value, value_at, end)):
                continue
            if child[3]:
                before = members.get(child[3], which)
                if before != which:
                    noted[before][2] = 0
                members[child[3]] = which
            note = noted[which]
            if not note[2]:
                note[0] = tag_at
            note[1], note[2] = at if child[0] == Read.REPEATED else value_at, note[2] + 1
        return noted

    def _repeated(self, node: list[int], at: int, to: int, end: int) -> None:
        value, total = self._links[node[6]], 0
        element = self._nodes[value]
        expected = wire_of(element)

        def one(at: int, end: int, wire: int) -> int:
            nonlocal total
            if self._is_unknown(element, at, end):
                return skip(self._data, at, end, node[2], wire, 0)
            total += 1
            return self._value(value, at, end)

        while at < to:
            number, wire, at = read_tag(self._data, at, end)
            if number == node[2] and wire == expected:
                at = one(at, end, wire)
            elif number == node[2] and wire == Wire.LENGTH:
                length, at = read_varint(self._data, at, end)
                behind = at + length
                while at < behind:
                    at = one(at, behind, Wire.VARINT)
            else:
                at = skip(self._data, at, end, number, wire, 0)
        self.add_list(node[1], total)

    def _spend(self) -> None:
        self._absent -= 1
        if self._absent < 0:
            raise Stop(TOO_MANY)

    def _missing(self, number: int) -> None:
        node = self._nodes[number]
        self.node = number
        self._spend()
        self._depth += 1
        if self._depth > DEEPEST:
            raise Stop(TOO_DEEP)
        if node[0] == Read.DEFAULT:
            kept, self._data = self._data, self._constants
            self._value(self._links[node[6]], node[2], node[2] + node[3])
            self._data = kept
        else:
            for child in self._children(node):
                self._missing(child)
            self.add(node[1], False, None)
        self._depth -= 1

    def _integer(self, encoding: int, at: int, end: int) -> tuple[int, int]:
        if encoding in _WIDE or encoding in _NARROW:
            width = 8 if encoding in _WIDE else 4
            if end - at < width:
                raise Stop(SHORT)
            signed = encoding in (Encoding.SFIXED32, Encoding.SFIXED64)
            return int.from_bytes(self._data[at : at + width], "little", signed=signed), at + width
        value, at = read_varint(self._data, at, end)
        match encoding:
            case Encoding.INT32:
                value = _signed(value, 32)
            case Encoding.INT64:
                value = _signed(value, 64)
            case Encoding.UINT32:
                value &= (1 << 32) - 1
            case Encoding.SINT32:
                value &= (1 << 32) - 1
                value = value >> 1 ^ -(value & 1)
            case Encoding.SINT64:
                value = value >> 1 ^ -(value & 1)
            case Encoding.BOOL:
                value = int(value != 0)
            case _:
                pass
        return value, at

    def _value(self, number: int, at: int, end: int) -> int:
        """Adds the value, and gives where the byte behind it is."""
        node = self._nodes[number]
        self.node = number
        match node[0]:
            case Read.INTEGER:
                value, at = self._integer(node[4], at, end)
                if not node[2] <= value <= node[3]:
                    raise Stop(OUT_OF_RANGE)
                self.add_number(node[1], value)
            case Read.DECIMAL:
                value, at = self._integer(node[4], at, end)
                self.add(node[1], True, value.to_bytes(16, "little", signed=True))
            case Read.FLOAT | Read.DOUBLE:
                return self._float(node, at, end)
            case Read.ENUM:
                value, at = self._integer(Encoding.INT32, at, end)
                self._symbol(node, value)
            case _:
                length, at = read_varint(self._data, at, end)
                if length > end - at:
                    raise Stop(SHORT)
                if node[0] == Read.BYTES:
                    self._text(node, at, at + length)
                elif node[0] == Read.MESSAGE:
                    self.message(number, at, at + length)
                else:
                    self._timestamp(node, at, at + length)
                at += length
        return at

    def _float(self, node: list[int], at: int, end: int) -> int:
        width = 4 if node[0] == Read.FLOAT else 8
        if end - at < width:
            raise Stop(SHORT)
        taken = self._data[at : at + width]
        if self.table[node[1]][KIND] != width:
            taken = np.float64(struct.unpack("<f", taken)[0]).tobytes()
        self.add(node[1], True, taken)
        return at + width

    def _text(self, node: list[int], at: int, end: int) -> None:
        taken = self._data[at:end]
        if node[2]:
            try:
                taken.decode("utf-8")
            except UnicodeDecodeError:
                raise Stop(NOT_TEXT) from None
        self.add_bytes(node[1], taken)

    def _symbol(self, node: list[int], value: int) -> None:
        if self.table[node[1]][KIND] != STRINGS:
            if not node[4] <= value <= node[5]:
                raise Stop(OUT_OF_RANGE)
            self.add_number(node[1], value)
            return
        which = self._found(node, node[2], value)
        if which < 0 and node[7] == node[2]:
            raise Stop(OUT_OF_RANGE)
        symbol = self._nodes[self._children(node)[which if which >= 0 else node[2]]]
        self.add_bytes(node[1], self._constants[symbol[3] : symbol[3] + symbol[4]])

    def _timestamp(self, node: list[int], at: int, end: int) -> None:
        read = [0, 0, 0]
        while at < end:
            number, wire, at = read_tag(self._data, at, end)
            if wire == Wire.VARINT and number <= 2:
                read[number], at = self._integer(Encoding.INT64 if number == 1 else Encoding.INT32, at, end)
            else:
                at = skip(self._data, at, end, number, wire, self._depth)
        _, seconds, nanos = read
        most = ((1 << 63) - 1) // node[2] - 1
        if not max(-most, _EARLIEST) <= seconds <= min(most, _LATEST) or not 0 <= nanos <= 999_999_999:
            raise Stop(OUT_OF_RANGE)
        value = seconds * node[2] + nanos // node[3]
        self.add_number(node[1], value // node[4] * node[4])


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value
