"""Messages of Protobuf whose schemas are in a registry, against a stand-in for one over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from connector_tables import REGISTRY, end, rows_of, sink, source
from kafka_broker import Broker

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import OptionError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BYTES, STRING, array, row, timestamp_ltz
from runtime.spi.format import Payloads
from sqlengine import TableEnvironment
from tests.servers.registry import Registry, registry


@pytest.fixture(scope="module")
def broker() -> Broker:
    return Broker()


@pytest.fixture
def there() -> Iterator[Registry]:
    with registry() as found:
        yield found


FIRST = 'syntax = "proto3"; package p; message Order { int64 id = 1; string name = 2; }'
SECOND = """syntax = "proto3"; package p; import "parts.proto"; message Other { bool x = 1; }
  message Order { int64 id = 1; parts.Part part = 3; message Line { string id_text = 1; int64 id = 2; } }"""
PARTS = 'syntax = "proto3"; package parts; message Part { string what = 1; }'


def registered(broker: Broker, there: Registry, topic: str, **more: str) -> dict[str, str]:
    given = broker.options(topic, format="protobuf-confluent") | {"sink.partitioner": "fixed"}
    return given | {f"protobuf-confluent.{k}": v for k, v in {"url": there.url, **more}.items()}


def test_schemas_of_a_registry(broker: Broker, there: Registry) -> None:
    topic = broker.topic()
    there.add("parts", PARTS, "PROTOBUF")
    old = there.add(f"{topic}-value", FIRST, "PROTOBUF")
    refers = [{"name": "parts.proto", "subject": "parts", "version": 1}]
    new = there.add(f"{topic}-value", SECOND, "PROTOBUF", refers)

    def message(number: int, place: bytes, body: bytes) -> bytes:
        return b"\x00" + number.to_bytes(4, "big") + place + body

    broker.send(
        topic,
        message(old, b"\x00", b"\x08\x01\x12\x01a"),
        message(new, b"\x02\x02", b"\x08\x02\x1a\x03\x0a\x01p"),
        message(new, b"\x04\x02\x00", b"\x10\x03"),
        message(old, b"\x02\x00", b"\x08\x04"),
    )
    columns = Schema.of(("id", BIGINT), ("name", STRING), ("part", row(("what", STRING))))
    assert rows_of(source("kafka", columns, registered(broker, there, topic))) == [
        (1, "a", None), (2, None, {"what": "p"}), (3, None, None), (4, "", None),
    ]  # fmt: skip
    with TableEnvironment.create() as env:
        given = ", ".join(
            f"'{k}' = '{v}'" for k, v in registered(broker, there, topic, message="Order").items() if "sink" not in k
        )
        env.execute_sql(f"CREATE TABLE t WITH ('connector' = 'kafka', {given})")
        told = env.execute_sql("DESCRIBE t").to_arrow().to_pylist()
        assert [(r["name"], r["type"]) for r in told] == [("id", "BIGINT"), ("part", "ROW<`what` STRING NOT NULL>")]
        env.execute_sql(
            f"CREATE CATALOG events WITH ('type' = 'confluent-registry', 'url' = '{there.url}', "
            f"'properties.bootstrap.servers' = '{broker.servers}', 'scan.bounded.mode' = 'latest-offset')"
        )
        assert env.execute_sql("SHOW TABLES FROM events.topics").to_arrow().column(0).to_pylist() == [topic]
    wrong = there.add("x", '{"type": "string"}')
    bad = broker.topic()
    for number, place in (
        (old, b"\x02\x04"),
        (new, b"\x02\x00"),
        (wrong, b"\x00"),
        (99, b"\x00"),
        (old, b"\x03"),
        (old, b""),
    ):
        broker.send(bad, message(number, place, b""))
    lenient = registered(broker, there, bad, **{"ignore-parse-errors": "true"})
    assert rows_of(source("kafka", Schema.of(("id", BIGINT.not_null())), lenient)) == []
    decoder = REGISTRY.format("protobuf-confluent", {"protobuf-confluent.url": there.url}).message_decoder(  # type: ignore[attr-defined]
        Schema.of(("id", BIGINT.not_null())), ["id"], "UTC"
    )
    raw = [message(n, p, b"") for n, p in ((old, b"\x02\x04"), (new, b"\x02\x00"), (wrong, b"\x00"), (old, b"\x03"))]
    reasons = [r.reason for _, r in decoder.decode_messages(Payloads.of(pa.array(raw, pa.large_binary()))).rejected]
    assert reasons == [
        "it has no message at [2]", "message p.Other has no field id", f"schema {wrong}: it is one of AVRO, not of Protobuf",
        "it has no message at []",
    ]  # fmt: skip


def test_what_is_registered(broker: Broker, there: Registry) -> None:
    topic = broker.topic()
    schema = Schema.of(("id", BIGINT.not_null()), ("at", timestamp_ltz(6)), ("tags", array(STRING.not_null())))
    rows = pa.array([5], pa.int64()), pa.array([1_500_000], pa.timestamp("us", "UTC")), pa.array([["a"]])
    given = registered(broker, there, topic)
    writer = sink("kafka", schema, given).open_writer("job")
    writer.write(ChangelogBatch.of(list(rows), schema))
    end(writer)
    assert there.schemas[0]["schemaType"] == "PROTOBUF"
    assert there.schemas[0]["schema"].splitlines()[2:5] == [
        "message record {", "  int64 id = 1;", "  optional google.protobuf.Timestamp at = 2;",
    ]  # fmt: skip
    found = rows_of(source("kafka", schema, given))
    assert [(r[0], r[2]) for r in found] == [(5, ["a"])]
    other = broker.topic()
    text = 'syntax = "proto3"; message A { int32 x = 1; } message B { message C { int64 id = 7; } }'
    chosen = registered(broker, there, other, schema=text, message="C")
    writer = sink("kafka", Schema.of(("id", BIGINT)), chosen).open_writer("job")
    writer.write(ChangelogBatch.of([pa.array([9], pa.int64())], Schema.of(("id", BIGINT))))
    end(writer)
    raw = rows_of(source("kafka", Schema.of(("raw", BYTES)), broker.options(other, format="raw")))
    assert raw == [(b"\x00" + there.versions[f"{other}-value"][0].to_bytes(4, "big") + b"\x04\x02\x00\x38\x09",)]
    assert rows_of(source("kafka", Schema.of(("id", BIGINT)), chosen)) == [(9,)]
    closed = registered(broker, there, broker.topic(), **{"properties.auto.register.schemas": "false"})
    with pytest.raises(OptionError, match="does not have the schema that is written"):
        writer = sink("kafka", schema, closed).open_writer("job")
        writer.write(ChangelogBatch.of(list(rows), schema))
        end(writer)
    with pytest.raises(OptionError, match="cannot be used: line 1"):
        REGISTRY.format(
            "protobuf-confluent", {"protobuf-confluent.url": "http://h", "protobuf-confluent.schema": "message"}
        )
