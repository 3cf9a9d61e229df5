"""Formats whose schemas are in a registry, against a stand-in for one over HTTP."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from connector_tables import REGISTRY, end, read_all, rows_of, sink, source
from kafka_broker import Broker

from connectors.schema_registry.client import _MOST_BYTES, NoSchema, RegistryAddress, RegistryClient
from connectors.schema_registry.json_schema import columns_of_json_schema, json_schema_text
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.core.errors import (
    BindError,
    ConnectorError,
    FormatError,
    OptionError,
    UnavailableError,
    UnsupportedError,
)
from runtime.core.retries import Retries
from runtime.core.schema import Schema
from runtime.core.secrets import Secret
from runtime.core.types import INT, STRING, map_of, timestamp_ltz
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import every_value
from tests.servers.registry import Registry, registry

SCHEMA = Schema.of(("id", INT), ("name", STRING))
OLD = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}, {"name": "gone", "type": "string"}]}'
NEW = """{"type": "record", "name": "R", "fields": [{"name": "name", "type": ["null", "string"]}, {"name": "id", "type": "int"},
  {"name": "more", "type": {"type": "array", "items": "double"}}]}"""


@pytest.fixture(scope="module")
def broker() -> Broker:
    return Broker()


@pytest.fixture
def there() -> Iterator[Registry]:
    with registry() as found:
        yield found


def options(
    broker: Broker, there: Registry, topic: str, format_: str = "avro-confluent", **more: str
) -> dict[str, str]:
    given = {f"{format_}.{key}": value for key, value in more.items()}
    return broker.options(topic, format=format_) | {f"{format_}.url": there.url, "sink.partitioner": "fixed", **given}


def message(number: int, schema: str, value: dict[str, Any]) -> bytes:
    """As Confluent's own clients write it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return b"\x00" + number.to_bytes(4, "big") + out.getvalue()


def write(given: dict[str, str], schema: Schema, rows: list[tuple[Any, ...]], kinds: list[int] | None = None) -> None:
    writer = sink("kafka", schema, given).open_writer("job")
    arrays = [pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(schema)]
    writer.write(ChangelogBatch.of(arrays, schema, None if kinds is None else pa.array(kinds, pa.int8()).to_numpy()))
    end(writer)


def test_each_message_is_read_by_its_schema(broker: Broker, there: Registry) -> None:
    topic = broker.topic()
    old, new = there.add("x", OLD), there.add("x", NEW)
    broker.send(
        topic, message(old, OLD, {"id": 1, "gone": "g"}), message(new, NEW, {"id": 2, "name": "b", "more": [1.5]})
    )
    broker.send(
        topic, message(old, OLD, {"id": 3, "gone": ""}), None, message(new, NEW, {"id": 4, "name": None, "more": []})
    )
    assert rows_of(source("kafka", SCHEMA, options(broker, there, topic))) == [
        (1, None),
        (2, "b"),
        (3, None),
        (4, None),
    ]
    asked = [path for path in there.asked if path.startswith("/schemas")]
    assert sorted(asked) == [f"/schemas/ids/{old}", f"/schemas/ids/{new}"]
    reader = json.loads(OLD)
    reader["fields"] = [{"name": "id", "type": "int"}, {"name": "gone", "type": "string", "default": "none"}]
    gone = Schema.of(("id", INT), ("gone", STRING))
    read = source("kafka", gone, options(broker, there, topic, schema=json.dumps(reader)))
    assert rows_of(read) == [(1, "g"), (2, "none"), (3, ""), (4, "none")]


def test_what_no_schema_tells_is_malformed(broker: Broker, there: Registry) -> None:
    topic = broker.topic()
    right, other = there.add("x", OLD), there.add("x", "message M {}", "PROTOBUF")
    wrong = there.add("x", '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}]}')
    framed = [b"\x00" + n.to_bytes(4, "big") + b"\x02\x00" for n in (right, other, wrong, 77)]
    broker.send(topic, *framed, b"\x01\x00\x00\x00\x01\x02\x00", b"\x00", b"")
    lenient = source("kafka", SCHEMA, options(broker, there, topic, **{"ignore-parse-errors": "true"}))
    assert rows_of(lenient) == [(1, None)]
    with pytest.raises(FormatError, match=rf"offset 1: schema {other}: it is one of PROTOBUF, not of Avro: x'00"):
        rows_of(source("kafka", SCHEMA, options(broker, there, topic)))
    found = source("kafka", SCHEMA, options(broker, there, topic)).decoder(_Context())._value._decoder  # type: ignore[attr-defined]
    reasons = [found._decoder(n) for n in (wrong, 77, -1)]
    assert reasons[0] == f"schema {wrong}: column id is INT, and records have string"
    assert reasons[1] == "schema 77: the registry has no schema 77"
    assert str(reasons[2]).startswith("no message of a schema registry")


