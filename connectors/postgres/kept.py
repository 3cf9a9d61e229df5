"""Connections for columns that are kept for a while: to make one takes longer than most questions."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

from connectors.postgres.address import Address
from connectors.postgres.bulk import BulkConnection

__all__ = ["lent"]

_IDLE_SECONDS = 10.0
_MOST = 4
_lock = threading.Lock()
_idle: dict[tuple[Address, int], list[BulkConnection]] = {}


@contextmanager
def lent(address: Address, what: str) -> Generator[BulkConnection]:
    """A connection without a transaction, to be given back without one. After an error it is closed."""
    # A child of this process must not speak on its parent's connections.
    key = (address, os.getpid())
    with _lock:
        kept = _idle.get(key)
        connection = kept.pop() if kept else None
    if connection is None:
        connection = BulkConnection(address, what)
    connection.what = what
    try:
        yield connection
    except BaseException:
        connection.close()
        raise
    with _lock:
        kept = _idle.setdefault(key, [])
        if len(kept) < _MOST:
            kept.append(connection)
            timer = threading.Timer(_IDLE_SECONDS, _closed, (key, connection))
            timer.daemon = True
            timer.start()
            return
    connection.close()


def _closed(key: tuple[Address, int], connection: BulkConnection) -> None:
    """Close it if nobody has taken it in the meantime."""
    with _lock:
        kept = _idle.get(key, [])
        if connection not in kept:
            return
        kept.remove(connection)
        if not kept:
            _idle.pop(key, None)
    connection.close()
