"""An operator in its place in a dataflow, and how its output comes piece by piece.

Between two pieces whoever works looks whether it is to stop (`runtime.core.cancellation.look`), so no piece takes long.
"""

from __future__ import annotations

import time as wall_clock
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runtime.core.cancellation import look
from runtime.core.changelog import UPDATE_BEFORE, ChangelogBatch
from runtime.core.clock import MIN_WATERMARK
from runtime.operators.operator import EpochTime, Operator
from runtime.plan.nodes import PhysicalNode
from runtime.state.snapshot import SavedOperator

if TYPE_CHECKING:
    from runtime.checkpoint.away import AwayState

__all__ = ["PART_ROWS", "Vertex", "in_parts", "timed_pieces"]

PART_ROWS = 1 << 20
"""An operator that takes parts of an epoch is given no more rows than these at once."""


@dataclass(slots=True)
class Vertex:
    """An operator in the running dataflow, with the figures that are shown of it. `operator` is None for a source;
    `away`: it stands for one that runs elsewhere (`runtime/local/elsewhere.py`)."""

    node: PhysicalNode
    name: str
    operator: Operator | None
    inputs: tuple[int, ...]
    away: bool = False
    watermark: int = MIN_WATERMARK
    idle: bool = False
    input_watermark: int = MIN_WATERMARK
    rows_in: int = 0
    rows_out: int = 0
    busy_seconds: float = 0.0
    output: ChangelogBatch | None = field(default=None, repr=False)
    early: dict[int, list[ChangelogBatch]] = field(default_factory=dict, repr=False)
    """Parts of the inputs, by position, that came before the operator's turn and wait for it."""

    def next_timer(self) -> int | None:
        """See `Operator.next_timer`. 0: it follows the clock and holds rows, and nothing tells when it gives some."""
        if self.operator is None:
            return None
        return 0 if self.node.polled and self.operator.state_size.rows else self.operator.next_timer()

    def saved(self, complete: bool, *, hold: bool, away: AwayState | None) -> SavedOperator:
        """See `Dataflow.save`."""
        here = self.operator is not None and (away is None or self.name not in away.tasks)
        tasks = self.operator.save(complete, hold=hold) if self.operator is not None and here else ()
        return SavedOperator(self.name, self.watermark, self.input_watermark, tasks)

    def image(self, away: AwayState | None = None) -> SavedOperator:
        """All state, without a note that it was saved."""
        here = self.operator is not None and (away is None or self.name not in away.tasks)
        tasks = self.operator.image() if self.operator is not None and here else ()
        return SavedOperator(self.name, self.watermark, self.input_watermark, tasks)


def timed_pieces(vertex: Vertex, pieces: Iterator[ChangelogBatch]) -> Iterator[ChangelogBatch]:
    """The pieces of a vertex's output that have rows, counted, with the time that it takes to make them."""
    while True:
        look()
        started = wall_clock.perf_counter()
        piece = next(pieces, None)
        vertex.busy_seconds += wall_clock.perf_counter() - started
        if piece is None:
            return
        if len(piece):
            vertex.rows_out += len(piece)
            yield piece


def in_parts(operator: Operator, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
    """`Operator.pieces`, with inputs of very many rows given in parts where the operator takes such: a push, or the
    output of an aggregate, is whole, whatever its size."""
    last = list(inputs)
    before = replace(time, watermark=time.previous_watermark, splits=None)
    for position, batch in enumerate(inputs):
        if batch is None or len(batch) <= PART_ROWS or not operator.takes_parts(position):
            continue
        begin = 0
        while len(batch) - begin > PART_ROWS:
            end = begin + PART_ROWS
            # The two images of an update stay together.
            end += batch.kinds is not None and bool(batch.kinds[end - 1] == UPDATE_BEFORE)
            part: list[ChangelogBatch | None] = [None] * len(inputs)
            part[position] = batch.slice(begin, end - begin)
            begin = end
            yield from operator.part_pieces(part, before)
        last[position] = batch.slice(begin, len(batch) - begin)
    yield from operator.pieces(last, time)
