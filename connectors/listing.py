"""What a source finds where it looks for splits (files of a folder, partitions of a topic), listed anew at intervals."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Listing"]

Entry = TypeVar("Entry")


class Listing(Generic[Entry]):
    """What was found, listed anew at most once an interval.

    Args:
        interval: in milliseconds; None is never anew.
    """

    def __init__(
        self, list_now: Callable[[], list[Entry]], interval: int | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._list_now = list_now
        self._interval = interval
        self._clock = clock
        self._listed_at: float | None = None
        self._entries: list[Entry] = []

    def entries(self) -> list[Entry]:
        """In the order in which `list_now` gave them."""
        if self._due():
            self._entries = self._list_now()
            self._listed_at = self._clock()
        return self._entries

    def _due(self) -> bool:
        if self._listed_at is None:
            return True
        return self._interval is not None and (self._clock() - self._listed_at) * 1000 >= self._interval
