"""What many sessions share: catalogs, tables in memory, views, jobs, functions."""

from __future__ import annotations

import _thread
import gc
import itertools
import threading
import weakref
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from connectors.catalogue import standard_registry
from connectors.memory import MemoryTable
from connectors.memory.rows import TableVersion
from connectors.pushed import PushedTable
from runtime.core.clock import Clock, SystemClock
from runtime.core.memory import HeldBeside, MemoryAccount
from runtime.core.metrics import MetricsRegistry
from runtime.core.options import Options
from runtime.core.rooms import Room
from runtime.core.schema import Field, Schema
from runtime.expr.function import AnyFunction, FunctionRegistry
from runtime.expr.library import builtin_functions
from runtime.expr.library.sequence import of_session
from runtime.local.rejected import RejectedRows
from sqlengine.catalog.catalog import Catalogs
from sqlengine.catalog.objects import CatalogTable, MaterializedView, ObjectPath, PhysicalColumn, is_numbered
from sqlengine.database.jobs import Jobs
from sqlengine.database.open_epoch import OpenEpoch
from sqlengine.database.shown import NotShown, Shown
from sqlengine.database.views import Views
from sqlengine.table_options.memory_tables import column_files, history_retention, is_append_only

if TYPE_CHECKING:
    import sqlengine.database.histories as _histories
    import sqlengine.database.memory_accounts as _memory_accounts
    import sqlengine.database.metrics as _metrics
    import sqlengine.database.number_functions as _number_functions
    import sqlengine.database.scheduler as _scheduler
    import sqlengine.database.sequences as _sequences
    import sqlengine.database.table_rules as _table_rules
    import sqlengine.roles.roles as _roles
    from sqlengine.database.durable import Durable
    from sqlengine.database.folder.changes import Definition, Place
    from sqlengine.database.replica_state import FollowedBy, ReplicaState
    from sqlengine.database.session import Session
    from sqlengine.roles.outside import Outside
else:
    _histories = Room("sqlengine.database.histories")
    _memory_accounts = Room("sqlengine.database.memory_accounts")
    _metrics = Room("sqlengine.database.metrics")
    _scheduler = Room("sqlengine.database.scheduler")
    _roles = Room("sqlengine.roles.roles")
    _number_functions = Room("sqlengine.database.number_functions")
    _sequences = Room("sqlengine.database.sequences")
    _table_rules = Room("sqlengine.database.table_rules")

__all__ = ["Database", "UserFunctionEntry"]

_FIRST = 1
"""The number of the session that the database is made for."""


@dataclass(frozen=True)
class UserFunctionEntry:
    """A function that a user has made. `path`: where it is found, `package.module.name`; empty for an object that the
    program has given."""

    function: AnyFunction
    path: str


class _Joined(Protocol):
    """A session, as the database knows it."""

    epoch: OpenEpoch | None


class MemoryAccounts:
    """Who owns the memory of the process. It keeps neither the database nor a job: see `KnownMemory`."""

    def __init__(self, database: Database) -> None:
        self._database = weakref.ref(database)
        self._jobs: dict[weakref.ref[object], None] = {}
        self._beside: list[weakref.WeakMethod[Callable[[], Iterable[HeldBeside]]]] = []

    def add(self, holder: Callable[[], Iterable[HeldBeside]]) -> None:
        """Ask this method, too, as long as its object is there: it holds memory for what is owned by others."""
        self._beside = [known for known in self._beside if known() is not None]
        self._beside.append(weakref.WeakMethod(holder))

    def began(self, job: object) -> None:
        jobs = self._jobs
        jobs[weakref.ref(job, lambda gone: jobs.pop(gone, None))] = None

    def accounts(self) -> list[MemoryAccount]:
        database = self._database()
        jobs = (job for job in (reference() for reference in tuple(self._jobs)) if job is not None)
        holders = [holder for known in self._beside if (holder := known()) is not None]
        return [] if database is None else _memory_accounts.memory_accounts(database, jobs, holders)


