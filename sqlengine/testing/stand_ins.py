"""Tables in memory in the place of tables with a connector, so that a test gives their rows and sees what is written.

What a stand-in takes and gives is what the real table would: rows only, or changes by row kind too.
"""

from __future__ import annotations

from dataclasses import replace

from sqlengine.catalog.objects import CatalogTable, MetadataColumn, PhysicalColumn, TableColumn
from sqlengine.table_options.watermarks import is_watermark_option

__all__ = ["stand_in"]

_CHANGELOG_FORMATS = frozenset(
    ("debezium-json", "debezium-avro-confluent", "canal-json", "maxwell-json", "ogg-json", "changelog-json")
)
"""Formats whose messages carry row kinds (Flink docs, "Formats")."""
_CHANGELOG_CONNECTORS = frozenset(
    ("print", "blackhole", "jdbc", "mongodb", "hbase-2.2", "elasticsearch-7", "opensearch")
)
"""Connectors that take updates and deletes, as far as their name does not say so (`upsert-kafka`, `mysql-cdc`)."""


def stand_in(table: CatalogTable) -> CatalogTable:
    """The table in memory that takes the place of one with a connector; any other table as it is.

    Options of the connector are dropped, those about the watermark stay; what the connector would tell beside the row
    (metadata) are plain columns, which a test gives.
    """
    connector = table.connector
    if connector is None:
        return table
    mode = "retract" if _carries_changes(table, connector) else "append"
    kept = {key: value for key, value in table.options.items() if is_watermark_option(key)}
    columns = tuple(_given_by_test(column) for column in table.columns)
    return replace(table, columns=columns, partitioned_by=(), options={**kept, "changelog-mode": mode})


def _carries_changes(table: CatalogTable, connector: str) -> bool:
    if connector in _CHANGELOG_CONNECTORS or connector.startswith("upsert-") or connector.endswith("-cdc"):
        return True
    formats = {value for key, value in table.options.items() if key == "format" or key.endswith(".format")}
    return bool(formats & _CHANGELOG_FORMATS)


def _given_by_test(column: TableColumn) -> TableColumn:
    if isinstance(column, MetadataColumn):
        return PhysicalColumn(column.name, column.type, column.comment)
    return column
