"""What one source gives to one epoch after another, read ahead while the epoch before is computed."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import Clock
from runtime.local.dataflow import SourceInput
from runtime.local.rejected import JobRejections
from runtime.local.split_progress import Reached, SplitProgress, take_split
from runtime.plan.nodes import SourceExec
from runtime.spi.table import ReadContext, RejectedRow, SourceReader, Split

__all__ = ["Pace", "SourceContext", "SourceInputs"]


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What the readers of one source may ask of their job."""

    time_zone: str
    source: str
    rejections: JobRejections

    def reject(self, rows: Sequence[RejectedRow]) -> None:
        self.rejections.reject_raw(self.source, rows)


@dataclass(frozen=True, slots=True)
class _OpenSplit:
    """A split that is being read."""

    id: str
    reader: SourceReader


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

    def took(self, rows: int) -> None:
        """So many were given."""
        self._taken += rows


class SourceInputs:
    """The readers of one source. Splits are read one after another; a split that has nothing now lets the next one
    begin.

    `read_ahead` has a worker read the next input while operators compute: decoding then takes the other core. It does
    so only for bounded tables without idleness, where it makes no difference to a result when a row is read. Whoever
    reads, only one thread at a time does, and what counts as given, `finished` and `position` included, is what `poll`
    has returned.

    Args:
        position: what `position` of an earlier run gave: reading goes on behind it.
        rows_per_second: the most rows a second, by the clock; 0 is without limit.
    Raises:
        ConnectorError: at a position of a split that is gone (E3107) or has changed.
    """

    def __init__(
        self,
        node: SourceExec,
        context: ReadContext,
        clock: Clock,
        position: Any = None,
        *,
        rows_per_second: int = 0,
    ) -> None:
        self.node = node
        self._context = context
        self._clock = clock
        self._seen: set[str] = set()
        self._waiting: list[Split] = []
        self._active: list[_OpenSplit] = []
        self._last_row_at = clock.now()
        self._pace = Pace(rows_per_second, clock)
        self._may_read_ahead = node.table.bounded and node.idle_timeout <= 0 and not self._pace.limited
        self._ahead: Future[SourceInput] | None = None
        self._progress = SplitProgress(position)
        try:
            self._resume()
        except BaseException:
            self.close()
            raise
        self._discover()
        self._finished = self._exhausted
        self._reached = self._reach()

    def poll(self, max_rows: int) -> SourceInput:
        """The next rows, at most so many (or those read ahead); raises what reading them raised."""
        ahead, self._ahead = self._ahead, None
        given = self._read(max_rows) if ahead is None else ahead.result()
        self._finished = given.finished
        self._reached = given.reached or self._reached
        return given

    def read_ahead(self, max_rows: int, worker: ThreadPoolExecutor) -> None:
        """Have the worker read what the next `poll` will give."""
        if self._may_read_ahead and not self._finished and self._ahead is None:
            self._ahead = worker.submit(self._read, max_rows)

    @property
    def wants_read_ahead(self) -> bool:
        return self._may_read_ahead and not self._finished

    @property
    def finished(self) -> bool:
        """Whether `poll` has given all there is."""
        return self._finished

    def position(self) -> Any:
        """Where reading goes on after what `poll` has returned: a JSON value for the constructor."""
        return self._progress.json(self._reached)

    def close(self) -> None:
        """Close the readers, after what is being read ahead; its rows and errors are dropped."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and not ahead.cancel():
            ahead.exception()
        for split in self._active:
            split.reader.close()
        self._active.clear()

    def _read(self, max_rows: int) -> SourceInput:
        batches: list[ChangelogBatch] = []
        room = self._pace.room(max_rows)
        if not self.node.table.bounded and not self._waiting:
            self._discover()
        position = 0
        while room > 0:
            if position >= len(self._active):
                if not self._waiting:
                    break
                self._open(self._waiting.pop(0))
            reader = self._active[position].reader
            batch = reader.poll(room)
            if batch is not None and len(batch):
                batches.append(batch)
                room -= len(batch)
            if reader.finished:
                reader.close()
                self._progress.finish(self._active.pop(position).id)
            elif batch is None:
                position += 1
        if batches:
            self._last_row_at = self._clock.now()
        batch = ChangelogBatch.concat(batches) if batches else None
        self._pace.took(0 if batch is None else len(batch))
        return SourceInput(batch, self._exhausted, self._idle(), self._reach())

    def _open(self, split: Split) -> SourceReader:
        reader = self.node.table.open(split, self._context)
        self._active.append(_OpenSplit(split.id, reader))
        return reader

    def _reach(self) -> Reached:
        """Where reading stands now. Only by whoever reads."""
        active = tuple((split.id, split.reader.position()) for split in self._active)
        return Reached(len(self._progress.finished), active, tuple(self._waiting))

    def _resume(self) -> None:
        """Open what was being read at the position that this begins from, and leave out what was finished.

        Raises:
            ConnectorError: E3107 a split is gone that was not finished; or what the reader says of one that has changed.
        """
        self._seen.update(self._progress.finished)
        active, waiting = self._progress.active, self._progress.waiting
        if not active and not waiting:
            return
        there = {split.id: split for split in self.node.table.splits()}
        for name, position in active:
            self._open(take_split(there, name, self.node.name)).seek(position)
        self._waiting += [take_split(there, name, self.node.name) for name in waiting]
        self._seen.update(name for name, _ in active)
        self._seen.update(waiting)

    def _discover(self) -> None:
        for split in self.node.table.splits():
            if split.id not in self._seen:
                self._seen.add(split.id)
                self._waiting.append(split)

    @property
    def _exhausted(self) -> bool:
        return self.node.table.bounded and not self._active and not self._waiting

    def _idle(self) -> bool:
        timeout = self.node.idle_timeout
        return timeout > 0 and self._clock.now() - self._last_row_at >= timeout
