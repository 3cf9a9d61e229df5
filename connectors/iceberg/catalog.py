"""The type of catalogs `iceberg`. The library is loaded when one is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.iceberg.options import CATALOG_OPTIONS, DEFAULT_DATABASE, NAME, PASSED_ON, read_address
from connectors.iceberg.table import CONNECTOR, needed
from connectors.options import TableOptions
from runtime.core.rooms import Room
from runtime.spi.catalog import CatalogFactory, CatalogRequest, ForeignCatalog

if TYPE_CHECKING:
    import connectors.iceberg.names as _names
else:
    _names = Room("connectors.iceberg.names")

__all__ = ["ICEBERG_CATALOG"]


def _open(request: CatalogRequest) -> ForeignCatalog:
    given = {k: v for k, v in request.options.items() if k != "type"}
    given.setdefault(NAME.key, request.name)
    where = f"catalog type '{CONNECTOR}'"
    options = TableOptions(given, where, CATALOG_OPTIONS, PASSED_ON)
    address = read_address(options, given, where)
    needed()
    of_tables = {k: v for k, v in given.items() if k != DEFAULT_DATABASE.key}
    return _names.IcebergNames(address, of_tables, options.get(DEFAULT_DATABASE))


ICEBERG_CATALOG = CatalogFactory(
    name=CONNECTOR,
    document="databases and tables of a catalog of Apache Iceberg, to be read, written, made and changed",
    open=_open,
    options=CATALOG_OPTIONS,
)
