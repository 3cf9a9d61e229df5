"""What decoders share: malformed records with their line, lines of a block, and the cast that finds the cells it cannot
take."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import FormatError
from runtime.spi.reader import RejectedRow

__all__ = [
    "BadMask",
    "Lines",
    "MalformedRecord",
    "cast_or_find",
    "either",
    "in_runs",
    "malformed_error",
    "rows_of_elements",
    "shown_bytes",
    "shown_hex",
    "too_long",
    "valid_utf8",
]

BadMask = npt.NDArray[np.bool_]
"""One flag per row; None in its place means that no row is bad."""

_SHOWN_CHARACTERS = 160
_KEPT_BYTES = 10_000
"""Of a rejected record so many bytes are kept."""
_MOST_SINGLY = 4096
_FEW_CELLS = 2


@dataclass(frozen=True, slots=True)
class MalformedRecord(RejectedRow):
    """A record that is not in the format; `line` counts from 0 within the decoded block."""

    line: int = 0


def shown_bytes(raw: bytes) -> str:
    """The text of a rejected record, cut off where it is long."""
    text = raw[:_KEPT_BYTES].decode("utf-8", "replace")
    return text if len(raw) <= _KEPT_BYTES else text + "..."


def shown_hex(raw: bytes) -> str:
    """The bytes of a rejected record that is no text, cut off where it is long."""
    return f"x'{raw[: _KEPT_BYTES // 2].hex()}'" + ("..." if len(raw) > _KEPT_BYTES // 2 else "")


def too_long(most: int) -> str:
    """The reason for which a record over the limit is rejected."""
    return f"longer than {most} bytes ('source.max-record-size')"


def valid_utf8(block: bytes) -> bool:
    """Whether bytes are text in UTF-8."""
    if block.isascii():
        return True
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def in_runs(count: int, whole: Callable[[int, int], bool], singly: Callable[[int, int], None], few: int) -> None:
    """Deal with `count` items in order, as many at a time as go well together.

    Where a run is refused half of it is tried, down to a few, which are dealt with one by one; the more of these follow
    each other, the longer they get. So the cost is linear in `count` whichever items are refused.

    Args:
        whole: deals with items `begin` to `end` together; false when it cannot.
        singly: deals with each of them.
        few: so many are dealt with one by one sooner than together.
    """
    begin, size, run = 0, count, few
    while begin < count:
        end = min(begin + size, count)
        if end - begin <= run:
            singly(begin, end)
            begin, size, run = end, 4 * run, min(2 * run, _MOST_SINGLY)
        elif whole(begin, end):
            begin, size, run = end, 2 * size, few
        else:
            size = (end - begin) // 2


def malformed_error(where: str, format_name: str, record: RejectedRow, first_line: int) -> FormatError:
    """The error for a table that does not tolerate malformed records.

    Args:
        where: the file.
        first_line: 1-based number of the first line of the decoded block.
    """
    shown = record.raw if len(record.raw) <= _SHOWN_CHARACTERS else record.raw[: _SHOWN_CHARACTERS - 3] + "..."
    place = f"{where}:{first_line + record.line}" if isinstance(record, MalformedRecord) else where
    hint = f"set '{format_name}.ignore-parse-errors' = 'true' on the table to keep such records in system.rejected and go on"
    if format_name == "csv" and place == f"{where}:1" and _holds_names(record):
        hint = f"if the first line names the columns, set 'csv.header' = 'true' on the table; or {hint}"
    return FormatError(f"{place}: {record.reason}: {shown}", code="E3201", hint=hint)


def _holds_names(record: RejectedRow) -> bool:
    """Whether the name of the column with the wrong value stands in the record."""
    column = re.match(r"column (.+) is not ", record.reason)
    return (
        column is not None and re.search(rf"(?<!\w){re.escape(column[1])}(?!\w)", record.raw, re.IGNORECASE) is not None
    )


class Lines:
    """The lines of a block of text: where each begins and ends (without line end), blank ones left out.

    Attributes:
        starts, ends: byte offsets, int64 (n,).
        numbers: the 0-based line number of each.
    """

    __slots__ = ("data", "ends", "numbers", "starts")

    def __init__(
        self, data: bytes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
    ) -> None:
        self.data = data
        self.starts = starts
        self.ends = ends
        self.numbers = numbers

    @staticmethod
    def of(data: bytes) -> Lines:
        """Split at line feeds; carriage returns, spaces and tabs around a line do not belong to it."""
        octets = np.frombuffer(data, dtype=np.uint8)
        breaks = np.flatnonzero(octets == 10)
        starts = np.concatenate([np.zeros(1, np.int64), breaks + 1])
        ends = np.concatenate([breaks, np.array([len(data)], np.int64)])
        starts, ends = _trim(octets, starts, ends)
        used = np.flatnonzero(ends > starts)
        return Lines(data, starts[used], ends[used], used)

    @staticmethod
    def joined(lines: Sequence[bytes], numbers: npt.NDArray[np.int64]) -> Lines:
        """Lines without blanks around them, and nothing between them but line ends."""
        ends = np.cumsum([len(line) for line in lines], dtype=np.int64) + np.arange(len(lines))
        starts = np.concatenate([np.zeros(1, np.int64), ends + 1])[: len(lines)]
        return Lines(b"\n".join(lines), starts, ends, numbers)

    def __len__(self) -> int:
        return len(self.starts)

    def slice(self, begin: int, end: int) -> Lines:
        return Lines(self.data, self.starts[begin:end], self.ends[begin:end], self.numbers[begin:end])

    def block(self) -> bytes:
        """The bytes from the first line to the end of the last, what is between them included."""
        return self.data[int(self.starts[0]) : int(self.ends[-1])] if len(self) else b""

    def raw(self, index: int) -> bytes:
        return self.data[int(self.starts[index]) : int(self.ends[index])]

    def array(self) -> pa.Array:
        """The lines as a string array without a copy of the bytes when they are the whole of `data`, line ends cut
        off."""
        gaps = np.empty(2 * len(self) + 1, dtype=np.int64)
        gaps[0:-1:2] = self.starts
        gaps[1::2] = self.ends
        gaps[-1] = len(self.data)
        cut = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), 2 * len(self), [None, pa.py_buffer(gaps), pa.py_buffer(self.data)]
        )
        return cut.take(pa.array(np.arange(len(self), dtype=np.int64) * 2)).cast(pa.large_string()).cast(pa.string())


_BLANK = np.zeros(256, dtype=bool)
_BLANK[[9, 13, 32]] = True


def _trim(
    octets: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Take blanks off both ends of every line."""
    filled = np.flatnonzero(ends > starts)
    if not (_BLANK[octets[starts[filled]]].any() or _BLANK[octets[ends[filled] - 1]].any()):
        return starts, ends
    for _ in range(2):  # Most lines have a carriage return at most.
        loose = filled[_BLANK[octets[ends[filled] - 1]]]
        ends[loose] -= 1
        filled = filled[ends[filled] > starts[filled]]
    if not (_BLANK[octets[starts[filled]]].any() or _BLANK[octets[ends[filled] - 1]].any()):
        return starts, ends
    used = np.flatnonzero(~_BLANK[octets] & (octets != 10))
    first, last = np.searchsorted(used, starts), np.searchsorted(used, ends)
    empty = first == last
    trimmed_starts = np.where(empty, starts, used[np.minimum(first, max(len(used) - 1, 0))] if len(used) else starts)
    trimmed_ends = np.where(empty, starts, used[np.maximum(last - 1, 0)] + 1 if len(used) else starts)
    return trimmed_starts, trimmed_ends


