"""Writers beside what takes long: a view or a table that is made, a commit with slow views, a view over a connector. They
wait for it only where it changes what they change.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlengine import SqlEngineError, TableEnvironment, udf
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.filling import Filling
from sqlengine.database.source_thread import SourceThread
from sqlengine.database.turns import TurnLock
from sqlengine.database.views import Views
from sqlengine.statements import alter_table
from tests.faults.gates import LONG, Beside, Gate


@pytest.fixture
def t_env(gate: Gate) -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as environment:
        _prepare(environment, gate)
        yield environment


def _prepare(environment: TableEnvironment, gate: Gate) -> None:
    environment.create_temporary_system_function("slow", udf(gate, result_type="INT"))
    for table in "ab":
        environment.execute_sql(f"CREATE TABLE {table} (k INT PRIMARY KEY NOT ENFORCED, v INT)")
        environment.execute_sql(f"INSERT INTO {table} VALUES (1, 10), (2, 20)")
    environment.execute_sql("CREATE MATERIALIZED VIEW of_b AS SELECT SUM(v) AS s FROM b")


@pytest.fixture
def in_line(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Counts who has begun to wait for the lock."""
    found, wait = threading.Semaphore(0), TurnLock._wait

    def noted(lock: TurnLock, *rest: Any) -> None:
        found.release()
        wait(lock, *rest)

    monkeypatch.setattr(TurnLock, "_wait", noted)
    return found


