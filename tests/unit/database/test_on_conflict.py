"""INSERT .. ON CONFLICT into tables without connector, against DuckDB, and between sessions."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment

ROWS = st.lists(st.tuples(st.integers(0, 6), st.none() | st.integers(-9, 9)), min_size=1, max_size=8)
ACTIONS = (
    "DO NOTHING",
    "(k) DO NOTHING",
    "(k) DO UPDATE SET v = EXCLUDED.v",
    "(k) DO UPDATE SET v = COALESCE(t.v, 0) + COALESCE(EXCLUDED.v, 1)",
    "(k) DO UPDATE SET v = EXCLUDED.v WHERE t.v < EXCLUDED.v",
)
STEPS = st.lists(
    st.tuples(ROWS, st.sampled_from(ACTIONS), st.booleans()) | st.sampled_from(["BEGIN", "COMMIT", "ROLLBACK"]),
    max_size=10,
)


def _values(rows: list[tuple[int, int | None]]) -> str:
    return ", ".join(f"({k}, {'CAST(NULL AS INT)' if v is None else v})" for k, v in rows)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, deletes=st.lists(st.integers(0, 6), max_size=10))
def test_rows_are_those_of_duckdb(steps: list, deletes: list[int]) -> None:
    env, duck = TableEnvironment.create(), duckdb.connect()
    for run in (env.execute_sql, duck.execute):
        run("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    is_open = False
    for i, step in enumerate(steps):
        if isinstance(step, str):
            if is_open == (step == "BEGIN"):
                continue
            is_open = step == "BEGIN"
            env.execute_sql(step)
            duck.execute(step)
            continue
        rows, action, as_query = step
        if "UPDATE" in action:
            rows = list(dict(rows).items())
        source = f"SELECT k, v FROM (VALUES {_values(rows)}) AS x (k, v)" if as_query else f"VALUES {_values(rows)}"
        text = f"INSERT INTO t {source} ON CONFLICT {action} RETURNING k, v"
        assert sorted(map(repr, map(tuple, env.execute_sql(text)))) == sorted(map(repr, duck.execute(text).fetchall()))
        for key in deletes[i : i + 1]:
            env.execute_sql(f"DELETE FROM t WHERE k = {key}")
            duck.execute(f"DELETE FROM t WHERE k = {key}")
        found = sorted(map(repr, map(tuple, env.execute_sql("SELECT * FROM t"))))
        assert found == sorted(map(repr, duck.execute("SELECT * FROM t").fetchall()))
    duck.close()


def test_many_rows_of_values_are_a_statement_each() -> None:
    env = TableEnvironment.create()
    env.execute_sql("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    text = "INSERT INTO t VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = t.v + EXCLUDED.v"
    with env.prepare(text) as upsert:
        upsert.execute_many([(1, 1), (1, 2), (2, 5), (1, 3)])
        upsert.execute_many([(1, 1), (2, 1)])
    with env.prepare("INSERT INTO t VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = ? WHERE t.v > ?") as upsert:
        upsert.execute([1, 0, 100, 6])
        upsert.execute([2, 0, 100, 6])
    with env.prepare("INSERT INTO t VALUES (?, ?) ON CONFLICT DO NOTHING") as insert:
        insert.execute_many([(2, 7), (3, 8), (3, 9)])
    assert sorted(map(tuple, env.execute_sql("SELECT * FROM t"))) == [(1, 100), (2, 6), (3, 8)]


def test_a_failed_statement_changes_nothing() -> None:
    env = TableEnvironment.create()
    env.execute_sql("CREATE TABLE t (k INT PRIMARY KEY, v INT NOT NULL)")
    env.execute_sql("INSERT INTO t VALUES (1, 1)")
    for action in ("DO ERROR", "(k) DO UPDATE SET v = 1 / 0", "(k) DO UPDATE SET v = CAST(NULL AS INT)"):
        with pytest.raises(SqlEngineError):
            env.execute_sql(f"INSERT INTO t VALUES (2, 2), (1, 3) ON CONFLICT {action}")
    assert list(map(tuple, env.execute_sql("SELECT * FROM t"))) == [(1, 1)]


@pytest.mark.parametrize("in_files", [False, True])
def test_sessions_count_together(tmp_path: Path, in_files: bool) -> None:
    config = {"state.backend.type": "rocksdb"} if in_files else None
    with TableEnvironment.create(config, path=tmp_path / "db") as env:
        env.execute_sql("CREATE TABLE t (k INT PRIMARY KEY, n BIGINT)")

        def count() -> None:
            with env.new_session() as session:
                for i in range(20):
                    session.execute_sql(
                        f"INSERT INTO t VALUES ({i % 3}, 1) ON CONFLICT (k) DO UPDATE SET n = t.n + EXCLUDED.n"
                    )

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with TableEnvironment.create(config, path=tmp_path / "db") as env:
        assert sorted(map(tuple, env.execute_sql("SELECT * FROM t"))) == [(0, 28), (1, 28), (2, 24)]


def test_an_open_epoch_that_met_a_row_of_another_session_conflicts() -> None:
    env = TableEnvironment.create()
    env.execute_sql("CREATE TABLE t (k INT PRIMARY KEY, n BIGINT)")
    with env.new_session() as other:
        env.execute_sql("BEGIN")
        env.execute_sql("INSERT INTO t VALUES (1, 1) ON CONFLICT (k) DO UPDATE SET n = t.n + 1")
        other.execute_sql("INSERT INTO t VALUES (1, 5) ON CONFLICT (k) DO UPDATE SET n = t.n + 1")
        with pytest.raises(SqlEngineError, match="E1716"):
            env.execute_sql("COMMIT")
        assert list(map(tuple, other.execute_sql("SELECT * FROM t"))) == [(1, 5)]


def test_a_parameter_of_do_update_has_the_type_of_its_column() -> None:
    env = TableEnvironment.create()
    env.execute_sql("CREATE TABLE t (k INT PRIMARY KEY, n BIGINT, d DATE)")
    text = "INSERT INTO t VALUES (?, 1, NULL) ON CONFLICT (k) DO UPDATE SET n = ?, d = ?"
    with env.prepare(text) as upsert:
        assert [str(t) for t in upsert.parameter_types] == ["INT", "BIGINT", "DATE"]
