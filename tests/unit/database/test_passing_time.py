"""Answers that change with time alone: whoever reads a view, or follows it, sees it as of the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from runtime.core.clock import VirtualClock
from sqlengine import TableEnvironment
from sqlengine.database import passing_time
from sqlengine.server.postgres.engine import EngineStatement
from tests.unit.database.test_lasting import rows

START = 1_700_000_000_000
TABLES = (
    "CREATE TABLE e (id INT PRIMARY KEY NOT ENFORCED, at TIMESTAMP_LTZ(3))",
    "CREATE MATERIALIZED VIEW v WITH ('history.retention' = '1 h') AS "
    "SELECT id FROM e WHERE `at` > MZ_NOW() - INTERVAL '2' SECOND",
    "CREATE MATERIALIZED VIEW above AS SELECT id, COUNT(*) AS n FROM v GROUP BY id",
    "INSERT INTO e SELECT 1, CURRENT_TIMESTAMP",
)


def _made(clock: VirtualClock, path: Path | None = None) -> TableEnvironment:
    t_env = TableEnvironment.create(clock=clock) if path is None else TableEnvironment.create(clock=clock, path=path)
    for statement in TABLES:
        t_env.execute_sql(statement)
    return t_env


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread looks at the clock, so that only statements let time pass."""
    monkeypatch.setattr(passing_time, "_run", lambda *_: None)


@pytest.fixture
def made(nobody_else: None, clock: VirtualClock) -> Iterator[TableEnvironment]:
    with _made(clock) as t_env:
        yield t_env


def _count(pieces: Iterable[Sequence[pa.Array]]) -> int:
    return sum(len(piece[0]) for piece in pieces)


def _both(t_env: TableEnvironment) -> tuple[object, object]:
    return rows(t_env, "SELECT * FROM above"), rows(t_env, "SELECT * FROM v")


def test_a_query_sees_rows_leave_and_come(made: TableEnvironment, clock: VirtualClock) -> None:
    made.execute_sql("CREATE MATERIALIZED VIEW later AS SELECT id FROM e WHERE `at` + INTERVAL '3' SECOND <= MZ_NOW()")
    assert _both(made) == ([(1, 1)], [(1,)])
    clock.advance_to(START + 1_999)
    assert _both(made) == ([(1, 1)], [(1,)])
    clock.advance_to(START + 2_000)
    assert _both(made) == ([], [])
    assert rows(made, "SELECT * FROM later") == []
    clock.advance_to(START + 3_000)
    assert rows(made, "SELECT * FROM later") == [(1,)]


READERS: dict[str, Callable[[TableEnvironment], Callable[[], object]]] = {
    "query": lambda t: lambda: rows(t, "SELECT id FROM v"),
    "join": lambda t: lambda: rows(t, "SELECT v.id FROM v JOIN above ON v.id = above.id"),
    "Table API": lambda t: lambda: [tuple(r) for r in t.from_path("v").execute().collect()],
    "prepared": lambda t: (lambda asked: lambda: [tuple(r) for r in asked.execute([1]).collect()])(
        t.prepare("SELECT id FROM v WHERE id = ?")
    ),
    "as of": lambda t: (
        lambda: rows(t, f"SELECT id FROM v FOR SYSTEM_TIME AS OF TO_TIMESTAMP_LTZ({t.session.clock.now()}, 3)")
    ),
    "another session": lambda t: (lambda other: lambda: rows(other, "SELECT id FROM v"))(t.new_session()),
}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_sees_it(made: TableEnvironment, clock: VirtualClock, reader: str) -> None:
    read = READERS[reader](made)
    for _ in range(5):
        assert read() == [(1,)]
    clock.advance_to(START + 2_000)
    assert read() == []


def test_statements_that_write(made: TableEnvironment, clock: VirtualClock) -> None:
    made.execute_sql("CREATE TABLE kept (id INT)")
    clock.advance_to(START + 2_000)
    made.execute_sql("INSERT INTO kept SELECT id FROM v")
    made.execute_sql("INSERT INTO kept SELECT 7 WHERE NOT EXISTS (SELECT 1 FROM v)")
    assert rows(made, "SELECT * FROM kept") == [(7,)]


def test_within_an_epoch(made: TableEnvironment, clock: VirtualClock) -> None:
    made.execute_sql("CREATE TABLE other (id INT)")
    made.execute_sql("BEGIN EPOCH")
    made.execute_sql("INSERT INTO other VALUES (1)")
    assert _both(made) == ([(1, 1)], [(1,)])
    clock.advance_to(START + 2_000)
    assert _both(made) == ([], [])
    made.execute_sql("END EPOCH")
    assert rows(made, "SELECT * FROM other") == [(1,)]


def test_a_point_lookup_goes_the_long_way_when_time_has_come(made: TableEnvironment, clock: VirtualClock) -> None:
    """The server looks rows up in an index only where they are as of the clock."""
    statement = EngineStatement(made, "SELECT id FROM v WHERE id = $1")
    for _ in range(3):
        assert _count(statement.run([1]).pieces) == 1
    lookup = statement.point_lookup()
    assert lookup is not None and lookup.contents(made.session) is not None
    clock.advance_to(START + 2_000)
    assert lookup.contents(made.session) is None
    assert _count(statement.run([1]).pieces) == 0
    assert lookup.contents(made.session) is not None


