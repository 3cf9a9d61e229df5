"""The options of the connector `kafka`, as in Flink 2.3, and what they say where reading begins and ends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from connectors.kit.commits import SPOOL_SIZE
from connectors.options import FORMAT, MAX_RECORD, TableOptions
from runtime.core.errors import OptionError
from runtime.core.options import Option, duration_option, int_option, text_option

__all__ = [
    "DISCOVERY",
    "FIELDS_INCLUDE",
    "KAFKA_OPTIONS",
    "KEY_FIELDS",
    "KEY_FORMAT",
    "KEY_PREFIX",
    "PARTITIONER",
    "SPOOL_SIZE",
    "Place",
    "TOPIC",
    "TOPIC_PATTERN",
    "VALUE_FORMAT",
    "client_properties",
    "read_delivery",
    "read_end",
    "read_start",
    "starting_at",
]

TOPIC = text_option("topic", "", "the topic; to read several, separate them with ';'")
TOPIC_PATTERN = text_option("topic-pattern", "", "a regular expression; reads all topics whose names match")
SERVERS = text_option("properties.bootstrap.servers", "", "the brokers for the first connection, such as 'broker:9092'")
GROUP = text_option("properties.group.id", "", "the consumer group to which checkpoints commit offsets")
VALUE_FORMAT = text_option("value.format", "", "another name of 'format'")
KEY_FORMAT = text_option("key.format", "", "the format of keys; without it there are none")
KEY_FIELDS = text_option("key.fields", "", "the columns of the key, separated by ';'")
KEY_PREFIX = text_option("key.fields-prefix", "", "a prefix of the names of key columns")
FIELDS_INCLUDE = text_option(
    "value.fields-include", "ALL", "whether columns of the key are in the value, too", ("ALL", "EXCEPT_KEY")
)
STARTUP = text_option(
    "scan.startup.mode",
    "group-offsets",
    "where reading begins",
    ("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets"),
)
STARTUP_OFFSETS = text_option(
    "scan.startup.specific-offsets", "", "where, by partition: 'partition:0,offset:42;partition:1,offset:300'"
)
STARTUP_MILLIS = int_option(
    "scan.startup.timestamp-millis", -1, "the time from which to read, in milliseconds since 1970"
)
BOUNDED = text_option(
    "scan.bounded.mode",
    "unbounded",
    "where reading ends",
    ("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets"),
)
BOUNDED_OFFSETS = text_option(
    "scan.bounded.specific-offsets", "", "where, by partition: 'partition:0,offset:42;partition:1,offset:300'"
)
BOUNDED_MILLIS = int_option(
    "scan.bounded.timestamp-millis", -1, "the time up to which to read, in milliseconds since 1970"
)
DISCOVERY = duration_option(
    "scan.topic-partition-discovery.interval", 300_000, "how often to look for new partitions; 0 is never"
)
SCAN_PARALLELISM = int_option("scan.parallelism", 1, "accepted for compatibility")
PARTITIONER = text_option(
    "sink.partitioner",
    "default",
    "how rows are assigned to partitions: by key as in the Java client, all to the first one, or in turn",
    ("default", "fixed", "round-robin"),
)
GUARANTEE = text_option(
    "sink.delivery-guarantee",
    "at-least-once",
    "how often a row is there when a job goes on after a crash; 'none' may lose rows",
    ("exactly-once", "at-least-once", "none"),
)
PREFIX = text_option(
    "sink.transactional-id-prefix",
    "",
    "begins the names of transactions ('exactly-once'); no two installations share it",
)
NAMING = text_option("sink.transaction-naming-strategy", "", "accepted for compatibility")
SINK_PARALLELISM = int_option("sink.parallelism", 1, "accepted for compatibility")

KAFKA_OPTIONS: tuple[Option[object], ...] = (
    TOPIC,
    TOPIC_PATTERN,
    SERVERS,
    GROUP,
    FORMAT,
    VALUE_FORMAT,
    KEY_FORMAT,
    KEY_FIELDS,
    KEY_PREFIX,
    FIELDS_INCLUDE,
    STARTUP,
    STARTUP_OFFSETS,
    STARTUP_MILLIS,
    BOUNDED,
    BOUNDED_OFFSETS,
    BOUNDED_MILLIS,
    DISCOVERY,
    MAX_RECORD,
    SCAN_PARALLELISM,
    PARTITIONER,
    GUARANTEE,
    PREFIX,
    NAMING,
    SPOOL_SIZE,
    SINK_PARALLELISM,
)  # type: ignore[assignment]

_OF_JAVA_ALONE = ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in each partition: `mode` of `scan.startup.mode` or `scan.bounded.mode`, with the time (milliseconds since
    the epoch) or the offsets by partition that it needs."""

    mode: str
    millis: int = -1
    offsets: tuple[tuple[int, int], ...] = ()


def read_start(options: TableOptions) -> Place:
    """Where reading begins; raises OptionError when a mode lacks what it needs."""
    return _place(options, STARTUP, STARTUP_MILLIS, STARTUP_OFFSETS)


def starting_at(moment: int) -> dict[str, str]:
    """The options that begin with the messages of a time, milliseconds since 1970, or later."""
    return {STARTUP.key: "timestamp", STARTUP_MILLIS.key: str(max(moment, 0))}


def read_end(options: TableOptions) -> Place:
    """Where it ends."""
    return _place(options, BOUNDED, BOUNDED_MILLIS, BOUNDED_OFFSETS)


def _place(options: TableOptions, mode: Option[str], millis: Option[int], offsets: Option[str]) -> Place:
    chosen = options.get(mode).lower()
    if chosen == "timestamp":
        options.required(millis)
        return Place(chosen, options.get(millis))
    if chosen == "specific-offsets":
        return Place(chosen, offsets=_offsets(offsets.key, options.required(offsets)))
    return Place(chosen)


def _offsets(key: str, text: str) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for part in text.split(";"):
        match = re.fullmatch(r"\s*partition:(\d+)\s*,\s*offset:(\d+)\s*", part)
        if match is None:
            raise OptionError(
                f"option '{key}' cannot be '{text}'", hint="such as 'partition:0,offset:42;partition:1,offset:300'"
            )
        found.append((int(match[1]), int(match[2])))
    return tuple(sorted(found))


def client_properties(table: str, options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What stands under `properties.`, as librdkafka knows it; raises OptionError E1504 without brokers.

    A `sasl.jaas.config` with user name and password is taken apart, because librdkafka has its own words for it.
    """
    given = {k.removeprefix("properties."): v for k, v in options.items() if k.startswith("properties.")}
    if not given.get("bootstrap.servers"):
        raise OptionError(
            f"connector 'kafka' needs the option '{SERVERS.key}'", code="E1504", hint=f"set it to {SERVERS.description}"
        )
    for key in _OF_JAVA_ALONE:
        given.pop(key, None)
    jaas = given.pop("sasl.jaas.config", "")
    for key in ("username", "password"):
        found = re.search(rf'{key}\s*=\s*"([^"]*)"', jaas)
        if found is not None:
            given.setdefault(f"sasl.{key}", found[1])
    given.setdefault("group.id", f"KafkaSource-{table}")
    return tuple(sorted(given.items()))


def read_delivery(options: TableOptions) -> tuple[str, str]:
    """The guarantee, and the prefix of transactions; raises OptionError E1504 where that is missing."""
    guarantee = options.get(GUARANTEE).lower()
    prefix = options.required(PREFIX) if guarantee == "exactly-once" else options.get(PREFIX)
    return guarantee, prefix
