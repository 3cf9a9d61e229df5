"""Where the jobs of a session run: in this process, or in the tasks of Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from runtime.core.errors import OptionError, SparkError
from runtime.core.options import Options, text_option
from runtime.local.dataflow import Dataflow
from runtime.plan.nodes import PhysicalNode, SourceExec
from runtime.plan.walk import walk_all
from runtime.spark.cluster import RESIDENT, STATE_DIR, Cluster
from runtime.spark.dataflow import SparkDataflow
from runtime.spark.frame import FrameSource
from runtime.spark.session import spark_session
from runtime.spark.simulated import SimulatedCluster
from runtime.spark.sinks import WRITE_IN_TASKS
from runtime.spark.sources import READ_IN_TASKS

__all__ = ["SPARK_MASTER", "SPARK_PREFIX", "TARGET", "TARGET_OPTIONS", "JobTarget", "target_options"]

TARGET = text_option(
    "execution.target",
    "local",
    "where jobs run: 'spark', or in this process, which is what all other targets of Flink mean here",
)
SPARK_MASTER = text_option(
    "sqlengine.spark.master", "", "the master of a new Spark session; this machine with all its cores when not given"
)
SPARK_PREFIX = "spark."
"""What the options of Spark itself begin with: those of a session that is made here."""
TARGET_OPTIONS = (TARGET, SPARK_MASTER, STATE_DIR, RESIDENT, READ_IN_TASKS, WRITE_IN_TASKS)


class JobTarget:
    """The target of a session's jobs."""

    def __init__(self) -> None:
        self.spark: Any = None
        """The Spark session on which jobs run; None: the active one, or a new one when it is needed."""
        self.cluster: Cluster | SimulatedCluster | None = None
        """Where tasks run, once it is known; tests put a simulated one here."""

    def dataflow(self, options: Options, roots: Sequence[PhysicalNode] = ()) -> Callable[..., Dataflow]:
        """What makes the dataflows of jobs. Raises SparkError when a Spark session is needed and cannot be started.

        A plan that reads a streaming DataFrame runs where that is, unless a target is set.
        """
        target = options.text(TARGET.key)
        if target is None:
            session = _session_of_a_stream(roots)
            if session is None:
                return Dataflow
            if self.cluster is None:
                try:
                    self.cluster = Cluster(session)
                except SparkError:
                    return Dataflow  # One of Spark Connect, which has no tasks of one's own.
        elif target.lower() != "spark":
            return Dataflow
        if self.cluster is None:
            given = {key: value for key, value in options.as_dict().items() if key.startswith(SPARK_PREFIX)}
            self.cluster = Cluster(self.spark or spark_session(options.get(SPARK_MASTER), given))
        return partial(SparkDataflow, cluster=self.cluster)


def _session_of_a_stream(roots: Sequence[PhysicalNode]) -> Any:
    """The Spark session of a streaming DataFrame that a plan reads; None when it reads none."""
    for node in walk_all(roots):
        if isinstance(node, SourceExec) and isinstance(node.table, FrameSource) and not node.table.bounded:
            return node.table.frame.sparkSession
    return None


def target_options(on: str) -> dict[str, str]:
    """The options that `--on` stands for: `local`, `spark`, or `spark=MASTER`. Raises OptionError for anything else."""
    name, _, master = on.partition("=")
    if name.lower() == "local" and not master:
        return {TARGET.key: "local"}
    if name.lower() == "spark":
        return {TARGET.key: "spark", **({SPARK_MASTER.key: master} if master else {})}
    raise OptionError(
        f"jobs cannot run on '{on}'",
        hint="it is local, spark (this machine), or spark=MASTER, for example spark=spark://host:7077",
    )
