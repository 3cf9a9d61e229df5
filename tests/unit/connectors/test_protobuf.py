"""Messages of Protobuf: against Google's library, what fields mean that are not there, and bytes that are no messages."""

from __future__ import annotations

import itertools
import os
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from connector_tables import REGISTRY, end, rows_of, sink, source
from kafka_broker import Broker

from connectors.formats.proto_descriptors import parse_descriptors
from connectors.formats.proto_known import linked_texts
from connectors.formats.proto_maps import without_doubles
from connectors.formats.proto_model import BadSchema, Linked, linked
from connectors.formats.proto_reading import Unresolved, proto_program
from connectors.formats.proto_types import columns_of_message, proto_text_of
from connectors.formats.proto_writing import Unwritable, check_writable, encode_proto
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import FormatError, OptionError, UnsupportedError
from runtime.core.schema import Schema
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    array,
    decimal,
    map_of,
    row,
    timestamp,
    timestamp_ltz,
)
from runtime.kernels.proto_read import read_messages, reason_of
from tests.unit.kernels.proto_calls import COLUMNS, FOLDER, MESSAGES, our_message, random_message, their_class

CASES = int(os.environ.get("FUZZ_CASES", "10"))


def decoded(text: str, schema: Schema, *messages: bytes, defaults: bool = False, name: str = "") -> list[Any]:
    """The rows of messages, and for what is malformed the reason."""
    program = proto_program(linked_texts(text, {}).find(name), schema, defaults=defaults)
    lengths = np.array([len(m) for m in messages], np.int64)
    ends = np.cumsum(lengths)
    columns, state = read_messages(program, np.frombuffer(b"".join(messages), np.uint8), ends - lengths, ends)
    rows = iter(zip(*(without_doubles(c).to_pylist() for c in columns), strict=True))
    return [reason_of(program, int(s)) if s else next(rows) for s in state]


def shown(found: Linked) -> dict[str, Any]:
    """What is known of messages; numbers as they are meant."""
    return {m.name: (m.is_entry, [_field(f) for f in m.fields]) for m in found.messages.values()}


def _field(f: Any) -> tuple[Any, ...]:
    default = f.default
    if default is not None and f.kind in ("double", "fixed32"):
        default = float(int(default, 0) if f.kind == "fixed32" else default)
    enum = f.enum and (f.enum.name, f.enum.values, f.enum.closed)
    return f.name, f.number, f.kind, f.shown, f.repeated, f.required, f.packed, default, f.oneof, enum


@pytest.mark.parametrize("file", MESSAGES)
def test_texts_are_read_as_protoc_reads_them(file: str) -> None:
    ours = shown(linked_texts((FOLDER / f"{file}.proto").read_text(), {}))
    theirs = shown(linked(parse_descriptors((FOLDER / f"{file}.desc").read_bytes())))
    assert ours == {name: theirs[name] for name in ours}
    told = [f.told for f in linked_texts((FOLDER / f"{file}.proto").read_text(), {}).find(MESSAGES[file]).fields]
    assert told == [f.told for f in our_message(file).fields]


def test_an_edition() -> None:
    found = linked(parse_descriptors((FOLDER / "edition.desc").read_bytes())).find("E")
    a, b, c, r, k, inner = found.fields
    assert (a.told, b.told, c.packed, r.required, inner.kind) == (True, False, True, True, "group")
    assert k.enum is not None and k.enum.closed


def expected(message: Any, schema: Schema, ours: Any) -> tuple[Any, ...]:
    """The row of a message, as Google's library has it."""
    fields = {f.name: f for f in ours.fields}
    found: list[Any] = []
    for column in schema:
        field, value = message.DESCRIPTOR.fields_by_name[column.name], getattr(message, column.name)
        mine = fields[column.name]
        if mine.is_map:
            part, inner = mine.message.fields[1], column.type.children[1]
            found.append([(k, _value(value[k], inner, part)) for k in value] or None)
        elif mine.repeated:
            found.append([_value(v, column.type.children[0], mine) for v in value] or None)
        elif field.has_presence and not message.HasField(column.name):
            found.append(None)
        else:
            found.append(_value(value, column.type, mine))
    return tuple(found)


def _value(value: Any, type_: Any, mine: Any) -> Any:
    if type_.is_timestamp:
        return value.seconds * 10**9 + value.nanos
    if mine.message is not None:
        fields = Schema.of(*((f.name, f.type) for f in type_.fields))
        return dict(zip(fields.names, expected(value, fields, mine.message), strict=True))
    if mine.enum is not None:
        return {number: name for name, number in reversed(mine.enum.values)}[value]
    return Decimal(value) if mine.kind in ("uint64", "fixed64") else value


