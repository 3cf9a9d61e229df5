"""What the planner is told of files of columns: it is an estimate, within a factor of three of what is there."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from connectors.filesystem.files import list_files
from connectors.filesystem.footers import footer_statistics
from runtime.spi.statistics import ColumnStatistics, TableStatistics

ROWS = 40_000


def statistics(folder: Path, format_name: str = "parquet") -> TableStatistics:
    return footer_statistics(list_files(str(folder), "", (), may_be_missing=False), format_name)


def write(path: Path, columns: dict[str, object], **options: object) -> None:
    pq.write_table(pa.table(columns), path, row_group_size=10_000, **options)


def test_values_are_counted_by_the_dictionaries(tmp_path: Path) -> None:
    rng = random.Random(3)
    columns: dict[str, list[object]] = {
        "nation": [rng.randrange(25) for _ in range(ROWS)],
        "customer": [rng.randrange(5_000) for _ in range(ROWS)],
        "status": [rng.choice(("open", "closed", "late")) for _ in range(ROWS)],
        "day": [dt.date(2024, 1, 1) + dt.timedelta(rng.randrange(300)) for _ in range(ROWS)],
        "ascending": [i // 4 for i in range(ROWS)],
        "key": rng.sample(range(10 * ROWS), ROWS),
        "price": [rng.randrange(100) / 4 for _ in range(ROWS)],
    }
    for half in (0, 1):
        part = {name: values[half * ROWS // 2 : (half + 1) * ROWS // 2] for name, values in columns.items()}
        write(tmp_path / f"{half}.parquet", part)
    found = statistics(tmp_path)
    assert found.rows == ROWS
    for name, values in columns.items():
        known = found.column(name)
        assert known.distinct is not None
        assert len(set(values)) / 3 <= known.distinct <= 3 * len(set(values)), name
        assert (known.nulls, known.low, known.high) == (0, min(values), max(values)), name  # type: ignore[type-var]


def test_nulls_and_columns_without_values(tmp_path: Path) -> None:
    some = [None if i % 4 == 0 else i % 10 for i in range(20_000)]
    write(
        tmp_path / "a.parquet",
        {"some": some, "none": pa.nulls(20_000, pa.int64()), "list": [[i] for i in range(20_000)]},
    )
    found = statistics(tmp_path)
    assert found.column("some").nulls == 5_000
    assert (found.column("some").low, found.column("some").high) == (0, 9)
    assert found.column("none") == ColumnStatistics(nulls=20_000)
    assert found.column("list") == ColumnStatistics()
    # A file in which a column has values says what there is of it.
    write(tmp_path / "b.parquet", {"some": [77], "none": pa.array([5], pa.int64()), "list": [[1]]})
    assert statistics(tmp_path).column("none") == ColumnStatistics(distinct=1, nulls=20_000, low=5, high=5)


def test_what_files_do_not_tell(tmp_path: Path) -> None:
    write(
        tmp_path / "a.parquet",
        {"plain": list(range(100)), "differs": [1] * 100, "here": [1] * 100},
        use_dictionary=False,
    )
    write(tmp_path / "b.parquet", {"plain": list(range(100)), "differs": ["x"] * 100, "silent": [1] * 100})
    found = statistics(tmp_path)
    assert found.rows == 200
    assert found.column("plain") == ColumnStatistics(nulls=0, low=0, high=99)
    assert found.column("differs") == ColumnStatistics(nulls=0)
    assert found.column("here") == found.column("silent") == ColumnStatistics()
    (tmp_path / "c").mkdir()
    write(tmp_path / "c" / "c.parquet", {"a": [1, 2]}, write_statistics=False)
    assert statistics(tmp_path / "c") == TableStatistics(rows=2, columns=(("a", ColumnStatistics()),))


def test_of_many_files_rows_alone_are_estimated(tmp_path: Path) -> None:
    for i in range(40):
        write(tmp_path / f"{i:02}.parquet", {"a": list(range(1000 * i, 1000 * (i + 1)))})
    found = statistics(tmp_path)
    assert found.rows is not None and 30_000 < found.rows < 50_000 and found.columns == ()


def test_of_very_many_pieces_rows_alone_are_told(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": range(5_001)}), tmp_path / "a.parquet", row_group_size=1)
    assert statistics(tmp_path) == TableStatistics(rows=5_001)


def test_a_file_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"a": [1]})
    assert statistics(tmp_path).column("a").high == 1
    write(tmp_path / "a.parquet", {"a": [1, 2]})
    assert statistics(tmp_path).column("a").high == 2


def test_nothing_is_there(tmp_path: Path) -> None:
    assert statistics(tmp_path) == TableStatistics(rows=0)
    write(tmp_path / "a.parquet", {"a": pa.array([], pa.int64())})
    assert statistics(tmp_path).rows == 0


def test_orc_tells_rows_alone(tmp_path: Path) -> None:
    orc.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "a.orc")
    assert statistics(tmp_path, "orc") == TableStatistics(rows=3)
