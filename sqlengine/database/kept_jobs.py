"""Jobs that a database in a folder keeps: what the log says of them, and when what they write counts.

The log has the statement of each job (`("job", name)`). A job that writes to tables of the database commits through the
log: the rows since its checkpoint before, and the number of the checkpoint that is complete now (`("checkpoint", name)`),
are one epoch of the log. So the checkpoint from which it goes on is the one that the log names, and the tables have the
rows up to there, no more and no less. One that the log does not name yet is as if it had not been taken. The job's other
sinks publish after the log, and so do sources forget what was read: both are repeated when a crash comes between.

A job that writes to connectors alone goes on from its newest checkpoint, as with `execution.checkpointing.dir`. But in an
object store, where a former owner of the database may yet complete a checkpoint, the log names that of every job, and no
sink publishes before.

What a job reads of tables of the database is what they have when it begins, unless it follows them (`followed.py`). That
cannot be had again, so no checkpoint is taken before all of it is read. A job that has not come so far begins anew: nothing
that it has written counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from connectors.memory import MemorySink, MemoryTable, TableSnapshot
from connectors.memory.snapshot import PastRows
from runtime.checkpoint.epoch_state import CheckpointInfo, Restored
from runtime.checkpoint.shared_storage import SharedStorage
from runtime.checkpoint.store import CheckpointStore, folder_name
from runtime.core.cancellation import Stopped
from runtime.core.clock import Clock
from runtime.core.errors import CheckpointError, DatabaseError, code_and_text
from runtime.core.options import Options, parse_duration
from runtime.local.checkpoints import INTERVAL, Checkpointed, Checkpoints
from runtime.local.job import Job
from runtime.plan.nodes import SinkExec
from sqlengine.database.beside import taken
from sqlengine.database.database import Database
from sqlengine.database.durable import Durable
from sqlengine.database.folder.changes import JOB_KINDS, Definition, Place
from sqlengine.database.folder.job_folders import FOLDER
from sqlengine.database.jobs import JobUses

if TYPE_CHECKING:
    from connectors.memory.followed import FollowedTable
    from sqlengine.database.followed import JobInbox

__all__ = ["KeptCheckpoints", "KeptJob", "forget", "job_place"]

_STORED_INTERVAL, _CONNECTOR_INTERVAL, _FOLLOWING_INTERVAL = "200 ms", "10 s", "1 ms"
"""How often a job commits that writes to tables of the database alone, and another one. One that follows tables is given what
has changed in intervals, and commits each time."""


def job_place(name: str) -> Place:
    """Where a job stands among the definitions."""
    return "job", name


class KeptCheckpoints(Checkpoints):
    """The checkpoints of a job of the database. Where nothing has come and nothing was written since the last one, none
    is taken.

    Args:
        database: where the log names the checkpoint that counts; else None.
        mark: how the log names the folder (`JobFolders.open`).
        shown: what the folder is called, whoever owns the database.
        closing: set when the database ends.
    """

    def __init__(
        self,
        name: str,
        store: CheckpointStore,
        options: Options,
        clock: Clock,
        database: Database | None,
        mark: str,
        shown: str,
        closing: threading.Event,
    ) -> None:
        super().__init__(f"{shown} {name}", store, options, clock)
        self._shown = shown
        self._name = name
        self._database = database
        self._mark = mark
        self._closing = closing
        self._reads_tables = False
        self._figures: list[int] = []
        self._saved: list[int] | None = None

    @property
    def place(self) -> str:
        """See `Checkpoints.place`. Where folders are marked, one follows another, and the job is the same."""
        return self._shown if self._mark else super().place

    def latest(self, *, unread: bool = False) -> Restored | None:
        """The checkpoint that the log names. Raises CheckpointError E3402 when that cannot be used: an older one has
        less than the tables have."""
        if self._database is None:
            return super().latest(unread=unread)
        assert self._database.durable is not None
        said = self._database.durable.definitions.get(("checkpoint", self._name))
        number = 0 if said is None else int(said.text)
        self.store.go_back(number)
        found = super().latest(unread=unread)
        if number and (found is None or found.id != number):
            raise CheckpointError(
                f"checkpoint {number} in {self.store.path} is missing or damaged, and the tables have what came before it",
                code="E3402",
                hint="STOP JOB forgets the job; what it has written stays",
            )
        return found

    def after_epoch(self, job: Checkpointed) -> None:
        assert isinstance(job, Job)
        flow = job.dataflow
        read = [v.rows_out for v in flow.vertices if v.operator is None]
        self._figures = [*read, *(s.rows_written for s in flow.sinks()), job.finished]
        self._reads_tables = _reads_tables(job)
        super().after_epoch(job)

    @property
    def next_due(self) -> int | None:
        return None if self._reads_tables or self._figures == self._saved else super().next_due

    def _due(self) -> bool:
        return not self._reads_tables and super()._due()

    def now(self, job: Checkpointed, *, finished: bool = False) -> CheckpointInfo:
        """See `Checkpoints.now`. A job that is stopped while it reads tables publishes what it has; one whose database
        ends gives up what it has, and begins anew.

        Raises:
            CheckpointError: it still reads tables, and goes on.
        """
        assert isinstance(job, Job)
        if _reads_tables(job):
            if self._closing.is_set():
                raise Stopped
            if not job.cancellation.requested:
                raise CheckpointError(
                    f"{job.name} still reads tables of the database, as they were when it began: from there it could not go on",
                    hint="try again when it has read them",
                )
        return super().now(job, finished=finished)

    def _begin(self, job: Checkpointed, *, finished: bool) -> None:
        self._saved = self._figures
        super()._begin(job, finished=finished)

    def _settle(self, job: Checkpointed) -> CheckpointInfo | None:
        info = super()._settle(job)
        if info is None:
            self._saved = None
        return info

    def committed(self, job: Checkpointed, info: CheckpointInfo, committables: Mapping[str, Any]) -> None:
        if self._database is not None:
            assert isinstance(job, Job)
            self._commit(self._database, job, info, committables)
        super().committed(job, info, committables)

    def _commit(self, database: Database, job: Job, info: CheckpointInfo, committables: Mapping[str, Any]) -> None:
        assert database.durable is not None
        sinks = (v.node.table for v in job.dataflow.vertices if isinstance(v.node, SinkExec))
        named = zip(job.dataflow.named_sinks(), sinks, strict=True)
        stored = {name: sink.table for name, sink in named if isinstance(sink, MemorySink)}
        tables = {table for table in stored.values() if isinstance(table, MemoryTable)}
        prepared = {name: committables[name] for name in stored if name in committables}
        with taken(database, tables, lambda: job.dataflow.publish(prepared)):
            database.durable.commit({("checkpoint", self._name): Definition(str(info.id), self._mark, "")})
            database.views.propagate()
            database.durable.checkpoint_when_due()
        # Before sources forget what was read, and others see what was written.
        database.durable.settle()


def _reads_tables(job: Job) -> bool:
    """Whether it has not read all that tables had when it began."""
    return any(isinstance(source.node.table, TableSnapshot | PastRows) and not source.finished for source in job.inputs)


@dataclass
class KeptJob:
    """A job of the database, from its statement to its end."""

    name: str
    definition: Definition
    database: Database
    durable: Durable
    uses: JobUses
    inbox: JobInbox | None = None
    """Where it finds what it follows of tables of the database."""

    def follow(self, tables: Sequence[FollowedTable], options: Options) -> None:
        """It follows tables. Called with the lock held, before it opens them."""
        interval = (options.get(INTERVAL) or parse_duration(_CONNECTOR_INTERVAL)) / 1000
        found = {table.name: table.contents for table in tables}
        self.inbox = self.durable.followed.inbox(self.name, found, interval)
        for table in tables:
            table.inbox = self.inbox

    def checkpoints(self, options: Options, clock: Clock, retained: int, *, stored: bool, alone: bool) -> Checkpoints:
        """Those from which it goes on. `stored`: it writes to tables of the database; `alone`: to nothing else."""
        begun = job_place(self.name) in self.durable.definitions
        folders = self.durable.folder.job_folders
        where, mark = self._folder()
        shown = f"{self.durable.folder.place}/{FOLDER}/{folder_name(self.name)}"
        logged = stored or folders.are_fenced
        # The one before the newest is gone back to when the log does not have the newest.
        store = CheckpointStore(where, self.name, 2 if logged else retained, self.durable.folder.keys,
                                copies=False if logged else None)  # fmt: skip
        if not begun:
            store.clear()
        given = options.as_dict()
        given.setdefault(INTERVAL.key, _STORED_INTERVAL if alone else _CONNECTOR_INTERVAL)
        if self.inbox is not None:
            given[INTERVAL.key] = _FOLLOWING_INTERVAL
        return KeptCheckpoints(self.name, store, Options(given), clock, self.database if logged else None, mark, shown,
                               self.database.closed)  # fmt: skip

    def _folder(self) -> tuple[str | SharedStorage, str]:
        """Where its checkpoints are, and how the log names that. Raises CheckpointError E3406."""
        said = self.durable.definitions.get(("checkpoint", self.name))
        before = "" if said is None else said.catalog
        try:
            where, mark = self.durable.folder.job_folders.open(self.name, before)
        except OSError as error:
            raise CheckpointError(
                f"the checkpoints of {self.name} cannot be taken over: {error}", code="E3406"
            ) from error
        if said is not None and mark != before:
            self.durable.commit({("checkpoint", self.name): Definition(said.text, mark, "")})
        return where, mark

    def driven(self, job: Job, drive: Callable[[], None]) -> Callable[[], None]:
        """From now on the database has the job: `drive`, which runs it, and tells what becomes of it."""
        self._begin()

        def run() -> None:
            try:
                drive()
            except BaseException as error:
                self._failed(error)
                raise
            self._ended(job)

        return run

    def _begin(self) -> None:
        changes: dict[Place, Definition | None] = {}
        if self.durable.definitions.get(job_place(self.name)) != self.definition:
            changes[job_place(self.name)] = self.definition
        if ("failure", self.name) in self.durable.definitions:
            changes["failure", self.name] = None
        if changes:
            self.durable.commit(changes)

    def _ended(self, job: Job) -> None:
        """It has come to its end, or somebody has stopped it. The end of the database does not end a job."""
        if job.status == "CANCELED" and self.database.closed.is_set():
            return
        with self.database.views.lock:
            forget(self.name, self.durable)

    def _failed(self, error: BaseException) -> None:
        """It has failed, for good; unless it was the database that did."""
        if self.database.closed.is_set() or isinstance(error, DatabaseError) or not isinstance(error, Exception):
            return
        code, text = code_and_text(error)
        with self.database.views.lock, suppress(DatabaseError):
            self.durable.commit({("failure", self.name): Definition(text, code, "")})


def forget(name: str, durable: Durable) -> None:
    """There is no such job any more. Called with the lock held."""
    said = durable.definitions.get(("checkpoint", name))
    mark = "" if said is None else said.catalog
    gone: dict[Place, Definition | None] = {(k, name): None for k in JOB_KINDS if (k, name) in durable.definitions}
    if gone:
        durable.commit(gone)
        durable.settle()
    durable.follow_no_more(name)
    with suppress(OSError):
        durable.folder.job_folders.remove(name, mark)
