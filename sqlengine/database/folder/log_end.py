"""Where a log ends, and the version of what stands in its files."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FORMAT", "LogEnd"]

FORMAT = 3
"""Since 3 epochs say when they were complete."""


@dataclass(slots=True)
class LogEnd:
    """Where a log ends: the last whole epoch; the newest file (None: there is none), the number of its first epoch, and
    how much of it counts. `cut`: how many bytes of a torn end stand behind that; `dropped`: whole frames are among them,
    of which none was synced. `format`: that of the newest file."""

    epoch: int
    file: str | None = None
    first: int = 0
    size: int = 0
    cut: int = 0
    dropped: bool = False
    owner: int = 0
    format: int = FORMAT
