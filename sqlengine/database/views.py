"""Materialized views: queries whose answers are kept up to date, epoch by epoch.

A view over tables in memory (and over other such views) is brought up to date as part of every statement that changes
them, in order of creation, so that a reader never sees one view ahead of another. One whose answer does not depend on
when that happens (`sqlengine/database/view_traits.py`) may let changes gather while nobody reads or follows it: it is brought up
to date before it is read. A view over a connector takes what statements have changed as part of them, too; what its
sources give is taken by a thread, and `FLUSH` takes what is there when it is called.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from weakref import WeakSet

from connectors.memory import MemorySink, MemoryTable
from runtime.core.cancellation import Cancellation, Stopped, look, whole
from runtime.core.errors import InternalError, PlanningError, SqlEngineError
from runtime.core.logs import Log, tell
from runtime.core.wakeup import Wakeup, nobody
from runtime.local.agenda import Agenda
from runtime.local.job import Job
from runtime.local.source_inputs import SourceInputs
from runtime.plan.nodes import SinkExec
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.turns import TurnLock
from sqlengine.database.view_graph import ViewGraph

__all__ = ["MaintainedView", "Views"]

_log = Log("views")

IDLE_WAIT_SECONDS = 0.02
"""A view whose sources do not know when they have rows is asked so often."""
FULL_WAIT_SECONDS = 0.1
"""So long a view over a connector waits for memory before it asks again."""
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
    told: bool = False
    """Whether somebody was told of the failure."""
    contents: MemoryTable | None = None
    """Where the answer is kept: it is told of the watermark behind each epoch."""
    gathers: bool = False
    """Whether it is brought up to date only when somebody reads or follows it, or much has gathered."""
    calls_out: bool = False
    """Whether it calls functions of users, or asks other systems: nobody knows how long one row takes."""
    on_failed: Callable[[], None] = nobody
    _stepping: bool = False

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
        try:
            _, moved = self.job.advance(waiting_only=waiting_only)
        except BaseException as error:
            self.ended = True
            self.failure = _as_failure(error)
            self.on_failed()
            _log.failure(f"{self.path} is no longer kept", self.failure, view=str(self.path), job=self.job.name)
            if not isinstance(error, Exception):
                raise
            return False
        finally:
            self._stepping = False
        if self.contents is not None:
            self.contents.tell_time(self.job.dataflow.watermark, self.job.dataflow.idle)
        if self.job.finished:
            self.close()
        return moved

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
        self.ended = True
        self.job.close()


class Views:
    """All materialized views. `lock` guards them and the tables in memory: whoever changes or reads those holds it."""

    def __init__(self) -> None:
        self.lock = TurnLock()
        self._views: dict[ObjectPath, MaintainedView] = {}
        self._graph = ViewGraph()
        self._failed: dict[MaintainedView, None] = {}
        """Views that have failed, of which somebody is to be told."""
        self._unmade: dict[ObjectPath, SqlEngineError] = {}
        """What has kept a view from being made again when the database was opened."""
        self.on_failed: Callable[[PlanningError], object] = lambda error: tell(f"{error.code} {error.message}")
        """Called by the thread that follows connectors when a view of it has failed."""
        self.on_complete: Callable[[], object] = nobody
        """Called with the lock held when tables and views are those of one epoch."""
        self._stop = threading.Event()
        self._agenda: Agenda[MaintainedView] = Agenda()
        self._followers: WeakSet[Wakeup] = WeakSet()
        self._thread: threading.Thread | None = None
        self._short_of_memory: WeakSet[MaintainedView] = WeakSet()

    def add(self, view: MaintainedView, replaced: MemoryTable | None = None) -> None:
        """Begin to keep a view, in the place of one of the same path.

        Its first answer is complete when this returns, as far as its inputs are in memory. When that fails nothing has
        changed.

        Args:
            replaced: what those that read the view before go on reading: they hear what differs, as one epoch.
        """
        with self.lock:
            # With an empty input the first epoch gives the answer over nothing. It may be interrupted: the view is not
            # there yet.
            view.advance()
            if view.failure is not None:
                raise view.failure
            view.job.on_wake = partial(self._touch, view)
            view.on_failed = partial(self._note_failure, view)
            # Who was told of the job may ask it to stop until here, and no longer.
            view.job.cancellation = Cancellation()
            before = self._views.get(view.path)
            if before is not None:
                # Readers see its answer until the other one is shown.
                self._read(before)
                self._failed.pop(before, None)
            self._unmade.pop(view.path, None)
            # Whatever a view reads stands before it.
            above = self._graph.above([view.path])
            for placed in (view, *above):
                self._views.pop(placed.path, None)
                self._views[placed.path] = placed
                self._graph.put(placed)
            if before is not None:
                before.close()
            if replaced is not None and view.contents is not None:
                replaced.become(view.contents)
                view.keep_in(replaced)
                replaced.publish()
            _log.info(
                "%s is %s", view.path, "made" if before is None else "replaced", view=str(view.path), job=view.job.name
            )
            view.gathers = view.gathers and all(list(map(SourceInputs.gather, view.job.inputs)))
            if view.contents is not None:
                view.contents.catch_up = partial(self._read, view) if view.gathers else None
            self.propagate()
        if view.outside:
            self._agenda.wake(view)
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow_sources, name="materialized views", daemon=True)
                self._thread.start()

    def add_unmade(self, path: ObjectPath, failure: SqlEngineError) -> None:
        """There is a view that could not be made again: whoever reads it is told why."""
        self._unmade[path] = failure

    def remove(self, path: ObjectPath) -> None:
        with self.lock:
            self._unmade.pop(path, None)
            view = self._views.pop(path, None)
            if view is not None:
                self._graph.drop(path)
                self._failed.pop(view, None)
                view.close()
                _log.info("%s is no longer kept", path, view=str(path), job=view.job.name)

    def dependents(self, path: ObjectPath) -> list[ObjectPath]:
        """The views that read a table in memory, or a materialized view, given by its `storage`."""
        return [view.path for view in self._graph.readers(path)]

    def above(self, path: ObjectPath) -> list[ObjectPath]:
        """The views that read a table or view, directly or through others, in the order in which they are kept."""
        return [view.path for view in self._graph.above([path])]

    def check(self, path: ObjectPath) -> None:
        """Raise PlanningError E1713 when a view, or one that it reads, has failed: its answer is no longer kept."""
        view = self._views.get(path)
        if view is None:
            unmade = self._unmade.get(path)
            if unmade is not None:
                raise _failed(path, unmade)
            return
        if self.lock.held:
            self._read(view)
        if view.failure is not None:
            view.told = True
            raise _failed(view.path, view.failure)
        for source in view.inputs:
            self.check(source)

    def new_failures(self) -> list[PlanningError]:
        """An error E1713 for each view that has failed since somebody was last told."""
        found: list[PlanningError] = []
        for view in list(self._failed):
            self._failed.pop(view, None)
            if view.failure is not None and not view.told:
                view.told = True
                found.append(_failed(view.path, view.failure))
        return found

    def propagate(self) -> None:
        """Bring all views up to date with the tables in memory, but for those whose changes may gather. Called with the
        lock held.

        What has changed the tables counts, and is not taken back: the views take it in, whoever interrupts.
        """
        self._graph.advance(self._follow)
        self.on_complete()

    def catch_up(self) -> None:
        """Bring all views up to date with the tables in memory. Called with the lock held."""
        for view in list(self._views.values()):
            self._follow(view)
        self.on_complete()

    def stale(self) -> frozenset[MemoryTable]:
        """The contents of views that have let changes gather, or read such a view. Called with the lock held."""
        return self._graph.stale

    def bring_up_to_date(self, contents: MemoryTable) -> None:
        """Take what a view has let gather, in the views that it reads first."""
        for view in list(self._views.values()):
            if view.contents is contents:
                self._read(view)

    def may_take_long(self, changed: set[ObjectPath], rows: int) -> bool:
        """Whether an epoch that changes so many rows of some tables may keep whoever waits for it for long."""
        return rows > MOST_GATHERED or any(view.calls_out for view in self._graph.above(changed))

    def _follow(self, view: MaintainedView) -> None:
        if view.gathers:
            self._read(view)
            return
        if view.outside:
            view.catch_up()
            return
        with whole():
            while (view.follows_time or view.job.waiting) and view.advance():
                pass

    def _read(self, view: MaintainedView) -> None:
        """Before a view is read: what has gathered, in the views that it reads first."""
        if not view.gathers:
            return
        with self.lock:
            for path in view.inputs:
                source = self._views.get(path)
                if source is not None:
                    self._read(source)
            view.catch_up()
            self._graph.caught_up(view)

    def _touch(self, view: MaintainedView) -> None:
        self._graph.touch(view)
        if view.outside:
            self._agenda.wake(view)

    def _note_failure(self, view: MaintainedView) -> None:
        self._failed[view] = None
        self.wake_followers()

    def tick(self) -> None:
        """Let time pass in every view: an epoch without input, for windows of processing time."""
        with self.lock:
            with whole():
                for view in list(self._views.values()):
                    view.advance()
            self.propagate()

    def flush(self) -> None:
        """Until every view has taken the input that is there now: each split of a source that is known now is read to
        its end, or until it has nothing more at the moment; of one that always has more (a generator without limits) a
        number of epochs is taken. What comes meanwhile is left for later. It may be interrupted between epochs."""
        with self.lock:
            for view in self._views.values():
                if not view.ended:
                    view.job.begin_flush()
            # In order of creation: a view that reads another one comes after it.
            for view in list(self._views.values()):
                moved = True
                while moved:
                    look()
                    with whole():
                        moved = view.advance() and not (view.outside and view.job.flushed)
            self.propagate()
        for path in list(self._views):
            self.check(path)

    def _follow_sources(self) -> None:
        while not self._stop.is_set():
            self._turn()

    def _turn(self) -> None:
        """Wait until it is the turn of some views over connectors, and advance those."""
        for view in self._agenda.take():
            if self._stop.is_set():
                return
            seconds: float | None = None
            # An epoch that was given up ends its view alone.
            with self.lock, suppress(Stopped):
                # Of statements that woke the view it has taken the changes by now.
                seconds = None if view.ended else view.job.idle_for()
                if seconds == 0 and not self._may_read(view):
                    seconds = FULL_WAIT_SECONDS
                elif seconds == 0:
                    moved = view.advance()
                    self.propagate() if moved else self.on_complete()
                    if not moved:
                        seconds = None if view.ended else _least(view.job.idle_for())
            self._agenda.put(view, seconds)
        for error in self.new_failures() if not self._stop.is_set() else ():
            self.on_failed(error)

    def _may_read(self, view: MaintainedView) -> bool:
        """Whether there is memory for more of its sources; the log tells when they begin to wait, and when they go on."""
        left = view.job.memory_left
        if left is (view in self._short_of_memory):
            (self._short_of_memory.discard if left else self._short_of_memory.add)(view)
            text = "%s goes on" if left else "the sources of %s wait: the memory limit is reached"
            _log.warning(text, view.path, view=str(view.path), job=view.job.name)
        return left

    def tell_followers(self, wakeup: Wakeup) -> None:
        """Wake whoever follows a view or table, as long as it is there, when something was dropped, replaced or has
        failed. (Of rows its reader tells.)"""
        self._followers.add(wakeup)

    def wake_followers(self) -> None:
        """Something was dropped, replaced or has failed."""
        for wakeup in list(self._followers):
            wakeup.wake()

    def up_to_date(self) -> list[MaintainedView]:
        """All views, with what has gathered."""
        with self.lock:
            self.catch_up()
        return self.jobs()

    def jobs(self) -> list[MaintainedView]:
        return list(self._views.values())

    def close(self) -> None:
        self._stop.set()
        self._agenda.wakeup.wake()
        self.wake_followers()
        for view in self.jobs():
            view.job.cancel()
        if self._thread is not None:
            self._thread.join()
        for path in list(self._views):
            self.remove(path)


def _least(seconds: float | None) -> float | None:
    return seconds if seconds is None else max(seconds, IDLE_WAIT_SECONDS)


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


def _failed(path: ObjectPath, failure: SqlEngineError) -> PlanningError:
    error = PlanningError(
        f'the materialized view "{path.name}" has failed: {failure.message}',
        code="E1713",
        hint="CREATE OR REPLACE it with a query that copes, or drop it",
    )
    error.__cause__ = failure
    return error
