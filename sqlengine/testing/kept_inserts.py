"""INSERT statements of a job as a test sees them: kept up to date in step with the test's input, not in a thread."""

from __future__ import annotations

from connectors.memory import MemoryTable
from runtime.local.job import Job
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.maintained_view import MaintainedView
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st
from sqlengine.statements.dispatch import execute
from sqlengine.statements.planning import plan_insert, plan_statement_set
from sqlengine.statements.tables import get_table
from sqlengine.statements.verified import verify

__all__ = ["keep_insert"]


def keep_insert(statement: st.Insert | st.StatementSet, session: Session) -> None:
    """Begin to keep what an INSERT, or a set of them, writes: whenever the input of a test grows, its sinks do.

    One that reads no table in memory is carried out once, as ever.
    """
    inner = statement.statements if isinstance(statement, st.StatementSet) else (statement,)
    inserts = [(s, get_table(session, s.table)) for s in inner if isinstance(s, st.Insert)]
    if len(inserts) != len(inner) or any(table.connector is not None for _, table in inserts):
        execute(statement, session)
        return
    with session.views.lock:
        session.harness.inserts_follow = True
        try:
            if len(inserts) == 1:
                planned = [plan_insert(session, *inserts[0], live=True)]
            else:
                planned = plan_statement_set(session, inserts, live=True)
        finally:
            session.harness.inserts_follow = False
        names = ", ".join(dict.fromkeys(table.path.name for _, table in inserts))
        job = Job(f"insert into {names}", [plan.physical for plan in planned], session.job_settings())
        verify(session, job, planned)
        follows = any(isinstance(source.table, MemoryTable) for source in job.dataflow.sources)
        if follows:
            number = len(session.views.jobs())
            path = ObjectPath("", "", f"{job.name} ({number})")
            inputs = frozenset(p for p, t in session.memory.items() if any(s.table is t for s in job.dataflow.sources))
            session.views.add(MaintainedView(path, job, False, inputs))
            return
        session.forget(job)
    execute(statement, session)
