"""Sinks: files appear when the job ends well and never else; what is written reads back; print writes Flink's lines."""

from __future__ import annotations

import datetime as dt
import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from connector_tables import changes_of, end, read_all, rows_of, sink, source

from runtime.core.changelog import APPEND, RETRACT, UPSERT, ChangelogBatch
from runtime.core.errors import ConnectorError, PlanningError
from runtime.core.schema import Schema
from runtime.core.types import (
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIME,
    array,
    decimal,
    map_of,
    row,
    timestamp,
    timestamp_ltz,
)

SCHEMA = Schema.of(("a", INT), ("p", STRING))


def batch(*rows: tuple[int | None, str | None], kinds: list[int] | None = None) -> ChangelogBatch:
    columns = [pa.array([r[0] for r in rows], pa.int32()), pa.array([r[1] for r in rows], pa.string())]
    return ChangelogBatch.of(columns, SCHEMA, None if kinds is None else np.array(kinds, dtype=np.int8))


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.mark.parametrize("format_", ["json", "csv", "parquet", "debezium-json"])
def test_files_appear_with_commit(format_: str, tmp_path: Path) -> None:
    options = {"path": str(tmp_path / "out"), "format": format_}
    table = sink("filesystem", SCHEMA, options)
    writer = table.open_writer("job")
    writer.write(batch((1, "x"), (2, None if format_ != "csv" else "")))
    writer.flush(1)
    assert rows_of(source("filesystem", SCHEMA, options)) == []
    writer.write(batch((3, "z")))
    end(writer)
    published = files(tmp_path)
    end(writer)
    writer.close()
    writer.close()
    assert files(tmp_path) == published
    assert not [name for name in published if os.path.basename(name).startswith(".")]
    assert rows_of(source("filesystem", SCHEMA, options)) == [(1, "x"), (2, None if format_ != "csv" else ""), (3, "z")]


@pytest.mark.parametrize("ending", ["abort", "close"])
@pytest.mark.parametrize("partitioned", [(), ("p",)])
def test_a_failed_job_leaves_nothing(ending: str, partitioned: tuple[str, ...], tmp_path: Path) -> None:
    table = sink(
        "filesystem", SCHEMA, {"path": str(tmp_path / "new" / "out"), "format": "json"}, partitioned_by=partitioned
    )
    writer = table.open_writer("job")
    writer.write(batch((1, "x"), (2, "y")))
    getattr(writer, ending)()
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_partitions_become_folders_and_read_back(tmp_path: Path) -> None:
    options = {"path": str(tmp_path), "format": "csv"}
    writer = sink("filesystem", SCHEMA, options, partitioned_by=("p",)).open_writer("job")
    rows = [(1, "x"), (2, "a/b"), (3, None), (4, "x"), (5, "k=v %")]
    writer.write(batch(*rows))
    writer.write(batch((6, "x")))
    end(writer)
    folders = {os.path.dirname(name) for name in files(tmp_path)}
    assert folders == {"p=x", "p=a%2Fb", "p=__DEFAULT_PARTITION__", "p=k%3Dv %25"}
    read = rows_of(source("filesystem", SCHEMA, options, partitioned_by=("p",)))
    assert sorted(read, key=str) == sorted([*rows, (6, "x")], key=str)
    assert [a for a, p in read if p == "x"] == [1, 4, 6]


def test_files_roll_by_size(tmp_path: Path) -> None:
    options = {"path": str(tmp_path), "format": "json", "sink.rolling-policy.file-size": "100b"}
    writer = sink("filesystem", SCHEMA, options).open_writer("job")
    for i in range(10):
        writer.write(batch((i, "x" * 40)))
    assert all(os.path.basename(name).startswith(".") for name in files(tmp_path))
    end(writer)
    assert len(files(tmp_path)) == 5
    assert sorted(
        a for a, _ in rows_of(source("filesystem", SCHEMA, {"path": str(tmp_path), "format": "json"}))
    ) == list(range(10))


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    for path in (taken, taken / "below"):
        with pytest.raises(ConnectorError, match="E3110 cannot write to"):
            sink("filesystem", SCHEMA, {"path": str(path), "format": "json"}).open_writer("job")
    assert files(tmp_path) == ["file"]


