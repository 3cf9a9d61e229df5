"""Where each operator of a divided plan runs, and which changes must move for it.

An epoch goes through phases: what the driver runs itself (sources, watermarks, lookups of its own tables, sinks) and
what tasks run take turns. All that tasks run in one phase is one job of the executor, a chain of *stages* with an exchange between
one and the next. A stage is run by as many tasks as there are partitions; task i has the key groups
`key_group_range(i, partitions)` of every operator of the stage. An operator without keys runs in task 0 alone.
Stateless operators run where their input is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from runtime.plan.base import BY_ROW, PhysicalNode
from runtime.plan.distribution import distribution
from runtime.plan.nodes import LookupJoinExec

__all__ = ["HERE", "ONE", "PREFIX", "Edge", "Layout", "Placed", "Where", "is_asked_anywhere", "lay_out", "place_of"]

Where = Literal["driver", "here", "keyed", "one"]

HERE: Literal["here"] = "here"
"""Changes stay in the partition where they are."""
ONE: Literal["one"] = "one"
"""Changes go to the first partition."""
PREFIX = -1
"""The stage of stateless operators over what the driver gives."""

Division = Literal["here", "one"] | tuple[int, ...]
"""How changes are divided among the tasks of the next stage: a tuple holds the columns of the key."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Changes of an operator (`source`, its number) that go to tasks of a stage of a phase, divided in one way."""

    source: int
    division: Division
    phase: int
    stage: int


@dataclass(frozen=True, slots=True)
class Placed:
    """Where an operator runs.

    `phase`: even on the driver, odd in tasks; `stage`: which of the phase's stages, `PREFIX` or from 0 on. `inputs`: for
    each the number of the edge by which it comes, None when the same task (or the driver) has it at hand.
    """

    where: Where
    phase: int
    stage: int
    inputs: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything runs. `to_driver`: operators in tasks whose changes the driver needs."""

    placed: tuple[Placed, ...]
    edges: tuple[Edge, ...]
    to_driver: frozenset[int]

    @property
    def phases(self) -> range:
        return range(max(placed.phase for placed in self.placed) + 1)

    def vertices(self, phase: int, stage: int | None = None) -> list[int]:
        """The operators of a phase, or of one of its stages, in an order in which they can run."""
        return [
            number
            for number, placed in enumerate(self.placed)
            if placed.phase == phase and (stage is None or placed.stage == stage)
        ]

    def stages(self, phase: int) -> range:
        """The stages of a phase behind the prefix."""
        return range(max((self.placed[v].stage for v in self.vertices(phase)), default=PREFIX) + 1)

    def edges_into(self, phase: int, stage: int | None = None) -> list[int]:
        return [
            number
            for number, edge in enumerate(self.edges)
            if edge.phase == phase and (stage is None or edge.stage == stage)
        ]

    def edges_from(self, source: int, phase: int) -> list[int]:
        """The edges by which the changes of an operator reach tasks of a phase."""
        return [n for n, edge in enumerate(self.edges) if edge.source == source and edge.phase == phase]


def lay_out(
    nodes: Sequence[PhysicalNode],
    inputs: Sequence[tuple[int, ...]],
    roots: Sequence[int],
    read: frozenset[int] = frozenset(),
    asked: Collection[PhysicalNode] = frozenset(),
) -> Layout:
    """Places operators.

    Args:
        nodes: in an order in which they can run.
        inputs: for each the numbers of those it reads.
        roots: whose changes the driver wants.
        read: operators that run where sources are read (`runtime/tasks/reading.py`), which is before all else, so that
            they count as the driver's.
        asked: the lookups of tables outside that tasks do.
    """
    placed: list[Placed] = []
    edges: dict[Edge, int] = {}
    to_driver: set[int] = set(roots)
    for number, node in enumerate(nodes):
        where, keys = ("driver", ()) if number in read else place_of(node, asked)
        before = [placed[i] for i in inputs[number]]
        if where == "driver":
            phase = max((b.phase + b.phase % 2 for b in before), default=0)
            placed.append(Placed(where, phase, 0, (None,) * len(before)))
        else:
            phase = max((b.phase + 1 - b.phase % 2 for b in before), default=1)
            stage = _stage(where, [b if b.phase == phase else None for b in before])
            by: list[int | None] = []
            for position, (source, there) in enumerate(zip(inputs[number], before, strict=True)):
                if there.phase == phase and there.stage == stage:
                    by.append(None)
                    continue
                division: Division = keys[position] if where == "keyed" else HERE if where == "here" else ONE
                by.append(edges.setdefault(Edge(source, division, phase, stage), len(edges)))
            placed.append(Placed(where, phase, stage, tuple(by)))
        to_driver.update(i for i in inputs[number] if placed[i].phase < placed[number].phase)
    remote = frozenset(v for v in to_driver if placed[v].phase % 2)
    return Layout(tuple(placed), tuple(edges), remote)


def place_of(
    node: PhysicalNode, asked: Collection[PhysicalNode] = frozenset()
) -> tuple[Where, tuple[tuple[int, ...], ...]]:
    """Where an operator can run, and by which columns each of its inputs is divided if it is by key. `asked`: the lookups
    of tables outside that tasks do; those that keep rows are divided by these."""
    if isinstance(node, LookupJoinExec) and node in asked:
        return ("keyed", (node.kept_by,)) if node.state() else ("here", ())
    if not node.inputs or node.table_use or node.sets_time or node.in_driver:
        return "driver", ()
    if node.division() == BY_ROW:
        return "here", ()
    keys = distribution(node)
    return ("one", ()) if keys is None else ("keyed", keys)


def is_asked_anywhere(node: PhysicalNode) -> bool:
    """Whether it is a lookup that any process may do."""
    return isinstance(node, LookupJoinExec) and node.asked_anywhere


def _stage(where: Where, before: Sequence[Placed | None]) -> int:
    """The stage of an operator; inputs of its own phase are given, for others None."""
    if where == "here":
        return max((PREFIX if b is None else b.stage for b in before), default=PREFIX)
    # Operators of task 0 hand changes on without an exchange.
    return max(
        (0 if b is None else b.stage if where == b.where == "one" else b.stage + 1 for b in before),
        default=0,
    )
