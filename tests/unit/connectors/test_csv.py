"""CSV: quotes, NULLs, headers, malformed records with their line, and what is written reads back in blocks of any
size."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from connector_tables import REGISTRY, Context, changes_of, drain, rows_of, source

from connectors.filesystem.text_reader import TextFileReader
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import FormatError, OptionError, SqlEngineError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BOOLEAN, BYTES, DOUBLE, INT, STRING, array, decimal, map_of, row, timestamp
from sqlengine import TableEnvironment

SCHEMA = Schema.of(("a", INT), ("b", STRING), ("c", decimal(8, 2)))


def decode(
    text: str, schema: Schema = SCHEMA, **options: str
) -> tuple[list[tuple[Any, ...]], list[tuple[int, str, str]]]:
    format_ = REGISTRY.formats.get("csv").create({k.replace("_", "-"): v for k, v in options.items()})
    decoded = format_.decoder(schema, "UTC").decode(text.encode(), True)
    return [row for _, row in changes_of(decoded.batch)], [(r.line, r.reason, r.raw) for r in decoded.rejected]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "options", "rows"),
    [
        ('1,"x,y",2.5\n', {}, [(1, "x,y", Decimal("2.50"))]),
        ('1,"say ""hi""",\n', {}, [(1, 'say "hi"', None)]),
        ("1|x|2\r\n", {"field_delimiter": "|"}, [(1, "x", Decimal("2.00"))]),
        ("1\tx\t2\n", {"field_delimiter": "\\t"}, [(1, "x", Decimal("2.00"))]),
        ("1,'x,y',2", {"quote_character": "'"}, [(1, "x,y", Decimal("2.00"))]),
        ('1,"x,2\n', {"disable_quote_character": "true"}, [(1, '"x', Decimal("2.00"))]),
        ("# no\n1,x,2\n", {"allow_comments": "true"}, [(1, "x", Decimal("2.00"))]),
        ("n/a,n/a,n/a\n1,,\n", {"null_literal": "n/a"}, [(None, None, None), (1, "", None)]),
        ('1,"x\\"y",2\n', {"escape_character": "\\"}, [(1, 'x"y', Decimal("2.00"))]),
        (" 1 ,x, 2.005 \n+3,y,1e2\n", {}, [(1, "x", Decimal("2.01")), (3, "y", Decimal("100.00"))]),
        ("\n\n1,x,2\n\n", {}, [(1, "x", Decimal("2.00"))]),
        ("", {}, []),
        ("c,extra,a,b\n2,9,1,x\n", {"header": "true"}, [(1, "x", Decimal("2.00"))]),
        ("\ufeffa,b,c\n1,x,2\n", {"header": "true"}, [(1, "x", Decimal("2.00"))]),
    ],
)
def test_dialects(text: str, options: dict[str, str], rows: list[tuple[Any, ...]]) -> None:
    assert decode(text, **options) == (rows, [])


def test_malformed_records_are_found_by_line() -> None:
    text = '1,a,1\n\n2,"b\nb",2\nx,c,3\n4,d\n5,e,nope\n6,f,6,7\n7,g,7\n0x8,h,8\n'
    rows, rejected = decode(text)
    assert rows == [(1, "a", Decimal(1)), (2, "b\nb", Decimal(2)), (7, "g", Decimal(7))]
    assert rejected == [
        (4, "column a is not INT", "x,c,3"),
        (5, "2 fields instead of 3", "4,d"),
        (6, "column c is not DECIMAL(8, 2)", "5,e,nope"),
        (7, "4 fields instead of 3", "6,f,6,7"),
        (9, "column a is not INT", "0x8,h,8"),
    ]


def test_bytes_that_are_not_text_are_rejected_alone() -> None:
    lines = [f"{i},n{i},1".encode() for i in range(50)]
    lines[17], lines[49] = b"17,\xff\xfe,1", b"49,\xff,1"
    lines[30] = b"30,x,y"
    decoder = REGISTRY.formats.get("csv").create({}).decoder(SCHEMA, "UTC")
    decoded = decoder.decode(b"\n".join(lines), True)
    assert decoded.batch.rows.column(0).to_pylist() == [i for i in range(50) if i not in (17, 30, 49)]
    found = [(r.line, r.reason) for r in decoded.rejected]  # type: ignore[attr-defined]
    assert found == [(17, "not text in UTF-8"), (30, "column c is not DECIMAL(8, 2)"), (49, "not text in UTF-8")]


