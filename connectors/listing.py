"""What a source finds where it looks for splits (files of a folder, partitions of a topic), listed anew at intervals."""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Generic, TypeVar

from connectors import watching

__all__ = ["Listing"]

Entry = TypeVar("Entry")

_WHOLE_SECONDS = 10.0


class Listing(Generic[Entry]):
    """What was found, listed anew at most once an interval: by whoever asks for it, or while it is watched, by the thread
    that does so.

    Args:
        interval: in milliseconds; None is never anew.
        glance: gives something that is the same as long as no entry comes or goes, faster than `list_now`. While it is
            the same a watched listing is made anew every `_WHOLE_SECONDS` only.
    """

    def __init__(
        self,
        list_now: Callable[[], list[Entry]],
        interval: int | None,
        clock: Callable[[], float] = time.monotonic,
        *,
        glance: Callable[[], object] | None = None,
    ) -> None:
        self._list_now = list_now
        self._glance = glance
        self._seen: object = None
        self._whole_at = 0.0
        self._wakes: dict[int, tuple[Callable[[], Callable[[], None] | None], Callable[[], None]]] = {}
        self._numbers = itertools.count()
        self._interval = interval
        self._clock = clock
        self._listed_at: float | None = None
        self._entries: list[Entry] = []
        self._listing = threading.Lock()

    def entries(self) -> list[Entry]:
        """In the order in which `list_now` gave them."""
        with self._listing:
            if not self._due():
                return self._entries
            changed, found = self._list(), self._entries
        if changed:
            self._wake()
        return found

    def expire(self) -> None:
        """The next `entries` lists anew."""
        with self._listing:
            self._listed_at = None

    def watch(self, group: object, wake: Callable[[], None]) -> Callable[[], None]:
        """List anew every interval, on the thread of a group (`watching.watch`), and call `wake` when something else is
        there, or when it cannot be listed, which the next `entries` tells. Gives what ends that; a method is also no
        longer called when its object is gone."""
        number = next(self._numbers)
        if self._interval is not None:
            weak = weakref.WeakMethod(wake) if isinstance(wake, MethodType) else partial(_itself, wake)
            self._wakes[number] = weak, watching.watch(group, self.look, self._interval / 1000)
        return lambda: self._forget(number)

    def look(self) -> None:
        """List anew now; see `watch`."""
        for number, (wake, _) in list(self._wakes.items()):
            if wake() is None:
                self._forget(number)
        if not self._wakes:
            return
        with self._listing:
            try:
                changed = self._look()
            except Exception:
                # Whoever is woken lists anew, and is told what is wrong.
                self._listed_at = None
                changed = True
        if changed:
            self._wake()

    def _wake(self) -> None:
        for weak, _ in list(self._wakes.values()):
            wake = weak()
            if wake is not None:
                wake()

    def _forget(self, number: int) -> None:
        _, end = self._wakes.pop(number, (None, None))
        if end is not None:
            end()

    def _look(self) -> bool:
        if self._glance is not None:
            seen, before = self._glance(), self._seen
            recent = self._listed_at is not None and self._clock() - self._whole_at < _WHOLE_SECONDS
            if recent and seen == before:
                return False
            self._seen = seen
        return self._list()

    def _list(self) -> bool:
        """Tells whether something else is there."""
        now = self._clock()
        found, before = self._list_now(), self._entries
        self._entries, self._listed_at, self._whole_at = found, now, now
        return found != before

    def _due(self) -> bool:
        if self._listed_at is None:
            return True
        return self._interval is not None and (self._clock() - self._listed_at) * 1000 >= self._interval


def _itself(wake: Callable[[], None]) -> Callable[[], None]:
    return wake
