"""Records of Avro: against fastavro, resolution of schemas, values at the edges, and bytes that are no records."""

from __future__ import annotations

import io
import json
import math
import os
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from connector_tables import end, rows_of, sink, source
from kafka_broker import Broker

from connectors.formats.avro import AvroDecoder
from connectors.formats.avro_reading import Unresolved, reading_program
from connectors.formats.avro_schema import AvroType, BadSchema, parse_schema, schema_text
from connectors.formats.avro_types import avro_of, columns_of
from connectors.formats.avro_writing import Unwritable, check_writable, encode_records
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import FormatError, OptionError, UnsupportedError
from runtime.core.schema import Schema
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL_MONTH,
    SMALLINT,
    STRING,
    TIME,
    array,
    decimal,
    map_of,
    multiset,
    row,
    timestamp,
    timestamp_ltz,
)
from runtime.kernels.avro_read import read_records, reason_of
from runtime.spi.format import Payloads
from sqlengine.testing.connectors import every_value
from tests.unit.kernels.avro_calls import ODD, random_arrays, random_schema, spoilt

CASES = int(os.environ.get("FUZZ_CASES", "25"))


def payloads(records: list[bytes]) -> Payloads:
    return Payloads.of(pa.array(records, pa.large_binary()))


def decoded(writer: str | AvroType, schema: Schema, *records: bytes, reader: str | None = None) -> list[Any]:
    """The rows of records, and for what is malformed the reason."""
    type_ = parse_schema(writer) if isinstance(writer, str) else writer
    program = reading_program(type_, schema, None if reader is None else parse_schema(reader))
    given = payloads(list(records))
    columns, state = read_records(program, given.data, given.starts, given.ends)
    rows = iter(zip(*(c.to_pylist() for c in columns), strict=True))
    return [reason_of(program, int(s)) if s else next(rows) for s in state]


def record(*fields: str) -> str:
    """A schema of fields `name: type`, the type in JSON."""
    made = [f.partition(": ") for f in fields]
    types = [{"name": n, "type": json.loads(t) if t[0] in "[{" else t} for n, _, t in made]
    return json.dumps({"type": "record", "name": "R", "fields": types})


def written(schema: str, *values: dict[str, Any]) -> list[bytes]:
    """Records as fastavro writes them."""
    parsed = fastavro.parse_schema(json.loads(schema))
    made: list[bytes] = []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        made.append(out.getvalue())
    return made


def comparable(value: Any) -> Any:
    """As fastavro gives it: times are compared as texts, what is NaN as one."""
    if isinstance(value, dict):
        return [] if not value else {k: comparable(v) for k, v in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(v, tuple) for v in value):
            return {k: comparable(v) for k, v in value}
        return [comparable(v) for v in value]
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.parametrize("seed", range(CASES))
def test_as_fastavro_reads_and_writes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    schema = random_schema(rng)
    arrays = random_arrays(rng, schema, 20)
    type_ = avro_of(schema, False)
    parsed = fastavro.parse_schema(_physical(json.loads(schema_text(type_))))
    ours = encode_records(schema, arrays, type_, 20).to_pylist()
    plain = [a.cast(t) for a, t in zip(arrays, [_stored(a.type) for a in arrays], strict=True)]
    for number, raw in enumerate(ours):
        read = fastavro.schemaless_reader(io.BytesIO(raw), parsed)
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, read)
        assert out.getvalue() == raw
        for field, column in zip(schema, plain, strict=True):
            if not _is_changed(field.type.arrow):
                assert comparable(read[field.name]) == comparable(column[number].as_py())
    given = payloads(ours)
    columns, state = read_records(reading_program(type_, schema), given.data, given.starts, given.ends)
    assert not state.any()
    for column, array_ in zip(columns, arrays, strict=True):
        column.validate(full=True)
        assert column.equals(array_)


def _physical(told: Any) -> Any:
    """A schema without logical types: fastavro has no values for all of them."""
    if isinstance(told, dict):
        if "logicalType" in told:
            return told["type"]
        return {k: _physical(v) for k, v in told.items()}
    return [_physical(v) for v in told] if isinstance(told, list) else told


