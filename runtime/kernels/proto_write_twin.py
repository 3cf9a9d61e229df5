"""The twin in Python of the kernel `proto_write`: message by message, value by value, with the same answers."""

from __future__ import annotations

import numpy as np

from runtime.kernels.programs import NODE
from runtime.kernels.proto_programs import Write
from runtime.kernels.written_columns import COLUMN

__all__ = ["UNDECLARED", "varint", "write"]

_WIDTH, _VALID_AT, _VALUES_AT, _COUNT, _DATA_AT, _DATA_SIZE = range(COLUMN)
FINE, UNDECLARED, MISSIZED = range(3)
_MOST = (1 << 31) - 1


class _Stop(Exception):
    """A message cannot be written, for this reason."""


def varint(value: int) -> bytes:
    """An integer of 64 bits, in as few bytes as it takes."""
    rest, made = value & (1 << 64) - 1, bytearray()
    while rest > 127:
        made.append(rest & 127 | 128)
        rest >>= 7
    made.append(rest)
    return bytes(made)


def write(
    given: np.ndarray,
    nodes: np.ndarray,
    links: np.ndarray,
    columns: np.ndarray,
    prefix: np.ndarray,
    out: np.ndarray,
    used: np.ndarray,
    cursor: np.ndarray,
) -> int:
    """See `sqlengine_proto_write`."""
    table = columns.reshape(-1, COLUMN).tolist()
    walk = _Walk(given.tobytes(), nodes.reshape(-1, NODE).tolist(), links.tolist(), table)
    left, before = int(cursor[0]), prefix.tobytes()
    cursor[2] = FINE
    while left > 0:
        try:
            made = before + walk.message(0, left - 1)
        except _Stop as stop:
            cursor[2] = stop.args[0] | walk.node << 8
            break
        there = int(cursor[1])
        if len(made) > len(out) - there:
            break
        out[len(out) - there - len(made) : len(out) - there] = np.frombuffer(made, np.uint8)
        cursor[1] = used[left - 1] = there + len(made)
        left -= 1
    cursor[0] = left
    return left


class _Walk:
    def __init__(self, given: bytes, nodes: list[list[int]], links: list[int], columns: list[list[int]]) -> None:
        self._given = given
        self._nodes = nodes
        self._links = links
        self._columns = columns
        self.node = 0

    def message(self, number: int, i: int) -> bytes:
        """The fields, the last one first, as the kernel looks at them."""
        node = self._nodes[number]
        made = [self._field(child, i) for child in reversed(self._links[node[6] : node[6] + node[7]])]
        return b"".join(reversed(made))

    def _is_valid(self, column: list[int], i: int) -> bool:
        return column[_VALID_AT] < 0 or bool(self._given[column[_VALID_AT] + i])

    def _field(self, number: int, i: int) -> bytes:
        node = self._nodes[number]
        column = self._columns[node[1]]
        self.node = number
        if not self._is_valid(column, i):
            if node[4]:
                raise _Stop(UNDECLARED)
            return b""
        tag, value = varint(node[2]), self._links[node[6]]
        if node[0] == Write.FIELD:
            made = self._value(value, i, bool(node[3]))
            return b"" if made is None else tag + made
        begin, end = (self._number(column[_VALUES_AT], i + n, 8) for n in (0, 1))
        elements = [self._value(value, n, False) or b"" for n in range(end - 1, begin - 1, -1)][::-1]
        if not elements:
            return b""
        if node[3]:
            return tag + self._sized(b"".join(elements))
        return b"".join(tag + element for element in elements)

    def _sized(self, made: bytes) -> bytes:
        if len(made) > _MOST:
            raise _Stop(MISSIZED)
        return varint(len(made)) + made

    def _value(self, number: int, i: int, skips_zero: bool) -> bytes | None:
        """None where it is 0 or empty, and that is not written."""
        node = self._nodes[number]
        column = self._columns[node[1]]
        self.node = number
        valid = self._is_valid(column, i)
        if node[0] == Write.MESSAGE:
            return self._sized(self.message(number, i) if valid else b"")
        if not valid:
            raise _Stop(UNDECLARED)
        at, width = column[_VALUES_AT], column[_WIDTH]
        if node[0] == Write.BYTES:
            begin, end = self._number(at, i, 8), self._number(at, i + 1, 8)
            if skips_zero and begin == end:
                return None
            return self._sized(self._given[column[_DATA_AT] + begin : column[_DATA_AT] + end])
        value = self._number(at, i, width)
        if skips_zero and value == 0:
            return None
        match node[0]:
            case Write.VARINT:
                return varint(value)
            case Write.ZIGZAG:
                return varint(value << 1 ^ value >> 63)
            case Write.FIXED:
                return self._given[at + i * width : at + (i + 1) * width]
            case _:
                seconds, units = divmod(value, node[2])
                nanos = units * node[3]
                made = (b"\x08" + varint(seconds) if seconds else b"") + (b"\x10" + varint(nanos) if nanos else b"")
                return self._sized(made)

    def _number(self, at: int, i: int, width: int) -> int:
        return int.from_bytes(self._given[at + i * width : at + (i + 1) * width], "little", signed=True)
