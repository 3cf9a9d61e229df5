"""Many sessions on one database: what they share, what each has for itself, and what they see of each other."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from connectors.memory import MemoryTable
from runtime.core.cancellation import Stopped
from runtime.core.changelog import ChangelogBatch
from sqlengine import SqlEngineError, TableEnvironment, udf


@pytest.fixture
def one() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as environment:
        yield environment


@pytest.fixture
def other(one: TableEnvironment) -> Iterator[TableEnvironment]:
    with one.new_session() as environment:
        yield environment


def rows(environment: TableEnvironment, sql: str) -> list[tuple[object, ...]]:
    return sorted((tuple(r.values()) for r in environment.execute_sql(sql).to_arrow().to_pylist()), key=str)


def test_tables_views_and_functions_are_shared(one: TableEnvironment, other: TableEnvironment) -> None:
    one.execute_sql("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v INT)")
    other.execute_sql("CREATE MATERIALIZED VIEW s AS SELECT SUM(v) AS s FROM t")
    one.execute_sql("INSERT INTO t VALUES (1, 10), (2, 20)")
    assert rows(other, "SELECT * FROM t") == [(1, 10), (2, 20)]
    assert rows(one, "SELECT * FROM s") == [(30,)]
    assert one.list_tables() == other.list_tables()


def test_options_names_temporary_objects_and_functions_are_a_session_s_own(
    one: TableEnvironment, other: TableEnvironment
) -> None:
    one.execute_script("SET 'table.local-time-zone' = 'Europe/Berlin'; CREATE DATABASE d; USE d")
    assert other.get_config().get_local_timezone() == "UTC"
    assert other.get_current_database() == "default_database"
    for environment, value in ((one, 1), (other, 2)):
        environment.execute_sql("CREATE TEMPORARY TABLE default_database.mine (v INT)")
        environment.execute_sql(f"INSERT INTO default_database.mine VALUES ({value})")
        environment.create_temporary_system_function("own", udf(lambda x, n=value: x * n, result_type="INT"))
    assert rows(one, "SELECT own(10), v FROM default_database.mine") == [(10, 1)]
    assert rows(other, "SELECT own(10), v FROM mine") == [(20, 2)]
    third = one.new_session({"table.local-time-zone": "+02:00"})
    assert third.get_config().get_local_timezone() == "+02:00"
    with pytest.raises(SqlEngineError, match="E1202"):
        third.execute_sql("SELECT * FROM mine")
    with pytest.raises(SqlEngineError, match="E1203"):
        third.execute_sql("SELECT own(1)")
    third.close()


def test_an_open_epoch_is_seen_by_its_session_alone(one: TableEnvironment, other: TableEnvironment) -> None:
    one.execute_script(
        "CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v INT); CREATE MATERIALIZED VIEW s AS SELECT SUM(v) AS s FROM t;"
        "INSERT INTO t VALUES (1, 10), (2, 20)"
    )
    one.execute_script(
        "BEGIN EPOCH; UPDATE t SET v = 11 WHERE k = 1; DELETE FROM t WHERE k = 2; INSERT INTO t VALUES (3, 30)"
    )
    assert rows(one, "SELECT * FROM t") == [(1, 11), (3, 30)]
    assert rows(one, "SELECT * FROM s") == [(41,)]
    assert rows(other, "SELECT * FROM t") == [(1, 10), (2, 20)]
    assert rows(other, "SELECT * FROM s") == [(30,)]
    other.execute_sql("INSERT INTO t VALUES (4, 40)")
    # A statement of the epoch sees what others have completed.
    assert rows(one, "SELECT * FROM t") == [(1, 11), (3, 30), (4, 40)]
    one.execute_sql("END EPOCH")
    for environment in (one, other):
        assert rows(environment, "SELECT * FROM t") == [(1, 11), (3, 30), (4, 40)]
        assert rows(environment, "SELECT * FROM s") == [(81,)]


def test_rollback_and_close_forget_an_open_epoch(one: TableEnvironment, other: TableEnvironment) -> None:
    one.execute_script("CREATE TABLE t (v INT); INSERT INTO t VALUES (1)")
    other.execute_script("BEGIN EPOCH; INSERT INTO t VALUES (2); ROLLBACK EPOCH; BEGIN EPOCH; DELETE FROM t")
    other.close()
    assert rows(one, "SELECT * FROM t") == [(1,)]
    with pytest.raises(SqlEngineError, match="E1629"):
        other.execute_sql("SELECT 1")
    one.execute_sql("INSERT INTO t VALUES (3)")
    assert rows(one, "SELECT * FROM t") == [(1,), (3,)]


def test_the_second_who_changes_a_row_is_told(one: TableEnvironment, other: TableEnvironment) -> None:
    one.execute_script("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v INT); INSERT INTO t VALUES (1, 10), (2, 20)")
    one.execute_script("BEGIN EPOCH; UPDATE t SET v = v + 1 WHERE k = 1")
    other.execute_sql("UPDATE t SET v = v + 5 WHERE k = 1")
    with pytest.raises(SqlEngineError, match="E1716"):
        one.execute_sql("END EPOCH")
    assert rows(one, "SELECT * FROM t") == [(1, 15), (2, 20)]
    one.execute_script("BEGIN EPOCH; INSERT INTO t VALUES (3, 30)")
    other.execute_sql("UPDATE t SET v = 15 WHERE k = 1")
    # A statement that has seen the change of the other does not contradict it.
    one.execute_script("UPDATE t SET v = v + 1 WHERE k = 1; DELETE FROM t WHERE k = 3; END EPOCH")
    assert rows(other, "SELECT * FROM t") == [(1, 16), (2, 20)]


def test_a_table_that_another_session_has_dropped_takes_no_epoch(
    one: TableEnvironment, other: TableEnvironment
) -> None:
    one.execute_script("CREATE TABLE t (v INT); BEGIN EPOCH; INSERT INTO t VALUES (1)")
    other.execute_script("DROP TABLE t; CREATE TABLE t (v INT)")
    with pytest.raises(SqlEngineError, match='has changed "t" itself'):
        one.execute_sql("END EPOCH")
    assert rows(other, "SELECT * FROM t") == []


def test_a_statement_whose_table_is_altered_meanwhile_writes_nothing(
    one: TableEnvironment, other: TableEnvironment
) -> None:
    one.execute_script("CREATE TABLE t (v INT); CREATE TABLE s (v INT); INSERT INTO s VALUES (1)")
    begun = []

    def altering(x: int) -> int:
        if not begun:
            begun.append(x)
            other.execute_sql("ALTER TABLE t ADD w INT")
        return x

    one.create_temporary_system_function("altering", udf(altering, result_type="INT"))
    with pytest.raises(SqlEngineError, match='has changed "t" itself'):
        one.execute_sql("INSERT INTO t SELECT altering(v) FROM s")
    assert rows(other, "SELECT * FROM t") == []
    one.execute_sql("INSERT INTO t SELECT altering(v), 2 FROM s")
    assert rows(other, "SELECT * FROM t") == [(1, 2)]


def test_the_last_session_ends_the_database(one: TableEnvironment) -> None:
    one.execute_script(
        "CREATE TABLE g (v BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1'); CREATE TABLE t (v BIGINT)"
    )
    job = one.execute_sql("INSERT INTO t SELECT v FROM g").job
    other = one.new_session()
    one.close()
    assert job is not None and not other.session.database.closed.is_set()
    assert job.status in ("CREATED", "RUNNING")
    other.close()
    other.close()
    assert job.status == "CANCELED" and other.session.database.closed.is_set()


def test_a_long_statement_keeps_nobody_waiting(one: TableEnvironment, other: TableEnvironment) -> None:
    """While an INSERT and an UPDATE compute, the other session reads and writes, also the same table."""
    one.execute_script("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v INT); CREATE TABLE u (v INT)")
    one.execute_sql("INSERT INTO t VALUES (1, 10), (2, 20)")
    inside, go_on = threading.Event(), threading.Event()

    def slow(x: int) -> int:
        inside.set()
        assert go_on.wait(60)
        return x

    one.create_temporary_system_function("slow", udf(slow, result_type="INT"))
    for sql, done in (
        ("INSERT INTO u SELECT slow(v) FROM t", [(10,), (20,)]),
        ("UPDATE t SET v = slow(v) + 1 WHERE k = 1", None),
    ):
        inside.clear()
        go_on.clear()
        writer = threading.Thread(target=one.execute_sql, args=(sql,))
        writer.start()
        assert inside.wait(60)
        assert rows(other, "SELECT * FROM u") == ([] if done else [(10,), (20,)])
        other.execute_sql("UPDATE t SET v = v + 100 WHERE k = 2")
        go_on.set()
        writer.join()
        if done:
            assert rows(other, "SELECT * FROM u") == done
    assert rows(other, "SELECT * FROM t") == [(1, 11), (2, 220)]


def test_a_statement_over_rows_that_others_change_is_carried_out_again(
    one: TableEnvironment, other: TableEnvironment
) -> None:
    one.execute_script("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v INT); INSERT INTO t VALUES (1, 0)")
    times = []

    def interfering(x: int) -> int:
        times.append(x)
        if len(times) <= 2:
            other.execute_sql("UPDATE t SET v = v + 100 WHERE k = 1")
        return x

    one.create_temporary_system_function("interfering", udf(interfering, result_type="INT"))
    one.execute_sql("UPDATE t SET v = interfering(v) + 1 WHERE k = 1")
    assert rows(one, "SELECT * FROM t") == [(1, 201)] and times == [0, 100, 200]


def test_counters_of_many_threads_lose_nothing(one: TableEnvironment) -> None:
    one.execute_script("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v INT); INSERT INTO t VALUES (0, 0), (1, 0)")
    one.execute_sql("CREATE MATERIALIZED VIEW s AS SELECT SUM(v) AS s FROM t")
    seen: list[list[int]] = [[] for _ in range(6)]

    def count(number: int) -> None:
        with one.new_session() as session:
            for i in range(8):
                session.execute_sql(f"UPDATE t SET v = v + 1 WHERE k = {(number + i) % 2}")
                seen[number].append(session.execute_sql("SELECT s FROM s").to_arrow()["s"][0].as_py())

    threads = [threading.Thread(target=count, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows(one, "SELECT * FROM s") == [(48,)]
    assert all(found == sorted(set(found)) for found in seen)


def test_an_epoch_of_several_tables_that_is_interrupted_changes_none(one: TableEnvironment) -> None:
    one.execute_script(
        "CREATE TABLE a (v INT); CREATE TABLE b (k INT PRIMARY KEY NOT ENFORCED);"
        "CREATE TABLE c (v INT) WITH ('changelog-mode' = 'append'); INSERT INTO b VALUES (7)"
    )
    one.execute_script("BEGIN EPOCH; INSERT INTO c VALUES (1); INSERT INTO a VALUES (1); INSERT INTO b VALUES (1), (7)")
    made = MemoryTable.apply

    def fails_for_b(table: MemoryTable, *batches: ChangelogBatch) -> None:
        if table.primary_key:
            raise Stopped
        made(table, *batches)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryTable, "apply", fails_for_b)
        with pytest.raises(SqlEngineError, match="E1633"):
            one.execute_sql("END EPOCH")
    with one.new_session() as other:
        assert [rows(other, f"SELECT * FROM {t}") for t in "abc"] == [[], [(7,)], []]
        one.execute_sql("END EPOCH")
        assert [rows(other, f"SELECT * FROM {t}") for t in "abc"] == [[(1,)], [(1,), (7,)], [(1,)]]


def test_a_session_that_nobody_has_any_more_keeps_no_database(one: TableEnvironment) -> None:
    one.new_session().execute_sql("SELECT 1")
    gc.collect()
    one.close()
    assert one.session.database.closed.is_set()


def test_a_statement_for_many_rows_is_carried_out_again_after_a_conflict(
    one: TableEnvironment, other: TableEnvironment
) -> None:
    one.execute_sql("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, n INT)")
    one.execute_sql("INSERT INTO t VALUES (1, 0), (2, 0)")
    meanwhile = iter([lambda: None, lambda: other.execute_sql("UPDATE t SET n = n + 10 WHERE k = 2")])

    def added(n: int) -> int:
        next(meanwhile, lambda: None)()
        return n + 1

    one.create_temporary_system_function("added", udf(added, result_type="INT", deterministic=False))
    one.execute_sql("UPDATE t SET n = added(n) WHERE k = ?", rows=[[2], [1], [1]])
    assert rows(other, "SELECT * FROM t") == [(1, 2), (2, 11)]
