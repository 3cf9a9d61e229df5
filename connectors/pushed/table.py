"""A stream that a program pushes into, and the readers of queries that take it.

A push is whole: its rows come in one epoch, whatever their number. So what belongs together is pushed together, and no
reader ever sees half of it. A reader begins with the first push there is: until there is one, pushes wait for it; with
`keep` all are kept, and every reader gets all of them. A later reader of a stream that is not kept gets what comes from
then on.

Nothing that is pushed is lost in silence: while no query reads, rows wait for the next one, a push into a stream that is
closed fails, and so does one after the failure of the query that read it.

Back pressure: a push waits while the slowest reader has `capacity` rows or more before it.
"""

from __future__ import annotations

import gc
import secrets
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from runtime.core.cancellation import Cancellation
from runtime.core.changelog import ChangelogBatch, ChangelogMode
from runtime.core.clock import MIN_WATERMARK
from runtime.core.errors import ConnectorError, PlanningError
from runtime.core.schema import Schema
from runtime.core.strict_json import as_count
from runtime.core.wakeup import nobody
from runtime.spi.reader import ReadContext
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

__all__ = ["PushReader", "PushedSource", "PushedTable", "TimedPushReader"]

_Step = tuple[ChangelogBatch | None, int, bool]
"""Rows (or None), and the watermark and idleness that hold behind them."""


