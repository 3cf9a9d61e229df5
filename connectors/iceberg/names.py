"""The catalog `iceberg`: databases and tables of a catalog of Iceberg, to be read, written, made and changed.

CREATE CATALOG lake WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = 'lake')
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg import transforms as tr
from pyiceberg.exceptions import NamespaceNotEmptyError
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import Table

from connectors.iceberg.library import loaded, opened, told
from connectors.iceberg.options import DATABASE, TABLE, Address
from connectors.iceberg.types import iceberg_schema, iceberg_type, key_of, schema_of
from runtime.core.errors import CatalogError, OptionError, UnsupportedError, did_you_mean
from runtime.core.schema import Field
from runtime.spi.catalog import ForeignTable

__all__ = ["IcebergNames", "described"]

CONNECTOR = "iceberg"
PARTITIONING = "partitioning"
_PROPERTIES = ("write.", "read.", "commit.", "history.", "gc.", "schema.", "format-version")
_TRANSFORM = re.compile(r"\s*(\w+)\s*(?:\(\s*(?:(\d+)\s*,\s*)?`?([^)`]+?)`?\s*\))?\s*(?:,|$)")
_BY_NAME = {
    "identity": tr.IdentityTransform, "years": tr.YearTransform, "year": tr.YearTransform, "months": tr.MonthTransform,
    "month": tr.MonthTransform, "days": tr.DayTransform, "day": tr.DayTransform, "hours": tr.HourTransform,
    "hour": tr.HourTransform, "void": tr.VoidTransform,
}  # fmt: skip
_WITH_NUMBER = {"bucket": tr.BucketTransform, "truncate": tr.TruncateTransform}


def described(address: Address) -> ForeignTable:
    """A table as Iceberg describes it; raises ConnectorError E3191."""
    return _described(loaded(address))


def _described(table: Table) -> ForeignTable:
    schema, spec = table.schema(), table.spec()
    by_id = {f.field_id: f.name for f in schema.fields}
    identity = tuple(
        by_id[f.source_id]
        for f in spec.fields
        if isinstance(f.transform, tr.IdentityTransform) and f.source_id in by_id
    )
    return ForeignTable(
        schema_of(schema),
        {},
        key_of(schema),
        table.properties.get("comment"),
        {f.name: f.doc for f in schema.fields if f.doc},
        identity,
    )


class IcebergNames:
    """A `ForeignCatalog` in which tables and databases can be made (`MakesTables`).

    Args:
        address: where the catalog is.
        options: those of its tables.
    """

    def __init__(self, address: Address, options: Mapping[str, str], default_database: str) -> None:
        self._address = address
        self._options = options
        self.default_database = default_database
        self._catalog: Any = opened(address)
        with told(address.catalog):
            self._catalog.list_namespaces()

    # --- reading

    def databases(self) -> list[str]:
        """The namespaces: those within others have names with a dot."""
        with told(self._address.catalog):
            return sorted(".".join(names) for names in self._spaces(()))

    def _spaces(self, parent: tuple[str, ...]) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = []
        for names in map(tuple, self._catalog.list_namespaces(parent) if parent else self._catalog.list_namespaces()):
            found.append(names)
            if len(names) == len(parent) + 1 and self._address.type in ("hadoop", "rest"):
                found += self._spaces(names)
        return list(dict.fromkeys(found))

    def tables(self, database: str) -> list[str]:
        with told(self._address.catalog):
            return sorted(names[-1] for names in self._catalog.list_tables(tuple(database.split("."))))

    def table(self, database: str, name: str) -> ForeignTable:
        found = described(self._address.of(database, name))
        options = {**self._options, "connector": CONNECTOR, DATABASE.key: database, TABLE.key: name}
        return ForeignTable(
            found.schema, options, found.primary_key, found.comment, found.column_comments, found.partitioned_by
        )

    # --- making

    def create_database(self, name: str) -> None:
        with told(self._address.catalog):
            self._catalog.create_namespace(tuple(name.split(".")))

    def drop_database(self, name: str) -> None:
        try:
            with told(self._address.catalog):
                self._catalog.drop_namespace(tuple(name.split(".")))
        except NamespaceNotEmptyError as error:
            raise CatalogError(f'database "{name}" is not empty', code="E1405", hint="drop its tables first") from error

    def create_table(self, database: str, name: str, table: ForeignTable) -> None:
        """Raises OptionError for options that a table of Iceberg does not have, UnsupportedError E1616 for types."""
        properties = {k: v for k, v in table.options.items() if k not in ("connector", PARTITIONING)}
        for key in properties:
            if not key.startswith(_PROPERTIES):
                raise OptionError(
                    f"unknown option '{key}' for a table of Iceberg",
                    code="E1503",
                    hint=did_you_mean(
                        key, (PARTITIONING, "write.upsert.enabled", "format-version", "write.format.default")
                    )
                    or f"it takes 'partitioning' and properties of Iceberg: {', '.join(p + '*' for p in _PROPERTIES[:5])}",
                )
        if table.comment:
            properties["comment"] = table.comment
        schema = iceberg_schema(table.schema, table.primary_key, dict(table.column_comments))
        spec = _spec(schema, table.partitioned_by, table.options.get(PARTITIONING, ""))
        with told(f"{database}.{name}"):
            self._catalog.create_table((*database.split("."), name), schema, partition_spec=spec, properties=properties)

    def drop_table(self, database: str, name: str) -> None:
        """The catalog forgets it; a folder of this machine is removed, as Iceberg's own catalogs do."""
        with told(f"{database}.{name}"):
            self._catalog.drop_table((*database.split("."), name))

    def change_table(self, database: str, name: str, before: ForeignTable, after: ForeignTable) -> None:
        """Columns are added at the end, dropped, renamed, made wider or optional, as Iceberg evolves schemas: files stay as they
        are. Properties are set and removed."""
        table = loaded(self._address.of(database, name))
        if after.primary_key != before.primary_key or after.partitioned_by != before.partitioned_by:
            if len(after.primary_key) != len(before.primary_key) or set(after.schema.names) == set(before.schema.names):
                raise UnsupportedError(
                    "the key and the partitions of an Iceberg table cannot be changed here",
                    code="E1627",
                    hint="change them with a tool of Iceberg, such as Spark",
                )
        with told(f"{database}.{name}"):
            _change_columns(table, before, after)
            _change_properties(table, before, after, frozenset((*self._options, "connector", DATABASE.key, TABLE.key)))


