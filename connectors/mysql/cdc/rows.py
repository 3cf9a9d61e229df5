"""Events with rows of one table, as cells: where each value is in the bytes.

An event has its rows one behind the other, without their lengths. All events of a batch are walked through together: the first
row of each, column by column, then the second row of those that have one, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from connectors.mysql.cdc.events import DELETE, HEAD, UPDATE, WITH_EXTRA, Shape, not_understood
from connectors.mysql.wire import PADDING, Places
from runtime.core.errors import ConnectorError

__all__ = ["Cells", "Rows", "read_rows", "real_type"]

_FIXED = {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 6: 0, 7: 4, 8: 8, 9: 3, 10: 3, 11: 3, 12: 8, 13: 1, 14: 3}
_STRING, _ENUM, _SET = 254, 247, 248
_BLOBS = frozenset({245, 249, 250, 251, 252, 255})
_DIGITS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of so many digits of DECIMAL."""
_NUMBER, _FLAGS = 6, 2


@dataclass(frozen=True, slots=True)
class Cells:
    """One column of rows: where each value is, how long, and which are NULL."""

    start: Places
    length: Places
    missing: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of events, in their order.

    Attributes:
        data: the bytes of all events; cells are places in it.
        event: of which event each row is.
        change: the number of the change that each row belongs to, ascending; an update has an old and a new row.
        is_old: whether it is what was there before.
        alone: whether it is the only row of its change.
        columns: the wanted ones.
    """

    data: bytes
    event: Places
    change: Places
    is_old: npt.NDArray[np.bool_]
    alone: npt.NDArray[np.bool_]
    columns: tuple[Cells, ...]


def real_type(code: int, more: int) -> tuple[int, int]:
    """The type of a column and how many bytes its values have at most, where CHAR, ENUM and SET are told as one."""
    if code != _STRING:
        return code, more
    low, high = more & 0xFF, more >> 8
    if low & 0x30 != 0x30:
        return low | 0x30, high | ((low & 0x30) ^ 0x30) << 4
    return low, high


def read_rows(events: Sequence[bytes], kinds: Sequence[int], shape: Shape, wanted: Sequence[int]) -> Rows:
    """The rows of events of one table.

    Args:
        events: without their checksums.
        kinds: of each.
        wanted: the numbers of the columns whose cells are given.
    Raises:
        ConnectorError: E3170 these are no such events; E3172 rows are not whole.
    """
    data = b"".join([*events, PADDING])
    octets = np.frombuffer(data, dtype=np.uint8)
    lengths = np.fromiter(map(len, events), np.int64, len(events))
    ends = np.cumsum(lengths)
    count = len(shape.codes)
    bitmap = (count + 7) // 8
    each = np.array(kinds)
    updates, deletes, extra = (np.isin(each, [*some]) for some in (UPDATE, DELETE, WITH_EXTRA))
    at = _bodies(octets, extra, ends - lengths, ends, count, updates, bitmap)
    active = np.arange(len(events))
    parts: list[tuple[Places, Places, list[Cells]]] = []
    turn = 0
    while len(active):
        places = at[active]
        cells, places = _image(octets, places, ends[active], shape, wanted, bitmap)
        parts.append((active, np.full(len(active), 2 * turn), cells))
        both = np.flatnonzero(updates[active])
        if len(both):
            second, behind = _image(octets, places[both], ends[active][both], shape, wanted, bitmap)
            places[both] = behind
            parts.append((active[both], np.full(len(both), 2 * turn + 1), second))
        at[active] = places
        active = active[places < ends[active]]
        turn += 1
    return _ordered(data, parts, updates, deletes)


def _bodies(
    octets: npt.NDArray[np.uint8],
    extra: npt.NDArray[np.bool_],
    begins: Places,
    ends: Places,
    count: int,
    updates: npt.NDArray[np.bool_],
    bitmap: int,
) -> Places:
    """Where the first row of each event begins."""
    at = begins + HEAD + _NUMBER + _FLAGS
    limit = len(octets) - len(PADDING)
    size = octets[np.minimum(at, limit)].astype(np.int64) | octets[np.minimum(at + 1, limit)].astype(np.int64) << 8
    at = np.where(extra, at + np.maximum(size, 2), at)
    packed = octets[np.minimum(at, limit)].astype(np.int64)
    wide = packed == 252
    two = octets[np.minimum(at + 1, limit)].astype(np.int64) | octets[np.minimum(at + 2, limit)].astype(np.int64) << 8
    if (np.where(wide, two, packed) != count).any():
        raise not_understood("rows of another number of columns than their table")
    at = at + np.where(wide, 3, 1)
    behind = at + np.where(updates, 2 * bitmap, bitmap)
    if (behind > ends).any():
        raise not_understood("rows that are too short")
    for byte in range(bitmap):
        bits = min(8, count - 8 * byte)
        full = (1 << bits) - 1
        for first in (at + byte, np.where(updates, at + bitmap + byte, at + byte)):
            if (octets[first] & full != full).any():
                raise ConnectorError(
                    "the log has rows without all of their columns",
                    code="E3172",
                    hint="SET GLOBAL binlog_row_image = FULL, and begin anew: these rows stay as they are in the log",
                )
    return behind


def _image(
    octets: npt.NDArray[np.uint8], at: Places, ends: Places, shape: Shape, wanted: Sequence[int], bitmap: int
) -> tuple[list[Cells], Places]:
    """The cells of rows, and the places behind them. Nothing behind the events is looked at."""
    nulls = at
    at = at + bitmap
    _check(at, ends)
    found: dict[int, Cells] = {}
    for number, (code, more) in enumerate(zip(shape.codes, shape.more, strict=True)):
        missing = (octets[nulls + number // 8] >> (number % 8) & 1).astype(bool)
        size, prefix = _size(code, more)
        if prefix:
            _check(np.where(missing, at, at + prefix), ends)
            size = np.zeros(len(at), dtype=np.int64)
            for byte in range(prefix):
                size = size | octets[at + byte].astype(np.int64) << 8 * byte
        start = at + prefix
        length = np.where(missing, 0, size)
        at = np.where(missing, at, start + length)
        _check(at, ends)
        if number in wanted:
            found[number] = Cells(start, length, missing)
    return [found[number] for number in wanted], at


def _check(at: Places, ends: Places) -> None:
    if (at > ends).any():
        raise not_understood("rows that are too short")


def _size(code: int, more: int) -> tuple[int, int]:
    """Bytes of a value, or of the number before it that says how many."""
    if code in _FIXED:
        return _FIXED[code], 0
    if code in _BLOBS:
        if not 0 < more <= 4:
            raise not_understood("a blob of no size")
        return 0, more
    if code in (15, 253):
        return 0, 2 if more > 255 else 1
    if code in (17, 18, 19):
        return {17: 4, 18: 5, 19: 3}[code] + (more + 1) // 2, 0
    if code == 16:
        bits, size = more & 0xFF, more >> 8
        return size + (1 if bits else 0), 0
    if code == 246:
        precision, scale = more & 0xFF, more >> 8
        if scale > precision:
            raise not_understood("a DECIMAL of no digits")
        whole = precision - scale
        return whole // 9 * 4 + _DIGITS[whole % 9] + scale // 9 * 4 + _DIGITS[scale % 9], 0
    real, size = real_type(code, more)
    if real in (_ENUM, _SET):
        return size, 0
    if real == _STRING:
        return 0, 2 if size > 255 else 1
    raise ConnectorError(
        f"the log has a column of type {code}, whose values have no length that is known",
        code="E3171",
        hint="ALTER TABLE .. FORCE brings old types of times into their new form; compressed columns are not followed",
    )


def _ordered(
    data: bytes,
    parts: Sequence[tuple[Places, Places, list[Cells]]],
    updates: npt.NDArray[np.bool_],
    deletes: npt.NDArray[np.bool_],
) -> Rows:
    event = np.concatenate([p[0] for p in parts])
    turn = np.concatenate([p[1] for p in parts])
    order = np.lexsort((turn, event))
    event, turn = event[order], turn[order]
    is_update = updates[event]
    first = turn % 2 == 0
    columns: list[Cells] = []
    for number in range(len(parts[0][2])):
        cells = [p[2][number] for p in parts]
        columns.append(
            Cells(
                np.concatenate([c.start for c in cells])[order],
                np.concatenate([c.length for c in cells])[order],
                np.concatenate([c.missing for c in cells])[order],
            )
        )
    return Rows(
        data,
        event,
        np.cumsum(first) - 1,
        np.where(is_update, first, deletes[event]),
        ~is_update,
        tuple(columns),
    )