def _stored(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(type_) or pa.types.is_time32(type_):
        return pa.int32()
    return type_


def _is_changed(type_: pa.DataType) -> bool:
    """Whether the value in Avro is written differently: decimals are bytes, points in time may have another unit."""
    return any(word in str(type_) for word in ("decimal", "timestamp", "date", "time"))


@pytest.mark.parametrize("seed", range(CASES))
def test_bytes_that_are_no_records_harm_nobody(seed: int) -> None:
    rng = np.random.default_rng(seed)
    schema = random_schema(rng)
    type_ = avro_of(schema, True)
    whole = encode_records(schema, random_arrays(rng, schema, 40), type_, 40).to_pylist()
    records = [*spoilt(rng, whole), *(rng.bytes(int(rng.integers(0, 30))) for _ in range(40))]
    found = AvroDecoder(schema, type_).decode_messages(payloads(records))
    assert len(found.batch) + len(found.rejected) == 80
    for column in found.batch.columns:
        column.validate(full=True)
    good = {i for i, (a, b) in enumerate(zip(whole, records[:40], strict=True)) if a == b}
    assert good <= set(found.message_of_row.tolist())
    assert all(row.reason and row.raw.startswith("x'") for _, row in found.rejected)


def test_reasons() -> None:
    schema = Schema.of(("n", INT), ("s", STRING), ("b", BOOLEAN), ("d", decimal(3, 1)))
    writer = record(
        "n: int",
        "s: string",
        "b: boolean",
        'd: {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}',
    )
    found = decoded(
        writer,
        schema,
        b"\x02\x02x\x01\x02\x05",
        b"",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\xfe\xff\xff\xff\xff\x0f\x00\x00\x00",
        b"\x02\x01",
        b"\x02\x02\xff\x00\x00",
        b"\x02\x00\x02\x00",
        b"\x02\x00\x00\x04\x7f\xff",
        b"\x02\x00\x00\x00\x00",
        b"\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    )
    assert found == [
        (1, "x", True, Decimal("0.5")),
        "n: it ends too early",
        "n: an integer has more than 64 bits",
        "n: a number is out of range",
        "s: a length is negative",
        "s: not text in UTF-8",
        "b: a BOOLEAN is neither 0 nor 1",
        "d: a number has too many digits",
        "bytes follow the record",
        "s: it ends too early",
    ]


def test_lists_that_promise_too_much() -> None:
    schema = Schema.of(("a", array(INT)), ("b", array(STRING)))
    writer = record('a: {"type": "array", "items": "null"}', 'b: {"type": "array", "items": "string"}')
    many = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
    assert decoded(
        writer, schema, many + b"\x00\x00", b"\x06\x00\x00", b"\x00" + many + b"\x00", b"\x80\x80\x04\x00\x00"
    ) == [
        "a: too many items without bytes",
        ([None, None, None], []),
        "b: it ends too early",
        "a: too many items without bytes",
    ]
    deep = record('a: {"type": "array", "items": "int"}', "t: " + json.dumps(json.loads(ODD)["fields"][1]["type"]))
    endless = b"\x00\x02" + b"\x02\x02" * 1000
    assert decoded(deep, Schema.of(("a", array(INT))), endless, b"\x00\x00") == ["nested too deeply", ([],)]


@pytest.mark.parametrize(
    ("writer", "column", "raw", "value"),
    [
        ("int", BIGINT, b"\x05", -3),
        ("int", DOUBLE, b"\x05", -3.0),
        ("long", FLOAT, b"\x05", -3.0),
        ("float", DOUBLE, b"\x00\x00\x80?", 1.0),
        ("int", SMALLINT, b"\x05", -3),
        ("string", BYTES, b"\x02a", b"a"),
        ("bytes", STRING, b"\x02a", "a"),
        ('["int", "long", "null"]', BIGINT, b"\x02\x05", -3),
        ('["string", "int"]', STRING, b"\x00\x02a", "a"),
        ('["string", "int"]', STRING, b"\x02\x02", "column c is STRING, and records have int"),
        ('["null", "int"]', INT.not_null(), b"\x00", "column c is NULL, and declared NOT NULL"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "B"]}', STRING, b"\x02", "B"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "B"]}', STRING, b"\x04", "c: its union has no branch of this number"),
        ('{"type": "fixed", "name": "F", "size": 2}', BYTES, b"ab", b"ab"),
        ('{"type": "long", "logicalType": "time-micros"}', TIME, b"\xd0\x0f", "time 1"),
        ('{"type": "map", "values": "int"}', multiset(STRING), b"\x02\x02a\x04\x00", [("a", 2)]),
        ('{"type": "long", "logicalType": "timestamp-micros"}', timestamp(3), b"\x01", "1969-12-31 23:59:59.999000"),
        ('{"type": "long", "logicalType": "timestamp-nanos"}', timestamp(6), b"\xd0\x0f", "1970-01-01 00:00:00.000001"),
        ('{"type": "long", "logicalType": "local-timestamp-millis"}', timestamp(6), b"\x02", "1970-01-01 00:00:00.001000"),
        ('{"type": "long", "logicalType": "timestamp-millis"}', BIGINT, b"\x02", 1),
        ("long", timestamp(3), b"\x02", "1970-01-01 00:00:00.001000"),
        ("null", INT, b"", None),
    ],
)  # fmt: skip
def test_types_that_are_read_as_others(writer: str, column: Any, raw: bytes, value: Any) -> None:
    (found,) = decoded(record(f"c: {writer}"), Schema.of(("c", column)), raw)
    shown = found[0] if isinstance(found, tuple) else found
    assert (
        f"time {shown.microsecond // 1000}" if column == TIME else shown if not column.is_timestamp else str(shown)
    ) == value


