"""A job: a dataflow, the readers of its sources, and the loop that cuts their input into epochs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from runtime.checkpoint.epoch_state import CheckpointInfo, EpochState, Restored, released
from runtime.checkpoint.fitting import taking
from runtime.checkpoint.keys import keys_of
from runtime.core.cancellation import Cancellation, Stopped
from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, VirtualClock
from runtime.core.errors import MemoryLimitError, without_traceback
from runtime.core.memory import is_full
from runtime.core.metrics import Histogram
from runtime.core.secrets import masked_text
from runtime.core.wakeup import Wakeup
from runtime.local.alignment import Alignments
from runtime.local.allocator import keep_freed_memory
from runtime.local.checkpoints import Checkpoints, readings, store
from runtime.local.dataflow import SourceInput
from runtime.local.going_on import DAMAGED, GoingOn, go_on
from runtime.local.idling import Idling
from runtime.local.job_image import JobImage
from runtime.local.job_log import JobLog
from runtime.local.job_settings import MAX_ROWS_PER_SECOND, AllAvailable, AtOnce, JobSettings
from runtime.local.movement import Movement
from runtime.local.profile import PROFILE, Profile
from runtime.local.read_ahead import ReadAhead
from runtime.local.requests import Requests
from runtime.local.restart_strategy import may_pass, restart_strategy
from runtime.local.restarts import Restarts
from runtime.local.source_inputs import SourceContext, SourceInputs
from runtime.plan.nodes import PhysicalNode, SinkExec, SourceExec
from runtime.state.snapshot import SavedState

__all__ = ["Job"]

PATIENCE_SECONDS = 0.5
"""So long a job that writes goes on with its epoch when it is asked to stop, so that one that is short counts."""


class Job:
    """Runs plans until their input ends or somebody stops it.

    `epochs` yields after each epoch the changes of every root; `run` drains it. A failed job has aborted its sinks; a
    finished or cancelled one has committed them, unless an epoch was given up that takes long. With checkpoints it
    goes on from the newest one, and after a failure that may pass it starts again from there, as its restart strategy
    says.

    Args:
        name: the job's name for people (`job-1`).
        roots: the plans.
        checkpoints: where its state is saved, if it is.
        savepoint: what it goes on from when there is no checkpoint of its own.
    """

    def __init__(
        self,
        name: str,
        roots: Sequence[PhysicalNode],
        settings: JobSettings,
        checkpoints: Checkpoints | None = None,
        savepoint: Restored | None = None,
    ) -> None:
        keep_freed_memory()
        self.name = name
        self.checkpoints = checkpoints
        self._log = JobLog(name, roots)
        self._status = "CREATED"
        self.error: BaseException | None = None
        self.failed_at: int | None = None
        self.epoch_seconds = Histogram()
        self.attempts = 0
        """How often it has started again after a failure."""
        self.on_epoch: Callable[[Job], None] | None = None
        """Called after every epoch: for live progress."""
        self.watch: Callable[[Mapping[SourceExec, SourceInput], int, Job], None] | None = None
        """Called with the input and the processing time of every epoch, once it is computed; what it raises fails the
        job. A job that starts again after a failure is watched no more."""
        self.wakeup = Wakeup()
        """Woken by `wake`. Sources get it, and not the job, which would keep itself, and the rows of its last epoch."""
        self.on_note: Callable[[str], None] | None = None
        """Called with what a person should know: a restart, a damaged checkpoint."""
        self._roots = tuple(roots)
        self._settings = settings
        self._going_on = GoingOn(checkpoints, savepoint, unread=settings.divided)
        self._rejections = settings.rejected.for_job(name, settings.time_zone)
        self._image = JobImage(settings, self._rejections)
        patience = PATIENCE_SECONDS if any(isinstance(r, SinkExec) for r in roots) else 0.0
        self.cancellation = Cancellation(patience, limit=settings.memory_use(self).look)
        """The request to stop, and the limit of memory. Another takes its place once a view is kept, and in tests."""
        self.stopped_with_savepoint = False
        self.gave_up = False
        """Whether it was stopped within an epoch, which is as if it had not begun."""
        self._ended = False
        self._published = False
        self.requests = Requests(name)
        self._strategy = restart_strategy(settings.options, checkpointed=checkpoints is not None)
        self._read_ahead = ReadAhead(name)
        self._idling = Idling(settings.clock, self.wakeup)
        self._at_once = AtOnce(settings, whole=checkpoints is None and savepoint is None)
        if isinstance(settings.clock, VirtualClock):
            settings.clock.tell(self.wake)
        self._profile = Profile() if settings.options.get(PROFILE) else None
        try:
            self._going_on.open(self._open)
        except BaseException as error:
            self._log.failed(error)
            if checkpoints is not None:
                checkpoints.close()
            raise
        self._log.became("CREATED", self.dataflow.epoch)

    def _open(self, restored: Restored | None, own: bool) -> None:
        """Make the dataflow and the readers, from a state (a checkpoint of its `own`); CheckpointError when that cannot be."""
        settings = self._settings
        if restored is not None:
            restored, self._roots = readings.resume(restored, self._roots, settings.options, settings.time_zone)
        self.restored, self.resumed_finished = restored, restored is not None and restored.finished
        counts: Mapping[str, Any] = {} if restored is None else restored.counts
        if restored is not None or self.attempts:
            self._rejections.go_back(0 if restored is None else restored.epoch, counts.get("rejected", ()))
        job = self.name if self.checkpoints is None else self.checkpoints.job
        roots = self._at_once.roots(self._roots)
        self.dataflow = settings.flow(roots, self._rejections, job)
        self.dataflow.functions.job.attempt = self.attempts
        self._sources: list[SourceInputs] = []
        self._movement = Movement()
        self._restarts = Restarts(settings.restarts) if settings.restarts is not None else None
        try:
            go_on(self.dataflow, self.checkpoints, restored, own)
            rate, flow = settings.options.get(MAX_ROWS_PER_SECOND), self.dataflow
            inputs = partial(SourceInputs, coded=True) if flow.elsewhere is None else flow.elsewhere.inputs
            for vertex in self.dataflow.vertices:
                if isinstance(vertex.node, SourceExec):
                    given = settings.time_zone, vertex.node.name, self._rejections, self.wakeup.wake
                    context = SourceContext(*given, self._rejections.refusals())
                    position = None if restored is None else restored.sources.get(vertex.name)
                    with nullcontext() if position is None else taking(f"the position of {vertex.node.name}"):
                        source = inputs(vertex.node, context, settings.clock, position, rows_per_second=rate)
                    self._sources.append(source)
            self._log.goes_on(restored)
            self._alignments = Alignments(self._sources)
            self._alignments.note(self.dataflow)
        except BaseException:
            self._close_sources()
            self.dataflow.abort()
            raise

    def load(self, epoch: int, operators: Mapping[str, SavedState]) -> None:
        """Give the operators their state, by name, where the job was made without it. Before the first epoch only. Raises
        CheckpointError E3402."""
        self.dataflow.restore(epoch, operators)
        self._alignments.note(self.dataflow)

    @property
    def roots(self) -> Sequence[PhysicalNode]:
        """The plans that it runs."""
        return self._roots

    @property
    def status(self) -> str:
        """CREATED, RUNNING, RESTARTING, FINISHED, CANCELED or FAILED. Each change is in the log."""
        return self._status

    @status.setter
    def status(self, status: str) -> None:
        if status != self._status:
            self._status = status
            if status not in ("FAILED", "RESTARTING"):
                # Of these the log tells why.
                self._log.became(status, self.dataflow.epoch)

    @property
    def time_zone(self) -> str:
        """The time zone in which it computes."""
        return self._settings.time_zone

    @property
    def bounded(self) -> bool:
        """Whether the input ends by itself."""
        return all(s.node.table.bounded for s in self._sources)

    @property
    def finished(self) -> bool:
        return all(s.finished for s in self._sources)

    def cancel(self) -> None:
        """Stop after the epoch at hand, or, when that takes long, within it: then it is given up."""
        self.cancellation.request()

    def savepoint(self, path: str, *, stop: bool = False, drain: bool = False) -> Future[CheckpointInfo]:
        """Write a savepoint after the epoch at hand. `stop`: the job ends with it; `drain`: all windows fire before."""
        return self.between_epochs(lambda: self._write_savepoint(path, stop=stop, drain=drain))

    def between_epochs(self, call: Callable[[], Any]) -> Future[Any]:
        """Have the job's thread call something after the epoch at hand; PlanningError E1416 when it has ended."""
        done = self.requests.ask(call)
        if self._ended:
            self.requests.refuse()
        self.wake()
        return done

    def wake(self) -> None:
        """From any thread: there is something to do, so it waits no longer."""
        self.wakeup.wake()

    @property
    def memory_left(self) -> bool:
        """Whether the process may take more memory."""
        return not is_full(self._settings.options)

    def idle_for(self) -> float | None:
        """After an epoch without movement: seconds until there may be some, None: not before `wake`; 0: nobody knows."""
        return self._idling.seconds(self.dataflow, self._sources, self.checkpoints)

    def advance(self, *, waiting_only: bool = False) -> tuple[list[ChangelogBatch | None], bool]:
        """One epoch of what the sources have now: the roots' changes, and whether any source gave a row, came to its
        end or became idle. `waiting_only`: only of what statements have changed. When it raises, the job has failed."""
        try:
            return self._one_epoch(waiting_only=waiting_only)
        except BaseException as error:
            self._fail(error)
            raise

    @property
    def waiting(self) -> bool:
        """Whether statements of the session have changed something that it has not taken yet."""
        return any(s.waiting for s in self._sources)

    @property
    def inputs(self) -> Sequence[SourceInputs]:
        return self._sources

    def _one_epoch(self, *, waiting_only: bool = False) -> tuple[list[ChangelogBatch | None], bool]:
        self.wakeup.forget()
        started = time.perf_counter()
        with nullcontext() if self._profile is None else self._profile.running(), self.cancellation.governing(self):
            outputs, moved = self._advance(waiting_only=waiting_only)
        if moved:
            seconds = time.perf_counter() - started
            self.epoch_seconds.observe(seconds)
            self._log.epoch(self.dataflow.epoch, seconds)
        return outputs, moved

    def _advance(self, *, waiting_only: bool) -> tuple[list[ChangelogBatch | None], bool]:
        self.status = "RUNNING"
        cut = self._settings.cut or AllAvailable.of(self._settings.options)
        allowed = cut.rows([s.node for s in self._sources], self.dataflow.epoch)
        if waiting_only:
            allowed = [max(rows, 1) if s.waiting else 0 for s, rows in zip(self._sources, allowed, strict=True)]
        given: dict[SourceExec, SourceInput] = {}
        limits = self._alignments.limits()
        moved = not self._sources and self.dataflow.epoch == 0
        with self._going_on.computing():
            for index, (source, rows) in enumerate(zip(self._sources, allowed, strict=True)):
                polled = source.poll(rows, limits.get(id(source), MAX_WATERMARK))
                given[source.node] = polled
                moved |= self._movement.by(index, polled)
            if self._settings.cut is None and not waiting_only:
                # Not with a cut of one's own: it may ask for other rows then.
                self._read_ahead.begin(self._sources, allowed)
            now = self._settings.clock.now()
            outputs = self._at_once.step(self.dataflow, given, now)
            if outputs is None:
                self._close_sources()
                self._going_on.open(self._open)
                return [None for _ in self._roots], True
        if self.watch is not None:
            self.watch({node: replace(g, batch=g.batch and g.batch.decoded()) for node, g in given.items()}, now, self)
        self._alignments.note(self.dataflow)
        if self._restarts is not None:
            self._restarts.after_epoch(self.dataflow)
        if self.checkpoints is not None:
            self.checkpoints.after_epoch(self)
        self.requests.answer()
        return outputs, moved

    def begin_flush(self) -> None:
        """From now on `flushed` tells whether all input of this moment has been taken (see `SourceInputs`)."""
        for source in self._sources:
            source.begin_flush()

    @property
    def flushed(self) -> bool:
        return all(s.flushed for s in self._sources)

    def epochs(
        self,
        pause: Callable[[bool], AbstractContextManager[object]] = nullcontext,
        turn: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> Iterator[list[ChangelogBatch | None]]:
        """Epoch after epoch, until the input ends or `cancel`; then the sinks are committed. On an error they are
        aborted, unless the job starts again.

        `pause` is entered between epochs, told whether there may be more to do at once, and while there is no input:
        there a driver gives up what others need. `turn` is entered for each epoch, and for the end: there it has what
        others need as well.
        """
        self.status = "RUNNING"
        try:
            while not self.cancellation.requested and not self.resumed_finished:
                try:
                    with turn():
                        outputs, moved = self._one_epoch()
                except Stopped:
                    self.gave_up = True
                    break
                except Exception as error:
                    with pause(False):
                        self._start_again(error)
                    continue
                if self.on_epoch is not None:
                    self.on_epoch(self)
                yield outputs
                if self.finished or self.dataflow.complete:
                    break
                with pause(moved):
                    self._idling.pause(self, moved)
        except BaseException as error:
            with turn():
                self.close() if isinstance(error, GeneratorExit) else self._fail(error)
            raise
        with turn():
            self.close()

    def run(self, pause: Callable[[bool], AbstractContextManager[object]] = nullcontext) -> None:
        """Drain all epochs; `pause` as for `epochs`."""
        for _ in self.epochs(pause):
            pass

    def close(self) -> None:
        """Stop for good: sinks are committed. Nothing happens to a job that has ended or failed."""
        if self._ended:
            return
        self._ended = True
        over = not self.gave_up and (self.resumed_finished or self.finished or self.dataflow.complete)
        whole = over and not self.cancellation.requested  # Later requests come too late, but for sinks that look.
        if whole and not self.resumed_finished:
            self.dataflow.all_written()
        try:
            if self.gave_up:
                self._leave_epoch()
            else:
                self._save_last(over)
                with self.cancellation.governing(self):
                    self.dataflow.finish()
        except Stopped:
            # A sink has taken back what it was about to show.
            self.gave_up = True
        except BaseException as error:
            self._note_failure(error)
            raise
        finally:
            self.requests.refuse()
            if self.checkpoints is not None:
                self.checkpoints.close()
        self.status = "FINISHED" if whole and not self.gave_up else "CANCELED"
        if self._profile is not None:
            (self.on_note or partial(print, file=sys.stderr))(self._profile.report(self.name, self.dataflow.vertices))

    def _leave_epoch(self) -> None:
        """After an epoch that was given up: operators and sources stand somewhere within it, so nothing is saved. With
        checkpoints the next run goes on from the newest one. Without, sinks show what they have, but not when one of
        them has got a part of this epoch: what it has shown so far stays, the rest of all is dropped."""
        self._close_sources()
        if self.checkpoints is not None:
            self.checkpoints.give_up(self)
        if self.checkpoints is not None or self.dataflow.has_half_epoch:
            self.dataflow.abort()
        else:
            self.dataflow.finish()

    def _save_last(self, over: bool) -> None:
        """What the job leaves for the next run. When that fails its sinks publish nothing."""
        try:
            self._close_sources()
            if self.checkpoints is not None and not self.resumed_finished:
                self.checkpoints.now(self, finished=over)
        except BaseException:
            with suppress(Exception):
                self.dataflow.abort()
            raise

    # --- checkpoints and savepoints

    def save(self, *, complete: bool, finished: bool, by_tasks: bool = False) -> EpochState:
        """See `Checkpointed`."""
        away = self.dataflow.away(complete) if by_tasks else None
        operators, sinks = self.dataflow.save(complete, hold=True, away=away), self.dataflow.prepare()
        self._image.fix(self._sources)
        return self._image.state(self._roots, self.dataflow, self._sources, operators, sinks, away, finished=finished)

    def publish(self, committables: Mapping[str, Any]) -> None:
        """See `Checkpointed`."""
        self._published = True
        self._going_on.proved()
        self.dataflow.publish(committables)
        self._image.is_safe(self._sources)

    def _write_savepoint(self, path: str, *, stop: bool, drain: bool) -> CheckpointInfo:
        """What the sinks hold is published: whoever goes on from the savepoint writes only what comes after it."""
        self._at_once.check_savepoint(self.name)
        if drain:
            ends = {s.node: SourceInput(None, finished=True) for s in self._sources}
            self.dataflow.step(ends, self._settings.clock.now())
        if self.checkpoints is not None:
            self.checkpoints.now(self)
        self.publish(self.dataflow.prepare())
        # What sinks prepare now is no rows, but what they keep in mind: partitions that wait for their commit.
        away, flow = self.dataflow.away(True, image=True), self.dataflow
        state = self._image.state(self._roots, flow, self._sources, flow.image(away), flow.prepare(), away)
        with released(state):
            info = store.write_savepoint(path, state, self.name, keys_of(self._settings.options))
        self._log.saved(info)
        if stop:
            self.stopped_with_savepoint = True
            self.cancellation.request()
        return info

    # --- failures

    def _start_again(self, error: Exception) -> None:
        """After a failure: wait, and open the job anew from its newest checkpoint. Raises the failure when the strategy
        has no more attempts, or another one could only repeat it."""
        while True:
            pause = 0 if self._going_on.refuses(error) else None
            if self._may_start_again(error):
                pause = self._strategy.pause(self._settings.clock.now())
            if pause is None or self.cancellation.requested:
                raise error
            self.attempts += 1
            self.status, self.failed_at, self.error = "RESTARTING", self._settings.clock.now(), without_traceback(error)
            note = masked_text(f"{self.name} has failed: {error}; it starts again in {pause / 1000:g} s")
            self._log.starts_again(error, note, self.dataflow.epoch)
            if self.on_note is not None:
                self.on_note(note)
            # What cannot be closed cleanly now is no reason not to go on: it is the failure, seen once more.
            with suppress(Exception):
                self._close_sources()
            if self.checkpoints is not None:
                with suppress(Exception):
                    self.checkpoints.give_up(self)
            with suppress(Exception):
                self.dataflow.abort()
            self.watch = None
            if self.cancellation.wait(pause / 1000):
                raise error
            try:
                self._going_on.open(self._open)
            except Exception as again:
                error = again
                continue
            return

    def _may_start_again(self, error: Exception) -> bool:
        if not may_pass(error) or getattr(error, "code", "") == DAMAGED or not self.dataflow.sinks():
            return False
        return self.checkpoints is not None or not self._published

    def _fail(self, error: BaseException) -> None:
        """Give up because of an error: sinks are aborted. What goes wrong meanwhile is noted on the error."""
        if self._ended:
            return
        self._ended = True
        self._note_failure(error)
        if isinstance(error, MemoryLimitError):
            error.__traceback__ = None  # What its frames hold is to be free.
        for source in self._sources if isinstance(error, Exception) else ():
            source.failed(error)
        ends: list[Callable[[], None]] = [self._close_sources]
        if self.checkpoints is not None:
            checkpoints = self.checkpoints
            ends += [lambda: checkpoints.give_up(self), checkpoints.close]
        for end in (*ends, self.dataflow.abort, self.requests.refuse):
            try:
                end()
            except Exception as later:
                error.add_note(f"then, while the job was given up: {later}")

    def _note_failure(self, error: BaseException) -> None:
        self.status, self.failed_at, self.error = "FAILED", self._settings.clock.now(), without_traceback(error)
        self._log.failed(error, self.dataflow.epoch)

    def _close_sources(self) -> None:
        """Close all readers, once nobody reads any more."""
        self._read_ahead.close()
        with ExitStack() as closing:
            for source in self._sources:
                closing.callback(source.close)
