"""The database `information_schema` of every catalog: what it holds, as tables, by the names of the SQL standard.

    schemata           databases
    tables             tables and views: their kind, connector and comment
    columns            the columns of both: type, kind, expression, comment
    views              views and materialized views, and their queries
    key_column_usage   the columns of primary keys
    table_options      what stands in WITH; secrets are masked
    routines           functions: how they are called and what they do
    sequences          sequences, and those of numbered columns: their numbers

`information_schema.tables` is that of the current catalog, `c.information_schema.tables` that of another one. A view
whose query can no longer be bound has no rows in `columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from connectors.memory import TableSnapshot
from runtime.core.errors import BindError, Span, SqlEngineError, did_you_mean
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.secrets import masked_sql, shown_value
from runtime.core.types import BIGINT, BOOLEAN, INT, STRING
from runtime.expr.function import FunctionRegistry
from sqlengine.catalog.catalog import CatalogObject, Catalogs
from sqlengine.catalog.objects import (
    CatalogTable,
    CatalogView,
    ComputedColumn,
    MaterializedView,
    MetadataColumn,
    ObjectPath,
    OpenTable,
    PhysicalColumn,
)
from sqlengine.text.functions import function_kind, signature_texts

if TYPE_CHECKING:
    import sqlengine.catalog.definitions as _definitions
else:
    _definitions = Room("sqlengine.catalog.definitions")

__all__ = ["INFORMATION_SCHEMA", "INFORMATION_TABLES", "InformationSchema", "finished"]

INFORMATION_SCHEMA = "information_schema"
_OBJECT = (("table_catalog", STRING), ("table_schema", STRING), ("table_name", STRING))
_SCHEMAS = {
    "schemata": Schema.of(("catalog_name", STRING), ("schema_name", STRING), ("comment", STRING)),
    "tables": Schema.of(
        *_OBJECT, ("table_type", STRING), ("connector", STRING), ("is_insertable_into", STRING), ("comment", STRING)
    ),
    "columns": Schema.of(
        *_OBJECT,
        ("column_name", STRING),
        ("ordinal_position", INT),
        ("is_nullable", STRING),
        ("data_type", STRING),
        ("column_kind", STRING),
        ("expression", STRING),
        ("is_rowtime", BOOLEAN),
        ("comment", STRING),
    ),
    "views": Schema.of(*_OBJECT, ("view_definition", STRING), ("is_materialized", STRING), ("comment", STRING)),
    "key_column_usage": Schema.of(
        ("constraint_name", STRING), *_OBJECT, ("column_name", STRING), ("ordinal_position", INT)
    ),
    "table_constraints": Schema.of(
        ("constraint_name", STRING), *_OBJECT, ("constraint_type", STRING), ("check_clause", STRING)
    ),
    "table_options": Schema.of(*_OBJECT, ("option_name", STRING), ("option_value", STRING)),
    "routines": Schema.of(
        ("routine_name", STRING), ("routine_kind", STRING), ("signature", STRING), ("comment", STRING)
    ),
    "sequences": Schema.of(
        ("sequence_catalog", STRING),
        ("sequence_schema", STRING),
        ("sequence_name", STRING),
        ("data_type", STRING),
        ("start_value", BIGINT),
        ("minimum_value", BIGINT),
        ("maximum_value", BIGINT),
        ("increment", BIGINT),
        ("cycle_option", STRING),
    ),
}
INFORMATION_TABLES = tuple(_SCHEMAS)


class InformationSchema:
    """The tables over a catalog.

    Args:
        catalogs: all there are.
        functions: for `routines`.
        schema_of: gives the columns of a table or view, computed ones too.
    """

    def __init__(
        self, catalogs: Catalogs, functions: FunctionRegistry, schema_of: Callable[[CatalogObject], Schema]
    ) -> None:
        self._catalogs = catalogs
        self._functions = functions
        self._schema_of = schema_of
        self._opening = False

    def open(self, catalog: str, name: str, span: Span | None) -> tuple[Schema, pa.Table]:
        """Columns and rows of one of the tables; BindError E1202 for a table that there is not."""
        if name not in _SCHEMAS:
            raise BindError(
                f'unknown table "{INFORMATION_SCHEMA}.{name}"',
                code="E1202",
                span=span,
                hint=did_you_mean(name, _SCHEMAS),
            )
        self._catalogs.catalog(catalog, span)
        schema = _SCHEMAS[name]
        # A view over these tables is bound while its own columns are listed; it needs no rows for that.
        rows = [] if self._opening else self._rows(name, catalog)
        columns: Sequence[Sequence[object]] = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
        arrays = [pa.array(c, f.type.arrow) for c, f in zip(columns, schema, strict=True)]
        return schema, pa.Table.from_arrays(arrays, schema=schema.arrow)

    def _rows(self, name: str, catalog: str) -> list[tuple[object, ...]]:
        self._opening = True
        try:
            return list(getattr(self, f"_{name}")(catalog))
        finally:
            self._opening = False

    def _objects(self, catalog: str) -> Iterator[CatalogObject]:
        for database in self._catalogs.seen_databases(catalog):
            yield from self._catalogs.seen_objects(catalog, database)

    def _schemata(self, catalog: str) -> Iterator[tuple[object, ...]]:
        for name, database in self._catalogs.seen_databases(catalog).items():
            yield catalog, name, database.comment

    def _tables(self, catalog: str) -> Iterator[tuple[object, ...]]:
        for thing in self._objects(catalog):
            connector = thing.connector if isinstance(thing, CatalogTable) else None
            takes = "YES" if isinstance(thing, CatalogTable) else "NO"
            yield *thing.path.parts, _type_of(thing), connector, takes, thing.comment

    def _columns(self, catalog: str) -> Iterator[tuple[object, ...]]:
        for thing in self._objects(catalog):
            try:
                schema = self._schema_of(thing)
            except SqlEngineError:
                continue  # a view over something that is gone
            declared = {} if isinstance(thing, CatalogView) else {c.name: c for c in thing.columns}
            comments = {name: c.comment for name, c in declared.items()}
            if isinstance(thing, CatalogView):
                comments = dict(zip(thing.columns, thing.column_comments, strict=False))
            for position, column in enumerate(schema, 1):
                own = declared.get(column.name)
                kind = (
                    "computed"
                    if isinstance(own, ComputedColumn)
                    else "metadata"
                    if isinstance(own, MetadataColumn)
                    else "physical"
                )
                yield (
                    *thing.path.parts,
                    column.name,
                    position,
                    "YES" if column.type.nullable else "NO",
                    str(column.type.materialized().with_nullable(True)),
                    kind,
                    own.text if isinstance(own, ComputedColumn) else None,
                    column.type.is_rowtime,
                    comments.get(column.name),
                )

    def _views(self, catalog: str) -> Iterator[tuple[object, ...]]:
        for thing in self._objects(catalog):
            if not isinstance(thing, CatalogTable):
                kept = "YES" if isinstance(thing, MaterializedView) else "NO"
                yield *thing.path.parts, masked_sql(thing.text), kept, thing.comment

    def _key_column_usage(self, catalog: str) -> Iterator[tuple[object, ...]]:
        for thing in self._objects(catalog):
            if isinstance(thing, CatalogTable):
                for position, name in enumerate(thing.primary_key, 1):
                    yield thing.constraint_name or "PRIMARY KEY", *thing.path.parts, name, position
                for constraint in thing.constraints:
                    for position, name in enumerate(constraint.columns if constraint.condition is None else (), 1):
                        yield constraint.name, *thing.path.parts, name, position

    def _table_constraints(self, catalog: str) -> Iterator[tuple[object, ...]]:
        for thing in self._objects(catalog):
            if isinstance(thing, CatalogTable):
                if thing.primary_key:
                    yield thing.constraint_name or "PRIMARY KEY", *thing.path.parts, "PRIMARY KEY", None
                for constraint in thing.constraints:
                    condition = constraint.condition
                    kind = "UNIQUE" if condition is None else "CHECK"
                    yield constraint.name, *thing.path.parts, kind, None if condition is None else condition.text

    def _table_options(self, catalog: str) -> Iterator[tuple[object, ...]]:
        for thing in self._objects(catalog):
            if isinstance(thing, CatalogTable):
                for key, value in sorted(thing.options.items()):
                    yield *thing.path.parts, key, shown_value(key, value)

    def _sequences(self, catalog: str) -> Iterator[tuple[object, ...]]:
        for database in self._catalogs.seen_databases(catalog):
            for found, _ in _definitions.seen_sequences(self._catalogs, catalog, database):
                numbers = (found.start, found.low, found.high, found.step, "YES" if found.cycle else "NO")
                yield *found.path.parts, str(found.type), *numbers

    def _routines(self, catalog: str) -> Iterator[tuple[object, ...]]:
        del catalog
        for function in sorted(self._functions, key=lambda f: f.name):
            signatures = "; ".join(dict.fromkeys(signature_texts(function)))
            yield function.name, function_kind(function), signatures, function.document


def finished(at: ObjectPath, schema: Schema, rows: pa.Table) -> OpenTable:
    """A table of rows that are all there."""
    snapshot = TableSnapshot(str(at), schema, rows)
    return OpenTable(CatalogTable(at, tuple(PhysicalColumn(f.name, f.type) for f in schema)), snapshot, None)


def _type_of(thing: CatalogObject) -> str:
    """As the standard calls it."""
    if isinstance(thing, CatalogTable):
        return "LOCAL TEMPORARY" if thing.temporary else "BASE TABLE"
    return thing.kind.upper() if isinstance(thing, MaterializedView) else "VIEW"