def test_followers_hear_of_it(clock: VirtualClock) -> None:
    """Nobody carries out a statement: the clock alone makes the epoch."""
    with _made(clock) as t_env:
        changes = t_env.execute_sql("SUBSCRIBE TO above").collect()
        assert str(next(changes)) == "+I(id=1, n=1)"
        clock.advance_to(START + 2_000)
        assert str(next(changes)) == "-D(id=1, n=1)"
        changes.close()


@pytest.mark.usefixtures("nobody_else")
def test_after_a_restart(clock: VirtualClock, tmp_path: Path) -> None:
    _made(clock, tmp_path / "db").close()
    later = VirtualClock(START + 1_000)
    t_env = TableEnvironment.create(clock=later, path=tmp_path / "db")
    assert _both(t_env) == ([(1, 1)], [(1,)])
    later.advance_to(START + 2_000)
    assert _both(t_env) == ([], [])
    t_env.execute_sql("INSERT INTO e SELECT 2, CURRENT_TIMESTAMP")
    t_env.close()
    with TableEnvironment.create(clock=VirtualClock(START + 5_000), path=tmp_path / "db") as t_env:
        assert _both(t_env) == ([], [])


@pytest.mark.usefixtures("nobody_else")
def test_without_a_clean_end(clock: VirtualClock, tmp_path: Path) -> None:
    t_env = _made(clock, tmp_path / "db")
    clock.advance_to(START + 2_000)
    assert _both(t_env) == ([], [])
    assert t_env.session.durable is not None
    t_env.session.durable.abandon()
    with TableEnvironment.create(clock=VirtualClock(START + 2_500), path=tmp_path / "db") as t_env:
        assert _both(t_env) == ([], [])


@pytest.mark.usefixtures("nobody_else")
def test_windows_of_processing_time(clock: VirtualClock) -> None:
    with TableEnvironment.create(clock=clock) as t_env:
        t_env.execute_sql("CREATE TABLE t (n INT, at AS PROCTIME())")
        t_env.execute_sql(
            "CREATE MATERIALIZED VIEW m AS SELECT COUNT(*) AS c FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), "
            "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
        )
        t_env.execute_sql("INSERT INTO t (n) VALUES (1), (2)")
        assert rows(t_env, "SELECT * FROM m") == []
        clock.advance_to(START + 120_000)
        assert rows(t_env, "SELECT * FROM m") == [(2,)]


@pytest.mark.usefixtures("nobody_else")
def test_early_results_of_windows(clock: VirtualClock) -> None:
    with TableEnvironment.create(clock=clock) as t_env:
        t_env.execute_sql("SET 'table.exec.emit.early-fire.enabled' = 'true'")
        t_env.execute_sql("SET 'table.exec.emit.early-fire.delay' = '10 s'")
        t_env.execute_sql("CREATE TABLE t (n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)")
        t_env.execute_sql(
            "CREATE MATERIALIZED VIEW m AS SELECT COUNT(*) AS c FROM t GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)"
        )
        t_env.execute_sql("INSERT INTO t VALUES (1, TIMESTAMP '2020-01-01 00:00:10')")
        assert rows(t_env, "SELECT * FROM m") == []
        clock.advance_to(START + 10_000)
        assert rows(t_env, "SELECT * FROM m") == [(1,)]


def test_what_does_not_follow_the_clock_has_no_thread(clock: VirtualClock) -> None:
    with TableEnvironment.create(clock=clock) as t_env:
        t_env.execute_sql("CREATE TABLE t (n INT)")
        t_env.execute_sql("CREATE MATERIALIZED VIEW m AS SELECT COUNT(*) AS c FROM t")
        t_env.execute_sql("INSERT INTO t VALUES (1)")
        clock.advance_to(START + 10_000)
        assert not t_env.session.views.is_due()
        assert t_env.session.views._time is None


@pytest.mark.parametrize("name", ["Early", "EpochEarly"])
def test_timers_of_process_functions(clock: VirtualClock, name: str) -> None:
    with TableEnvironment.create(clock=clock) as t_env:
        t_env.execute_sql(f"CREATE FUNCTION early AS 'tests.unit.table_api.process_program.{name}' LANGUAGE PYTHON")
        t_env.execute_sql("CREATE TABLE t (k STRING) WITH ('changelog-mode' = 'append')")
        t_env.execute_sql("CREATE MATERIALIZED VIEW m AS SELECT k, n FROM early(input => TABLE t PARTITION BY k)")
        t_env.execute_sql("INSERT INTO t VALUES ('a'), ('a')")
        changes = t_env.execute_sql("SUBSCRIBE TO m").collect()
        clock.advance_to(START + 10_000)
        assert str(next(changes)) == "+I(k='a', n=2)"
        assert rows(t_env, "SELECT * FROM m") == [("a", 2)]
        changes.close()
