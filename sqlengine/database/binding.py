"""The session as the binder sees it: what a name in a query reads."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from connectors.memory.lookup import MemoryLookup
from connectors.pushed import PushedSource
from runtime.core.errors import OptionError, Span, UnsupportedError, pointing_at
from runtime.core.options import Options
from runtime.core.rooms import Room
from runtime.expr.function import FunctionRegistry
from runtime.spi.abilities import SupportsTimeTravel
from sqlengine.catalog.objects import CatalogTable, CatalogView, EpochNumber, MaterializedView, OpenTable
from sqlengine.database.session import (
    DYNAMIC_OPTIONS,
    PYTHON_DATABASE,
    PYTHON_INPUT,
    RUNTIME_MODE,
    Session,
    is_system_table,
)
from sqlengine.parse.nodes import FILE_DATABASE
from sqlengine.table_options.memory_tables import check_hinted
from sqlengine.table_options.watermarks import WatermarkOptions

if TYPE_CHECKING:
    import connectors.absent as _absent_tables
    import connectors.memory.followed as _followed_tables
    import sqlengine.database.acting as _acting
    import sqlengine.database.inferred_tables as _inferred_tables
    import sqlengine.database.models as _models
    import sqlengine.database.open_views as _open_views
    import sqlengine.database.past as _past
    import sqlengine.table_options.lookups as _lookups
    import sqlengine.table_options.sources as _sources
    from connectors.absent import AbsentTable
    from connectors.memory import MemoryTable
    from connectors.models.table import ModelTable
    from runtime.spi.source import SourceTable
    from sqlengine.parameters.binding import Parameters
    from sqlengine.roles.authority import Authority
else:
    _absent_tables = Room("connectors.absent")
    _acting = Room("sqlengine.database.acting")
    _followed_tables = Room("connectors.memory.followed")
    _lookups = Room("sqlengine.table_options.lookups")
    _sources = Room("sqlengine.table_options.sources")
    _inferred_tables = Room("sqlengine.database.inferred_tables")
    _models = Room("sqlengine.database.models")
    _open_views = Room("sqlengine.database.open_views")
    _past = Room("sqlengine.database.past")

__all__ = ["Binding", "NamedTable", "noting_tables", "without_known_keys"]


class NamedTable(NamedTuple):
    """A table as a query has opened it: the name that stands for it anywhere, the options of its hint, and the moment as of
    which it is read."""

    path: tuple[str, ...]
    hints: Mapping[str, str]
    opened: OpenTable
    moment: int | EpochNumber | None = None


_noted: ContextVar[list[NamedTable] | None] = ContextVar("noted", default=None)


_keyless: ContextVar[bool] = ContextVar("keyless", default=False)


@contextmanager
def without_known_keys() -> Generator[None]:
    """Meanwhile nobody knows the keys of kept answers."""
    before = _keyless.set(True)
    try:
        yield
    finally:
        _keyless.reset(before)


def _known_keys(found: CatalogTable | MaterializedView) -> tuple[tuple[str, ...], ...]:
    return () if isinstance(found, CatalogTable) or _keyless.get() else found.keys


@contextmanager
def noting_tables() -> Generator[list[NamedTable]]:
    """All tables that are opened meanwhile."""
    found: list[NamedTable] = []
    before = _noted.set(found)
    try:
        yield found
    finally:
        _noted.reset(before)


def _absent(table: CatalogTable, absent: AbsentTable, time: WatermarkOptions) -> OpenTable:
    """A table to plan with, whose connector is not there."""
    if not absent.reads:
        raise UnsupportedError(
            f"connector '{absent.connector}' of {table.path.name} cannot be read",
            code="E1602",
            hint="it is a sink only: INSERT INTO it",
        )
    lookup = absent if absent.looks_up else None
    return OpenTable(table, absent, lookup, time.idle_timeout, time.alignment, time.splits_in_order)


def _as_view(view: MaterializedView) -> CatalogView:
    """A materialized view as the plain view of the same query."""
    return CatalogView(view.path, view.query, view.text, tuple(c.name for c in view.columns))


@dataclass(frozen=True)
class Binding:
    """The session as the binder sees it. `live`: tables in memory are followed (views), else read as they are now
    (queries), changes of the open epoch included."""

    session: Session
    live: bool
    current: tuple[str, str] | None = None
    start: int | None = field(default=None, kw_only=True)
    """The moment (milliseconds since 1970) from which on rows count; None: all do."""
    lasts: bool = field(default=False, kw_only=True)
    """Whether what is followed is followed by a job, which a database in a folder keeps."""
    owner: Authority | None = field(default=None, kw_only=True)
    """Of the view whose query is bound, by whose rights that reads."""

    @property
    def authority(self) -> Authority | None:
        """Who reads; None where nobody is asked."""
        return self.owner or self.session.authority

    @property
    def functions(self) -> FunctionRegistry:
        authority = self.authority
        return self.session.functions if authority is None else _acting.callable_functions(self.session, authority)

    @property
    def options(self) -> Options:
        return self.session.options

    @property
    def parameters(self) -> Parameters | None:
        return self.session.parameters

    @property
    def time_zone(self) -> str:
        return self.session.time_zone

    @property
    def batch(self) -> bool:
        return not self.live and self.session.options.get(RUNTIME_MODE) == "batch"

    @property
    def current_database(self) -> str:
        return self.current[1] if self.current is not None else self.session.catalogs.current_database

    def within(self, view: CatalogView) -> Binding:
        owner = self.owner
        if self.session.authority is not None and not view.temporary:
            owner = _acting.owner_of(self.session, view.path)
        return replace(self, current=(view.path.catalog, view.path.database), owner=owner)

    def _check_read(self, found: CatalogTable | CatalogView | MaterializedView | None, span: Span | None) -> None:
        authority = self.authority
        if authority is not None:
            _acting.check_read(authority, found, span)

    def model(self, path: tuple[str, ...], span: Span | None) -> ModelTable:
        if self.current is not None and len(path) < 3:
            path = (*self.current[: 3 - len(path)], *path)
        found = self.session.catalogs.definition("model", path, span)
        if (authority := self.authority) is not None and not found.temporary:
            _acting.check_model(authority, found.path.parts, span)
        with pointing_at(span):
            return _models.opened_model(found, self.session, self)

    def kept_query(self, path: tuple[str, ...]) -> CatalogView | None:
        if self.current is not None and len(path) < 3:
            path = (*self.current[: 3 - len(path)], *path)
        found = self.session.catalogs.find(self.session.catalogs.qualify(path))
        if not isinstance(found, MaterializedView):
            return None
        self._check_read(found, None)
        return _as_view(found)

    def _stands_for(self, view: MaterializedView, span: Span | None) -> bool:
        """Whether the query of a view answers for it, because of changes of the open epoch."""
        session = self.session
        assert session.epoch is not None
        return _open_views.stands_for_view(
            view.storage, session.views, session.epoch, session.functions, session.time_zone, span
        )

    @property
    def now(self) -> int | None:
        return None if self.live else self.session.clock.now()

    def past(
        self, path: tuple[str, ...], span: Span | None, options: Mapping[str, str], moment: int | EpochNumber
    ) -> OpenTable:
        found = self._past(path, span, options, moment)
        noted = _noted.get()
        if noted is not None:
            noted.append(NamedTable(found.table.path.parts, dict(options), found, moment))
        return found

    def _past(
        self, path: tuple[str, ...], span: Span | None, options: Mapping[str, str], moment: int | EpochNumber
    ) -> OpenTable:
        session = self.session
        if self.current is not None and len(path) < 3:
            path = (*self.current[: 3 - len(path)], *path)
        if is_system_table(path) or session.information_table(path, span) is not None:
            raise _past.no_history(path[-1], "system table", span)
        found = session.catalogs.get(path, span)
        self._check_read(found, span)
        if session.parameters is not None:
            session.parameters.read.append((session.catalogs.qualify(path), found))
        if isinstance(found, CatalogTable) and found.connector is not None:
            then = self._connected(found, options, span)
            if isinstance(then.source, SupportsTimeTravel) and then.source.bounded:
                if isinstance(moment, EpochNumber):
                    raise _past.no_epochs(found.path.name, span)
                return replace(then, source=then.source.as_of(moment), lookup=None)
        check_hinted(found.path.name, "a table of the past", options, span)
        return _past.past_table(found, session, span, moment, live=self.live)

    def resolve(self, path: tuple[str, ...], span: Span | None, options: Mapping[str, str]) -> OpenTable | CatalogView:
        found = self._resolved(path, span, options)
        noted = _noted.get()
        if noted is not None and isinstance(found, OpenTable):
            whole = path if is_system_table(path) else found.table.path.parts
            noted.append(NamedTable(whole, dict(options), found))
        return found

    def _resolved(
        self, path: tuple[str, ...], span: Span | None, options: Mapping[str, str]
    ) -> OpenTable | CatalogView:
        session = self.session
        if is_system_table(path):
            self._check_read(None, span)
            return session.system_table(path[1:], span)
        if path[0] == PYTHON_DATABASE and path[1:2] and path[1] in session.python_tables:
            self._check_begins(path[1], "a table of Python", span)
            return session.python_table(*path[1:])
        if path[0] == FILE_DATABASE and len(path) == 2:
            return self._connected(_inferred_tables.file_table(path[1], options, session, span), {}, span)
        information = session.information_table(path, span, self.current[0] if self.current is not None else None)
        if information is not None:
            return information
        if self.current is not None and len(path) < 3:
            path = (*self.current[: 3 - len(path)], *path)
        found = session.catalogs.get(path, span)
        self._check_read(found, span)
        if session.parameters is not None:
            session.parameters.read.append((session.catalogs.qualify(path), found))
        if isinstance(found, CatalogView):
            check_hinted(found.path.name, "a view", options, span)
            return found
        if options and not session.options.get(DYNAMIC_OPTIONS):
            raise OptionError(
                "OPTIONS hints are switched off", span=span, hint="SET 'table.dynamic-table-options.enabled' = 'true'"
            )
        if isinstance(found, MaterializedView):
            session.views.check(found.path)
            if session.in_epoch and not self.live and self._stands_for(found, span):
                check_hinted(found.path.name, "a view", options, span)
                return _as_view(found)
        if isinstance(found, MaterializedView) or found.connector is None:
            session.views.check(found.path)
            what = "a materialized view" if isinstance(found, MaterializedView) else "a table in memory"
            check_hinted(found.path.name, what, options, span)
            contents = session.memory_table(found)
            table = (
                found
                if isinstance(found, CatalogTable)
                else CatalogTable(found.path, found.columns, primary_key=found.primary_key, measured=found.measured)
            )
            time = WatermarkOptions.read(table, options, session.options)
            return OpenTable(
                table,
                self._followed(found, contents) if self.live else session.snapshot(found),
                MemoryLookup(contents) if found.path in session.harness.declared else None,
                idle_timeout=time.idle_timeout if self.live else 0,
                left_out=self._left_out(found, span),
                known_keys=_known_keys(found),
            )
        pushed = session.inputs.get(found.storage) if found.connector == PYTHON_INPUT else None
        if pushed is not None and self.start is None:
            time = WatermarkOptions.read(found, options, session.options)
            return OpenTable(found, PushedSource(pushed), None, idle_timeout=time.idle_timeout)
        return self._connected(found, options, span)

    def _followed(self, found: CatalogTable | MaterializedView, contents: MemoryTable) -> SourceTable:
        """What is read of a table that is followed."""
        if not self.lasts or self.session.durable is None:
            return contents
        return _followed_tables.FollowedTable(str(found.path), contents)

    def _left_out(self, found: CatalogTable | MaterializedView, span: Span | None) -> SourceTable | None:
        """The rows of a table of the database that were there at the start."""
        if self.start is None:
            return None
        return _past.past_table(found, self.session, span, self.start, live=self.live).source

    def _from_start(self, name: str, connector: str, span: Span | None) -> Mapping[str, str]:
        """The options with which a connector begins at the start. What is asked by key has none."""
        factory = self.session.registry.connectors.get(connector) if self.start is not None else None
        if self.start is None or factory is None or factory.source is None:
            return {}
        if factory.from_moment is None:
            self._check_begins(name, f"connector '{connector}'", span)
            return {}
        return factory.from_moment(self.start)

    def _check_begins(self, name: str, what: str, span: Span | None) -> None:
        """Raise OptionError E1503 where rows count from a moment on, and nobody knows when those of a table came."""
        if self.start is not None:
            raise OptionError(
                f'"{name}" cannot be read from a moment on: {what} does not know when its rows came',
                code="E1503",
                span=span,
                hint="leave START_MODE out, and say in WHERE which rows count",
            )

    def _connected(self, table: CatalogTable, options: Mapping[str, str], span: Span | None) -> OpenTable:
        with pointing_at(span):
            connector = {**table.options, **options}["connector"]
            options = {**options, **self._from_start(table.path.name, connector, span)}
            time = WatermarkOptions.read(table, options, self.session.options)
            request = self.session.request(table, options, for_sink=False)
            absent = _absent_tables.absent_table(request, connector, self.session.registry)
            if absent is not None:
                return _absent(table, absent, time)
            factory = self.session.registry.connectors.get(connector)
            if factory.source is None and factory.lookup is None:
                raise UnsupportedError(
                    f"connector '{factory.name}' of {table.path.name} cannot be read",
                    code="E1602",
                    hint="it is a sink only: INSERT INTO it",
                )
            source = factory.source(request) if factory.source is not None else None
            lookup = factory.lookup(request) if factory.lookup is not None else None
            return OpenTable(
                table,
                source,
                _lookups.looked_up(table, options, source, lookup),
                time.idle_timeout,
                time.alignment,
                time.splits_in_order,
                rate_limit=_sources.read_rate_limit(table, options),
            )
