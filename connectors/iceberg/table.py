"""The connector `iceberg`: its tables as sources and sinks. The library is loaded when a table is used."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from connectors.formats.held import check_held
from connectors.iceberg.options import PASSED_ON, TABLE_OPTIONS, Address, Reading, read_address, read_reading
from connectors.kit.prefetch import Fetching
from connectors.lakes.source import LakeSource, check_library
from connectors.options import TableOptions, physical_part
from runtime.core.rooms import Room
from runtime.spi.catalog import ForeignTable
from runtime.spi.registry import ConnectorFactory, TableRequest

if TYPE_CHECKING:
    import connectors.iceberg.fetching as _fetching
    import connectors.iceberg.names as _names
    import connectors.iceberg.sink as _sink
else:
    _fetching = Room("connectors.iceberg.fetching")
    _names = Room("connectors.iceberg.names")
    _sink = Room("connectors.iceberg.sink")

__all__ = ["CONNECTOR", "ICEBERG", "IcebergSource", "needed"]

CONNECTOR = "iceberg"


def needed() -> None:
    """Raises ConnectorError E3190 where the library is not installed."""
    check_library(_fetching, "Iceberg", "iceberg")


@dataclass(frozen=True)
class IcebergSource(LakeSource[Reading]):
    """A table, or what comes into it. `limit`: the most rows of each snapshot's files."""

    connector = CONNECTOR

    address: Address
    name: str = field(default="", compare=False)

    @property
    def where(self) -> str:
        return self.address.place

    def newest_rows(self) -> tuple[int | None, bool]:
        needed()
        return _fetching.newest_rows(self) or (None, False)

    def fetching(self) -> Fetching:
        needed()
        return _fetching.Fetch(self)

    def as_of(self, milliseconds: int) -> IcebergSource:
        return replace(self, reading=replace(self.reading, as_of=milliseconds))

    def described_options(self) -> dict[str, str]:
        reading = self.reading
        given = (("snapshot-id", reading.snapshot), ("as-of-timestamp", reading.as_of), ("tag", reading.tag))
        options = {"table": self.address.place, "catalog-type": self.address.type}
        options |= {k: str(v) for k, v in given if v}
        return options if reading.branch == "main" else {**options, "branch": reading.branch}


def address_of(request: TableRequest) -> tuple[Address, TableOptions]:
    """Where a table is, and its options."""
    where = f"connector '{CONNECTOR}'"
    options = TableOptions(request.options, where, TABLE_OPTIONS, PASSED_ON)
    return read_address(options, request.options, where, request.name.rpartition(".")[2]), options


def _source(request: TableRequest) -> IcebergSource:
    check_held(f"connector '{CONNECTOR}'", request.schema)
    address, options = address_of(request)
    schema = physical_part(request)
    return IcebergSource(schema, schema, read_reading(options, request.primary_key), address, request.name)


def _opened_sink(request: TableRequest) -> Any:
    check_held(f"connector '{CONNECTOR}'", request.schema)
    address, options = address_of(request)
    needed()
    return _sink.sink_of(request, address, options)


def _inferred(request: TableRequest) -> ForeignTable:
    needed()
    address, _ = address_of(request)
    found = _names.described(address)
    return replace(found, options=request.options)


ICEBERG = ConnectorFactory(
    name=CONNECTOR,
    document="a table of Apache Iceberg: a snapshot, or snapshot after snapshot; appends, upserts, overwrites",
    source=_source,
    sink=_opened_sink,
    options=TABLE_OPTIONS,
    prefixes=PASSED_ON,
    infer=_inferred,
)