class _Context:
    time_zone = "UTC"

    def reject(self, rows: Any) -> None: ...

    def wake(self) -> None: ...


@pytest.mark.parametrize("format_", ["avro-confluent", "json-confluent"])
def test_every_value(format_: str, broker: Broker, there: Registry) -> None:
    schema, rows = every_value()
    topic = broker.topic()
    given = options(broker, there, topic, format_)
    write(given, schema, rows)
    assert rows_of(source("kafka", schema, given)) == rows
    assert list(there.versions) == [f"{topic}-value"]
    assert there.schemas[0]["schemaType"] == ("AVRO" if format_ == "avro-confluent" else "JSON")


def test_events_of_debezium(broker: Broker, there: Registry) -> None:
    topic = broker.topic()
    given = options(broker, there, topic, "debezium-avro-confluent")
    rows = [(1, "a"), (1, "a"), (1, "b"), (2, None), (2, None)]
    write(given, SCHEMA, rows, [INSERT, UPDATE_BEFORE, UPDATE_AFTER, INSERT, DELETE])
    read = read_all(source("kafka", SCHEMA, given))
    assert read == [
        (INSERT, (1, "a")),
        (DELETE, (1, "a")),
        (INSERT, (1, "b")),
        (INSERT, (2, None)),
        (DELETE, (2, None)),
    ]
    envelope = json.dumps(
        {
            "type": "record",
            "name": "Envelope",
            "fields": [
                {"name": "before", "type": ["null", json.loads(NEW)], "default": None},
                {"name": "after", "type": ["null", "R"], "default": None},
                {
                    "name": "source",
                    "type": {"type": "record", "name": "S", "fields": [{"name": "lsn", "type": "long"}]},
                },
                {"name": "op", "type": "string"},
            ],
        }
    )
    other = broker.topic()
    number = there.add(f"{other}-value", envelope)
    one, two = ({"name": n, "id": 1, "more": []} for n in "ab")
    events = [("r", None, one), ("u", one, two), ("d", two, None), ("x", one, None), ("u", None, one)]
    for op, before, after in events:
        broker.send(
            other, message(number, envelope, {"before": before, "after": after, "source": {"lsn": 5}, "op": op})
        )
    broker.send(other, None)
    lenient = {"ignore-parse-errors": "true"}
    kinds = read_all(source("kafka", SCHEMA, options(broker, there, other, "debezium-avro-confluent", **lenient)))
    assert kinds == [
        (INSERT, (1, "a")), (UPDATE_BEFORE, (1, "a")), (UPDATE_AFTER, (1, "b")), (DELETE, (1, "b")),
    ]  # fmt: skip
    with pytest.raises(FormatError, match="offset 3: unknown operation"):
        read_all(source("kafka", SCHEMA, options(broker, there, other, "debezium-avro-confluent")))


def test_keys_have_a_subject_of_their_own(broker: Broker, there: Registry) -> None:
    topic = broker.topic()
    given = broker.options(topic) | {
        "key.format": "avro-confluent",
        "key.avro-confluent.url": there.url,
        "key.fields": "id",
        "value.format": "avro-confluent",
        "value.avro-confluent.url": there.url,
        "value.fields-include": "EXCEPT_KEY",
    }
    write(given, SCHEMA, [(1, "a"), (2, "b")])
    assert sorted(rows_of(source("kafka", SCHEMA, given))) == [(1, "a"), (2, "b")]
    assert sorted(there.versions) == [f"{topic}-key", f"{topic}-value"]


