"""The connector `delta`: its tables as sources and sinks. The library is loaded when a table is used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from connectors.delta.options import STORAGE, TABLE_OPTIONS, Place, Reading, read_place, read_reading
from connectors.formats.held import check_held
from connectors.kit.prefetch import Fetching
from connectors.lakes.source import LakeSource, check_library
from connectors.options import TableOptions, physical_part
from runtime.core.rooms import Room
from runtime.spi.catalog import ForeignTable
from runtime.spi.registry import ConnectorFactory, TableRequest

if TYPE_CHECKING:
    import connectors.delta.fetching as _fetching
    import connectors.delta.names as _names
    import connectors.delta.sink as _sink
else:
    _fetching = Room("connectors.delta.fetching")
    _names = Room("connectors.delta.names")
    _sink = Room("connectors.delta.sink")

__all__ = ["CONNECTOR", "DELTA", "DeltaSource", "needed"]

CONNECTOR = "delta"


def needed() -> None:
    """Raises ConnectorError E3190 where the library is not installed."""
    check_library(_fetching, "Delta Lake", "delta")


@dataclass(frozen=True)
class DeltaSource(LakeSource[Reading]):
    """A table, or what comes into it."""

    connector = CONNECTOR

    place: Place

    @property
    def where(self) -> str:
        return self.place.path

    def newest_rows(self) -> tuple[int | None, bool]:
        needed()
        return _fetching.newest_rows(self)

    def fetching(self) -> Fetching:
        needed()
        return _fetching.Fetch(self)

    def as_of(self, milliseconds: int) -> DeltaSource:
        return replace(self, reading=replace(self.reading, version=None, as_of=milliseconds))

    def described_options(self) -> dict[str, str]:
        given = (("versionAsOf", self.reading.version), ("timestampAsOf", self.reading.as_of))
        return {"table-path": self.place.path, **{k: str(v) for k, v in given if v is not None}}


def _read(request: TableRequest) -> tuple[Place, TableOptions]:
    options = TableOptions(request.options, f"connector '{CONNECTOR}'", TABLE_OPTIONS, (STORAGE,))
    return read_place(options, request.options), options


def _source(request: TableRequest) -> DeltaSource:
    check_held(f"connector '{CONNECTOR}'", request.schema)
    place, options = _read(request)
    schema = physical_part(request)
    return DeltaSource(schema, schema, read_reading(options, request.primary_key), place)


def _opened_sink(request: TableRequest) -> Any:
    check_held(f"connector '{CONNECTOR}'", request.schema)
    place, options = _read(request)
    needed()
    return _sink.sink_of(request, place, options)


def _inferred(request: TableRequest) -> ForeignTable:
    place, _ = _read(request)
    needed()
    return replace(_names.described(place), options=request.options)


DELTA = ConnectorFactory(
    name=CONNECTOR,
    document="a table of Delta Lake: a version, or version after version; appends, merges by key, overwrites",
    source=_source,
    sink=_opened_sink,
    options=TABLE_OPTIONS,
    prefixes=(STORAGE,),
    infer=_inferred,
)