def test_row_kinds() -> None:
    plain = sink("filesystem", SCHEMA, {"path": "x", "format": "json"})
    changes = sink("filesystem", SCHEMA, {"path": "x", "format": "debezium-json"})
    assert [plain.accepts(m) for m in (APPEND, UPSERT, RETRACT)] == [APPEND] * 3
    assert [changes.accepts(m) for m in (APPEND, UPSERT, RETRACT)] == [APPEND, RETRACT, RETRACT]


def test_changes_as_events(tmp_path: Path) -> None:
    options = {"path": str(tmp_path), "format": "debezium-json"}
    given = batch((1, "x"), (1, "x"), (1, "y"), (1, "y"), kinds=[0, 1, 2, 3])
    writer = sink("filesystem", SCHEMA, options).open_writer("job")
    writer.write(given)
    end(writer)
    assert read_all(source("filesystem", SCHEMA, options)) == [
        (0, (1, "x")),
        (3, (1, "x")),
        (0, (1, "y")),
        (3, (1, "y")),
    ]
    for format_ in ("json", "csv", "parquet"):
        refusing = sink("filesystem", SCHEMA, {"path": str(tmp_path), "format": format_}).open_writer("job")
        with pytest.raises(PlanningError, match="E1720"):
            refusing.write(given)
        refusing.abort()
    assert len(files(tmp_path)) == 1


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    schema = Schema.of(
        ("i", INT),
        ("s", STRING),
        ("e", decimal(9, 8)),
        ("d", DOUBLE),
        ("b", BOOLEAN),
        ("by", BYTES),
        ("dt", DATE),
        ("tm", TIME),
        ("ts", timestamp(6)),
        ("lt", timestamp_ltz(3)),
        ("a", array(INT)),
        ("m", map_of(STRING, INT)),
        ("r", row(("x", INT), ("y", STRING))),
    )
    moment = dt.datetime(2024, 5, 1, 10, 0)
    rows = [
        (
            1,
            "a",
            Decimal("0.00000001"),
            4.0,
            True,
            b"\x01\xff",
            dt.date(2024, 5, 1),
            dt.time(10, 0),
            moment,
            moment,
            [1, None],
            [("k", 1)],
            {"x": 1, "y": None},
        ),
        (None,) * 13,
        (
            2,
            "",
            Decimal("-0.5"),
            1e300,
            False,
            b"",
            dt.date(1969, 1, 1),
            dt.time(1, 2, 3, 40_000),
            moment.replace(second=5, microsecond=123_400),
            moment.replace(microsecond=500_000),
            [],
            [],
            None,
        ),
    ]
    columns = [pa.array(column, f.type.arrow) for column, f in zip(zip(*rows, strict=True), schema, strict=True)]
    given = ChangelogBatch.of(columns, schema, np.array([0, 1, 2], dtype=np.int8))
    writer = sink("print", schema, {"print-identifier": "out"}).open_writer("job")
    writer.write(given)
    assert capsys.readouterr().out == ""
    writer.flush(1)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "out> +I[1, a, 0.00000001, 4.0, true, [1, -1], 2024-05-01, 10:00"
        ", 2024-05-01T10:00, 2024-05-01T10:00:00Z, [1, null], {k=1}, +I[1, null]]",
        "out> -U[null, null, null, null, null, null, null, null, null, null, null, null, null]",
        "out> +U[2, , -0.50000000, 1.0E300, false, [], 1969-01-01, 01:02:03.040"
        ", 2024-05-01T10:00:05.123400, 2024-05-01T10:00:00.500Z, [], {}, null]",
    ]
    end(writer)
    assert capsys.readouterr().out == ""
    errors = sink("print", schema, {"standard-error": "true"}).open_writer("job")
    errors.write(given.slice(1, 1))
    end(errors)
    assert capsys.readouterr().err.startswith("-U[null")


def test_blackhole_takes_everything() -> None:
    table = sink("blackhole", SCHEMA, {})
    assert table.accepts(RETRACT) == RETRACT
    writer = table.open_writer("job")
    writer.write(batch((1, "x"), kinds=[3]))
    end(writer)
    writer.close()
    assert changes_of(batch((1, "x"), kinds=[3])) == [(3, (1, "x"))]
