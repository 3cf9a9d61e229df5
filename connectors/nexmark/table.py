"""The source `nexmark`: one table with an event a row, or a flat table of one kind (`'nexmark.table' = 'bid'`)."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.nexmark.generator import KINDS, EventTimes, Nexmark
from connectors.nexmark.statistics import column_statistics
from connectors.options import TableOptions, physical_part
from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.errors import OptionError, did_you_mean
from runtime.core.options import bool_option, duration_option, int_option, parse_memory, text_option
from runtime.core.schema import Field, Schema
from runtime.core.strict_json import as_count
from runtime.core.types import DataType, TypeRoot
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

__all__ = ["NEXMARK", "NexmarkReader", "NexmarkSource"]

TABLE = text_option(
    "nexmark.table",
    "all",
    "which events, and whether flat: 'all' (one row an event), 'person', 'auction' or 'bid'",
    ("all", *KINDS),
)
EVENTS = int_option("events.num", 0, "the number of events of all kinds together; 0 means no end")
FIRST_RATE = int_option("first-event.rate", 10_000, "events a second in event time, in one half of the rate period")
NEXT_RATE = int_option("next-event.rate", 10_000, "events a second in event time, in the other half of the rate period")
RATE_SHAPE = text_option("rate.shape", "SQUARE", "how the rate changes between the two", ("SQUARE", "SINE"))
RATE_PERIOD = duration_option("rate.period", 600_000, "the period after which the rates repeat")
RATE_LIMITED = bool_option(
    "rate.limited", False, "true or false: events arrive at their event time, counted from the start"
)
PEOPLE = int_option("person.proportion", 1, "people among the events of a period")
AUCTIONS = int_option("auction.proportion", 3, "auctions among the events of a period")
BIDS = int_option("bid.proportion", 46, "bids among the events of a period")
HOT_AUCTIONS = int_option("bid.hot-ratio.auctions", 2, "one bid in this many is not for the hot auction")
HOT_BIDDERS = int_option("bid.hot-ratio.bidders", 4, "one bid in this many is not from the hot bidder")
HOT_SELLERS = int_option("auction.hot-ratio.sellers", 4, "one auction in this many is not from the hot seller")
PERSON_SIZE = text_option("person.avg-size", "200", "average bytes of a person")
AUCTION_SIZE = text_option("auction.avg-size", "500", "average bytes of an auction")
BID_SIZE = text_option("bid.avg-size", "100", "average bytes of a bid")
SEED = int_option("seed", 0, "a different seed gives different events")
BASE_TIME = text_option("base-time", "2015-07-15 00:00:00", "the time of the first event, in UTC")
_OPTIONS = (
    TABLE,
    EVENTS,
    FIRST_RATE,
    NEXT_RATE,
    RATE_SHAPE,
    RATE_PERIOD,
    RATE_LIMITED,
    PEOPLE,
    AUCTIONS,
    BIDS,
    HOT_AUCTIONS,
    HOT_BIDDERS,
    HOT_SELLERS,
    PERSON_SIZE,
    AUCTION_SIZE,
    BID_SIZE,
    SEED,
    BASE_TIME,
)
_ROOTS = {"int64": TypeRoot.BIGINT, "string": TypeRoot.VARCHAR, "timestamp[us]": TypeRoot.TIMESTAMP}
_CHUNK = 1 << 17


@dataclass(frozen=True)
class NexmarkSource:
    """`kind` is 0, 1, 2 for a flat table of people, auctions, bids, None for all events. `events`: their number, 0 is
    without end."""

    name: str
    schema: Schema
    generator: Nexmark
    kind: int | None
    events: int
    limited: bool

    @property
    def changelog_mode(self) -> ChangelogMode:
        return APPEND

    @property
    def bounded(self) -> bool:
        return self.events > 0

    @property
    def rows(self) -> int | None:
        if not self.events:
            return None
        return self.events if self.kind is None else self.generator.count(self.kind, self.events)

    def statistics(self) -> TableStatistics:
        if self.kind is None or not self.rows:
            return TableStatistics(rows=self.rows)
        return TableStatistics(self.rows, column_statistics(self.generator, self.kind, self.events))

    def splits(self) -> list[Split]:
        return [Split("events", endless=not self.bounded)]

    @property
    def distributed_reads(self) -> bool:
        """Rows are made from their numbers, unless they wait for their time."""
        return not self.limited

    def position_after(self, split: Split, position: Any, rows: int) -> Any:
        after = int(position or 0) + rows
        return None if self.rows is not None and after > self.rows else after

    def watch_splits(self, wake: Callable[[], None]) -> Callable[[], None]:
        """There is one, always."""
        return lambda: None

    def open(self, split: Split, context: ReadContext) -> NexmarkReader:
        return NexmarkReader(self)

    def with_columns(self, names: Sequence[str]) -> NexmarkSource:
        return replace(self, schema=Schema(tuple(self.schema[self.schema.index_of(n)] for n in names)))

    def describe(self) -> dict[str, Any]:
        table = "all" if self.kind is None else KINDS[self.kind]
        return {
            "connector": "nexmark",
            "table": table,
            "events": self.events or "unbounded",
            "columns": list(self.schema.names),
            "options": {"generator": repr(self.generator)},
        }


class NexmarkReader:
    """Gives rows in the order of events. A position is the number of rows given."""

    def __init__(self, source: NexmarkSource, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._rows = source.rows
        self._next = 0
        self._clock = clock
        self._started: float | None = None
        self._first = 0

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        count = min(max_rows, _CHUNK)
        if self._rows is not None:
            count = min(count, self._rows - self._next)
        if self._source.limited:
            count = min(count, self._due(count))
        if count <= 0:
            return None
        rows = np.arange(self._next, self._next + count, dtype=np.int64)
        self._next += count
        source = self._source
        if source.kind is None:
            return ChangelogBatch.of(_event_columns(source.generator, source.schema, rows), source.schema)
        events = source.generator.events_of(source.kind, rows)
        return ChangelogBatch.of(
            _flat_columns(source.generator, source.kind, source.schema.fields, events), source.schema
        )

    def _due(self, count: int) -> int:
        """How many of the next rows have come to their time."""
        now = self._clock()
        if self._started is None:
            self._started, self._first = now, self._next
        return int(np.searchsorted(self._times(count), (now - self._started) * 1000, side="right"))

    def available_in(self) -> float:
        """The time of the next row, when rows come at theirs."""
        if not self._source.limited or self._started is None:
            return 0.0
        return max(0.0, self._started + float(self._times(1)[0]) / 1000 - self._clock())

    def _times(self, count: int) -> np.ndarray:
        """When the next rows come: milliseconds after the first one that was read."""
        source = self._source
        rows = np.concatenate([np.array([self._first]), np.arange(self._next, self._next + max(count, 0))]).astype(
            np.int64
        )
        times = source.generator.times.of(
            rows if source.kind is None else source.generator.events_of(source.kind, rows)
        )
        return times[1:] - times[0]

    @property
    def finished(self) -> bool:
        return self._rows is not None and self._next >= self._rows

    def position(self) -> int:
        return self._next

    def seek(self, position: Any) -> None:
        self._next = as_count(position)

    def close(self) -> None:
        self._rows = self._next


def _key(name: str) -> str:
    return name.replace("_", "").lower()


def _flat_columns(generator: Nexmark, kind: int, fields: Sequence[Any], events: np.ndarray) -> list[pa.Array]:
    """The fields of events of one kind, by name without regard to case and underscores, in the declared types."""
    known = {_key(n): n for n in generator.field_names(kind)}
    wanted = [known[_key(f.name)] for f in fields]
    columns = generator.columns(kind, events, wanted)
    return [_typed(columns[name], f.type) for name, f in zip(wanted, fields, strict=True)]


def _typed(column: pa.Array, type_: DataType) -> pa.Array:
    return column if column.type == type_.arrow else column.cast(type_.arrow)


def _event_columns(generator: Nexmark, schema: Schema, events: np.ndarray) -> list[pa.Array]:
    """One row an event: its type, and the row of its kind, the other two NULL."""
    kinds = generator.kinds(events)
    columns: list[pa.Array] = []
    for field in schema:
        if _key(field.name) == "eventtype":
            columns.append(_typed(pa.array(kinds.astype(np.int32)), field.type))
            continue
        kind = KINDS.index(field.name.lower())
        at = np.flatnonzero(kinds == kind)
        place = np.full(len(events), -1, dtype=np.int64)
        place[at] = np.arange(len(at))
        absent = place < 0
        index = pa.array(place, mask=absent)
        cells = [c.take(index) for c in _flat_columns(generator, kind, field.type.fields, events[at])]
        arrow_fields = [pa.field(f.name, f.type.arrow) for f in field.type.fields]
        columns.append(pa.StructArray.from_arrays(cells, fields=arrow_fields, mask=pa.array(absent)))
    return columns


def _source(request: TableRequest) -> NexmarkSource:
    options = TableOptions(request.options, "connector 'nexmark'", _OPTIONS)
    schema = physical_part(request)
    proportions = (options.get(PEOPLE), options.get(AUCTIONS), options.get(BIDS))
    if min(proportions) < 1:
        raise OptionError("the proportions of connector 'nexmark' must be at least 1")
    for option in (FIRST_RATE, NEXT_RATE, HOT_AUCTIONS, HOT_BIDDERS, HOT_SELLERS):
        if options.get(option) < 1:
            raise OptionError(f"option '{option.key}' must be at least 1")
    if options.get(EVENTS) < 0:
        raise OptionError("option 'events.num' cannot be negative", hint="0 is without end")
    sizes = tuple(parse_memory(options.get(o)) for o in (PERSON_SIZE, AUCTION_SIZE, BID_SIZE))
    generator = Nexmark(
        options.get(SEED),
        _times(options),
        proportions,
        options.get(HOT_AUCTIONS),
        options.get(HOT_BIDDERS),
        options.get(HOT_SELLERS),
        (sizes[0], sizes[1], sizes[2]),
    )
    table = options.get(TABLE).lower()
    kind = None if table == "all" else KINDS.index(table)
    if kind is None:
        _check_events(schema, generator)
    else:
        _check_fields(schema.fields, generator, kind)
    return NexmarkSource(request.name, schema, generator, kind, options.get(EVENTS), options.get(RATE_LIMITED))


def _times(options: TableOptions) -> EventTimes:
    try:
        base = dt.datetime.fromisoformat(options.get(BASE_TIME)).replace(tzinfo=dt.UTC)
    except ValueError as error:
        raise OptionError(
            f"option 'base-time' cannot be '{options.get(BASE_TIME)}'", hint="write it like '2015-07-15 00:00:00'"
        ) from error
    first, following = options.get(FIRST_RATE), options.get(NEXT_RATE)
    if options.get(RATE_SHAPE).upper() == "SQUARE":
        rates: tuple[int, ...] = (first, following)
    else:
        middle, half = (first + following) / 2, (first - following) / 2
        rates = tuple(max(1, round(middle + half * math.cos(2 * math.pi * i / 10))) for i in range(10))
    seconds = max(1, math.ceil(options.get(RATE_PERIOD) / 1000 / len(rates)))
    return EventTimes(int(base.timestamp() * 1000), rates, seconds)


def _check_fields(fields: Sequence[Any], generator: Nexmark, kind: int) -> None:
    known = {_key(n): n for n in generator.field_names(kind)}
    sample = generator.columns(kind, generator.events_of(kind, np.zeros(1, np.int64)), generator.field_names(kind))
    for field in fields:
        name = known.get(_key(field.name))
        if name is None:
            raise OptionError(
                f"{KINDS[kind]} events of connector 'nexmark' have no field '{field.name}'",
                hint=did_you_mean(field.name, known.values()),
            )
        root = _ROOTS[str(sample[name].type)]
        if field.type.root is not root and not (root is TypeRoot.BIGINT and field.type.is_numeric):
            raise OptionError(
                f"field '{field.name}' of connector 'nexmark' cannot be {field.type}", hint=f"declare it {root.value}"
            )


def _check_events(schema: Schema, generator: Nexmark) -> None:
    hint = "the columns are event_type INT, person ROW<...>, auction ROW<...>, bid ROW<...>; or set 'nexmark.table' = 'bid' for flat rows"
    for field in schema:
        if _key(field.name) == "eventtype" and field.type.is_exact_numeric:
            continue
        if field.name.lower() not in KINDS or field.type.root is not TypeRoot.ROW:
            raise OptionError(f"connector 'nexmark' has no column {field.name} {field.type}", hint=hint)
        _check_fields([Field(f.name, f.type) for f in field.type.fields], generator, KINDS.index(field.name.lower()))


NEXMARK = ConnectorFactory(
    name="nexmark",
    document="the events of the Nexmark benchmark: people, auctions, bids",
    source=_source,
    options=_OPTIONS,
)
