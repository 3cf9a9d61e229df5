"""The connector `redis`: hashes by key as sink and lookup table, a stream as source and sink."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from connectors.databases.options import GUARANTEE, Delivering, read_delivering
from connectors.databases.writing import EpochWriter
from connectors.kit.commits import SPOOL_SIZE, CommittingWriter
from connectors.kit.prefetch import PrefetchingReader
from connectors.options import TableOptions, physical_part
from connectors.redis.address import ADDRESS_OPTIONS, Address, read_address
from connectors.redis.commits import RedisCommits, RedisTransactions
from connectors.redis.lookup import look_up
from connectors.redis.stream import read_stream
from connectors.redis.values import check_types
from runtime.core.changelog import APPEND, ChangelogMode
from runtime.core.errors import OptionError, UnsupportedError
from runtime.core.options import duration_option, int_option, text_option
from runtime.core.schema import Schema
from runtime.core.types import STRING
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.sink import Delivery
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics
from runtime.spi.writer import SinkWriter

__all__ = ["OPTIONS", "REDIS", "RedisTable"]

STREAM = text_option("stream", "", "the key of a stream: its entries are the rows; without it rows are hashes by key")
PREFIX = text_option("key-prefix", "", "what the keys of hashes begin with; without it the table's name and ':'")
TTL = duration_option("sink.ttl", 0, "how long a hash that was written is there; 0 for ever")
MOST = int_option("sink.max-length", 0, "about so many entries of the stream are kept; 0 for all")
STARTS = text_option("scan.startup.mode", "earliest", "where a stream is read from", ("earliest", "latest"))
ENDS = text_option(
    "scan.bounded.mode",
    "unbounded",
    "'latest': reading ends with what is there when it begins",
    ("unbounded", "latest"),
)
OPTIONS = (*ADDRESS_OPTIONS, STREAM, PREFIX, TTL, MOST, STARTS, ENDS, GUARANTEE, SPOOL_SIZE)
_ID = "id"


@dataclass(frozen=True)
class RedisTable:
    """Hashes, or the entries of a stream. It opens nothing by itself.

    Attributes:
        prefix: of the keys of hashes.
        stream: the key of the stream; empty for hashes.
        id_column: the column that is the id of an entry (metadata `id`).
        ttl: milliseconds; most: entries; 0 is no limit.
    """

    schema: Schema
    primary_key: tuple[str, ...]
    name: str
    address: Address
    prefix: str
    stream: str
    id_column: str | None
    starts: str
    ends: str
    ttl: int
    most: int
    delivering: Delivering
    time_zone: str

    def place(self) -> str:
        """For messages and lineage."""
        return f"{self.name} ({self.stream or self.prefix + '*'} of {self.address})"

    def describe(self) -> dict[str, Any]:
        what = {"stream": self.stream} if self.stream else {"keys": f"{self.prefix}*"}
        described: dict[str, Any] = {"connector": "redis", "columns": list(self.schema.names)}
        return {**described, "options": {"server": str(self.address), **what}}

    # --- what is read

    @property
    def changelog_mode(self) -> ChangelogMode:
        return APPEND

    @property
    def bounded(self) -> bool:
        return self.ends == "latest"

    @property
    def distributed_reads(self) -> bool:
        """An entry has its number for whoever asks."""
        return True

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        """Raises UnsupportedError E1643 for hashes."""
        if not self.stream:
            raise UnsupportedError(
                f"{self.name}: hashes are looked up and written, and not read as a whole",
                code="E1643",
                hint="join it with FOR SYSTEM_TIME AS OF; only a 'stream' keeps the order of its rows",
            )
        return [Split("stream")]

    def watch_splits(self, wake: object) -> Any:
        """There is never another one."""
        return lambda: None

    def open(self, split: Split, context: ReadContext) -> PrefetchingReader:
        return PrefetchingReader(self.place(), functools.partial(read_stream, self), context, bounded=self.bounded)

    def with_columns(self, names: Sequence[str]) -> RedisTable:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        """The rows of each key, as they are now. Raises UnsupportedError E1643 for other columns than those of the key."""
        if self.stream:
            raise UnsupportedError(
                f"{self.name}: entries of a stream have no keys to look up by",
                code="E1643",
                hint="write hashes for that",
            )
        if sorted(key_columns) != sorted(self.primary_key):
            raise UnsupportedError(
                f"{self.name} is looked up by its whole key, ({', '.join(self.primary_key)}), and not by "
                f"({', '.join(key_columns)})",
                code="E1643",
                hint="Redis finds hashes by their keys only: join by all columns of the key",
            )
        places = [list(key_columns).index(name) for name in self.primary_key]
        return look_up(self, keys.select(places))

    @property
    def distributed_lookups(self) -> bool:
        """Each process has its own connections."""
        return True

    # --- what is written

    @property
    def delivery(self) -> Delivery:
        return "exactly-once" if self.delivering.exactly_once else "at-least-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        if self.stream or requested.is_append_only:
            return APPEND
        return ChangelogMode(
            update_after=requested.update_after, delete=requested.delete, key_only_deletes=requested.delete
        )

    def open_writer(self, job: str) -> SinkWriter:
        if self.delivering.exactly_once:
            commits = RedisCommits(self, job)
            return CommittingWriter(self.name, self.schema.names, commits, most=self.delivering.spool)
        return EpochWriter(self.name, RedisTransactions(self))


def _table(request: TableRequest, *, writes: bool = False) -> RedisTable:
    """The table that options describe; raises OptionError and UnsupportedError."""
    options = TableOptions(request.options, "connector 'redis'", OPTIONS)
    stream = options.get(STREAM)
    only = {True: (PREFIX, TTL), False: (MOST, STARTS, ENDS)}[bool(stream)]
    for option in only:
        if options.has(option):
            raise OptionError(
                f"option '{option.key}' is for {'hashes' if stream else 'a stream'}",
                hint="leave it out, or take 'stream' out" if stream else "name the option 'stream'",
            )
    if not stream and not request.primary_key:
        raise OptionError(
            f"{request.name} needs a PRIMARY KEY, which is the key of its hashes", hint="or name the option 'stream'"
        )
    schema = physical_part(request)
    id_column = next((name for name, key in request.metadata if key == _ID), None)
    if id_column is not None and stream and not writes:
        schema = request.schema
    check_types(schema)
    return RedisTable(
        schema,
        request.primary_key,
        request.name,
        read_address(options),
        options.get(PREFIX) or f"{request.name.rpartition('.')[2]}:",
        stream,
        id_column,
        options.get(STARTS).lower(),
        options.get(ENDS).lower(),
        options.get(TTL),
        options.get(MOST),
        read_delivering(options),
        request.time_zone,
    )


def _sink(request: TableRequest) -> RedisTable:
    if request.metadata:
        raise OptionError(
            f"connector 'redis' cannot write metadata column '{request.metadata[0][1]}'",
            hint="declare it VIRTUAL, or leave it out",
        )
    return _table(request, writes=True)


REDIS = ConnectorFactory(
    name="redis",
    document="hashes of Redis, written exactly once and looked up by key; streams, read and written exactly once",
    source=_table,
    sink=_sink,
    lookup=_table,
    metadata={_ID: STRING.not_null()},
    options=OPTIONS,
)
