"""EXPLAIN ANALYZE: runs a statement to its end, and shows what each operator did.

    rows in  rows out  out/in      time  share     state at most  operator
                1,000            3.1 ms    52%                    Source t (a, b)

An INSERT writes its rows, as everywhere else where EXPLAIN ANALYZE exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtime.core.errors import UnsupportedError
from runtime.core.schema import Schema
from runtime.core.types import STRING
from runtime.local.dataflow import Vertex
from runtime.local.job import Job
from runtime.operators.operator import StateSize
from runtime.plan.explain import explain_lines
from runtime.plan.nodes import PhysicalNode, SinkExec
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.text.amounts import human_bytes

__all__ = ["ANALYZE", "explain_analyze"]

ANALYZE = "ANALYZE"
_HEADS = ("rows in", "rows out", "out/in", "time", "share", "state at most", "operator")


@dataclass(slots=True)
class _Seen:
    """The most state that an operator had after any epoch."""

    rows: int = 0
    bytes: int = 0

    def note(self, size: StateSize) -> None:
        self.rows, self.bytes = max(self.rows, size.rows), max(self.bytes, size.bytes)


def explain_analyze(statement: st.Statement, plans: Sequence[PhysicalNode], session: Session) -> Result:
    """One row, one column: the physical plan with the figures of a run over all input.

    Raises:
        UnsupportedError: E1623 the input has no end.
    """
    job = session.new_job(session.jobs.next_id(), plans)
    if not (job.bounded or job.dataflow.complete):
        endless = next(s.name for s in job.dataflow.sources if not s.table.bounded)
        session.forget(job)
        raise UnsupportedError(
            f"EXPLAIN ANALYZE waits for the end of the input, and {endless} has none",
            code="E1623",
            span=statement.span,
            hint="start the statement, and read system.operators while it runs",
        )
    seen: dict[PhysicalNode, _Seen] = {v.node: _Seen() for v in job.dataflow.vertices}
    for _ in job.epochs():
        for vertex in job.dataflow.vertices:
            if vertex.operator is not None:
                seen[vertex.node].note(vertex.operator.state_size)
    session.publish(list(session.memory.values()))
    return Result.table(Schema.of(("result", STRING.not_null())), [[_text(plans, job, seen)]], job=job)


def _text(plans: Sequence[PhysicalNode], job: Job, seen: Mapping[PhysicalNode, _Seen]) -> str:
    vertices = {v.node: v for v in job.dataflow.vertices}
    total = sum(v.busy_seconds for v in vertices.values())
    rows: list[tuple[str, ...]] = [_HEADS]
    for line, node in explain_lines(plans):
        figures = ("",) * 6 if node is None else _figures(vertices[node], seen[node], total)
        rows.append((*figures, line))
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADS) - 1)]
    lines = ["  ".join([*(cell.rjust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]) for row in rows]
    lines.append(f"{job.dataflow.epoch:,} epochs, {total * 1000:,.1f} ms in operators and sources")
    return "\n".join(lines)


def _figures(vertex: Vertex, seen: _Seen, total: float) -> tuple[str, ...]:
    state = f"{seen.rows:,} rows, {human_bytes(seen.bytes)}" if seen.rows else ""
    reads, writes = vertex.operator is None, isinstance(vertex.node, SinkExec)
    return (
        "" if reads else f"{vertex.rows_in:,}",
        "" if writes else f"{vertex.rows_out:,}",
        f"{vertex.rows_out / vertex.rows_in:.1%}" if vertex.rows_in and not (reads or writes) else "",
        f"{vertex.busy_seconds * 1000:,.1f} ms",
        f"{vertex.busy_seconds / total:.0%}" if total else "",
        state,
    )