def test_a_schema_that_may_not_be_made(broker: Broker, there: Registry) -> None:
    given = options(
        broker, there, broker.topic(), subject="fixed", schema=NEW, **{"properties.auto.register.schemas": "false"}
    )
    schema = Schema((*SCHEMA.fields, *Schema.of(("more", STRING)).fields))
    with pytest.raises(UnsupportedError, match="does not hold the columns: column more is STRING"):
        write(given, schema, [(1, "a", "")])
    other = options(broker, there, broker.topic(), **{"properties.auto.register.schemas": "false"})
    with pytest.raises(OptionError, match="does not have the schema that is written"):
        write(other, SCHEMA, [(1, "a")])
    assert not there.versions


def test_columns_are_found(broker: Broker, there: Registry) -> None:
    topic = broker.topic()
    there.add(f"{topic}-value", OLD)
    number = there.add(f"{topic}-value", NEW)
    broker.send(topic, message(number, NEW, {"id": 2, "name": "b", "more": [1.5]}))
    texts = json_schema_text(
        Schema.of(("id", INT.not_null()), ("m", map_of(STRING.not_null(), INT)), ("at", timestamp_ltz(3)))
    )
    there.add("json-topic-value", texts, "JSON")
    there.add("odd-value", "message M {}", "PROTOBUF")
    with TableEnvironment.create() as env:
        given = ", ".join(f"'{k}' = '{v}'" for k, v in options(broker, there, topic).items() if k != "sink.partitioner")
        env.execute_sql(f"CREATE TABLE t (o BIGINT METADATA FROM 'offset') WITH ('connector' = 'kafka', {given})")
        assert [tuple(r.values()) for r in env.execute_sql("SELECT * FROM t").to_arrow().to_pylist()] == [
            ("b", 2, [1.5], 0)
        ]
        env.execute_sql(
            f"CREATE CATALOG events WITH ('type' = 'confluent-registry', 'url' = '{there.url}', "
            f"'properties.bootstrap.servers' = '{broker.servers}', 'scan.bounded.mode' = 'latest-offset')"
        )
        tables = env.execute_sql("SHOW TABLES FROM events.topics").to_arrow().column(0).to_pylist()
        assert tables == sorted([topic, "json-topic"])
        assert env.execute_sql(f"SELECT name, id FROM events.topics.`{topic}`").to_arrow().to_pylist() == [
            {"name": "b", "id": 2}
        ]
        described = env.execute_sql("DESCRIBE events.topics.`json-topic`").to_arrow().to_pylist()
        assert [(r["name"], r["type"]) for r in described] == [
            ("id", "INT"),
            ("m", "MAP<STRING NOT NULL, INT>"),
            ("at", "STRING"),
        ]
        with pytest.raises(BindError, match='unknown table "events.topics.odd'):
            env.execute_sql("SELECT * FROM events.topics.odd")
        with pytest.raises(FormatError, match="format 'json' do not tell their columns"):
            env.execute_sql(
                f"CREATE TABLE j WITH ('connector' = 'kafka', 'topic' = 'x', 'format' = 'json', "
                f"'properties.bootstrap.servers' = '{broker.servers}')"
            )


def test_schemas_that_refer_to_others(there: Registry) -> None:
    inner = '{"type": "record", "name": "a.Inner", "fields": [{"name": "x", "type": "int"}]}'
    middle = '{"type": "record", "name": "a.Middle", "fields": [{"name": "in", "type": "a.Inner"}]}'
    outer = '{"type": "record", "name": "R", "fields": [{"name": "m", "type": "a.Middle"}]}'
    there.add("inner", inner)
    there.add("middle", middle, references=[{"name": "a.Inner", "subject": "inner", "version": 1}])
    number = there.add("outer", outer, references=[{"name": "a.Middle", "subject": "middle", "version": 1}])
    found = RegistryClient(RegistryAddress((there.url,))).schema(number)
    assert [name for name, _ in found.references] == ["a.Inner", "a.Middle"]
    made = REGISTRY.format("avro-confluent", {"avro-confluent.url": there.url, "avro-confluent.subject": "outer"})
    assert str(made.infer_columns()) == "m ROW<`in` ROW<`x` INT NOT NULL> NOT NULL> NOT NULL"  # type: ignore[attr-defined]
    again = pickle.loads(pickle.dumps(made))
    assert str(again.infer_columns()) == str(made.infer_columns())  # type: ignore[attr-defined]
    there.add("endless", OLD, references=[{"name": f"r{n}", "subject": "inner", "version": 1} for n in range(200)])
    with pytest.raises(ConnectorError, match="refers to more than 100 others"):
        RegistryClient(RegistryAddress((there.url,))).latest("endless")


