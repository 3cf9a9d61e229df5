"""Materialized views: queries whose answers are kept up to date, epoch by epoch.

A view over tables in memory (and over other such views) is brought up to date as part of every statement that changes
them, in order of creation, so that a reader never sees one view ahead of another. One whose answer does not depend on
when that happens (`sqlengine/database/view_traits.py`) may let changes gather while nobody reads or follows it: it is brought up
to date before it is read. A view over a connector takes what statements have changed as part of them, too; what its
sources give is taken by a thread, and `FLUSH` takes what is there when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakSet

from connectors.memory import MemoryTable
from runtime.core.cancellation import Cancellation, look, whole
from runtime.core.clock import Clock
from runtime.core.errors import PlanningError, SqlEngineError
from runtime.core.logs import Log, tell
from runtime.core.rooms import Room
from runtime.core.wakeup import Wakeup, nobody
from runtime.local.source_inputs import SourceInputs
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.maintained_view import MOST_GATHERED, MaintainedView, view_failed
from sqlengine.database.turns import TurnLock
from sqlengine.database.view_graph import NEVER, ViewGraph

if TYPE_CHECKING:
    import sqlengine.database.filling as _filling
    import sqlengine.database.passing_time as _passing_time
    import sqlengine.database.source_thread as _source_thread
    from sqlengine.database.scheduler import Scheduler
else:
    _filling = Room("sqlengine.database.filling")
    _passing_time = Room("sqlengine.database.passing_time")
    _source_thread = Room("sqlengine.database.source_thread")

__all__ = ["MOST_GATHERED", "MaintainedView", "Views"]

_log = Log("views")


class Views:
    """All materialized views. `lock` guards them and the tables in memory: whoever changes or reads those holds it.

    Args:
        scheduler: who gives turns to those over connectors.
        clock: tells when rows come in or leave.
    """

    def __init__(self, scheduler: Callable[[], Scheduler], clock: Clock) -> None:
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
        self.on_moved: Callable[[], object] = nobody
        """Called after that when views have taken what their sources gave."""
        self.on_caught_up: Callable[[], object] = nobody
        """Called with the lock held when views have taken in what they had let gather."""
        self.schedule: dict[ObjectPath, int] = {}
        """When the answers of which views are to be computed again, in milliseconds of the clock."""
        self._making: dict[ObjectPath, _filling.Filling] = {}
        self._followers: WeakSet[Wakeup] = WeakSet()
        self._scheduler = scheduler
        self._clock = clock
        self._due = self.next_timer = NEVER
        """When the answer of a view may change though nothing comes, and when it is known to."""
        self._time: _passing_time.TimeThread | None = None
        self._sources: _source_thread.SourceThread | None = None
        self.stopped = False
        """Whether they are kept no longer."""

    @property
    def sources(self) -> _source_thread.SourceThread:
        """Takes what the sources of views over connectors give."""
        if self._sources is None:
            self._sources = _source_thread.SourceThread(self, self._scheduler())
        return self._sources

    def add(
        self,
        view: MaintainedView,
        followed: Callable[[], MemoryTable | None] = lambda: None,
        reads: frozenset[ObjectPath] = frozenset(),
    ) -> MemoryTable | None:
        """Begin to keep a view, in the place of one of the same path.

        Its first answer is complete when this returns, as far as its inputs are in memory. When that fails nothing has
        changed. Whoever holds the lock once gives it up while the answer is computed; definitions that touch the view, or
        what it reads, wait (`making`). A view that goes on from a checkpoint takes nothing before the next `propagate`, so
        that those above it hear of all that comes.

        Args:
            followed: once the answer is there, what those that read the view before go on reading: they hear what
                differs, as one epoch.
            reads: what else nobody may drop meanwhile.
        Returns:
            What `followed` has given.
        """
        beside, goes_on = self.lock.held_once, view.job.restored is not None and view.take_over is None
        filling = _filling.ViewFilling(view, reads, whole=view.rests or view.path in self._views)
        with self.lock, self.making(filling):
            if not goes_on:
                self._fill(filling, beside=beside)
            replaced = followed()
            self._put(view, replaced, beside=beside)
            if view.rests:
                view.close()
            if not goes_on:
                self.propagate()
        if view.outside and not view.rests:
            self.sources.follow(view)
        return replaced

    def rest(self, path: ObjectPath) -> None:
        """Have a view stay as it is, with all that statements have changed so far. Raises PlanningError E1713 when it is
        no longer kept."""
        with self.lock:
            self.check(path)
            view = self._views[path]
            self._read(view)
            view.close()

    def _fill(self, filling: _filling.ViewFilling, *, beside: bool) -> None:
        try:
            filling.begin()
            if beside:
                with self.lock.given_up():
                    filling.run()
            else:
                filling.run()
            filling.finish()
            if self.stopped:
                raise PlanningError("the environment was closed", code="E1713", hint="open another one")
        except BaseException:
            filling.view.close()
            raise

    def _put(self, view: MaintainedView, replaced: MemoryTable | None, *, beside: bool) -> None:
        """A view that is filled takes its place. `beside`: others may have the lock while what differs is found."""
        view.job.wakeup.on_wake = partial(self._touch, view)
        view.on_failed = partial(self._note_failure, view)
        # Who was told of the job may ask it to stop until here, and no longer.
        view.job.cancellation = Cancellation()
        view.look_ahead()
        before = self._views.get(view.path)
        if before is not None:
            # Readers see its answer until the other one is shown.
            self._read(before)
            self._failed.pop(before, None)
        if replaced is not None and view.contents is not None:
            part = self.touched({view.path})
            with self.apart(part, replaced) if beside else nullcontext():
                replaced.become(view.contents)
                view.keep_in(replaced)
                replaced.pass_on()
                self.follow(part - {view.path})
        self._unmade.pop(view.path, None)
        # Whatever a view reads stands before it.
        for placed in (view, *self._graph.above([view.path])):
            self._views.pop(placed.path, None)
            self._views[placed.path] = placed
            self._graph.put(placed)
        if before is not None:
            before.close()
        if replaced is not None:
            replaced.publish()
        done = "made" if before is None else "replaced"
        _log.info("%s is %s", view.path, done, view=str(view.path), job=view.job.name)
        view.gathers = view.gathers and all(list(map(SourceInputs.gather, view.job.inputs)))
        if view.contents is not None:
            view.contents.catch_up = partial(self._read, view) if view.gathers else None

    # --- what goes on beside others
    # -----------------------------------------------------------------------------------------------------------

    @contextmanager
    def making(self, filling: _filling.Filling) -> Iterator[None]:
        """While something is made that takes long. Called with the lock held, which may be given up meanwhile."""
        self._making[filling.path] = filling
        try:
            yield
        finally:
            del self._making[filling.path]
            filling.end()

    @property
    def in_the_making(self) -> Collection[_filling.Filling]:
        """What is being made, of which nobody knows so far. Called with the lock held."""
        return self._making.values()

    @property
    def being_filled(self) -> list[MaintainedView]:
        """The views whose first answer is being computed. From any thread."""
        return [f.view for f in tuple(self._making.values()) if isinstance(f, _filling.ViewFilling)]

    def touched(self, changed: Collection[ObjectPath]) -> frozenset[ObjectPath]:
        """What an epoch touches that changes some tables and views: those, and the views that read them, directly or
        through others, also those that are being filled."""
        found = frozenset((*changed, *(view.path for view in self._graph.above(changed))))
        return found.union(f.path for f in self._making.values() if not f.reads.isdisjoint(found))

    @contextmanager
    def apart(self, part: Collection[ObjectPath], *tables: MemoryTable) -> Iterator[None]:
        """For the time of a block give up the lock, but for a part (`touched`) that this thread changes: others see that
        part as it was. What the block has passed on to followers is published at its end. Called by whoever holds the lock
        once.

        Args:
            tables: those that change; the contents of the part's views are known.
        """
        self.freshen(part)
        kept = (view.contents for view in self._views.values() if view.path in part)
        changing = {*tables, *(table for table in kept if table is not None)}
        for table in changing:
            table.settle()
        try:
            with self.lock.keeping(part):
                yield
        finally:
            for table in changing:
                table.settle(over=True)
                table.publish()

    def freshen(self, part: Collection[ObjectPath]) -> None:
        """Bring those views of a part up to date that have let changes gather: whoever reads them while the part changes
        would wait for the end. Called with the lock held."""
        contents = self.stale()
        stale = [view for view in self._views.values() if view.path in part and view.contents in contents]
        for view in stale:
            self._read(view)
        if stale:
            self.on_caught_up()

    def follow(self, part: Collection[ObjectPath]) -> None:
        """Bring the views of a part up to date, but for those whose changes may gather. Called by whoever has changed what
        they read.

        What has changed the tables counts, and is not taken back: the views take it in, whoever interrupts.
        """
        self._graph.advance(_take, only=part)

    def add_unmade(self, path: ObjectPath, failure: SqlEngineError) -> None:
        """There is a view that could not be made again: whoever reads it is told why."""
        self._unmade[path] = failure

    # --- what there is
    # -----------------------------------------------------------------------------------------------------------

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
        making = [f.path for f in self._making.values() if path in f.reads]
        return [*(view.path for view in self._graph.readers(path) if view.path not in making), *making]

    def above(self, path: ObjectPath) -> list[ObjectPath]:
        """The views that read a table or view, directly or through others, in the order in which they are kept."""
        return [view.path for view in self._graph.above([path])]

    def check(self, path: ObjectPath) -> None:
        """Raise PlanningError E1713 when a view, or one that it reads, has failed: its answer is no longer kept."""
        view = self._views.get(path)
        if view is None:
            unmade = self._unmade.get(path)
            if unmade is not None:
                raise view_failed(path, unmade)
            return
        if self.lock.held:
            self._read(view)
        if view.failure is not None:
            view.told = True
            raise view_failed(view.path, view.failure)
        for source in view.inputs:
            self.check(source)

    def new_failures(self) -> list[PlanningError]:
        """An error E1713 for each view that has failed since somebody was last told."""
        found: list[PlanningError] = []
        for view in list(self._failed):
            self._failed.pop(view, None)
            if view.failure is not None and not view.told:
                view.told = True
                found.append(view_failed(view.path, view.failure))
        return found

    def propagate(self) -> None:
        """Bring all views up to date with the tables in memory, but for those whose changes may gather. Called with the
        lock held: what others keep of it is theirs."""
        self._graph.advance(self._follow, without=self.lock.kept)
        self._end_epoch()

    def _end_epoch(self) -> None:
        kept = self.lock.kept
        for filling in self._making.values():
            if isinstance(filling, _filling.ViewFilling) and filling.path not in kept:
                filling.end_epoch()
        self._look_ahead()
        self.on_complete()

    # --- time that passes
    # -----------------------------------------------------------------------------------------------------------

    def is_due(self) -> bool:
        """Whether the answer of a view may have changed with time, so that `let_time_pass` comes before it is read."""
        return self._due <= self._clock.now()

    def let_time_pass(self) -> None:
        """Before views are read: those whose answers change with processing time alone take an epoch when their time has
        come, and those above them follow. Whoever has the lock has done so before."""
        if not self.is_due() or self.lock.held:
            return
        with self.lock.only(tuple), whole():
            now = self._clock.now()
            if self._due <= now:
                due = self._graph.due(now, self.lock.kept)
                self._graph.advance(partial(self._pass_time, now), without=self.lock.kept, timed=due)
                self._end_epoch()
                self.on_moved()

    def _pass_time(self, now: int, view: MaintainedView) -> None:
        if view.outside and view.due is not None and view.due <= now:
            view.advance(waiting_only=True)
        self._follow(view)

    def _look_ahead(self) -> None:
        self._due, self.next_timer = self._graph.timers(self._clock.now(), self.lock.kept)
        if self._time is None and self.next_timer != NEVER and not self.stopped:
            self._time = _passing_time.TimeThread(self, self._clock)
        if self._time is not None:
            self._time.look_at(self.next_timer)

    def catch_up(self) -> None:
        """Bring all views up to date with the tables in memory. Called with the lock held."""
        for view in list(self._views.values()):
            self._follow(view)
        self._end_epoch()

    def settled(self, path: ObjectPath) -> MaintainedView | None:
        """A view, up to date with what statements have changed. Called with the lock held."""
        view = self._views.get(path)
        if view is not None:
            for source in map(self._views.get, view.inputs):
                if source is not None:
                    self._read(source)
            self._follow(view)
        return view

    def stale(self) -> frozenset[MemoryTable]:
        """The contents of views that have let changes gather, or read such a view. Called with the lock held."""
        return self._graph.stale(self.lock.kept)

    def below(self, contents: MemoryTable) -> set[ObjectPath]:
        """The view that has some contents, and those that it reads which let changes gather."""
        views = [view for view in self._views.values() if view.contents is contents]
        return set[ObjectPath]().union(*map(self._gathering, views))

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
        else:
            _take(view)

    def _read(self, view: MaintainedView) -> None:
        """Before a view is read: what has gathered, in the views that it reads first."""
        if not view.gathers:
            return
        with self.lock.only(lambda: self._gathering(view)):
            for path in view.inputs:
                source = self._views.get(path)
                if source is not None:
                    self._read(source)
            view.catch_up()
            self._graph.caught_up(view)

    def _touch(self, view: MaintainedView) -> None:
        self._graph.touch(view)
        if view.outside:
            self.sources.wake(view)

    def _note_failure(self, view: MaintainedView) -> None:
        self._failed[view] = None
        self.wake_followers()

    def _gathering(self, view: MaintainedView) -> set[ObjectPath]:
        """A view that lets changes gather, and those that do below it."""
        found = {view.path}
        for path in view.inputs:
            source = self._views.get(path)
            if source is not None and source.gathers:
                found |= self._gathering(source)
        return found

    def tick(self) -> None:
        """Let time pass in every view: an epoch without input, for windows of processing time."""
        with self.lock:
            with whole():
                for view in list(self._views.values()):
                    view.advance()
            self.propagate()

    def flush(self) -> None:
        """Until every view has taken the input that is there now: each split of a source that is there now is read to
        its end, or until it has nothing more at the moment; of one that always has more (a generator without limits) a
        number of epochs is taken. What comes meanwhile is left for later. It may be interrupted between epochs, and others
        have their turn there."""
        outside = [view for view in self.jobs() if view.outside]
        for view in outside:
            with self.lock.only(partial(self.touched, (view.path,))):
                if not view.ended:
                    view.job.begin_flush()
        for view in outside:
            moved = True
            while moved:
                look()
                with self.lock.only(partial(self.touched, (view.path,))), whole():
                    moved = not view.ended and self.sources.one_epoch(view) and not view.job.flushed
                    self.propagate()
        for view in self.jobs():
            self._read(view)
        with self.lock.only(tuple), whole():
            self.propagate()
        for path in list(self._views):
            self.check(path)

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
        self.stopped = True
        if self._sources is not None:
            self._sources.stop()
        self.wake_followers()
        for view in self.jobs():
            view.job.cancel()
        for filling in list(self._making.values()):
            if isinstance(filling, _filling.ViewFilling):
                filling.view.job.cancel()
        if self._sources is not None:
            self._sources.join()
        if self._time is not None:
            self._time.join()
        for path in list(self._views):
            self.remove(path)


def _take(view: MaintainedView) -> None:
    """Take what statements have changed."""
    if view.outside or view.gathers:
        view.catch_up()
        return
    with whole():
        while (view.follows_time or view.job.waiting) and view.advance():
            pass
