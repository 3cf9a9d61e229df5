"""The twin in Python of the kernel `avro_write`: record by record, value by value, with the same answers."""

from __future__ import annotations

import numpy as np

from runtime.kernels.avro_programs import Write
from runtime.kernels.programs import NODE
from runtime.kernels.written_columns import COLUMN

__all__ = ["UNDECLARED", "write"]

_WIDTH, _VALID_AT, _VALUES_AT, _COUNT, _DATA_AT, _DATA_SIZE = range(COLUMN)
FINE, UNDECLARED, MISSIZED = range(3)


class _Stop(Exception):
    """A record cannot be written, for this reason."""


def write(
    given: np.ndarray,
    nodes: np.ndarray,
    links: np.ndarray,
    columns: np.ndarray,
    out: np.ndarray,
    ends: np.ndarray,
    cursor: np.ndarray,
) -> int:
    """See `sqlengine_avro_write`."""
    walk = _Walk(
        given.tobytes(), nodes.reshape(-1, NODE).tolist(), links.tolist(), columns.reshape(-1, COLUMN).tolist()
    )
    row = int(cursor[0])
    used = int(ends[row - 1]) if row else 0
    cursor[1] = FINE
    while row < len(ends):
        walk.out.clear()
        try:
            walk.run(0, row)
        except _Stop as stop:
            cursor[1] = stop.args[0] | walk.node << 8
            break
        if len(walk.out) > len(out) - used:
            break
        out[used : used + len(walk.out)] = np.frombuffer(bytes(walk.out), np.uint8)
        used += len(walk.out)
        ends[row] = used
        row += 1
    cursor[0] = row
    return row


class _Walk:
    def __init__(self, given: bytes, nodes: list[list[int]], links: list[int], columns: list[list[int]]) -> None:
        self._given = given
        self._nodes = nodes
        self._links = links
        self._columns = columns
        self.out = bytearray()
        self.node = 0

    def run(self, number: int, i: int) -> None:
        node = self._nodes[number]
        column = self._columns[node[1]]
        self.node = number
        valid = column[_VALID_AT] < 0 or self._given[column[_VALID_AT] + i]
        if node[0] == Write.NOTHING:
            return
        if node[0] == Write.NULLABLE:
            self._integer(node[3] if valid else node[2])
            if valid:
                self.run(self._links[node[6]], i)
            return
        if not valid:
            raise _Stop(UNDECLARED)
        at = column[_VALUES_AT]
        match node[0]:
            case Write.GROUP:
                for child in self._links[node[6] : node[6] + node[7]]:
                    self.run(child, i)
            case Write.INTEGER:
                value = self._number(at, i, column[_WIDTH])
                scaled = (value // node[3] if node[3] > 1 else value) * node[2]
                self._integer((scaled + (1 << 63)) % (1 << 64) - (1 << 63))
            case Write.FLOAT | Write.DOUBLE | Write.BOOLEAN:
                width = column[_WIDTH]
                self.out += self._given[at + i * width : at + (i + 1) * width]
            case Write.DECIMAL:
                value = int.from_bytes(self._given[at + i * 16 : at + (i + 1) * 16], "little", signed=True)
                size = (value + (value < 0)).bit_length() // 8 + 1
                if node[2] < 0:
                    self._integer(size)
                elif size > node[2]:
                    raise _Stop(MISSIZED)
                self.out += value.to_bytes(size if node[2] < 0 else node[2], "big", signed=True)
            case _:
                begin, end = self._number(at, i, 8), self._number(at, i + 1, 8)
                self._several(node, column, begin, end)

    def _several(self, node: list[int], column: list[int], begin: int, end: int) -> None:
        if node[0] == Write.ITEMS:
            if end > begin:
                self._integer(end - begin)
            for item in range(begin, end):
                self.run(self._links[node[6]], item)
            self._integer(0)
            return
        if node[0] == Write.FIXED and end - begin != node[2]:
            raise _Stop(MISSIZED)
        if node[0] == Write.BYTES:
            self._integer(end - begin)
        self.out += self._given[column[_DATA_AT] + begin : column[_DATA_AT] + end]

    def _number(self, at: int, i: int, width: int) -> int:
        return int.from_bytes(self._given[at + i * width : at + (i + 1) * width], "little", signed=True)

    def _integer(self, value: int) -> None:
        rest = value << 1 if value >= 0 else (-value << 1) - 1
        while rest > 127:
            self.out.append(rest & 127 | 128)
            rest >>= 7
        self.out.append(rest)
