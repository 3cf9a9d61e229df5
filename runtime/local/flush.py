"""FLUSH over one source: whether what was there when it began has been given."""

from __future__ import annotations

from collections.abc import Iterable

from runtime.spi.abilities import SupportsSplitRefresh
from runtime.spi.source import SourceTable, Split

__all__ = ["FLUSHED_ENDLESS_EPOCHS", "FlushMark", "refresh_splits"]

FLUSHED_ENDLESS_EPOCHS = 16
"""How many epochs FLUSH takes of a split without end that always has more."""


def refresh_splits(table: SourceTable) -> None:
    """Have a source look for splits now, whenever it would have looked itself."""
    if isinstance(table, SupportsSplitRefresh):
        table.refresh_splits()


class FlushMark:
    """The splits that were there when a flush began and have not given yet what was there."""

    def __init__(self, splits: Iterable[str] = ()) -> None:
        self._left = dict.fromkeys(splits, FLUSHED_ENDLESS_EPOCHS)

    @property
    def reached(self) -> bool:
        """Whether each of them has ended, or had nothing more at some moment since. One that goes on without end, and
        has more all the time, counts after `FLUSHED_ENDLESS_EPOCHS` epochs."""
        return not self._left

    def asked(self, split: Split, over: bool) -> None:
        """A split was read in an epoch; `over` when it had nothing more then."""
        left = self._left.get(split.id)
        if left is None:
            return
        if over or (split.endless and left <= 1):
            del self._left[split.id]
        elif split.endless:
            self._left[split.id] = left - 1
