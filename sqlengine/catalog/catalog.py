"""Catalogs, databases and the objects in them, and how a name finds its object.

Temporary objects shadow permanent ones of the same name, as in Flink. Names are case-sensitive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, cast

from runtime.core.errors import BindError, CatalogError, Span, did_you_mean
from sqlengine.catalog.objects import CatalogTable, CatalogView, MaterializedView, ObjectPath

if TYPE_CHECKING:
    from sqlengine.catalog.definitions import NamedDefinition

__all__ = ["CONNECTION", "Catalog", "CatalogObject", "Catalogs", "Database", "TableMaker"]

CatalogObject = CatalogTable | CatalogView | MaterializedView

CONNECTION = "connection"
"""The option of a table or model that names a connection, and what SQL calls that."""
DEFAULT_CATALOG = "default_catalog"
DEFAULT_DATABASE = "default_database"


class TableMaker(Protocol):
    """Makes tables in a database of another system."""

    def create(self, table: CatalogTable) -> CatalogTable:
        """Make a table there. Gives it as the catalog has it from now on."""
        ...

    def drop(self, table: CatalogTable) -> None:
        """Take away what `create` has just made."""
        ...


@dataclass(slots=True)
class Database:
    """A name space of tables and views."""

    name: str
    comment: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    objects: dict[str, CatalogObject] = field(default_factory=dict)
    definitions: dict[tuple[str, str], NamedDefinition] = field(default_factory=dict)
    """Models, connections and procedures, by kind and name."""
    elsewhere: TableMaker | None = None
    """Of a database of another system in which tables can be made: what makes them."""


@dataclass(slots=True)
class Catalog:
    """A set of databases. `options['type']` is `generic_in_memory`, or `file` for one whose definitions are kept in a
    `file`."""

    name: str
    comment: str | None = None
    options: dict[str, str] = field(default_factory=lambda: {"type": "generic_in_memory"})
    databases: dict[str, Database] = field(default_factory=lambda: {"default": Database("default")})
    file: object | None = None
    """What keeps the definitions; known to the statements that do so."""


class Catalogs:
    """All catalogs, as a session sees them: with its current catalog and database, and its temporary objects."""

    def __init__(self, catalogs: dict[str, Catalog] | None = None) -> None:
        self._catalogs = catalogs or {
            DEFAULT_CATALOG: Catalog(DEFAULT_CATALOG, databases={DEFAULT_DATABASE: Database(DEFAULT_DATABASE)})
        }
        self._shared = self._catalogs
        self._temporary: dict[ObjectPath, CatalogObject] = {}
        self._temporary_definitions: dict[tuple[str, ObjectPath], NamedDefinition] = {}
        self.current_catalog = DEFAULT_CATALOG
        self.current_database = DEFAULT_DATABASE
        self.sees: Callable[[str, tuple[str, ...]], bool] | None = None
        """Whether whoever acts may know of something, by its kind and its whole name; None: of everything."""
        self.beyond: Callable[[tuple[str, ...]], ObjectPath | None] = lambda parts: None
        """Where else a written name is looked up that is none here."""

    def for_session(self) -> Catalogs:
        """The same catalogs for another session: with no temporary objects, in the default database."""
        made = Catalogs(self._shared)
        made.beyond = self.beyond
        return made

    @contextmanager
    def as_of(self, catalogs: Mapping[str, Catalog] | None) -> Iterator[None]:
        """For the time of a block, names find what other catalogs hold (None: those that sessions share, as they are
        now); temporary objects and current names stay."""
        before, self._catalogs = (
            self._catalogs,
            self._shared if catalogs is None else cast("dict[str, Catalog]", catalogs),
        )
        try:
            yield
        finally:
            self._catalogs = before

    def frozen(self) -> Mapping[str, Catalog]:
        """The catalogs as they are now, which later changes leave as they are. Catalogs of other systems are asked each
        time."""
        return {name: _frozen(catalog) for name, catalog in self._catalogs.items()}

    def temporary_objects(self) -> list[CatalogObject]:
        """Those of this session."""
        return list(self._temporary.values())

    # --- names
    # ------------------------------------------------------------------------------------------------------------

    def qualify(self, parts: tuple[str, ...]) -> ObjectPath:
        """The full path of a one- to three-part name."""
        match parts:
            case (name,):
                return ObjectPath(self.current_catalog, self.current_database, name)
            case (database, name):
                return ObjectPath(self.current_catalog, database, name)
            case (catalog, database, name):
                return ObjectPath(catalog, database, name)
            case _:
                raise BindError(
                    f"a table name has one to three parts, not {len(parts)}: {'.'.join(parts)}",
                    code="E1202",
                    hint="write catalog.database.table",
                )

    def find(self, path: ObjectPath) -> CatalogObject | None:
        """The object of a path, temporary ones first; None when there is none."""
        temporary = self._temporary.get(path)
        if temporary is not None:
            return temporary
        catalog = self._catalogs.get(path.catalog)
        database = catalog.databases.get(path.database) if catalog else None
        return database.objects.get(path.name) if database else None

    def twin(self, thing: CatalogObject, span: Span | None = None) -> CatalogObject | None:
        """What is in the place that an object would take; a temporary object and a permanent one do not share a
        place."""
        home = self._home(thing, span)
        return home.get(thing.path if home is self._temporary else thing.path.name)  # type: ignore[arg-type, call-overload]

    def get(self, parts: tuple[str, ...], span: Span | None = None, what: str = "table") -> CatalogObject:
        """The object of a written name; raises BindError E1202 with near names, those of its kind where `what` says more
        than "table": "stored table", "view", "materialized view"
        or "any view"."""
        path = self.qualify(parts)
        found = self.find(path)
        if found is None and (further := self.beyond(parts)) is not None:
            found = self.find(further)
        if found is None:
            raise BindError(
                f'unknown {what.rpartition("stored ")[2].removeprefix("any ")} "{".".join(parts)}"',
                code="E1202",
                span=span,
                hint=self._near(path, parts, what),
            )
        return found

    def _near(self, path: ObjectPath, parts: tuple[str, ...], what: str) -> str:
        """What to do about a name that is none: the first part of it that is wrong."""
        if path.catalog not in self._catalogs:
            near = did_you_mean(path.catalog, self._catalogs) or "SHOW CATALOGS lists them"
            return f'there is no catalog "{path.catalog}"; {near}'
        databases = self._catalogs[path.catalog].databases
        if len(parts) > 1 and path.database not in databases:
            near = did_you_mean(path.database, databases) or "SHOW DATABASES lists them"
            return f'there is no database "{path.database}"; {near}'
        kinds: dict[str, tuple[type[CatalogObject], ...]] = {
            "stored table": (CatalogTable,),
            "view": (CatalogView,),
            "any view": (CatalogView, MaterializedView),
            "materialized view": (MaterializedView,),
            "materialized table": (MaterializedView,),
        }
        objects = self.seen_objects(path.catalog, path.database)
        names = [o.path.name for o in objects if isinstance(o, kinds.get(what, (object,)))]
        near = did_you_mean(path.name, names)
        if near is not None:
            return near
        if what == "table":
            return f"CREATE TABLE {path.name} (...) first; SHOW TABLES lists what there is"
        kind = what.removeprefix("stored ").removeprefix("any ")
        return f"there is no {kind} in this database" if not names else f"SHOW {kind.upper()}S lists them"

    # --- objects
    # ----------------------------------------------------------------------------------------------------------

    def objects(self, catalog: str | None = None, database: str | None = None) -> list[CatalogObject]:
        """The objects of a database, temporary ones shadowing, by name."""
        catalog = catalog or self.current_catalog
        database = database or self.current_database
        home = self._catalogs.get(catalog)
        found = dict(home.databases[database].objects) if home and database in home.databases else {}
        for path, thing in self._temporary.items():
            if path.catalog == catalog and path.database == database:
                found[path.name] = thing
        return [found[name] for name in sorted(found)]

    def seen_objects(self, catalog: str | None = None, database: str | None = None) -> list[CatalogObject]:
        """Those of which whoever acts may know."""
        found, sees = self.objects(catalog, database), self.sees
        if sees is None:
            return found
        return [o for o in found if getattr(o, "temporary", False) or sees("table", o.path.parts)]

    def seen_definitions(self, kind: str, catalog: str, database: str) -> list[NamedDefinition]:
        """The same of models, connections and procedures."""
        found, sees = self.definitions(kind, catalog, database), self.sees
        return found if sees is None else [d for d in found if d.temporary or sees(kind, d.path.parts)]

    def seen_databases(self, catalog: str, span: Span | None = None) -> dict[str, Database]:
        """The same of the databases of a catalog, by name; the current one is always among them."""
        found, sees, here = (
            self.catalog(catalog, span).databases,
            self.sees,
            (self.current_catalog, self.current_database),
        )
        return {
            n: found[n] for n in sorted(found) if sees is None or (catalog, n) == here or sees("database", (catalog, n))
        }

    def seen_catalogs(self) -> list[Catalog]:
        """The same of catalogs."""
        sees = self.sees
        return [
            c for c in self.catalogs() if sees is None or c.name == self.current_catalog or sees("catalog", (c.name,))
        ]

    def all_objects(self) -> Iterable[CatalogObject]:
        for catalog in self._catalogs.values():
            for database in catalog.databases.values():
                yield from database.objects.values()
        yield from self._temporary.values()

    def create(
        self, thing: CatalogObject, *, if_not_exists: bool = False, replace: bool = False, span: Span | None = None
    ) -> bool:
        """Add an object; False when it is there already and `if_not_exists`."""
        home = self._home(thing, span)
        key = thing.path if home is self._temporary else thing.path.name
        if key in home and not replace:
            if if_not_exists:
                return False
            raise CatalogError(
                f'"{thing.path.name}" exists already',
                code="E1401",
                span=span,
                hint="use IF NOT EXISTS, or DROP it first",
            )
        home[key] = thing  # type: ignore[index]
        return True

    def replace(self, thing: CatalogObject) -> None:
        """Put a changed object in the place of the one of the same path."""
        home = self._home(thing)
        home[thing.path if home is self._temporary else thing.path.name] = thing  # type: ignore[index]

    def maker(self, table: CatalogTable) -> TableMaker | None:
        """What makes a table in the database of another system; None for a place of the engine's own."""
        catalog = None if table.temporary else self._catalogs.get(table.path.catalog)
        database = catalog.databases.get(table.path.database) if catalog is not None else None
        return database.elsewhere if database is not None else None

    def remove(self, thing: CatalogObject) -> None:
        home = self._home(thing)
        del home[thing.path if home is self._temporary else thing.path.name]  # type: ignore[arg-type]

    def _home(
        self, thing: CatalogObject, span: Span | None = None
    ) -> dict[ObjectPath, CatalogObject] | dict[str, CatalogObject]:
        if getattr(thing, "temporary", False):
            return self._temporary
        return self.database(thing.path.catalog, thing.path.database, span).objects

    # --- models, connections and procedures
    # --------------------------------------------------------------------------------------------------------

    def definition(self, kind: str, parts: tuple[str, ...], span: Span | None = None) -> NamedDefinition:
        """The model, connection or procedure of a written name; raises CatalogError E1450 with near names."""
        path = self.qualify(parts)
        found = self.find_definition(kind, path)
        if found is None:
            known = [d.path.name for d in self.definitions(kind, path.catalog, path.database)]
            raise CatalogError(
                f'there is no {kind} "{".".join(parts)}"',
                code="E1450",
                span=span,
                hint=did_you_mean(path.name, known) or f"SHOW {kind.upper()}S lists them",
            )
        return found

    def find_definition(self, kind: str, path: ObjectPath) -> NamedDefinition | None:
        """The model, connection or procedure of a path, temporary ones first."""
        temporary = self._temporary_definitions.get((kind, path))
        if temporary is not None:
            return temporary
        catalog = self._catalogs.get(path.catalog)
        database = catalog.databases.get(path.database) if catalog else None
        return database.definitions.get((kind, path.name)) if database else None

    def twin_definition(self, thing: NamedDefinition, span: Span | None = None) -> NamedDefinition | None:
        """What is in the place that a definition would take; raises CatalogError for a place that is not there."""
        if thing.temporary:
            return self._temporary_definitions.get((thing.kind, thing.path))
        return self.database(thing.path.catalog, thing.path.database, span).definitions.get(thing.key)

    def define(self, thing: NamedDefinition) -> None:
        """Put a model, connection or procedure in its place, or in that of another one of its name."""
        if thing.temporary:
            self._temporary_definitions[thing.kind, thing.path] = thing
        else:
            self.database(thing.path.catalog, thing.path.database).definitions[thing.key] = thing

    def undefine(self, thing: NamedDefinition) -> None:
        """Take a model, connection or procedure away."""
        if thing.temporary:
            del self._temporary_definitions[thing.kind, thing.path]
        else:
            del self.database(thing.path.catalog, thing.path.database).definitions[thing.key]

    def definitions(self, kind: str, catalog: str, database: str) -> list[NamedDefinition]:
        """Those of a database, by name."""
        home = self._catalogs.get(catalog)
        kept = home.databases[database].definitions.values() if home and database in home.databases else ()
        found = {d.path.name: d for d in kept if d.kind == kind}
        for (of, path), thing in self._temporary_definitions.items():
            if of == kind and (path.catalog, path.database) == (catalog, database):
                found[path.name] = thing
        return [found[name] for name in sorted(found)]

    def with_connection(self, options: Mapping[str, str], home: ObjectPath) -> dict[str, str]:
        """Options with those of the connection that they name, which they win over. A name of fewer than three parts
        is one in the database of `home`. Raises CatalogError E1450 for a connection that is not there."""
        merged = dict(options)
        name = merged.pop(CONNECTION, None)
        if name is None:
            return merged
        parts = tuple(name.split("."))
        whole = (*(home.catalog, home.database)[: max(0, 3 - len(parts))], *parts)
        return {**self.definition(CONNECTION, whole).options, **merged}

    # --- databases and catalogs
    # -------------------------------------------------------------------------------------------

    def catalog(self, name: str, span: Span | None = None) -> Catalog:
        if name not in self._catalogs:
            raise CatalogError(
                f'unknown catalog "{name}"', code="E1402", span=span, hint=did_you_mean(name, self._catalogs)
            )
        return self._catalogs[name]

    def put_catalog(self, catalog: Catalog) -> None:
        """Put a catalog in the place of the one of its name, if there is one."""
        self._catalogs[catalog.name] = catalog

    def catalogs(self) -> list[Catalog]:
        return [self._catalogs[n] for n in sorted(self._catalogs)]

    def database(self, catalog: str, name: str, span: Span | None = None) -> Database:
        databases = self.catalog(catalog, span).databases
        if name not in databases:
            raise CatalogError(
                f'unknown database "{name}"', code="E1403", span=span, hint=did_you_mean(name, databases)
            )
        return databases[name]

    def create_catalog(self, catalog: Catalog, *, if_not_exists: bool = False, span: Span | None = None) -> bool:
        """Add a catalog; False when it is there already and `if_not_exists`."""
        if catalog.name in self._catalogs:
            if if_not_exists:
                return False
            raise CatalogError(
                f'catalog "{catalog.name}" exists already', code="E1401", span=span, hint="use IF NOT EXISTS"
            )
        self._catalogs[catalog.name] = catalog
        return True

    def drop_catalog(self, name: str, *, if_exists: bool = False, span: Span | None = None) -> None:
        if name not in self._catalogs and if_exists:
            return
        self.catalog(name, span)
        if name == self.current_catalog:
            raise CatalogError(
                f'"{name}" is the current catalog', code="E1404", span=span, hint="USE CATALOG another one first"
            )
        del self._catalogs[name]

    def create_database(
        self, catalog: str, database: Database, *, if_not_exists: bool = False, span: Span | None = None
    ) -> None:
        databases = self.catalog(catalog, span).databases
        if database.name in databases:
            if if_not_exists:
                return
            raise CatalogError(
                f'database "{database.name}" exists already', code="E1401", span=span, hint="use IF NOT EXISTS"
            )
        databases[database.name] = database

    def drop_database(
        self, catalog: str, name: str, *, if_exists: bool = False, cascade: bool = False, span: Span | None = None
    ) -> list[CatalogObject]:
        """Remove a database; gives the objects that went with it."""
        databases = self.catalog(catalog, span).databases
        if name not in databases and if_exists:
            return []
        found = self.database(catalog, name, span)
        if (found.objects or found.definitions) and not cascade:
            raise CatalogError(
                f'database "{name}" is not empty',
                code="E1405",
                span=span,
                hint="drop its tables, views, models and connections first, or DROP DATABASE ... CASCADE",
            )
        if (catalog, name) == (self.current_catalog, self.current_database):
            raise CatalogError(
                f'"{name}" is the current database', code="E1404", span=span, hint="USE another one first"
            )
        del databases[name]
        return list(found.objects.values())

    def use_catalog(self, name: str, span: Span | None = None) -> None:
        catalog = self.catalog(name, span)
        self.current_catalog = name
        self.current_database = next(iter(catalog.databases), "default")

    def use_database(self, catalog: str, name: str, span: Span | None = None) -> None:
        self.database(catalog, name, span)
        self.current_catalog, self.current_database = catalog, name


def _frozen(catalog: Catalog) -> Catalog:
    if type(catalog.databases) is not dict:
        return catalog
    databases = {
        name: replace(database, objects=dict(database.objects), definitions=dict(database.definitions))
        for name, database in catalog.databases.items()
    }
    return replace(catalog, databases=databases)