def plain(column: pa.Array) -> list[Any]:
    """Points in time as numbers, and maps in any order."""
    return [_sorted(v) for v in _numbers(column).to_pylist()]


def _sorted(value: Any) -> Any:
    if isinstance(value, list):
        made = [_sorted(v) for v in value]
        return sorted(made, key=repr) if made and isinstance(made[0], tuple) else made
    if isinstance(value, tuple):
        return tuple(_sorted(v) for v in value)
    return {k: _sorted(v) for k, v in value.items()} if isinstance(value, dict) else value


def _numbers(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    if pa.types.is_list(column.type) and pa.types.is_timestamp(column.type.value_type):
        return column.cast(pa.list_(pa.int64()))
    return column


@pytest.mark.parametrize("seed", range(CASES))
@pytest.mark.parametrize("file", MESSAGES)
def test_as_googles_library_reads_and_writes(file: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    theirs, ours, schema = their_class(file), our_message(file), COLUMNS[file]
    messages = [random_message(rng, theirs()) for _ in range(12)]
    # What comes twice: the last one counts, inner messages are put together, lists follow each other.
    given = [m.SerializeToString() for m in messages]
    given += [a + b for a, b in itertools.pairwise(given)]
    whole = [theirs.FromString(m) for m in given]
    lengths = np.array([len(m) for m in given], np.int64)
    ends = np.cumsum(lengths)
    columns, state = read_messages(
        proto_program(ours, schema), np.frombuffer(b"".join(given), np.uint8), ends - lengths, ends
    )
    assert not state.any()
    columns = [without_doubles(c) for c in columns]
    wanted = [expected(m, schema, ours) for m in whole]
    for number, column in enumerate(columns):
        column.validate(full=True)
        assert plain(column) == [_sorted(w[number]) for w in wanted], schema[number].name
    written = encode_proto(schema, columns, ours, len(given)).to_pylist()
    again = [expected(theirs.FromString(w), schema, ours) for w in written]
    assert [_sorted(list(a)) for a in again] == [_sorted(list(w)) for w in wanted]


OLD = (FOLDER / "old.proto").read_text()


def test_fields_that_are_not_there() -> None:
    schema = COLUMNS["old"]
    none, default = (decoded(OLD, schema, b"\x08\x05", b"", defaults=d) for d in (False, True))
    assert none == [(5,) + (None,) * (len(schema) - 1), "id: it is required, and not there"]
    assert default[0] == (
        5, 'no "name"\n', -1500.0, b"\x01\xff\\", "GREEN", [], [], [], -7, 16, True, float("inf"), 0, "", 0, 0,
    )  # fmt: skip
    three = (
        "syntax = 'proto3'; message M { int32 a = 1; optional int32 b = 2; M2 m = 3; repeated int32 r = 4; } "
        "message M2 { string s = 1; }"
    )
    columns = Schema.of(("a", INT), ("b", INT), ("m", row(("s", STRING))), ("r", array(INT)))
    assert decoded(three, columns, b"", name="M") == [(0, None, None, None)]
    assert decoded(three, columns, b"", name="M", defaults=True) == [(0, 0, {"s": ""}, [])]
    needed = Schema.of(("b", INT.not_null()), ("r", array(INT).not_null()))
    assert decoded(three, needed, b"", b"\x10\x01", name="M") == ["b: it is required, and not there", (1, [])]


def test_enums_that_are_not_known() -> None:
    enum = "enum E { A = 0; B = 2; } "
    schema = Schema.of(("e", STRING), ("r", array(STRING)))
    fields = "message M { %s E e = 1; repeated E r = 2; }"
    messages = [b"\x08\x02\x10\x02\x12\x02\x00\x02", b"\x08\x05\x10\x07\x10\x02", b"\x08\x02\x08\x09"]
    closed = 'syntax = "proto2"; ' + enum + fields % "optional"
    assert decoded(closed, schema, *messages) == [("B", ["B", "A", "B"]), (None, ["B"]), ("B", None)]
    opened = 'syntax = "proto3"; ' + enum + fields % ""
    unknown = "UNRECOGNIZED"
    assert decoded(opened, schema, *messages[1:]) == [(unknown, [unknown, "B"]), (unknown, None)]
    numbers = Schema.of(("e", TINYINT), ("r", array(BIGINT)))
    assert decoded(opened, numbers, messages[1], b"\x08\x80\x01") == [(5, [7, 2]), "e: a number is out of range"]
    assert decoded(closed, numbers, messages[1]) == [(None, [2])]


def test_members_of_a_oneof() -> None:
    text = 'syntax = "proto3"; message M { oneof o { int32 a = 1; string b = 2; N n = 3; } } message N { int32 x = 1; int32 y = 2; }'
    schema = Schema.of(("n", row(("x", INT), ("y", INT))), ("a", INT))
    first, second, text_there = b"\x1a\x02\x08\x01", b"\x1a\x02\x10\x02", b"\x12\x01t"
    assert decoded(text, schema, first + second, first + text_there + second, first + text_there, name="M") == [
        ({"x": 1, "y": 2}, None), ({"x": 0, "y": 2}, None), (None, None),
    ]  # fmt: skip
    two = [pa.array([1, None], pa.int32()), pa.array(["x", "y"])]
    with pytest.raises(FormatError, match="a and b are members of oneof o, and both"):
        encode_proto(Schema.of(("a", INT), ("b", STRING)), two, linked_texts(text, {}).find("M"), 2)


def test_bytes_that_are_no_messages() -> None:
    text = 'syntax = "proto3"; message M { int32 a = 1; string s = 2; M m = 3; repeated int32 r = 4; fixed64 f = 5; }'
    schema = Schema.of(("a", SMALLINT), ("s", STRING), ("m", row(("a", INT))), ("r", array(INT)), ("f", BIGINT))
    group = b"\x33" * 101
    found = decoded(
        text, schema,
        b"\x08", b"\x08" + b"\xff" * 10, b"\x00\x01", b"\x0e", b"\x08\x80\x80\x02", b"\x12\x05a", b"\x12\x01\xff", b"\x1a\x01\x08",
        b"\x22\x02\x01\x80", b"\x0c", b"\x33\x34", b"\x33\x3c", group, b"\x80\x80\x80\x80\x10\x01", b"\x29" + b"\xff" * 8,
        b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        # A kind other than that of the field is passed over, and integers may have more bytes than they need.
        b"\x0d\x01\x00\x00\x00\x33\x08\x01\x34\x08\x81\x80\x80\x80\x80\x80\x80\x80\x80\x00", b"\x08\xff\xff\xff\xff\x1f",
    )  # fmt: skip
    short, no_tag = "it ends too early", "a field has no number, or a kind that is none"
    assert found == [
        short, "an integer has more than ten bytes", no_tag, no_tag, "a: a number is out of range", short, "s: not text in UTF-8",
        "m: it ends too early", "r[]: it ends too early", no_tag, (0, "", None, None, 0), no_tag, "nested too deeply", no_tag,
        "f: a number is out of range", short, (1, "", None, None, 0), (-1, "", None, None, 0),
    ]  # fmt: skip
    pieces = b"\x1a\x02\x08\x01\x1a\x01\x08"
    assert decoded(text, schema, pieces) == ["m: it comes in pieces, and one of them is malformed"]


def test_points_in_time() -> None:
    text = (
        'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message M { google.protobuf.Timestamp a = 1; '
        "google.protobuf.Timestamp b = 2; google.protobuf.Timestamp c = 3; repeated google.protobuf.Timestamp r = 4; }"
    )
    schema = Schema.of(("a", timestamp(3)), ("b", timestamp_ltz(9)), ("c", row(("seconds", BIGINT), ("nanos", INT))))
    stamp = b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x95\x9a\xef\x3a"  # -1 s and 123456789 ns
    message = b"".join(bytes([n << 3 | 2, len(stamp)]) + stamp for n in (1, 2, 3))
    program = proto_program(linked_texts(text, {}).find("M"), schema)
    columns, state = read_messages(
        program, np.frombuffer(message, np.uint8), np.zeros(1, np.int64), np.array([len(message)])
    )
    assert not state.any()
    assert columns[0].cast(pa.int64()).to_pylist() == [-877000]
    assert columns[1].cast(pa.int64()).to_pylist() == [-876543211]
    assert columns[2].to_pylist() == [{"seconds": -1, "nanos": 123456789}]
    assert encode_proto(schema, columns, linked_texts(text, {}).find("M"), 1).to_pylist() == [
        message.replace(stamp, stamp[:11] + b"\x10\xc0\xa9\xd3\x3a", 1)
    ]
    wrong = b"\x0a\x08\x08\xff\xff\xff\xff\xff\xff\x7f", b"\x0a\x06\x10\x80\x94\xeb\xdc\x03"
    assert decoded(text, schema, *wrong) == ["a: a number is out of range"] * 2
    nulls = [pa.array([[None]], pa.list_(pa.timestamp("us")))]
    out = encode_proto(Schema.of(("r", array(timestamp(6)))), nulls, linked_texts(text, {}).find("M"), 1)
    assert out.to_pylist() == [b"\x22\x00"]


def test_what_is_written_for_null_and_for_nothing() -> None:
    text = (
        'syntax = "proto3"; enum E { Z = 3; } message M { int32 a = 1; optional int32 b = 2; repeated string t = 3; '
        "map<string, N> m = 4; repeated E e = 5; double d = 6; N n = 7; } message N { int32 x = 1; }"
    ).replace("Z = 3", "Z = 0; Y = 4")
    message = linked_texts(text, {}).find("M")
    schema = Schema.of(
        ("a", INT), ("b", INT), ("t", array(STRING)), ("m", map_of(STRING, row(("x", INT)))), ("e", array(STRING)),
        ("d", DOUBLE), ("n", row(("x", INT))),
    )  # fmt: skip
    rows: list[tuple[Any, ...]] = [
        (0, 0, [], [], [], 0.0, {"x": None}),
        (None,) * 7,
        (1, None, [None, "x"], [("k", None)], [None, "Y"], -0.0, {"x": 0}),
    ]
    arrays = [pa.array(c, f.type.arrow) for c, f in zip(zip(*rows, strict=True), schema, strict=True)]
    assert encode_proto(schema, arrays, message, 3, null_text="-").to_pylist() == [
        b"\x10\x00\x3a\x00",
        b"",
        b"\x08\x01\x1a\x01-\x1a\x01x\x22\x05\x0a\x01k\x12\x00\x2a\x02\x00\x04\x31\0\0\0\0\0\0\0\x80\x3a\x00",
    ]
    with pytest.raises(FormatError, match="column e is 'N', which enum E does not have"):
        encode_proto(Schema.of(("e", array(STRING))), [pa.array([["N"]])], message, 1)
    for kind, value, type_ in (("uint32", -1, INT), ("int32", 1 << 40, BIGINT), ("uint64", -1, decimal(20, 0))):
        if kind == "int32":
            continue
        one = linked_texts(f'syntax = "proto3"; message M {{ {kind} a = 1; }}', {}).find("M")
        with pytest.raises(FormatError, match=f"has a number that {kind} does not hold"):
            encode_proto(Schema.of(("a", type_)), [pa.array([value]).cast(type_.arrow)], one, 1)
    needed = linked_texts('syntax = "proto2"; message M { required int32 a = 1; }', {}).find("M")
    with pytest.raises(FormatError, match="column a is NULL, and its field is required, in row 2"):
        encode_proto(Schema.of(("a", INT)), [pa.array([1, None], pa.int32())], needed, 2)
    with pytest.raises(Unwritable, match="no column is its field a"):
        check_writable(Schema.of(("b", INT)), needed)


def test_columns_as_a_schema() -> None:
    schema = Schema.of(
        ("b", BOOLEAN), ("t", TINYINT), ("s", SMALLINT.not_null()), ("i", INT), ("l", BIGINT), ("f", FLOAT), ("d", DOUBLE),
        ("c", STRING), ("y", BYTES), ("at", timestamp(6)), ("z", timestamp_ltz(3)), ("a", array(BIGINT)),
        ("m", map_of(INT, row(("q", STRING), ("deep", array(row(("x", INT))))))), ("r", row(("q", timestamp(9)))),
    )  # fmt: skip
    found = linked_texts(proto_text_of(schema, "protobuf"), {}).find("record")
    check_writable(schema, found)
    proto_program(found, schema)
    assert columns_of_message(found).names == schema.names
    for type_, why in (
        (array(array(INT)), "need a ROW between them"),
        (map_of(FLOAT, INT), "keys of maps are"),
        (decimal(5, 2), "CAST"),
    ):
        with pytest.raises(UnsupportedError) as caught:
            proto_text_of(Schema.of(("x", type_)), "protobuf")
        assert why in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("message M {", "line 1: a name is expected"),
        ("message M { int32 a = 1; int64 a = 2; }", "has a field twice"),
        ("message M { Other o = 1; }", "type Other, which M has, is not there"),
        ("message M { int32 a = 0; }", "has the number 0"),
        ("\n\nmessage M { int32 a = x; }", "line 3: a number is expected"),
        ('import "x.proto"; message M {}', "takes in x.proto, which is not there"),
        ('syntax = "proto4";', "no syntax that is known"),
        ("message A {} message B {}", "several messages"),
        ("enum E {} message M { E e = 1; }", "has no values"),
        ("message M { map<double, int32> m = 1; }", "no keys of double"),
        ("message M { ~ }", "'~' is not expected"),
        ("message M " * 3 + "{", "expected"),
        ("message M { message M " * 70, "expected"),
        ("message M { option x = { ;", "no end"),
        ("", "no message is"),
    ],
)
def test_texts_that_are_no_schema(text: str, why: str) -> None:
    with pytest.raises(BadSchema) as caught:
        linked_texts(text, {}).find("")
    assert why in str(caught.value) or not text


