"""Long-lived tasks on Spark: one barrier-mode job of a session, whose tasks are a crew (`runtime/tasks/crew.py`).

Spark gives them places, processes and an end; orders and rows go over connections of their own. All jobs of the engine in
one Spark application share the crew, taking turns by phase, as they share the processes of a machine. It is there while a
job of the engine is open and Spark has no other work for its slots: where something else waits for a slot (a DataFrame that
is read, a job of the user), the crew ends between two phases, and phases are Spark jobs until that is done. Nothing is lost by that:
versions of state are in files, and whoever opens them is told which.
"""

from __future__ import annotations

import atexit
import re
import threading
import time
import uuid
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from runtime.core.cancellation import look
from runtime.core.errors import SparkError
from runtime.core.logs import Log
from runtime.core.options import Options
from runtime.local.allocator import keep_freed_memory
from runtime.plan.nodes import PhysicalNode, SourceExec
from runtime.spark import shipping
from runtime.spark.frame import FrameSource
from runtime.spark.options import CONTROL_PORT, MODE
from runtime.spark.session import reached
from runtime.tasks.crew import Crew, CrewLost
from runtime.tasks.member import Joining, serve
from runtime.tasks.reading import ReadStage
from runtime.tasks.saving import SaveStage
from runtime.tasks.stage import Stage
from runtime.tasks.task import Record
from runtime.tasks.working import WorkStage

__all__ = ["Continuous", "continuous_of", "cores", "obstacle", "slots"]

_log = Log("spark")

_ATTEMPTS = 4
"""So often tasks may be lost in one phase before the job fails."""
_LINGER_SECONDS = 1.0
"""So long the crew stays when no job is open: the next statement often has one."""
_LOOK_SECONDS = 0.25
_GROW_SECONDS = 30.0
_AWAY_SECONDS = 2.0
"""So long Spark must have nothing else to do before a crew that has made way is gathered again."""
_END_SECONDS = 15.0
_ENCRYPTION = (
    "spark.network.crypto.enabled",
    "spark.ssl.enabled",
    "spark.ssl.rpc.enabled",
    "spark.io.encryption.enabled",
)


def slots(context: Any) -> int:
    """How many tasks Spark can run at a time now."""
    scala = context._jsc.sc()
    return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))


