"""The twin in Python of the kernel `json_read`: object by object, with the same answers."""

from __future__ import annotations

import re

import numpy as np

from runtime.kernels.column_filling import (
    COLUMN,
    COUNT,
    DATA_AT,
    DATA_ROOM,
    DATA_USED,
    KIND,
    NULLS,
    ROOM,
    STRINGS,
    VALID_AT,
    VALUES_AT,
)

__all__ = ["MOST_KEYS", "read"]

MOST_KEYS = 256
_NODE, _DEEPEST = 4, 64
_INTEGER, _REAL, _BOOLEAN, _TEXT, _DECIMAL = range(5)
_BLANKS = re.compile(rb"[ \t\r]*")
_STRING = re.compile(rb'"([^"\\\x00-\x1f]*)"')
_NUMBER = re.compile(rb"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]{1,3})(?![0-9]))?")
_NO_NUMBER = re.compile(rb"[0-9.eE+-]")
_WORDS = {b"t": b"true", b"f": b"false", b"n": b"null"}


class _Left(Exception):
    """The object is not plain."""


def read(
    data: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    names: np.ndarray,
    name_ends: np.ndarray,
    nodes: np.ndarray,
    columns: np.ndarray,
    arena: np.ndarray,
    saved: np.ndarray,
    seen: np.ndarray,
    order: np.ndarray,
    state: np.ndarray,
) -> int:
    """See `sqlengine_json_read`."""
    table = columns.reshape(-1, COLUMN)
    given = names.tobytes()
    bounds = [0, *name_ends.tolist()]
    by_name: dict[bytes, int] = {}
    for number in range(len(name_ends)):
        by_name.setdefault(given[bounds[number] : bounds[number + 1]], number)
    reading = _Reading(by_name, nodes.reshape(-1, _NODE).tolist(), table, memoryview(arena))  # pyright: ignore[reportArgumentType]
    whole = data.tobytes()
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        kept = table[:, COUNT : NULLS + 1].copy()
        try:
            reading.take(whole[start:end])
            state[row] = False
        except _Left:
            table[:, COUNT : NULLS + 1] = kept
            state[row] = True
    return int(state.sum())


