"""`system.memory`: who owns the memory of the process.

The account is made when somebody asks, from sizes that tables, chunks and operators know: it costs as much as there are of
these, whatever they hold. Work that runs meanwhile does not wait for it, so an epoch at hand may be in it in part. What is
in memory once counts once, for the first of those who hold it: the rows of a table are not those of a view that has still
to take them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

import pyarrow as pa

from connectors.memory import MemoryTable
from runtime.core.changelog import ChangelogBatch
from runtime.core.memory import HeldBeside, MemoryAccount, own_bytes, worker_bytes
from runtime.local.dataflow import Dataflow
from runtime.local.ended import EndedOperator
from runtime.local.job import Job
from runtime.local.source_inputs import SourceInputs
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.histories import Histories
from sqlengine.database.jobs import Jobs
from sqlengine.database.open_epoch import OpenEpoch
from sqlengine.database.views import Views

__all__ = ["memory_accounts"]

_DRIVER, _WORKERS = "driver", "workers"


class _Owners(Protocol):
    """What of a database holds memory."""

    memory: dict[ObjectPath, MemoryTable]
    views: Views
    jobs: Jobs

    @property
    def histories(self) -> Histories: ...

    @property
    def open_epochs(self) -> dict[int, OpenEpoch]: ...


def memory_accounts(
    database: _Owners, jobs: Iterable[object], holders: Iterable[Callable[[], Iterable[HeldBeside]]] = ()
) -> list[MemoryAccount]:
    """One account for each owner and part that takes memory or room on the disk; at the end what nobody accounts for.

    Args:
        jobs: all that there are of the database, those of views and queries included.
        holders: tell what they hold for tables and jobs.
    """
    held = _Held()
    running = _running(jobs)
    found = list(_tables(database, held))
    views = [*database.views.jobs(), *database.views.being_filled]
    owners = {id(view.job): ("VIEW", str(view.path)) for view in views}
    owners |= {id(job.job): ("JOB", job.id) for job in tuple(database.jobs.jobs.values())}
    for job in running:
        found += _of_job(job, *owners.get(id(job.job), ("QUERY", job.job.name)), held)
    owners |= {id(table): (kind, str(path)) for path, kind, table in _owned_tables(database)}
    for beside in (beside for holder in holders for beside in holder()):
        if id(beside.of) in owners:
            size = held.bytes(beside.batches) + beside.bytes
            found.append(MemoryAccount(*owners[id(beside.of)], beside.part, _DRIVER, beside.rows, size))
    for number, epoch in database.open_epochs.items():
        for path, batches in epoch.buffered.items():
            found.append(held.account("SESSION", str(number), f"changes of {path}", batches))
    found += _rest(found, running)
    return [account for account in found if account.bytes or account.disk_bytes]


class _Running(NamedTuple):
    """A job, and what it computes with now."""

    job: Job
    dataflow: Dataflow
    inputs: Sequence[SourceInputs]


def _running(jobs: Iterable[object]) -> list[_Running]:
    """The jobs that have not ended, but for those that are being opened."""
    found: list[_Running] = []
    for job in jobs:
        if isinstance(job, Job) and job.status not in ("FAILED", "FINISHED", "CANCELED"):
            with suppress(AttributeError):
                found.append(_Running(job, job.dataflow, job.inputs))
    return found


class _Held:
    """Counts buffers, each once."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def bytes(self, rows: Iterable[pa.RecordBatch]) -> int:
        """The memory of rows, without what was counted before."""
        found = 0
        for batch in rows:
            for column in batch.columns:
                parts = (column, column.dictionary) if isinstance(column, pa.DictionaryArray) else (column,)
                for buffer in (b for part in parts for b in part.buffers() if b is not None):
                    if buffer.address not in self._known:
                        self._known.add(buffer.address)
                        found += buffer.size
        return found

    def account(self, kind: str, owner: str, part: str, batches: Iterable[ChangelogBatch]) -> MemoryAccount:
        """Of changes in this process. Those that lie in files (`runtime/tasks/filed.py`) are of another class, and are left
        where they are."""
        known = [batch for batch in batches if type(batch) is ChangelogBatch]
        size = self.bytes(batch.rows for batch in known)
        return MemoryAccount(kind, owner, part, _DRIVER, sum(map(len, known)), size)


