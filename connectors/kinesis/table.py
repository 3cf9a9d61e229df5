"""The connector `kinesis`: a stream as source, shard by shard, and as sink."""

from __future__ import annotations

import functools
import logging
import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from connectors.databases.writing import EpochWriter
from connectors.formats.message_table import format_prefixes, message_format
from connectors.kinesis.address import ADDRESS_OPTIONS, Address, read_address
from connectors.kinesis.reading import METADATA, first_position, listed_shards, read_shard
from connectors.kinesis.sending import KinesisRecords
from connectors.kit.prefetch import PrefetchingReader
from connectors.options import FORMAT, MAX_RECORD, TableOptions, memory_limit, physical_part
from runtime.core.changelog import ChangelogMode
from runtime.core.errors import OptionError, SqlEngineError
from runtime.core.logs import connector_log
from runtime.core.options import bool_option, duration_option, int_option, text_option
from runtime.core.retries import Retries
from runtime.core.schema import Schema
from runtime.spi.format import Format
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.sink import Delivery
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics
from runtime.spi.writer import SinkWriter

__all__ = ["KINESIS", "OPTIONS", "KinesisTable"]

POSITION = text_option(
    "source.init.position",
    "TRIM_HORIZON",
    "where reading begins: with the oldest record, with those that come from now on, or at 'source.init.timestamp'",
    ("TRIM_HORIZON", "LATEST", "AT_TIMESTAMP"),
)
MOMENT = text_option(
    "source.init.timestamp",
    "",
    "the moment of 'AT_TIMESTAMP', such as '2024-02-29T12:00:00+01:00', or seconds since 1970",
)
DISCOVERY = duration_option("source.shard.discovery.interval", 10_000, "how often new shards are looked for")
INTERVAL = duration_option(
    "source.shard.get-records.interval", 200, "how long a shard is left alone between two requests"
)
ENDS = text_option(
    "scan.bounded.mode",
    "unbounded",
    "'latest': reading ends when all that is there was read",
    ("unbounded", "latest"),
)
PARTITIONER = text_option(
    "sink.partitioner",
    "",
    "of a table without PARTITIONED BY: 'random' gives each record a key of its own, 'fixed' all of a writer the same",
    ("random", "fixed"),
)
DELIMITER = text_option(
    "sink.partitioner-field-delimiter", "|", "stands between the columns of PARTITIONED BY in a key"
)
BATCH = int_option("sink.batch.max-size", 500, "so many records are one request, 500 at most")
_FAIL = bool_option("sink.fail-on-error", False, "accepted for compatibility: what is refused fails the job")
_IN_FLIGHT = int_option("sink.requests.max-inflight", 16, "accepted for compatibility: requests follow each other")
_BUFFERED = int_option("sink.requests.max-buffered", 10_000, "accepted for compatibility: an epoch is written at once")
_BUFFER_SIZE = text_option("sink.flush-buffer.size", "5 mb", "accepted for compatibility")
_BUFFER_TIME = text_option("sink.flush-buffer.timeout", "5000", "accepted for compatibility")
OPTIONS = (
    *ADDRESS_OPTIONS, POSITION, MOMENT, DISCOVERY, INTERVAL, ENDS, FORMAT, MAX_RECORD, PARTITIONER, DELIMITER, BATCH, _FAIL,
    _IN_FLIGHT, _BUFFERED, _BUFFER_SIZE, _BUFFER_TIME,
)  # fmt: skip
_ONCE = Retries(0)
"""Each request is tried again by itself."""


@dataclass
class _Known:
    """What one object in this process knows of a stream: its shards as they were listed last, when that was (seconds), and the
    readers that are open, with the job that each is of, and its shard."""

    shards: list[Any] = field(default_factory=list[Any])
    listed: float | None = None
    readers: weakref.WeakKeyDictionary[PrefetchingReader, tuple[int, str]] = field(
        default_factory=weakref.WeakKeyDictionary[PrefetchingReader, tuple[int, str]]
    )
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_read(self, job: int, shards: set[str]) -> bool:
        """Whether a reader of the job has rows of these shards that it has not given yet."""
        with self.lock:
            found = [reader for reader, (of, shard) in self.readers.items() if of == job and shard in shards]
        return any(not reader.finished for reader in found)

    def __reduce__(self) -> Any:
        return (_Known, ())