def test_malformed_records_behind_comments() -> None:
    _, rejected = decode("# one\n1,a,1\n# two\nx,b,2\n", allow_comments="true")
    assert [line for line, _, _ in rejected] == [3]


def test_nested_columns() -> None:
    schema = Schema.of(
        ("n", array(INT)), ("r", row(("x", INT), ("y", STRING))), ("b", BYTES), ("t", timestamp(3)), ("o", BOOLEAN)
    )
    rows, rejected = decode("1;2;,7;z,aGk=,2024-05-01,TRUE\n,,,2024-05-01T10:00:00.5,\n1;x,1,,,\n", schema)
    assert rows == [
        ([1, 2, None], {"x": 7, "y": "z"}, b"hi", dt.datetime(2024, 5, 1), True),
        ([], None, b"", dt.datetime(2024, 5, 1, 10, 0, 0, 500_000), None),
    ]
    assert [line for line, _, _ in rejected] == [2]


def test_job_fails_with_file_and_line_or_keeps_the_record(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n" + "1,x,2\n" * 10 + "1,x,oops\n")
    options = {"path": str(path), "format": "csv", "csv.header": "true"}
    with pytest.raises(FormatError, match=r"E3201 .*x\.csv:12: column c is not DECIMAL\(8, 2\): 1,x,oops"):
        rows_of(source("filesystem", SCHEMA, options))
    context = Context()
    rows = rows_of(source("filesystem", SCHEMA, {**options, "csv.ignore-parse-errors": "true"}), context=context)
    assert len(rows) == 10
    assert [r.raw for r in context.rejected] == ["1,x,oops"]


def test_header_without_a_column(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,x\n")
    with pytest.raises(FormatError, match='has no column "c"'):
        rows_of(source("filesystem", SCHEMA, {"path": str(path), "format": "csv", "csv.header": "true"}))


def good_line(number: int, columns: int) -> str:
    return ",".join([str(number), f"n{number}", "1.5"][:columns])


@pytest.mark.parametrize(
    ("apart", "block"), [*((n, 1 << 20) for n in (1, 2, 7, 99, 100, 101, 1000)), (1, 64), (100, 64), (1000, 64)]
)
@pytest.mark.parametrize(
    ("first", "last"),
    [
        ('3,"abc,1', '4,def",2'),
        ('3,"abc,1', '4,12",2'),
        ('"3,abc,1', '4,def,2"'),
        ('3,abc,"1', '"4,def",2'),
        ('3,"abc,1', '4,"'),
        ('3,"abc,1', '4,"def,2'),
        ('3,"abc,1', '4,""",2'),
    ],
)
def test_two_lone_quotes_swallow_nothing(first: str, last: str, apart: int, block: int, tmp_path: Path) -> None:
    lines = [good_line(n, 3) for n in range(1200)]
    lines[30], lines[30 + apart] = first, last
    for header in (False, True):
        path = tmp_path / "x.csv"
        path.write_text("\n".join(["a,b,c"] * header + lines))
        for names in (("a", "b", "c"), ("b",)):
            format_ = REGISTRY.formats.get("csv").create({"ignore-parse-errors": "true", "header": str(header).lower()})
            rejected: list[Any] = []
            decoder = format_.projecting_decoder(SCHEMA, names, "UTC")  # type: ignore[attr-defined]
            rows = drain(TextFileReader(str(path), decoder, "csv", rejected.extend, block))
            assert len(rows) + len(rejected) == len(lines)
            assert rejected[0].raw == first and len(rejected) <= 2
            assert {r.raw for r in rejected} <= {first, last}


@pytest.mark.parametrize("columns", [1, 2])
def test_a_quote_far_away_swallows_nothing_where_all_is_text(columns: int) -> None:
    schema = Schema(tuple(Schema.of(("a", STRING), ("b", STRING)).fields[:columns]))
    lines = [good_line(n, columns) for n in range(1000)]
    lines[3], lines[300] = good_line(3, columns - 1) + ',"x' if columns > 1 else '"x', good_line(300, columns) + '"'
    rows, rejected = decode("\n".join(lines), schema)
    assert len(rows) + len(rejected) == len(lines) and [line for line, _, _ in rejected] == [3]
    assert "csv.line-breaks-in-values" in rejected[0][1]


@pytest.mark.parametrize(
    "value",
    [
        "two\nlines",
        "Main St 5\nBern, CH",
        "a, b\nc, d, e\nf",
        "\n" * 90,
        "\n".join(["Dear Sir, and so on"] * 100)[:1500],
        "a\r\nb",
    ],
)
def test_values_over_lines_are_read(value: str) -> None:
    text = f'1,"{value}",2\n3,x,4\n'
    expected = value.replace("\r\n", "\r\n")
    assert decode(text) == ([(1, expected, Decimal(2)), (3, "x", Decimal(4))], [])


def test_line_breaks_always_and_never() -> None:
    swallowing = '1,"a,1\n' + "".join(good_line(n, 3) + "\n" for n in range(500)) + '2,b",2\n3,c,3\n'
    rows, rejected = decode(swallowing, line_breaks_in_values="always")
    assert len(rows) == 2 and rejected == []
    rows, rejected = decode('1,"a\nb",1\n2,"c,d",2\n', line_breaks_in_values="never")
    assert rows == [(2, "c,d", Decimal(2))]
    assert [(line, raw) for line, _, raw in rejected] == [(0, '1,"a'), (1, 'b",1')]
    for wrong in ("maybe", ""):
        with pytest.raises(OptionError):
            decode("", line_breaks_in_values=wrong)


@pytest.mark.parametrize(
    "options",
    [{}, {"header": "true"}, {"escape-character": "\\"}, {"field-delimiter": ";", "array-element-delimiter": "|"}],
    ids=str,
)
def test_what_is_written_reads_back_in_blocks_of_any_size(options: dict[str, str], tmp_path: Path) -> None:
    schema = Schema.of(
        ("i", BIGINT), ("s", STRING), ("d", DOUBLE), ("de", decimal(12, 9)), ("t", timestamp(3)), ("a", array(STRING))
    )
    rng = random.Random(3)
    texts = ["", "plain", "a,b;c|d", 'q"u"o', "two\nlines", " blank ", "é☃", "null", "back\\slash", None]
    columns = [
        pa.array([rng.choice([None, 5, -(10**15)]) for _ in range(80)], pa.int64()),
        pa.array([rng.choice(texts) for _ in range(80)], pa.string()),
        pa.array([rng.choice([None, 0.1, -1e300, 5.0, float("inf")]) for _ in range(80)], pa.float64()),
        pa.array(
            [rng.choice([None, Decimal("0.000000001"), Decimal("-123.5")]) for _ in range(80)], pa.decimal128(12, 9)
        ),
        pa.array([rng.choice([None, dt.datetime(2024, 5, 1, 10, 0, 0, 5000)]) for _ in range(80)], pa.timestamp("us")),
        pa.array([rng.choice([None, ["x"], ["x", "y z"]]) for _ in range(80)], pa.list_(pa.string())),
    ]
    batch = ChangelogBatch.of(columns, schema)
    format_ = REGISTRY.formats.get("csv").create({"null-literal": "NIL", **options})
    encoder = format_.encoder(schema, "UTC")
    path = tmp_path / "x.csv"
    path.write_bytes(encoder.encode(batch.slice(0, 30)) + encoder.encode(batch.slice(30, 50)))
    for block in (1, 17, 300, 1 << 20):
        read = drain(TextFileReader(str(path), format_.decoder(schema, "UTC"), "csv", None, block))
        assert read == changes_of(batch)


@pytest.mark.parametrize(
    "options",
    [
        {"field-delimiter": ",,"},
        {"quote-character": "ab"},
        {"quote-character": "'", "disable-quote-character": "true"},
        {"headr": "true"},
        {"header": "maybe"},
        {"escape-character": "ab"},
        {"array-element-delimiter": ""},
    ],
    ids=str,
)
def test_wrong_options(options: dict[str, str]) -> None:
    with pytest.raises(OptionError) as caught:
        REGISTRY.formats.get("csv").create(options)
    assert "csv" in caught.value.message


def test_maps_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(SqlEngineError, match="cannot hold column m"):
        source("filesystem", Schema.of(("m", map_of(STRING, INT))), {"path": str(tmp_path), "format": "csv"})


@pytest.mark.parametrize(("first", "told"), [("id,name", True), ("ID,Name", True), ("x,id", True), ("x,y", False)])
def test_a_line_of_names_leads_to_the_option(tmp_path: Path, first: str, told: bool) -> None:
    (tmp_path / "a.csv").write_text(f"{first}\n1,a\n")
    with TableEnvironment.create() as env:
        env.execute_sql(
            f"CREATE TABLE t (id INT, name STRING) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/a.csv', 'format' = 'csv')"
        )
        with pytest.raises(SqlEngineError, match="E3201") as raised:
            env.execute_sql("SELECT * FROM t").to_arrow()
    assert ("'csv.header' = 'true'" in (raised.value.hint or "")) is told
