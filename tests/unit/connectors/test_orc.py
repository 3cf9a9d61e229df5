"""ORC: all types there and back, times as the declared type wants them, and what it cannot hold."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest
from connector_tables import end, rows_of, sink, source

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import FormatError, SqlEngineError, UnsupportedError
from runtime.core.schema import Schema
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
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

NOON = datetime(2024, 7, 1, 12, 0, 0, 123456)
COLUMNS: tuple[tuple[str, Any, list[Any]], ...] = (
    ("a", BOOLEAN, [True, None]),
    ("b", BIGINT, [1 << 60, None]),
    ("c", DOUBLE, [0.1, None]),
    ("d", decimal(20, 4), [Decimal("12.3456"), None]),
    ("e", STRING, ["gr\u00fc\u00dfe", None]),
    ("f", DATE, [date(1969, 12, 31), None]),
    ("g", timestamp(6), [NOON, datetime(1950, 1, 1)]),
    ("h", timestamp_ltz(3), [NOON.replace(microsecond=0, tzinfo=UTC), None]),
    ("i", array(INT), [[1, None], None]),
    ("j", map_of(STRING, INT), [[("k", 1)], None]),
    ("k", row(("p", INT), ("q", STRING)), [{"p": 1, "q": "z"}, None]),
)


def write(folder: Path, schema: Schema, columns: list[pa.Array]) -> None:
    writer = sink("filesystem", schema, {"path": str(folder), "format": "orc"}).open_writer("job")
    writer.write(ChangelogBatch.of(columns, schema))
    end(writer)


def test_all_types_come_back(tmp_path: Path) -> None:
    schema = Schema.of(*((name, type_) for name, type_, _ in COLUMNS))
    write(tmp_path, schema, [pa.array(values, type_.arrow) for _, type_, values in COLUMNS])
    table = source("filesystem", schema, {"path": str(tmp_path), "format": "orc"})
    assert rows_of(table) == list(zip(*(values for *_, values in COLUMNS), strict=True))
    assert table.statistics().rows == 2


def test_the_wall_clock_of_others_is_the_sessions(tmp_path: Path) -> None:
    """Spark writes a TIMESTAMP (LTZ) as what a clock on the wall shows, a TIMESTAMP_NTZ as microseconds."""
    wall = pa.array([NOON, datetime(2024, 10, 27, 2, 30)], pa.timestamp("us"))
    orc.write_table(pa.table({"at": wall, "ntz": wall.cast(pa.int64())}), tmp_path / "a.orc")
    schema = Schema.of(("at", timestamp_ltz(6)), ("ntz", timestamp(6)))
    options = {"path": str(tmp_path), "format": "orc"}
    assert rows_of(source("filesystem", schema, options, time_zone="Europe/Berlin")) == [
        (datetime(2024, 7, 1, 10, 0, 0, 123456, UTC), NOON),
        (datetime(2024, 10, 27, 0, 30, tzinfo=UTC), datetime(2024, 10, 27, 2, 30)),
    ]


def test_what_it_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"E1616 format 'orc' cannot hold column a of type TIME\(0\)"):
        rows_of(source("filesystem", Schema.of(("a", TIME)), {"path": str(tmp_path), "format": "orc"}))
    schema = Schema.of(("at", timestamp(3)))
    with pytest.raises(FormatError, match="E3203 format 'orc' cannot hold fractions of seconds before 1970"):
        write(tmp_path, schema, [pa.array([datetime(1950, 1, 1, 0, 0, 0, 500_000)], pa.timestamp("us"))])


def test_files_that_are_none(tmp_path: Path) -> None:
    schema = Schema.of(("a", INT))
    for content in (b"", b"ORC", b"PAR1 and more"):
        (tmp_path / "a.orc").write_bytes(content)
        table = source("filesystem", schema, {"path": str(tmp_path), "format": "orc"})
        assert table.statistics().rows is None
        with pytest.raises(SqlEngineError, match=r"E3204 .*a\.orc is not an ORC file"):
            rows_of(table)