def either(first: BadMask | None, second: BadMask | None) -> BadMask | None:
    """Rows that are bad in one or the other."""
    if first is None:
        return second
    return first if second is None else first | second


def rows_of_elements(lists: pa.Array, bad: BadMask | None) -> BadMask | None:
    """The rows of a list or map array that have a bad element; `bad` is over its flattened elements."""
    if bad is None:
        return None
    rows = np.zeros(len(lists), dtype=bool)
    rows[pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)[bad]] = True
    return rows


def cast_or_find(
    values: pa.Array, cast: Callable[[pa.Array], pa.Array], type_: pa.DataType
) -> tuple[pa.Array, BadMask | None]:
    """Apply a cast that raises ArrowInvalid on bad values; bad cells become NULL and are marked."""
    pieces: list[pa.Array] = []
    bad = np.zeros(len(values), dtype=bool)

    def whole(begin: int, end: int) -> bool:
        try:
            pieces.append(cast(values.slice(begin, end - begin)))
        except pa.ArrowInvalid:
            return False
        return True

    def singly(begin: int, end: int) -> None:
        for at in range(begin, end):
            if not whole(at, at + 1):
                pieces.append(pa.nulls(1, type_))
                bad[at] = True

    in_runs(len(values), whole, singly, _FEW_CELLS)
    cells = pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces) if pieces else pa.nulls(0, type_)
    return cells, bad if bad.any() else None