@pytest.mark.parametrize(
    ("writer", "column"),
    [
        ("long", INT), ("double", FLOAT), ("string", INT), ("int", STRING), ("boolean", INT), ("int", decimal(5, 2)),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}', decimal(9, 2)),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}', decimal(8, 2)),
        ('{"type": "long", "logicalType": "time-micros"}', timestamp(3)),
        ('{"type": "int", "logicalType": "date"}', TIME), ('{"type": "array", "items": "int"}', INT),
        ('["null", "string"]', INT), ('{"type": "fixed", "name": "F", "size": 2}', STRING),
    ],
)  # fmt: skip
def test_types_that_are_not(writer: str, column: Any) -> None:
    with pytest.raises(Unresolved, match=r"column c is .*, and records have"):
        reading_program(parse_schema(record(f"c: {writer}")), Schema.of(("c", column)))


def test_schemas_that_have_changed() -> None:
    old = record(
        "gone: string", "id: int", 'inner: {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}'
    )
    schema = Schema.of(("id", BIGINT), ("inner", row(("y", STRING), ("x", INT))), ("added", STRING))
    (raw,) = written(old, {"gone": "g", "id": 7, "inner": {"x": 5}})
    assert decoded(old, schema, raw) == [(7, {"y": None, "x": 5}, None)]
    with pytest.raises(Unresolved, match=r"no field for column inner\.y, which is NOT NULL"):
        reading_program(parse_schema(old), Schema.of(("inner", row(("y", INT.not_null())))))
    reader = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "number", "aliases": ["id"], "type": "long"},
            {"name": "added", "type": "string", "default": "new"},
            {"name": "list", "type": {"type": "array", "items": ["null", "int"]}, "default": [1, None]},
        ],
    }
    named = Schema.of(("added", STRING.not_null()), ("number", BIGINT), ("list", array(INT)))
    assert decoded(old, named, raw, raw, reader=json.dumps(reader)) == [("new", 7, [1, None])] * 2
    expected = fastavro.schemaless_reader(io.BytesIO(raw), json.loads(old), reader)
    assert expected == {"number": 7, "added": "new", "list": [1, None]}
    with pytest.raises(Unresolved, match="the schema of the table has no field for column other"):
        reading_program(parse_schema(old), Schema.of(("other", INT)), parse_schema(json.dumps(reader)))


def test_symbols_that_are_new() -> None:
    writer = record('e: {"type": "enum", "name": "E", "symbols": ["A", "N"]}')
    reader = record('e: {"type": "enum", "name": "E", "symbols": ["U", "A"], "default": "U"}')
    assert decoded(writer, Schema.of(("e", STRING)), b"\x00", b"\x02", reader=reader) == [("A",), ("U",)]
    strict = record('e: {"type": "enum", "name": "E", "symbols": ["A"]}')
    assert decoded(writer, Schema.of(("e", STRING)), b"\x02", reader=strict) == ["e: no symbol N"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is nested too deeply"),
        (json.dumps("x"), "there is no type"),
        ('{"type": "array"}', "has no items"),
        (record("a: int", "a: int"), "two fields of one name"),
        ('["int", "int"]', "two branches of one type"),
        ('[["int"]]', "a union is right within a union"),
        ('{"type": "record", "name": "1", "fields": []}', "is no name"),
        ('{"type": "fixed", "name": "F", "size": -1}', "has no size"),
        ('{"type": "enum", "name": "E", "symbols": []}', "symbols"),
        ("1", "a type is 1"),
    ],
)  # fmt: skip
def test_texts_that_are_no_schemas(text: str, why: str) -> None:
    with pytest.raises(BadSchema, match=why):
        parse_schema(text)


def test_records_within_themselves() -> None:
    endless = '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "A"}, {"name": "n", "type": "int"}]}'
    with pytest.raises(Unresolved, match="within itself has no end"):
        reading_program(parse_schema(endless), Schema.of(("n", INT)))
    chain = [{"name": "f0", "type": {"type": "record", "name": "A0", "fields": []}}]
    for i in range(1, 5000):
        fields = [{"name": "x", "type": f"A{i - 1}"}]
        chain.append({"name": f"f{i}", "type": {"type": "record", "name": f"A{i}", "fields": fields}})
    wide = json.dumps({"type": "record", "name": "R", "fields": [*chain, {"name": "n", "type": "int"}]})
    (found,) = decoded(wide, Schema.of(("n", INT)), b"\x02")
    assert found == "nested too deeply"


