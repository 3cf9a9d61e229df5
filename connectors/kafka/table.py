"""The connector `kafka`: its tables to read and to write."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from connectors.formats.message_rows import TellsColumns, check_format, is_message_format
from connectors.kafka import client
from connectors.kafka.event_columns import with_event_columns
from connectors.kafka.messages import METADATA, MessageColumns, MessageDecoder
from connectors.kafka.options import (
    DISCOVERY,
    FIELDS_INCLUDE,
    KAFKA_OPTIONS,
    KEY_FIELDS,
    KEY_FORMAT,
    KEY_PREFIX,
    PARTITIONER,
    SPOOL_SIZE,
    TOPIC,
    TOPIC_PATTERN,
    VALUE_FORMAT,
    Place,
    client_properties,
    read_delivery,
    read_end,
    read_start,
    starting_at,
)
from connectors.kafka.reader import KafkaReader
from connectors.kafka.sink import WRITABLE, KafkaSink
from connectors.listing import Listing
from connectors.options import FORMAT, MAX_RECORD, TableOptions, memory_limit, physical_part
from runtime.checkpoint.keys import KEY_FILE
from runtime.core.changelog import ChangelogMode
from runtime.core.errors import ConnectorError, FormatError, OptionError, UnsupportedError, did_you_mean
from runtime.core.schema import Schema
from runtime.core.types import DataType
from runtime.spi.catalog import ForeignTable
from runtime.spi.format import Format
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

__all__ = ["KAFKA", "KafkaSource", "kafka_sink", "kafka_source"]

_EARLIEST = Place("earliest-offset")
_CHECKPOINT_DIR = "execution.checkpointing.dir"


@dataclass(frozen=True)
class _Partition:
    """`late`: it was not there when the job began, so that all of it is read."""

    topic: str
    partition: int
    late: bool = False


@dataclass(frozen=True)
class KafkaSource:
    """Topics whose partitions are splits.

    Attributes:
        topics: their names; `pattern` instead of these is a regular expression.
        discovery: milliseconds after which new partitions are looked for; 0 is never.
        begin, end: places in partitions.
        most: the bytes of a value or key.
    """

    name: str
    topics: tuple[str, ...]
    pattern: str
    properties: tuple[tuple[str, str], ...] = field(repr=False)
    columns: MessageColumns
    begin: Place
    end: Place
    discovery: int
    notes: bool
    most: int
    time_zone: str
    format_options: tuple[tuple[str, str], ...]
    format: Format = field(compare=False)
    key_format: Format | None = field(compare=False)

    @property
    def schema(self) -> Schema:
        return self.columns.schema

    @property
    def changelog_mode(self) -> ChangelogMode:
        return self.format.changelog_mode

    @property
    def bounded(self) -> bool:
        return self.end.mode != "unbounded"

    @property
    def distributed_reads(self) -> bool:
        """A message is at its offset for whoever reaches the brokers."""
        return True

    @property
    def readable_again(self) -> bool:
        """From the start offset; where that moves with time, or with what the group has read, other messages come."""
        return self.begin.mode not in ("latest-offset", "group-offsets")

    def __getstate__(self) -> dict[str, Any]:
        """Without what it remembers of the brokers."""
        return {key: value for key, value in self.__dict__.items() if key != "_listed"}

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        """A split for each partition, by topic and number; listed anew at most once an interval."""
        return list(self._listing().entries())

    def refresh_splits(self) -> None:
        if self.discovery:
            self._listing().expire()

    def _listing(self) -> Listing[Split]:
        listing = self.__dict__.get("_listed")
        if listing is None:
            listing = Listing(self._list, self.discovery or None)
            object.__setattr__(self, "_listed", listing)
        return listing

    def _list(self) -> list[Split]:
        wanted = re.compile(self.pattern) if self.pattern else None
        found = client.list_partitions(
            dict(self.properties),
            lambda topic: topic in self.topics if wanted is None else wanted.fullmatch(topic) is not None,
        )
        missing = sorted({*self.topics} - {topic for topic, _ in found})
        if missing:
            raise ConnectorError(
                f"there is no topic {missing[0]} at {dict(self.properties)['bootstrap.servers']}",
                code="E3131",
                hint="check the option 'topic', or make the topic first",
            )
        return [Split(f"{topic}:{number}", _Partition(topic, number)) for topic, number in found]

    def discovered(self, split: Split) -> Split:
        """A partition that comes while the job runs is read from its first message on."""
        return replace(split, where=replace(split.where, late=True))

    def open(self, split: Split, context: ReadContext) -> KafkaReader:
        where: _Partition = split.where
        return KafkaReader(
            where.topic,
            where.partition,
            dict(self.properties),
            _EARLIEST if where.late else self.begin,
            self.end,
            self.decoder(context),
            notes=self.notes,
        )

    def decoder(self, context: ReadContext) -> MessageDecoder:
        """What makes rows of messages."""
        return MessageDecoder(self.columns, self.format, self.key_format, self.time_zone, context, self.most)

    def with_columns(self, names: Sequence[str]) -> Self:
        return replace(self, columns=self.columns.select(names))

    def describe(self) -> dict[str, Any]:
        options: dict[str, Any] = dict(self.format_options)
        if any(f.type.root.value == "TIMESTAMP_LTZ" for f in self.schema):
            options["time zone"] = self.time_zone
        return {
            "connector": "kafka",
            "topic": self.pattern or ";".join(self.topics),
            "brokers": dict(self.properties)["bootstrap.servers"],
            "format": self.format.name,
            "columns": list(self.schema.names),
            **({"options": options} if options else {}),
        }

    def preserves_values(self, wide: DataType, narrow: DataType) -> bool:
        """As for files of text: numbers are rounded to FLOAT and DOUBLE, and what does not fit may be left out."""
        return not getattr(self.format, "ignore_parse_errors", False) and not wide.is_approximate


def _options(request: TableRequest) -> tuple[TableOptions, Format, Format | None]:
    """The options, the format of values, and that of keys."""
    value = request.options.get(VALUE_FORMAT.key, "")
    plain = request.options.get(FORMAT.key, "")
    key = request.options.get(KEY_FORMAT.key, "")
    prefixes = ["properties."]
    prefixes += [f"{plain}."] if plain else []
    prefixes += [f"value.{value}."] if value else []
    prefixes += [f"key.{key}."] if key else []
    options = TableOptions(request.options, "connector 'kafka'", KAFKA_OPTIONS, tuple(prefixes))
    if plain and value:
        raise OptionError("options 'format' and 'value.format' are the same", hint="set one of them")
    under = "value." if value else ""
    format_ = _format(request, value or options.required(FORMAT), under)
    return options, format_, _format(request, key, "key.") if key else None


def _format(request: TableRequest, name: str, under: str) -> Format:
    if request.registry is None:
        raise OptionError(f"no format '{name}' without a registry", code="E1502")
    options = {k.removeprefix(under): v for k, v in request.options.items() if k.startswith(under)}
    topic = request.options.get(TOPIC.key, "")
    if topic and ";" not in topic and any(o.key == "subject" for o in request.registry.formats.get(name).options):
        # Of a schema registry; as in Flink.
        options.setdefault(f"{name}.subject", f"{topic}-{'key' if under == 'key.' else 'value'}")
    found = request.registry.format(name, options)
    if not is_message_format(found):
        raise UnsupportedError(
            f"format '{name}'{' with a header' if name == 'csv' else ''} is one of files, not of messages",
            code="E1643",
            hint="use a format of messages, such as 'json', 'csv' or 'debezium-json'",
        )
    return found


def _columns(request: TableRequest, options: TableOptions, key_format: Format | None) -> MessageColumns:
    physical = physical_part(request)
    prefix = options.get(KEY_PREFIX)
    names = [n for n in options.get(KEY_FIELDS).split(";") if n]
    except_key = options.get(FIELDS_INCLUDE).upper() == "EXCEPT_KEY"
    if bool(names) != (key_format is not None):
        raise OptionError(
            f"options '{KEY_FORMAT.key}' and '{KEY_FIELDS.key}' belong together",
            hint="set both: which columns are in the key, and how they are written",
        )
    if key_format is not None and not key_format.changelog_mode.is_append_only:
        raise OptionError(f"option '{KEY_FORMAT.key}' cannot be '{key_format.name}', which is a format of changes")
    for name in names:
        if physical.index_of(name) < 0:
            raise OptionError(
                f"option '{KEY_FIELDS.key}' names '{name}', which is no column of {request.name}",
                hint=did_you_mean(name, physical.names),
            )
        if not name.startswith(prefix):
            raise OptionError(
                f"column {name} of the key does not begin with '{prefix}'", hint=f"see '{KEY_PREFIX.key}'"
            )
    if prefix and not except_key:
        raise OptionError(
            f"option '{KEY_PREFIX.key}' needs '{FIELDS_INCLUDE.key}' = 'EXCEPT_KEY'",
            hint="with 'ALL' columns of the key are in the value under the same name",
        )
    value = Schema(tuple(f for f in physical if not (except_key and f.name in names)))
    if not len(value):
        raise OptionError(f"{request.name} has no column that is in the values of its topic")
    return MessageColumns(
        request.schema, value, Schema(tuple(physical[physical.index_of(n)] for n in names)), prefix, request.metadata
    )


def _format_options(request: TableRequest) -> tuple[tuple[str, str], ...]:
    """The options of formats, and which columns are where: what decides how messages are read."""
    ours = {o.key for o in KAFKA_OPTIONS} - {KEY_FIELDS.key, FIELDS_INCLUDE.key, KEY_PREFIX.key, KEY_FORMAT.key}
    return tuple(
        sorted(
            (k, v) for k, v in request.options.items() if k not in ours and not k.startswith(("properties.", "scan."))
        )
    )


def infer_kafka(request: TableRequest) -> ForeignTable:
    """The columns of a topic, as its format knows them; raises FormatError E3230 where it does not."""
    _, format_, _ = _options(request)
    if not isinstance(format_, TellsColumns):
        raise FormatError(
            f"messages of format '{format_.name}' do not tell their columns",
            code="E3230",
            hint="declare the columns, or use a format with a schema registry, such as 'avro-confluent'",
        )
    return ForeignTable(format_.infer_columns(), request.options)


def kafka_source(request: TableRequest, kind: type[KafkaSource] = KafkaSource) -> KafkaSource:
    """The topics of a table to read, as a source of a kind."""
    options, format_, key_format = _options(request)
    topics = tuple(t.strip() for t in options.get(TOPIC).split(";") if t.strip())
    pattern = options.get(TOPIC_PATTERN)
    if bool(topics) == bool(pattern):
        raise OptionError(
            "connector 'kafka' needs the option 'topic', or 'topic-pattern', and not both",
            code="E1504" if not topics else None,
            hint="set 'topic' to the name of the topic",
        )
    columns, format_ = with_event_columns(request, _columns(request, options, key_format), format_)
    # A format refuses columns that it cannot hold before anything is read.
    check_format(format_, columns.value, request.time_zone)
    return kind(
        request.name,
        topics,
        pattern,
        client_properties(request.name, request.options),
        columns,
        read_start(options),
        read_end(options),
        options.get(DISCOVERY),
        "properties.group.id" in request.options,
        memory_limit(options, MAX_RECORD),
        request.time_zone,
        _format_options(request),
        format_,
        key_format,
    )


def kafka_sink(request: TableRequest, kind: type[KafkaSink] = KafkaSink) -> KafkaSink:
    """The topic of a table to write, as a sink of a kind."""
    options, format_, key_format = _options(request)
    guarantee, prefix = read_delivery(options)
    topic = options.required(TOPIC)
    if ";" in topic:
        raise OptionError("connector 'kafka' writes to one topic", hint="give the option 'topic' one name")
    for _, key in request.metadata:
        if key not in WRITABLE:
            raise OptionError(
                f"connector 'kafka' cannot write metadata column '{key}'", hint="declare it VIRTUAL, or leave it out"
            )
    columns = _columns(request, options, key_format)
    check_format(format_, columns.value, request.time_zone, writes=True)
    return kind(
        request.name,
        topic,
        client_properties(request.name, request.options),
        columns,
        request.primary_key,
        options.get(PARTITIONER).lower(),
        guarantee,
        prefix,
        memory_limit(options, SPOOL_SIZE),
        request.time_zone,
        _format_options(request),
        format_,
        key_format,
        _checkpoints(request),
    )


def _checkpoints(request: TableRequest) -> str:
    """The folder of checkpoints, where files may be that these name: not if they are to be told from forged ones."""
    where = request.environment.text(_CHECKPOINT_DIR) or ""
    if not where or request.environment.text(KEY_FILE.key):
        return ""
    return where if "://" in where else os.path.abspath(os.path.expanduser(where))


KAFKA = ConnectorFactory(
    name="kafka",
    document="topics of Kafka: bounded, or without an end",
    source=kafka_source,
    sink=kafka_sink,
    metadata=METADATA,
    options=KAFKA_OPTIONS,
    prefixes=("properties.",),
    infer=infer_kafka,
    from_moment=starting_at,
)
