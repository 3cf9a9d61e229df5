"""Rows that a reader has decoded and not given yet."""

from __future__ import annotations

from runtime.core.changelog import UPDATE_BEFORE, ChangelogBatch

__all__ = ["PendingRows", "end_of_part"]


def end_of_part(rows: ChangelogBatch, begin: int, most: int) -> int:
    """Where a part of at most `most` rows from `begin` on ends: one row later where it would end between the two images
    of an update."""
    end = min(begin + most, len(rows))
    if rows.kinds is not None and end < len(rows) and rows.kinds[end - 1] == UPDATE_BEFORE:
        end += 1
    return end


class PendingRows:
    """One decoded batch, given in parts.

    Attributes:
        taken: how many of its rows were given.
    """

    def __init__(self) -> None:
        self._rows: ChangelogBatch | None = None
        self.taken = 0

    def __bool__(self) -> bool:
        """Whether there is a row left."""
        return self._rows is not None

    def put(self, rows: ChangelogBatch, taken: int = 0) -> None:
        """The next batch, of which `taken` rows, not all, were given before."""
        self._rows, self.taken = rows, taken

    def clear(self) -> None:
        """Forget what is left."""
        self._rows, self.taken = None, 0

    def take(self, most: int) -> ChangelogBatch:
        """The next `most` rows or the rest; there must be some. A whole batch comes as it is, uncopied."""
        rows, begin = self._rows, self.taken
        assert rows is not None
        end = end_of_part(rows, begin, most)
        self.taken = end
        if end == len(rows):
            self._rows = None
        return rows if end - begin == len(rows) else rows.slice(begin, end - begin)
