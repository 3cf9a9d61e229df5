"""The functions of a job: those of programs are made for it, with what they may ask of it, and closed when it ends.

    functions = JobFunctions(session_functions, FunctionJob("job-1", options))
    functions.scalar("$SCORED")      # an instance of this job
    functions.close()

Functions of the engine are the same everywhere. One that a program has made may keep something between calls (a
connection, a model, counters), so each job has an instance of its own in each process, or in each of its tasks there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from runtime.core.options import Options
from runtime.expr.function import AggregateFunction, AnyFunction, FunctionRegistry, ScalarFunction

__all__ = ["FunctionFigure", "FunctionJob", "JobFunctions"]


class FunctionFigure(NamedTuple):
    """A figure that a function keeps of itself.

    `kind`: `counter`, `gauge`, `meter` or `distribution`; `part`: which number of a meter or a distribution it is, else
    empty. `task`: of which task, where a job is divided.
    """

    function: str
    kind: str
    name: str
    part: str
    task: int
    value: float


@dataclass(slots=True)
class FunctionJob:
    """What the instances of functions may know of the job that they belong to.

    Args:
        name: the job's.
        options: of its session.
        task, tasks: which of its tasks this is, from 0, and how many there are.
        attempt: how often the job has been restarted.
    """

    name: str
    options: Options
    task: int = 0
    tasks: int = 1
    attempt: int = 0
    closing: list[Callable[[], object]] = field(default_factory=list)
    """What is called when the job ends."""
    figures: list[Callable[[], Iterable[FunctionFigure]]] = field(default_factory=list)
    """What gives the figures of an instance, from any thread."""


class JobFunctions(FunctionRegistry):
    """A registry that gives instances of a job's own."""

    __slots__ = ("_made", "job")

    def __init__(self, functions: FunctionRegistry, job: FunctionJob) -> None:
        super().__init__(functions.functions)
        self.job = job
        self._made: MutableMapping[int, tuple[AnyFunction, AnyFunction]] = {}

    @staticmethod
    def of(functions: FunctionRegistry, job: FunctionJob) -> JobFunctions:
        """The functions of a job; those of a job already as they are."""
        return functions if isinstance(functions, JobFunctions) else JobFunctions(functions, job)

    def find(self, name: str) -> AnyFunction | None:
        found = FunctionRegistry.find(self, name)
        if not isinstance(found, ScalarFunction | AggregateFunction) or found.for_job is None:
            return found
        known = self._made.get(id(found))
        if known is None:
            # The declaration is kept, so that no other one can have its identity. Of two threads one's stays.
            known = self._made.setdefault(id(found), (found, _instance(found, self.job)))
        return known[1]

    def figures(self) -> list[FunctionFigure]:
        """The figures of all instances, as they are now."""
        return [figure for given in tuple(self.job.figures) for figure in given()]

    def close(self) -> None:
        """Close the instances, the last one first; each of them, also when one fails."""
        with ExitStack() as closing:
            for close in self.job.closing:
                closing.callback(close)
            self.job.closing.clear()


def _instance(found: ScalarFunction | AggregateFunction, job: FunctionJob) -> AnyFunction:
    assert found.for_job is not None
    made = found.for_job(job)
    if isinstance(found, ScalarFunction):
        return replace(found, evaluate=made, for_job=None)
    return replace(found, accumulator=made, for_job=None)