class _Waiting:
    """A statement of another session that has to wait."""

    def __init__(self, session: TableEnvironment, sql: str) -> None:
        self._session, self._sql = session, sql
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._session.execute_sql(self._sql)
        except BaseException as error:
            self.failure = error

    @property
    def waits(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> BaseException | None:
        self._thread.join(LONG)
        assert not self._thread.is_alive(), f"{self._sql} waits for ever"
        return self.failure


def _code(failure: BaseException | None) -> str | None:
    assert failure is None or isinstance(failure, SqlEngineError)
    return None if failure is None else failure.code


def _writes_b(beside: Beside, n: int) -> None:
    """Another session writes to the table that has nothing to do with what is slow, alone and in an epoch."""
    before = beside.rows("SELECT s FROM of_b")[0][0]
    assert isinstance(before, int)
    beside.rows(f"INSERT INTO b VALUES ({n}, 1)")
    beside.rows("BEGIN EPOCH")
    beside.rows(f"UPDATE b SET v = v + 1 WHERE k = {n}")
    beside.rows(f"INSERT INTO b SELECT {n + 1}, v FROM b WHERE k = {n}")
    beside.rows("END EPOCH")
    assert beside.rows("SELECT s FROM of_b") == [(before + 4,)] == beside.rows("SELECT SUM(v) FROM b")


_FILLED = {
    "gathers": "SELECT k, v, {slow} AS w FROM a",
    "joined": "SELECT a.k, a.v, {slow} AS w FROM a LEFT JOIN b ON a.k = b.k",
}


@pytest.mark.parametrize("query", _FILLED.values(), ids=_FILLED)
@pytest.mark.parametrize("replaced", [False, True], ids=["made", "replaced"])
def test_a_view_that_is_filled_misses_nothing(
    t_env: TableEnvironment, beside: Beside, gate: Gate, query: str, replaced: bool
) -> None:
    """What its inputs get meanwhile is in its answer; readers and views above see the old one until it is complete."""
    if replaced:
        t_env.execute_sql("CREATE MATERIALIZED VIEW m AS SELECT k, v, v - v AS w FROM a")
        t_env.execute_sql("CREATE MATERIALIZED VIEW above AS SELECT SUM(w) AS s FROM m")
    create = f"CREATE OR REPLACE MATERIALIZED VIEW m AS {query.format(slow='slow(a.v)')}"
    with gate.held(lambda: t_env.execute_sql(create)):
        _writes_b(beside, 5)
        beside.rows("INSERT INTO a VALUES (3, 30)")
        beside.rows("UPDATE a SET v = 11 WHERE k = 1")
        beside.rows("DELETE FROM a WHERE k = 2")
        if replaced:
            assert beside.rows("SELECT * FROM m") == [(1, 11, 0), (3, 30, 0)]
            assert beside.rows("SELECT * FROM above") == [(0,)]
        else:
            with pytest.raises(SqlEngineError, match="E1202"):
                beside.rows("SELECT * FROM m")
    assert beside.rows("SELECT * FROM m") == [(1, 11, 11), (3, 30, 30)]
    if replaced:
        assert beside.rows("SELECT * FROM above") == [(41,)]
    beside.rows("INSERT INTO a VALUES (4, 40)")
    assert beside.rows("SELECT * FROM m WHERE k = 4") == [(4, 40, 40)]


def test_a_view_takes_epochs_in_their_order(t_env: TableEnvironment, beside: Beside, gate: Gate) -> None:
    """A view whose answer depends on the order of arrival sees the epochs that came while it was filled one by one."""
    t_env.execute_sql("CREATE TABLE log (k INT, v INT)")
    create = (
        "CREATE MATERIALIZED VIEW firsts AS SELECT k, v FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k "
        "ORDER BY p) AS n FROM (SELECT k, slow(v) AS v, PROCTIME() AS p FROM (SELECT * FROM log UNION ALL SELECT * FROM a))) "
        "WHERE n = 1"
    )
    with gate.held(lambda: t_env.execute_sql(create)):
        # Taken source by source the rows of `log` would be the first of each key.
        beside.rows("INSERT INTO a VALUES (7, 1)")
        beside.rows("INSERT INTO log VALUES (7, 2), (8, 3)")
        beside.rows("INSERT INTO a VALUES (8, 4)")
    assert beside.rows("SELECT * FROM firsts WHERE k > 2") == [(7, 1), (8, 3)]


def test_a_view_that_fails_while_it_is_filled_changes_nothing(
    t_env: TableEnvironment, beside: Beside, gate: Gate
) -> None:
    t_env.execute_sql("CREATE MATERIALIZED VIEW m AS SELECT k, v AS w FROM a")
    failed: list[BaseException] = []

    def create() -> None:
        try:
            t_env.execute_sql("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT k, 1 / (slow(v) - 30) AS w FROM a")
        except SqlEngineError as error:
            failed.append(error)

    with gate.held(create):
        beside.rows("INSERT INTO a VALUES (3, 30)")
    assert [_code(error) for error in failed] == ["E2102"]
    assert beside.rows("SELECT * FROM m") == [(1, 10), (2, 20), (3, 30)]
    beside.rows("INSERT INTO a VALUES (4, 40)")
    assert beside.rows("SELECT * FROM m WHERE k = 4") == [(4, 40)]


_IN_THE_WAY = {
    "CREATE MATERIALIZED VIEW m AS SELECT 1 AS x": "E1401",
    "CREATE MATERIALIZED VIEW IF NOT EXISTS m AS SELECT 1 AS x": None,
    "CREATE TABLE m (x INT)": "E1401",
    "CREATE VIEW m AS SELECT 1 AS x": "E1401",
    "CREATE TABLE m AS SELECT 1 AS x": "E1401",
    "DROP MATERIALIZED VIEW m": None,
    "DROP TABLE a": "E1410",
    "ALTER TABLE a ADD x INT": "E1410",
    "ALTER TABLE a RENAME TO c": "E1410",
    "ALTER TABLE free RENAME TO m": "E1401",
    "CREATE OR REPLACE TABLE a AS SELECT 1 AS k": "E1410",
    "DROP DATABASE IF EXISTS other CASCADE": None,
}
_ELSEWHERE = {
    "CREATE TABLE c AS SELECT * FROM b",
    "CREATE MATERIALIZED VIEW n AS SELECT SUM(v) AS s FROM a",
    "DROP MATERIALIZED VIEW of_b",
    "CREATE DATABASE other",
    "CREATE TEMPORARY VIEW a2 AS SELECT * FROM a",
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a statement begins to wait for what another one makes."""
    event, wait = threading.Event(), Filling.wait

    def noted(filling: Filling) -> None:
        event.set()
        wait(filling)

    monkeypatch.setattr(Filling, "wait", noted)
    return event


@pytest.mark.parametrize(("sql", "code"), _IN_THE_WAY.items(), ids=_IN_THE_WAY)
def test_definitions_wait_for_what_is_made(
    t_env: TableEnvironment, gate: Gate, asked: threading.Event, sql: str, code: str | None
) -> None:
    """They find it there, or what it reads in use, as if it had been made before them."""
    t_env.execute_sql("CREATE DATABASE other")
    t_env.execute_sql("CREATE TABLE free (k INT)")
    name = "other.m" if "other" in sql else "m"
    with t_env.new_session() as session:
        with gate.held(lambda: t_env.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT k, slow(v) AS v FROM a")):
            waiting = _Waiting(session, sql)
            assert asked.wait(LONG)
            assert waiting.waits
        assert _code(waiting.end()) == code


@pytest.mark.parametrize(
    "made", ["MATERIALIZED VIEW m AS SELECT k, slow(v) AS v FROM a", "TABLE m AS SELECT k, slow(v) AS v FROM a"]
)
def test_a_view_waits_for_the_new_content_of_what_it_reads(
    t_env: TableEnvironment, gate: Gate, asked: threading.Event, made: str
) -> None:
    t_env.execute_sql(f"CREATE {made.replace('slow(v)', '0')}")
    with t_env.new_session() as session:
        with gate.held(lambda: t_env.execute_sql(f"CREATE OR REPLACE {made}")):
            waiting = _Waiting(session, "CREATE MATERIALIZED VIEW n AS SELECT SUM(v) AS s FROM m")
            assert asked.wait(LONG)
        assert waiting.end() is None
        assert Beside(session).rows("SELECT * FROM n") == [(30,)]


def test_nothing_is_left_of_what_failed_while_others_waited(
    t_env: TableEnvironment, gate: Gate, asked: threading.Event
) -> None:
    failing = "CREATE MATERIALIZED VIEW m AS SELECT 1 / (slow(v) - 10) AS v FROM a"

    def create() -> None:
        with pytest.raises(SqlEngineError, match="E2102"):
            t_env.execute_sql(failing)

    with t_env.new_session() as session:
        with gate.held(create):
            waiting = _Waiting(session, "CREATE TABLE m (x INT)")
            assert asked.wait(LONG)
        assert waiting.end() is None
        assert Beside(session).rows("DROP TABLE a") == [("OK",)]


@pytest.mark.parametrize("sql", sorted(_ELSEWHERE))
def test_other_definitions_do_not_wait(t_env: TableEnvironment, beside: Beside, gate: Gate, sql: str) -> None:
    with gate.held(lambda: t_env.execute_sql("CREATE MATERIALIZED VIEW m AS SELECT k, slow(v) AS v FROM a")):
        beside.rows(sql)
    assert beside.rows("SELECT * FROM m") == [(1, 10), (2, 20)]


def test_a_table_that_is_made_from_a_query_keeps_nobody_waiting(
    t_env: TableEnvironment, beside: Beside, gate: Gate
) -> None:
    with gate.held(lambda: t_env.execute_sql("CREATE TABLE c AS SELECT k, slow(v) AS v FROM a")):
        _writes_b(beside, 5)
        beside.rows("INSERT INTO a VALUES (3, 30)")
    assert beside.rows("SELECT * FROM c") == [(1, 10), (2, 20)]
    t_env.execute_sql("CREATE MATERIALIZED VIEW of_c AS SELECT SUM(v) AS s FROM c")
    beside.rows("INSERT INTO c VALUES (3, 70)")
    assert beside.rows("SELECT * FROM of_c") == [(100,)]


def test_a_commit_with_slow_views_stops_no_writer_of_other_tables(
    t_env: TableEnvironment, beside: Beside, gate: Gate
) -> None:
    """Its own epoch is there with all of it, and comes after those that passed it."""
    t_env.execute_sql("CREATE MATERIALIZED VIEW late AS SELECT k, slow(v) AS v FROM a")
    t_env.execute_sql("CREATE MATERIALIZED VIEW total AS SELECT SUM(v) AS s FROM late")
    assert beside.rows("SELECT s FROM total") == [(30,)]
    with gate.held(lambda: t_env.execute_sql("INSERT INTO a VALUES (3, 30)")):
        _writes_b(beside, 5)
        for sql in ("SELECT SUM(v) FROM a", "SELECT SUM(v) FROM late", "SELECT s FROM total"):
            assert beside.rows(sql) == [(30,)]
        # Within an epoch tables are read as the last epoch has left them, too.
        beside.rows("BEGIN EPOCH")
        beside.rows("INSERT INTO b VALUES (9, 0)")
        assert beside.rows("SELECT SUM(a.v), COUNT(*) FROM a, b WHERE b.k = 9") == [(30, 2)]
        beside.rows("END EPOCH")
    for sql in ("SELECT SUM(v) FROM a", "SELECT SUM(v) FROM late", "SELECT s FROM total"):
        assert beside.rows(sql) == [(60,)]


def test_writers_of_what_a_commit_touches_wait_for_it(
    t_env: TableEnvironment, beside: Beside, gate: Gate, in_line: threading.Semaphore
) -> None:
    """A writer of the same table, and of one that a slow view reads, too."""
    t_env.execute_sql("CREATE TABLE other (k INT, v INT)")
    t_env.execute_sql(
        "CREATE MATERIALIZED VIEW late AS SELECT slow(v) AS v FROM (SELECT v FROM a UNION ALL SELECT v FROM other)"
    )
    with t_env.new_session() as one, t_env.new_session() as two:
        with gate.held(lambda: t_env.execute_sql("UPDATE a SET v = v + 100 WHERE k = 1")):
            waiting = [
                _Waiting(one, "UPDATE a SET v = v + 1 WHERE k = 1"),
                _Waiting(two, "INSERT INTO other VALUES (1, 1000)"),
            ]
            for _ in waiting:
                assert in_line.acquire(timeout=LONG)
            _writes_b(beside, 5)
            assert all(w.waits for w in waiting)
        assert [w.end() for w in waiting] == [None, None]
    assert beside.rows("SELECT v FROM late") == [(1000,), (111,), (20,)]


def test_a_subscriber_hears_of_a_slow_commit_when_it_is_complete(
    t_env: TableEnvironment, beside: Beside, gate: Gate
) -> None:
    t_env.execute_sql("CREATE MATERIALIZED VIEW late AS SELECT k, slow(v) AS v FROM a")
    heard: list[tuple[object, ...]] = []
    got = threading.Event()

    def hear(rows: list[object]) -> None:
        heard.extend(tuple(row) for row in rows)  # type: ignore[arg-type]
        got.set()

    with t_env.new_session() as session:
        listener = session.execute_sql("SUBSCRIBE TO a").listen(hear)
        try:
            assert got.wait(LONG)
            got.clear()
            with gate.held(lambda: t_env.execute_sql("INSERT INTO a VALUES (3, 30)")):
                beside.rows("INSERT INTO b VALUES (9, 0)")
                assert (3, 30) not in heard
            assert got.wait(LONG)
            assert (3, 30) in heard
        finally:
            listener.stop()


def test_a_slow_view_over_a_connector_stops_nobody(t_env: TableEnvironment, beside: Beside, gate: Gate) -> None:
    source = (
        "WITH ('connector' = 'datagen', 'fields.x.kind' = 'sequence', 'fields.x.start' = '1', 'fields.x.end' = '10')"
    )
    t_env.execute_sql(f"CREATE TABLE numbers (x INT) {source}")
    create = "CREATE MATERIALIZED VIEW outside AS SELECT slow(x) AS x FROM numbers"
    with gate.held(lambda: t_env.execute_sql(create)):
        _writes_b(beside, 5)
    t_env.execute_sql("FLUSH")
    assert beside.rows("SELECT SUM(x) FROM outside") == [(55,)]


def _files(folder: Path) -> str:
    """A table over the files of a folder, which is looked at again and again."""
    return (
        f"CREATE TABLE files (x INT) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv', "
        "'source.monitor-interval' = '5 ms')"
    )


def _come(folder: Path, name: str, *numbers: int) -> None:
    folder.mkdir(exist_ok=True)
    hidden = folder / f"_{name}"
    hidden.write_text("".join(f"{n}\n" for n in numbers))
    hidden.rename(folder / f"{name}.csv")


def test_flush_waits_for_slow_views_alone(
    t_env: TableEnvironment, beside: Beside, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have their turn in an epoch of a view that FLUSH waits for, and see what was there before."""
    monkeypatch.setattr(SourceThread, "_run", lambda thread: None)  # FLUSH alone advances views.
    _come(tmp_path, "1", 1, 2)
    t_env.execute_sql(_files(tmp_path))
    t_env.execute_sql("CREATE MATERIALIZED VIEW outside AS SELECT slow(x) AS x FROM files")
    t_env.execute_sql("CREATE MATERIALIZED VIEW above AS SELECT SUM(x) AS s FROM outside")
    t_env.execute_sql("FLUSH")
    _come(tmp_path, "2", 3)

    def flush() -> None:
        while t_env.execute_sql("SELECT COUNT(*) AS c FROM outside").to_arrow().to_pylist() != [{"c": 3}]:
            t_env.execute_sql("FLUSH")  # The folder is looked at every few milliseconds.

    with gate.held(flush):
        _writes_b(beside, 5)
        assert beside.rows("SELECT s FROM above") == [(3,)]
    assert beside.rows("SELECT s FROM above") == [(6,)]


def test_a_slow_job_stops_no_writer_of_other_tables(
    t_env: TableEnvironment, beside: Beside, gate: Gate, tmp_path: Path, in_line: threading.Semaphore
) -> None:
    """Its epoch is there with all of it, and with the views above; who writes to its table waits."""
    _come(tmp_path, "1", 3)
    t_env.execute_sql(_files(tmp_path))
    t_env.execute_sql("CREATE MATERIALIZED VIEW of_a AS SELECT SUM(v) AS s FROM a")
    with t_env.new_session() as session:
        with gate.held(lambda: t_env.execute_sql("INSERT INTO a SELECT x, slow(x) FROM files")):
            while in_line.acquire(blocking=False):
                pass
            waiting = _Waiting(session, "INSERT INTO a VALUES (7, 70)")
            assert in_line.acquire(timeout=LONG)
            _writes_b(beside, 5)
            assert waiting.waits
            assert beside.rows("SELECT SUM(v) FROM a") == beside.rows("SELECT s FROM of_a") == [(30,)]
        assert waiting.end() is None
    assert beside.rows("SELECT SUM(v) FROM a") == beside.rows("SELECT s FROM of_a") == [(103,)]


def test_a_table_that_gets_other_columns_stops_no_writer_of_others(
    t_env: TableEnvironment, beside: Beside, gate: Gate, in_line: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has begun to write to the table itself is told; who defines something waits; readers have the old columns."""
    t_env.execute_sql("CREATE TABLE wide (k INT, v INT)")
    t_env.execute_sql("INSERT INTO wide VALUES (1, 10), (2, 20)")
    convert = alter_table._converted

    def held(*given: Any) -> Any:
        gate(0)
        return convert(*given)

    monkeypatch.setattr(alter_table, "MOST_GATHERED", 0)
    monkeypatch.setattr(alter_table, "_converted", held)
    with t_env.new_session() as one, t_env.new_session() as two:
        with gate.held(lambda: t_env.execute_sql("ALTER TABLE wide ADD w STRING")):
            while in_line.acquire(blocking=False):
                pass
            writes = _Waiting(one, "INSERT INTO wide VALUES (3, 30)")
            defines = _Waiting(two, "ALTER TABLE wide RENAME v TO u")
            for _ in range(2):
                assert in_line.acquire(timeout=LONG)
            _writes_b(beside, 5)
            assert beside.rows("SELECT * FROM wide") == [(1, 10), (2, 20)]
            assert writes.waits and defines.waits
        assert _code(writes.end()) == "E1716"
        assert defines.end() is None
    assert beside.rows("SELECT k, u, w FROM wide") == [(1, 10, None), (2, 20, None)]


def test_a_slow_commit_of_a_kept_job_stops_no_writer_of_other_tables(tmp_path: Path, gate: Gate) -> None:
    """What it has written is there as a whole, once, also when the database is opened again."""
    path = str(tmp_path / "shop")
    _come(tmp_path / "in", "1", 3, 4)
    with TableEnvironment.create({"execution.checkpointing.interval": "5 ms"}, path=path) as t_env:
        for sql in (
            "CREATE TABLE b (k INT PRIMARY KEY NOT ENFORCED, v INT)",
            "INSERT INTO b VALUES (1, 10), (2, 20)",
            "CREATE MATERIALIZED VIEW of_b AS SELECT SUM(v) AS s FROM b",
            "CREATE TABLE s (x INT)",
            "CREATE MATERIALIZED VIEW of_s AS SELECT SUM(x) AS s FROM s",
            _files(tmp_path / "in"),
        ):
            t_env.execute_sql(sql)
        with t_env.new_session() as session, pytest.MonkeyPatch.context() as patch:
            beside = Beside(session)
            follow = Views.follow

            def held(views: Views, part: Collection[ObjectPath]) -> None:
                if "s" in {path.name for path in part}:
                    gate(0)
                follow(views, part)

            patch.setattr(Views, "follow", held)
            patch.setattr(Views, "may_take_long", lambda views, changed, rows: "s" in {path.name for path in changed})
            with gate.held(lambda: t_env.execute_sql("INSERT INTO s SELECT x FROM files")):
                _writes_b(beside, 5)
                assert beside.rows("SELECT * FROM s") == beside.rows("SELECT * FROM of_s") == []
            while beside.rows("SELECT s FROM of_s") != [(7,)]:
                pass
            assert beside.rows("SELECT x FROM s") == [(3,), (4,)]
    with TableEnvironment.create(path=path) as t_env:
        assert Beside(t_env).rows("SELECT x FROM s") == [(3,), (4,)]
        assert Beside(t_env).rows("SELECT SUM(v) FROM b") == [(34,)]


def test_a_table_between_two_commits_is_whole_in_the_folder(tmp_path: Path, gate: Gate) -> None:
    """A checkpoint that is made while a commit is at hand has nothing of it; the log has it once."""
    path = str(tmp_path / "shop")
    with TableEnvironment.create({"sqlengine.database.checkpoint-size": "1 b"}, path=path) as t_env:
        _prepare(t_env, gate)
        with t_env.new_session() as slow, t_env.new_session() as other:
            slow.create_temporary_system_function("slow", udf(gate, result_type="INT"))
            slow.execute_sql("CREATE TABLE bag (v INT)")
            slow.execute_sql("INSERT INTO bag VALUES (1)")
            with pytest.MonkeyPatch.context() as patch:
                follow = Views.follow

                def held(views: Views, part: object) -> None:
                    if threading.current_thread() is not threading.main_thread():
                        gate(0)
                    follow(views, part)  # type: ignore[arg-type]

                patch.setattr(Views, "follow", held)
                patch.setattr(Views, "may_take_long", lambda *rest: len(rest[1]) and "bag" in str(rest[1]))
                with gate.held(lambda: slow.execute_sql("INSERT INTO bag VALUES (2), (3)")):
                    for number in range(5, 9):
                        other.execute_sql(f"INSERT INTO b VALUES ({number}, 1)")
    with TableEnvironment.create(path=path) as t_env:
        assert Beside(t_env).rows("SELECT v FROM bag") == [(1,), (2,), (3,)]
        assert Beside(t_env).rows("SELECT SUM(v) FROM b") == [(34,)]
