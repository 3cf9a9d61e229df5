"""Tables whose columns their connector finds by itself: those that are declared without any, and files that a query names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from runtime.core.errors import CatalogError, Span, pointing_at
from runtime.spi.catalog import ForeignTable
from sqlengine.catalog.objects import CatalogTable, ObjectPath, PhysicalColumn
from sqlengine.database.session import Session
from sqlengine.parse.nodes import FILE_DATABASE

__all__ = ["file_table", "with_found_columns"]

_EVENT_TIME_DIGITS = 3


def with_found_columns(table: CatalogTable, session: Session) -> CatalogTable:
    """A table that declares no physical column, with those that its connector finds, before the ones that it declares.
    The options that the connector needs to read them are the table's from now on. As it is where its connector finds none.

    Raises ConnectorError, FormatError or OptionError when they cannot be told; CatalogError E1412 when one is declared, too.
    """
    connector = table.connector
    if connector is None or not session.registry.connectors.knows(connector):
        return table
    infer = session.registry.connectors.get(connector).infer
    if infer is None:
        return table
    found = infer(session.request(table, {}, for_sink=False))
    names = {f.name for f in found.schema}
    twice = next((c.name for c in table.columns if c.name in names), None)
    if twice is not None:
        raise CatalogError(
            f'column "{twice}" is declared, and {connector} finds one of that name, too',
            code="E1412",
            hint="give it another name, or declare all columns",
        )
    return replace(
        table,
        columns=(*_physical(found, table), *table.columns),
        options={**found.options, **table.options},
        primary_key=table.primary_key or found.primary_key,
        partitioned_by=table.partitioned_by or found.partitioned_by,
    )


def _physical(found: ForeignTable, table: CatalogTable) -> list[PhysicalColumn]:
    """The found columns. Event time has three digits at most: so has the column that WATERMARK names."""
    rowtime = table.watermark.column if table.watermark is not None else ()
    columns: list[PhysicalColumn] = []
    for field in found.schema:
        type_ = field.type
        if (field.name,) == rowtime and type_.is_timestamp and type_.precision > _EVENT_TIME_DIGITS:
            type_ = type_.with_(precision=_EVENT_TIME_DIGITS)
        columns.append(PhysicalColumn(field.name, type_, found.column_comments.get(field.name)))
    return columns


def file_table(name: str, options: Mapping[str, str], session: Session, span: Span | None) -> CatalogTable:
    """The table of a file, a folder or a pattern that stands in a query in the place of a table. Raises as
    `with_found_columns` does, with the place."""
    path = ObjectPath(session.catalogs.current_catalog, FILE_DATABASE, name)
    table = CatalogTable(path, (), options={"connector": "filesystem", "path": name, **options})
    with pointing_at(span):
        return with_found_columns(table, session)