def test_columns_of_a_schema() -> None:
    schema, _ = every_value()
    assert columns_of(avro_of(schema, False)).names == schema.names
    told = json.loads(ODD.replace('"int", "long", "string"', '"int"'))
    told["fields"] = [f for f in told["fields"] if f["name"] not in ("tree", "pairs")]
    found = columns_of(parse_schema(json.dumps(told))).select((0, 1, 3, 4))
    assert str(found) == "old INT, suit STRING NOT NULL, id BYTES NOT NULL, amount DECIMAL(9, 2) NOT NULL"
    with pytest.raises(UnsupportedError, match="tree.children is record Tree"):
        columns_of(parse_schema(record("tree: " + json.dumps(json.loads(ODD)["fields"][1]["type"]))))
    with pytest.raises(UnsupportedError, match="old is union of int, long"):
        columns_of(parse_schema(record('old: ["int", "long"]')))


def test_writing_under_another_schema() -> None:
    schema = Schema.of(("id", INT), ("e", STRING), ("at", timestamp_ltz(3)), ("m", map_of(STRING, INT)))
    text = json.dumps(
        {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
                {"name": "id", "type": ["long", "null"]},
                {"name": "extra", "type": "string", "default": "x"},
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
                {"name": "m", "type": {"type": "map", "values": ["null", "long"]}},
            ],
        }
    )
    type_ = parse_schema(text)
    columns = [
        pa.array([1, None], pa.int32()),
        pa.array(["B", "A"]),
        pa.array([1000, 2000], pa.timestamp("us", "UTC")),
        pa.array([[("k", 1)], []], schema[3].type.arrow),
    ]
    raw = encode_records(schema, columns, type_, 2).to_pylist()
    assert decoded(text, Schema.of(("e", STRING), ("id", BIGINT), ("m", map_of(STRING, BIGINT))), *raw) == [
        ("B", 1, [("k", 1)]),
        ("A", None, []),
    ]
    assert decoded(text, Schema.of(("extra", STRING)), *raw) == [("x",)] * 2
    with pytest.raises(FormatError, match="column e is NULL in row 1 of the batch"):
        encode_records(schema, [columns[0], pa.array(["Z", "A"]), *columns[2:]], type_, 2)
    with pytest.raises(Unwritable, match="no column is its field e"):
        check_writable(Schema.of(("id", INT)), type_)
    with pytest.raises(Unwritable, match="it has no field for column other"):
        check_writable(Schema((*schema.fields, *Schema.of(("other", INT)).fields)), type_)


def test_every_value_in_messages() -> None:
    broker = Broker()
    schema, rows = every_value()
    schema = Schema(tuple(f for f in schema))
    for more in ({}, {"avro.timestamp_mapping.legacy": "false"}):
        options = broker.options(broker.topic(), format="avro") | {"sink.partitioner": "fixed", **more}
        writer = sink("kafka", schema, options).open_writer("job")
        arrays = [pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(schema)]
        writer.write(ChangelogBatch.of(arrays, schema))
        end(writer)
        assert rows_of(source("kafka", schema, options)) == rows


def test_malformed_messages_are_rejected() -> None:
    broker = Broker()
    topic = broker.topic()
    schema = Schema.of(("id", INT), ("name", STRING))
    broker.send(topic, b"\x02\x02\x02\x02a", b"\x05", b"", None, b"\x00\x00")
    options = broker.options(topic, format="avro")
    with pytest.raises(FormatError, match=rf"{topic}, partition 0, offset 1: id: its union has no branch .*: x'05'"):
        rows_of(source("kafka", schema, options))
    lenient = source("kafka", schema, options | {"avro.ignore-parse-errors": "true"})
    assert rows_of(lenient) == [(1, "a"), (None, None)]


def test_what_is_refused() -> None:
    schema = Schema.of(("m", map_of(INT, INT)))
    given = Broker().options("t", format="avro")
    with pytest.raises(UnsupportedError, match="cannot hold column m"):
        source("kafka", schema, given)
    with pytest.raises(UnsupportedError, match="cannot hold column i"):
        sink("kafka", Schema.of(("i", INTERVAL_MONTH)), given)
    with pytest.raises(OptionError, match=r"avro\.encodin"):
        source("kafka", Schema.of(("d", DATE)), given | {"avro.encodin": "binary"})
    with pytest.raises(UnsupportedError, match="does not write records as JSON"):
        source("kafka", Schema.of(("d", DATE)), given | {"avro.encoding": "json"})
