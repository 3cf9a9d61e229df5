"""The state of an environment: options, catalogs, tables in memory, views, jobs.

And how a name becomes a table that can be read or written.
"""

from __future__ import annotations

import threading
from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from connectors.memory import MemorySink, MemoryTable, OpenChanges, TableSnapshot
from runtime.checkpoint.epoch_state import Restored
from runtime.checkpoint.keys import keys_of
from runtime.core.clock import Clock
from runtime.core.errors import Span, UnsupportedError, pointing_at
from runtime.core.options import Options, bool_option, text_option
from runtime.core.rooms import Room
from runtime.core.schema import Field, Schema
from runtime.core.secrets import refers
from runtime.expr.function import FunctionRegistry
from runtime.local.checkpoints import Checkpoints
from runtime.local.job import Job
from runtime.local.job_settings import JobSettings
from runtime.plan.nodes import PhysicalNode
from runtime.plan.walk import walk_all
from runtime.spi.registry import TableRequest
from runtime.spi.sink import SinkTable
from runtime.spi.source import SourceTable
from sqlengine.catalog.catalog import CatalogObject
from sqlengine.catalog.objects import (
    CatalogTable,
    MaterializedView,
    MetadataColumn,
    ObjectPath,
    OpenTable,
    PhysicalColumn,
)
from sqlengine.database.database import Database, UserFunctionEntry
from sqlengine.database.harness import Harness
from sqlengine.database.open_epoch import OpenEpoch
from sqlengine.database.shown import NotShown, Reading
from sqlengine.database.targets import JobTarget
from sqlengine.database.turns import Part, TurnLock
from sqlengine.options.time_zones import time_zone_name
from sqlengine.table_options.memory_tables import check_hinted
from sqlengine.table_options.watermarks import is_for_connector

if TYPE_CHECKING:
    import connectors.absent as _absent_tables
    import sqlengine.database.acting as _acting
    import sqlengine.database.information_schema as _information_schema
    import sqlengine.database.letters as _letters
    import sqlengine.database.system_tables as _system_tables
    from sqlengine.database.durable import Durable
    from sqlengine.database.information_schema import InformationSchema
    from sqlengine.parameters.binding import Parameters
    from sqlengine.roles.authority import Authority
else:
    _absent_tables = Room("connectors.absent")
    _acting = Room("sqlengine.database.acting")
    _letters = Room("sqlengine.database.letters")
    _system_tables = Room("sqlengine.database.system_tables")
    _information_schema = Room("sqlengine.database.information_schema")

__all__ = [
    "DYNAMIC_OPTIONS",
    "PYTHON_DATABASE",
    "PYTHON_INPUT",
    "RUNTIME_MODE",
    "TIME_ZONE",
    "Session",
    "physical_schema",
]

T = TypeVar("T")

_ATTEMPTS = 3
"""A statement that finds no version of all that it reads so often waits for those who change it."""

TIME_ZONE = text_option("table.local-time-zone", "UTC", "the session's time zone, such as 'UTC' or 'Europe/Berlin'")
RUNTIME_MODE = text_option(
    "execution.runtime-mode",
    "streaming",
    "'streaming', or 'batch' for the batch meaning of queries over input that ends",
    ("streaming", "batch"),
)
DYNAMIC_OPTIONS = bool_option("table.dynamic-table-options.enabled", True, "whether OPTIONS hints are allowed")

SYSTEM_DATABASE = "system"
PYTHON_DATABASE = "$python"
"""Where rows that Python has given are found by number, for tables of the Table API."""
PYTHON_INPUT = "python-input"
"""The connector of tables that a program pushes into."""


