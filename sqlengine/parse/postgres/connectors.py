"""Options of sources and sinks as RisingWave writes them, as those of the connectors and formats that are here.

    connector = 'kafka', properties.bootstrap.server = 'b:9092', scan.startup.mode = 'earliest'
    FORMAT PLAIN ENCODE JSON
      →  'connector' = 'kafka', 'properties.bootstrap.servers' = 'b:9092', 'scan.startup.mode' = 'earliest-offset',
         'format' = 'json'

A key that is not listed stays as it is, so options of Flink's are taken, too; who makes the table refuses what it does not
know. Source: RisingWave, CREATE SOURCE, CREATE SINK, and "Formats and encode parameters".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from runtime.core import types
from runtime.core.types import DataType
from sqlengine.parse.ddl_nodes import Option

__all__ = ["ENCODES", "FORMATS", "INCLUDED", "Encoding", "Refusal", "mapped"]

FORMATS = ("PLAIN", "UPSERT", "DEBEZIUM", "MAXWELL", "CANAL", "NATIVE", "NONE")
ENCODES = ("JSON", "AVRO", "CSV", "PROTOBUF", "BYTES", "TEXT", "PARQUET", "NATIVE", "NONE")
INCLUDED: Mapping[str, tuple[str, str, DataType]] = {
    "TIMESTAMP": ("_rw_kafka_timestamp", "timestamp", types.timestamp_ltz(3)),
    "PARTITION": ("_rw_kafka_partition", "partition", types.INT),
    "OFFSET": ("_rw_kafka_offset", "offset", types.BIGINT),
    "HEADER": ("_rw_kafka_header", "headers", types.map_of(types.STRING.not_null(), types.BYTES)),
    "TOPIC": ("_rw_kafka_topic", "topic", types.STRING),
    "FILE": ("_rw_posix_fs_file", "file.path", types.STRING),
}
"""What INCLUDE names: the column's name when none is given, the key of the metadata, the type."""

_KEYS: Mapping[str, Mapping[str, str]] = {
    "kafka": {
        "kafka.brokers": "properties.bootstrap.servers",
        "kafka.topic": "topic",
        "properties.bootstrap.server": "properties.bootstrap.servers",
        "scan.startup.timestamp.millis": "scan.startup.timestamp-millis",
        "scan.startup.timestamp_millis": "scan.startup.timestamp-millis",
    },
    "filesystem": {"posix_fs.root": "path"},
    "datagen": {"datagen.rows.per.second": "rows-per-second", "datagen.split.num": "scan.parallelism"},
    "nexmark": {"nexmark.table.type": "nexmark.table", "nexmark.event.num": "events.num"},
    "jdbc": {"jdbc.url": "url", "table.name": "table-name", "user": "username"},
    "postgres-cdc": {"database.name": "database-name", "schema.name": "schema-name", "table.name": "table-name"},
    "mysql-cdc": {"database.name": "database-name", "table.name": "table-name", "server.id": "server-id"},
}
_CONNECTORS = {"posix_fs": "filesystem"}
_VALUES: Mapping[str, Mapping[str, str]] = {
    "scan.startup.mode": {"earliest": "earliest-offset", "latest": "latest-offset"},
    "nexmark.table": {"person": "person", "auction": "auction", "bid": "bid"},
}
_PLAIN = {
    "JSON": "json",
    "AVRO": "avro",
    "CSV": "csv",
    "PROTOBUF": "protobuf",
    "BYTES": "raw",
    "TEXT": "raw",
    "PARQUET": "parquet",
}
_CHANGES = {
    ("DEBEZIUM", "JSON"): "debezium-json",
    ("DEBEZIUM", "AVRO"): "debezium-avro-confluent",
    ("MAXWELL", "JSON"): "maxwell-json",
    ("CANAL", "JSON"): "canal-json",
}
_OF_FORMATS = {"schema.registry": "url", "delimiter": "field-delimiter"}
_FOR_US = ("appendonly", "append_only", "type", "primary_key", "force_append_only", "snapshot")
"""Options that are about the table, not its connector."""


class Refusal(Exception):
    """An option that means nothing here: the message, what to do, and the option."""

    def __init__(self, message: str, hint: str, option: Option | None = None) -> None:
        super().__init__(message)
        self.message, self.hint, self.option = message, hint, option


class Encoding(NamedTuple):
    """`FORMAT form ENCODE encode (options)`."""

    form: str
    encode: str
    options: tuple[Option, ...]


def mapped(given: Sequence[Option], encoding: Encoding | None) -> tuple[Option, ...]:
    """The options of the table. Raises Refusal."""
    by_key = {option.key.lower(): option for option in given}
    found: list[Option] = []
    connector = by_key["connector"].value.lower() if "connector" in by_key else ""
    connector = _CONNECTORS.get(connector, connector)
    renamed = _KEYS.get(connector, {})
    for option in given:
        key = option.key.lower()
        if key == "connector":
            found.append(option.with_(key="connector", value=connector))
        elif key in ("appendonly", "append_only"):
            if not connector and _truth(option):
                found.append(option.with_(key="changelog-mode", value="append"))
        elif key in ("force_append_only", "snapshot"):
            if _truth(option) == (key == "force_append_only"):
                raise Refusal(
                    f"{key} = '{option.value}' is not supported",
                    "a sink takes all changes, or the query only inserts",
                    option,
                )
        elif key not in _FOR_US:
            new = renamed.get(key, option.key)
            found.append(option.with_(key=new, value=_VALUES.get(new, {}).get(option.value.lower(), option.value)))
    if encoding is not None:
        found += _of_format(encoding, connector, found)
    return tuple(found)


def _of_format(encoding: Encoding, connector: str, found: list[Option]) -> list[Option]:
    form, encode, options = encoding
    if form in ("NATIVE", "NONE") or encode in ("NATIVE", "NONE"):
        return list(options)
    if form == "UPSERT":
        name = _PLAIN.get(encode, "")
        found[:] = [o.with_(value="upsert-kafka") if o.key == "connector" and o.value == "kafka" else o for o in found]
        made = [Option("key.format", name), Option("value.format", name)]
    else:
        name = _PLAIN.get(encode, "") if form == "PLAIN" else _CHANGES.get((form, encode), "")
        made = [Option("format", name)]
    if not name:
        raise Refusal(
            f"FORMAT {form} ENCODE {encode} is not known", "PLAIN takes all encodings, DEBEZIUM JSON and AVRO"
        )
    by_key = {option.key.lower(): option for option in options}
    if name == "avro" and "schema.registry" in by_key:
        name = "avro-confluent"
        made = [Option(o.key, name) for o in made]
    for key, option in by_key.items():
        if key == "without_header":
            made.append(option.with_(key="csv.header", value="false" if _truth(option) else "true"))
        elif key == "force_append_only":
            if _truth(option):
                raise Refusal(
                    "force_append_only is not supported", "write a query that only inserts, or FORMAT DEBEZIUM", option
                )
        else:
            made.append(option.with_(key=f"{name}.{_OF_FORMATS.get(key, option.key)}"))
    return made


def _truth(option: Option) -> bool:
    if option.value.lower() not in ("true", "false", "t", "f"):
        raise Refusal(f"{option.key} is 'true' or 'false'", "for example (appendonly = 'true')", option)
    return option.value.lower().startswith("t")
