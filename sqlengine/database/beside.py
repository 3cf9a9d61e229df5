"""Jobs in the background that read or change tables in memory, beside the statements and views of others.

A short epoch has the lock. One that takes long keeps only what it needs (`Views.apart`): the tables that it reads and
changes, and the views above the latter. Others commit meanwhile, and nobody sees its rows before all of them are there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext

from connectors.memory import MemorySink, MemoryTable
from runtime.core.cancellation import whole
from runtime.local.job import Job
from runtime.plan.nodes import SinkExec, SourceExec
from runtime.plan.walk import walk_all
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.database import Database
from sqlengine.database.session import Session
from sqlengine.database.source_thread import LONG_SECONDS
from sqlengine.database.view_traits import calls_out

__all__ = ["Beside", "taken"]


class Beside:
    """The epochs of a job among those of others."""

    def __init__(self, job: Job, session: Session) -> None:
        nodes = walk_all(job.roots)
        self._read = {n.table for n in nodes if isinstance(n, SourceExec) and isinstance(n.table, MemoryTable)}
        sinks = [n.table for n in nodes if isinstance(n, SinkExec) and isinstance(n.table, MemorySink)]
        # What is logged is changed when a checkpoint is complete (`taken`), not by an epoch.
        self._changed = {s.table for s in sinks if not s.logged and isinstance(s.table, MemoryTable)}
        self._database = session.database
        self._calls_out = calls_out(job, session.functions, session.user_functions)
        self._was_long = True
        """Whether the last epoch has taken long; the first one may have all that is there so far."""

    @contextmanager
    def epoch(self) -> Iterator[None]:
        """One epoch, or the end of the job."""
        views, durable = self._database.views, self._database.durable
        with views.lock.only(self._part):
            views.lock.give_way()
            started, part = time.perf_counter(), self._part()
            beside = self._calls_out or self._was_long or views.may_take_long(set(part), 0)
            try:
                with _apart(self._database, part, self._changed) if beside else nullcontext():
                    yield
            finally:
                if durable is None:
                    views.propagate()
                else:
                    durable.publish()
                self._was_long = time.perf_counter() - started >= LONG_SECONDS

    def _part(self) -> frozenset[ObjectPath]:
        changed = self._database.views.touched(_storages(self._database, self._changed))
        return changed.union(_storages(self._database, self._read))


@contextmanager
def taken(database: Database, tables: Collection[MemoryTable], apply: Callable[[], object]) -> Iterator[None]:
    """Apply what was prepared for some tables as a whole; in the block, which has the lock, they have published it, and
    nobody has been shown it."""
    views = database.views

    def part() -> frozenset[ObjectPath]:
        return views.touched(_storages(database, tables))

    rows = sum(table.prepared_rows for table in tables)
    with views.lock.only(part):
        changed = part()
        beside = views.may_take_long(set(changed), rows)
        with whole(), _apart(database, changed, tables) if beside else nullcontext():
            apply()
        yield


@contextmanager
def _apart(database: Database, part: Collection[ObjectPath], tables: Collection[MemoryTable]) -> Iterator[None]:
    with database.views.apart(part, *tables):
        yield
        database.views.follow(part)


def _storages(database: Database, tables: Collection[MemoryTable]) -> set[ObjectPath]:
    return {storage for storage, table in database.memory.items() if table in tables}
