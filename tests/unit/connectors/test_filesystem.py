"""Which files a table has, what is said when there are none, watching a folder, Parquet filters, and partition
columns."""

from __future__ import annotations

import datetime as dt
import os
import random
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from connector_tables import Context, drain, read_all, rows_of, source, split_of

from connectors.filesystem.parquet_reader import ParquetFileReader
from connectors.filesystem.table import ColumnFileSource
from connectors.filesystem.text_reader import TextFileReader
from connectors.listing import Listing
from runtime.core.errors import ConnectorError, FormatError, OptionError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, DataType, decimal, timestamp, timestamp_ltz
from runtime.expr.nodes import Call, Expr, InList, InputRef, Literal
from runtime.spi.statistics import TableStatistics

SCHEMA = Schema.of(("a", INT))


def put(folder: Path, *names: str) -> None:
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{{"a": {number}}}\n')


def test_files_in_the_order_of_names_without_hidden_ones(tmp_path: Path) -> None:
    put(tmp_path, "b.jsonl", "a.jsonl", ".c.jsonl", "_d.jsonl", "sub/c.jsonl", "_tmp/e.jsonl", ".git/f.jsonl")
    table = source("filesystem", SCHEMA, {"path": str(tmp_path), "format": "json"})
    assert rows_of(table) == [(1,), (0,), (4,)]
    assert rows_of(source("filesystem", SCHEMA, {"path": f"{tmp_path}/?.jsonl", "format": "json"})) == [(1,), (0,)]
    assert rows_of(source("filesystem", SCHEMA, {"path": f"{tmp_path}/**/c.jsonl", "format": "json"})) == [(4,)]
    chosen = source(
        "filesystem", SCHEMA, {"path": str(tmp_path), "format": "json", "source.path.regex-pattern": ".*/[bc].jsonl"}
    )
    assert rows_of(chosen) == [(0,), (4,)]


@pytest.mark.parametrize("name", ["nothing.jsonl", "folder/x", "*.jsonl"])
def test_nothing_there(name: str, tmp_path: Path) -> None:
    table = source("filesystem", SCHEMA, {"path": f"{tmp_path}/{name}", "format": "json"})
    assert table.statistics().rows in (None, 0.0)
    if "*" in name:
        assert table.splits() == []
        return
    with pytest.raises(ConnectorError, match="E3101 no such file or folder") as caught:
        table.splits()
    assert caught.value.hint is not None


def test_addresses(tmp_path: Path) -> None:
    put(tmp_path, "a b.jsonl")
    assert rows_of(source("filesystem", SCHEMA, {"path": f"file://{tmp_path}/a%20b.jsonl", "format": "json"})) == [(0,)]
    with pytest.raises(OptionError, match="E1505"):
        source("filesystem", SCHEMA, {"path": "sftp://bucket/x", "format": "json"})


def test_a_watched_folder_gives_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(Listing.__init__, "__defaults__", (lambda: now,))
    folder = tmp_path / "inbox"
    table = source("filesystem", SCHEMA, {"path": str(folder), "format": "json", "source.monitor-interval": "10 s"})
    assert not table.bounded
    assert table.splits() == []
    put(folder, "a.jsonl")
    now = 9.0
    assert table.splits() == []
    now = 10.0
    first = table.splits()
    put(folder, "b.jsonl")
    now = 21.0
    second = table.splits()
    assert [s.id for s in first] == [str(folder / "a.jsonl")]
    assert [s.id for s in second] == [str(folder / "a.jsonl"), str(folder / "b.jsonl")]
    assert first[0].id == second[0].id


