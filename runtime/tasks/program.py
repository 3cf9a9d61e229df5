"""What the tasks of a job must know, once: plan, layout, options, functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runtime.core.options import Options
from runtime.eval.context import Chance
from runtime.expr.function import AnyFunction, FunctionRegistry, adopt, made_by_program_in
from runtime.expr.job_functions import FunctionJob, JobFunctions
from runtime.expr.library import builtin_functions
from runtime.local.spilling import spilling
from runtime.operators.build import build_operator
from runtime.operators.guards import guarded
from runtime.operators.operator import Operator, OperatorContext, Rejections
from runtime.plan.json import plan_json
from runtime.plan.nodes import PhysicalNode
from runtime.plan.walk import map_inputs, walk_all
from runtime.state.backend import StateBackend
from runtime.tasks.layout import Layout, is_asked_anywhere
from runtime.tasks.sinks import RowWriter

__all__ = ["EpochOrder", "Program", "own_functions", "without_tables"]


@dataclass(frozen=True, slots=True)
class Program:
    """All that stays the same during a job.

    Args:
        nodes, names, inputs: of all operators; tables that only the driver uses are left out of the nodes.
        functions: those that are not built in.
        place: the folder of the state versions.
        checked: put the guards around operators.
        writers: by operator what writes its rows in tasks.
        chance: what random functions draw from, with what tells the work of a task apart.
    """

    nodes: tuple[PhysicalNode, ...]
    names: tuple[str, ...]
    inputs: tuple[tuple[int, ...], ...]
    layout: Layout
    partitions: int
    options: Mapping[str, str]
    functions: Mapping[str, AnyFunction]
    time_zone: str
    job: str
    place: str
    checked: bool
    writers: Mapping[int, tuple[RowWriter, ...]]
    chance: int = field(default_factory=lambda: Chance().seed())

    def registry(self, partition: int) -> JobFunctions:
        """The functions as a task calls them."""
        functions = builtin_functions()
        functions.functions.update(self.functions)
        adopt(self.functions.values())
        return JobFunctions(functions, FunctionJob(self.job, Options(dict(self.options)), partition, self.partitions))

    def operator(
        self, number: int, functions: FunctionRegistry, rejections: Rejections, backend: StateBackend
    ) -> Operator:
        """One operator, made for a task; `backend`: where the task's state is."""
        node = self.nodes[number]
        context = OperatorContext(
            self.names[number], Options(dict(self.options)), functions, self.time_zone, rejections, self.job
        )
        operator = spilling(build_operator(node, context), node, backend)
        # Slices of a stream do not fold on their own, so stateless operators are checked where they run whole.
        return guarded(operator, node) if self.checked and self.layout.placed[number].where != "here" else operator


@dataclass(frozen=True, slots=True)
class EpochOrder:
    """What all tasks are told of one epoch. From which version each goes on it hears with its records, so that what
    is sent grows with the tasks, and not with their square.

    Args:
        program: the name of the file that holds the `Program`, in `place`.
        times: by operator the watermark, and that of the epoch before.
    """

    place: str
    program: str
    phase: int
    epoch: int
    processing_time: int
    times: Mapping[int, tuple[int, int]]


def own_functions(functions: FunctionRegistry, nodes: Sequence[PhysicalNode]) -> dict[str, AnyFunction]:
    """The functions that a session has beside those built in, and those of a plan that a program has made."""
    known = builtin_functions().functions
    own = {name: function for name, function in functions.functions.items() if known.get(name) is not function}
    return own | made_by_program_in(str(plan_json(nodes)))


def without_tables(nodes: Sequence[PhysicalNode]) -> tuple[PhysicalNode, ...]:
    """The nodes as tasks get them: the tables of sources and sinks stay with the driver, and those that only it can ask."""
    new: dict[int, PhysicalNode] = {}
    for node in walk_all(nodes):
        made = map_inputs(node, lambda child: new[id(child)])
        if node.outside is not None and not is_asked_anywhere(node):
            made = made.with_(table=None)
        new[id(node)] = made
    return tuple(new[id(node)] for node in nodes)
