"""Tables and views that jobs follow, as long as the database lasts: `INSERT INTO a_sink SELECT .. FROM a_kept_view`.

A checkpoint of the database is a cut: for each table that is followed it has what has changed since the one before. A job is
given a cut when that is complete, and says in its own checkpoints up to which it has come. So nothing that a job was given is
ever taken back, whether tables, sources of views or values that differ each time are computed again behind the checkpoint;
and what it has not taken is in the checkpoint, also while the job has failed, or its sink cannot be reached. What jobs wait
for makes a checkpoint due.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from connectors.memory import MemoryReader, MemoryTable
from connectors.memory.followed import Taken
from connectors.memory.rows import TableVersion
from connectors.memory.snapshot import cannot_be_read_again
from runtime.checkpoint.segments import SegmentReader
from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MIN_WATERMARK
from runtime.core.memory import HeldBeside
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.folder.changes import Definition, Place, Storage
from sqlengine.database.folder.pieces import RowPiece, read_rows
from sqlengine.database.folder.saved_cuts import CutChanges, SavedCut, SavedCuts, SavedTable
from sqlengine.database.views import Views

__all__ = ["Followed", "JobInbox", "Kept"]

_WRITING_SECONDS = 0.02
_MOST_HELD = 64 << 20
"""Bytes: of more than that which waits for a job the rows are in files alone."""


class Kept(Protocol):
    """What keeps the database."""

    def checkpoint_when_due(self) -> None:
        """Called with the lock held."""
        ...

    def checkpoint_age(self) -> float:
        """Seconds since the newest checkpoint was begun."""
        ...

    def segments(self) -> SegmentReader:
        """Reads the files of checkpoints."""
        ...


@dataclass(slots=True)
class _Cut:
    """See `SavedCut`. `batches`: its rows; None: they are in files alone."""

    number: int
    watermark: int
    idle: bool
    batches: Sequence[ChangelogBatch] | None
    pieces: list[RowPiece] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        return 0 if self.batches is None else sum(batch.nbytes for batch in self.batches)


@dataclass(slots=True)
class _Start:
    """The rows of a table at the cut at which a job begins."""

    number: int
    rows: TableVersion
    watermark: int
    idle: bool


class _Table:
    """A table that is followed.

    Args:
        since: the cut behind which all changes are known.
        cuts: those that are complete.
    """

    def __init__(self, table: MemoryTable, wake: Callable[[], None], since: int, cuts: list[_Cut]) -> None:
        self.since = since
        self.cuts = cuts
        self.fixed: list[_Cut] = []
        """What the checkpoint that is being written has."""
        self.unwritten: list[ChangelogBatch] = []
        """What no checkpoint has, before what the reader has."""
        self._told = (MIN_WATERMARK, False)
        self.attach(table, wake)

    def attach(self, table: MemoryTable, wake: Callable[[], None]) -> None:
        """From now on its changes are those of a table whose rows are known."""
        self.table = table
        self.reader: MemoryReader = table.follow(wake)
        self.reader.seek(table.token)

    @property
    def waits(self) -> bool:
        """Whether something has come that no cut has."""
        return self.reader.waiting or bool(self.unwritten)

    def fix(self, number: int) -> None:
        """What has come is a cut."""
        batches, self.unwritten = self.unwritten, []
        while self.reader.waiting:
            step = self.reader.poll(1)
            if step is not None and len(step):
                batches.append(step)
        told = self.reader.watermark, self.table.idle
        if batches or told != self._told:
            self._told = told
            self.fixed.append(_Cut(number, *told, [batch.decoded() for batch in batches]))

    def forget(self, until: int) -> None:
        """Nobody needs anything up to a cut."""
        self.cuts = [cut for cut in self.cuts if cut.number > until]
        self.since = max(self.since, until)

    def settle(self, saved: SavedTable | None) -> None:
        """What was fixed is written, or never will be: then it comes with the next cut."""
        fixed, self.fixed = self.fixed, []
        if saved is None:
            self.unwritten = [batch for cut in fixed for batch in cut.batches or ()] + self.unwritten
            self._told = MIN_WATERMARK, False
            return
        held = sum(cut.nbytes for cut in self.cuts)
        for cut, written in zip(fixed, saved.cuts[len(saved.cuts) - len(fixed) :], strict=True):
            cut.pieces = written.pieces
            held += cut.nbytes
            if held > _MOST_HELD:
                cut.batches = None
            self.cuts.append(cut)


class JobInbox:
    """See `connectors.memory.followed.Inbox`. A job has one, from its begin until the database forgets it.

    Args:
        follows: the tables by their names.
        taken: the cut up to which it needs nothing again; None: it has begun with nothing so far.
    """

    def __init__(self, owner: Followed, follows: Mapping[str, Storage], taken: int | None = None) -> None:
        self._owner = owner
        self.follows = dict(follows)
        self.interval = 0.0
        """Seconds between two cuts that are made for it."""
        self.taken = taken
        self._saved: dict[str, int] = {}
        self.starts: dict[Storage, _Start] = {}
        self.released = -1
        self.limit = -1
        self.wakes: list[Callable[[], None]] = []

    # --- by the job's thread

    @contextmanager
    def epoch(self) -> Iterator[None]:
        """An epoch of the job: all tables are read up to one cut."""
        self._owner.look(self)
        self.limit = self.released
        yield

    def take(self, table: str, after: int | None) -> Taken | None:
        """See `Inbox`."""
        return self._owner.take(self, self.follows[table], after)

    def seek(self, table: str, position: object) -> int:
        """See `Inbox`."""
        if not isinstance(position, int) or not self._owner.has(self.follows[table], position):
            raise cannot_be_read_again(table)
        self.taken, self.starts = position, {}
        self.released = max(self.released, self._owner.cut)
        return position

    def saved(self, table: str, position: int) -> None:
        """See `Inbox`."""
        self._saved[table] = position
        if self._saved.keys() == self.follows.keys():
            self.taken, self.starts = min(self._saved.values()), {}

    def available_in(self, after: int | None) -> float | None:
        """See `Inbox`."""
        if self.released > (self.limit if after is None else after):
            return 0.0
        return self._owner.next_cut_in(self)

    def woken_by(self, wake: Callable[[], None]) -> None:
        """See `Inbox`."""
        self.wakes.append(wake)

    def left_by(self, wake: Callable[[], None]) -> None:
        """See `Inbox`."""
        if wake in self.wakes:
            self.wakes.remove(wake)

    # --- with the lock held

    @property
    def needs(self) -> int | None:
        """The cut behind which it needs all changes; None: it begins with the next one. Of one that nobody has begun again
        since the database was opened its own checkpoints say it."""
        if self.taken is not None:
            return self.taken
        return min((start.number for start in self.starts.values()), default=None if self.wakes else 0)

    @property
    def begins(self) -> bool:
        """Whether it has no rows to begin with."""
        return self.taken is None and not self.starts

    def release(self, number: int) -> None:
        """A cut is complete."""
        if not self.begins:
            self.released = number
            self.wake()

    def wake(self) -> None:
        """There may be something to do."""
        for wake in tuple(self.wakes):
            wake()


class Followed:
    """All that jobs of a database follow. Used with the lock held, but for what its inboxes call.

    Args:
        memory: the rows of tables and views, by `storage`.
        cut: the number of the newest checkpoint.
    """

    def __init__(self, memory: Mapping[ObjectPath, MemoryTable], views: Views, kept: Kept, cut: int) -> None:
        self._memory = memory
        self._views = views
        self._kept = kept
        self.cut = cut
        self._guard = threading.Lock()
        """Held for a moment where cuts change or are taken."""
        self._jobs: dict[str, JobInbox] = {}
        self._tables: dict[Storage, _Table] = {}
        self._fixing: int | None = None

    def inbox(self, name: str, follows: Mapping[str, MemoryTable], interval: float) -> JobInbox:
        """That of a job that begins, or goes on."""
        storages = {path.parts: str(path) for path, table in self._memory.items() if table in follows.values()}
        known = self._jobs.get(name)
        if known is None or set(known.follows.values()) != set(storages):
            known = self._jobs[name] = JobInbox(self, {path: storage for storage, path in storages.items()})
        known.interval = interval
        for storage in storages:
            if storage not in self._tables and known.taken is None:
                table = self._memory[ObjectPath(*storage)]
                # What it was before nobody can say.
                self._tables[storage] = _Table(table, self._wake, self.cut + 1, [])
        return known

    def forget(self, name: str) -> None:
        """There is no such job any more."""
        self._jobs.pop(name, None)
        followed = self._followed()
        for storage in [storage for storage in self._tables if storage not in followed]:
            self._tables.pop(storage).reader.close()

    def held(self) -> Iterator[HeldBeside]:
        """The rows that wait for jobs. From any thread."""
        for followed in tuple(self._tables.values()):
            batches = [batch for cut in (*followed.cuts, *followed.fixed) for batch in cut.batches or ()]
            rows = [batch.rows for batch in (*batches, *followed.unwritten, *followed.reader.buffered)]
            yield HeldBeside(followed.table, "changes for jobs that follow it", sum(map(len, rows)), 0, rows)

    def _followed(self) -> frozenset[Storage]:
        return frozenset(storage for inbox in self._jobs.values() for storage in inbox.follows.values())

    def _wake(self) -> None:
        for inbox in tuple(self._jobs.values()):
            inbox.wake()

    # --- in checkpoints

    def fix(self, number: int, definitions: Mapping[Place, Definition]) -> CutChanges:
        """What the next checkpoint writes, which has that number."""
        for name in [name for name in self._jobs if ("job", name) not in definitions]:
            self.forget(name)
        with self._guard:
            self._fixing = number
            for followed in self._tables.values():
                followed.fix(number)
            for inbox in self._jobs.values():
                if inbox.begins and inbox.wakes:
                    inbox.starts = self._starts(inbox, number)
            for storage, followed in self._tables.items():
                needs = [inbox.needs for inbox in self._jobs.values() if storage in inbox.follows.values()]
                followed.forget(min((need for need in needs if need is not None), default=self.cut))
            return CutChanges(self._saved(), {s: _written(t.fixed) for s, t in self._tables.items() if t.fixed})

    def _starts(self, inbox: JobInbox, number: int) -> dict[Storage, _Start]:
        tables = {storage: self._tables[storage] for storage in inbox.follows.values()}
        return {
            storage: _Start(number, t.table.held_version(), t.reader.watermark, t.table.idle)
            for storage, t in tables.items()
        }

    def _saved(self) -> SavedCuts:
        jobs = {name: (inbox.taken, list(inbox.follows.values())) for name, inbox in self._jobs.items()}
        tables = {
            storage: SavedTable(
                followed.since, [SavedCut(c.number, c.watermark, c.idle, c.pieces) for c in followed.cuts]
            )
            for storage, followed in self._tables.items()
        }
        return SavedCuts(jobs, tables)

    def settle(self, saved: SavedCuts | None) -> None:
        """What was fixed last is written, and the checkpoint says this; or (None) it never will be."""
        number, self._fixing = self._fixing, None
        if number is None:
            return
        with self._guard:
            for storage, followed in self._tables.items():
                followed.settle(None if saved is None else saved.tables.get(storage, SavedTable(0)))
            for inbox in self._jobs.values() if saved is None else ():
                if any(start.number == number for start in inbox.starts.values()):
                    inbox.starts = {}
            if saved is not None:
                self.cut = number
        for inbox in tuple(self._jobs.values()) if saved is not None else ():
            inbox.release(number)

    @property
    def interval(self) -> float | None:
        """How old a checkpoint gets, in seconds, while a job waits for one; None: no job does."""
        return min((0.0 if inbox.begins else inbox.interval for inbox in self._waiting()), default=None)

    def _waiting(self) -> Iterator[JobInbox]:
        return (inbox for inbox in tuple(self._jobs.values()) if inbox.wakes and self._waits(inbox))

    def _waits(self, inbox: JobInbox) -> bool:
        tables = (self._tables.get(storage) for storage in inbox.follows.values())
        return inbox.begins or any(followed is not None and followed.waits for followed in tables)

    # --- when the database is opened

    def restore(self, saved: SavedCuts, lost: Callable[[Storage], bool]) -> None:
        """Tables and views are as they were at the newest checkpoint; what comes from now on is new. `lost`: of a table the
        checkpoint does not say what it was."""
        for name, (taken, storages) in saved.jobs.items():
            self._jobs[name] = JobInbox(self, {str(ObjectPath(*s)): s for s in storages}, taken)
        for storage in self._followed():
            table, before = self._memory.get(ObjectPath(*storage)), saved.tables.get(storage)
            if before is not None and table is not None and not lost(storage):
                cuts = [_Cut(c.number, c.watermark, c.idle, None, c.pieces) for c in before.cuts]
                self._tables[storage] = _Table(table, self._wake, before.since, cuts)

    def made_again(self, saved: SavedCuts, changed: Callable[[Storage, MemoryTable], ChangelogBatch | None]) -> None:
        """Views that did not go on are there: what differs is what comes next.

        Args:
            changed: how the rows of a view differ from those at the checkpoint; None: nobody knows.
        """
        for storage in self._followed():
            table, followed = self._memory.get(ObjectPath(*storage)), self._tables.get(storage)
            before = saved.tables.get(storage)
            if before is None or (followed is not None and followed.table is table):
                continue
            self._tables.pop(storage, None)
            change = None if table is None else changed(storage, table)
            if change is None or table is None or (table.append_only and not change.is_append_only):
                continue
            cuts = [_Cut(c.number, c.watermark, c.idle, None, c.pieces) for c in before.cuts]
            again = self._tables[storage] = _Table(table, self._wake, before.since, cuts)
            again.unwritten = [change] if len(change) else []

    # --- for inboxes

    def has(self, storage: Storage, position: int) -> bool:
        """Whether all changes of a table behind a cut are there."""
        with self._guard:
            followed = self._tables.get(storage)
            return followed is not None and followed.since <= position <= self.cut

    def take(self, inbox: JobInbox, storage: Storage, after: int | None) -> Taken | None:
        """See `Inbox.take`."""
        with self._guard:
            followed, start = self._tables.get(storage), inbox.starts.get(storage) if after is None else None
            if followed is None or (after is None and (start is None or start.number > inbox.limit)):
                return None
            first = start.number if start is not None else -1 if after is None else after
            cuts = [cut for cut in followed.cuts if first < cut.number <= inbox.limit]
        batches = [] if start is None else [ChangelogBatch(rows) for rows in start.rows.rows().to_batches()]
        for cut in cuts:
            batches += read_rows(self._kept.segments(), cut.pieces) if cut.batches is None else cut.batches
        last = cuts[-1] if cuts else start
        return Taken(batches, None if last is None else (last.watermark, last.idle))

    def look(self, inbox: JobInbox) -> None:
        """Before an epoch of a job: make a cut that it waits for. Raises PlanningError E1713 when a view that it follows has
        failed."""
        for storage in inbox.follows.values():
            self._views.check(ObjectPath(*storage))
        if self._fixing is not None or self._is_due(inbox):
            with self._views.lock.only(tuple):
                self._kept.checkpoint_when_due()

    def _is_due(self, inbox: JobInbox) -> bool:
        """Whether a cut is to be made for a job now."""
        return self._waits(inbox) and (inbox.begins or self._kept.checkpoint_age() >= inbox.interval)

    def next_cut_in(self, inbox: JobInbox) -> float | None:
        """Seconds until a job should look for a cut; None: not before it is woken."""
        if self._fixing is not None or self._is_due(inbox):
            return _WRITING_SECONDS
        return inbox.interval - self._kept.checkpoint_age() if self._waits(inbox) else None


def _written(cuts: Sequence[_Cut]) -> list[tuple[SavedCut, list[ChangelogBatch]]]:
    return [(SavedCut(cut.number, cut.watermark, cut.idle), list(cut.batches or ())) for cut in cuts]
