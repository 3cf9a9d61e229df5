"""A materialized view and the job that keeps it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from connectors.memory import MemorySink, MemoryTable
from runtime.core.cancellation import whole
from runtime.core.errors import InternalError, PlanningError, SqlEngineError
from runtime.core.logs import Log
from runtime.core.wakeup import nobody
from runtime.local.job import Job
from runtime.plan.nodes import SinkExec
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.view_traits import next_change, waits_for_time

if TYPE_CHECKING:
    from sqlengine.database.scheduler import Share
    from sqlengine.database.view_basis import ViewBasis

__all__ = ["MOST_GATHERED", "MaintainedView", "view_failed"]

_log = Log("views")

MOST_GATHERED = 4096
"""Rows: a view with a larger backlog is brought up to date by the next statement, so that no reader waits for long."""


@dataclass(eq=False)
class MaintainedView:
    """A view and the job that keeps it. `outside` says that some input comes from a connector."""

    path: ObjectPath
    job: Job
    outside: bool
    inputs: frozenset[ObjectPath]
    failure: SqlEngineError | None = None
    ended: bool = False
    follows_time: bool = True
    """Whether its answer may change with processing time alone: then every statement is an epoch of it."""
    due: int | None = None
    """The processing time from which on its answer may change though nothing comes; 0: at any time, None: never."""
    told: bool = False
    """Whether somebody was told of the failure."""
    contents: MemoryTable | None = None
    """Where the answer is kept: it is told of the watermark behind each epoch."""
    gathers: bool = False
    """Whether it is brought up to date only when somebody reads or follows it, or much has gathered."""
    calls_out: bool = False
    """Whether it calls functions of users, or asks other systems: nobody knows how long one row takes."""
    seconds: float = 0.0
    """How long its last epoch has taken."""
    looked_at: float = field(default_factory=time.monotonic)
    """When its last epoch has begun, by the clock of `time.monotonic`: its answer has all that had come by then."""
    waits: bool = False
    """Whether its inputs from connectors have nothing for it at the moment."""
    on_failed: Callable[[], None] = nobody
    basis: ViewBasis | None = None
    """Over what it was planned."""
    weight: int = 100
    """How much processor time it gets beside others that are busy, where some input comes from a connector."""
    share: Share | None = None
    """What it has of that."""
    take_over: Callable[[Job], object] | None = None
    """What its job does first: it fills what is new with what the view in whose place it comes has."""
    rests: bool = False
    """Whether it ends with its first answer: it is computed again, by another job, when somebody says so."""
    passing: bool = False
    """Whether it goes with whoever has asked for it: no log or checkpoint knows of it."""
    own_keys: tuple[tuple[str, ...], ...] = ()
    """The keys that its answer has whatever keys the views have that it reads."""
    known_keys: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """The keys of those views from which its other keys follow, by the paths of the views."""
    _stepping: bool = False
    _reached: object = None

    @property
    def may_wait(self) -> bool:
        """Whether nobody misses what has gathered."""
        return self.gathers and (self.contents is None or not self.contents.followed) and self._backlog < MOST_GATHERED

    @property
    def has_gathered(self) -> bool:
        return self._backlog > 0

    @property
    def _backlog(self) -> int:
        return sum(source.backlog for source in self.job.inputs)

    def advance(self, *, waiting_only: bool = False) -> bool:
        """Take one epoch of what the inputs have now, or only of what statements have changed; tells whether there was
        any.

        A view that fails does so alone: what its epoch has done by halves cannot be gone on with. So nobody interrupts
        one that is kept.
        """
        if self.ended:
            return False
        self._stepping = True
        started, looked_at = time.perf_counter(), time.monotonic()
        try:
            _, moved = self.job.advance(waiting_only=waiting_only)
        except BaseException as error:
            self.ended, self.due = True, None
            self.failure = _as_failure(error)
            self.on_failed()
            _log.failure(f"{self.path} is no longer kept", self.failure, view=str(self.path), job=self.job.name)
            if not isinstance(error, Exception):
                raise
            return False
        finally:
            self._stepping = False
            self.seconds = time.perf_counter() - started
        self.looked_at = looked_at
        if self.contents is not None:
            self.contents.tell_time(self.job.dataflow.watermark, self.job.dataflow.idle)
        self.look_ahead()
        if self.job.finished and not waits_for_time(self.job):
            self.close()
        return moved

    def got_on(self) -> bool:
        """Whether its sources have got on since this was asked last: without a row, too, a checkpoint may be worth it, so that
        a log of theirs is needed no more."""
        before, self._reached = self._reached, [source.reached for source in self.job.inputs]
        return self._reached != before

    def look_ahead(self) -> None:
        """See what is `due`, after an epoch and where its state was restored."""
        self.due = next_change(self.job) if self.follows_time else None

    def catch_up(self) -> None:
        """Take all that statements have changed."""
        if self._stepping:
            return
        with whole():
            while self.job.waiting and self.advance(waiting_only=True):
                pass

    def keep_in(self, contents: MemoryTable) -> None:
        """Keep the answer from now on in another table, which has it as it is now."""
        self.contents = contents
        for root in self.job.roots:
            if isinstance(root, SinkExec) and isinstance(root.table, MemorySink):
                root.table.table = contents

    def close(self) -> None:
        """Keep it no longer."""
        self.ended, self.due = True, None
        self.job.close()


def _as_failure(error: BaseException) -> SqlEngineError:
    if isinstance(error, SqlEngineError):
        return error
    if isinstance(error, Exception):
        failure: SqlEngineError = InternalError(
            f"{type(error).__name__}: {error}", hint="this is a bug of the engine; please report the query"
        )
    else:
        failure = PlanningError("it was interrupted while it was brought up to date", code="E1713")
    failure.__cause__ = error
    return failure


def view_failed(path: ObjectPath, failure: SqlEngineError) -> PlanningError:
    """What is told whoever reads a view that has failed."""
    error = PlanningError(
        f'the materialized view "{path.name}" has failed: {failure.message}',
        code="E1713",
        hint="CREATE OR REPLACE it with a query that copes, or drop it",
    )
    error.__cause__ = failure
    return error
