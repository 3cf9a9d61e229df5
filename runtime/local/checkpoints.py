"""When a job saves what it needs to go on, and what follows from a save: its sinks publish.

A checkpoint is the boundary of an epoch, so nothing is in flight. In order:

    after an epoch   sinks prepare: what they have written is durable, but hidden
                     sources tell where they are, operators what changed since the last time
    another thread   the store writes all of it; the epochs go on meanwhile
    once it is there sinks publish what they prepared for it

A crash before the write is complete goes back to the checkpoint before, whose output alone is visible; one after it goes
on from this one and publishes again, which changes nothing where it was done.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from runtime.checkpoint.epoch_state import CheckpointInfo, EpochState, Restored
from runtime.checkpoint.keys import KEY_FILE
from runtime.core.clock import Clock
from runtime.core.errors import CheckpointError
from runtime.core.logs import Log
from runtime.core.metrics import Histogram
from runtime.core.options import Options, duration_option, int_option
from runtime.core.rooms import Room
from runtime.local.job_log import facts_of

if TYPE_CHECKING:
    import runtime.checkpoint.compatibility as compatibility
    import runtime.checkpoint.readings as readings
    import runtime.checkpoint.store as store
    from runtime.checkpoint.store import CheckpointStore
else:
    compatibility = Room("runtime.checkpoint.compatibility")
    readings = Room("runtime.checkpoint.readings")
    store = Room("runtime.checkpoint.store")

__all__ = [
    "CHECKPOINT_OPTIONS",
    "INTERVAL",
    "MIN_PAUSE",
    "RETAINED",
    "TOLERABLE_FAILURES",
    "Checkpointed",
    "Checkpoints",
    "give_way",
    "readings",
    "store",
]

_log = Log("checkpoint")

INTERVAL = duration_option(
    "execution.checkpointing.interval", 0, "how often a job saves its state; 0 is only when it stops"
)
MIN_PAUSE = duration_option(
    "execution.checkpointing.min-pause", 0, "the least time between the end of one checkpoint and the next"
)
RETAINED = int_option("execution.checkpointing.num-retained", 1, "how many checkpoints of a job are kept")
TOLERABLE_FAILURES = int_option(
    "execution.checkpointing.tolerable-failed-checkpoints", 0, "how many checkpoints in a row may fail"
)
_NICE = 5
"""By so much less urgent is a thread that writes: there are seconds until the next checkpoint, and the job waits for
none of it. (Much less, and a thread that holds the interpreter's lock would wait for the processor.)"""
CHECKPOINT_OPTIONS = (INTERVAL, MIN_PAUSE, RETAINED, TOLERABLE_FAILURES, KEY_FILE)


_WRITING: WeakValueDictionary[str, Checkpoints] = WeakValueDictionary()
"""The jobs of this process that save, by their folder. (That no other process does the storage knows.)"""
_CLAIMING = threading.Lock()


class Checkpointed(Protocol):
    """What of a job takes part in its checkpoints. `name`: the job's, for the log."""

    name: str

    def save(self, *, complete: bool, finished: bool, by_tasks: bool = False) -> EpochState:
        """The state at the end of the last epoch, its sinks prepared: changes since the last save, or all of it.
        `by_tasks`: who is to write it can have tasks write theirs (`EpochState.away`)."""
        ...

    def publish(self, committables: Mapping[str, Any]) -> None:
        """Sinks make visible what they prepared; once more changes nothing."""
        ...


class Fenceable(Protocol):
    """A sink that may know which run writes to it."""

    def claim(self, place: str, history: Any, take_over: bool) -> None:
        """See `runtime.spi.writer.FencedWriter`."""
        ...


@dataclass(frozen=True, slots=True)
class _Pending:
    """A checkpoint that is being written, and what follows when it is there."""

    state: EpochState
    written: Future[CheckpointInfo]


class Checkpoints:
    """The checkpoints of one job. Called from the job's thread, between epochs.

    Args:
        job: what the job is called in every run: its sinks know their hidden files by it.
    """

    def __init__(self, job: str, store: CheckpointStore, options: Options, clock: Clock) -> None:
        self.job = job
        self.store = store
        self._interval = options.get(INTERVAL)
        self._min_pause = options.get(MIN_PAUSE)
        self._take_over = options.get(compatibility.TAKE_OVER)
        self._tolerable = options.get(TOLERABLE_FAILURES)
        self._clock = clock
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoints", initializer=give_way)
        self._pending: _Pending | None = None
        self._begun_at = clock.now()
        self._ended_at: int | None = None
        self._failures = 0
        self._complete = True
        self._unpublished: dict[str, list[Any]] = {}
        self.last: CheckpointInfo | None = None
        self.seconds = Histogram()
        """How long it took to write each checkpoint of this run."""
        self.failed = 0

    def latest(self, *, unread: bool = False) -> Restored | None:
        """The checkpoint to go on from. What is saved next is complete. From now on no other process writes here. `unread`:
        see `CheckpointStore.latest`."""
        self.store.claim()
        with _CLAIMING:
            other = _WRITING.setdefault(self.store.path, self)
        if other is not self:
            raise CheckpointError(
                f"another job of this process writes checkpoints to {self.store.path}",
                code="E3405",
                hint="stop it, or give this job another name or execution.checkpointing.dir",
            )
        self._complete = True
        self._unpublished = {}
        return self.store.latest(unread=unread)

    @property
    def place(self) -> str:
        """Where the checkpoints are, of a folder with its number in the file system: another one's than a copy's."""
        with suppress(OSError):
            return f"{self.store.path}#{os.stat(self.store.path).st_ino}"
        return self.store.path

    @property
    def in_progress(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._pending is not None

    def fence(self, sinks: Mapping[str, Fenceable], written: Mapping[str, Any]) -> None:
        """Before the job does anything: it is the one that writes to these sinks. `written` is what the checkpoint from
        which it goes on says of each (`SinkOperator.history`). FencedError when another run has written more since."""
        for name, sink in sinks.items():
            sink.claim(self.place, written.get(name), self._take_over)

    def after_epoch(self, job: Checkpointed) -> None:
        """Publish what has become durable, and begin a checkpoint when one is due.

        Raises:
            CheckpointError: more checkpoints in a row have failed than may.
        """
        if self._pending is not None and self._pending.written.done():
            self._settle(job)
        if self._pending is None and self._due():
            self._begin(job, finished=False)

    def now(self, job: Checkpointed, *, finished: bool = False) -> CheckpointInfo:
        """Take a checkpoint at once, and wait until it is there and its output is published."""
        if self._pending is not None:
            self._settle(job)
        self._begin(job, finished=finished)
        info = self._settle(job)
        if info is None:
            raise CheckpointError("the checkpoint could not be written", hint="see the reason above")
        return info

    def give_up(self, job: Checkpointed) -> None:
        """The job has failed: a checkpoint that is being written still counts if it gets there."""
        if self._pending is not None:
            self._settle(job)

    def close(self) -> None:
        if _WRITING.get(self.store.path) is self:
            del _WRITING[self.store.path]
        self._writer.shutdown()
        self.store.close()

    @property
    def next_due(self) -> int | None:
        """When the next checkpoint is due, milliseconds of the clock; None when none is taken by time."""
        if self._interval <= 0:
            return None
        by_interval = self._begun_at + self._interval
        return by_interval if self._ended_at is None else max(by_interval, self._ended_at + self._min_pause)

    def _due(self) -> bool:
        due = self.next_due
        return due is not None and self._clock.now() >= due

    def _begin(self, job: Checkpointed, *, finished: bool) -> None:
        self._begun_at = self._clock.now()
        state = job.save(complete=self._complete, finished=finished, by_tasks=True)
        if self._unpublished:
            names = {**self._unpublished, **state.sinks}
            merged = {n: [*self._unpublished.get(n, ()), *state.sinks.get(n, ())] for n in names}
            state = replace(state, sinks=merged)
        self._complete = False
        self._unpublished = {}
        self._pending = _Pending(state, self._writer.submit(self.store.write, state))
        _log.debug("%s: checkpoint begun after epoch %d", job.name, state.epoch, job=job.name, epoch=state.epoch)

    def _settle(self, job: Checkpointed) -> CheckpointInfo | None:
        """Wait for the checkpoint that is being written; its output is published, or its failure counted."""
        assert self._pending is not None
        pending, self._pending = self._pending, None
        try:
            info = pending.written.result()
        except (CheckpointError, OSError) as error:
            _log.failure(
                f"{job.name}: a checkpoint has failed", error, logging.WARNING, job=job.name, epoch=pending.state.epoch
            )
            # The increments of a save that did not arrive are lost: the next one has everything.
            self._complete = True
            self._unpublished = {name: list(found) for name, found in pending.state.sinks.items()}
            self._failures += 1
            self.failed += 1
            if self._failures > self._tolerable:
                raise
            return None
        finally:
            pending.state.release()
        self._failures = 0
        self._ended_at = self._clock.now()
        self.last = info
        self.seconds.observe(info.duration / 1000)
        text = "%s: checkpoint %d after epoch %d is complete, %d bytes in %d ms"
        _log.info(text, job.name, info.id, info.epoch, info.bytes, info.duration, **facts_of(info, job.name))
        self.committed(job, info, pending.state.sinks)
        return info

    def committed(self, job: Checkpointed, info: CheckpointInfo, committables: Mapping[str, Any]) -> None:
        """A checkpoint is complete: what the sinks have prepared for it is published."""
        job.publish(committables)


def give_way() -> None:
    """In a thread that writes: the threads of the job come first. On Linux alone a thread has its own priority."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICE)
