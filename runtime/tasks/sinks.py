"""Sinks whose rows tasks write: hidden files and the like, which the driver adopts when the epoch is done, and publishes
with its checkpoints as it does with its own.

Changes, too, where all changes of a row come from one task: behind an exchange by key. Then the files of each task in the
order of epochs are all the order that a reader needs. What is sliced as it comes (changes of a source, filtered) has its
order among tasks, so that the driver writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from runtime.core.changelog import ChangelogBatch
from runtime.core.options import Options
from runtime.local.dataflow import Vertex
from runtime.operators.operator import Operator
from runtime.operators.sink import SinkOperator
from runtime.plan.nodes import SinkExec
from runtime.spi.writer import TaskWriter
from runtime.tasks.layout import Layout
from runtime.tasks.options import WRITE_IN_TASKS, WRITTEN_ROWS

__all__ = ["RowWriter", "adopt", "commit_in_tasks", "row_writers", "sink_of"]


@dataclass(frozen=True, slots=True)
class RowWriter:
    """What writes an operator's rows for one sink. `not_null`: columns in which there may be no NULL; a batch that has
    one goes to the driver, as do those of fewer rows than `least`."""

    sink: int
    writer: TaskWriter
    not_null: tuple[int, ...]
    least: int

    def takes(self, batch: ChangelogBatch) -> bool:
        return len(batch) >= self.least and not any(batch.column(i).null_count for i in self.not_null)


def row_writers(
    vertices: Sequence[Vertex], layout: Layout, roots: Sequence[int], options: Options
) -> Mapping[int, tuple[RowWriter, ...]]:
    """By operator what writes its rows in tasks: for operators that nobody on the driver reads but such sinks."""
    found: dict[int, tuple[RowWriter, ...]] = {}
    if not options.get(WRITE_IN_TASKS):
        return found
    for number in layout.to_driver:
        readers = [(n, v) for n, v in enumerate(vertices) if number in v.inputs and layout.placed[n].phase % 2 == 0]
        writers = [_writer(n, v, options.get(WRITTEN_ROWS)) for n, v in readers]
        known = tuple(w for w in writers if w is not None)
        if number not in roots and known and len(known) == len(writers) and _in_order(number, vertices, layout):
            found[number] = known
    return found


def _in_order(number: int, vertices: Sequence[Vertex], layout: Layout) -> bool:
    """Whether what an operator gives in one task needs no order with what it gives in others."""
    vertex, where = vertices[number], layout.placed[number].where
    if vertex.node.mode.is_append_only or where in ("keyed", "one"):
        return True
    return where == "here" and all(_in_order(n, vertices, layout) for n in vertex.inputs)


def adopt(vertex: Vertex, written: object, rows: int) -> None:
    """A task has written rows for a sink."""
    sink_of(vertex).adopt(written, rows)
    vertex.rows_in += rows


def commit_in_tasks(
    vertices: Sequence[Vertex],
    options: Options,
    count: int,
    carry_out: Callable[[Sequence[Callable[[], object]]], object],
) -> None:
    """Sinks may have tasks carry out their commits."""
    for vertex in vertices:
        operator = _sink_operator(vertex.operator)
        if operator is not None and options.get(WRITE_IN_TASKS):
            operator.commit_in_tasks(count, carry_out)


def sink_of(vertex: Vertex) -> SinkOperator:
    """The operator of a sink."""
    operator = _sink_operator(vertex.operator)
    assert operator is not None
    return operator


def _writer(number: int, vertex: Vertex, least: int) -> RowWriter | None:
    node, operator = vertex.node, _sink_operator(vertex.operator)
    if operator is None or not isinstance(node, SinkExec):
        return None
    writer = operator.task_writer()
    return None if writer is None else RowWriter(number, writer, tuple(node.not_null), least)


def _sink_operator(operator: Operator | None) -> SinkOperator | None:
    """The operator of a sink, guards or not."""
    inner = getattr(operator, "inner", operator)
    return inner if isinstance(inner, SinkOperator) else None
