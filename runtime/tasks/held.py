"""Rows that a process has put in a file and will most likely be asked for next: it has them at hand still.

A task that reads a source writes what it has read into a file, so that whoever is given those rows finds them, also after
a failure. Mostly that is the same process, a moment later, which then neither reads nor checks nor decodes the file.
"""

from __future__ import annotations

import threading

from runtime.core.changelog import ChangelogBatch

__all__ = ["drop", "hold", "take"]

MOST_BYTES = 64 << 20
"""Rows of so many bytes are held in a process; the oldest go."""

_held: dict[tuple[str, str], ChangelogBatch] = {}
_lock = threading.Lock()


def hold(place: str, name: str, rows: ChangelogBatch) -> None:
    """Rows that lie in a file of a job's folder."""
    with _lock:
        _held[place, name] = rows
        held = sum(batch.nbytes for batch in _held.values())
        while held > MOST_BYTES:
            held -= _held.pop(next(iter(_held))).nbytes


def take(place: str, name: str) -> ChangelogBatch | None:
    """The rows of a file, once; None when they are not at hand."""
    with _lock:
        return _held.pop((place, name), None)


def drop(place: str) -> None:
    """The job of a folder has ended."""
    with _lock:
        for key in [key for key in _held if key[0] == place]:
            del _held[key]
