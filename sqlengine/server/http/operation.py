"""A statement that a client has sent: it runs on a thread of its own, and its rows wait in pages until they are fetched."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runtime.core.cancellation import Cancellation, Stopped
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import DatabaseError
from runtime.core.schema import Schema
from runtime.core.types import STRING
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.server.http.refused import Refused

if TYPE_CHECKING:
    from sqlengine.server.http.session import HttpSession

__all__ = ["Operation", "Page", "Shape", "job_hex"]

_PAGE_ROWS = 5000
_PAGE_BYTES = 1 << 20
_PAGES_AHEAD = 2
"""Pages that wait to be fetched before the query waits."""
_LOOKS_SECONDS = 0.5
_MOST_WAITING = 64 << 20
"""So many bytes of changes may gather for a query whose pages nobody fetches."""
_OVER = frozenset(("FINISHED", "CANCELED", "CLOSED", "ERROR", "TIMEOUT"))
_WRITES = (st.Insert, st.StatementSet, st.ExecutePlan)
_JOB_ID = Schema.of(("job id", STRING.not_null()))


def job_hex(name: str) -> str:
    """The name of a job as 32 hexadecimal digits, because clients read job ids so."""
    return hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Page:
    """Rows as they come from a query; they are written in the format that a client asks for. `batch`: None behind the last."""

    shape: Shape
    batch: ChangelogBatch | None


@dataclass(slots=True)
class Shape:
    """What all pages of a result say of it. `kind`: as Flink names results. `job`: the id by which clients of the gateway know
    it, `job_name`: its name."""

    schema: Schema
    is_query: bool
    kind: str
    job: str | None
    job_name: str | None = None
    summary: str | None = None
    warnings: tuple[str, ...] = ()


class Operation:
    """One statement.

    Args:
        work: gives the result, and whether it is that of a query; called on the operation's thread.
        text: the statement.
        seconds: how long it may take; 0 for ever.
    """

    def __init__(self, session: HttpSession, work: Callable[[], Result], text: str, seconds: float = 0.0) -> None:
        self.handle = str(uuid.uuid4())
        self.text = text
        self.status = "PENDING"
        self.error: BaseException | None = None
        self._session = session
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._changed = threading.Condition()
        self._pages: deque[ChangelogBatch] = deque()
        self._fetched: tuple[int, ChangelogBatch] | None = None
        self._next = 0
        self._done = False
        self._shape: Shape | None = None
        self._cancellation = Cancellation()
        self.seconds: float | None = None
        """How long it has taken, once it has given its result."""
        self._result: Result | None = None
        self._rows: int | None = None
        self._timer = self._loop.call_later(seconds, self._end, "TIMEOUT") if seconds > 0 else None
        self._thread = threading.Thread(target=self._run, name="statement of a client", daemon=True)
        self._thread.start()

    # --- on its thread

    def _run(self) -> None:
        began = time.perf_counter()
        try:
            self._session.take_turn(self)
            began = time.perf_counter()
            result = self._result = self._begun()
            if self.status in _OVER:
                result.cancel()
                return
            for batch in self._batches(result):
                if not self._put(batch):
                    break
                self._rows = (self._rows or 0) + len(batch)
            self._over("FINISHED")
        except BaseException as error:
            self.error = error
            self._over("ERROR")
            if self._result is not None and self._result.is_query:
                self._result.cancel()
        finally:
            self._result = None
            with self._changed:
                self._done = True
            self._write_down(time.perf_counter() - began)
            self._tell()

    def _write_down(self, seconds: float) -> None:
        """In the audit, where there is one."""
        trail = self._session.trail
        if trail is not None:
            canceled = self.status not in ("FINISHED", "ERROR")
            trail.statement(
                self.text, seconds, rows=self._rows, error=None if canceled else self.error, canceled=canceled
            )

    def _begun(self) -> Result:
        try:
            if self.status in _OVER:
                raise Stopped
            self.status = "RUNNING"
            started = time.perf_counter()
            with self._cancellation.governing():
                result = self._work()
            self.seconds = time.perf_counter() - started
            self._shape = replace(
                self._shape_of(result),
                job_name=None if result.job is None else result.job.name,
                summary=result.summary,
                warnings=result.warnings,
            )
        finally:
            self._session.end_turn()
        return result

    def _shape_of(self, result: Result) -> Shape:
        statement = parse_statement(self.text, self._session.dialect)
        job = None if result.job is None else result.job.name
        if isinstance(statement, _WRITES) and not getattr(statement, "returning", None):
            job = job or self.handle
            return Shape(_JOB_ID, False, "SUCCESS_WITH_CONTENT", self._session.known_job(job))
        if isinstance(statement, st.QueryStatement | st.Subscribe):
            return Shape(result.schema, True, "SUCCESS_WITH_CONTENT", self._session.known_job(job or self.handle))
        shows = isinstance(statement, st.Show | st.Describe | st.Explain) or result.schema.names != ("result",)
        return Shape(result.schema, False, "SUCCESS_WITH_CONTENT" if shows else "SUCCESS", None)

    def _batches(self, result: Result) -> Iterator[ChangelogBatch]:
        shape = self._shape
        assert shape is not None
        if shape.schema is _JOB_ID:
            yield from Result.table(_JOB_ID, [[shape.job]]).changes()
            return
        for batch in result.changes():
            row_bytes = max(1, batch.rows.nbytes // max(1, len(batch)))
            size = max(1, min(_PAGE_ROWS, _PAGE_BYTES // row_bytes))
            for at in range(0, len(batch), size):
                kinds = None if batch.kinds is None else batch.kinds[at : at + size]
                yield ChangelogBatch(batch.rows.slice(at, size), kinds)

    def _put(self, batch: ChangelogBatch) -> bool:
        """A page waits to be fetched; False when nobody will. Raises DatabaseError E3710 when too much has come meanwhile."""
        with self._changed:
            while len(self._pages) >= _PAGES_AHEAD and self.status not in _OVER:
                if not self._changed.wait(_LOOKS_SECONDS):
                    self._check_behind()
            if self.status in _OVER:
                return False
            self._pages.append(batch)
        self._tell()
        return True

    def _check_behind(self) -> None:
        """What a query follows gathers while nobody fetches."""
        job = None if self._result is None else self._result.job
        waiting = 0 if job is None else sum(b.rows.nbytes for source in job.inputs for b in source.buffered)
        if waiting > _MOST_WAITING:
            raise DatabaseError(
                f"the query was ended: its client has not fetched {_MOST_WAITING >> 20} MiB of changes",
                code="E3710",
                hint="fetch faster, or ask a view that changes less",
            )

    def _over(self, status: str) -> None:
        with self._changed:
            if self.status not in _OVER:
                self.status = status
            self._changed.notify_all()

    def _tell(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._news.set)

    # --- for clients

    def cancel(self) -> None:
        """Stop it. Raises Refused when it has ended."""
        if self.status in _OVER:
            raise Refused(self._session.missing, f"the operation {self.handle} has ended: it is {self.status}")
        self._end("CANCELED")

    def close(self) -> None:
        """Nobody fetches on: what runs for it is stopped. A job in the background goes on."""
        self._end("CLOSED")
        self.status = "CLOSED"

    def _end(self, status: str) -> None:
        self._over(status)
        if self._timer is not None:
            self._timer.cancel()
        with self._changed:
            self._pages.clear()
        self._cancellation.request()
        result, shape = self._result, self._shape
        if result is not None and (shape is None or shape.is_query):
            result.cancel()
        self._news.set()

    @property
    def is_over(self) -> bool:
        """Whether its thread has ended."""
        return self._done

    async def fetch(self, token: int, wait: float) -> Page | None:
        """A page; waits so many seconds for one, None: it is not there yet.

        Raises Refused for a token that is neither the next nor the one before, and what made the statement fail.
        """
        refused = self._session.missing
        if self._fetched is not None and token == self._fetched[0]:
            return Page(self._known_shape, self._fetched[1])
        if token != self._next:
            raise Refused(refused, f"the page {token} is not there; the next one is {self._next}")
        deadline = self._loop.time() + wait
        while not self._pages and not self._done and self.status not in ("CANCELED", "CLOSED", "TIMEOUT"):
            self._news.clear()
            left = deadline - self._loop.time()
            if left <= 0:
                return None
            try:
                await asyncio.wait_for(self._news.wait(), left)
            except TimeoutError:
                continue
        if token != self._next:
            raise Refused(refused, f"the page {token} was fetched by another request")
        if self.status in ("CANCELED", "CLOSED", "TIMEOUT"):
            raise Refused(refused, f"the operation {self.handle} was stopped: it is {self.status}")
        with self._changed:
            batch = self._pages.popleft() if self._pages else None
            self._changed.notify_all()
        if batch is not None:
            self._fetched, self._next = (token, batch), token + 1
            return Page(self._known_shape, batch)
        if self.error is not None:
            raise self.error
        return Page(self._known_shape, None)

    @property
    def _known_shape(self) -> Shape:
        assert self._shape is not None
        return self._shape
