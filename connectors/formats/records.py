"""What decoders share: malformed records with their line, lines of a block, and the cast that finds the cells it cannot
take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import FormatError
from runtime.spi.table import RejectedRow

__all__ = ["BadMask", "Lines", "MalformedRecord", "cast_or_find", "either", "malformed_error", "rows_of_elements"]

BadMask = npt.NDArray[np.bool_]
"""One flag per row; None in its place means that no row is bad."""

_SHOWN_CHARACTERS = 160


@dataclass(frozen=True, slots=True)
class MalformedRecord(RejectedRow):
    """A record that is not in the format; `line` counts from 0 within the decoded block."""

    line: int = 0


def malformed_error(where: str, format_name: str, record: RejectedRow, first_line: int) -> FormatError:
    """The error for a table that does not tolerate malformed records.

    Args:
        where: the file.
        first_line: 1-based number of the first line of the decoded block.
    """
    shown = record.raw if len(record.raw) <= _SHOWN_CHARACTERS else record.raw[: _SHOWN_CHARACTERS - 3] + "..."
    place = f"{where}:{first_line + record.line}" if isinstance(record, MalformedRecord) else where
    return FormatError(
        f"{place}: {record.reason}: {shown}",
        code="E3201",
        hint=f"set '{format_name}.ignore-parse-errors' = 'true' on the table to keep such records in system.rejected and go on",
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

    def __len__(self) -> int:
        return len(self.starts)

    def slice(self, begin: int, end: int) -> Lines:
        return Lines(self.data, self.starts[begin:end], self.ends[begin:end], self.numbers[begin:end])

    def block(self) -> bytes:
        """The bytes from the first line to the end of the last, what is between them included."""
        return self.data[int(self.starts[0]) : int(self.ends[-1])] if len(self) else b""

    def raw(self, index: int) -> bytes:
        return self.data[int(self.starts[index]) : int(self.ends[index])]

    def text(self, index: int) -> str:
        return self.raw(index).decode("utf-8", "replace")

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
    """Take blanks off both ends of every line, one round per blank of the longest run."""
    while True:
        open_ = np.flatnonzero(ends > starts)
        loose = open_[_BLANK[octets[ends[open_] - 1]]]
        if not len(loose):
            break
        ends[loose] -= 1
    while True:
        open_ = np.flatnonzero(ends > starts)
        loose = open_[_BLANK[octets[starts[open_]]]]
        if not len(loose):
            return starts, ends
        starts[loose] += 1


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
    """Apply a cast that raises ArrowInvalid on bad values; bad cells become NULL and are marked.

    Halves the column until every bad cell stands alone: b bad cells among n take about b log n casts of shrinking size.
    """
    try:
        return cast(values), None
    except pa.ArrowInvalid:
        if len(values) == 1:
            return pa.nulls(1, type_), np.ones(1, dtype=bool)
    middle = len(values) // 2
    left, left_bad = cast_or_find(values.slice(0, middle), cast, type_)
    right, right_bad = cast_or_find(values.slice(middle), cast, type_)
    marks: Sequence[BadMask] = [
        np.zeros(len(part), dtype=bool) if bad is None else bad for part, bad in ((left, left_bad), (right, right_bad))
    ]
    return pa.concat_arrays([left, right]), np.concatenate(marks)