def test_a_registry_that_is_away_or_refuses(there: Registry) -> None:
    number, at_once = there.add("x", OLD), Retries(2, first=0.0)
    client = RegistryClient(RegistryAddress((there.url,)), at_once)
    there.failures = [503, 429]
    assert client.schema(number).text == OLD
    there.failures = [503] * 3
    with pytest.raises(UnavailableError, match=r"does not answer: HTTP 503 busy"):
        client.latest("x")
    asked = len(there.asked)
    assert client.schema(number).text == OLD
    for _ in range(2):
        with pytest.raises(NoSchema):
            client.schema(99)
    assert len(there.asked) == asked + 1
    with pytest.raises(UnavailableError, match="does not answer"):
        RegistryClient(RegistryAddress(("http://127.0.0.1:1",)), at_once).subjects()
    assert RegistryClient(RegistryAddress(("http://127.0.0.1:1", there.url)), at_once).subjects() == ["x"]
    there.user = "ann:pass word"
    with pytest.raises(ConnectorError, match="HTTP 401 Unauthorized") as caught:
        RegistryClient(RegistryAddress((there.url,), Secret("Basic nobody"))).subjects()
    assert "nobody" not in str(caught.value)
    named = there.url.replace("://", "://ann:pass%20word@")
    for more in ({"basic-auth.user-info": "ann:pass word"}, {"url": named}):
        made = REGISTRY.format(
            "avro-confluent", {f"avro-confluent.{k}": v for k, v in {"url": there.url, "subject": "x", **more}.items()}
        )
        assert len(made.infer_columns()) == 2  # type: ignore[attr-defined]
    there.user = ""
    there.redirect = "http://127.0.0.1:1/elsewhere"
    with pytest.raises(ConnectorError, match="HTTP 302"):
        RegistryClient(RegistryAddress((there.url,))).subjects()
    there.redirect = ""
    for answer, why in (
        (b"<html>", "otherwise than"),
        (b'{"a": 1}', "otherwise than"),
        (b" " * (_MOST_BYTES + 1), "more than"),
    ):
        there.answer = answer
        with pytest.raises(ConnectorError, match=why):
            RegistryClient(RegistryAddress((there.url,))).subjects()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "needs the option 'url'"),
        ({"url": "file:///etc/passwd"}, "cannot be 'file:///etc/passwd'"),
        ({"url": "http://h", "sujbect": "x"}, "avro-confluent.sujbect"),
        ({"url": "http://h", "properties.auto.register.schema": "false"}, "auto.register.schema'"),
        ({"url": "http://h", "schema": "{"}, "is no schema of Avro: it is not JSON"),
        ({"url": "http://h", "basic-auth.credentials-source": "SASL_INHERIT"}, "credentials-source' cannot be"),
    ],
)
def test_options_that_are_wrong(given: dict[str, str], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        REGISTRY.format("avro-confluent", {f"avro-confluent.{k}": v for k, v in given.items()})


def test_schemas_of_json() -> None:
    text = json.dumps(
        {
            "type": "object",
            "definitions": {"P": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
            "properties": {
                "p": {"$ref": "#/definitions/P"},
                "n": {"type": ["null", "number"]},
                "a": {
                    "type": "array",
                    "items": {"oneOf": [{"type": "null"}, {"type": "integer", "connect.type": "int16"}]},
                },
                "any": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
                "far": {"$ref": "http://elsewhere/x.json"},
            },
            "required": ["a", "n"],
        }
    )
    assert str(columns_of_json_schema(text)) == (
        "p ROW<`x` BIGINT NOT NULL>, n DOUBLE, a ARRAY<SMALLINT> NOT NULL, any STRING, far STRING"
    )
    for wrong in ("[", "1", '{"type": "string"}', '{"$ref": "#"}'):
        with pytest.raises(FormatError, match="it is no schema"):
            columns_of_json_schema(wrong)
