"""A database in a folder whose tables may be larger than memory: it is opened without having all rows in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.memory import column_files, rows
from sqlengine import TableEnvironment
from sqlengine.database.folder import pieces

FILES = {"state.backend.type": "rocksdb"}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_CHUNK_ROWS", 64)
    monkeypatch.setattr(column_files, "_LEAST_BYTES", 0)
    monkeypatch.setattr(pieces, "_LARGEST_CLASS", 256)


def held(t_env: TableEnvironment) -> float:
    """The memory of all tables, in bytes."""
    found = t_env.execute_sql("SELECT SUM(`value`) AS s FROM system.metrics WHERE name = 'sqlengine_table_bytes'")
    return float(found.to_arrow()["s"][0].as_py())


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (a) NOT ENFORCED"])
def test_rows_are_the_same_and_take_less_memory(key: str, tmp_path: Path) -> None:
    memory: list[float] = []
    answers: list[object] = []
    for number, options in enumerate(({}, FILES)):
        path = str(tmp_path / str(number))
        with TableEnvironment.create(options, path=path) as t_env:
            t_env.execute_sql(f"CREATE TABLE t (a INT, s STRING{key})")
            t_env.execute_sql(
                "CREATE TABLE g (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3000', "
                "'fields.a.kind' = 'sequence', 'fields.a.start' = '1', 'fields.a.end' = '3000')"
            )
            t_env.execute_sql("INSERT INTO t SELECT a, REPEAT('text', 20) FROM g")
            t_env.execute_sql(
                "CREATE MATERIALIZED VIEW v AS SELECT MOD(a, 7) AS m, COUNT(*) AS n, MAX(s) AS s FROM t GROUP BY MOD(a, 7)"
            )
            t_env.execute_sql("DELETE FROM t WHERE MOD(a, 3) = 0")
        with TableEnvironment.create(options, path=path) as t_env:
            t_env.execute_sql("UPDATE t SET s = 'x' WHERE MOD(a, 5) = 0")
            t_env.execute_sql("INSERT INTO t VALUES (9000, 'new')")
            found = t_env.execute_sql("SELECT * FROM t ORDER BY a"), t_env.execute_sql("SELECT * FROM v ORDER BY m")
            answers.append([result.to_arrow().to_pylist() for result in found])
            memory.append(held(t_env))
    assert answers[0] == answers[1]
    # The index of a table without a key holds whole rows.
    assert memory[1] < memory[0] * 0.7
