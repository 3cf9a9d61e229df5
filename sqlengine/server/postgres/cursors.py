"""Cursors: a query's rows, of which a client asks for some at a time, with SCROLL also backward.

Source: PostgreSQL 15, FETCH and MOVE. The position is the number of the row that was given last: 0 is before the first row,
one more than their number behind the last.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sqlengine.server.postgres.portal import Portal
from sqlengine.server.postgres.sqlstate import PgError
from sqlengine.server.postgres.statements import Outcome, Piece

__all__ = ["Cursor"]


class Cursor(Portal):
    """A portal that has a position.

    Args:
        scrolls: whether it goes backward: then it holds all rows that it has read.
    """

    def __init__(self, outcome: Outcome, *, scrolls: bool) -> None:
        super().__init__(outcome)
        self._kept: list[Piece] | None = [] if scrolls else None
        self._read = 0
        """How many rows were read of the query."""
        self._at = 0

    def fetch(self, direction: str, count: int | None) -> Iterator[Piece]:
        """Rows, behind which the cursor stands then.

        Args:
            direction: `forward`, `backward`, `absolute` or `relative`.
            count: how many rows; None: all. Of the last two, which row.
        Raises:
            PgError: 55000 for rows that have passed, of a cursor without SCROLL.
        """
        if direction == "absolute":
            return self._one(self._place(count or 0))
        if direction == "relative":
            return self._one(max(self._at + (count or 0), 0))
        if count == 0:
            return self._one(self._at)
        if direction == "backward" or (count is not None and count < 0):
            return self._backward(None if count is None else abs(count))
        return self._forward(None if count is None else count)

    def _place(self, number: int) -> int:
        """The row of ABSOLUTE; negative numbers count from the end."""
        if number >= 0:
            return number
        if self._kept is None:
            raise _only_forward()
        self._read_to(None)
        return max(self._read + 1 + number, 0)

    def _forward(self, count: int | None) -> Iterator[Piece]:
        if self._kept is None:
            for piece in self.take(count):
                self._read += len(piece[0])
                self._at = self._read
                yield piece
            if self.ended:
                self._at = self._read + 1
            return
        first = min(self._at, self._read)
        self._read_to(None if count is None else self._at + count)
        last = self._read if count is None else min(self._at + count, self._read)
        self._at = last if count is not None and self._at + count <= self._read else self._read + 1
        if last > first:
            yield self._rows(first, last)

    def _backward(self, count: int | None) -> Iterator[Piece]:
        if self._kept is None:
            raise _only_forward()
        last = max(self._at - 1, 0)
        first = 0 if count is None else max(self._at - 1 - count, 0)
        self._at = 0 if count is None else max(self._at - count, 0)
        if last > first:
            yield [column.take(pa.array(np.arange(last - first)[::-1])) for column in self._rows(first, last)]

    def _one(self, number: int) -> Iterator[Piece]:
        """The row of a number; none before the first row and behind the last."""
        if self._kept is None:
            if number < self._at or (number == self._at and 0 < number <= self._read):
                raise _only_forward()
            yield from self._skipped_to(number)
            return
        self._read_to(number)
        self._at = min(number, self._read + 1)
        if 0 < self._at <= self._read:
            yield self._rows(self._at - 1, self._at)

    def _skipped_to(self, number: int) -> Iterator[Piece]:
        if number - 1 > self._at:
            for _ in self._forward(number - 1 - self._at):
                pass
        if number > self._at:
            yield from self._forward(1)

    def _read_to(self, count: int | None) -> None:
        """Read rows of the query until there are so many; None: all."""
        assert self._kept is not None
        missing = None if count is None else count - self._read
        for piece in self.take(missing):
            self._kept.append(piece)
            self._read += len(piece[0])

    def _rows(self, first: int, last: int) -> Piece:
        """Rows that were read, from one to before the other."""
        assert self._kept is not None
        if len(self._kept) > 1:
            columns = zip(*self._kept, strict=True)
            self._kept = [[pa.concat_arrays(column) for column in columns]]
        return [column.slice(first, last - first) for column in self._kept[0]]


def _only_forward() -> PgError:
    return PgError(
        "55000", "cursor can only scan forward", hint="Declare it with SCROLL option to enable backward scan."
    )
