"""The connector `iceberg`: its tables as sources and sinks. The library is loaded when a table is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from connectors.filesystem.column_filters import ColumnFilter, filter_expression, take_filters
from connectors.formats.held import check_held
from connectors.iceberg.options import PASSED_ON, TABLE_OPTIONS, Address, Reading, read_address, read_reading
from connectors.kit.prefetch import PrefetchingReader
from connectors.options import TableOptions, physical_part
from runtime.core.changelog import APPEND, ChangelogMode
from runtime.core.errors import ConnectorError
from runtime.core.rooms import Room, load
from runtime.core.schema import Schema
from runtime.expr.nodes import Expr
from runtime.spi.catalog import ForeignTable
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

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
_CHANGES = ChangelogMode(delete=True)


def needed() -> None:
    """Raises ConnectorError E3190 where the library is not installed."""
    try:
        load(_fetching)
    except ImportError as error:
        if (error.name or "").partition(".")[0] in ("connectors", "runtime"):
            raise
        raise ConnectorError(
            f"the library for Iceberg is not installed ({error.name})",
            code="E3190",
            hint="pip install 'sqlengine[iceberg]'",
        ) from error


@dataclass(frozen=True)
class IcebergSource:
    """A table, or what comes into it. `declared`: the columns before any is left out. `limit`: the most rows of each
    snapshot's files."""

    schema: Schema
    declared: Schema
    address: Address
    reading: Reading
    filters: tuple[ColumnFilter, ...] = ()
    limit: int | None = None
    name: str = field(default="", compare=False)

    @property
    def changelog_mode(self) -> ChangelogMode:
        return _CHANGES if self.reading.changes else APPEND

    @property
    def bounded(self) -> bool:
        return not self.reading.streaming

    def statistics(self) -> TableStatistics:
        needed()
        if self.reading.streaming:
            return TableStatistics()
        rows, exact = _fetching.newest_rows(self) or (None, False)
        return TableStatistics(rows=None if rows is None else float(rows), counted=exact and self.limit is None)

    def splits(self) -> list[Split]:
        return [Split("table")]

    def watch_splits(self, wake: Any) -> Any:
        return lambda: None

    def open(self, split: Split, context: ReadContext) -> PrefetchingReader:
        needed()
        return PrefetchingReader(self.address.place, _fetching.Fetch(self), context, bounded=self.bounded)

    def with_columns(self, names: Sequence[str]) -> IcebergSource:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

    def with_filters(self, filters: Sequence[Expr]) -> tuple[IcebergSource, list[Expr]]:
        if self.limit is not None:
            return self, list(filters)
        taken, left = take_filters(filters, self.schema, self.schema.names)
        more = tuple(one for one in taken if one not in self.filters)
        return replace(self, filters=(*self.filters, *more)), left

    def with_limit(self, rows: int) -> IcebergSource:
        return replace(self, limit=rows if self.limit is None else min(rows, self.limit))

    def pushed(self, schema: Schema) -> tuple[list[Expr], int | None]:
        return [filter_expression(one, schema) for one in self.filters], self.limit

    def as_of(self, milliseconds: int) -> IcebergSource:
        """The table as it was (`SupportsTimeTravel`)."""
        return replace(self, reading=replace(self.reading, as_of=milliseconds))

    def describe(self) -> dict[str, Any]:
        pushed: dict[str, Any] = {"filters": [str(one) for one in self.filters]} if self.filters else {}
        if self.limit is not None:
            pushed["limit"] = self.limit
        options = {"table": self.address.place, "catalog-type": self.address.type}
        reading = self.reading
        for key, value in (("snapshot-id", reading.snapshot), ("as-of-timestamp", reading.as_of), ("tag", reading.tag)):
            if value:
                options[key] = str(value)
        if reading.branch != "main":
            options["branch"] = reading.branch
        return {
            "connector": CONNECTOR,
            "table": self.address.place,
            "columns": list(self.schema.names),
            **pushed,
            **({"streaming": True} if reading.streaming else {}),
            "options": options,
        }


def address_of(request: TableRequest) -> tuple[Address, TableOptions]:
    """Where a table is, and its options."""
    where = f"connector '{CONNECTOR}'"
    options = TableOptions(request.options, where, TABLE_OPTIONS, PASSED_ON)
    return read_address(options, request.options, where, request.name.rpartition(".")[2]), options


def _source(request: TableRequest) -> IcebergSource:
    check_held(f"connector '{CONNECTOR}'", request.schema)
    address, options = address_of(request)
    schema = physical_part(request)
    return IcebergSource(schema, schema, address, read_reading(options, request.primary_key), name=request.name)


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
