"""SUBSCRIBE: the contents of a view or table in memory, then its changes."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

from connectors.memory import MemoryReader, MemoryTable
from runtime.core.cancellation import Cancellation
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import UnsupportedError
from runtime.core.wakeup import Wakeup
from sqlengine.catalog.objects import CatalogTable, MaterializedView, ObjectPath
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result

__all__ = ["subscribe"]


def subscribe(statement: st.Subscribe, session: Session) -> Result:
    """The contents of a view or table in memory, then its changes, epoch after epoch, until the result is cancelled or
    the view is dropped or gets other columns. Raises PlanningError E1713 when the view has failed."""
    found = session.catalogs.get(statement.name.parts, statement.name.span)
    if not isinstance(found, MaterializedView) and (not isinstance(found, CatalogTable) or found.connector is not None):
        raise UnsupportedError(
            f'"{found.path.name}" is not kept in memory',
            code="E1608",
            span=statement.name.span,
            hint="SELECT from it, or CREATE MATERIALIZED VIEW over it and subscribe to that",
        )
    table = session.memory_table(found)
    stopped, wakeup = Cancellation(), Wakeup()
    stopped.on_request = wakeup.wake
    with session.views.lock:
        session.views.check(found.storage)
        session.views.tell_followers(wakeup)
        reader = table.follow(wakeup.wake)
    result = Result(
        table.schema,
        _follow(session, found.storage, table, reader, stopped, wakeup),
        is_query=True,
        bounded=False,
        append_only=table.mode.is_append_only,
        stopper=stopped.request,
    )
    # A generator that was never begun closes nothing: what nobody can read any more must not gather changes.
    weakref.finalize(result, reader.close).atexit = False
    return result


def _follow(
    session: Session,
    storage: ObjectPath,
    table: MemoryTable,
    reader: MemoryReader,
    stopped: Cancellation,
    wakeup: Wakeup,
) -> Iterator[ChangelogBatch]:
    try:
        while not stopped.requested and not session.closed.is_set():
            with session.views.lock:
                step = reader.poll(1)
                there = session.memory.get(storage) is table
                if step is None and there:
                    session.views.check(storage)
            if step is not None:
                if session.durable is not None:
                    session.durable.settle()
                yield step
            elif not there:
                return
            else:
                wakeup.wait(None)
    finally:
        reader.close()
