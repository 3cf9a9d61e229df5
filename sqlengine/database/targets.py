"""Where the jobs of a session run: in this process, in other processes of this machine, or in the tasks of Spark."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from runtime.core.errors import SparkError
from runtime.core.metrics import MetricsRegistry
from runtime.core.options import Options
from runtime.core.rooms import Room
from runtime.local.dataflow import Dataflow
from runtime.plan.nodes import PhysicalNode, SourceExec
from runtime.plan.walk import walk_all
from sqlengine.options.target import SPARK_MASTER, SPARK_PREFIX, TARGET

if TYPE_CHECKING:
    import runtime.spark.cluster as _cluster
    import runtime.spark.frame as _frame
    import runtime.spark.session as _session
    import runtime.spark.shown as _shown
    import runtime.tasks.divided as _tasks
    import runtime.tasks.processes as _processes
    import runtime.tasks.staying as _staying
    import sqlengine.database.numbering as _numbering
    from runtime.tasks.executor import Executor
    from runtime.tasks.processes import ProcessExecutor
else:
    _cluster = Room("runtime.spark.cluster")
    _frame = Room("runtime.spark.frame")
    _numbering = Room("sqlengine.database.numbering")
    _processes = Room("runtime.tasks.processes")
    _session = Room("runtime.spark.session")
    _shown = Room("runtime.spark.shown")
    _staying = Room("runtime.tasks.staying")
    _tasks = Room("runtime.tasks.divided")

__all__ = ["JobTarget"]


class JobTarget:
    """The target of a session's jobs. `metrics`: the figures that Spark's pages and metrics sinks show."""

    def __init__(self, metrics: MetricsRegistry) -> None:
        self.spark: Any = None
        """The Spark session on which jobs run; None: the active one, or a new one when it is needed."""
        self.cluster: Executor | None = None
        """Where tasks run on Spark, once it is known; tests put a simulated one here."""
        self.processes: ProcessExecutor | None = None
        """The processes of this machine, once a job has run in them; tests share some here."""
        self._own: ProcessExecutor | None = None
        self._metrics = weakref.ref(metrics)
        self._shown: list[_shown.Shown] = []

    def dataflow(self, options: Options, roots: Sequence[PhysicalNode] = ()) -> Callable[..., Dataflow]:
        """What makes the dataflows of jobs. Raises SparkError when a Spark session is needed and cannot be started.

        A plan that reads a streaming DataFrame runs where that is, unless a target is set.
        """
        executor = self._executor(options, roots)
        if executor is not None and _numbering.number_call(roots) is not None:
            return Dataflow  # Sequences are here alone.
        return Dataflow if executor is None else partial(_tasks.divided_dataflow, executor=executor)

    def divides(self, options: Options) -> bool:
        """Whether jobs run in other processes."""
        return (options.text(TARGET.key) or "").lower() in ("processes", "spark")

    def described(self, options: Options, roots: Sequence[PhysicalNode]) -> str:
        """Where and how a plan would run, for EXPLAIN; "" for this process. Raises as `dataflow` does."""
        executor = self._executor(options, roots)
        if executor is None:
            return ""
        nodes = tuple(walk_all(roots))
        return "\n".join([executor.described(options, nodes), *_staying.staying(nodes, options, executor)])

    def _executor(self, options: Options, roots: Sequence[PhysicalNode]) -> Executor | None:
        """What runs the tasks of jobs; None: they run in this process."""
        target = options.text(TARGET.key)
        if target is None:
            session = _session_of_a_stream(roots)
            if session is None:
                return None
            if self.cluster is None:
                try:
                    self._on_spark(session)
                except SparkError:
                    return None  # One of Spark Connect, which has no tasks of one's own.
        elif target.lower() == "processes":
            if self.processes is None:
                self.processes = self._own = _processes.ProcessExecutor()
            return self.processes
        elif target.lower() != "spark":
            return None
        if self.cluster is None:
            given = {key: value for key, value in options.as_dict().items() if key.startswith(SPARK_PREFIX)}
            self._on_spark(self.spark or _session.spark_session(options.get(SPARK_MASTER), given))
        return self.cluster

    def _on_spark(self, session: Any) -> None:
        """Jobs run on a Spark session from now on, which shows them. Raises SparkError E3605."""
        self.cluster = _cluster.Cluster(session)
        known = self._metrics
        self._shown.append(_shown.Shown(session, lambda: None if (found := known()) is None else found.collect()))

    def close(self) -> None:
        """The session ends: so do its processes. Spark's session is its owner's."""
        if self._own is not None:
            self._own.close()
        for shown in self._shown:
            shown.close()


def _session_of_a_stream(roots: Sequence[PhysicalNode]) -> Any:
    """The Spark session of a streaming DataFrame that a plan reads; None when it reads none."""
    for node in walk_all(roots):
        if (
            _frame
            and isinstance(node, SourceExec)
            and isinstance(node.table, _frame.FrameSource)
            and not node.table.bounded
        ):
            return node.table.frame.sparkSession
    return None
