"""Calls of the kernels of Avro, for the tests of all kernels: records as they are, cut off and spoilt."""

from __future__ import annotations

import decimal
import json
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.formats.avro_reading import reading_program
from connectors.formats.avro_schema import AvroType, parse_schema
from connectors.formats.avro_types import avro_of
from connectors.formats.avro_writing import encode_records
from runtime.core.schema import Field, Schema
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIME,
    TINYINT,
    DataType,
    TypeRoot,
    array,
    map_of,
    row,
    timestamp,
    timestamp_ltz,
)
from runtime.core.types import decimal as decimal_type
from runtime.kernels.avro_read import read_records, read_stream

__all__ = ["ODD", "of_avro", "random_arrays", "random_schema", "spoilt"]

_PLAIN = [
    BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, BYTES, DATE, TIME, decimal_type(38, 6), decimal_type(5, 2),
    timestamp(3), timestamp(6), timestamp(9), timestamp_ltz(3),
]  # fmt: skip
_TEXTS = ["", "a", "é", "😀", "x" * 70, "\x00"]
ODD = """{"type": "record", "name": "R", "fields": [
 {"name": "old", "type": ["null", "int", "long", "string"]},
 {"name": "tree", "type": ["null", {"type": "record", "name": "Tree", "fields": [
   {"name": "value", "type": "int"}, {"name": "children", "type": {"type": "array", "items": "Tree"}},
   {"name": "next", "type": ["null", "Tree"]}]}]},
 {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["A", "B", "C"]}},
 {"name": "nothing", "type": {"type": "array", "items": "null"}},
 {"name": "id", "type": {"type": "fixed", "name": "Id", "size": 3}},
 {"name": "amount", "type": {"type": "fixed", "name": "Amount", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 2}},
 {"name": "long", "type": "long"},
 {"name": "pairs", "type": {"type": "map", "values": ["double", "float", "null"]}}]}"""
_READER = """{"type": "record", "name": "R", "fields": [
 {"name": "new", "aliases": ["old"], "type": ["null", "double"]},
 {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["A", "B", "Z"], "default": "Z"}},
 {"name": "id", "type": {"type": "fixed", "name": "Id", "size": 3}},
 {"name": "amount", "type": {"type": "fixed", "name": "Amount", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 2}},
 {"name": "long", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
 {"name": "pairs", "type": {"type": "map", "values": ["null", "double"]}},
 {"name": "more", "type": {"type": "array", "items": {"type": "record", "name": "P", "fields": [
   {"name": "x", "type": "int"}, {"name": "y", "type": "string", "default": "why"}]}}, "default": [{"x": 7}, {"x": 8, "y": ""}]}
]}"""
_ODD_COLUMNS = Schema.of(
    ("new", DOUBLE),
    ("suit", STRING),
    ("id", BYTES),
    ("amount", decimal_type(9, 2)),
    ("long", timestamp(3)),
    ("pairs", map_of(STRING.not_null(), DOUBLE)),
    ("more", array(row(("x", INT), ("y", STRING)))),
)


def random_schema(rng: np.random.Generator, most: int = 5) -> Schema:
    """Some columns, plain and nested, NOT NULL or not."""
    return Schema(tuple(Field(f"c{i}", _type(rng, 0)) for i in range(rng.integers(1, most + 1))))


def _type(rng: np.random.Generator, level: int) -> DataType:
    kind = rng.integers(0, 14 if level < 3 else 10)
    if kind < 10:
        found = _PLAIN[rng.integers(len(_PLAIN))]
    elif kind < 12:
        found = row(*((f"f{i}", _type(rng, level + 1)) for i in range(rng.integers(1, 4))))
    elif kind == 12:
        found = array(_type(rng, level + 1))
    else:
        found = map_of(STRING.not_null(), _type(rng, level + 1))
    return found.with_nullable(bool(rng.integers(3)))


def random_arrays(rng: np.random.Generator, schema: Schema, rows: int) -> list[pa.Array]:
    """Values of the columns."""
    return [pa.array([_value(rng, f.type) for _ in range(rows)], f.type.arrow) for f in schema]


