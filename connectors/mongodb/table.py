"""The connector `mongodb`: documents of a collection, written by key, looked up and read."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from connectors.databases.options import GUARANTEE
from connectors.databases.writing import EpochWriter
from connectors.kit.commits import SPOOL_SIZE, CommittingWriter
from connectors.kit.predicates import Condition
from connectors.kit.prefetch import PrefetchingReader
from connectors.mongodb.address import ADDRESS_OPTIONS, Address, read_address
from connectors.mongodb.commits import MongoCommits, MongoDocuments
from connectors.mongodb.conditions import as_filters
from connectors.mongodb.reading import look_up, read_documents
from connectors.mongodb.values import check_types
from connectors.options import TableOptions, memory_limit
from runtime.core.changelog import APPEND, ChangelogMode
from runtime.core.errors import OptionError
from runtime.core.options import bool_option, duration_option, int_option, text_option
from runtime.core.schema import Schema
from runtime.expr.nodes import Expr
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.sink import Delivery
from runtime.spi.source import EndingInserts, Split
from runtime.spi.writer import SinkWriter

__all__ = ["MONGODB", "OPTIONS", "MongoTable"]

PAGE = int_option("scan.fetch-size", 2048, "so many documents are read at once")
BATCH = int_option("sink.buffer-flush.max-rows", 1000, "so many documents are one request")
_CURSOR = bool_option(
    "scan.cursor.no-timeout", True, "accepted for compatibility: a cursor that is gone is opened again"
)
_STRATEGY = text_option("scan.partition.strategy", "default", "accepted for compatibility: one reader reads in order")
_PARTITION = text_option("scan.partition.size", "64mb", "accepted for compatibility")
_SAMPLES = int_option("scan.partition.samples", 10, "accepted for compatibility")
_INTERVAL = duration_option(
    "sink.buffer-flush.interval", 1000, "accepted for compatibility: an epoch is written at once"
)
_RETRIES = int_option("sink.max-retries", 3, "accepted for compatibility: it is tried eight times")
_RETRY = duration_option("sink.retry.interval", 1000, "accepted for compatibility: pauses double")
_PARALLELISM = int_option("sink.parallelism", 1, "accepted for compatibility")
_LOOKUP_RETRY = duration_option("lookup.retry.interval", 1000, "accepted for compatibility: pauses double")
OPTIONS = (
    *ADDRESS_OPTIONS, PAGE, BATCH, GUARANTEE, SPOOL_SIZE, _CURSOR, _STRATEGY, _PARTITION, _SAMPLES, _INTERVAL, _RETRIES, _RETRY,
    _PARALLELISM, _LOOKUP_RETRY,
)  # fmt: skip


@dataclass(frozen=True)
class MongoTable(EndingInserts):
    """A collection. It opens nothing by itself.

    Attributes:
        page: documents that are read at once; batch: those of a request that writes.
        spool: the most bytes that a checkpoint holds.
        conditions: what MongoDB leaves out.
    """

    schema: Schema
    primary_key: tuple[str, ...]
    name: str
    address: Address
    page: int
    batch: int
    exactly_once: bool
    spool: int
    conditions: tuple[Condition, ...] = ()

    def place(self) -> str:
        """For messages and lineage."""
        return f"{self.name} ({self.address})"

    def describe(self) -> dict[str, Any]:
        address = self.address
        described: dict[str, Any] = {"connector": "mongodb", "columns": list(self.schema.names)}
        described["options"] = {"uri": address.hosts, "database": address.database, "collection": address.collection}
        return described | ({"filters": [c.sql for c in self.conditions]} if self.conditions else {})

    # --- what is read

    def splits(self) -> list[Split]:
        return [Split("documents")]

    def watch_splits(self, wake: object) -> Any:
        """There is never another one."""
        return lambda: None

    def open(self, split: Split, context: ReadContext) -> PrefetchingReader:
        return PrefetchingReader(self.place(), functools.partial(read_documents, self), context, bounded=True)

    def with_columns(self, names: Sequence[str]) -> MongoTable:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

    def with_filters(self, filters: Sequence[Expr]) -> tuple[MongoTable, list[Expr]]:
        taken, left = as_filters(filters, self.schema, self.conditions)
        return replace(self, conditions=taken), left

    def pushed(self, schema: Schema) -> tuple[list[Expr], int | None]:
        """See `TellsPushDown`."""
        return [condition.over(schema) for condition in self.conditions], None

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        """The documents whose fields have these values, as they are now."""
        return look_up(self, key_columns, keys)

    @property
    def distributed_lookups(self) -> bool:
        """Each process has its own connections."""
        return True

    # --- what is written

    @property
    def delivery(self) -> Delivery:
        return "exactly-once" if self.exactly_once else "at-least-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        if requested.is_append_only or not self.primary_key:
            return APPEND
        return ChangelogMode(
            update_after=requested.update_after, delete=requested.delete, key_only_deletes=requested.delete
        )

    def open_writer(self, job: str) -> SinkWriter:
        if self.exactly_once:
            return CommittingWriter(self.name, self.schema.names, MongoCommits(self, job), most=self.spool)
        return EpochWriter(self.name, MongoDocuments(self))


def _table(request: TableRequest) -> MongoTable:
    """The table that options describe; raises OptionError and UnsupportedError."""
    options = TableOptions(request.options, "connector 'mongodb'", OPTIONS)
    if request.metadata:
        raise OptionError(f"connector 'mongodb' has no metadata column '{request.metadata[0][1]}'", hint="leave it out")
    check_types(request.schema, request.name)
    page, batch = options.get(PAGE), options.get(BATCH)
    if page < 1 or batch < 1:
        raise OptionError(f"'{PAGE.key}' and '{BATCH.key}' are at least 1", hint="leave them out")
    return MongoTable(
        request.schema,
        request.primary_key,
        request.name,
        read_address(options),
        page,
        batch,
        options.get(GUARANTEE).lower() == "exactly-once",
        memory_limit(options, SPOOL_SIZE),
    )


MONGODB = ConnectorFactory(
    name="mongodb",
    document="documents of MongoDB: written by key exactly once, looked up and read",
    source=_table,
    sink=_table,
    lookup=_table,
    options=OPTIONS,
)