class PushedTable:
    """The stream. Safe to use from any thread. Queries read it as a `PushedSource`.

    Args:
        name: full name, for messages.
        mode: the row kinds that may be pushed.
        capacity: rows that may wait for a reader.
        timed: whether the watermark is told (`advance`), not computed from rows.
        keep: every reader gets all rows.
    """

    def __init__(
        self, name: str, schema: Schema, mode: ChangelogMode, capacity: int, *, timed: bool = False, keep: bool = False
    ) -> None:
        self.name = name
        self.schema = schema
        self.changelog_mode = mode
        self.capacity = capacity
        self.timed = timed
        self.keep = keep
        self.watermark = MIN_WATERMARK
        self.idle = False
        self._closed = False
        self._why_closed = "create another input, or push before close()"
        self._failure: BaseException | None = None
        """What made the last query fail that read it."""
        self._changed = threading.Condition()
        self._steps: list[_Step] = []
        self._waiting_rows = 0
        self._readers: weakref.WeakSet[PushReader] = weakref.WeakSet()

    @property
    def bounded(self) -> bool:
        """Whether the stream has ended: what is pushed is then all there is."""
        return self._closed

    # --- pushing

    def push(self, batch: ChangelogBatch, timeout: float | None = None, stopped: Cancellation | None = None) -> None:
        """Rows as one step; waits while there is no room. What it gives back without an error will be read, by the
        queries that read now or else by the next one. Nothing is pushed once `stopped` is requested (see `wake`).

        Raises:
            SqlEngineError: of the query that read the stream and has failed, until another one reads it.
            ConnectorError: E3120 the stream is closed; E3121 there is no room, and nobody reads, or nobody has read for
            `timeout` seconds.
        """
        with self._changed:
            self.check_open()
            if not self._readers and self._waiting_rows >= self.capacity and not self.keep:
                raise _full(self, "and no query reads them")

            def ready() -> bool:
                return self._ready() or (stopped is not None and stopped.requested)

            if not self._changed.wait_for(ready, _patience(timeout)):
                # A query that nobody has any more must not hold up pushes.
                gc.collect()
            if not self._changed.wait_for(ready, None if timeout is None else timeout - _patience(timeout)):
                raise _full(self, f"and no query has read them for {timeout:g} s")
            self.check_open()
            if stopped is not None and stopped.requested:
                return
            if self.idle:
                self.idle = False
            self._give((batch, self.watermark, False))

    def wake(self) -> None:
        """Have pushes that wait look whether they were stopped."""
        with self._changed:
            self._changed.notify_all()

    def has_room(self) -> bool:
        """Whether a push would not wait."""
        with self._changed:
            return self._ready()

    def advance(self, watermark: int) -> None:
        """The watermark behind all that was pushed, milliseconds; one that is not greater changes nothing."""
        with self._changed:
            self.check_open()
            if watermark > self.watermark or self.idle:
                self.watermark = max(watermark, self.watermark)
                self.idle = False
                self._give((None, self.watermark, False))

    def rest(self) -> None:
        """Nothing comes for a while: nobody waits for the watermark until the next push."""
        with self._changed:
            self.check_open()
            if not self.idle:
                self.idle = True
                self._give((None, self.watermark, True))

    def close(self, why: str | None = None) -> None:
        """Nothing comes any more; queries end when they have read what there is. Harmless when called again. `why`: what
        whoever pushes then should do."""
        with self._changed:
            if not self._closed:
                self._closed = True
                self._why_closed = why or self._why_closed
                for reader in self._readers:
                    reader.wake()
            self._changed.notify_all()

    def check_open(self) -> None:
        """Raise what `push` would for a stream that takes nothing more."""
        if self._failure is not None and not self._readers:
            raise self._failure
        if self._closed:
            raise ConnectorError(f"the input {self.name} is closed", code="E3120", hint=self._why_closed)

    def _ready(self) -> bool:
        return self._closed or (self._failure is not None and not self._readers) or self._room()

    def _room(self) -> bool:
        if self._readers:
            return max(r.rows_before for r in self._readers) < self.capacity
        return self.keep or self._waiting_rows < self.capacity

    def _give(self, step: _Step) -> None:
        for reader in self._readers:
            reader.take(step)
        if self.keep or not self._readers:
            self._steps.append(step)
            self._waiting_rows += 0 if step[0] is None else len(step[0])
        self._changed.notify_all()

    # --- reading

    def subscribe(self) -> PushReader:
        """A reader that gets what is kept, and all that comes from now on. It counts as long as somebody has it."""
        with self._changed:
            reader = TimedPushReader(self, self._changed) if self.timed else PushReader(self, self._changed)
            for step in self._steps:
                reader.take(step)
            if not self.keep:
                self._steps, self._waiting_rows = [], 0
                if not reader.rows_before:
                    # A later reader knows the time, although it does not see the rows that brought it.
                    reader.take((None, self.watermark, self.idle))
            self._failure = None
            self._readers.add(reader)
            self._changed.notify_all()
            return reader

    @property
    def readers(self) -> list[PushReader]:
        """Who reads it. With the lock held."""
        return list(self._readers)

    def forget(self, reader: PushReader, failure: BaseException | None = None) -> None:
        """A reader reads no more; `failure`: because its query has failed."""
        with self._changed:
            if reader in self._readers:
                self._readers.discard(reader)
                self._failure = failure
            self._changed.notify_all()


class PushedSource:
    """The stream as one query reads it, from when its job is made. Equal for equal streams, so that a query that names
    it twice reads it once: both places then see the same rows in each epoch."""

    statement_changes = True

    def __init__(self, table: PushedTable) -> None:
        self._table = table
        self._reader: weakref.ref[PushReader] | None = None
        self._opened = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PushedSource) and other._table is self._table

    def __hash__(self) -> int:
        return id(self._table)

    @property
    def schema(self) -> Schema:
        return self._table.schema

    @property
    def changelog_mode(self) -> ChangelogMode:
        return self._table.changelog_mode

    @property
    def bounded(self) -> bool:
        return self._table.bounded

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    @property
    def readable_again(self) -> bool:
        return self._table.keep

    def splits(self) -> list[Split]:
        """Asked when a job is made: what is pushed from then on is for its reader, which lives as long as the split
        waits to be opened."""
        if self._opened:
            return [Split("all")]
        reader = self._reader() if self._reader is not None else None
        if reader is None:
            reader = self._table.subscribe()
            self._reader = weakref.ref(reader)
        return [Split("all", reader)]

    def watch_splits(self, wake: Callable[[], None]) -> Callable[[], None]:
        """There is one, always."""
        return lambda: None

    def open(self, split: Split, context: ReadContext) -> PushReader:
        self._opened = True
        reader: PushReader = split.where or self._table.subscribe()
        reader.wake = context.wake
        return reader

    def describe(self) -> dict[str, Any]:
        return {"connector": "python-input", "name": self._table.name}