class _Reading:
    def __init__(self, names: dict[bytes, int], nodes: list[list[int]], table: np.ndarray, arena: memoryview) -> None:
        self._names = names
        self._nodes = nodes
        self._table = table
        self._arena = arena

    def take(self, text: bytes) -> None:
        """Adds the values of an object to the columns."""
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            raise _Left from None
        self._data, self._at = text, 0
        self._expect(b"{")
        found: set[int] = set()
        self._blanks()
        if not self._takes(b"}"):
            while True:
                self._blanks()
                key = self._text()
                self._blanks()
                self._expect(b":")
                name = self._names.get(key)
                if name is None:
                    self._pass_value(0)
                elif name in found:
                    raise _Left
                else:
                    self._value(self._nodes[name])
                    found.add(name)
                self._blanks()
                if self._takes(b"}"):
                    break
                self._expect(b",")
        self._blanks()
        if self._at != len(self._data):
            raise _Left
        for number, node in enumerate(self._nodes):
            if number not in found:
                self._add(node[1], None)

    def _blanks(self) -> None:
        found = _BLANKS.match(self._data, self._at)
        assert found is not None
        self._at = found.end()

    def _takes(self, mark: bytes) -> bool:
        if not self._data.startswith(mark, self._at):
            return False
        self._at += len(mark)
        return True

    def _expect(self, mark: bytes) -> None:
        if not self._takes(mark):
            raise _Left

    def _text(self) -> bytes:
        found = _STRING.match(self._data, self._at)
        if found is None:
            raise _Left
        self._at = found.end()
        return found[1]

    def _number(self) -> tuple[bool, int, int, int, int, bool]:
        """Sign, digits as a number, how many count, digits of the fraction, exponent, and whether it is an integer."""
        found = _NUMBER.match(self._data, self._at)
        if found is None:
            raise _Left
        whole, fraction = found[2], found[3] or b""
        if _NO_NUMBER.match(self._data, found.end()):
            raise _Left
        digits = (whole + fraction).lstrip(b"0")
        if len(digits) > 18 or len(fraction) > 18:
            raise _Left
        self._at = found.end()
        exponent = int(found[5] or b"0") * (-1 if found[4] == b"-" else 1)
        is_integer = found[3] is None and found[5] is None
        return found[1] == b"-", int(digits or b"0"), len(digits), len(fraction), exponent, is_integer

    def _pass_value(self, depth: int) -> None:
        self._blanks()
        first = self._data[self._at : self._at + 1]
        if not first or depth > _DEEPEST:
            raise _Left
        if first == b'"':
            self._text()
        elif first in _WORDS:
            self._expect(_WORDS[first])
        elif first in (b"{", b"["):
            self._at += 1
            closing = b"}" if first == b"{" else b"]"
            self._blanks()
            if self._takes(closing):
                return
            while True:
                if first == b"{":
                    self._blanks()
                    self._text()
                    self._blanks()
                    self._expect(b":")
                self._pass_value(depth + 1)
                self._blanks()
                if self._takes(closing):
                    return
                self._expect(b",")
        elif abs(self._number()[4]) >= 100:
            raise _Left

    def _value(self, node: list[int]) -> None:
        self._blanks()
        column = node[1]
        if self._data.startswith(b"n", self._at):
            self._expect(b"null")
            self._add(column, None)
        elif node[0] == _TEXT:
            self._add(column, self._text())
        elif node[0] == _BOOLEAN:
            yes = self._data.startswith(b"t", self._at)
            self._expect(b"true" if yes else b"false")
            self._add(column, bytes([yes]))
        else:
            self._add(column, self._of_number(node, int(self._table[column][KIND])))

    def _of_number(self, node: list[int], width: int) -> bytes:
        negative, digits, count, fraction, exponent, is_integer = self._number()
        if node[0] == _INTEGER:
            if not is_integer or digits > (1 << 8 * width - 1) - (not negative):
                raise _Left
            return (-digits if negative else digits).to_bytes(width, "little", signed=True)
        if node[0] == _DECIMAL:
            more = node[2] - fraction
            if exponent or more < 0:
                raise _Left
            if digits and (count + more > 18 or count + more > node[3]):
                raise _Left
            value = digits * 10**more
            return (-value if negative else value).to_bytes(16, "little", signed=True)
        if negative and not digits and is_integer:
            raise _Left
        power = exponent - fraction
        if digits >= (1 << 24 if width == 4 else 1 << 53) or abs(power) > (10 if width == 4 else 22):
            raise _Left
        real = np.float32 if width == 4 else np.float64
        size = real(10 ** abs(power))
        value = real(digits) / size if power < 0 else real(digits) * size
        return (-value if negative else value).tobytes()

    def _add(self, column: int, value: bytes | None) -> None:
        words = self._table[column]
        count, kind = int(words[COUNT]), int(words[KIND])
        if count >= words[ROOM] or (kind == STRINGS and len(value or b"") > words[DATA_ROOM] - words[DATA_USED]):
            raise _Left
        self._arena[int(words[VALID_AT]) + count] = int(value is not None)
        words[NULLS] += value is None
        if kind == STRINGS:
            at = int(words[DATA_AT]) + int(words[DATA_USED])
            self._arena[at : at + len(value or b"")] = value or b""
            words[DATA_USED] += len(value or b"")
            at, value = int(words[VALUES_AT]) + 4 * (count + 1), int(words[DATA_USED]).to_bytes(4, "little")
        else:
            at, value = int(words[VALUES_AT]) + count * kind, value or bytes(kind)
        self._arena[at : at + len(value)] = value
        words[COUNT] += 1
