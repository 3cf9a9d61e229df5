"""Where the tasks of jobs run: the one protocol of all places.

The driver of a job (`runtime/tasks/divided.py`) asks for a chain of stages, once or several times an epoch, and gets
records back. Its rule is the same everywhere: an epoch counts when its reports do. A report names the files in which a
task has written its next version of state, and the next order names the versions that tasks start from. So an executor
knows nothing of state: it may run a task twice, lose one half way, and forget what tasks keep in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from runtime.core.options import Options
from runtime.plan.nodes import PhysicalNode
from runtime.tasks.reading import ReadStage
from runtime.tasks.saving import SaveStage
from runtime.tasks.stage import Stage
from runtime.tasks.task import Record
from runtime.tasks.versions import StateFolder
from runtime.tasks.working import WorkStage

__all__ = ["Executor", "Tasks"]


class Tasks(Protocol):
    """The tasks of one job, from `open` to `close`."""

    folder: StateFolder
    """Where versions of state are, and what is sent to all tasks once. All tasks reach it."""
    resident: bool
    """Whether tasks keep their operators from epoch to epoch where nothing goes wrong: then one that had to open its
    state from files was lost."""

    def dumps(self, thing: Any) -> bytes:
        """As bytes that `runtime.tasks.shipping.loads` takes where tasks run, functions of the user's program
        included."""
        ...

    def run(self, stages: Sequence[Stage | ReadStage], given: Sequence[Sequence[Record]]) -> list[Record]:
        """The stages one after another, with an exchange between them, from the records of each partition on. Gives the
        records of the last one.

        Raises:
            SqlEngineError: tasks cannot be run. Errors of the user's query are records.
        """
        ...

    def aside(self, stages: Sequence[SaveStage | WorkStage], given: Sequence[Sequence[Record]]) -> list[Record]:
        """As `run`, from any thread, while that goes on in another one. There is no exchange."""
        ...

    def close(self) -> None:
        """The job has ended: processes, memory and files of it are given back. May be called twice."""
        ...


class Executor(Protocol):
    """A place for the tasks of any number of jobs."""

    @property
    def local(self) -> bool:
        """Whether all tasks run on this machine."""
        ...

    def partitions(self, options: Options) -> int:
        """Into how many tasks a stage is divided."""
        ...

    def long_lived(self, options: Options, nodes: Sequence[PhysicalNode]) -> bool:
        """Whether the tasks of a job would live as long as it does, so that handing them something to do costs little."""
        ...

    def described(self, options: Options, nodes: Sequence[PhysicalNode]) -> str:
        """How the tasks of a job would run, for EXPLAIN; `nodes`: of its plan."""
        ...

    def open(self, options: Options, nodes: Sequence[PhysicalNode], job: str) -> Tasks:
        """The tasks of a job; `nodes`: of its plan; `job`: its name.

        Raises:
            SqlEngineError: there is no place for them.
        """
        ...
