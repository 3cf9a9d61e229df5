"""The type of catalogs `delta`. The library is loaded when one is made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from connectors.delta.table import CONNECTOR, needed
from connectors.options import TableOptions
from runtime.core.errors import OptionError
from runtime.core.options import text_option
from runtime.core.rooms import Room
from runtime.spi.catalog import CatalogFactory, CatalogRequest, ForeignCatalog

if TYPE_CHECKING:
    import connectors.delta.names as _names
else:
    _names = Room("connectors.delta.names")

__all__ = ["DELTA_CATALOG"]

PATH = text_option("path", "", "a folder of this machine, in which tables and databases are folders")


def _open(request: CatalogRequest) -> ForeignCatalog:
    given = {k: v for k, v in request.options.items() if k != "type"}
    path = TableOptions(given, f"catalog type '{CONNECTOR}'", (PATH,)).required(PATH).removeprefix("file://")
    if "://" in path:
        raise OptionError(
            f"option 'path' cannot be '{path}': a catalog of Delta tables is a folder of this machine",
            hint="declare tables of an object store with 'connector' = 'delta'",
        )
    needed()
    os.makedirs(path, exist_ok=True)
    return _names.DeltaNames(path, {})


DELTA_CATALOG = CatalogFactory(
    name=CONNECTOR,
    document="the Delta tables in a folder, to be read, written, made and changed",
    open=_open,
    options=(PATH,),
)
