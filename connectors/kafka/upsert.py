"""The connector `upsert-kafka`: a topic as a table in which the newest message of a key is its row.

A message with a value is the row of its key from then on, one without a value deletes it. So a topic that Kafka compacts
holds the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connectors.kafka.messages import METADATA, MessageDecoder, UpsertDecoder
from connectors.kafka.options import (
    KAFKA_OPTIONS,
    KEY_FIELDS,
    KEY_FORMAT,
    STARTUP,
    STARTUP_MILLIS,
    STARTUP_OFFSETS,
    TOPIC_PATTERN,
    VALUE_FORMAT,
)
from connectors.kafka.outgoing import MessageEncoder
from connectors.kafka.sink import KafkaSink
from connectors.kafka.table import KafkaSource, kafka_sink, kafka_source
from connectors.options import FORMAT, TableOptions
from runtime.core.changelog import APPEND, DELETE, UPDATE_BEFORE, ChangelogBatch, ChangelogMode
from runtime.core.errors import OptionError
from runtime.core.options import Option, duration_option, int_option
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest

__all__ = ["UPSERT_KAFKA", "UpsertKafkaSink", "UpsertKafkaSource"]

FLUSH_ROWS = int_option(
    "sink.buffer-flush.max-rows", 0, "accepted for compatibility; an epoch has one message for each key"
)
FLUSH_INTERVAL = duration_option("sink.buffer-flush.interval", 0, "accepted for compatibility")
_FLUSH = (FLUSH_ROWS, FLUSH_INTERVAL)
_OF_KAFKA_ALONE = frozenset(
    option.key for option in (FORMAT, KEY_FIELDS, TOPIC_PATTERN, STARTUP, STARTUP_OFFSETS, STARTUP_MILLIS)
)
UPSERT_OPTIONS: tuple[Option[Any], ...] = (*(o for o in KAFKA_OPTIONS if o.key not in _OF_KAFKA_ALONE), *_FLUSH)
_READ = ChangelogMode(update_after=True, delete=True, key_only_deletes=True)


@dataclass(frozen=True)
class UpsertKafkaSource(KafkaSource):
    """Deletions have only the columns of the key."""

    @property
    def changelog_mode(self) -> ChangelogMode:
        return _READ

    def decoder(self, context: ReadContext) -> MessageDecoder:
        return UpsertDecoder(self.columns, self.format, self.key_format, self.time_zone, context, self.most)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "connector": "upsert-kafka"}


@dataclass(frozen=True)
class UpsertKafkaSink(KafkaSink):
    """Takes changes by key."""

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        if requested.is_append_only:
            return APPEND
        return ChangelogMode(
            update_after=requested.update_after, delete=requested.delete, key_only_deletes=requested.delete
        )

    def encoder(self) -> MessageEncoder:
        return _UpsertEncoder(self)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "connector": "upsert-kafka"}


class _UpsertEncoder(MessageEncoder):
    """A deletion is a message without a value."""

    def encode(self, batch: ChangelogBatch) -> Any:
        if batch.kinds is not None:
            batch = batch.filter(batch.kinds != UPDATE_BEFORE)
        return super().encode(batch)

    def values(self, batch: ChangelogBatch) -> pa.Array:
        values = super().values(ChangelogBatch(batch.rows))
        deleted = pa.array(batch.kinds_or_inserts() == DELETE)
        return pc.if_else(deleted, pa.scalar(None, values.type), values)


def _as_kafka(request: TableRequest) -> TableRequest:
    """What `kafka` is asked for: the key is that of the table, and reading begins at the beginning."""
    formats = [request.options.get(o.key, "") for o in (VALUE_FORMAT, KEY_FORMAT)]
    prefixes = ("properties.", *(f"{p}.{f}." for p, f in zip(("value", "key"), formats, strict=True) if f))
    options = TableOptions(request.options, "connector 'upsert-kafka'", UPSERT_OPTIONS, prefixes)
    for option in (VALUE_FORMAT, KEY_FORMAT):
        options.required(option)
    if not request.primary_key:
        raise OptionError(
            f"{request.name} needs a PRIMARY KEY: it says which message replaces which",
            code="E1504",
            hint="declare PRIMARY KEY (..) NOT ENFORCED, or use the connector 'kafka'",
        )
    given = {k: v for k, v in request.options.items() if k not in {o.key for o in _FLUSH}}
    given |= {KEY_FIELDS.key: ";".join(request.primary_key), STARTUP.key: "earliest-offset"}
    return replace(request, options=given)


def _no_changes(request: TableRequest, source: KafkaSource | KafkaSink) -> None:
    if not source.format.changelog_mode.is_append_only:
        raise OptionError(
            f"option '{VALUE_FORMAT.key}' of {request.name} cannot be '{source.format.name}', which is a format of changes",
            hint="use 'json' or 'csv': here a message is the row itself",
        )


def _source(request: TableRequest) -> KafkaSource:
    source = kafka_source(_as_kafka(request), UpsertKafkaSource)
    _no_changes(request, source)
    return source


def _sink(request: TableRequest) -> KafkaSink:
    sink = kafka_sink(_as_kafka(request), UpsertKafkaSink)
    _no_changes(request, sink)
    return sink


UPSERT_KAFKA = ConnectorFactory(
    name="upsert-kafka",
    document="topics of Kafka in which the newest message of a key is its row",
    source=_source,
    sink=_sink,
    metadata=METADATA,
    options=UPSERT_OPTIONS,
    prefixes=("properties.",),
)