class Session:
    """What one user, or one connection, has for itself on a database: options, the current catalog, temporary objects,
    prepared statements, the epoch that is open. Used from one thread at a time; other sessions may be used meanwhile.

    Args:
        database: what it shares with other sessions; one of its own when not given.
    """

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        *,
        database: Database | None = None,
    ) -> None:
        self.database = database or Database(clock)
        self.number = self.database.join(self)
        self.closed = threading.Event()
        self.turn = TurnLock()
        """Held by the statement at hand: another thread that uses the same session waits for its end."""
        self.options = Options({k: str(v) for k, v in (config or {}).items()})
        self.catalogs = self.database.catalogs.for_session()
        self.own_registry = FunctionRegistry()
        """The temporary functions of this session."""
        self.own_functions: dict[str, UserFunctionEntry] = {}
        """The same, as their user has made them, by name in capitals."""
        self.functions = self.database.functions_of(self)
        self.user_functions: Mapping[str, UserFunctionEntry]
        self.user_functions = ChainMap(self.own_functions, self.database.user_functions)
        """Functions that users have made, those of this session first."""
        self.registry = self.database.registry
        self.rejected = self.database.rejected
        self.memory = self.database.memory
        self.inputs = self.database.inputs
        self.jobs = self.database.jobs
        self.views = self.database.views
        self.metrics = self.database.metrics
        self.clock = self.database.clock
        self.python_tables: dict[str, SourceTable] = {}
        """Rows that Python has given, for as long as a table reads them."""
        self.python_keepers: WeakValueDictionary[str, object] = WeakValueDictionary()
        """What keeps those rows while somebody has it, under the same names."""
        self._reading: Reading | None = None
        """What the statement at hand reads; None while it holds the lock of tables in memory."""
        self._filling: tuple[CatalogTable | MaterializedView, MemoryTable] | None = None
        self.epoch: OpenEpoch | None = None
        """What the session has changed since BEGIN EPOCH."""
        self.fresh = False
        """Whether jobs start anew although there are checkpoints of them."""
        self.job_names: Counter[str] = Counter()
        self.harness = Harness()  # What tests change.
        self.information: InformationSchema | None = None  # Set by the environment, which knows how columns are bound.
        self.procedure_context: Callable[[], Any] = lambda: None  # What procedures of users get, from the environment.
        self.authority: Authority | None = None  # On whose behalf it acts; None: of the program that has it.
        self.inserts_in_background = False
        """Whether an INSERT whose input ends is a job in the background, too, where it shares no table in memory."""
        self.queries_follow = False
        """Whether a query that is a stream follows tables in memory and views; otherwise it reads what they are now."""
        self.notes: list[tuple[str, Span | None]] = []
        """What the statement at hand may have got wrong, with the place in its text."""
        self.noted_options: dict[str, str] = {}
        """Options of Flink that were set and change nothing here, with what is to say of them; "" once that was said."""
        self.modules = {"core": True}  # Those that are loaded, in order, and whether each is used.
        self.target = JobTarget(self.metrics)
        self.logged: int | None = None
        """The epoch of the log that has all that the statement at hand has changed; None when nothing tells."""
        self.parameters: Parameters | None = None
        """The values of the statement at hand."""
        self.prepared: dict[str, Any] = {}
        """What PREPARE has made, by name."""
        self.on_job: Callable[[Job], object] | None = None
        """Called with every job of a statement before it runs: for whoever shows progress."""

    def close(self) -> None:
        """The session ends: its open epoch is forgotten, its temporary tables go. Harmless when called again."""
        if not self.closed.is_set():
            self.closed.set()
            self.epoch = None
            self.target.close()
            temporary = [t for t in self.catalogs.temporary_objects() if isinstance(t, CatalogTable)]
            with self.alone(redefines=True) if temporary else nullcontext():
                for table in temporary:
                    if not self.views.dependents(table.storage):
                        self.memory.pop(table.storage, None)
        self.database.leave(self.number)

    @property
    def durable(self) -> Durable | None:
        """Where what is made and changed is kept; None for a database that ends with the process."""
        return self.database.durable

    @property
    def in_epoch(self) -> bool:
        """Whether BEGIN EPOCH has opened an epoch."""
        return self.epoch is not None and not self.epoch.implicit

    # --- versions
    # ---------------------------------------------------------------------------------------------------------

    def at_a_version(self, run: Callable[[], T]) -> T:
        """Have a statement read definitions and tables as they are after the last epoch: nobody waits for it, and it
        waits for nobody. When it cannot have all from one version it begins again, at last with the lock.

        Who has the lock already, or changes of an open epoch, reads with the lock.
        """
        if not self.views.lock.held and not (self.epoch is not None and self.epoch.rows):
            for _ in range(_ATTEMPTS):
                with suppress(NotShown), self._at(Reading(self.database.shown)):
                    return run()
        changed = None if self.epoch is None else self.epoch.storages
        with self.alone(None if changed is None else lambda: self.views.touched(changed)):
            result = run()
            self.database.show()
            return result

    @contextmanager
    def alone(self, part: Part | None = None, *, redefines: bool = False) -> Iterator[None]:
        """While a block changes definitions or tables: it has the lock, and reads what they are at the moment.

        Args:
            part: what it needs of them (`Views.touched`); it sees the others as they were before what is at hand.
            redefines: readers see what it has changed in definitions when it ends.
        """
        with self.views.lock.only(part), self._at(None):
            try:
                yield
            finally:
                if redefines:
                    self.database.show(redefined=True)

    @contextmanager
    def _at(self, reading: Reading | None) -> Iterator[None]:
        before, self._reading = self._reading, reading
        try:
            with self.catalogs.as_of(None if reading is None else reading.shown.catalogs):
                yield
        finally:
            self._reading = before

    def read_anew(self) -> None:
        """A part of the statement begins, which reads the newest version. Raises NotShown when definitions differ."""
        if self._reading is not None:
            reading = Reading(self._reading.shown)
            reading.move(self.database.shown)
            self._reading = reading

    def _complete(self, reading: Reading, table: MemoryTable) -> None:
        """Bring a view that has let changes gather up to date."""
        reading.move(self.database.shown)
        if table in reading.shown.stale:
            with self.views.lock.only(lambda: self.views.below(table)):
                self.views.bring_up_to_date(table)
                self.database.show(caught_up=True)
                reading.move(self.database.shown)

    def snapshot(self, table: CatalogTable | MaterializedView) -> TableSnapshot:
        """What statements read of a table in memory or a view: with the changes of the open epoch.

        Raises PlanningError E1713 when a view has failed with the changes that it had let gather.
        """
        if (reading := self._reading) is None:
            return self.to_read(table).snapshot()
        contents = reading.table(table.storage)
        if contents in reading.shown.stale:
            self._complete(reading, contents)
            self.views.check(table.storage)
        return contents.snapshot(reading.rows(contents))

    @contextmanager
    def without_lock(self) -> Iterator[None]:
        """While a statement computes what it will change: others need not wait, as long as its epoch is not alone, and
        nobody further out relies on the definitions beside a table that it makes."""
        held = self.views.lock.held_once if self._filling is not None else self.views.lock.held
        if not held or (self.epoch is not None and self.epoch.alone):
            yield
            return
        with self.views.lock.given_up():
            yield

    @property
    def time_zone(self) -> str:
        return time_zone_name(self.options.get(TIME_ZONE)) or "UTC"

    def job_settings(self, roots: Sequence[PhysicalNode] = ()) -> JobSettings:
        """What the engine's jobs get, for a plan; `checked`, `restarts`, `job_options` and the cuts are set by tests."""
        options = Options({**self.harness.job_options, **self.options.as_dict()})
        harness, dataflow = self.harness, self.target.dataflow(options, roots)
        return JobSettings(
            options, self.functions, self.time_zone, self.clock, self.rejected, harness.checked, harness.restarts, harness.cut,
            dataflow, self.database.memory_accounts,
        )  # fmt: skip

    def new_job(
        self,
        name: str,
        roots: Sequence[PhysicalNode],
        checkpoints: Checkpoints | None = None,
        savepoint: Restored | None = None,
    ) -> Job:
        """A job of a statement, announced to whoever watches."""
        if _absent_tables:
            _absent_tables.refuse_absent(node.outside for node in walk_all(roots))
        if self.authority is not None:
            self.database.roles.jobs[name] = self.authority.user
        settings = self.job_settings(roots)
        if settings.wants_letters:
            settings = _letters.with_letters(self, settings, roots)
        job = Job(name, roots, settings, checkpoints, savepoint)
        if self.on_job is not None:
            self.on_job(job)
        return job

    @staticmethod
    def forget(job: Job) -> None:
        """A job that was made and shall not run: its readers and sinks are closed."""
        for source in job.inputs:
            source.close()
        job.dataflow.abort()

    def publish(self, tables: Iterable[MemoryTable]) -> None:
        """The changes of tables in memory become visible as one epoch (tests cut them finer), and views follow."""
        if self.in_epoch:
            return
        if self.harness.publish_cut is None:
            for table in tables:
                table.publish()
            if self.durable is None:
                self.views.propagate()
            else:
                self.durable.publish()
            return
        for table in tables:
            for step in table.unpublished(self.harness.publish_cut):
                table.deliver(step)
                self.views.catch_up()
        self.database.show()

    # --- tables

    def memory_table(self, table: CatalogTable | MaterializedView) -> MemoryTable:
        """The contents of a table without connector, or of a materialized view."""
        if self._filling is not None and table is self._filling[0]:
            return self._filling[1]
        if self._reading is not None:
            return self._reading.table(table.storage)
        found = self.memory.get(table.storage)
        if found is None:
            found = self.database.new_table(table, self.options)
            self.database.keep(table.storage, found)
            if self.durable is not None:
                self.durable.follow(table.storage, found)
        return found

    def stored(self, storage: ObjectPath) -> MemoryTable | None:
        """The table that is kept under a path, that of a statement which makes one first."""
        if self._filling is not None and self._filling[0].storage == storage:
            return self._filling[1]
        return self.memory.get(storage)

    @contextmanager
    def filling(self, table: CatalogTable | MaterializedView) -> Iterator[Callable[[MemoryTable], object]]:
        """While a table is made from a query: its name still means what it meant, so that the query may read the table
        that it replaces.

        Its rows take the place of the others when the block ends, or those of the table with which the block has called
        what it is given, and are forgotten when it fails.
        """
        if isinstance(table, CatalogTable) and table.connector is not None:
            yield lambda other: None
            return
        kept = [self.database.new_table(table, self.options)]
        self._filling = table, kept[0]
        try:
            yield kept.append
            self.database.keep(table.storage, kept[-1])
        except BaseException:
            if self.epoch is not None:
                self.epoch.forget(kept[0])
            raise
        finally:
            self._filling = None

    @property
    def makes_table(self) -> bool:
        """Whether the epoch at hand is that of a statement which makes a table in memory from a query."""
        return self._filling is not None and not self.in_epoch

    def to_write(self, table: CatalogTable) -> MemoryTable | OpenChanges:
        """Where the changes of a statement to a table without connector go: those of an open epoch are kept apart."""
        contents = self.memory_table(table)
        epoch, reading = self.epoch, self._reading
        if epoch is None:
            return contents
        with self.database.showing:
            # What others change from the version on that this statement reads may contradict it.
            if reading is not None and not epoch.blind:
                reading.move(self.database.shown)
            return epoch.to_write(table.storage, contents)

    def to_read(self, table: CatalogTable | MaterializedView) -> MemoryTable | OpenChanges:
        """What statements read: the contents with the changes of the open epoch."""
        contents = self.memory_table(table)
        changes = None if self.epoch is None else self.epoch.find(table.storage)
        return contents if changes is None or changes.table is not contents else changes

    def request(self, table: CatalogTable, options: Mapping[str, str], *, for_sink: bool) -> TableRequest:
        """What a connector is told of a table; `options` are those of a hint and win."""
        merged = self.catalogs.with_connection({**table.options, **options}, table.path)
        metadata = tuple(
            (c.name, c.key) for c in table.columns if isinstance(c, MetadataColumn) and not (for_sink and c.virtual)
        )
        request = TableRequest(
            str(table.path),
            physical_schema(table, for_sink=for_sink),
            table.primary_key,
            {k: v for k, v in merged.items() if is_for_connector(k)},
            self.options,
            metadata,
            table.partitioned_by,
            self.time_zone,
            self.registry,
        )
        if self.authority is not None or self.database.outside is not None or refers(request.options):
            return _acting.checked_request(self, table, request, options, writes=for_sink)
        return request

    def open_sink(
        self, table: CatalogTable, options: Mapping[str, str], *, live: bool, span: Span | None = None
    ) -> SinkTable:
        """The table as a sink; raises UnsupportedError when its connector cannot be written."""
        if table.connector is None:
            check_hinted(table.path.name, "a table in memory", options, span)
            return MemorySink(self.memory_table(table) if live else self.to_write(table), live=live)
        with pointing_at(span):
            request = self.request(table, options, for_sink=True)
            absent = _absent_tables.absent_table(request, table.connector, self.registry)
            if absent is not None:
                return absent
            factory = self.registry.connectors.get(table.connector)
            if factory.sink is not None:
                return factory.sink(request)
            raise UnsupportedError(
                f"connector '{table.connector}' of {table.path.name} cannot be written",
                code="E1601",
                hint="INSERT into a table with another connector, for example 'filesystem' or 'print'",
            )

    def python_table(self, name: str, shown: str | None = None) -> OpenTable:
        """Rows that Python has given, as a table; `shown` is the name of a variable."""
        source = self.python_tables[name]
        path = ObjectPath(name if shown else self.catalogs.current_catalog, PYTHON_DATABASE, shown or name)
        return OpenTable(CatalogTable(path, tuple(PhysicalColumn(f.name, f.type) for f in source.schema)), source, None)

    def described(self, path: tuple[str, ...], span: Span | None) -> CatalogObject:
        """A table or view by name, those of the database `system` too."""
        if is_system_table(path):
            return self.system_table(path[1:], span).table
        information = self.information_table(path, span)
        return self.catalogs.get(path, span) if information is None else information.table

    def information_table(self, path: tuple[str, ...], span: Span | None, here: str | None = None) -> OpenTable | None:
        """A table of `information_schema`, of the catalog `here` when the path names none; None for another path, also
        where a database of the user's has that name."""
        if self.information is None or len(path) not in (2, 3) or path[-2] != _information_schema.INFORMATION_SCHEMA:
            return None
        if self.catalogs.find(self.catalogs.qualify(path)) is not None:
            return None
        catalog = path[0] if len(path) == 3 else here or self.catalogs.current_catalog
        schema, rows = self.information.open(catalog, path[-1], span)
        return _information_schema.finished(
            ObjectPath(catalog, _information_schema.INFORMATION_SCHEMA, path[-1]), schema, rows
        )

    def system_table(self, path: tuple[str, ...], span: Span | None) -> OpenTable:
        """`system.rejected` and its kind: what the engine knows of itself, as tables."""
        system = _system_tables.SystemTables(
            self.database,
            lambda: keys_of(self.options),
            lambda: [] if self.durable is None else self.durable.folder.entries(),
        )
        # Figures and state of jobs change with every epoch.
        with nullcontext() if path[0] in ("history", "log", "memory", "metrics", "rejected") else self.views.lock:
            schema, rows = system.open(path, span)
        return _information_schema.finished(
            ObjectPath(self.catalogs.current_catalog, SYSTEM_DATABASE, path[-1]), schema, rows
        )


def is_system_table(path: tuple[str, ...]) -> bool:
    """Whether a name is one of `system.<table>` or `system.state.<job>.<operator>.<table>`."""
    return path[0] == SYSTEM_DATABASE and (len(path) == 2 or path[1:2] == ("state",))


def physical_schema(table: CatalogTable, *, for_sink: bool = False) -> Schema:
    """The columns a connector gives: physical ones, then metadata ones (for a sink without the virtual ones)."""
    fields = [Field(c.name, c.type) for c in table.columns if isinstance(c, PhysicalColumn)]
    fields += [
        Field(c.name, c.type) for c in table.columns if isinstance(c, MetadataColumn) and not (for_sink and c.virtual)
    ]
    return Schema(tuple(fields))
