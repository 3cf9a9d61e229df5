"""What `to_spark` gives is what `to_arrow` gives, whoever writes the rows. Spark does not run here."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from runtime.core.errors import SqlEngineError
from runtime.spark import gathered
from runtime.spark.frame import frame_of
from runtime.spark.simulated import SimulatedCluster
from runtime.spark.staged_rows import StagedRows
from runtime.tasks import divided
from sqlengine import TableEnvironment
from sqlengine.results import result

TABLES = """
CREATE TABLE t (id BIGINT, k BIGINT, name STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '900', 'seed' = '3',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '900', 'fields.k.min' = '0', 'fields.k.max' = '70',
  'fields.name.length' = '5');
CREATE TABLE none (id BIGINT, k BIGINT);
CREATE TABLE timed (at TIMESTAMP(3), k BIGINT, WATERMARK FOR at AS at - INTERVAL '1' SECOND) WITH ('connector' = 'datagen',
  'number-of-rows' = '300', 'seed' = '3', 'fields.k.min' = '0', 'fields.k.max' = '5');
"""
IN_FILES = (
    "SELECT id, k * 2 AS k2, name FROM t WHERE k <> 7",
    "SELECT * FROM none",
    "SELECT * FROM (VALUES (1, 'a'), (2, NULL), (2, NULL)) AS v(a, b)",
)
TAKEN_BACK = (
    "SELECT k, COUNT(*) AS n, MAX(id) AS last FROM t GROUP BY k",
    "SELECT a.k, a.n, b.last FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) a LEFT JOIN "
    "(SELECT k, MAX(id) AS last FROM t GROUP BY k) b ON a.n = b.k",
    "SELECT k, r, id, name FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id DESC) AS r FROM t) WHERE r <= 2",
)
BY_DRIVER = (
    "SELECT COUNT(*) AS n, SUM(k) AS k FROM t",
    "SELECT COUNT(*) AS n FROM none",
    "SELECT a.k, a.n, b.id FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) a JOIN t b ON a.n = b.k",
    "SELECT id FROM t ORDER BY k, id",
    "SELECT n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k)",
    "SELECT COUNT(*) AS n FROM timed",
)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Frames are tables of Arrow; tells which came from files."""
    found: list[str] = []

    def of_files(session: Any, folder: str, names: list[str], schema: pa.Schema) -> pa.Table:
        found.append("files")
        return pa.Table.from_batches([StagedRows(folder).read(name) for name in names])

    monkeypatch.setattr(divided, "PREFIX_ROWS", 10)
    monkeypatch.setattr(gathered, "frame_of_files", of_files)
    monkeypatch.setattr(gathered, "frame_columns", lambda columns, session: columns)
    monkeypatch.setattr(gathered, "frame_of", lambda rows, session: rows)
    monkeypatch.setattr(gathered, "staging_place", lambda session, options: str(tmp_path))
    of_driver = SimpleNamespace(frame_of=lambda rows, session: found.append("driver") or rows)
    monkeypatch.setattr(result, "_frame", of_driver)
    return found


def environment(seed: int | None) -> TableEnvironment:
    t_env = TableEnvironment.create(
        {
            "parallelism.default": "3",
            "sqlengine.epoch.max-rows": "100",
            "sqlengine.spark.write-in-tasks.min-rows": "4",
            "execution.target": "local" if seed is None else "spark",
        }
    )
    if seed is not None:
        t_env.session.target.cluster = SimulatedCluster(seed)  # type: ignore[assignment]
    t_env.execute_script(TABLES)
    return t_env


def counted(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in rows.to_pylist())


@pytest.mark.parametrize("seed", [None, 1])
def test_the_rows_are_those_of_the_answer(seen: list[str], seed: int | None) -> None:
    with environment(seed) as t_env:
        for query in IN_FILES + TAKEN_BACK + BY_DRIVER:
            wanted = t_env.execute_sql(query).to_arrow()
            del seen[:]
            found = t_env.execute_sql(query).to_spark("session")
            assert counted(found) == counted(wanted) and found.schema.names == wanted.schema.names, query
            by_driver = query in BY_DRIVER or (seed is None and query in TAKEN_BACK)
            assert ("driver" in seen) == by_driver, query
            if seed is not None and wanted.num_rows > 100:
                assert seen in (["files"], ["driver"]), query


def test_a_result_is_read_once_and_errors_have_places(seen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with environment(None) as t_env:
        read = t_env.execute_sql("SELECT id FROM t")
        assert read.to_spark("session").num_rows == 900
        with pytest.raises(SqlEngineError, match="E1612"):
            read.to_spark("session")
        kept = t_env.execute_sql("SELECT id FROM t").keep()
        assert kept.to_spark("session").num_rows == kept.to_spark("session").num_rows == 900
        with pytest.raises(SqlEngineError) as caught:
            t_env.execute_sql("SELECT id, CAST(name AS INT) AS n\nFROM t").to_spark("session")
        assert caught.value.code == "E2101" and "at 1:12" in str(caught.value)


def test_a_frame_of_nothing_has_columns() -> None:
    """Spark Connect makes no DataFrame of a table without rows."""

    class Session:
        def createDataFrame(self, rows: Any, schema: Any = None) -> Any:
            if not isinstance(rows, pa.Table):
                return rows, schema
            assert rows.num_rows
            return SimpleNamespace(schema=[(f.name, f.type) for f in rows.schema])

    nothing = pa.table({"a": pa.array([], pa.int32()), "b": pa.array([], pa.string())})
    assert frame_of(nothing, Session()) == ([], [("a", pa.int32()), ("b", pa.string())])


def test_a_session_without_tasks_is_refused_at_once() -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(SqlEngineError, match=r"E3605 .* TableEnvironment.create\(\) or sqlengine.spark.install"):
        TableEnvironment.create(spark=remote)
