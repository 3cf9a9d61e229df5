"""Readers of a source: what every reader does, and what some do beyond that.

The engine finds the additional protocols with `isinstance`: a reader has an ability when it has the methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from runtime.core.changelog import ChangelogBatch

__all__ = [
    "AvailabilityReader",
    "BacklogReader",
    "BufferingReader",
    "CheckpointListener",
    "DictionaryReader",
    "EndOffsetReader",
    "FailureListener",
    "ReadContext",
    "RejectedRow",
    "SkippedInput",
    "SourceReader",
    "TurnReader",
    "WatermarkReader",
]


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that could not be used: why, and its raw text as far as it is known."""

    reason: str
    raw: str


@dataclass(frozen=True, slots=True)
class SkippedInput(RejectedRow):
    """A part of the input, such as a file, that is not read, or not to its end. The user is told at once, each text
    once."""


class ReadContext(Protocol):
    """What the job offers to its readers."""

    @property
    def time_zone(self) -> str:
        """The session's time zone, for texts of time without one."""
        ...

    def reject(self, rows: Sequence[RejectedRow]) -> None:
        """Count and keep rows that cannot be used. Raises when the job is configured to fail on them."""
        ...

    def wake(self) -> None:
        """The reader has something new: `poll` is called soon. May be called from any thread, at any time."""
        ...


class SourceReader(Protocol):
    """Reads one split. Called from one thread at a time, never after `close`."""

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        """At most `max_rows` changes (one more when the last is half of an update), None when there is nothing now. It
        does not wait for rows that are not there yet. Raises ConnectorError or FormatError, which fails the job."""
        ...

    @property
    def finished(self) -> bool:
        """Nothing will come any more. True only after `poll` gave the last row."""
        ...

    def position(self) -> Any:
        """Where reading goes on after the last row that `poll` gave: a JSON value, saved in checkpoints."""
        ...

    def seek(self, position: Any) -> None:
        """Go on from a position of an earlier reader of the same split. Called before the first `poll`. Raises
        ConnectorError when the rows behind it are gone."""
        ...

    def close(self) -> None:
        """Give back what is open."""
        ...


@runtime_checkable
class AvailabilityReader(Protocol):
    """A reader that knows when it has something. While all readers of a job have nothing, the job sleeps. A reader
    without this is polled every 10 milliseconds (20 for a view)."""

    def available_in(self) -> float | None:
        """How many seconds nothing new comes: `poll` gives no rows, and `watermark`, `idle` and `finished` do not change.
        0: there is something, or nobody knows. None: until the reader calls `ReadContext.wake`. Called after a `poll`
        that gave nothing; to call `wake` too early, or too often, does no harm."""
        ...


@runtime_checkable
class WatermarkReader(Protocol):
    """A reader that knows the watermark of its rows, because their origin does. Without it the engine derives the
    watermark from the rows, as the table's WATERMARK clause says."""

    @property
    def watermark(self) -> int:
        """Milliseconds, behind what `poll` has given; MIN_WATERMARK at first. It may also move when `poll` gives None."""
        ...

    @property
    def idle(self) -> bool:
        """Nobody should wait for the watermark of this reader."""
        ...


@runtime_checkable
class BufferingReader(Protocol):
    """A reader that holds rows in memory before it gives them."""

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        """These rows, for `system.memory`. Called from any thread; rows of which it holds no Arrow columns are left
        out."""
        ...


@runtime_checkable
class CheckpointListener(Protocol):
    """A reader that is told of completed checkpoints, for example to acknowledge messages."""

    def checkpoint_complete(self, position: Any) -> None:
        """A checkpoint that holds this position of the reader is complete. Called between epochs."""
        ...


@runtime_checkable
class FailureListener(Protocol):
    """A reader that is told why its job failed."""

    def job_failed(self, error: BaseException) -> None:
        """The job has failed; `close` follows."""
        ...


@runtime_checkable
class EndOffsetReader(Protocol):
    """A reader that learns of new rows with a delay, as a consumer does that prefetches."""

    def fetch_end_offset(self) -> None:
        """Ask the system how far its rows go now. Rows up to there are given before `poll` gives None: FLUSH relies on
        it."""
        ...


@runtime_checkable
class DictionaryReader(Protocol):
    """A reader that can give text columns as Arrow dictionaries, where they are stored so."""

    def use_dictionaries(self) -> None:
        """From now on `poll` may give dictionary columns. Called before the first `poll`, or never."""
        ...


@runtime_checkable
class TurnReader(Protocol):
    """A reader that may have nothing yet although its split has not ended, of a source whose splits follow each other."""

    @property
    def keeps_turn(self) -> bool:
        """No later split of the source gives rows before this one has ended."""
        ...

    def prefetch(self) -> None:
        """Begin to read in the background, where that is not done yet: its turn comes soon."""
        ...


@runtime_checkable
class BacklogReader(Protocol):
    """A reader of the changes that statements of the session make: each `poll` gives those of one statement."""

    @property
    def waiting(self) -> bool:
        """Whether `poll` would give rows, or move the watermark, now."""
        ...

    def gather(self) -> None:
        """From now on `poll` gives all changes that wait, of any number of statements, as one batch."""

    @property
    def backlog(self) -> int:
        """How much waits: rows, where each statement counts as several."""
        ...