def _change_columns(table: Table, before: ForeignTable, after: ForeignTable) -> None:
    renamed = _renamed(before, after)
    old, new = {f.name: f for f in before.schema}, {f.name: f for f in after.schema}
    with table.update_schema() as update:
        for was, now in renamed.items():
            update.rename_column(was, now)
        for name in old:
            if name not in new and name not in renamed:
                update.delete_column(name)
        for name, field in new.items():
            if name in renamed.values():
                continue
            comment = after.column_comments.get(name)
            if name not in old:
                if not field.type.nullable:
                    raise UnsupportedError(
                        f'column "{name}" is NOT NULL, and the rows that are there have no value for it',
                        code="E1627",
                        hint="add it without NOT NULL",
                    )
                numbers = iter(range(10_000, 20_000))
                update.add_column(
                    name, iceberg_type(field.type, lambda numbers=numbers: next(numbers), name), doc=comment
                )
                continue
            was = old[name]
            if not field.type.same_ignoring_nullability(was.type):
                update.update_column(name, field_type=iceberg_type(field.type, lambda: 0, name))
            if field.type.nullable and not was.type.nullable:
                update.make_column_optional(name)
            elif was.type.nullable and not field.type.nullable:
                raise UnsupportedError(
                    f'column "{name}" cannot become NOT NULL: rows that are there may have NULL', code="E1627"
                )
            if comment != before.column_comments.get(name):
                update.update_column(name, doc=comment)


def _renamed(before: ForeignTable, after: ForeignTable) -> dict[str, str]:
    """A column that is in the place of another one, with its type: the same one under another name."""
    if len(before.schema) != len(after.schema):
        return {}
    differ = [(a, b) for a, b in zip(before.schema, after.schema, strict=True) if a.name != b.name]
    match differ:
        case [(Field() as was, Field() as now)] if was.type == now.type:
            return {was.name: now.name}
        case _:
            return {}


def _change_properties(table: Table, before: ForeignTable, after: ForeignTable, ours: frozenset[str]) -> None:
    put = {k: v for k, v in after.options.items() if before.options.get(k) != v}
    gone = [k for k in before.options if k not in after.options]
    for key in (*put, *gone):
        if key in ours or not key.startswith(_PROPERTIES):
            raise OptionError(
                f"option '{key}' is not a property of an Iceberg table",
                code="E1503",
                hint=f"properties begin with {', '.join(_PROPERTIES[:4])}; a hint sets an option for one query",
            )
    if after.comment != before.comment:
        put["comment"] = after.comment or ""
    if put or gone:
        with table.transaction() as changes:
            if put:
                changes.set_properties(put)
            if gone:
                changes.remove_properties(*gone)


def _spec(schema: IcebergSchema, identity: Sequence[str], transforms: str) -> PartitionSpec:
    """PARTITIONED BY, and the option 'partitioning': `bucket(16, id), days(at)`. Raises OptionError."""
    by_name = {f.name: f for f in schema.fields}
    fields: list[PartitionField] = []

    def add(column: str, transform: Any, name: str) -> None:
        if column not in by_name:
            raise OptionError(
                f"option '{PARTITIONING}' names '{column}', which is no column of the table",
                hint=did_you_mean(column, by_name),
            )
        if not transform.can_transform(by_name[column].field_type):
            raise OptionError(
                f"{transform} does not take column {column} of type {by_name[column].field_type}",
                hint="years, months and days take dates and times, hours times, bucket and truncate numbers and texts",
            )
        fields.append(PartitionField(by_name[column].field_id, PARTITION_FIELD_ID_START + len(fields), transform, name))

    for column in identity:
        add(column, tr.IdentityTransform(), column)
    at = 0
    while at < len(transforms.rstrip()):
        found = _TRANSFORM.match(transforms, at)
        if found is None or found.end() == at:
            raise _no_transform(transforms[at:])
        at = found.end()
        word, number, column = found.group(1).lower(), found.group(2), found.group(3)
        if column is None:
            add(found.group(1), tr.IdentityTransform(), found.group(1))
        elif number is not None and word in _WITH_NUMBER:
            add(column, _WITH_NUMBER[word](int(number)), f"{column}_{'trunc' if word == 'truncate' else word}")
        elif number is None and word in _BY_NAME:
            add(column, _BY_NAME[word](), column if word == "identity" else f"{column}_{word.rstrip('s')}")
        else:
            raise _no_transform(found.group(0), word)
    return PartitionSpec(*fields)


def _no_transform(text: str, word: str = "") -> OptionError:
    return OptionError(
        f"option '{PARTITIONING}' has no transform in '{text.strip()}'",
        hint=did_you_mean(word, (*_BY_NAME, *_WITH_NUMBER))
        or "for example 'bucket(16, id), days(at), truncate(4, name)'",
    )
