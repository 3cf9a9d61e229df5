"""The catalog `delta`: the tables in a folder, to be read, written, made and changed.

    CREATE CATALOG lake WITH ('type' = 'delta', 'path' = 'lake')

A table is a folder with a log; the folders between are databases. Tables right below the folder are in the database `default`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping

from deltalake import DeltaTable
from deltalake.schema import Field as DeltaField
from deltalake.schema import Schema as DeltaSchema

from connectors.delta.library import loaded, told
from connectors.delta.options import TABLE_PATH, Place
from connectors.delta.types import arrow_schema, schema_of
from runtime.core.errors import CatalogError, OptionError, UnsupportedError, did_you_mean
from runtime.core.schema import Field, Schema
from runtime.spi.catalog import ForeignTable

__all__ = ["DeltaNames", "described"]

CONNECTOR = "delta"
DEFAULT = "default"
_KEY = "sqlengine.primary-key"
_PROPERTIES = ("delta.",)


def described(place: Place) -> ForeignTable:
    """A table as its log describes it; raises ConnectorError E3191."""
    table = loaded(place)
    with told(place):
        data = table.metadata()
        key = tuple(json.loads(data.configuration.get(_KEY) or "[]"))
        comments = {
            f.name: (f.metadata or {})["comment"] for f in table.schema().fields if "comment" in (f.metadata or {})
        }
        schema = Schema(tuple(Field(f.name, f.type.not_null() if f.name in key else f.type) for f in schema_of(table)))
        return ForeignTable(schema, {}, key, data.description or None, comments, tuple(data.partition_columns))


class DeltaNames:
    """A `ForeignCatalog` in which tables and databases can be made (`MakesTables`). `root`: a folder of this machine."""

    default_database = DEFAULT

    def __init__(self, root: str, storage: Mapping[str, str]) -> None:
        self._root = os.path.abspath(root)
        self._storage = dict(storage)

    def databases(self) -> list[str]:
        """`default`, and the folders that are no tables."""
        return sorted({DEFAULT, *(n for n in _folders(self._root) if not _is_table(os.path.join(self._root, n)))})

    def tables(self, database: str) -> list[str]:
        place = self._folder(database)
        return [n for n in _folders(place) if _is_table(os.path.join(place, n))]

    def table(self, database: str, name: str) -> ForeignTable:
        path = self._path(database, name)
        found = described(Place(path))
        options = {**self._storage, "connector": CONNECTOR, TABLE_PATH.key: path}
        return ForeignTable(
            found.schema, options, found.primary_key, found.comment, found.column_comments, found.partitioned_by
        )

    def create_database(self, name: str) -> None:
        os.makedirs(self._folder(name), exist_ok=True)

    def drop_database(self, name: str) -> None:
        try:
            os.rmdir(self._folder(name))
        except OSError as error:
            raise CatalogError(f'database "{name}" is not empty', code="E1405", hint="drop its tables first") from error

    def create_table(self, database: str, name: str, table: ForeignTable) -> None:
        """Raises OptionError for options that a Delta table does not have, UnsupportedError E1616 for types."""
        properties = {k: v for k, v in table.options.items() if k != "connector"}
        for key in properties:
            if not key.startswith(_PROPERTIES):
                raise OptionError(
                    f"unknown option '{key}' for a Delta table",
                    code="E1503",
                    hint=did_you_mean(key, ("delta.enableChangeDataFeed", "delta.appendOnly"))
                    or "it takes properties of Delta: delta.*",
                )
        if table.primary_key:
            properties[_KEY] = json.dumps(table.primary_key)
        place = Place(self._path(database, name))
        with told(place):
            DeltaTable.create(
                place.path,
                _delta_schema(table),
                partition_by=list(table.partitioned_by),
                description=table.comment,
                configuration=properties,
                raise_if_key_not_exists=False,
            )

    def drop_table(self, database: str, name: str) -> None:
        """With its rows."""
        shutil.rmtree(self._path(database, name))

    def change_table(self, database: str, name: str, before: ForeignTable, after: ForeignTable) -> None:
        """Columns are added at the end; properties of Delta are set."""
        place = Place(self._path(database, name))
        table = loaded(place)
        old = list(before.schema)
        if list(after.schema)[: len(old)] != old or after.primary_key != before.primary_key:
            raise UnsupportedError(
                "columns of a Delta table can be added at the end, and not be renamed, dropped or changed",
                code="E1627",
                hint="make another table of it: CREATE TABLE .. AS SELECT",
            )
        added = list(after.schema)[len(old) :]
        if any(not f.type.nullable for f in added):
            raise UnsupportedError(
                f'column "{added[0].name}" is NOT NULL, and the rows that are there have no value for it',
                code="E1627",
                hint="add it without NOT NULL",
            )
        put = {k: v for k, v in after.options.items() if before.options.get(k) != v}
        gone = [k for k in before.options if k not in after.options]
        for key in (*put, *gone):
            if not key.startswith(_PROPERTIES) or key in gone:
                raise OptionError(
                    f"option '{key}' is not a property of a Delta table that can be changed",
                    code="E1503",
                    hint="properties begin with 'delta.'; a hint sets an option for one query",
                )
        with told(place):
            if added:
                table.alter.add_columns(list(_delta_schema(after, {f.name for f in added}).fields))
            if put:
                table.alter.set_table_properties(put)
            if after.comment != before.comment:
                table.alter.set_table_description(after.comment or "")

    def _folder(self, database: str) -> str:
        return self._root if database == DEFAULT else os.path.join(self._root, _checked(database))

    def _path(self, database: str, name: str) -> str:
        return os.path.join(self._folder(database), _checked(name))


def _delta_schema(table: ForeignTable, names: set[str] | None = None) -> DeltaSchema:
    found = DeltaSchema.from_arrow(arrow_schema(table.schema))
    fields: list[DeltaField] = []
    for one in found.fields:
        if names is not None and one.name not in names:
            continue
        comment = table.column_comments.get(one.name)
        fields.append(
            DeltaField(one.name, one.type, nullable=one.nullable, metadata={"comment": comment} if comment else {})
        )
    return DeltaSchema(fields)


def _checked(name: str) -> str:
    if not name or name.startswith((".", "_")) or "/" in name or "\0" in name or os.sep in name:
        raise CatalogError(f'"{name}" is not the name of a folder', code="E1403", hint="use letters, digits and _")
    return name


def _folders(place: str) -> list[str]:
    try:
        names = os.listdir(place)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(n for n in names if not n.startswith((".", "_")) and os.path.isdir(os.path.join(place, n)))


def _is_table(path: str) -> bool:
    return os.path.isdir(os.path.join(path, "_delta_log"))
