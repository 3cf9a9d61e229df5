"""The Spark session as the runtime uses it: run an epoch's stages, with an exchange between them."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from runtime.checkpoint.storage import below
from runtime.core.errors import SparkError, SqlEngineError
from runtime.core.key_group import MOST_TASKS
from runtime.core.logs import Log
from runtime.core.options import Options
from runtime.plan.nodes import PhysicalNode
from runtime.spark import shipping
from runtime.spark.continuous import Continuous, continuous_of, cores, obstacle, slots
from runtime.spark.options import MODE, RESIDENT, STATE_DIR
from runtime.spark.resident import run_in_resident, save_in_resident
from runtime.spark.session import is_remote, no_tasks, package_root, reached, temporary_place
from runtime.tasks.reading import ReadStage
from runtime.tasks.saving import SaveStage
from runtime.tasks.stage import Stage
from runtime.tasks.task import Record
from runtime.tasks.versions import StateFolder
from runtime.tasks.working import WorkStage

__all__ = ["Cluster", "staging_place"]

_log = Log("spark")

_CHECKPOINT_DIR = "execution.checkpointing.dir"


class Cluster:
    """Where tasks run.

    Args:
        session: a Spark session (not of Spark Connect, which has no tasks of one's own).

    Raises:
        SparkError: E3605 the session is one of Spark Connect.
    """

    def __init__(self, session: Any) -> None:
        self.session = session
        try:
            self._context = session.sparkContext
        except Exception as error:
            raise no_tasks() from error
        # Where executors see the driver's folder, they import the very code of the driver from it.
        known = self._context.environment.get("PYTHONPATH", "")
        if package_root() not in known.split(os.pathsep):
            self._context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package_root(), known]))

    @property
    def local(self) -> bool:
        """Whether all tasks run on this machine."""
        return str(self._context.master).startswith("local")

    def partitions(self, options: Options) -> int:
        """Into how many tasks a stage is divided: `parallelism.default`, else as many as run at a time."""
        given = options.text("parallelism.default")
        count = int(given) if given is not None else int(self._context.defaultParallelism)
        return max(1, min(MOST_TASKS, count))

    def long_lived(self, options: Options, nodes: Sequence[PhysicalNode]) -> bool:
        return not obstacle(self._context, options, nodes, self.partitions(options))

    def described(self, options: Options, nodes: Sequence[PhysicalNode]) -> str:
        tasks = self.partitions(options)
        why = obstacle(self._context, options, nodes, tasks)
        if why:
            return f"Spark, a job for each epoch, {tasks} tasks: {why}"
        return f"Spark, continuous: {tasks} partitions in {min(tasks, slots(self._context))} long-lived tasks"

    def open(self, options: Options, nodes: Sequence[PhysicalNode], job: str) -> SparkTasks:
        """Raises SparkError: E3606; E3608 the job must have long-lived tasks and cannot."""
        why = obstacle(self._context, options, nodes, self.partitions(options))
        if why and options.get(MODE) == "continuous":
            raise SparkError(
                f"the job cannot have long-lived tasks: {why}",
                code="E3608",
                hint=f"without '{MODE.key}' = 'continuous' each of its epochs is a Spark job",
            )
        folder = StateFolder.new(self.state_place(options))
        resident = options.get(RESIDENT) and os.name == "posix"
        continuous = None if why else continuous_of(self._context)
        return SparkTasks(self._context, folder, resident, continuous, options, job)

    def state_place(self, options: Options) -> str:
        """The folder in which jobs make folders for their versions of state.

        Raises:
            SparkError: E3606 nothing says where, and tasks run on other machines.
        """
        place = options.get(STATE_DIR)
        if place:
            return place.rstrip("/")
        if self.local:
            return temporary_place("spark")
        checkpoints = options.text(_CHECKPOINT_DIR)
        if checkpoints:
            return checkpoints.rstrip("/") + "/.versions"
        raise _no_place("state is kept")


def staging_place(session: Any, options: Options) -> str:
    """The folder in which jobs make folders for rows on their way into Spark. What a checkpoint names must be there
    when the job goes on, so that the folder of checkpoints comes first.

    Args:
        session: also one of Spark Connect.
    Raises:
        SparkError: E3606 nothing says where, and tasks run on other machines.
    """
    checkpoints = options.text(_CHECKPOINT_DIR)
    if checkpoints or options.get(STATE_DIR):
        return below(checkpoints or options.get(STATE_DIR), ".staged")
    if _on_this_machine(session):
        return temporary_place("staged")
    raise _no_place("rows for Spark are kept")


def _on_this_machine(session: Any) -> bool:
    if not is_remote(session):
        return str(session.sparkContext.master).startswith("local")
    here = str(session.client.host) in ("localhost", "127.0.0.1", "::1")
    return here and str(session.conf.get("spark.master", "")).startswith("local")


def _no_place(what: str) -> SparkError:
    return SparkError(
        f"nothing says where {what} that all machines of the cluster can reach",
        code="E3606",
        hint="SET 'sqlengine.spark.state-dir' or 'execution.checkpointing.dir' to a folder that they share",
    )


class SparkTasks:
    """The tasks of a job: see `runtime.tasks.executor.Tasks`.

    Args:
        resident: keep operators of tasks that are Spark jobs in processes of their own.
        continuous: has long-lived tasks; None: each phase is a Spark job.
        job: the name of the job.
    """

    def __init__(
        self,
        context: Any,
        folder: StateFolder,
        resident: bool,
        continuous: Continuous | None,
        options: Options,
        job: str,
    ) -> None:
        self._context = context
        self.folder = folder
        self.resident = resident or continuous is not None
        self._in_residents = resident
        self._continuous = continuous
        self._options = options
        self._job = job
        self._closed = False
        if continuous is not None:
            continuous.opened()

    def run(self, stages: Sequence[Stage | ReadStage], given: Sequence[Sequence[Record]]) -> list[Record]:
        """By long-lived tasks, or as one Spark job.

        Raises:
            SparkError: a task has failed as often as Spark tries, or long-lived ones have.
        """
        if self._continuous is None:
            return self._run(stages, given)
        found = self._continuous.run(stages, given, self._options)
        if found is not None:
            return found
        with self._continuous.job_of_ours():
            return self._run(stages, given)

    def aside(self, stages: Sequence[SaveStage | WorkStage], given: Sequence[Sequence[Record]]) -> list[Record]:
        """By long-lived tasks beside their phases, or as one Spark job. Raises as `run`."""
        if self._continuous is None:
            return self._run(stages, given)
        found = self._continuous.aside(stages, given)
        if found is None:
            # The next phase gathers tasks again, whose turn this waits for.
            found = self._continuous.run(stages, given, self._options)
        if found is not None:
            return found
        with self._continuous.job_of_ours():
            return self._run(stages, given)

    def _run(
        self, stages: Sequence[Stage | ReadStage | SaveStage | WorkStage], given: Sequence[Sequence[Record]]
    ) -> list[Record]:
        """One Spark job.

        Raises:
            SparkError: a task has failed as often as Spark tries.
        """
        count = len(given)
        try:
            # Two for each core: partitions move, and those that a resident has had stay there for a while.
            residents = 2 * cores(self._context) if self._in_residents else 0
            rdd = self._context.parallelize([[tuple(record) for record in part] for part in given], count)
            for number, stage in enumerate(stages):
                if number:
                    rdd = rdd.partitionBy(count, lambda partition: partition)
                if self._in_residents and isinstance(stage, Stage) and stage.kept:
                    stage.run = partial(run_in_resident, residents)
                elif self._in_residents and isinstance(stage, SaveStage):
                    stage.run = partial(save_in_resident, residents)
                rdd = rdd.mapPartitionsWithIndex(shipping.by_value(stage))
            with self._described(_what(stages[0])):
                return [Record(*fields) for _, fields in rdd.collect()]
        except SqlEngineError:
            raise
        except Exception as error:
            failure = reached(error)
            _log.failure("a Spark job has failed", failure, job=self._job)
            raise failure from error

    @contextmanager
    def _described(self, what: str) -> Generator[None]:
        """Spark's pages say meanwhile what its jobs are for, and the logs of executors whose (`%X{mdc.sqlengine.job}`)."""
        given = {"spark.job.description": f"{self._job}, {what}", "mdc.sqlengine.job": self._job}
        before = {key: self._context.getLocalProperty(key) for key in given}
        for key, value in given.items():
            self._context.setLocalProperty(key, value)
        try:
            yield
        finally:
            # The thread may be one of the program, whose own jobs follow.
            for key, value in before.items():
                self._context.setLocalProperty(key, value)

    def dumps(self, thing: Any) -> bytes:
        return shipping.dumps(thing)

    def close(self) -> None:
        self.folder.remove()
        if self._continuous is not None and not self._closed:
            self._continuous.closed()
        self._closed = True


def _what(stage: Stage | ReadStage | SaveStage | WorkStage) -> str:
    """What a Spark job does that begins with a stage, in words for Spark's pages."""
    if isinstance(stage, Stage):
        return f"epoch {stage.order.epoch + 1}"
    return {ReadStage: "reading", SaveStage: "checkpoint", WorkStage: "commit"}[type(stage)]
