"""A materialized view that is given another query: what of the old one goes on, and what is filled from what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from connectors.memory import MemoryTable
from runtime.checkpoint.compatibility import ALLOW_INCOMPLETE
from runtime.checkpoint.epoch_state import Restored
from runtime.checkpoint.readings import readable_again
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import PlanningError, Span
from runtime.local.answers import passes_on
from runtime.local.dataflow import Dataflow
from runtime.local.job import Job
from runtime.local.succession import AtHand, SourceFacts, Succession, state_of, take_over
from runtime.operators.operator import OperatorContext, Rejected
from runtime.plan.nodes import PhysicalNode, SinkExec, SourceExec
from sqlengine.bind import BoundQuery
from sqlengine.catalog.objects import MaterializedView
from sqlengine.database.maintained_view import MaintainedView
from sqlengine.database.session import Session
from sqlengine.database.view_basis import ViewBasis
from sqlengine.options.verify import VERIFY
from sqlengine.statements.planning import PlannedView, plan_view
from sqlengine.statements.query_reads import fingerprints
from sqlengine.statements.view_goes_on import planned_over, whole

__all__ = ["Replacement", "replacement", "replacement_text"]

_HEADINGS = ("operator", "table", "rows", "verdict", "why")


@dataclass(frozen=True)
class Replacement:
    """A view that is there, the plan of its new query, and what becomes of its state."""

    before: MaintainedView
    planned: PlannedView
    succession: Succession
    counted: Mapping[tuple[str, str, str], int]
    """The numbers of rows of tables over which the plan was made, where they are not those of now."""

    @property
    def lost(self) -> list[SourceExec]:
        """Sources whose rows so far the view has, and the new query would not get."""
        read = {source.node.name for source in self.before.job.inputs}
        new = [n for n in self.succession.nodes if isinstance(n, SourceExec) and self.succession.is_new(n)]
        return [n for n in new if n.name in read and not readable_again(n)]

    def check(self, session: Session, span: Span) -> None:
        """Raises PlanningError E1717 when rows would be lost, and no option allows it."""
        lost = self.lost
        if not lost or session.options.get(ALLOW_INCOMPLETE):
            return
        names = ", ".join(n.name for n in lost)
        raise PlanningError(
            f"the new query needs rows of {names} that the view has read: they cannot be read again, and its state does not tell them",
            code="E1717",
            span=span,
            hint=f"make a view of another name; or SET '{ALLOW_INCOMPLETE.key}' = 'true', and the view begins with later rows",
        )

    def fill(self, session: Session) -> Callable[[Job], None]:
        """What a job of the plan does first."""
        settings = session.job_settings()

        def context(name: str) -> OperatorContext:
            return OperatorContext(name, settings.options, settings.functions, settings.time_zone, _Told())

        return lambda job: take_over(job, self.succession, context, settings.clock.now())


class _Told:
    """Rows that cannot be used were told when they came."""

    def reject(self, rejected: Rejected) -> None:
        """Nothing."""


def replacement(
    session: Session, view: MaterializedView, bound: BoundQuery, contents: MemoryTable
) -> Replacement | None:
    """What becomes of a view of the same name; None when there is none that goes on. Called with the lock held, while
    `contents` are filled. Changes nothing, but for bringing that view up to date.

    Whoever holds the lock once keeps only that view while its state is copied: others write what it does not read.
    """
    before = session.views.settled(view.path)
    if before is None or before.failure is not None or before.basis is None or before.contents is None:
        return None
    if before.job.dataflow.elsewhere is not None or session.options.get(VERIFY):
        return None
    functions = fingerprints(session, view.query)
    if before.basis.calls_others(functions, {name: session.user_functions[name] for name in functions}):
        return None
    names = tuple(c.name for c in view.columns)
    planned: PlannedView | None = None
    found: Succession | None = None
    basis: ViewBasis | None = before.basis
    with session.views.lock.keeping({view.path}) if session.views.lock.held_once else nullcontext():
        saved = state_of(before.job)
    # Over the numbers of rows at that time joins stand in the order in which they stood.
    for basis in (before.basis, None):
        noted = len(session.notes)
        with nullcontext() if basis is None else planned_over(session, basis):
            planned = plan_view(session, bound, contents, names)
        found = _succession(session, before, saved, planned.physical)
        if any(node.state() for node in found.kept):
            break
        if basis is not None:
            del session.notes[noted:]
    assert planned is not None and found is not None
    if session.job_settings([planned.physical]).dataflow is not Dataflow:
        return None
    return Replacement(before, planned, found, {} if basis is None else before.basis.reads)


def _succession(session: Session, before: MaintainedView, saved: Restored, root: PhysicalNode) -> Succession:
    assert isinstance(root, SinkExec) and before.contents is not None
    read = {id(source.node.table) for source in before.job.inputs}

    def facts(node: SourceExec) -> SourceFacts:
        table = node.table
        if not isinstance(table, MemoryTable):
            return SourceFacts()
        return SourceFacts(id(table) in read, _rows_of(table, node.name), whole(table))

    return Succession(
        root,
        saved,
        _rows_of(before.contents, "the rows of the view"),
        facts,
        session.functions,
        session.time_zone,
        before.ended,
    )


def _rows_of(table: MemoryTable, name: str) -> AtHand:
    version = table.version()
    return AtHand(name, version.num_rows, partial(_batch, version))


def _batch(version: Any) -> ChangelogBatch | None:
    batches = version.rows().combine_chunks().to_batches()
    return ChangelogBatch(batches[0]) if batches else None


# --- for people
# ---------------------------------------------------------------------------------------------------------------------


def replacement_text(found: Replacement | None) -> str:
    """A line for each source, stateful operator, and the answer of the view."""
    if found is None:
        return "Nothing of the view goes on: all is read from the start."
    table = _table(found.succession, found.lost)
    if found.succession.same_answer:
        return f"The query computes what the view has: nothing is read.\n\n{table}"
    return table


def _table(found: Succession, lost: Sequence[PhysicalNode]) -> str:
    cells = [_line(found, node, lost) for node in found.nodes if not passes_on(node, found.functions)]
    widths = [max(len(row[i]) for row in (_HEADINGS, *cells)) for i in range(len(_HEADINGS))]
    lines = [
        "  ".join(c.rjust(w) if i == 2 else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in (_HEADINGS, *cells)
    ]
    return "\n".join(line.rstrip() for line in lines)


def _line(found: Succession, node: PhysicalNode, lost: Sequence[PhysicalNode]) -> tuple[str, ...]:
    table = node.outside_name or ", ".join(t.name for t in node.state() if t.holds)
    if not found.is_new(node):
        rows = found.rows(node)
        why = "read on from its position" if isinstance(node, SourceExec) else "computes the same"
        return found.name(node), table, "" if rows is None else str(rows), "kept", why
    if isinstance(node, SinkExec) and found.same_answer:
        return found.name(node), table, str(found.contents.count), "kept", "the same answer"
    origins = found.origins(node)
    counts = [count for _, count in origins if count is not None]
    rows = str(sum(counts)) if len(counts) == len(origins) else ""
    if isinstance(node, SourceExec) and node in lost:
        return found.name(node), table, rows, "lost", "what was read so far cannot be read again"
    if isinstance(node, SourceExec):
        return found.name(node), table, rows, "anew", "read from the start"
    return found.name(node), table, rows, "filled", "from " + " and ".join(name for name, _ in origins)