def test_metadata_and_partitions_in_their_types(tmp_path: Path) -> None:
    put(tmp_path, "day=2024-05-01/n=7/x.jsonl", "day=__DEFAULT_PARTITION__/n=8/x.jsonl")
    os.utime(tmp_path / "day=2024-05-01/n=7/x.jsonl", (1_700_000_000, 1_700_000_000))
    schema = Schema.of(
        ("day", DATE), ("a", INT), ("n", BIGINT), ("f", STRING), ("s", BIGINT), ("m", timestamp_ltz(3)), ("p", STRING)
    )
    keys = (("f", "file.name"), ("s", "file.size"), ("m", "file.modification-time"), ("p", "file.path"))
    table = source(
        "filesystem", schema, {"path": str(tmp_path), "format": "json"}, partitioned_by=("day", "n"), metadata=keys
    )
    first, second = rows_of(table)
    at = dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)
    assert first == (dt.date(2024, 5, 1), 0, 7, "x.jsonl", 9, at, str(tmp_path / "day=2024-05-01/n=7/x.jsonl"))
    assert second[:3] == (None, 1, 8)
    with pytest.raises(OptionError, match="no metadata 'file.nam'"):
        source("filesystem", schema, {"path": "x", "format": "json"}, metadata=(("f", "file.nam"),))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl")
    table = source("filesystem", SCHEMA, {"path": str(tmp_path), "format": "json"})
    split = split_of(table)
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(ConnectorError, match="E3104 cannot read"):
        table.open(split, Context())


@pytest.mark.parametrize("block", [1, 5, 64])
def test_line_numbers_across_blocks(block: int, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2}\n{"a": }\n{"a": 4}')
    table = source("filesystem", SCHEMA, {"path": str(path), "format": "json"})
    decoder = table.format.decoder(SCHEMA, "UTC")  # type: ignore[attr-defined]
    with pytest.raises(FormatError, match=r"x\.jsonl:4: not JSON: \{\"a\": \}"):
        drain(TextFileReader(str(path), decoder, "json", None, block))