def cores(context: Any) -> int:
    """How many tasks an executor can run at a time."""
    # The driver has an entry of its own; of a local master it is the only executor.
    executors = int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1
    return max(1, -(-slots(context) // max(1, executors)))


def obstacle(context: Any, options: Options, nodes: Sequence[PhysicalNode], tasks: int) -> str:
    """Why a job cannot have long-lived tasks; "" when it can."""
    if options.get(MODE) == "per-epoch":
        return f"'{MODE.key}' says so"
    conf = context.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        return "Spark runs no long-lived tasks together where 'spark.dynamicAllocation.enabled' is true"
    for key in _ENCRYPTION:
        if conf.get(key, "false").lower() == "true":
            return f"'{key}' is true, and rows between long-lived tasks are not encrypted"
    there = slots(context)
    # One that ends is computed before the tasks begin, or they make way for it.
    frames = any(isinstance(n, SourceExec) and isinstance(n.table, FrameSource) and not n.table.bounded for n in nodes)
    if frames and there <= tasks:
        return f"a streaming DataFrame is read, for which the {tasks} tasks would leave none of Spark's {there} slots"
    return ""


_all: dict[str, Continuous] = {}
_all_lock = threading.Lock()


def continuous_of(context: Any) -> Continuous:
    """That of a Spark application."""
    with _all_lock:
        found = _all.get(context.applicationId)
        if found is None:
            found = _all[context.applicationId] = Continuous(context)
        return found


class Continuous:
    """See the module.

    Args:
        context: the SparkContext.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._turn = threading.RLock()
        self._lock = threading.Lock()
        self._crew: Crew | None = None
        self._open = 0
        self._idle_since = 0.0
        self._not_before = 0.0
        self._looked_for_slots = 0.0
        self._failures = 0
        self._jobs_of_ours = 0
        self.gathered = 0
        """How many crews there have been."""
        self.phases = 0
        """How many phases were carried out by one."""
        atexit.register(self.end)

    # --- jobs

    def opened(self) -> None:
        """A job that can have long-lived tasks begins."""
        with self._lock:
            self._open += 1

    def closed(self) -> None:
        """It has ended."""
        with self._lock:
            self._open -= 1
            self._idle_since = time.monotonic()
        if self._turn.acquire(timeout=1.0):
            try:
                if self._crew is not None:
                    self._crew.forget()
            finally:
                self._turn.release()

    @contextmanager
    def job_of_ours(self) -> Generator[None]:
        """A phase is a Spark job meanwhile."""
        with self._lock:
            self._jobs_of_ours += 1
        try:
            yield
        finally:
            with self._lock:
                self._jobs_of_ours -= 1

    @property
    def pids(self) -> list[int]:
        """The processes of the tasks."""
        return [] if self._crew is None else list(self._crew.pids.values())

    def run(
        self,
        stages: Sequence[Stage | ReadStage | SaveStage | WorkStage],
        given: Sequence[Sequence[Record]],
        options: Options,
    ) -> list[Record] | None:
        """See `Tasks.run`. None when there can be no crew now.

        Raises:
            SparkError: E3600 tasks are lost again and again. Whatever a task has raised is raised here.
        """
        with self._in_turn():
            lost = ""
            for _ in range(_ATTEMPTS):
                crew = self._ready(len(given), options, again=bool(lost))
                if crew is None:
                    return None
                try:
                    found = crew.carry_out(stages, given)
                    self.phases += 1
                    self._failures = 0
                    return found
                except CrewLost as error:
                    lost = str(error)
                    _log.warning("long-lived tasks on Spark are started again: %s", lost)
                    self._end()
                except BaseException:
                    if not crew.idle:
                        # What they are at is of no use to anybody; their versions are in files.
                        self._end()
                    raise
            raise SparkError(
                f"tasks were lost {_ATTEMPTS} times in one epoch: {lost}",
                hint="the executors' logs tell more; a task that is killed without anybody's doing lacks memory: raise"
                " 'spark.executor.memoryOverhead', or lower 'sqlengine.epoch.max-rows'",
            )

    def aside(self, stages: Sequence[SaveStage | WorkStage], given: Sequence[Sequence[Record]]) -> list[Record] | None:
        """See `Tasks.aside`. None when there is no crew, or it ends meanwhile."""
        crew = self._crew
        if crew is None:
            return None
        try:
            return crew.aside(stages, given)
        except CrewLost as lost:
            _log.debug("what long-lived tasks did beside phases is done again: %s", lost)
            return None

    def end(self) -> None:
        """The crew ends, if there is one."""
        with self._turn:
            self._end()

    # --- the crew

    @contextmanager
    def _in_turn(self) -> Generator[None]:
        """The crew is for one job alone."""
        while not self._turn.acquire(timeout=_LOOK_SECONDS):
            look()
        try:
            yield
        finally:
            self._turn.release()

    def _ready(self, partitions: int, options: Options, again: bool) -> Crew | None:
        """A crew for so many partitions; None when there can be none now."""
        now = time.monotonic()
        if self._crew is not None:
            try:
                self._crew.check()
            except CrewLost as lost:
                _log.warning("long-lived tasks on Spark are started again: %s", lost)
                again = True
                self._end()
        if self._crew is not None and self._crew.size < partitions and now - self._looked_for_slots > _GROW_SECONDS:
            self._looked_for_slots = now
            if min(slots(self._context), partitions) > self._crew.size:
                self._end()
        if self._crew is not None:
            return self._crew
        if now < self._not_before:
            return None
        if not again and self._others():
            self._not_before = now + _LOOK_SECONDS
            return None
        return self._gather(partitions, options)

    def _gather(self, partitions: int, options: Options) -> Crew | None:
        self._looked_for_slots = time.monotonic()
        size = min(self._slots(partitions), partitions)
        if not size:
            return None
        host = self._context.getConf().get("spark.driver.host", "127.0.0.1")
        try:
            crew = Crew(
                lambda joining, size: _BarrierJob(self._context, joining, size), size, host, options.get(CONTROL_PORT)
            )
        except CrewLost as lost:
            self._failures += 1
            self._not_before = time.monotonic() + min(300.0, 5.0 * 2.0**self._failures)
            _log.warning("there can be no long-lived tasks on Spark now, so each epoch is a Spark job: %s", lost)
            return None
        self._crew = crew
        self.gathered += 1
        threading.Thread(target=self._watch, args=(crew,), name="sqlengine-spark", daemon=True).start()
        return crew

    def _slots(self, wanted: int) -> int:
        """How many tasks can run together: executors of a cluster come one after another."""
        found = slots(self._context)
        if not re.match(r"local(\[|$)", str(self._context.master)):
            until = time.monotonic() + 3.0
            while found < wanted and time.monotonic() < until:
                time.sleep(_LOOK_SECONDS)
                more = slots(self._context)
                if more > found:
                    until = time.monotonic() + 3.0
                found = more
        return found

    def _others(self) -> bool:
        """Whether Spark has work that is none of ours."""
        active = len(self._context.statusTracker().getActiveJobsIds())
        return active > self._jobs_of_ours + (self._crew is not None)

    def _watch(self, crew: Crew) -> None:
        """While a crew is there: it goes when nobody needs it, or others need its slots."""
        waited = 0
        with suppress(Exception):
            while self._crew is crew:
                time.sleep(_LOOK_SECONDS)
                unused = not self._open and time.monotonic() - self._idle_since > _LINGER_SECONDS
                waited = waited + 1 if self._others() and slots(self._context) <= crew.size else 0
                if unused or waited >= 2:
                    with self._turn:
                        if self._crew is crew and (waited >= 2 or not self._open):
                            self._not_before = time.monotonic() + (_AWAY_SECONDS if waited else 0.0)
                            self._end()

    def _end(self) -> None:
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.end()


class _BarrierJob:
    """A Spark job whose tasks join a crew: see `runtime.tasks.crew.Started`."""

    def __init__(self, context: Any, joining: Joining, size: int) -> None:
        self._context = context
        self._group = f"sqlengine-{uuid.uuid4().hex}"
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._run, args=(joining, size), name="sqlengine-crew", daemon=True)
        self._thread.start()

    def _run(self, joining: Joining, size: int) -> None:
        try:
            self._context.setJobGroup(self._group, "sqlengine: long-lived tasks", interruptOnCancel=True)
            work = shipping.by_value(_Member(joining))
            self._context.parallelize(range(size), size).barrier().mapPartitionsWithIndex(work).collect()
            self._failure = "all tasks have ended"
        except Exception as error:
            self._failure = reached(error).message

    def failure(self) -> str | None:
        return self._failure

    def end(self) -> None:
        # Members have been told; one that does not listen is ended by Spark.
        self._thread.join(1.0)
        if self._thread.is_alive():
            with suppress(Exception):
                self._context.cancelJobGroup(self._group)
            self._thread.join(_END_SECONDS)


class _Member:
    """What a task of the barrier job does."""

    def __init__(self, joining: Joining) -> None:
        self._joining = joining

    def __call__(self, partition: int, given: Iterator[Any]) -> Iterator[Any]:
        from pyspark import BarrierTaskContext

        host = BarrierTaskContext.get().getTaskInfos()[partition].address.rpartition(":")[0]
        keep_freed_memory()
        serve(self._joining, partition + 1, host or "127.0.0.1")
        return iter(())