@dataclass(frozen=True)
class KinesisTable:
    """Records of a stream. `schema`, `value`, `metadata`, `most`: see `MessageTable`.

    Attributes:
        begin: milliseconds since 1970 at which reading begins; 0 for the oldest record, None for the moment of opening.
        discovery, interval: seconds.
        partitioned_by, delimiter, partitioner, batch: how rows become records.
    """

    schema: Schema
    primary_key: tuple[str, ...]
    value: Schema
    metadata: tuple[tuple[str, str], ...]
    name: str
    address: Address
    begin: int | None
    discovery: float
    interval: float
    bounded: bool
    most: int
    partitioned_by: tuple[str, ...]
    delimiter: str
    partitioner: str
    batch: int
    time_zone: str
    format: Format = field(compare=False)
    known: _Known = field(default_factory=_Known, compare=False, repr=False)

    def place(self) -> str:
        """For messages and lineage."""
        return f"{self.name} (stream {self.address})"

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"connector": "kinesis", "columns": list(self.schema.names)}
        return {**described, "options": {"stream": self.address.arn, "format": self.format.name}}

    # --- what is read

    @property
    def changelog_mode(self) -> ChangelogMode:
        return self.format.changelog_mode

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        """The shards, as they were listed last; parents first."""
        known, now = self.known, time.monotonic()
        if known.listed is None:
            known.shards, known.listed = listed_shards(self), now
        elif now - known.listed > self.discovery and not self.bounded:
            known.listed = now
            threading.Thread(target=self._list, name=f"shards of {self.name}", daemon=True).start()
        return [Split(shard["ShardId"]) for shard in known.shards]

    def _list(self) -> None:
        """In the background. What does not answer now is asked at the next time."""
        try:
            self.known.shards = listed_shards(self)
        except SqlEngineError as error:
            connector_log(__name__).failure(f"shards of {self.place()} cannot be listed", error, logging.WARNING)

    def refresh_splits(self) -> None:
        """See `SupportsSplitRefresh`."""
        self.known.listed = None

    def discovered(self, split: Split) -> Split:
        """See `SupportsPartitionDiscovery`: a shard that follows others is read from its beginning."""
        return replace(split, where="oldest")

    def open(self, split: Split, context: ReadContext) -> PrefetchingReader:
        begin = 0 if split.where == "oldest" else int(time.time() * 1000) if self.begin is None else self.begin
        # A reader holds its job's context, so no other context has this number while the reader is there.
        job, before = id(context), self._before(split.id)
        reader = PrefetchingReader(
            f"{self.place()}, {split.id}",
            functools.partial(read_shard, self, split.id, lambda: self.known.is_read(job, before)),
            context,
            bounded=self.bounded,
        )
        # Where reading begins is settled before anything is saved: on a restart LATEST would be another moment.
        reader.seek({"at": first_position(begin), "rows": 0})
        with self.known.lock:
            self.known.readers[reader] = (job, split.id)
        return reader

    def _before(self, shard: str) -> set[str]:
        """The shards that this one follows, near and far."""
        parents = {
            one["ShardId"]: {one[k] for k in ("ParentShardId", "AdjacentParentShardId") if one.get(k)}
            for one in self.known.shards
        }
        found: set[str] = set()
        waiting = list(parents.get(shard, ()))
        while waiting:
            parent = waiting.pop()
            if parent not in found:
                found.add(parent)
                waiting += parents.get(parent, ())
        return found

    def with_columns(self, names: Sequence[str]) -> KinesisTable:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

    # --- what is written

    @property
    def delivery(self) -> Delivery:
        return "at-least-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return self.format.changelog_mode

    def open_writer(self, job: str) -> SinkWriter:
        return EpochWriter(self.name, KinesisRecords(self), retries=_ONCE)


def _begin(options: TableOptions) -> int | None:
    position = options.get(POSITION).upper()
    if position != "AT_TIMESTAMP":
        return 0 if position == "TRIM_HORIZON" else None
    text = options.required(MOMENT)
    try:
        seconds = float(text) if text.replace(".", "", 1).isdigit() else datetime.fromisoformat(text).timestamp()
        if text[-1:].isdigit() and ":" in text and datetime.fromisoformat(text).tzinfo is None:
            raise ValueError("no zone")
    except (ValueError, OverflowError) as error:
        raise OptionError(
            "option 'source.init.timestamp' is no moment", hint="such as '2024-02-29T12:00:00+01:00', or '1709204400'"
        ) from error
    return max(1, int(seconds * 1000))


def _table(request: TableRequest, *, writes: bool = False) -> KinesisTable:
    """The table that options describe; raises OptionError and UnsupportedError."""
    options = TableOptions(request.options, "connector 'kinesis'", OPTIONS, format_prefixes(request))
    if writes and request.metadata:
        raise OptionError(
            f"connector 'kinesis' cannot write metadata column '{request.metadata[0][1]}'", hint="declare it VIRTUAL"
        )
    partitioner, batch = options.get(PARTITIONER).lower(), options.get(BATCH)
    if partitioner and request.partitioned_by:
        raise OptionError(
            "option 'sink.partitioner' is for tables without PARTITIONED BY", hint="leave one of them out"
        )
    if not 1 <= batch <= 500:
        raise OptionError("option 'sink.batch.max-size' is from 1 to 500", hint="leave it out")
    return KinesisTable(
        request.schema,
        request.primary_key,
        physical_part(request),
        request.metadata,
        request.name,
        read_address(options),
        _begin(options),
        options.get(DISCOVERY) / 1000,
        options.get(INTERVAL) / 1000,
        options.get(ENDS).lower() == "latest",
        memory_limit(options, MAX_RECORD),
        request.partitioned_by,
        options.get(DELIMITER),
        partitioner,
        batch,
        request.time_zone,
        message_format(request, options, writes=writes),
    )


KINESIS = ConnectorFactory(
    name="kinesis",
    document="a stream of Amazon Kinesis: read exactly once, written at least once",
    source=_table,
    sink=functools.partial(_table, writes=True),
    metadata=METADATA,
    options=OPTIONS,
)
