"""How much a source may give: rows a second, and rows and bytes an epoch."""

from __future__ import annotations

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import Clock, seconds_until

__all__ = ["EPOCH_BYTES", "EpochRoom", "Pace"]

EPOCH_BYTES = 128 << 20
"""A source gives no more rows to an epoch when it has given so many bytes: rows of a kilobyte come in shorter epochs. (By
what was read and not by the time it took, so that the epochs of a file are the same in every run.)"""


class Pace:
    """How many rows a source may have given by now, when it is slowed down: so many a second of the engine's clock.

    `rows_per_second`: 0 is as fast as they are there.
    """

    def __init__(self, rows_per_second: int, clock: Clock) -> None:
        self._rate = rows_per_second
        self._clock = clock
        self._since = clock.now()
        self._taken = 0

    @property
    def limited(self) -> bool:
        return self._rate > 0

    def room(self, max_rows: int) -> int:
        """At most so many rows now."""
        if not self.limited:
            return max_rows
        come = (self._clock.now() - self._since) * self._rate // 1000
        return max(0, min(max_rows, come - self._taken))

    def seconds(self) -> float | None:
        """How long there is no room, when there is none now (`seconds_until`)."""
        return seconds_until(self._clock, self._since + -(-(self._taken + 1) * 1000 // self._rate))

    def took(self, rows: int) -> None:
        """So many were given."""
        self._taken += rows


class EpochRoom:
    """What a source may still give to an epoch: so many rows, until they are `EPOCH_BYTES`."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._bytes = EPOCH_BYTES

    @property
    def rows(self) -> int:
        return self._rows if self._bytes > 0 else 0

    def took(self, batch: ChangelogBatch) -> None:
        self._rows -= len(batch)
        self._bytes -= batch.rows.nbytes

    def end(self) -> None:
        """There is no more room."""
        self._rows = 0
