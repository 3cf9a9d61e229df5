"""Readers beside what takes long: a statement, a commit, a view that is made. They read the last epoch, and wait for
nobody.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from connectors.memory import MemoryTable
from runtime.core.changelog import ChangelogBatch
from sqlengine import SqlEngineError, TableEnvironment, udf
from tests.faults.gates import LONG, Beside, Gate

_WHOLE = "SELECT SUM(v) AS total FROM (SELECT v FROM a UNION ALL SELECT v FROM b)"


@pytest.fixture
def t_env(gate: Gate) -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as environment:
        environment.create_temporary_system_function("slow", udf(gate, result_type="INT"))
        for table in "ab":
            environment.execute_sql(f"CREATE TABLE {table} (k INT PRIMARY KEY NOT ENFORCED, v INT)")
            environment.execute_sql(f"INSERT INTO {table} VALUES (1, 50), (2, 50)")
        environment.execute_sql(f"CREATE MATERIALIZED VIEW whole AS {_WHOLE}")
        yield environment


def _move(t_env: TableEnvironment) -> None:
    t_env.execute_script(
        "BEGIN EPOCH; UPDATE a SET v = v - 10 WHERE k = 1; UPDATE b SET v = v + 10 WHERE k = 1; END EPOCH"
    )


def _sees_whole_sums(beside: Beside, first: int) -> None:
    """A reader sees the epoch before, in tables and views alike."""
    assert beside.rows("SELECT v FROM a WHERE k = 1") == [(first,)]
    assert beside.rows(_WHOLE) == beside.rows("SELECT total FROM whole") == [(200,)]


def test_a_view_that_follows_slowly_keeps_no_reader_waiting(
    t_env: TableEnvironment, beside: Beside, gate: Gate
) -> None:
    t_env.execute_sql("CREATE MATERIALIZED VIEW late AS SELECT k, slow(v) AS v FROM a")
    # What the other view lets gather is taken in before: nobody could take it in while the commit is at hand.
    _move(t_env)
    for first in (40, 30):
        with gate.held(lambda: _move(t_env)):
            _sees_whole_sums(beside, first)
            assert beside.rows("SELECT k, v FROM late") == [(1, first), (2, 50)]
            assert beside.rows("SHOW MATERIALIZED VIEWS") == [("late",), ("whole",)]
        _sees_whole_sums(beside, first - 10)
        assert beside.rows("SELECT k, v FROM late") == [(1, first - 10), (2, 50)]


def test_tables_that_change_slowly_keep_no_reader_waiting(
    t_env: TableEnvironment, beside: Beside, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of two tables is changed already, the second one is not."""
    apply = MemoryTable.apply

    def slow(table: MemoryTable, *batches: ChangelogBatch) -> None:
        if table.name.endswith(".b"):
            gate(0)
        apply(table, *batches)

    monkeypatch.setattr(MemoryTable, "apply", slow)
    with gate.held(lambda: _move(t_env)):
        _sees_whole_sums(beside, 50)
    _sees_whole_sums(beside, 40)


def test_a_view_that_is_made_slowly_keeps_no_reader_waiting(
    t_env: TableEnvironment, beside: Beside, gate: Gate
) -> None:
    with gate.held(lambda: t_env.execute_sql("CREATE MATERIALIZED VIEW late AS SELECT k, slow(v) AS v FROM a")):
        _sees_whole_sums(beside, 50)
        with pytest.raises(SqlEngineError, match="E1202"):
            beside.rows("SELECT * FROM late")
    assert beside.rows("SELECT * FROM late") == [(1, 50), (2, 50)]
    replace = "CREATE OR REPLACE MATERIALIZED VIEW late AS SELECT slow(-v) AS v FROM a"
    with gate.held(lambda: t_env.execute_sql(replace)):
        _sees_whole_sums(beside, 50)
        assert beside.rows("SELECT * FROM late") == [(1, 50), (2, 50)]
    assert beside.rows("SELECT * FROM late") == [(-50,), (-50,)]


def test_a_table_that_is_made_slowly_keeps_no_reader_waiting(
    t_env: TableEnvironment, beside: Beside, gate: Gate
) -> None:
    t_env.execute_sql("CREATE TABLE c AS SELECT 7 AS x")
    with gate.held(lambda: t_env.execute_sql("CREATE OR REPLACE TABLE c AS SELECT k, slow(v) AS v FROM b")):
        _sees_whole_sums(beside, 50)
        assert beside.rows("SELECT * FROM c") == [(7,)]
    assert beside.rows("SELECT * FROM c") == [(1, 50), (2, 50)]


def test_a_change_that_is_computed_beside_a_commit_knows_of_it(
    t_env: TableEnvironment, beside: Beside, gate: Gate
) -> None:
    """An UPDATE that has read the rows before a commit at hand is carried out again behind it: nothing is lost."""
    t_env.execute_sql("CREATE MATERIALIZED VIEW late AS SELECT k, slow(v) AS v FROM a")
    with t_env.new_session() as third:
        writer = threading.Thread(target=lambda: third.execute_sql("UPDATE a SET v = v + 1 WHERE k = 1"))
        with gate.held(lambda: t_env.execute_sql("UPDATE a SET v = v + 100 WHERE k = 1")):
            writer.start()
            assert beside.rows("SELECT v FROM a WHERE k = 1") == [(50,)]
        writer.join(LONG)
        assert not writer.is_alive()
    assert beside.rows("SELECT v FROM a WHERE k = 1") == [(151,)] == beside.rows("SELECT v FROM late WHERE k = 1")


def test_readers_see_whole_epochs_beside_writers_and_definitions(t_env: TableEnvironment) -> None:
    """Tables that are replaced and altered, views that come and go: names and rows are of one epoch."""
    wrong: list[str] = []
    over = threading.Event()

    def read() -> None:
        with t_env.new_session() as session:
            while not over.is_set():
                try:
                    for sql in (_WHOLE, "SELECT total FROM whole", "SELECT SUM(x) AS total FROM changing"):
                        total = session.execute_sql(sql).to_arrow()["total"].to_pylist()
                        if total != [200]:
                            wrong.append(f"{sql}: {total}")
                except BaseException as error:
                    wrong.append(repr(error))
                    return

    t_env.execute_sql("CREATE TABLE changing AS SELECT 200 AS x")
    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for i in range(5):
            _move(t_env)
            t_env.execute_sql("CREATE OR REPLACE TABLE changing AS SELECT 150 AS x, 'y' AS y UNION ALL SELECT 50, 'z'")
            t_env.execute_sql(f"ALTER TABLE changing ADD z{i} INT")
            t_env.execute_sql("CREATE OR REPLACE TABLE changing AS SELECT 200 AS x")
            t_env.execute_sql(f"CREATE OR REPLACE MATERIALIZED VIEW whole AS {_WHOLE}")
    finally:
        over.set()
        for reader in readers:
            reader.join()
    assert not wrong