def test_descriptors_that_are_none() -> None:
    whole = (FOLDER / "every.desc").read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(60):
        spoilt = bytearray(whole[: rng.integers(1, len(whole))])
        for at in rng.integers(0, len(spoilt), 2):
            spoilt[at] = int(rng.integers(256))
        try:
            columns_of_message(linked(parse_descriptors(bytes(spoilt))).find("shop.v1.Every"))
        except (BadSchema, UnsupportedError):
            continue


@pytest.fixture(scope="module")
def broker() -> Broker:
    return Broker()


def test_a_topic_of_kafka(broker: Broker, tmp_path: Path) -> None:
    text = 'syntax = "proto3"; message Order { int64 id = 1; optional string name = 2; repeated double prices = 3; }'
    topic = broker.topic()
    given = broker.options(topic, format="protobuf")
    schema = Schema.of(("id", BIGINT), ("name", STRING), ("prices", array(DOUBLE)))
    rows = [(1, "a", [1.5, 2.5]), (2, None, None), (3, "", [0.0])]
    writer = sink("kafka", schema, {**given, "protobuf.schema": text}).open_writer("job")
    arrays = [pa.array(c, f.type.arrow) for c, f in zip(zip(*rows, strict=True), schema, strict=True)]
    writer.write(ChangelogBatch.of(arrays, schema))
    end(writer)
    assert sorted(rows_of(source("kafka", schema, {**given, "protobuf.schema": text}))) == rows
    path = tmp_path / "orders.proto"
    path.write_text(text + " message Other {}")
    read = {**given, "protobuf.descriptor-file": str(path), "protobuf.message-class-name": "com.shop.Orders$Order"}
    found = rows_of(source("kafka", Schema.of(("name", STRING), ("id", BIGINT)), read))
    assert sorted(found, key=lambda r: r[1]) == [("a", 1), (None, 2), ("", 3)]
    broker.send(topic, b"\x08", b"\x08\x09")
    with pytest.raises(FormatError, match="it ends too early: x'08'"):
        rows_of(source("kafka", schema, {**given, "protobuf.schema": text}))
    lenient = {**given, "protobuf.schema": text, "protobuf.ignore-parse-errors": "true"}
    assert len(rows_of(source("kafka", schema, lenient))) == 4


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "needs the schema of its messages"),
        ({"schema": "message M {}", "descriptor-file": "x"}, "exclude each other"),
        ({"schema": "message M {"}, "cannot be used: line 1"),
        ({"schema": "message M {}", "message": "N"}, "it has no message N"),
        ({"descriptor-file": "/nowhere/x.desc"}, "/nowhere/x.desc cannot be read"),
        ({"schema": "message M {}", "shema": "x"}, "protobuf.shema"),
    ],
)
def test_options(options: dict[str, str], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        REGISTRY.format("protobuf", {f"protobuf.{k}": v for k, v in options.items()})


def test_a_format_and_its_columns() -> None:
    made = REGISTRY.format(
        "protobuf",
        {"protobuf.descriptor-file": str(FOLDER / "every.desc"), "protobuf.message": "Every"},
    )
    again = pickle.loads(pickle.dumps(made))
    assert str(again.infer_columns()) == str(made.infer_columns())  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedError, match="is one of messages, not of files"):
        made.decoder(Schema.of(("d", DOUBLE)), "UTC")
    with pytest.raises(UnsupportedError, match="column i64 is INT, and messages have int64"):
        made.message_decoder(Schema.of(("i64", INT)), ["i64"], "UTC")  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedError, match="has no field for column nothing"):
        made.message_encoder(Schema.of(("nothing", INT)), "UTC")  # type: ignore[attr-defined]
    with pytest.raises(Unresolved, match="has no field x"):
        proto_program(our_message("old"), Schema.of(("x.y", INT)))
