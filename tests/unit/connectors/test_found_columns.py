"""The columns that files are found to have, and the rows that are read under them, against DuckDB's own reading."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.core.errors import FormatError, SqlEngineError
from sqlengine import TableEnvironment

CASES = int(os.environ.get("FUZZ_CASES", "12"))
KINDS: dict[str, Any] = {
    "BIGINT": st.integers(-(2**62), 2**62),
    "DOUBLE": st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda x: x + 0.5),
    "BOOLEAN": st.booleans(),
    "DATE": st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    "TIMESTAMP(3)": st.integers(0, 10**12).map(lambda ms: datetime(1990, 1, 1) + timedelta(milliseconds=ms)),
    "STRING": st.text(
        st.characters(codec="utf-8", exclude_characters="\r\n\0", categories=("L", "N", "P", "Zs")), max_size=6
    ).map(lambda text: "x" + text),
}


def read(sql: str) -> list[tuple[Any, ...]]:
    with TableEnvironment.create() as t_env:
        return [tuple(row) for row in t_env.execute_sql(sql).collect()]


def columns(path: Path) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in read(f"DESCRIBE '{path}'")]


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat(" ", "milliseconds") if isinstance(value, datetime) else "" if value is None else str(value)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[Any]]]:
    """Types of columns, and rows; each column but texts may have NULLs, and has one value at least."""
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=5))
    count = draw(st.integers(1, 8))
    cells = [
        draw(st.lists(KINDS[kind] if kind == "STRING" else st.none() | KINDS[kind], min_size=count, max_size=count))
        for kind in kinds
    ]
    for kind, column in zip(kinds, cells, strict=True):
        column[0] = draw(KINDS[kind])
    return kinds, [list(row) for row in zip(*cells, strict=True)]


@settings(max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables(), delimiter=st.sampled_from([",", ";", "\t", "|"]))
def test_csv_of_any_types(tmp_path: Path, table: tuple[list[str], list[list[Any]]], delimiter: str) -> None:
    kinds, rows = table
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    names = [f"c{i}" for i in range(len(kinds))]
    out.write(delimiter.join(names) + "\n")
    for row in rows:
        writer.writerow([text_of(v) for v in row])
    path = tmp_path / f"{uuid4().hex}.csv"
    path.write_text(out.getvalue().replace('""', "") if "STRING" not in kinds else out.getvalue(), encoding="utf-8")
    found = columns(path)
    assert [name for name, _ in found] == names
    read_back = read(f"SELECT * FROM '{path}'")
    assert len(read_back) == len(rows)
    for column, (_, kind) in enumerate(found):
        # A column is what it was written as, or a text that says the same.
        for given_row, read_row in zip(rows, read_back, strict=True):
            value, cell = given_row[column], read_row[column]
            assert (cell == text_of(value)) if kind == "STRING" else (cell == value), (kind, value, cell)


@settings(max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables())
def test_json_of_any_types(tmp_path: Path, table: tuple[list[str], list[list[Any]]]) -> None:
    kinds, rows = table
    plain = (bool, int, float, type(None))
    lines = [
        json.dumps({f"c{i}": v if isinstance(v, plain) else text_of(v) for i, v in enumerate(row)}) for row in rows
    ]
    path = tmp_path / f"{uuid4().hex}.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    found = columns(path)
    for (_, kind), wanted in zip(found, kinds, strict=True):
        assert kind in (wanted, "STRING")
    assert read(f"SELECT * FROM '{path}'") == [
        tuple(text_of(v) if k == "STRING" and v is not None else v for v, (_, k) in zip(row, found, strict=True))
        for row in rows
    ]


def test_files_of_columns(tmp_path: Path) -> None:
    """All integers, also those without a sign, nested values and times, as DuckDB reads them."""
    table = pa.table(
        {
            "u8": pa.array([1, 255], pa.uint8()),
            "u32": pa.array([0, 2**32 - 1], pa.uint32()),
            "u64": pa.array([0, 2**64 - 1], pa.uint64()),
            "i": pa.array([1, None], pa.int16()),
            "d": pa.array([1.5, None]),
            "l": pa.array([[1, 2], None]),
            "s": pa.array([{"a": 1, "b": "x"}, None]),
            "day": pa.array([date(2024, 2, 29), None]),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    assert columns(tmp_path / "t.parquet") == [
        ("u8", "SMALLINT"),
        ("u32", "BIGINT"),
        ("u64", "DECIMAL(20, 0)"),
        ("i", "SMALLINT"),
        ("d", "DOUBLE"),
        ("l", "ARRAY<BIGINT>"),
        ("s", "ROW<`a` BIGINT, `b` STRING>"),
        ("day", "DATE"),
    ]
    rows = read(f"SELECT u8, u32, CAST(u64 AS STRING), i, d, `day`, s.b FROM '{tmp_path / 't.parquet'}'")
    query = f"SELECT u8, u32, u64::VARCHAR, i, d, day, s.b FROM '{tmp_path / 't.parquet'}'"
    assert rows == duckdb.connect().execute(query).fetchall()
    orc.write_table(table.select(["i", "d", "day"]), tmp_path / "t.orc")
    assert columns(tmp_path / "t.orc") == [("i", "SMALLINT"), ("d", "DOUBLE"), ("day", "DATE")]


def test_what_the_format_does_not_take_is_text(tmp_path: Path) -> None:
    """DuckDB reads more spellings of days than the format does."""
    path = tmp_path / "days.csv"
    path.write_text("d,n\n13/02/2024,1\n14/02/2024,2\n")
    assert columns(path) == [("d", "STRING"), ("n", "BIGINT")]
    assert read(f"SELECT * FROM '{path}'") == [("13/02/2024", 1), ("14/02/2024", 2)]


def test_a_later_row_that_does_not_fit_is_told(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("n\n" + "1\n" * 30_000 + "x\n")
    assert columns(path) == [("n", "BIGINT")]
    with pytest.raises(FormatError, match=r"long.csv:30002: column n is not BIGINT"):
        read(f"SELECT SUM(n) FROM '{path}'")


@pytest.mark.parametrize("name", ["it's.csv", "a*b.csv", "[x].csv", "ä ö.csv", "x.csv.gz"])
def test_names_of_files(tmp_path: Path, name: str) -> None:
    """The name of a file is a path before it is a pattern."""
    data = b"a,b\n1,x\n"
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert read("SELECT * FROM '{}'".format(str(tmp_path / name).replace("'", "''"))) == [(1, "x")]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"\0\1\2", "x.csv"),
        (b"\xff\xfe\x00", "x.csv"),
        (b'"a', "x.csv"),
        (b"{", "x.json"),
        (b'{"a": 1', "x.jsonl"),
        (b"null\n1\n", "x.jsonl"),
        (b'{"":1}\n', "x.jsonl"),
        (b"PAR1", "x.parquet"),
        (b"ORC", "x.orc"),
        (b"\x1f\x8b\x08garbage", "x.csv.gz"),
        (b"[" * 100_000, "x.json"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "x.jsonl"),
    ],
)
def test_hostile_files(tmp_path: Path, content: bytes, name: str) -> None:
    """What is no file of its kind gives rows, or an error of SQL; nothing else."""
    (tmp_path / name).write_bytes(content)
    for sql in (f"DESCRIBE '{tmp_path / name}'", f"SELECT * FROM '{tmp_path / name}'"):
        try:
            read(sql)
        except SqlEngineError as error:
            assert error.code
            assert error.hint
