"""Tables of Iceberg in a folder, as the library itself and as the connector see them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from connector_tables import sink, source
from pyiceberg.catalog import Catalog

from connectors.iceberg.library import opened
from connectors.iceberg.names import IcebergNames
from connectors.iceberg.options import Address
from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Schema
from runtime.spi.catalog import ForeignTable

__all__ = ["Lake", "changes"]


class Lake:
    """A catalog with one database."""

    def __init__(self, folder: Path, kind: str = "hadoop") -> None:
        self.warehouse = folder / "lake"
        self.warehouse.mkdir(exist_ok=True)
        self.options = {"catalog-type": kind, "warehouse": str(self.warehouse), "catalog-database": "db"}
        properties = [("warehouse", str(self.warehouse))]
        if kind == "sql":
            self.options["uri"] = f"sqlite:///{folder}/names.db"
            properties.append(("uri", self.options["uri"]))
        self.address = Address("iceberg", kind, tuple(properties))
        self.names = IcebergNames(self.address, self.options, "db")
        if "db" not in self.names.databases():
            self.names.create_database("db")
        self._made = 0

    @property
    def catalog(self) -> Catalog:
        return opened(self.address)

    def make(self, schema: Schema, key: tuple[str, ...] = (), **options: str) -> str:
        self._made += 1
        name = f"t{self._made}"
        found = {k.replace("_", "-"): v for k, v in options.items()}
        self.names.create_table("db", name, ForeignTable(schema, found, key))
        return name

    def sink(self, name: str, schema: Schema, key: tuple[str, ...] = (), **more: str) -> Any:
        return sink("iceberg", schema, self._of(name, more), primary_key=key)

    def source(self, name: str, schema: Schema, key: tuple[str, ...] = (), **more: str) -> Any:
        return source("iceberg", schema, self._of(name, more), primary_key=key)

    def _of(self, name: str, more: dict[str, str]) -> dict[str, str]:
        return {**self.options, "catalog-table": name, **{k.replace("_", "-"): v for k, v in more.items()}}

    def seen(self, name: str) -> list[tuple[Any, ...]]:
        """The rows as the library reads them, sorted by `repr`."""
        rows = self.catalog.load_table(("db", name)).scan().to_arrow()
        return sorted((tuple(row.values()) for row in rows.to_pylist()), key=repr)


def changes(schema: Schema, rows: Sequence[tuple[int, tuple[Any, ...]]]) -> ChangelogBatch:
    """Changes of (row kind, row)."""
    columns = [pa.array([row[i] for _, row in rows], f.type.arrow) for i, f in enumerate(schema)]
    return ChangelogBatch.of(columns, schema, np.array([kind for kind, _ in rows], np.int8))
