"""A source that can only be read by waiting, read in the background."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from connectors.pending_rows import PendingRows
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import UnavailableError
from runtime.core.logs import connector_log
from runtime.core.retries import Retries
from runtime.core.strict_json import counts_of
from runtime.spi.reader import ReadContext, RejectedRow

__all__ = ["Fetched", "Fetching", "PrefetchingReader"]

_MEMORY = 16 << 20
_ARRIVAL_SECONDS = 2.0
"""How long what is there, of a split without end, may take to arrive before others are asked."""
_PASSING = (UnavailableError, ConnectionError, TimeoutError)
_NOTHING = ChangelogBatch(pa.RecordBatch.from_arrays([], names=[]))
_CLOSING_SECONDS = 1.0
_TURN_SECONDS = 0.02
_RETRIES = Retries(8, 0.1, 10.0, jitter=0.5)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came of a split: rows, and the position behind them, a JSON value. None instead of rows says that all that was
    there has been given, and that the fetching goes on; the position may have moved all the same. `rejected`: what is
    rejected where these rows are, and told when they are given.

    `within`: where the first `n` of these rows end, as a position and how many rows behind it, for rows that do not come again
    as they were from the position before them on. `goes_on`: what stands behind was looked up with these rows, so the end of it
    is no answer to a question that comes meanwhile."""

    rows: ChangelogBatch | pa.RecordBatch | None
    after: Any
    rejected: Sequence[RejectedRow] = ()
    within: Callable[[int], tuple[Any, int]] | None = None
    goes_on: bool = False


class Fetching(Protocol):
    """How a connector reads a split from a position on; None is its beginning. A generator does: its end is that of the
    split. It runs in a thread of its own and may wait, but looks now and then whether `stop` is set, and ends then
    (`stop.wait(seconds)` waits and looks).

    Raises UnavailableError, ConnectionError or TimeoutError where it may work later: it is then called again with the position
    behind what it has given. Any other error ends the job.
    """

    def __call__(self, position: Any, stop: threading.Event) -> Iterator[Fetched]: ...


@dataclass(slots=True)
class _Part:
    """Rows that wait: the position before them and the one behind."""

    rows: ChangelogBatch
    before: Any
    after: Any
    rejected: Sequence[RejectedRow]
    within: Callable[[int], tuple[Any, int]] | None = None