def _value(rng: np.random.Generator, type_: DataType) -> Any:
    if type_.nullable and rng.random() < 0.2:
        return None
    match type_.root:
        case TypeRoot.BOOLEAN:
            return bool(rng.integers(2))
        case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INT | TypeRoot.BIGINT:
            bits = type_.arrow.bit_width - 1
            return int(rng.integers(-(1 << bits), (1 << bits) - 1) >> int(rng.integers(bits + 1)))
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return float(np.float32(rng.normal()))
        case TypeRoot.VARCHAR:
            return str(rng.choice(_TEXTS))
        case TypeRoot.VARBINARY:
            return rng.bytes(int(rng.integers(0, 9)))
        case TypeRoot.DECIMAL:
            digits = int(rng.integers(0, type_.precision + 1))
            number = int("".join(map(str, rng.integers(0, 10, digits))) or "0") * int(rng.choice([-1, 1]))
            return decimal.Decimal(number).scaleb(-type_.scale, decimal.Context(40))
        case TypeRoot.DATE:
            return int(rng.integers(-719162, 2932897))
        case TypeRoot.TIME:
            return int(rng.integers(0, 86_400_000))
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return int(rng.integers(-(10**9), 10**9)) * 10 ** ((9 if type_.precision > 6 else 6) - type_.precision)
        case TypeRoot.ARRAY:
            return [_value(rng, type_.children[0]) for _ in range(rng.integers(0, 4))]
        case TypeRoot.MAP:
            return [(f"k{i}", _value(rng, type_.children[1])) for i in range(rng.integers(0, 3))]
        case _:
            return {f.name: _value(rng, f.type) for f in type_.fields}


def spoilt(rng: np.random.Generator, records: list[bytes]) -> list[bytes]:
    """Some of them cut off, longer, or with other bytes."""
    made: list[bytes] = []
    for record in records:
        kind, raw = rng.integers(0, 8), bytearray(record)
        if kind == 0:
            raw = raw[: rng.integers(0, len(raw) + 1)]
        elif kind == 1:
            raw += rng.bytes(3)
        elif kind in (2, 3) and raw:
            for at in rng.integers(0, len(raw), 2):
                raw[at] = int(rng.choice([0, 1, 127, 128, 255, rng.integers(256)]))
        made.append(bytes(raw))
    return made


def _odd_record(rng: np.random.Generator) -> bytes:
    """A record of ODD, as often as not."""
    small = [bytes([2 * int(rng.integers(0, 5))]) for _ in range(20)]
    old = [b"\x00", b"\x02" + small[0], b"\x04" + small[1], b"\x06\x02a"][rng.choice([0, 1, 2, 2, 1, 3])]
    tree = [b"\x00", b"\x02\x02\x00\x00", b"\x02\x02\x01\x0a\x02\x00\x02\x00\x00\x00\x00"][rng.integers(3)]
    blocks = [b"\x00", b"\x06\x00", b"\x05\x00\x00"][rng.integers(3)]
    fixed = rng.bytes(3) + (b"\x00\x00" if rng.integers(2) else b"\xff\xff") + b"\x81" + rng.bytes(2)
    pairs = [b"\x00", b"\x02\x02k\x00" + rng.bytes(8) + b"\x00", b"\x01\x0e\x02k\x02" + rng.bytes(4) + b"\x00"][
        rng.integers(3)
    ]
    return old + tree + bytes([2 * int(rng.integers(0, 3))]) + blocks + fixed + small[3] + pairs


def _shown(state: np.ndarray, columns: list[pa.Array]) -> list[np.ndarray]:
    for column in columns:
        column.validate(full=True)
    cells = [str(column.to_pylist()) if not _has_nanoseconds(column.type) else str(column) for column in columns]
    return [state, np.array(cells, object)]


def _has_nanoseconds(type_: pa.DataType) -> bool:
    return "ns" in str(type_)


def of_avro(rng: np.random.Generator, rows: int) -> list[Any]:
    """What the kernels make of rows, and of records that are spoilt."""
    rows = min(rows, 200)
    schema = random_schema(rng)
    found: list[Any] = []
    arrays = random_arrays(rng, schema, rows)
    written = avro_of(schema, bool(rng.integers(2)))
    encoded = encode_records(schema, arrays, written, rows)
    found.append(np.array(encoded.to_pylist(), object))
    some = Schema(tuple(f for f in schema if rng.integers(2)) or schema.fields[:1])
    for wanted in (schema, some):
        program = reading_program(written, wanted)
        found += _read(program, spoilt(rng, encoded.to_pylist()))
        whole = np.frombuffer(b"".join(spoilt(rng, encoded.to_pylist()[:40])), np.uint8)
        columns, state, end = read_stream(program, whole, 0, min(rows, 40))
        found += [*_shown(state, columns), np.array([end])]
    odd = [_odd_record(rng) for _ in range(rows)]
    for reader in (parse_schema(_READER), None):
        columns = _ODD_COLUMNS if reader is not None else Schema(_ODD_COLUMNS.fields[1:6])
        if reader is None:
            columns = Schema(tuple(f for f in columns if f.name != "long") + (Field("long", FLOAT),))
        found += _read(reading_program(_odd(), columns, reader), odd)
    return found


def _odd() -> AvroType:
    return parse_schema(json.dumps(json.loads(ODD)))


def _read(program: Any, records: list[bytes]) -> list[np.ndarray]:
    lengths = np.array([len(r) for r in records], np.int64)
    ends = np.cumsum(lengths)
    columns, state = read_records(program, np.frombuffer(b"".join(records), np.uint8), ends - lengths, ends)
    return _shown(state, columns)
