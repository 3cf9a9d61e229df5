"""The connector `jdbc`, with Flink's options."""

from __future__ import annotations

from typing import Any

from connectors.databases.options import COMPATIBLE, TABLE_OPTIONS
from connectors.jdbc.systems import absent, system_of
from connectors.postgres.address import ADDRESS_OPTIONS, URL
from connectors.postgres.table import SCHEMA
from runtime.spi.catalog import ForeignTable
from runtime.spi.registry import ConnectorFactory, TableRequest

__all__ = ["JDBC"]

CONNECTOR = "jdbc"


def _table(request: TableRequest) -> Any:
    system = system_of(request.options.get(URL.key, ""))
    return absent(request) if system is None else system.make(request, CONNECTOR)


def _inferred(request: TableRequest) -> ForeignTable:
    system = system_of(request.options.get(URL.key, ""))
    if system is None:
        absent(request).refuse()
    return system.infer(request, CONNECTOR)


JDBC = ConnectorFactory(
    name=CONNECTOR,
    document="a table of a database by its URL, as in Flink",
    source=_table,
    sink=_table,
    lookup=_table,
    options=(*ADDRESS_OPTIONS, SCHEMA, *TABLE_OPTIONS, *COMPATIBLE),
    check=_table,
    infer=_inferred,
)
