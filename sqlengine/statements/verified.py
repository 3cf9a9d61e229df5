"""Which jobs check themselves, and what is said of those that cannot."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from planner.traits.context import STATE_TTL
from runtime.core.rooms import Room
from runtime.local.dataflow import SourceInput
from runtime.local.job import Job
from runtime.plan import nodes as p
from runtime.plan.parts import JoinKind
from runtime.plan.walk import walk
from runtime.plan.window_nodes import WindowAggregateExec, WindowJoinExec, WindowTableExec, WindowTopNExec
from runtime.plan.windows import SessionWindow
from sqlengine.database.session import RUNTIME_MODE, Session
from sqlengine.options.verify import EVERY, VERIFY
from sqlengine.results.result import SqlEngineWarning
from sqlengine.statements.planning import Planned

if TYPE_CHECKING:
    import sqlengine.verify.texts as _texts
    import sqlengine.verify.verifier as _verifier
else:
    _texts = Room("sqlengine.verify.texts")
    _verifier = Room("sqlengine.verify.verifier")

__all__ = ["verify"]

_WAIT = (WindowJoinExec, WindowTopNExec, p.SortExec)
"""Operators that hold rows back until event time has passed them."""


def verify(session: Session, job: Job, planned: Sequence[Planned]) -> None:
    """Have a job check itself where 'sqlengine.verify' is set, one root for each plan; what cannot be checked is a note
    of the statement."""
    if not session.options.get(VERIFY):
        return

    def tell(text: str) -> None:
        if job.on_note is not None:
            job.on_note(text)
        else:
            warnings.warn(text, SqlEngineWarning, stacklevel=2)

    watched: list[_verifier.Verifier] = []
    for plan in planned:
        try:
            watched.append(_verifier_of(session, job, plan, tell))
        except _texts.CannotVerify as error:
            session.notes.append((f"{job.name} is not verified: DuckDB cannot be asked about {error}", None))
    if watched:
        job.watch = _Watch(job, watched)


class _Watch:
    """All verifiers of a job, each with the place of its root among what the dataflow shows."""

    def __init__(self, job: Job, verifiers: Sequence[_verifier.Verifier]) -> None:
        self.verifiers = [(job.dataflow.watch(v.root), v) for v in verifiers]

    def __call__(self, given: Mapping[p.SourceExec, SourceInput], now: int, job: Job) -> None:
        for place, verifier in self.verifiers:
            verifier.after_epoch(given, now, job.dataflow.watched[place], job.dataflow, job.finished)


def _verifier_of(session: Session, job: Job, plan: Planned, tell: Callable[[str], None]) -> _verifier.Verifier:
    if session.options.get(STATE_TTL):
        raise _texts.CannotVerify("state with a time to live")
    if session.options.get(RUNTIME_MODE) == "batch":
        raise _texts.CannotVerify("a batch query")
    if job.restored is not None:
        raise _texts.CannotVerify("a job that goes on from a checkpoint, whose input it has not seen")
    physical = list(walk(plan.physical))
    if any(isinstance(node, p.SinkMaterializeExec) for node in physical):
        raise _texts.CannotVerify("ON CONFLICT")
    if any(map(_never_shrinks, physical)):
        raise _texts.CannotVerify("sessions of a table that changes: they never shrink")
    at_end = any(map(_waits, physical))
    if at_end and not job.bounded:
        raise _texts.CannotVerify("a query whose operators wait for event time, before the end of its input")
    try:
        return _verifier.Verifier(
            job.name,
            plan.bound,
            plan.physical,
            session.functions,
            session.job_settings().options,
            session.time_zone,
            session.rejected,
            every=session.options.get(EVERY),
            at_end=at_end,
            tell=tell,
        )
    except _texts.CannotVerify:
        raise
    except Exception as error:
        raise _texts.CannotVerify(f"this plan ({type(error).__name__}: {error})") from error


def _never_shrinks(node: p.PhysicalNode) -> bool:
    """Sessions keep no rows: one whose last row is taken back stays as long as it was."""
    if not isinstance(node, (WindowTableExec, WindowAggregateExec)) or not isinstance(node.window, SessionWindow):
        return False
    return not node.inputs[0].mode.is_append_only


def _waits(node: p.PhysicalNode) -> bool:
    match node:
        case p.IntervalJoinExec(kind=kind):
            return kind is not JoinKind.INNER
        case p.DeduplicateExec(time=time):
            return time is not None
        case p.OverAggregateExec(rowtime=rowtime):
            return bool(rowtime)
        case _:
            return isinstance(node, _WAIT)