class Database:
    """One for any number of sessions, on any threads. The lock of its `views` guards definitions and the tables in memory:
    whoever changes them holds it. Who reads takes what is `shown`, and waits for nobody.

    It ends with the last of its sessions: its jobs are stopped, and sinks publish what they have.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.catalogs = Catalogs()
        self.functions: FunctionRegistry = builtin_functions().child()
        """All functions but those that belong to one session."""
        self.user_functions: dict[str, UserFunctionEntry] = {}
        """Functions that users have made, by name in capitals; `functions` has them, too."""
        self.registry = standard_registry()
        self.rejected = RejectedRows()
        self.memory: dict[ObjectPath, MemoryTable] = {}
        """Rows of tables without connector and of materialized views, by `storage`."""
        self.inputs: dict[ObjectPath, PushedTable] = {}
        """Streams that a program pushes, by `storage` of their tables."""
        self.jobs = Jobs()
        self.views = Views(lambda: self.scheduler, self.clock)
        self.views.on_complete = self.show
        self.views.on_caught_up = lambda: self.show(caught_up=True)
        self.metrics = MetricsRegistry()
        """Where figures of what runs come from: `system.metrics`."""
        self.metrics.add(lambda: _metrics.session_samples(self))
        self.durable: Durable | None = None
        """Where what is made and changed is kept; None for a database that ends with the process."""
        self.shown = Shown(0, self.catalogs.frozen(), {}, {})
        """What readers read: all that there is after the last epoch. Picked up by one read of the attribute."""
        self.showing = threading.Lock()
        """Held for a moment: while `shown` is replaced, and while a statement picks the version that it changes."""
        self._published: dict[MemoryTable, None] = {}
        self._redefined = False
        self._at_hand: int | None = None
        """The number of the epoch at hand, once somebody has asked for it."""
        self.closed = threading.Event()
        self._guard = threading.RLock()
        self._scheduler: _scheduler.Scheduler | None = None
        self._histories: _histories.Histories | None = None
        self.known_roles: _roles.Roles | None = None
        """What `roles` is, once somebody has asked for it."""
        self._sequences: _sequences.Sequences | None = None
        self.replica: ReplicaState | None = None
        self.replicas: set[FollowedBy] = set()
        """Those that follow this database, over the network."""
        """The database that it follows; None: it is one of its own."""
        self.outside: Outside | None = None
        """Which paths and hosts may be reached; None: all."""
        self._numbers = itertools.count(_FIRST)
        self._sessions: dict[int, weakref.ref[_Joined]] = {}
        self._first_was_closed = False
        self.memory_accounts = MemoryAccounts(self)
        """Who owns the memory of the process: `system.memory`."""

    @property
    def scheduler(self) -> _scheduler.Scheduler:
        """Gives turns to jobs and views that compute in the background."""
        with self._guard:
            if self._scheduler is None:
                self._scheduler = _scheduler.Scheduler()
            return self._scheduler

    @property
    def histories(self) -> _histories.Histories:
        """What tables in memory were, and the moments of epochs."""
        with self._guard:
            if self._histories is None:
                self._histories = _histories.Histories(self.clock)
            return self._histories

    @property
    def roles(self) -> _roles.Roles:
        """Who may do what, where sessions act on behalf of somebody."""
        with self._guard:
            if self.known_roles is None:
                self.known_roles = _roles.Roles()
            return self.known_roles

    @property
    def sequences(self) -> _sequences.Sequences:
        """The numbers of identity columns."""
        with self._guard:
            if self._sequences is None:
                self._sequences = _sequences.Sequences(self)
            return self._sequences

    def functions_of(self, session: Session) -> FunctionRegistry:
        """The functions of a session: its temporary ones, those that ask sequences on its behalf, those of all. A view or
        job that goes on with them does not hold the session."""
        known = weakref.ref(session)

        def evaluations() -> Mapping[str, Callable[..., Any]]:
            found = known()
            return {} if found is None else _number_functions.numbers_of(found).evaluations

        asked = of_session(evaluations)
        return FunctionRegistry(ChainMap(session.own_registry.functions, asked, self.functions.functions))

    def forget_rows(self, storage: ObjectPath) -> None:
        """A table is gone, or made anew: it has no rows, which are numbered from the beginning."""
        self.memory.pop(storage, None)
        if self._sequences is not None:
            self._sequences.forget(storage)

    def last_definitions(self) -> dict[Place, Definition]:
        """What the log is to know of numbers when the database is closed."""
        return {} if self._sequences is None else self._sequences.at_end()

    # --- what readers see
    # ---------------------------------------------------------------------------------------------------

    def keep(self, storage: ObjectPath, table: MemoryTable) -> None:
        """A table has its place from now on, once that is shown. Called with the lock held."""
        self.memory[storage] = table
        table.on_publish = self._publish
        self._redefined = True

    def new_table(self, table: CatalogTable | MaterializedView, options: Options) -> MemoryTable:
        """An empty table in memory, or in files where `options` have state there. Nobody else sees it, or what it
        publishes, before it has its place (`keep`)."""
        files = column_files(options)
        schema = Schema(
            tuple(Field(c.name, c.type.materialized()) for c in table.columns if isinstance(c, PhysicalColumn))
        )
        if isinstance(table, MaterializedView):
            made = MemoryTable(str(table.path), schema, files=files)
        else:
            made = MemoryTable(
                str(table.path),
                schema,
                table.primary_key,
                append_only=is_append_only(table),
                history=table.watermark is not None,
                files=files,
            )
            if is_numbered(table):
                self.sequences.follow(table, made)
            if table.constraints:
                made.rules = _table_rules.table_rules(table, self.clock)
        retention = history_retention(table)
        if retention is not None:
            self.histories.keep(made, retention)
        return made

    def _publish(self, table: MemoryTable) -> None:
        with self.showing:
            self._published[table] = None

    def show(self, *, redefined: bool = False, caught_up: bool = False) -> None:
        """An epoch is complete: readers see it from now on. Called with the lock held.

        Args:
            redefined: definitions may have changed.
            caught_up: nothing but views that had let changes gather.
        """
        histories = self._histories
        moment = 0 if histories is None else histories.end_epoch(caught_up=caught_up)
        with self.showing:
            # What somebody changes beside others is shown when that is complete.
            published = [table for table in self._published if not table.settled]
            for table in published:
                del self._published[table]
        stale = self.views.stale()
        shown = before = self.shown
        if redefined or self._redefined:
            self._redefined = False
            shown = shown.redefined(self.catalogs.frozen(), self.memory)
        elif not published and (stale is shown.stale or stale == shown.stale):
            if not self._published:
                self._at_hand = None
            return
        changed = {table: table.held_version() for table in published}
        # What readers of the epoch before were to have found has its number.
        goes_on = caught_up and all(table in before.stale and not table.followed for table in published)
        epoch = before.epoch
        if not goes_on:
            at_hand, self._at_hand = self._at_hand, None
            epoch = self._next_number() if at_hand is None or at_hand < before.epoch else at_hand
        shown = shown.after(changed, stale, epoch=epoch)
        with self.showing:
            self.shown = shown
            for table in published:
                table.show()
            if histories is not None:
                histories.note(published, moment, epoch)
                histories.begin(shown.versions, moment, epoch)

    def epoch_at_hand(self) -> int:
        """The number of the epoch at hand, which readers are shown next. Called with the lock held."""
        if self._at_hand is None:
            self._at_hand = self._next_number()
        return self._at_hand

    @property
    def newest_epoch(self) -> int:
        """The number of the newest epoch, which readers see or are about to."""
        return self.shown.epoch if self._at_hand is None else max(self._at_hand, self.shown.epoch)

    def _next_number(self) -> int:
        # Of an epoch that never was there, before a restart or after this one, no number is that of another.
        return max(self.shown.epoch + 1, self.clock.now())

    def replay(self, number: int) -> None:
        """What is shown next is an epoch of the process before, of that number."""
        self._at_hand = number

    def opened(self, number: int) -> int:
        """All is there that the process before has logged, whose last epoch had a number. Gives that of the epoch which
        readers see first."""
        with self.showing:
            self.shown = replace(self.shown, epoch=max(self.shown.epoch, number))
            self.shown = replace(self.shown, epoch=self._next_number())
            self._at_hand = None
            return self.shown.epoch

    def rows_as_of(self, table: MemoryTable, moment: int) -> TableVersion:
        """The rows of a table that keeps its history, as they were at a moment that is kept and has come. Raises
        NotShown for a table that is not shown."""
        if self.histories.is_to_come(moment):
            with self.views.lock:
                pass
        with self.showing:
            history = self.histories.of(table)
            if history is None or table not in self.shown.versions:
                raise NotShown
            now, since = self.shown.versions[table], history.since(moment)
        return history.rows_before(now, since)

    def rows_after_epoch(self, table: MemoryTable, epoch: int) -> TableVersion | None:
        """The rows of a table that keeps its history, as they were at the end of an epoch that is shown; None: nobody knows.
        Raises NotShown for a table that is not shown."""
        with self.showing:
            history = self.histories.of(table)
            if history is None or table not in self.shown.versions:
                raise NotShown
            now, since = self.shown.versions[table], history.since_epoch(epoch, self.shown.epoch, self.histories.now())
        return None if since is None else history.rows_before(now, since)

    # --- sessions
    # -----------------------------------------------------------------------------------------------------------

    def join(self, session: _Joined) -> int:
        """A session begins; gives its number. One that nobody has any more, and nobody has closed, keeps the database no
        longer."""
        with self._guard:
            number = next(self._numbers)
            self._sessions[number] = weakref.ref(session)
        # What is to be called stays until the session goes, and the database may hold that.
        weakref.finalize(session, _forget, weakref.ref(self), number).atexit = False
        return number

    @property
    def open_epochs(self) -> dict[int, OpenEpoch]:
        """What sessions have changed and nobody else sees, by their numbers. From any thread."""
        joined = ((number, reference()) for number, reference in tuple(self._sessions.items()))
        return {
            number: session.epoch for number, session in joined if session is not None and session.epoch is not None
        }

    def forget(self, number: int) -> None:
        """A session that nobody has any more, and nobody has closed, keeps the database no longer. A job goes on of which
        the program has kept nothing; but once the first session was closed, the database ends with the last of the others.

        It is told while memory is collected, at any place of any thread; so the database is closed by another one.
        """
        with self._guard:
            self._sessions.pop(number, None)
            last = self._first_was_closed and self._ends()
        if last:
            _thread.start_new_thread(self._close, ())

    def leave(self, number: int) -> None:
        """A session has ended; with the last one the database does. Harmless when called again."""
        if number == _FIRST:
            self._first_was_closed = True
            if len(self._sessions) > 1:
                # The others may be such that nobody has any more.
                gc.collect()
        with self._guard:
            self._sessions.pop(number, None)
            last = self._ends()
        if last:
            self._close()

    def _ends(self) -> bool:
        """Whether no session is left; true once."""
        last = not self._sessions and not self.closed.is_set()
        if last:
            self.closed.set()
        return last

    def _close(self) -> None:
        active = self.jobs.active()
        for running in active:
            running.job.cancel()
        for running in active:
            running.stop()
        for ended in list(self.jobs.jobs.values()):
            if ended.failure is not None:
                ended.failure.__traceback__ = None
        try:
            if self.durable is not None:
                with self.views.lock:
                    self.durable.close()
        finally:
            self.views.close()
            for table in self.inputs.values():
                table.close("the environment was closed: push before that")


def _forget(reference: weakref.ref[Database], number: int) -> None:
    database = reference()
    if database is not None:
        database.forget(number)
