"""What a plan takes over from the one that it replaces: state, positions of sources, and answers for what is new.

An operator keeps its state when all upstream of it is the same (`runtime/checkpoint/matching.py`). What is new above it is
filled with its answer, which its state tells (`runtime/local/answers.py`), or which is at hand: the rows of a table that
is read, or of the view. Where nobody can tell an answer, what is below begins anew, too, down to sources that are read
from the start. So does all below what follows time or the order of arrival, because an answer has neither.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from runtime.checkpoint.compatibility import compare
from runtime.checkpoint.epoch_state import Restored
from runtime.checkpoint.matching import PlanMatching, saved_nodes, saved_plan
from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MIN_WATERMARK
from runtime.expr.function import FunctionRegistry
from runtime.local.answers import IN_TIME, answer, answers, passes_on, row_answer
from runtime.local.job import Job
from runtime.operators.operator import EpochTime, OperatorContext
from runtime.plan.identity import uids
from runtime.plan.json import plan_json
from runtime.plan.nodes import PhysicalNode, SinkExec, SourceExec
from runtime.plan.walk import walk_all
from runtime.state.snapshot import SavedState

__all__ = ["AtHand", "Succession", "SourceFacts", "state_of", "take_over"]

_NOTHING = SavedState(MIN_WATERMARK, MIN_WATERMARK, ({},))
"""Of an operator that goes on and keeps nothing."""


@dataclass(frozen=True)
class AtHand:
    """Rows that can be had at once: what they are, for people, how many they are, and the rows."""

    name: str
    count: int
    rows: Callable[[], ChangelogBatch | None]


@dataclass(frozen=True)
class SourceFacts:
    """What whoever made the plan knows of a source: whether it is the very one that the other plan reads, its rows where
    they are at hand, and then the position of who has them."""

    same: bool = True
    at_hand: AtHand | None = None
    position: Any = None


def state_of(job: Job) -> Restored:
    """All of a job between two epochs, in memory."""
    operators = {saved.name: SavedState.of([saved]) for saved in job.dataflow.image()}
    names = {vertex.node: vertex.name for vertex in job.dataflow.vertices}
    return Restored(
        0,
        job.dataflow.epoch,
        0,
        plan_json(job.roots, job.time_zone),
        operators,
        {names[source.node]: source.position() for source in job.inputs},
        {},
        False,
        job.name,
    )


@dataclass
class Succession:
    """What becomes of a plan with one sink, over the state of another one with one sink.

    Args:
        root: the new plan.
        saved: the state.
        contents: the rows of the view: what the other plan has written.
        facts: what is known of a source of the new plan.
        ended: nothing comes any more to the other plan, and its state may be gone.
    """

    root: SinkExec
    saved: Restored
    contents: AtHand
    facts: Callable[[SourceExec], SourceFacts]
    functions: FunctionRegistry
    time_zone: str
    ended: bool = False
    kept: frozenset[PhysicalNode] = field(init=False)
    """Nodes that go on."""
    handed: tuple[PhysicalNode, ...] = field(init=False)
    """Those of them whose answers new nodes get."""
    same_answer: bool = field(init=False)
    """Whether the view has the answer of the new plan already, with its columns in their order."""

    def __post_init__(self) -> None:
        compared = compare(self.saved, [self.root], self.time_zone)
        self._nodes = walk_all([self.root])
        self._names = uids([self.root])
        self._state = compared.state
        self._matching: PlanMatching = compared.matching
        before = saved_nodes(saved_plan(self.saved))
        (self._written,) = (n.inputs[0] for n in before if n.kind == "Sink")
        width = next(len(n.schema) for n in before if n.number == self._written)
        self._facts = {n: self.facts(n) for n in self._nodes if isinstance(n, SourceExec)}
        found = {n for n in self._nodes if n in self._matching.found and not isinstance(n, SinkExec)}
        found -= compared.changed | {n for n, facts in self._facts.items() if not facts.same}
        below = self.root.input
        self.kept = self._closed(found)
        whole = self._matching.columns_of(below, self._written) if below in self.kept else None
        self.same_answer = whole == tuple(range(len(below.schema))) and len(below.schema) == width
        if self.ended and not self.same_answer:
            self.kept = frozenset()
        self._settle()
        new = [n for n in self._nodes if n not in self.kept]
        self.handed = tuple(dict.fromkeys(i for n in new for i in n.inputs if i in self.kept))

    def _closed(self, nodes: Collection[PhysicalNode]) -> frozenset[PhysicalNode]:
        """Those of the nodes below which all are among them."""
        kept: set[PhysicalNode] = set()
        for node in self._nodes:
            if node in nodes and all(i in kept for i in node.inputs):
                kept.add(node)
        return frozenset(kept)

    def _settle(self) -> None:
        """Let go of what cannot hand out its answer to what is new above it."""
        while True:
            kept, anew = set(self.kept), set[PhysicalNode]()
            for node in reversed(self._nodes):
                if node in kept and node not in anew:
                    continue
                in_time = node in anew or (not isinstance(node, SinkExec) and self._in_time(node))
                for source in node.inputs:
                    if in_time:
                        anew.add(source)
                    elif source in kept and not self._hands_out(source):
                        kept.discard(source)
            closed = self._closed(kept - anew)
            if closed == self.kept:
                return
            self.kept = closed

    @staticmethod
    def _in_time(node: PhysicalNode) -> bool:
        return bool(node.follows() & IN_TIME) or node.expires or bool(node.versioned_sources())

    def _hands_out(self, node: PhysicalNode) -> bool:
        if self._in_contents(node) is not None:
            return True
        if isinstance(node, SourceExec):
            return self._facts[node].at_hand is not None
        if passes_on(node, self.functions) or node.sets_time:
            return all(self._hands_out(source) for source in node.inputs)
        return answers(node) and self._names[node] in self._state.operators

    def _in_contents(self, node: PhysicalNode) -> tuple[int, ...] | None:
        """The columns of the view that are those of a node whose answer it is."""
        return self._matching.columns_of(node, self._written)

    # --- what it is for people

    def is_new(self, node: PhysicalNode) -> bool:
        return node not in self.kept

    def origins(self, node: PhysicalNode) -> list[tuple[str, int | None]]:
        """From what a new node is filled, each with the number of rows where that is known."""
        found: dict[str, int | None] = {}
        for source in node.inputs:
            found.update(self._handing(source) if source in self.kept else self.origins(source))
        if isinstance(node, SourceExec):
            found[node.name] = _whole(node.table.statistics().rows)
        return list(found.items())

    def _handing(self, node: PhysicalNode) -> Iterator[tuple[str, int | None]]:
        """What hands out the answer of a node that goes on."""
        at_hand = self.contents if self._in_contents(node) is not None else None
        if at_hand is None and isinstance(node, SourceExec):
            at_hand = self._facts[node].at_hand
        if at_hand is not None:
            yield at_hand.name, at_hand.count
        elif answers(node):
            yield f"the state of {self._names[node]}", self.rows(node)
        else:
            for source in node.inputs:
                yield from self._handing(source)

    def rows(self, node: PhysicalNode) -> int | None:
        """How many rows the state of a node has, in all tables that are told to people."""
        state = self._state.operators.get(self._names[node])
        tables = [table.name for table in node.state() if table.holds]
        if state is None or not tables:
            return None
        return sum(task[name].num_rows for task in state.tasks for name in tables if name in task)

    def name(self, node: PhysicalNode) -> str:
        return self._names[node]

    @property
    def nodes(self) -> Sequence[PhysicalNode]:
        """Of the new plan, inputs first."""
        return self._nodes

    # --- what is done with it

    @property
    def reads_again(self) -> bool:
        """Whether a source whose rows are not at hand is read from the start."""
        return any(self.is_new(n) for n in self._facts)

    @property
    def restored(self) -> Restored:
        """From where a job of the new plan goes on, but for the state of its operators: that is loaded by `take_over`,
        because a job may be made with a lock held."""
        names = {self._names[node] for node in self.kept}
        positions = {self._names[n]: f.position for n, f in self._facts.items() if n in self.kept and f.at_hand}
        sources = {name: position for name, position in self._state.sources.items() if name in names}
        return replace(
            self._state, operators={}, sources={**sources, **positions}, counts={}, finished=False, fitted=True
        )

    @property
    def operators(self) -> dict[str, SavedState]:
        """The state of all that goes on, by name."""
        names = {self._names[node] for node in self.kept}
        return {name: self._state.operators.get(name, _NOTHING) for name in names}

    def answers(self, context: Callable[[str], OperatorContext], now: int) -> Mapping[PhysicalNode, Any]:
        """The answers of what hands them out."""
        time = EpochTime(self.saved.epoch, MIN_WATERMARK, MIN_WATERMARK, now)
        known: dict[PhysicalNode, ChangelogBatch | None] = {}

        def find(node: PhysicalNode) -> ChangelogBatch | None:
            if node not in known:
                known[node] = self._answer(node, find, context(self._names[node]), time)
            return known[node]

        return {node: find(node) for node in self.handed}

    def _answer(
        self,
        node: PhysicalNode,
        find: Callable[[PhysicalNode], ChangelogBatch | None],
        context: OperatorContext,
        time: EpochTime,
    ) -> ChangelogBatch | None:
        columns = self._in_contents(node)
        if columns is not None:
            rows = self.contents.rows()
            return None if rows is None else ChangelogBatch.of([rows.columns[i] for i in columns], node.schema)
        if isinstance(node, SourceExec):
            at_hand = self._facts[node].at_hand
            return None if at_hand is None else at_hand.rows()
        if node.sets_time:
            return find(node.inputs[0])
        if passes_on(node, self.functions):
            return row_answer(node, [find(source) for source in node.inputs], context, time)
        return answer(node, self._state.operators[self._names[node]], context, time)


def _whole(rows: float | None) -> int | None:
    return None if rows is None else round(rows)


def take_over(job: Job, succession: Succession, context: Callable[[str], OperatorContext], now: int) -> None:
    """Before the first epoch of a job that was made with `Succession.restored`: what goes on gets its state, what is new the
    answers of what it stands on, and gives its own."""
    dataflow = job.dataflow
    with job.cancellation.governing(), np.errstate(all="ignore"):
        job.load(succession.saved.epoch, succession.operators)
        given = succession.answers(context, now)
        for number, vertex in enumerate(dataflow.vertices):
            if vertex.node in given:
                vertex.output = given[vertex.node]
            elif vertex.operator is not None and succession.is_new(vertex.node):
                dataflow.run_here(number, {}, now)
        for vertex in dataflow.vertices:
            vertex.output = None
