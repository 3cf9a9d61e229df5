"""The final rows of a query written into a table that the engine has made itself, instead of being read."""

from __future__ import annotations

from planner.traits.context import TraitContext
from planner.traits.keys import unique_keys
from runtime.core.changelog import APPEND
from runtime.local.job import Job
from runtime.plan.nodes import PhysicalNode, SinkExec, SinkMaterializeExec
from runtime.plan.walk import walk_all
from runtime.spi.sink import SinkTable
from sqlengine.database.session import Session
from sqlengine.statements.planning import PlannedQuery

__all__ = ["written_job"]


def written_job(session: Session, planned: PlannedQuery, table: SinkTable, *, in_tasks: bool) -> Job | None:
    """A job that writes the final rows of a planned query, whose input ends, into a table of insertions. None where rows
    have to be put in order, or are taken back and nothing but the driver can tell which are left: they have no key, or
    time goes on before the input ends.

    Args:
        in_tasks: operators run in tasks. In this process it costs less to fold what is taken back when all is there.
    """
    rows = planned.physical if planned.physical.mode.is_append_only else _final(session, planned) if in_tasks else None
    if rows is None or planned.order or planned.visible != len(planned.schema):
        return None
    name = session.jobs.next_id()
    return session.new_job(name, [SinkExec(rows, table, name, (), "ERROR", rows.schema, APPEND)])


def _final(session: Session, planned: PlannedQuery) -> PhysicalNode | None:
    """What gives the final rows alone, at the end, of those that are taken back."""
    rows = planned.physical
    if not rows.mode.update_before or any(node.sets_time for node in walk_all([rows])):
        return None
    context = TraitContext(session.functions, session.options, batch=planned.batch)
    ids = [column.id for column in planned.optimized.columns]
    keys = [k for k in unique_keys(planned.optimized, context) if k and k <= set(ids)]
    if not keys:
        return None
    key = tuple(sorted(ids.index(c) for c in min(keys, key=lambda k: (len(k), sorted(ids.index(c) for c in k)))))
    return SinkMaterializeExec(rows, key, rows.schema, APPEND, waits=True)
