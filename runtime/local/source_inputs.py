"""What one source gives to one epoch after another, read ahead while the epoch before is computed."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import Clock
from runtime.local.dataflow import SourceInput
from runtime.local.rejected import JobRejections
from runtime.plan.nodes import SourceExec
from runtime.spi.table import ReadContext, RejectedRow, SourceReader, Split

__all__ = ["SourceContext", "SourceInputs"]


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What the readers of one source may ask of their job."""

    time_zone: str
    source: str
    rejections: JobRejections

    def reject(self, rows: Sequence[RejectedRow]) -> None:
        self.rejections.reject_raw(self.source, rows)


class SourceInputs:
    """The readers of one source. Splits are read one after another; a split that has nothing now lets the next one
    begin.

    `read_ahead` has a worker read the next input while operators compute: decoding then takes the other core. It does
    so only for bounded tables without idleness, where it makes no difference to a result when a row is read. Whoever
    reads, only one thread at a time does, and what counts as given, `finished` included, is what `poll` has returned.
    """

    def __init__(self, node: SourceExec, context: ReadContext, clock: Clock) -> None:
        self.node = node
        self._context = context
        self._clock = clock
        self._seen: set[str] = set()
        self._waiting: list[Split] = []
        self._active: list[SourceReader] = []
        self._last_row_at = clock.now()
        self._may_read_ahead = node.table.bounded and node.idle_timeout <= 0
        self._ahead: Future[SourceInput] | None = None
        self._discover()
        self._finished = self._exhausted

    def poll(self, max_rows: int) -> SourceInput:
        """The next rows, at most so many (or those read ahead); raises what reading them raised."""
        ahead, self._ahead = self._ahead, None
        given = self._read(max_rows) if ahead is None else ahead.result()
        self._finished = given.finished
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

    def close(self) -> None:
        """Close the readers, after what is being read ahead; its rows and errors are dropped."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and not ahead.cancel():
            ahead.exception()
        for reader in self._active:
            reader.close()
        self._active.clear()

    def _read(self, max_rows: int) -> SourceInput:
        batches: list[ChangelogBatch] = []
        room = max_rows
        if not self.node.table.bounded and not self._waiting:
            self._discover()
        position = 0
        while room > 0:
            if position >= len(self._active):
                if not self._waiting:
                    break
                self._active.append(self.node.table.open(self._waiting.pop(0), self._context))
            reader = self._active[position]
            batch = reader.poll(room)
            if batch is not None and len(batch):
                batches.append(batch)
                room -= len(batch)
            if reader.finished:
                reader.close()
                del self._active[position]
            elif batch is None:
                position += 1
        if batches:
            self._last_row_at = self._clock.now()
        return SourceInput(ChangelogBatch.concat(batches) if batches else None, self._exhausted, self._idle())

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