def _patience(timeout: float | None) -> float:
    """How long a push waits before it looks for readers that are garbage."""
    return 1.0 if timeout is None else min(1.0, timeout)


def _full(table: PushedTable, why: str) -> ConnectorError:
    return ConnectorError(
        f"the input {table.name} holds {table.capacity:,} rows or more, {why}",
        code="E3121",
        hint="run a query that reads it, or create it with a greater capacity",
    )


class PushReader:
    """Takes the steps of a stream, each whole. A position is the number of steps taken, where all are kept; else it says
    beside which reader, of this process, they were taken."""

    def __init__(self, table: PushedTable, changed: threading.Condition) -> None:
        self._table = table
        self._changed = changed
        self._steps: deque[_Step] = deque()
        self._taken = 0
        self._name = secrets.token_hex(8)
        self._watermark = MIN_WATERMARK
        self._idle = False
        self.wake: Callable[[], None] = nobody
        """Called with each step, and when the stream is closed."""
        self.rows_before = 0
        """Rows that were pushed and not read yet."""

    def take(self, step: _Step) -> None:
        """A further step; called with the lock held."""
        self._steps.append(step)
        self.rows_before += 0 if step[0] is None else len(step[0])
        self.wake()

    def available_in(self) -> float | None:
        return 0.0 if self._steps or self.finished else None

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        """The next push, whole. None when there is none, also when only the watermark has moved."""
        if max_rows <= 0:
            return None
        with self._changed:
            while self._steps:
                batch, self._watermark, self._idle = self._steps.popleft()
                self._taken += 1
                if batch is not None:
                    self.rows_before -= len(batch)
                    self._changed.notify_all()
                    return batch
            return None

    @property
    def finished(self) -> bool:
        return self._table.bounded and not self._steps

    def position(self) -> Any:
        return self._taken if self._table.keep else {"taken": self._taken, "reader": self._name}

    def seek(self, position: Any) -> None:
        """To a step, when all are kept, or to where another reader stands. Raises PlanningError E1711 otherwise: a push
        cannot be read again."""
        if not self._table.keep:
            taken, name = (position["taken"], position["reader"]) if isinstance(position, dict) else (position, "")
            if self._join(name, as_count(taken)) or not taken:
                return
            raise PlanningError(
                f"what was pushed into {self._table.name} cannot be read again, so a job that has read some cannot go "
                "on from there",
                code="E1711",
                hint="create the input with keep=True, or start the job anew",
            )
        with self._changed:
            for _ in range(min(as_count(position or 0), len(self._steps))):
                batch, self._watermark, self._idle = self._steps.popleft()
                self._taken += 1
                self.rows_before -= 0 if batch is None else len(batch)

    def _join(self, name: str, taken: int) -> bool:
        """Go on beside the reader of that name, if it is there and has taken so many steps."""
        with self._changed:
            other = next((r for r in self._table.readers if r._name == name and r._taken == taken), None)
            if other is None or other is self:
                return False
            self._steps = other._steps.copy()
            self._taken, self.rows_before = other._taken, other.rows_before
            self._watermark, self._idle = other._watermark, other._idle
            return True

    def job_failed(self, error: BaseException) -> None:
        self._table.forget(self, error)

    def close(self) -> None:
        self._table.forget(self)


class TimedPushReader(PushReader):
    """A reader that knows the watermark of its rows: it was told with them."""

    @property
    def watermark(self) -> int:
        return self._watermark

    @property
    def idle(self) -> bool:
        return self._idle
