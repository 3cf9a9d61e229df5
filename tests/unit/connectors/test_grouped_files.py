"""What footers of Parquet files say of a query is what their rows give."""

from __future__ import annotations

import datetime
import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from connector_tables import source

from runtime.core.schema import Schema
from runtime.core.types import INT
from runtime.spi.abilities import AskedAggregate
from sqlengine import TableEnvironment
from sqlengine.testing.connectors.reading import Context, drain

CASES = int(os.environ.get("FUZZ_CASES", "6"))
COLUMNS = "i INT, b BIGINT, d DATE, s STRING, f DOUBLE, t TIMESTAMP(3), gone INT"
FIRST_DAY = datetime.date(1, 1, 1)
QUERIES = (
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(*), COUNT(i), MIN(i), MAX(b), MIN(d), MAX(d), COUNT(s), COUNT(f), COUNT(t) FROM t",
    "SELECT MIN(gone), COUNT(gone), MAX(i) FROM t",
    "SELECT MIN(s), MAX(f), MIN(t) FROM t",
    "SELECT MAX(i), COUNT(*) FROM t WHERE b > 0",
    "SELECT SUM(i), MIN(i) FROM t",
    "SELECT i, COUNT(*) FROM t GROUP BY i",
    "SELECT (SELECT MAX(b) FROM t), (SELECT COUNT(*) FROM t)",
)


def written(chance: random.Random, folder: Path) -> None:
    """Files of any number of rows and row groups, some of them without statistics or with other types."""
    folder.mkdir()
    for number in range(chance.randrange(4)):
        rows = chance.choice([0, 1, 7, 40])

        def column(make: Any, kind: pa.DataType, rows: int = rows) -> pa.Array:
            nulls = chance.choice([0.0, 0.3, 1.0])
            return pa.array([None if chance.random() < nulls else make() for _ in range(rows)], kind)

        table = pa.table(
            {
                "i": column(lambda: chance.randrange(-9, 9), chance.choice([pa.int32(), pa.int32(), pa.int64()])),
                "b": column(lambda: chance.choice([-(2**63), 2**63 - 1, 0, 5]), pa.int64()),
                "d": column(lambda: FIRST_DAY + datetime.timedelta(days=chance.randrange(3_600_000)), pa.date32()),
                "s": column(lambda: chance.choice(["a", "", "ä"]), chance.choice([pa.string(), pa.large_string()])),
                "f": column(lambda: chance.choice([1.5, float("nan")]), pa.float64()),
                "t": column(lambda: datetime.datetime(2026, 1, chance.randrange(1, 28)), pa.timestamp("ms")),
            }
        )
        statistics: Any = chance.choice([True, True, False, ["b"]])
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=11, write_statistics=statistics)


@pytest.mark.parametrize("seed", range(CASES))
def test_they_are_equal(tmp_path: Path, seed: int) -> None:
    written(random.Random(seed), tmp_path / "t")
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(
            f"CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'parquet')"
        )
        for query in QUERIES:
            told = t_env.execute_sql(query).to_arrow().to_pylist()
            t_env.execute_sql("SET 'optimizer.disabled_rules' = 'push_aggregate_into_scan'")
            assert sorted(map(repr, t_env.execute_sql(query).to_arrow().to_pylist())) == sorted(map(repr, told)), query
            t_env.execute_sql("RESET 'optimizer.disabled_rules'")
        assert "aggregates=['COUNT(*)', 'COUNT(i)'" in t_env.explain_sql(QUERIES[1])
        for query in QUERIES[3:7]:
            assert "aggregates=" not in t_env.explain_sql(query)


@pytest.mark.parametrize("statistics", [True, False])
def test_it_goes_on_before_and_behind_its_row(tmp_path: Path, statistics: bool) -> None:
    rows = pa.table({"i": pa.array(range(20), pa.int32())})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=7, write_statistics=statistics)
    options = {"path": str(tmp_path), "format": "parquet"}
    plain: Any = source("filesystem", Schema.of(("i", INT)), options)
    table = plain.with_aggregates((), (AskedAggregate("MAX", "i", INT),))
    (split,) = table.splits()
    reader = table.open(split, Context())
    before, whole, behind = reader.position(), drain(reader), reader.position()
    assert [row for _, row in whole] == [(19,)]
    for position, rest in ((before, whole), (behind, [])):
        again = table.open(split, Context())
        again.seek(json.loads(json.dumps(position)))
        assert drain(again) == rest and again.finished
        again.close()
    reader.close()


def test_footers_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row is read where they say all."""
    monkeypatch.setattr("connectors.filesystem.parquet_reader.ParquetFileReader._begin_group", None)
    pq.write_table(pa.table({"i": pa.array(range(100), pa.int32())}), tmp_path / "a.parquet", row_group_size=7)
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(
            f"CREATE TABLE t (i INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet')"
        )
        (row,) = t_env.execute_sql("SELECT COUNT(*), COUNT(i), MIN(i), MAX(i) FROM t").to_arrow().to_pylist()
        assert tuple(row.values()) == (100, 100, 0, 99)
