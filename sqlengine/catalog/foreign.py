"""Catalogs of other systems: names are looked up there when they are used, and nothing can be made or changed."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView
from typing import Any, Generic, TypeVar

from runtime.core.errors import UnsupportedError
from runtime.spi.catalog import ForeignCatalog
from sqlengine.catalog.catalog import Catalog, CatalogObject, Database
from sqlengine.catalog.objects import CatalogTable, ObjectPath, PhysicalColumn

__all__ = ["ForeignNames", "foreign_catalog"]

V = TypeVar("V")


class ForeignNames(dict[str, V], Generic[V]):
    """Things that another system names and that are made when they are asked for. Read only. `values` are none: whoever
    goes through all objects of all catalogs looks for what the engine keeps.

    Args:
        names: gives the names that there are now.
        make: makes the thing of a name.
        system: what it is, for messages: "the catalog of a Spark session".
        hint: what to do in place of a change.
        fold: names that it makes equal are the same name there.
        refusal: what is said of a change.
    """

    def __init__(
        self,
        names: Callable[[], list[str]],
        make: Callable[[str], V],
        system: str,
        hint: str,
        fold: Callable[[str], str] = str,
        refusal: str = "is read only here",
    ) -> None:
        super().__init__()
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
        raise self._read_only()

    def __delitem__(self, name: str) -> None:
        raise self._read_only()

    def _read_only(self) -> UnsupportedError:
        return UnsupportedError(f"{self._system} {self._refusal}", code="E1627", hint=self._hint)


def foreign_catalog(name: str, comment: str | None, options: dict[str, str], inner: ForeignCatalog) -> Catalog:
    """A catalog of an environment whose databases and tables are those of another system. The default database comes
    first."""
    system, hint = f"the catalog \"{name}\" of type '{options['type']}'", "make and change its tables there"

    def table(database: str, called: str) -> CatalogTable:
        found = inner.table(database, called)
        columns = (PhysicalColumn(f.name, f.type, found.column_comments.get(f.name)) for f in found.schema)
        return CatalogTable(
            ObjectPath(name, database, called),
            tuple(columns),
            primary_key=found.primary_key,
            options=found.options,
            comment=found.comment,
        )

    def database(called: str) -> Database:
        objects: ForeignNames[CatalogObject] = ForeignNames(
            lambda: list(inner.tables(called)), lambda found: table(called, found), system, hint
        )
        definitions: ForeignNames[Any] = ForeignNames(list, dict[str, Any]().__getitem__, system, hint)
        return Database(called, objects=objects, definitions=definitions)  # pyright: ignore[reportArgumentType]

    def databases() -> list[str]:
        return sorted(inner.databases(), key=lambda found: (found != inner.default_database, found))

    return Catalog(name, comment, options, ForeignNames(databases, database, system, hint))
