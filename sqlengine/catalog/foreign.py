"""Catalogs of other systems: names are looked up there when they are used; what can be made or changed is up to them."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from runtime.core.errors import UnsupportedError
from runtime.core.schema import Field, Schema
from runtime.core.secrets import refers
from runtime.spi.catalog import ForeignCatalog, ForeignTable, KnowsOtherNames, MakesTables
from sqlengine.catalog.catalog import Catalog, CatalogObject, Database
from sqlengine.catalog.objects import CatalogTable, ObjectPath, PhysicalColumn

__all__ = ["ForeignNames", "foreign_catalog"]

V = TypeVar("V")
T = TypeVar("T", contravariant=True)


class Changes(Protocol[T]):
    """How things of another system are made, changed and taken away."""

    def put(self, name: str, before: T | None, after: T) -> bool:
        """Make (`before` is None) or change one; False where that cannot be done there."""
        ...

    def remove(self, name: str) -> None:
        """Take one away."""
        ...


class ForeignNames(dict[str, V], Generic[V]):
    """Things that another system names and that are made when they are asked for. Read only. `values` are none: whoever
    goes through all objects of all catalogs looks for what the engine keeps.

    Args:
        names: gives the names that there are now.
        make: makes the thing of a name.
        system: what it is, for messages: "the catalog of a Spark session".
        hint: what to do in place of a change.
        fold: names that it makes equal are the same name there.
        refusal: what is said of a change that cannot be made.
        changes: makes those that can.
    """

    def __init__(
        self,
        names: Callable[[], list[str]],
        make: Callable[[str], V],
        system: str,
        hint: str,
        fold: Callable[[str], str] = str,
        refusal: str = "is read only here",
        changes: Changes[V] | None = None,
    ) -> None:
        super().__init__()
        self._changes = changes
        self._fold = fold
        self._refusal = refusal
        self._names = names
        self._make = make
        self._system = system
        self._hint = hint

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._fold(name) in map(self._fold, self._names())

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __getitem__(self, name: str) -> V:
        if name not in self:
            raise KeyError(name)
        return self._make(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self._make(name) if name in self else default

    def keys(self) -> KeysView[str]:
        return dict.fromkeys(self._names()).keys()

    def items(self) -> ItemsView[str, V]:
        return {name: self._make(name) for name in self._names()}.items()

    def __setitem__(self, name: str, thing: V) -> None:
        if self._changes is None or not self._changes.put(name, self.get(name), thing):
            raise self._read_only()

    def __delitem__(self, name: str) -> None:
        if self._changes is None:
            raise self._read_only()
        self._changes.remove(name)

    def _read_only(self) -> UnsupportedError:
        return UnsupportedError(f"{self._system} {self._refusal}", code="E1627", hint=self._hint)


def foreign_catalog(name: str, comment: str | None, options: dict[str, str], inner: ForeignCatalog) -> Catalog:
    """A catalog of an environment whose databases and tables are those of another system. The default database comes
    first."""
    system, hint = f"the catalog \"{name}\" of type '{options['type']}'", "make and change its tables there"
    makes = inner if isinstance(inner, MakesTables) else None
    refusal = "is read only here" if makes is None else "does not take this from here"
    written = {key: value for key, value in options.items() if refers({key: value})}

    def table(database: str, called: str) -> CatalogTable:
        found = inner.table(database, called)
        columns = (PhysicalColumn(f.name, f.type, found.column_comments.get(f.name)) for f in found.schema)
        # References to secrets stay references.
        return CatalogTable(
            ObjectPath(name, database, called),
            tuple(columns),
            primary_key=found.primary_key,
            partitioned_by=found.partitioned_by,
            options={key: written.get(key, value) for key, value in found.options.items()},
            comment=found.comment,
        )

    fold = inner.listed if isinstance(inner, KnowsOtherNames) else str

    def database(called: str) -> Database:
        objects: ForeignNames[CatalogObject] = ForeignNames(
            lambda: list(inner.tables(called)),
            lambda found: table(called, found),
            system,
            hint,
            fold,
            refusal=refusal,
            changes=None if makes is None else _Tables(makes, called),
        )
        definitions: ForeignNames[Any] = ForeignNames(list, dict[str, Any]().__getitem__, system, hint)
        elsewhere = None if makes is None else _Maker(makes, table)
        return Database(called, objects=objects, definitions=definitions, elsewhere=elsewhere)  # pyright: ignore[reportArgumentType]

    def databases() -> list[str]:
        return sorted(inner.databases(), key=lambda found: (found != inner.default_database, found))

    changes = None if makes is None else _Databases(makes)
    found: ForeignNames[Database] = ForeignNames(databases, database, system, hint, refusal=refusal, changes=changes)
    return Catalog(name, comment, options, found)


@dataclass(frozen=True)
class _Databases:
    inner: MakesTables

    def put(self, name: str, before: Database | None, after: Database) -> bool:
        if before is None:
            self.inner.create_database(name)
        return before is None

    def remove(self, name: str) -> None:
        self.inner.drop_database(name)


@dataclass(frozen=True)
class _Tables:
    inner: MakesTables
    database: str

    def put(self, name: str, before: CatalogObject | None, after: CatalogObject) -> bool:
        if not isinstance(before, CatalogTable) or not isinstance(after, CatalogTable):
            return False
        self.inner.change_table(self.database, name, _told(before), _told(after))
        return True

    def remove(self, name: str) -> None:
        self.inner.drop_table(self.database, name)


@dataclass(frozen=True)
class _Maker:
    """See `sqlengine.catalog.catalog.TableMaker`."""

    inner: MakesTables
    table: Callable[[str, str], CatalogTable]

    def create(self, table: CatalogTable) -> CatalogTable:
        self.inner.create_table(table.path.database, table.path.name, _told(table))
        return self.table(table.path.database, table.path.name)

    def drop(self, table: CatalogTable) -> None:
        self.inner.drop_table(table.path.database, table.path.name)


def _told(table: CatalogTable) -> ForeignTable:
    """A table as the other system is told of it. Raises UnsupportedError E1627 for what it could not keep."""
    if table.watermark is not None or any(not isinstance(c, PhysicalColumn) for c in table.columns):
        raise UnsupportedError(
            f'"{table.path.name}" has a watermark, or computed or metadata columns, which the catalog of another system does not '
            "keep",
            code="E1627",
            hint="make a view over it, or a temporary table LIKE it with the watermark",
        )
    columns = [c for c in table.columns if isinstance(c, PhysicalColumn)]
    return ForeignTable(
        Schema(tuple(Field(c.name, c.type) for c in columns)),
        table.options,
        table.primary_key,
        table.comment,
        {c.name: c.comment for c in columns if c.comment},
        table.partitioned_by,
    )