def test_records_are_rejected_once_when_reading_resumes(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\nbad\n{"a": 2}\n{"a": 3}\n')
    table = source("filesystem", SCHEMA, {"path": str(path), "format": "json", "json.ignore-parse-errors": "true"})
    context = Context()
    reader = table.open(split_of(table), context)
    reader.poll(1)
    resumed = table.open(split_of(table), context)
    resumed.seek(reader.position())
    assert [row for _, row in drain(resumed)] == [(2,), (3,)]
    assert [r.raw for r in context.rejected] == ["bad"]


# --- Parquet
# ----------------------------------------------------------------------------------------------------------------------

WIDE = Schema.of(
    ("i", INT), ("s", STRING), ("d", DATE), ("t", timestamp(3)), ("e", decimal(9, 2)), ("f", DOUBLE), ("b", BOOLEAN)
)


@pytest.fixture(scope="module")
def wide_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng = random.Random(1)
    start = dt.datetime(2024, 5, 1)
    rows = sorted(rng.choice(range(1000)) for _ in range(400))
    table = pa.table(
        {
            "i": pa.array([None if rng.random() < 0.1 else v for v in rows], pa.int32()),
            "s": pa.array([None if rng.random() < 0.1 else f"k{v // 50:03d}" for v in rows]),
            "d": pa.array([start.date() + dt.timedelta(days=v) for v in rows]),
            "t": pa.array([None if v < 100 else start + dt.timedelta(minutes=v) for v in rows], pa.timestamp("us")),
            "e": pa.array([Decimal(v) / 4 for v in rows], pa.decimal128(9, 2)),
            "f": pa.array([float(v) for v in rows]),
            "b": pa.array([v % 2 == 0 for v in rows]),
        }
    )
    path = str(tmp_path_factory.mktemp("parquet") / "x.parquet")
    pq.write_table(table, path, row_group_size=37)
    return path


def compare(operator: str, column: str, value: object) -> Expr:
    index = WIDE.index_of(column)
    type_ = WIDE[index].type
    return Call(operator, (InputRef(index, type_), Literal(value, type_)), BOOLEAN)


CONSTANTS = {
    "i": 500,
    "s": "k007",
    "d": dt.date(2025, 1, 1),
    "t": dt.datetime(2024, 5, 1, 9),
    "e": Decimal("100.25"),
    "b": True,
}
PYTHON = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def parquet(path: str) -> ColumnFileSource:
    table = source("filesystem", WIDE, {"path": path, "format": "parquet"})
    assert isinstance(table, ColumnFileSource)
    return table


@pytest.mark.parametrize("column", CONSTANTS)
@pytest.mark.parametrize("operator", PYTHON)
def test_filters_are_exact(operator: str, column: str, wide_file: str) -> None:
    table = parquet(wide_file)
    at = WIDE.index_of(column)
    taken, left = table.with_filters([compare(operator, column, CONSTANTS[column])])
    assert left == []
    wanted = [row for row in rows_of(table) if row[at] is not None and PYTHON[operator](row[at], CONSTANTS[column])]
    assert rows_of(taken, max_rows=10) == wanted
    other = taken.with_columns(["f"])
    assert rows_of(other) == [(row[WIDE.index_of("f")],) for row in wanted]


def test_filters_together_leave_row_groups_out_and_resume(wide_file: str) -> None:
    table = parquet(wide_file)
    ref = InputRef(0, INT)
    asked = [
        Call("IS NOT NULL", (InputRef(3, WIDE[3].type),), BOOLEAN),
        InList(ref, (Literal(120, INT), Literal(121, INT), Literal(500, INT), Literal(501, INT), Literal(502, INT))),
        compare("=", "f", 1.0),
        Call("=", (ref, InputRef(0, INT)), BOOLEAN),
    ]
    taken, left = table.with_filters(asked)
    assert left == asked[2:]
    wanted = [row for row in rows_of(table) if row[3] is not None and row[0] in (120, 121, 500, 501, 502)]
    assert wanted
    split = split_of(taken)
    reader = taken.open(split, Context())
    assert isinstance(reader, ParquetFileReader)
    assert len(reader._groups) < reader._file.metadata.num_row_groups
    given = 0
    while not reader.finished:
        resumed = taken.open(split, Context())
        resumed.seek(reader.position())
        assert [row for _, row in drain(resumed)] == wanted[given:]
        batch = reader.poll(1)
        given += 0 if batch is None else len(batch)
    assert taken != table


def test_rows_of_parquet_are_known(wide_file: str) -> None:
    assert parquet(wide_file).statistics().rows == 400
    silent = source("filesystem", WIDE, {"path": wide_file, "format": "parquet", "source.report-statistics": "none"})
    assert silent.statistics().rows is None
    # What more may come to has no size: a job that goes on later must find the same plan.
    for schema, format_name in ((WIDE, "parquet"), (SCHEMA, "csv")):
        growing = {"path": wide_file, "format": format_name, "source.monitor-interval": "1 s"}
        assert source("filesystem", schema, growing).statistics() == TableStatistics()


def test_parquet_columns_that_differ(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int64()), "s": pa.array(["x", "y"]).dictionary_encode()}), path)

    def rows(*columns: tuple[str, DataType]) -> list[tuple[object, ...]]:
        return rows_of(source("filesystem", Schema.of(*columns), {"path": str(path), "format": "parquet"}))

    assert rows(("s", STRING), ("a", INT), ("new", DOUBLE)) == [("x", 1, None), ("y", 2, None)]
    assert rows(("new", DOUBLE)) == [(None,), (None,)]
    with pytest.raises(FormatError, match=r"E3205 .*x\.parquet: column s of the file"):
        rows(("s", INT))


def test_not_parquet(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet")
    table = source("filesystem", SCHEMA, {"path": str(tmp_path), "format": "parquet"})
    assert table.statistics().rows is None
    with pytest.raises(FormatError, match="E3204"):
        read_all(table)


def test_large_text_is_read_in_blocks(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(f'{{"a": {i}}}\n' for i in range(5000)))
    table = source("filesystem", SCHEMA, {"path": str(path), "format": "json"})
    decoder = table.format.decoder(SCHEMA, "UTC")  # type: ignore[attr-defined]
    reader = TextFileReader(str(path), decoder, "json", None, 1 << 10)
    batch = reader.poll(10_000)
    assert batch is not None and len(batch) < 200
    assert np.array_equal([row[0] for _, row in drain(reader)], np.arange(len(batch), 5000))