class PrefetchingReader:
    """A `SourceReader` over what a connector fetches in the background.

    `poll` gives what has come, and does not wait, but for two seconds at most for the rows that an endless split has when
    reading begins, or when a FLUSH asks for them.

    A position is that of the connector before the rows that are being given, and how many of them were given. So a
    connector may cut rows otherwise the next time, but gives the same rows in the same order from a position on.

    Args:
        name: of the split, for messages.
        bounded: the split ends. One that does not end is asked until it has had nothing once, before `poll` gives None.
        memory: the fetching waits while as many bytes of rows wait.
        keeps_turn: other splits of the source wait until this one has ended (`TurnReader`); `poll` then waits some
            milliseconds for rows.
        retries: how often in a row, after which pauses, it is tried again when the system does not answer.
    """

    def __init__(
        self,
        name: str,
        fetching: Fetching,
        context: ReadContext,
        *,
        bounded: bool,
        memory: int = _MEMORY,
        retries: Retries = _RETRIES,
        keeps_turn: bool = False,
    ) -> None:
        self._name = name
        self.keeps_turn = keeps_turn
        self._log = connector_log(getattr(fetching, "__module__", None) or type(fetching).__module__)
        self._fetching = fetching
        self._context = context
        self._memory = memory
        self._retries = retries
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._waiting: deque[_Part] = deque()
        self._bytes = 0
        self._ended = False
        self._error: BaseException | None = None
        self._asked = 0 if bounded else 1
        self._answered = 0
        """The newest of the questions `_asked` whose rows have all come."""
        self._at: Any = None
        self._skip = 0
        self._pending = PendingRows()
        self._current: _Part | None = None
        self.tries = 0
        """How often it was tried again."""

    # --- what the engine calls

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if max_rows <= 0:
            return None
        if not self._pending and not self._next():
            return None
        rows = self._pending.take(max_rows)
        if not self._pending:
            self._passed()
        return rows

    @property
    def finished(self) -> bool:
        with self._changed:
            return not self._pending and not self._waiting and self._ended and self._error is None

    def prefetch(self) -> None:
        """See `TurnReader`."""
        self._begin()

    def available_in(self) -> float | None:
        with self._changed:
            return 0.0 if self._pending or self._waiting or self._ended or self._thread is None else None

    def fetch_end_offset(self) -> None:
        with self._changed:
            self._asked += 1

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        with self._changed:
            return [part.rows for part in self._waiting]

    def position(self) -> dict[str, Any]:
        current, taken = self._current, self._pending.taken
        if current is not None:
            if current.within is not None and taken:
                at, rows = current.within(taken)
                return {"at": at, "rows": rows}
            return {"at": current.before, "rows": taken}
        return {"at": self._at, "rows": self._skip}

    def seek(self, position: Any) -> None:
        """Called before anything is read."""
        (self._skip,) = counts_of(position, "rows")
        self._at = position["at"]

    def close(self) -> None:
        self._stop.set()
        with self._changed:
            self._waiting.clear()
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSING_SECONDS)

    # --- the reading side

    def _next(self) -> bool:
        """Take up the next rows that were not given before."""
        while True:
            part = self._arrived()
            if part is None:
                return False
            if part.rejected and not self._skip:
                # Rows that were given before were given with what was rejected among them.
                self._context.reject(part.rejected)
            if len(part.rows) > self._skip:
                self._current = part
                self._pending.put(part.rows, self._skip)
                self._skip = 0
                return True
            self._skip -= len(part.rows)
            self._at = part.after

    def _passed(self) -> None:
        assert self._current is not None
        self._at, self._current = self._current.after, None

    def _begin(self) -> None:
        if self._thread is None and not self._ended:
            self._thread = threading.Thread(target=self._run, args=(self._at,), name=f"fetch {self._name}", daemon=True)
            self._thread.start()

    def _arrived(self) -> _Part | None:
        self._begin()
        until = time.monotonic() + (_TURN_SECONDS if self.keeps_turn else _ARRIVAL_SECONDS)
        with self._changed:
            while not self._waiting and not self._ended and (self.keeps_turn or self._answered < self._asked):
                left = until - time.monotonic()
                if left <= 0:
                    # Others are asked; the answer comes with a wake.
                    break
                self._changed.wait(left)
            if self._waiting:
                part = self._waiting.popleft()
                self._bytes -= part.rows.nbytes
                self._changed.notify_all()
                return part
            if self._error is not None:
                raise self._error
            return None

    # --- the fetching side

    def _run(self, at: Any) -> None:
        pauses = self._retries.pauses()
        while not self._stop.is_set():
            asked, given = self._asked, False
            fetching: Iterator[Fetched] | None = None
            try:
                fetching = self._fetching(at, self._stop)
                for fetched in fetching:
                    if not self._put(at, fetched, asked):
                        return
                    at, given = fetched.after, True
                    if not fetched.goes_on:
                        asked = self._asked
                self._over(None)
                return
            except _PASSING as error:
                if given:
                    pauses = self._retries.pauses()
                pause = next(pauses, None)
                if pause is None:
                    self._over(self._gave_up(error))
                    return
                self.tries += 1
                self._log.failure(f"{self._name} is read again in {pause:.1f} s", error, logging.WARNING)
                self._stop.wait(pause)
            except BaseException as error:
                self._over(error)
                return
            finally:
                if isinstance(fetching, Generator):
                    fetching.close()

    def _gave_up(self, error: Exception) -> UnavailableError:
        if isinstance(error, UnavailableError):
            return error
        told = UnavailableError(
            f"{self._name} cannot be read: {error}", hint="is the system there, and reachable from here?"
        )
        told.__cause__ = error
        return told

    def _put(self, before: Any, fetched: Fetched, asked: int) -> bool:
        """Hand over; waits for room. False when nobody reads any more."""
        rows = ChangelogBatch(fetched.rows) if isinstance(fetched.rows, pa.RecordBatch) else fetched.rows
        with self._changed:
            while self._bytes >= self._memory and not self._stop.is_set():
                self._changed.wait()
            if self._stop.is_set():
                return False
            if rows is None:
                self._answered = max(self._answered, asked)
            if rows is not None and len(rows):
                self._waiting.append(_Part(rows, before, fetched.after, fetched.rejected, fetched.within))
                self._bytes += rows.nbytes
            elif self._waiting and not fetched.rejected:
                self._waiting[-1].after = fetched.after
            elif fetched.rejected or fetched.after != before:
                self._waiting.append(_Part(_NOTHING, before, fetched.after, fetched.rejected))
            self._changed.notify_all()
        self._context.wake()
        return True

    def _over(self, error: BaseException | None) -> None:
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()
        self._context.wake()
