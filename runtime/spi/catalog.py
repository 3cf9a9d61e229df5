"""What a foreign catalog implements: the names that another system knows, for reading its tables under them.

Third parties register a `CatalogFactory` under the entry-point group `sqlengine.catalogs`; its name is the 'type' of
CREATE CATALOG.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from runtime.core.options import Option
from runtime.core.schema import Schema

__all__ = ["CatalogFactory", "CatalogRequest", "ForeignCatalog", "ForeignTable", "KnowsOtherNames", "MakesTables"]


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """A table of a foreign catalog, or one whose columns a connector finds by itself: its columns, the options that CREATE
    TABLE would have (with 'connector'), its primary key, comments of the table and, by name, of columns, and the columns
    by which it is partitioned."""

    schema: Schema
    options: Mapping[str, str]
    primary_key: tuple[str, ...] = ()
    comment: str | None = None
    column_comments: Mapping[str, str] = field(default_factory=dict[str, str])
    partitioned_by: tuple[str, ...] = ()


class ForeignCatalog(Protocol):
    """Databases and tables of another system. Asked each time that a name is used, so what is made there is there at
    once. Raises ConnectorError when the system cannot be reached."""

    @property
    def default_database(self) -> str:
        """The database that USE CATALOG makes the current one."""
        ...

    def databases(self) -> Sequence[str]:
        """The names of its databases."""
        ...

    def tables(self, database: str) -> Sequence[str]:
        """The names of what can be read in a database."""
        ...

    def table(self, database: str, name: str) -> ForeignTable:
        """One of them."""
        ...


@runtime_checkable
class MakesTables(Protocol):
    """A foreign catalog in which databases and tables can be made and changed. Each call raises what the system refuses, and
    then nothing has changed."""

    def create_database(self, name: str) -> None:
        """Make a database of a name that none has."""
        ...

    def drop_database(self, name: str) -> None:
        """Take away a database without tables."""
        ...

    def create_table(self, database: str, name: str, table: ForeignTable) -> None:
        """Make a table with these columns, key and comments; the options are those of CREATE TABLE."""
        ...

    def drop_table(self, database: str, name: str) -> None:
        """Take away a table with its rows."""
        ...

    def change_table(self, database: str, name: str, before: ForeignTable, after: ForeignTable) -> None:
        """ALTER TABLE, one change at a time. A column that has the place and the type of another one is that under another
        name."""
        ...


@runtime_checkable
class KnowsOtherNames(Protocol):
    """A foreign catalog whose tables have more names than those that it lists."""

    def listed(self, name: str) -> str:
        """The name under which a table is listed."""
        ...


@dataclass(frozen=True, slots=True)
class CatalogRequest:
    """What CREATE CATALOG says: the name, and all options of WITH."""

    name: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogFactory:
    """A type of catalog. `open` checks the options, and that the system is there. `options` are for editors and
    documentation, without 'type'."""

    name: str
    document: str
    open: Callable[[CatalogRequest], ForeignCatalog]
    options: tuple[Option[Any], ...] = ()
