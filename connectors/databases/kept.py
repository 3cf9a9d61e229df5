"""Connections that are kept for a while: to make one takes longer than most questions."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

__all__ = ["Kept"]

_IDLE_SECONDS = 10.0
_MOST = 4


class _Closing(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_Closing)


class Kept(Generic[C]):
    """Connections that nobody uses, a few for each address."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[tuple[Hashable, int], list[C]] = {}

    @contextmanager
    def lent(self, address: Hashable, make: Callable[[], C]) -> Generator[C]:
        """A connection without a transaction, to be given back without one. After an error it is closed."""
        # A child of this process must not speak on its parent's connections.
        key = (address, os.getpid())
        with self._lock:
            kept = self._idle.get(key)
            connection = kept.pop() if kept else None
        if connection is None:
            connection = make()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            kept = self._idle.setdefault(key, [])
            if len(kept) < _MOST:
                kept.append(connection)
                timer = threading.Timer(_IDLE_SECONDS, self._closed, (key, connection))
                timer.daemon = True
                timer.start()
                return
        connection.close()

    def _closed(self, key: tuple[Hashable, int], connection: C) -> None:
        """Close it if nobody has taken it in the meantime."""
        with self._lock:
            kept = self._idle.get(key, [])
            if connection not in kept:
                return
            kept.remove(connection)
            if not kept:
                self._idle.pop(key, None)
        connection.close()
