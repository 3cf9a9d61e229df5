"""The embedded executor: takes one epoch at a time through all operators of a plan, in topological order.

Equal subtrees of the plan run once. Each vertex keeps the watermark behind it; an operator with several inputs sees the
least of those that are not idle.

An output that comes in pieces is handed on piece by piece, as far as operators take parts of an epoch: a sink writes
the first of them before the last is made. The last piece waits for its readers' turn, so that what comes in one piece is
taken together with the other inputs' changes, and with the time of the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.checkpoint.fitting import taking
from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.options import Options, int_option
from runtime.expr.function import FunctionRegistry
from runtime.expr.job_functions import FunctionJob, JobFunctions
from runtime.local.ended import ended
from runtime.local.lifetimes import Lifetimes
from runtime.local.partitioned import PartitionedOperator
from runtime.local.rejected import Refused
from runtime.local.shrinking import Shrinking
from runtime.local.sliced import SlicedOperator, may_be_sliced
from runtime.local.spilling import spilling
from runtime.local.split_progress import Reached
from runtime.local.vertex import Vertex, in_parts, timed_pieces
from runtime.operators.build import build_operator
from runtime.operators.guards import guarded
from runtime.operators.operator import EpochTime, Operator, OperatorContext, Rejections, SplitRows
from runtime.operators.sink import SinkOperator
from runtime.operators.watermark import WatermarkOperator
from runtime.plan.base import BY_ROW
from runtime.plan.distribution import distribution, leaves_memory
from runtime.plan.identity import uids
from runtime.plan.nodes import CalcExec, PhysicalNode, SinkExec, SourceExec, WatermarkExec
from runtime.state.backend import StateBackend
from runtime.state.snapshot import SavedOperator, SavedState

if TYPE_CHECKING:
    from runtime.checkpoint.away import AwayState
    from runtime.local.dead_letters import DeadLetters
    from runtime.local.elsewhere import Elsewhere
    from runtime.state.arrangement import Span

__all__ = ["PARALLELISM", "Dataflow", "SourceInput", "Vertex"]

PARALLELISM = int_option("parallelism.default", 1, "into how many tasks keyed operators are divided, by key group")


@dataclass(frozen=True, slots=True)
class SourceInput:
    """What a source gives in one epoch. `finished`: nothing will come any more; `idle`: it holds back nobody's
    watermark now; `watermark`: the source's own, where it has one; `splits`: which of them gave the rows, where there
    are several; `reached`: where reading stands after it; `seconds`: how long reading took; `refused`: records that
    could not be decoded; `span`: from which version of the table to which one it goes."""

    batch: ChangelogBatch | None
    finished: bool = False
    idle: bool = False
    watermark: int = MIN_WATERMARK
    splits: SplitRows | None = None
    reached: Reached | None = None
    seconds: float = 0.0
    refused: Refused | None = None
    span: Span = (-1, -1)


class Dataflow:
    """Operators of one or more plans that share what they have in common.

    Args:
        roots: plans; a `SinkExec` writes, any other root's changes are returned by `step`.
        checked: wrap every operator in the guards of `runtime/operators/guards.py`.
        job: names the job for its sinks; the same when it goes on from a checkpoint.
        elsewhere: runs some of the operators; None: all run in this process.
    """

    def __init__(
        self,
        roots: Sequence[PhysicalNode],
        options: Options,
        functions: FunctionRegistry,
        time_zone: str,
        rejections: Rejections,
        *,
        checked: bool = False,
        job: str = "",
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self.elsewhere = elsewhere
        self.letters: DeadLetters | None = None  # Where rejected rows go, too.
        self.vertices: list[Vertex] = []
        self._index: dict[PhysicalNode, int] = {}
        self._names = uids(roots)
        self._epoch, self._splits = 0, dict[PhysicalNode, SplitRows]()
        self._spans: dict[PhysicalNode, Span] = {}
        self._shrinking = Shrinking()
        functions = self.functions = JobFunctions.of(functions, FunctionJob(job, options))
        backend = StateBackend(options)
        self._spills = backend.spills
        self._make = lambda node, name: spilling(
            build_operator(node, OperatorContext(name, options, functions, time_zone, rejections, job)), node, backend
        )
        self._checked = checked
        self._parallelism = max(1, options.get(PARALLELISM)) if elsewhere is None else 1
        self._workers = (
            ThreadPoolExecutor(self._parallelism - 1, thread_name_prefix="tasks") if self._parallelism > 1 else None
        )
        try:
            self.roots = tuple(self._add(root) for root in roots)
            """The numbers of the roots among the vertices."""
            self._readers: list[list[tuple[Vertex, int]]] = [[] for _ in self.vertices]
            for vertex in self.vertices:
                for position, number in enumerate(vertex.inputs):
                    self._readers[number].append((vertex, position))
            self._shown = {root: list[ChangelogBatch]() for root in self.roots}
            self._lifetimes = Lifetimes(vertex.node for vertex in self.vertices)
            self._watched: list[int] = []
            self.watched: list[ChangelogBatch | None] = []
            """What the nodes given to `watch` gave in the last epoch."""
            if elsewhere is not None:
                elsewhere.begin(self)
        except BaseException:
            self.abort()
            raise

    def _add(self, node: PhysicalNode) -> int:
        known = self._index.get(node)
        if known is not None:
            return known
        inputs = tuple(self._add(child) for child in node.inputs)
        name = self._names[node]
        away = None if self.elsewhere is None else self.elsewhere.operator(node, name)
        operator = away
        if operator is None and not isinstance(node, SourceExec):
            operator = self._operator(node, name)
        self.vertices.append(Vertex(node, name, operator, inputs, away is not None))
        self._index[node] = len(self.vertices) - 1
        return len(self.vertices) - 1

    @property
    def sources(self) -> list[SourceExec]:
        return [v.node for v in self.vertices if isinstance(v.node, SourceExec)]

    @property
    def epoch(self) -> int:
        """How many epochs are complete."""
        return self._epoch

    @property
    def watermark(self) -> int:
        """The least watermark of the roots."""
        return min(self.vertices[r].watermark for r in self.roots)

    @property
    def idle(self) -> bool:
        """Nobody should wait for the watermark to move: all inputs that go on are idle."""
        return all(self.vertices[r].idle for r in self.roots)

    @property
    def complete(self) -> bool:
        """Nothing will come out any more, although input may come: every root hangs on a LIMIT that is reached."""
        return all(self._is_complete(self.vertices[root]) for root in self.roots)

    def _is_complete(self, vertex: Vertex) -> bool:
        if vertex.operator is not None and vertex.operator.complete:
            return True
        passes_on = vertex.node.division() == BY_ROW or vertex.node.table_use == "sink"
        return passes_on and all(self._is_complete(self.vertices[i]) for i in vertex.inputs)

    def next_timer(self) -> int | None:
        """The processing time at which an epoch without input has something to do; None: at none. What rows with a time
        to live take is given back at the latest when that is over for the last ones."""
        timers = [vertex.next_timer() for vertex in self.vertices]
        timers += [] if self.letters is None else [self.letters.sink.next_timer()]
        timers.append(0 if self._shrinking.pending(self.vertices) else self._lifetimes.over)
        return min((timer for timer in timers if timer is not None), default=None)

    def step(self, given: Mapping[SourceExec, SourceInput], processing_time: int) -> list[ChangelogBatch | None]:
        """Take one epoch through the dataflow; gives the changes of each root (None where nothing changed)."""
        # Overflow and NaN have their meaning in SQL; numpy's warnings of them are not for the user.
        with np.errstate(all="ignore"):
            if self.elsewhere is None:
                for number in range(len(self.vertices)):
                    self.run_here(number, given, processing_time)
            else:
                self.elsewhere.epoch(given, processing_time)
        self._lifetimes.after_epoch(processing_time, any(g.batch is not None for g in given.values()))
        outputs, self.watched = (
            [_together([*self._shown[n], self.vertices[n].output], coded=False) for n in numbers]
            for numbers in (self.roots, self._watched)
        )
        if self.letters is not None:
            self.letters.step(self._epoch, self.watermark, processing_time)
        for vertex in self.vertices:
            vertex.output = None
        for early in self._shown.values():
            early.clear()
        self._splits.clear()
        self._epoch += 1
        if self._shrinking.looks(self._epoch):
            self._shrink()
        return outputs

    def _shrink(self) -> None:
        """Makes operators anew whose state has become small. The next save of such a one is complete."""
        for vertex in self.vertices:
            operator = vertex.operator
            if operator is None or vertex.away or isinstance(vertex.node, SinkExec):
                continue
            if self._spills and leaves_memory(vertex.node):
                continue
            if not self._shrinking.is_due(vertex.name, operator):
                continue
            made = self._operator(vertex.node, vertex.name)
            made.load(SavedState.of([vertex.image()]))
            operator.close()
            vertex.operator = made

    def watch(self, node: PhysicalNode) -> int:
        """From now on `watched` has what a node of the plan gives in each epoch; tells its place there."""
        number = self._index[node]
        self._shown.setdefault(number, [])
        self._watched.append(number)
        return len(self._watched) - 1

    def save(self, complete: bool = False, *, hold: bool = False, away: AwayState | None = None) -> list[SavedOperator]:
        """What the operators' state has become since it was last saved; all of it the first time, or when asked for.

        Between epochs only. Later epochs do not change what it returns. `hold`: see `StateTable.changes`; `away` has
        the state of operators that are left out.
        """
        return [vertex.saved(complete, hold=hold, away=away) for vertex in self.vertices]

    def away(self, complete: bool, *, image: bool = False) -> AwayState | None:
        """See `Elsewhere.away`. `image`: as if nobody had asked."""
        return None if self.elsewhere is None else self.elsewhere.away(complete, image=image)

    def image(self, away: AwayState | None = None) -> list[SavedOperator]:
        """All state as it is, for a savepoint: what `save` tells of changes is as if nobody had asked."""
        return [vertex.image(away) for vertex in self.vertices]

    def restore(self, epoch: int, saved: Mapping[str, SavedState]) -> None:
        """Go on after an epoch from saved state, by operator name; operators that nothing was saved of begin empty.
        Before the first epoch only."""
        self._epoch = epoch
        for vertex in self.vertices:
            state = saved.get(vertex.name)
            if state is None:
                continue
            vertex.watermark, vertex.input_watermark = state.watermark, state.input_watermark
            if vertex.operator is not None:
                with taking(f"the state of {vertex.name}"):
                    vertex.operator.load(state)

    def row_counts(self) -> dict[str, list[int]]:
        """Rows that came in and went out by operator, to be saved: a JSON value."""
        return {vertex.name: [vertex.rows_in, vertex.rows_out] for vertex in self.vertices}

    def restore_row_counts(self, counts: Mapping[str, Sequence[int]]) -> None:
        """Go on counting from what was saved."""
        for vertex in self.vertices:
            vertex.rows_in, vertex.rows_out = counts.get(vertex.name, (0, 0))

    def renew(self, saved: Mapping[str, SavedState]) -> None:
        """Makes all operators but sinks anew, and restores them: what a restart does, without one. Between epochs."""
        for vertex in self.vertices:
            if vertex.operator is not None and not isinstance(vertex.node, SinkExec):
                vertex.operator.close()
                away = self.elsewhere.operator(vertex.node, vertex.name) if self.elsewhere is not None else None
                vertex.operator = away or self._operator(vertex.node, vertex.name)
        self.restore(self._epoch, saved)

    def _operator(self, node: PhysicalNode, name: str) -> Operator:
        if self._workers is None:
            operator: Operator = self._make(node, name)
        elif (keys := distribution(node)) is not None:
            tasks = [self._make(node, name) for _ in range(self._parallelism)]
            operator = PartitionedOperator(tasks, keys, self._workers)
        else:
            operator = self._make(node, name)
            if isinstance(node, CalcExec) and may_be_sliced(node, self.functions):
                operator = SlicedOperator(operator, self._parallelism, self._workers)
        return guarded(operator, node) if self._checked else operator

    def progress(self, source: SourceExec) -> tuple[int, dict[str, int]]:
        """How far the rows of a source have come in event time: the source, and its splits that were begun and go on
        (as far as they have given rows that can be told by split). With several watermarks over it the least."""
        found = [
            getattr(v.operator, "inner", v.operator)
            for v in self.vertices
            if isinstance(v.node, WatermarkExec) and _source_below(v.node)[0] == source
        ]
        operators = [o for o in found if isinstance(o, WatermarkOperator)]
        splits: dict[str, int] = {}
        for operator in operators:
            for split, mark in operator.split_watermarks.items():
                splits[split] = min(mark, splits.get(split, mark))
        return min((o.watermark for o in operators), default=MIN_WATERMARK), splits

    def run_here(self, number: int, given: Mapping[SourceExec, SourceInput], processing_time: int) -> None:
        """One operator, or what a source has given, in this thread."""
        vertex = self.vertices[number]
        if vertex.operator is None:
            self._read(vertex, given.get(vertex.node))  # type: ignore[call-overload]
        else:
            self._run(number, vertex, vertex.operator, processing_time)

    def _read(self, vertex: Vertex, given: SourceInput | None) -> None:
        if given is None:
            return
        if given.splits is not None:
            self._splits[vertex.node] = given.splits
        vertex.output, self._spans[vertex.node] = given.batch, given.span
        vertex.busy_seconds += given.seconds
        vertex.idle = given.idle and not given.finished
        vertex.watermark = max(vertex.watermark, given.watermark)
        if given.finished:
            vertex.watermark = MAX_WATERMARK
        if given.batch is not None:
            vertex.rows_in += len(given.batch)
            vertex.rows_out += len(given.batch)

    def _run(self, number: int, vertex: Vertex, operator: Operator, processing_time: int) -> None:
        parts = ((*vertex.early.pop(i, ()), self.vertices[n].output) for i, n in enumerate(vertex.inputs))
        batches = [_together(found, coded=operator.takes_codes) for found in parts]
        time = self.time_of(vertex, processing_time)
        output: ChangelogBatch | None = None
        for piece in timed_pieces(vertex, in_parts(operator, batches, time)):
            if output is not None:
                self._hand_on(number, output, processing_time)
            output = piece
        vertex.watermark = max(vertex.watermark, operator.output_watermark(time))
        vertex.rows_in += sum(len(b) for b in batches if b is not None)
        vertex.output = output

    def time_of(self, vertex: Vertex, processing_time: int) -> EpochTime:
        """The time of the epoch at an operator, once that behind its inputs is known."""
        sources = [self.vertices[i] for i in vertex.inputs]
        open_ended = [s for s in sources if s.watermark != MAX_WATERMARK]
        active = [s.watermark for s in open_ended if not s.idle]
        vertex.idle = bool(open_ended) and not active
        # A constant source (no inputs) is at its end from the start. While all inputs that go on are idle time stands
        # still: the end of the others is not the end of time, or all rows would be late when an idle one comes back.
        combined = min(active) if active else (vertex.input_watermark if open_ended else MAX_WATERMARK)
        combined = max(combined, vertex.input_watermark)
        splits, marks = self._splits_of(vertex.node), tuple(s.watermark for s in sources)
        spans = tuple(self._spans.get(source, (-1, -1)) for source in vertex.node.versioned_sources())
        time = EpochTime(self._epoch, combined, vertex.input_watermark, processing_time, splits, marks, spans=spans)
        vertex.input_watermark = combined
        return time

    def _hand_on(self, number: int, piece: ChangelogBatch, processing_time: int) -> None:
        """Gives a vertex's readers a part of its output before their turn."""
        if number in self._shown:
            self._shown[number].append(piece)
        for vertex, position in self._readers[number]:
            operator = vertex.operator
            if operator is None or not operator.takes_parts(position):
                vertex.early.setdefault(position, []).append(piece)
                continue
            inputs: list[ChangelogBatch | None] = [None] * len(vertex.inputs)
            inputs[position] = piece if operator.takes_codes else piece.decoded()
            time = EpochTime(self._epoch, vertex.input_watermark, vertex.input_watermark, processing_time)
            vertex.rows_in += len(piece)
            for output in timed_pieces(vertex, operator.part_pieces(inputs, time)):
                self._hand_on(self._index[vertex.node], output, processing_time)

    def _splits_of(self, node: PhysicalNode) -> SplitRows | None:
        """Which splits gave the rows that an operator of watermarks gets in this epoch."""
        if not self._splits or not isinstance(node, WatermarkExec):
            return None
        source, as_read = _source_below(node)
        splits = None if source is None else self._splits.get(source)
        return splits if splits is None or as_read else replace(splits, pieces=None)

    @property
    def state_rows(self) -> int:
        return sum(v.operator.state_size.rows for v in self.vertices if v.operator is not None)

    @property
    def state_bytes(self) -> int:
        return sum(v.operator.state_size.bytes for v in self.vertices if v.operator is not None)

    def sinks(self) -> list[SinkOperator]:
        found = [v.operator for v in self.vertices if isinstance(v.node, SinkExec)]
        return [getattr(s, "inner", s) for s in found]  # type: ignore[misc]

    def named_sinks(self) -> dict[str, SinkOperator]:
        """The sinks by the name of their table; a second one of a table has a number."""
        found: dict[str, SinkOperator] = {}
        for vertex in self.vertices:
            if isinstance(vertex.node, SinkExec):
                number = sum(1 for name in found if name.partition("#")[0] == vertex.node.name) + 1
                name = vertex.node.name if number == 1 else f"{vertex.node.name}#{number}"
                found[name] = getattr(vertex.operator, "inner", vertex.operator)  # type: ignore[assignment]
        return found

    def writers(self) -> dict[str, SinkOperator]:
        """The same with what writes rejected rows."""
        return self.named_sinks() | ({} if self.letters is None else {self.letters.name: self.letters.sink})

    def prepare(self) -> dict[str, list[Any]]:
        """Everything that was written so far is made durable but stays hidden: what has to be published, by sink."""
        prepared = {name: sink.prepare() for name, sink in self.writers().items()}
        return {name: [committable] for name, committable in prepared.items() if committable is not None}

    def publish(self, committables: Mapping[str, Sequence[Any]]) -> None:
        """Publish what was prepared; what has been published already stays as it is."""
        sinks = self.writers()
        for name, prepared in committables.items():
            for committable in prepared:
                sinks[name].publish(committable)

    def recover(self, committables: Mapping[str, Sequence[Any]]) -> None:
        """Before the first epoch: publish what the checkpoint had prepared, and remove what no checkpoint knows."""
        for name, sink in self.writers().items():
            sink.recover(committables.get(name, ()))

    def histories(self) -> dict[str, Any]:
        """What each sink has written so far, by its name, of those that can take it back; after `prepare`."""
        found = {name: sink.history() for name, sink in self.writers().items()}
        return {name: history for name, history in found.items() if history is not None}

    def take_back(self, histories: Mapping[str, Any], checkpoint: int) -> str | None:
        """After `recover`, from a checkpoint: hide what was published after it. Gives what a person should know of it."""
        sinks = self.writers()
        count = sum(sinks[name].take_back(history) for name, history in histories.items() if name in sinks)
        files = "1 file" if count == 1 else f"{count} files"
        again = "taken back (named .undone-... now): the rows come again"
        return f"{files} published after checkpoint {checkpoint} {again}" if count else None

    def all_written(self) -> None:
        """The input has ended, and nobody has stopped the job: rows that wait for that may be shown."""
        for sink in self.writers().values():
            sink.all_written()

    @property
    def has_half_epoch(self) -> bool:
        """Whether a sink has taken a part of an epoch that is not complete."""
        return any(sink.has_half_epoch for sink in self.writers().values())

    def finish(self) -> None:
        """Publish what the sinks have staged and close all operators. When a sink cannot, it and those after it are
        aborted."""
        waiting = list(self.writers().values())
        with ExitStack() as closing:
            closing.callback(self._close)
            try:
                while waiting:
                    waiting[0].finish()
                    del waiting[0]
            finally:
                for sink in waiting:
                    closing.callback(sink.abort)

    def abort(self) -> None:
        """Give up: sinks leave nothing half-written behind."""
        with ExitStack() as closing:
            closing.callback(self._close)
            for sink in self.writers().values():
                closing.callback(sink.abort)

    def _close(self) -> None:
        with ExitStack() as closing:
            closing.callback(self.functions.close)
            if self._workers is not None:
                closing.callback(self._workers.shutdown)
            if self.elsewhere is not None:
                closing.callback(self.elsewhere.close)
            for vertex in self.vertices:
                if vertex.operator is not None:
                    closing.callback(vertex.operator.close)
                    vertex.operator = ended(vertex.operator)


def _together(parts: Sequence[ChangelogBatch | None], *, coded: bool) -> ChangelogBatch | None:
    found = [part for part in parts if part is not None]
    whole = ChangelogBatch.concat(found) if found else None
    return whole if coded or whole is None else whole.decoded()


def _source_below(node: WatermarkExec) -> tuple[SourceExec | None, bool]:
    """The source whose rows an operator of watermarks gets, and whether it gets all of them one by one."""
    below, as_read = node.input, True
    while not isinstance(below, SourceExec):
        if len(below.inputs) != 1:
            return None, False
        as_read &= isinstance(below, CalcExec) and below.condition is None
        (below,) = below.inputs
    return below, as_read
