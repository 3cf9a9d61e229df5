"""The twin in Python of the kernel `avro_read`: record by record, value by value, with the same answers."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from runtime.kernels.avro_programs import Read
from runtime.kernels.column_adding import ColumnAdding, Full, TooLarge
from runtime.kernels.column_filling import COLUMN, COUNT, KIND, NULLS
from runtime.kernels.programs import NODE

__all__ = ["read"]

(
    FINE, SHORT, LONG_INTEGER, BAD_LENGTH, NO_BRANCH, OUT_OF_RANGE, NOT_TEXT, NOT_BOOLEAN, TOO_MANY, TOO_DEEP, BAD_DECIMAL,
    LEFT_OVER, TOO_LARGE, REFUSED,
) = range(14)  # fmt: skip
UNREAD = 255
_DEEPEST, _MOST_EMPTY = 200, 4096

__all__ += [
    "BAD_DECIMAL", "BAD_LENGTH", "FINE", "LEFT_OVER", "LONG_INTEGER", "NOT_BOOLEAN", "NOT_TEXT", "NO_BRANCH", "OUT_OF_RANGE",
    "REFUSED", "SHORT", "TOO_DEEP", "TOO_LARGE", "TOO_MANY", "UNREAD",
]  # fmt: skip


class _Stop(Exception):
    """A record is none, for this reason."""


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
    state: np.ndarray,
    cursor: np.ndarray,
    streamed: int,
) -> int:
    """See `sqlengine_avro_read`."""
    table = columns.reshape(-1, COLUMN)
    walk = _Walk(nodes.reshape(-1, NODE).tolist(), links.tolist(), constants.tobytes(), table, arena)
    whole = data.tobytes()
    row, at = int(cursor[0]), int(cursor[1]) if streamed else 0
    while row < len(state):
        place = 0 if streamed else row
        end = int(ends[place])
        kept = table[:, COUNT : NULLS + 1].copy()
        walk.begin(whole, at if streamed else int(starts[row]), end)
        failed = FINE
        try:
            walk.run(0)
            if not streamed and walk.at != end:
                failed, walk.node = LEFT_OVER, 0
        except _Stop as stop:
            failed = stop.args[0]
        except TooLarge:
            failed = TOO_LARGE
        except Full:
            table[:, COUNT : NULLS + 1] = kept
            break
        if failed:
            table[:, COUNT : NULLS + 1] = kept
        state[row] = failed | walk.node << 8 if failed else FINE
        at = walk.at
        if failed and streamed:
            break
        row += 1
    cursor[:] = row, at
    return row


class _Walk(ColumnAdding):
    def __init__(
        self, nodes: list[list[int]], links: list[int], constants: bytes, table: np.ndarray, arena: np.ndarray
    ) -> None:
        super().__init__(table, arena)
        self._nodes = nodes
        self._links = links
        self._constants = constants
        self._does: dict[int, Callable[[list[int]], None]] = {
            Read.SKIP_FIXED: lambda n: self._skip(n[2]),
            Read.SKIP_INTEGER: lambda n: self._no_value(self._integer()),
            Read.SKIP_BYTES: lambda n: self._skip(self._length()),
            Read.SKIP_ITEMS: self._items,
            Read.GROUP: self._group,
            Read.ABSENT: self._group,
            Read.UNION: self._union,
            Read.INTEGER: self._number,
            Read.INTEGER_AS_FLOAT: self._number,
            Read.FLOAT: self._float,
            Read.DOUBLE: self._float,
            Read.BOOLEAN: self._boolean,
            Read.BYTES: self._bytes,
            Read.FIXED: self._bytes,
            Read.DECIMAL: self._decimal,
            Read.TEXT: lambda n: self.add_bytes(n[1], self._constants[n[2] : n[2] + n[3]]),
            Read.DEFAULT: self._default,
            Read.ITEMS: self._items,
        }

    def begin(self, data: bytes, at: int, end: int) -> None:
        self._data, self.at, self._end = data, at, end
        self._depth, self._empty = 0, _MOST_EMPTY
        self.node = 0

    def run(self, number: int) -> None:
        node = self._nodes[number]
        self.node = number
        if node[0] == Read.REJECT:
            raise _Stop(REFUSED)
        self._does[node[0]](node)

    def _no_value(self, value: int) -> None:
        """It was only passed over."""

    def _deeper(self, step: Callable[[], None]) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Stop(TOO_DEEP)
        step()
        self._depth -= 1

    def _integer(self) -> int:
        read = shift = 0
        while True:
            if self.at == self._end:
                raise _Stop(SHORT)
            byte = self._data[self.at]
            self.at += 1
            if shift == 63 and byte > 1:
                raise _Stop(LONG_INTEGER)
            read |= (byte & 127) << shift
            if byte < 128:
                return read >> 1 ^ -(read & 1)
            shift += 7

    def _length(self) -> int:
        length = self._integer()
        if length < 0:
            raise _Stop(BAD_LENGTH)
        if length > self._end - self.at:
            raise _Stop(SHORT)
        return length

    def _take(self, size: int) -> bytes:
        if self._end - self.at < size:
            raise _Stop(SHORT)
        self.at += size
        return self._data[self.at - size : self.at]

    def _skip(self, size: int) -> None:
        self._take(size)

    def _children(self, node: list[int]) -> list[int]:
        return self._links[node[6] : node[6] + node[7]]

    def _group(self, node: list[int]) -> None:
        def all_of_them() -> None:
            for child in self._children(node):
                self.run(child)

        self._deeper(all_of_them)
        if node[1] >= 0:
            self.add(node[1], node[0] == Read.GROUP, None)

    def _union(self, node: list[int]) -> None:
        branch = self._integer()
        if not 0 <= branch < node[7]:
            raise _Stop(NO_BRANCH)
        self._deeper(lambda: self.run(self._links[node[6] + branch]))

    def _default(self, node: list[int]) -> None:
        kept = self._data, self.at, self._end
        self._data, self.at, self._end = self._constants, node[2], node[2] + node[3]
        self._deeper(lambda: self.run(self._links[node[6]]))
        self._data, self.at, self._end = kept

    def _items(self, node: list[int]) -> None:
        self._deeper(lambda: self._blocks(node))

    def _blocks(self, node: list[int]) -> None:
        least, total, self_ = node[2], 0, self.node
        while items := self._integer():
            if items < 0:
                if items == -(1 << 63):
                    raise _Stop(BAD_LENGTH)
                items, size = -items, self._length()
                if node[1] < 0:
                    self.at += size
                    continue
            if least > 0 and items > (self._end - self.at) // least:
                raise _Stop(SHORT)
            if least <= 0:
                if items > self._empty:
                    raise _Stop(TOO_MANY)
                self._empty -= items
            for _ in range(items):
                self.run(self._links[node[6]])
            self.node = self_
            total += items
        if node[1] >= 0:
            self.add_list(node[1], total)

    def _number(self, node: list[int]) -> None:
        value = self._integer()
        if not node[2] <= value <= node[3]:
            raise _Stop(OUT_OF_RANGE)
        if node[0] == Read.INTEGER_AS_FLOAT:
            narrow = self.table[node[1]][KIND] == 4
            self.add(node[1], True, np.int64(value).astype(np.float32 if narrow else np.float64).tobytes())
            return
        if node[5] > 1:
            value //= node[5]
        value *= node[4]
        self.add_number(node[1], value)

    def _float(self, node: list[int]) -> None:
        narrow = node[0] == Read.FLOAT
        taken = self._take(4 if narrow else 8)
        width = int(self.table[node[1]][KIND])
        if width != len(taken):
            with np.errstate(over="ignore"):
                (number,) = struct.unpack("<f" if narrow else "<d", taken)
                taken = (np.float32(number) if width == 4 else np.float64(number)).tobytes()
        self.add(node[1], True, taken)

    def _boolean(self, node: list[int]) -> None:
        if self.at == self._end:
            raise _Stop(SHORT)
        if self._data[self.at] > 1:
            raise _Stop(NOT_BOOLEAN)
        self.add_number(node[1], self._take(1)[0])

    def _bytes(self, node: list[int]) -> None:
        taken = self._take(self._length() if node[0] == Read.BYTES else node[2])
        if node[3]:
            try:
                taken.decode("utf-8")
            except UnicodeDecodeError:
                self.at -= len(taken)
                raise _Stop(NOT_TEXT) from None
        self.add_bytes(node[1], taken)

    def _decimal(self, node: list[int]) -> None:
        taken = self._take(self._length() if node[2] < 0 else node[2])
        value = int.from_bytes(taken, "big", signed=True)
        most = (node[3] & (1 << 64) - 1) << 64 | node[4] & (1 << 64) - 1
        if abs(value) >= most:
            raise _Stop(BAD_DECIMAL)
        self.add(node[1], True, value.to_bytes(16, "little", signed=True))