def _owned_tables(database: _Owners) -> Iterator[tuple[ObjectPath, str, MemoryTable]]:
    views = {view.path for view in database.views.jobs()}
    tables = {path: ("VIEW" if path in views else "TABLE", table) for path, table in tuple(database.memory.items())}
    tables |= {v.path: ("VIEW", v.contents) for v in database.views.being_filled if v.contents is not None}
    return ((path, kind, table) for path, (kind, table) in tables.items())


def _tables(database: _Owners, held: _Held) -> Iterator[MemoryAccount]:
    for path, kind, table in _owned_tables(database):
        parts, owner = table.parts, str(path)
        size = held.bytes(parts.rows.in_memory) + parts.rows.count_bytes
        yield MemoryAccount(kind, owner, "rows", _DRIVER, parts.rows.num_rows, size, parts.rows.file_bytes)
        yield MemoryAccount(kind, owner, "index", _DRIVER, None, parts.index_bytes)
        for index in table.indices:
            part = f"index by ({table.columns_text(index.columns)}) of {', '.join(index.users)}"
            yield MemoryAccount(kind, owner, part, _DRIVER, index.rows, index.nbytes)
        yield held.account(kind, owner, "changes to be shown", parts.pending)
        history = database.histories.of(table)
        if history is not None:
            kept = history.store
            size = held.bytes(kept.in_memory)
            yield MemoryAccount(kind, owner, "history", _DRIVER, history.rows, size, kept.file_bytes)


def _of_job(job: _Running, kind: str, owner: str, held: _Held) -> Iterator[MemoryAccount]:
    for vertex in job.dataflow.vertices:
        operator = vertex.operator
        if operator is not None and not isinstance(operator, EndedOperator):
            size, process = operator.state_size, _WORKERS if vertex.away else _DRIVER
            memory = size.bytes - size.disk_bytes
            yield MemoryAccount(kind, owner, f"state of {vertex.name}", process, size.rows, memory, size.disk_bytes)
            cache = operator.cache_figures
            if cache is not None:
                yield MemoryAccount(kind, owner, f"cache of {vertex.name}", process, cache.rows, cache.nbytes)
        output = [] if vertex.output is None else [vertex.output]
        early = [batch for batches in tuple(vertex.early.values()) for batch in batches]
        yield held.account(kind, owner, f"output of {vertex.name}", [*output, *early])
    for source in job.inputs:
        yield held.account(kind, owner, f"input from {source.node.name}", source.buffered)
    for sink in job.dataflow.sinks():
        yield held.account(kind, owner, "rows to be written", sink.buffered)


def _rest(found: Iterable[MemoryAccount], jobs: Iterable[_Running]) -> Iterator[MemoryAccount]:
    """What processes take beside that: libraries, what the program itself holds, what allocators keep for later."""
    here = sum(account.bytes for account in found if account.process == _DRIVER)
    state: dict[str, int] = {}
    for job in jobs:
        for partition, size in ({} if job.dataflow.elsewhere is None else job.dataflow.elsewhere.state_bytes).items():
            state[f"partition {partition}"] = state.get(f"partition {partition}", 0) + size
    yield MemoryAccount("PROCESS", "driver", "other", _DRIVER, None, max(0, own_bytes() - here))
    for (_, name), taken in worker_bytes().items():
        known = min(taken, state.get(name, 0))
        # Another program of this process may have workers of the same name.
        state[name] = state.get(name, 0) - known
        yield MemoryAccount("WORKER", name, "other", _WORKERS, None, taken - known)
