"""The connector `delta`: its tables as sources and sinks. The library is loaded when a table is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from connectors.delta.options import STORAGE, TABLE_OPTIONS, Place, Reading, read_place, read_reading
from connectors.filesystem.column_filters import ColumnFilter, filter_expression, take_filters
from connectors.formats.held import check_held
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
    import connectors.delta.fetching as _fetching
    import connectors.delta.names as _names
    import connectors.delta.sink as _sink
else:
    _fetching = Room("connectors.delta.fetching")
    _names = Room("connectors.delta.names")
    _sink = Room("connectors.delta.sink")

__all__ = ["CONNECTOR", "DELTA", "DeltaSource", "needed"]

CONNECTOR = "delta"
_CHANGES = ChangelogMode(delete=True)


def needed() -> None:
    """Raises ConnectorError E3190 where the library is not installed."""
    try:
        load(_fetching)
    except ImportError as error:
        if (error.name or "").partition(".")[0] in ("connectors", "runtime"):
            raise
        raise ConnectorError(
            f"the library for Delta Lake is not installed ({error.name})",
            code="E3190",
            hint="pip install 'sqlengine[delta]'",
        ) from error


@dataclass(frozen=True)
class DeltaSource:
    """A table, or what comes into it. `declared`: the columns before any is left out."""

    schema: Schema
    declared: Schema
    place: Place
    reading: Reading
    filters: tuple[ColumnFilter, ...] = ()
    limit: int | None = None

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
        rows, exact = _fetching.newest_rows(self)
        return TableStatistics(rows=None if rows is None else float(rows), counted=exact and self.limit is None)

    def splits(self) -> list[Split]:
        return [Split("table")]

    def watch_splits(self, wake: Any) -> Any:
        return lambda: None

    def open(self, split: Split, context: ReadContext) -> PrefetchingReader:
        needed()
        return PrefetchingReader(self.place.path, _fetching.Fetch(self), context, bounded=self.bounded)

    def with_columns(self, names: Sequence[str]) -> DeltaSource:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

    def with_filters(self, filters: Sequence[Expr]) -> tuple[DeltaSource, list[Expr]]:
        if self.limit is not None:
            return self, list(filters)
        taken, left = take_filters(filters, self.schema, self.schema.names)
        more = tuple(one for one in taken if one not in self.filters)
        return replace(self, filters=(*self.filters, *more)), left

    def with_limit(self, rows: int) -> DeltaSource:
        return replace(self, limit=rows if self.limit is None else min(rows, self.limit))

    def pushed(self, schema: Schema) -> tuple[list[Expr], int | None]:
        return [filter_expression(one, schema) for one in self.filters], self.limit

    def as_of(self, milliseconds: int) -> DeltaSource:
        """The table as it was (`SupportsTimeTravel`)."""
        return replace(self, reading=replace(self.reading, version=None, as_of=milliseconds))

    def describe(self) -> dict[str, Any]:
        pushed: dict[str, Any] = {"filters": [str(one) for one in self.filters]} if self.filters else {}
        if self.limit is not None:
            pushed["limit"] = self.limit
        options = {"table-path": self.place.path}
        for key, value in (("versionAsOf", self.reading.version), ("timestampAsOf", self.reading.as_of)):
            if value is not None:
                options[key] = str(value)
        return {
            "connector": CONNECTOR,
            "table": self.place.path,
            "columns": list(self.schema.names),
            **pushed,
            **({"streaming": True} if self.reading.streaming else {}),
            "options": options,
        }


def _read(request: TableRequest) -> tuple[Place, TableOptions]:
    options = TableOptions(request.options, f"connector '{CONNECTOR}'", TABLE_OPTIONS, (STORAGE,))
    return read_place(options, request.options), options


def _source(request: TableRequest) -> DeltaSource:
    check_held(f"connector '{CONNECTOR}'", request.schema)
    place, options = _read(request)
    schema = physical_part(request)
    return DeltaSource(schema, schema, place, read_reading(options, request.primary_key))


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
