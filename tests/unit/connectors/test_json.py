"""JSON lines: the columnar path against the rules for one record, exact line numbers, and what is written reads
back."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from connector_tables import REGISTRY

from connectors.formats import json_decoder
from connectors.formats.json_decoder import decode_lines
from connectors.formats.records import Lines
from connectors.formats.text_values import SQL, TextRules
from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Schema
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIME,
    TINYINT,
    array,
    decimal,
    map_of,
    row,
    timestamp,
    timestamp_ltz,
)

RULES = TextRules("UTC", SQL)
SCHEMA = Schema.of(
    ("i", INT),
    ("t", TINYINT),
    ("l", BIGINT),
    ("d", DOUBLE),
    ("de", decimal(12, 3)),
    ("b", BOOLEAN),
    ("s", STRING),
    ("by", BYTES),
    ("dt", DATE),
    ("tm", TIME),
    ("ts", timestamp(3)),
    ("lt", timestamp_ltz(3)),
    ("a", array(INT)),
    ("m", map_of(STRING, INT)),
    ("r", row(("x", INT), ("y", array(row(("z", STRING)))))),
)
GOOD: dict[str, list[Any]] = {
    "i": [0, -5, 2147483647],
    "t": [127, -128],
    "l": [9007199254740993, -1],
    "d": [0.1, -1e300, 5],
    "de": [1.5, 123456789.125, 0, -0.001],
    "b": [True, False],
    "s": ["", "héllo \u2603", 'quo"te\\', "line\nfeed"],
    "by": ["", "aGk=", "AAH/"],
    "dt": ["2024-02-29", "1969-12-31"],
    "tm": ["23:59:59", "00:00:00"],
    "ts": ["2024-02-29 23:59:59.123", "1969-12-31 23:59:59.999", "2024-01-01 00:00:00"],
    "lt": ["2024-02-29 23:59:59.123Z", "1970-01-01 00:00:00Z"],
    "a": [[], [1, None, 3]],
    "m": [{}, {"x": 1, "y": None}],
    "r": [{"x": 1, "y": [{"z": "q"}, None]}, {}, {"x": None, "y": []}],
}
ODD: dict[str, list[Any]] = {
    "i": ["12", " 7 ", 1.5, 3000000000, "x", True, [1], "1_0", "0x1F"],
    "t": [128, "-128"],
    "l": [9223372036854775808, "5"],
    "d": ["1.5", "NaN", "inf", "x", True],
    "de": ["1.50", 1.0005, 1.00049, 1e20, "abc"],
    "b": ["true", " FALSE", "yes", 1],
    "s": [5, 1.25, True, {"k": [1, "v"]}],
    "by": ["***", 5, "aGk"],
    "dt": ["2024-02-30", "20240101", "2024-1-1", 5],
    "tm": ["24:00:00", "12:30", "x"],
    "ts": [
        "2024-02-29T23:59:59",
        "2024-02-30 00:00:00",
        "2024-02-29",
        "2024-02-29 10:00:00.123456",
        "2024-02-29 10:00:00Z",
        17,
    ],
    "lt": ["2024-02-29 12:00:00+02:00", "2024-02-29 12:00:00", "x"],
    "a": [5, ["1"], ["x"], {"k": 1}],
    "m": [{"x": "1"}, {"x": "y"}, [1], 5],
    "r": [{"x": "5"}, {"x": "q"}, {"y": [{"z": 5}]}, {"y": [5]}, 5],
}


def records(rng: random.Random, count: int, odd: float) -> list[str]:
    lines = []
    for _ in range(count):
        record: dict[str, Any] = {}
        for name in SCHEMA.names:
            choice = rng.random()
            if choice < odd:
                record[name] = rng.choice(ODD[name])
            elif choice < 0.8:
                record[name] = rng.choice(GOOD[name])
            elif choice < 0.9:
                record[name] = None
        record["unknown"] = {"x": [1]}
        lines.append(json.dumps(record, ensure_ascii=rng.random() < 0.5))
        if rng.random() < odd / 4:
            lines.append(
                rng.choice(
                    [
                        "{",
                        "null",
                        "5",
                        '{"i": 1} {"i": 2}',
                        '{"i": tru}',
                        "[]",
                        '{"i": 1, "i": 2}',
                        "",
                        '[{"i": 1}, {"i": 2}]',
                    ]
                )
            )
    return lines


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("odd", [0.0, 0.003, 0.05])
def test_columns_agree_with_records(seed: int, odd: float, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(records(random.Random(seed), 200, odd)).encode()
    fast = decode_lines(Lines.of(text), SCHEMA, RULES)
    monkeypatch.setattr(json_decoder._Reading, "_columnar", lambda self, lines: None)
    slow = decode_lines(Lines.of(text), SCHEMA, RULES)
    assert fast.rejected == slow.rejected
    assert fast.rows.to_pylist() == slow.rows.to_pylist() or str(fast.rows.to_pylist()) == str(slow.rows.to_pylist())
    assert fast.line_of_row.tolist() == slow.line_of_row.tolist()
    if odd == 0:
        assert not fast.rejected
        assert fast.rows.num_rows == 200


def decode(schema: Schema, *lines: str) -> tuple[list[Any], list[tuple[int, str]]]:
    block = decode_lines(Lines.of("\n".join(lines).encode()), schema, RULES)
    return block.rows.to_pylist(), [(r.line, r.reason) for r in block.rejected]


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (INT, '"12"', 12),
        (INT, "1.0", 1),
        (INT, "1e2", 100),
        (decimal(4, 2), "1.005", Decimal("1.01")),
        (decimal(4, 2), '"-1.005"', Decimal("-1.01")),
        (decimal(38, 2), "123456789012345678901234567890123456.78", Decimal("123456789012345678901234567890123456.78")),
        (STRING, "1.10", "1.10"),
        (STRING, '{"a":[1,null]}', '{"a":[1,null]}'),
        (DOUBLE, '"NaN"', None),
        (timestamp(0), '"2024-05-01 10:00:00.999"', dt.datetime(2024, 5, 1, 10)),
        (timestamp(6), '"2024-05-01 10:00"', dt.datetime(2024, 5, 1, 10)),
        (BYTES, '"aGk="', b"hi"),
        (TIME, '"10:11:12.9"', dt.time(10, 11, 12)),
        (array(STRING), '[1, "a", null]', ["1", "a", None]),
        (map_of(STRING, decimal(20, 2)), '{"k": 123456789012345678.12}', [("k", Decimal("123456789012345678.12"))]),
    ],
    ids=str,
)
def test_values(type_: Any, text: str, value: Any) -> None:
    rows, rejected = decode(Schema.of(("v", type_)), f'{{"v": {text}}}')
    assert not rejected
    got = rows[0]["v"]
    assert got == value or (value is None and got != got)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (INT, "1.5"),
        (INT, "2147483648"),
        (INT, '"x"'),
        (INT, "true"),
        (BOOLEAN, "1"),
        (decimal(4, 2), "100"),
        (DATE, '"2023-02-29"'),
        (timestamp(3), '"2024-05-01T10:00:00"'),
        (BYTES, '"?"'),
        (array(INT), '[1, "x"]'),
        (row(("x", INT)), '{"x": []}'),
    ],
    ids=str,
)
def test_wrong_types_are_rejected_and_nothing_else(type_: Any, text: str) -> None:
    schema = Schema.of(("k", INT), ("v", type_))
    lines = [f'{{"k": {i}, "v": null}}' for i in range(100)]
    lines[61] = f'{{"k": 61, "v": {text}}}'
    rows, rejected = decode(schema, *lines)
    assert [r["k"] for r in rows] == [i for i in range(100) if i != 61]
    (line, reason) = rejected[0]
    assert line == 61
    assert reason.startswith("column v")


def test_numbers_in_quotes_stay_columnar(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("decoded one by one")

    monkeypatch.setattr(json_decoder._Reading, "one_by_one", never)
    rows, rejected = decode(Schema.of(("p", decimal(10, 2)), ("q", INT)), *['{"p": "1.255", "q": "7"}'] * 50)
    assert rows == [{"p": Decimal("1.26"), "q": 7}] * 50
    assert not rejected


def test_bytes_that_are_not_text_are_rejected() -> None:
    data = b'{"s": "ok"}\n{"s": "\xff\xfe"}\n{"s": "\xc3\xa9"}\n'
    block = decode_lines(Lines.of(data), Schema.of(("s", STRING)), RULES)
    assert block.rows.column(0).to_pylist() == ["ok", "é"]
    assert [r.line for r in block.rejected] == [1]


def test_missing_fields() -> None:
    schema = Schema.of(("a", INT), ("b", INT))
    strict = REGISTRY.formats.get("json").create({"fail-on-missing-field": "true"}).decoder(schema, "UTC")
    decoded = strict.decode(b'{"a": 1, "b": null}\n{"a": 2}\n', True)
    assert decoded.batch.rows.to_pylist() == [{"a": 1, "b": None}]
    assert [(r.line, r.reason) for r in decoded.rejected] == [(1, "column b is missing")]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "options", [{}, {"timestamp-format.standard": "ISO-8601"}, {"encode.ignore-null-fields": "true"}], ids=str
)
def test_what_is_written_reads_back(options: dict[str, str]) -> None:
    text = "\n".join(records(random.Random(11), 200, 0.0)).encode()
    rows = decode_lines(Lines.of(text), SCHEMA, RULES).rows
    format_ = REGISTRY.formats.get("json").create(options)
    written = format_.encoder(SCHEMA, "UTC").encode(ChangelogBatch(rows.slice(3)))
    assert [json.loads(line) for line in written.decode().splitlines()]
    read = format_.decoder(SCHEMA, "UTC").decode(written, True)
    assert not read.rejected
    # A row of which all fields are left out is no longer NULL, and the other way round.
    assert read.batch.rows.drop_columns(["r"]).to_pylist() == rows.slice(3).drop_columns(["r"]).to_pylist()


def test_null_keys_of_maps() -> None:
    schema = Schema.of(("m", map_of(INT, INT)))
    strings = pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32()))
    keys = pa.MapArray.from_arrays(pa.array([0, 1, 1]), pa.array([7], pa.int32()), strings.items)
    batch = ChangelogBatch(pa.RecordBatch.from_arrays([keys], names=["m"]))
    written = REGISTRY.formats.get("json").create({}).encoder(schema, "UTC").encode(batch)
    assert written == b'{"m":{"7":1}}\n{"m":{}}\n'


def test_one_event_of_debezium_without_its_old_row() -> None:
    format_ = REGISTRY.formats.get("debezium-json").create({})
    decoder = format_.decoder(Schema.of(("a", INT)), "UTC")
    events = [
        '{"before":null,"after":{"a":1},"op":"c"}',
        '{"before":null,"after":{"a":2},"op":"u"}',
        '{"op":"x"}',
        '{"before":{"a":1},"op":"d"}',
    ]
    decoded = decoder.decode("\n".join(events).encode(), True)
    assert decoded.batch.rows.column(0).to_pylist() == [1, 1]
    assert decoded.batch.kinds_or_inserts().tolist() == [0, 3]
    assert [r.line for r in decoded.rejected] == [1, 2]  # type: ignore[attr-defined]
    assert "REPLICA IDENTITY" in decoded.rejected[0].reason


def test_payload_of_debezium_with_schema() -> None:
    schema = Schema.of(("a", INT))
    format_ = REGISTRY.formats.get("debezium-json").create({"schema-include": "true"})
    batch = ChangelogBatch(pa.record_batch({"a": pa.array([1, 2], pa.int32())}))
    written = format_.encoder(schema, "UTC").encode(batch)
    assert json.loads(written.splitlines()[0])["payload"]["after"] == {"a": 1}
    assert format_.decoder(schema, "UTC").decode(written, True).batch.rows.to_pylist() == [{"a": 1}, {"a": 2}]
