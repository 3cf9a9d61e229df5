"""The front door for Python."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from runtime.core.clock import VirtualClock
from sqlengine import SqlEngineError, TableEnvironment

TICKS = (
    "CREATE TABLE ticks (v INT) WITH ('connector' = 'datagen', 'rows-per-second' = '100000',"
    " 'fields.v.min' = '1', 'fields.v.max' = '9')"
)


@pytest.fixture
def t_env() -> TableEnvironment:
    with TableEnvironment.create() as environment:
        environment.execute_script(
            "CREATE TABLE t (id INT, name STRING); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'a')"
        )
        yield environment


def test_collect_gives_changes_with_kinds(t_env: TableEnvironment) -> None:
    t_env.get_config().set("sqlengine.epoch.max-rows", "2")
    rows = list(t_env.execute_sql("SELECT name, COUNT(*) AS n FROM t GROUP BY name"))
    assert [(row.kind, *row) for row in rows] == [("+I", "a", 1), ("+I", "b", 1), ("-U", "a", 1), ("+U", "a", 2)]


def test_to_arrow_folds_and_sorts(t_env: TableEnvironment) -> None:
    t_env.get_config().set("sqlengine.epoch.max-rows", "1")
    result = t_env.execute_sql("SELECT name, COUNT(*) AS n FROM t GROUP BY name ORDER BY n DESC")
    assert result.is_sorted_at_end
    assert result.to_arrow() == pa.table({"name": ["a", "b"], "n": pa.array([2, 1], pa.int64())})


def test_schema_has_sql_types(t_env: TableEnvironment) -> None:
    schema = t_env.execute_sql("SELECT id, name, id * 1.5 AS x FROM t").schema
    assert schema.names == ("id", "name", "x")
    assert [str(t) for t in schema.types] == ["INT", "STRING", "DECIMAL(13, 1)"]


def test_changes_are_batches(t_env: TableEnvironment) -> None:
    (batch,) = t_env.execute_sql("SELECT id FROM t WHERE id > 1").changes()
    assert batch.is_append_only and batch.rows.to_pydict() == {"id": [2, 3]}


def test_rows_of_a_query_are_read_once_those_of_other_statements_often(t_env: TableEnvironment) -> None:
    query = t_env.execute_sql("SELECT id FROM t")
    assert len(list(query.collect())) == 3
    with pytest.raises(SqlEngineError, match="E1612"):
        query.to_arrow()
    assert query.wait() is query
    shown = t_env.execute_sql("SHOW TABLES")
    assert list(shown.collect()) == list(shown.collect()) == [("t",)]


def test_a_result_can_be_read_in_parts(t_env: TableEnvironment) -> None:
    result = t_env.execute_sql("SELECT id FROM t")
    rows = result.collect()
    assert [next(rows), next(rows), next(rows)] == [(1,), (2,), (3,)]


def test_statements_tell_what_they_did(t_env: TableEnvironment) -> None:
    assert list(t_env.execute_sql("CREATE TABLE u (a INT)")) == [("OK",)]
    inserted = t_env.execute_sql("INSERT INTO u SELECT id FROM t")
    assert list(inserted) == [(3,)] and inserted.schema.names == ("default_catalog.default_database.u",)
    assert inserted.summary == "3 rows written to u"
    assert list(t_env.execute_sql("UPDATE u SET a = 0 WHERE a = 1")) == [(1,)]


def test_script_and_table(t_env: TableEnvironment) -> None:
    results = t_env.execute_script("CREATE TABLE u (id INT); INSERT INTO u VALUES (7); SELECT * FROM u")
    assert list(results[-1]) == [(7,)]
    table = t_env.sql_query("SELECT id FROM t WHERE id < 3")
    assert sorted(table.execute()) == [(1,), (2,)]
    assert sorted(table.execute()) == [(1,), (2,)]
    assert "Calc [id] where id < 3" in table.explain()
    assert "[I]" in table.explain("CHANGELOG_MODE")
    table.execute_insert("u")
    assert sorted(t_env.execute_sql("SELECT id FROM u")) == [(1,), (2,), (7,)]
    with pytest.raises(SqlEngineError, match="E1611"):
        t_env.sql_query("SHOW TABLES")


def test_errors_have_code_place_and_text(t_env: TableEnvironment) -> None:
    text = "SELECT 1 AS one;\nSELECT nam FROM t"
    with pytest.raises(SqlEngineError) as caught:
        t_env.execute_script(text)
    error = caught.value
    assert (error.code, error.text, error.span and text[error.span.start : error.span.end]) == ("E1201", text, "nam")
    assert str(error) == 'E1201 unknown column "nam" at 2:8; did you mean "name"?'


def test_errors_while_reading_have_their_place(t_env: TableEnvironment) -> None:
    result = t_env.execute_sql("SELECT 1 / (id - 1) FROM t")
    with pytest.raises(SqlEngineError, match="E2102 division by zero at 1:8"):
        list(result.collect())
    with pytest.raises(SqlEngineError, match="E2102 division by zero at 1:22"):
        t_env.execute_sql("INSERT INTO t SELECT 1 / (id - 1), name FROM t")


def test_config(t_env: TableEnvironment) -> None:
    config = t_env.get_config()
    assert config.set("table.local-time-zone", "Europe/Berlin").get("table.local-time-zone") == "Europe/Berlin"
    assert config.get("table.exec.state.ttl") is None and config.get("table.exec.state.ttl", "0") == "0"
    with pytest.raises(SqlEngineError, match="E1503"):
        config.set("table.exec.state.tll", "1 h")
    with pytest.raises(SqlEngineError, match="E1508"):
        TableEnvironment.create({"table.local-time-zone": "Mars"})


def test_virtual_time() -> None:
    clock = VirtualClock(1_000)
    with TableEnvironment.create(clock=clock) as t_env:
        (row,) = t_env.execute_sql("SELECT CURRENT_TIMESTAMP AS t")
        assert row.t == dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)


# --- jobs
# ---------------------------------------------------------------------------------------------------------------------


def test_an_endless_query_is_read_as_it_comes_and_cancelled(t_env: TableEnvironment) -> None:
    t_env.execute_sql(TICKS)
    result = t_env.execute_sql("SELECT v FROM ticks")
    assert not result.bounded
    seen = 0
    for row in result:
        assert 1 <= row.v <= 9
        seen += 1
        if seen == 5:
            result.cancel()
    assert seen >= 5
    assert result.job is not None and result.job.status == "CANCELED"
    with pytest.raises(SqlEngineError, match="E1613"):
        t_env.execute_sql("SELECT v FROM ticks").to_arrow()


def test_leaving_the_loop_stops_the_job(t_env: TableEnvironment) -> None:
    t_env.execute_sql(TICKS)
    result = t_env.execute_sql("SELECT v FROM ticks")
    rows = result.collect()
    next(rows)
    rows.close()
    assert result.job is not None and result.job.status == "CANCELED"


def test_a_background_insert_is_waited_for_and_stopped(t_env: TableEnvironment, tmp_path: Path) -> None:
    t_env.execute_script(
        TICKS
        + f"; CREATE TABLE out (v INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'csv')"
    )
    result = t_env.execute_sql("INSERT INTO out SELECT v FROM ticks")
    (row,) = result
    assert row == ("job-2",) and not result.bounded
    with pytest.raises(TimeoutError):
        result.wait(timeout=0.05)
    t_env.execute_sql("STOP JOB 'job-2'")
    result.wait()
    assert list(t_env.execute_sql("SELECT status FROM system.jobs WHERE job = 'job-2'")) == [("CANCELED",)]
    assert {line for path in (tmp_path / "out").iterdir() for line in path.read_text().split()} <= set("123456789")


def test_a_failing_background_job_tells_whoever_waits(t_env: TableEnvironment) -> None:
    t_env.execute_script(TICKS + "; CREATE TABLE out (v INT) WITH ('connector' = 'blackhole')")
    result = t_env.execute_sql("INSERT INTO out SELECT 1 / (v - v) FROM ticks")
    with pytest.raises(SqlEngineError, match="E2102 division by zero at 1:24"):
        result.wait()


def test_statements_get_their_turn_beside_a_busy_job(t_env: TableEnvironment) -> None:
    t_env.execute_script(TICKS + "; CREATE TABLE kept (v INT, n BIGINT, PRIMARY KEY (v) NOT ENFORCED)")
    t_env.execute_sql("INSERT INTO kept SELECT v, COUNT(*) FROM ticks GROUP BY v")
    seen: set[int] = set()
    while len(seen) < 3:
        seen |= {row.n for row in t_env.execute_sql("SELECT SUM(n) AS n FROM kept")}
    t_env.execute_sql("CREATE MATERIALIZED VIEW total AS SELECT SUM(n) AS n FROM kept")
    assert list(t_env.execute_sql("SELECT n FROM total"))


def test_synchronous_inserts_end_when_stopped(t_env: TableEnvironment) -> None:
    t_env.execute_script(TICKS + "; CREATE TABLE kept (v INT); SET 'table.dml-sync' = 'true'")
    started = threading.Event()
    t_env.session.on_job = lambda job: setattr(job, "on_epoch", lambda running: started.set())
    stopper = threading.Thread(target=lambda: (started.wait(), [j.job.cancel() for j in t_env.session.jobs.active()]))
    stopper.start()
    assert t_env.execute_sql("INSERT INTO kept SELECT v FROM ticks").job.status == "CANCELED"
    stopper.join()


def test_closing_stops_everything(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    t_env = TableEnvironment.create()
    t_env.execute_script(TICKS + "; CREATE TABLE out (v INT) WITH ('connector' = 'blackhole')")
    jobs = [t_env.execute_sql("INSERT INTO out SELECT v FROM ticks").job for _ in range(2)]
    t_env.execute_sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM ticks")
    reading = t_env.execute_sql("SUBSCRIBE TO n").collect()
    next(reading)
    t_env.close()
    t_env.close()
    assert [job.status for job in jobs] == ["CANCELED", "CANCELED"]
    begun = {t.name for t in threading.enumerate() if t not in before}
    assert not [name for name in begun if name == "materialized views" or name.startswith("job-")]
    assert all(row.kind in ("-U", "+U", "+I") for row in reading)  # it ends


def test_subscribe_gives_contents_then_changes(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE MATERIALIZED VIEW counted AS SELECT COUNT(*) AS n FROM t")
    result = t_env.execute_sql("SUBSCRIBE TO counted")
    changes = result.collect()
    assert next(changes) == (3,)
    t_env.execute_sql("INSERT INTO t VALUES (4, 'c')")
    assert [(row.kind, row.n) for row in (next(changes), next(changes))] == [("-U", 3), ("+U", 4)]
    result.cancel()
    assert list(changes) == []


def test_two_environments_know_nothing_of_each_other(t_env: TableEnvironment) -> None:
    with TableEnvironment.create() as other, pytest.raises(SqlEngineError, match="E1202"):
        other.execute_sql("SELECT * FROM t")


def test_flush_takes_all_input(t_env: TableEnvironment, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("1\n2\n3\n")
    t_env.execute_script(
        f"CREATE TABLE f (v INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv', "
        "'source.monitor-interval' = '10 ms');"
        "CREATE MATERIALIZED VIEW total AS SELECT SUM(v) AS s FROM f"
    )
    t_env.flush()
    assert list(t_env.execute_sql("SELECT s FROM total")) == [(6,)]


def test_a_limit_that_is_reached_ends_an_endless_query(t_env: TableEnvironment) -> None:
    t_env.execute_sql(TICKS)
    rows = list(t_env.execute_sql("SELECT v + 100 AS w FROM ticks LIMIT 3 OFFSET 1"))
    assert len(rows) == 3 and all(101 <= row.w <= 109 for row in rows)
    t_env.execute_sql("CREATE TABLE few (v INT)")
    inserted = t_env.execute_sql("INSERT INTO few SELECT v FROM ticks LIMIT 2").wait()
    assert inserted.job is not None and inserted.job.status == "FINISHED"
    assert len(list(t_env.execute_sql("SELECT * FROM few"))) == 2


def test_a_query_that_was_stopped_has_no_final_rows(t_env: TableEnvironment) -> None:
    result = t_env.execute_sql("SELECT id FROM t")
    assert result.is_running
    result.cancel()
    with pytest.raises(SqlEngineError, match="E1620"):
        result.to_arrow()
    assert not result.is_running
    half = t_env.execute_sql("SELECT id FROM t")
    half.cancel()
    assert list(half.collect()) == []


def test_a_closed_environment_takes_no_statements() -> None:
    t_env = TableEnvironment.create()
    t_env.execute_sql("CREATE TABLE t (a INT)")
    table = t_env.from_path("t")
    t_env.close()
    for ask in (
        lambda: t_env.execute_sql("SELECT 1"),
        lambda: t_env.execute_script("CREATE TABLE u (a INT)"),
        lambda: t_env.explain_sql("SELECT 1"),
        lambda: t_env.create_input("i", {"a": "INT"}),
        lambda: table.execute(),
        lambda: table.execute_insert("t"),
    ):
        with pytest.raises(SqlEngineError, match="E1629 this TableEnvironment is closed"):
            ask()
    t_env.close()


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("table.exec.state.tttl", 'did you mean "table.exec.state.ttl"?'),
        ("timezone", 'there is: "table.local-time-zone"'),
        (
            "foo",
            "options begin with execution, materialized-table, optimizer, parallelism, pipeline, restart-strategy, sql-client, "
            "sqlengine, state, table; docs/options.md lists all",
        ),
    ],
)
def test_an_unknown_option_names_those_that_are_near(key: str, hint: str) -> None:
    with TableEnvironment.create() as t_env, pytest.raises(SqlEngineError) as caught:
        t_env.execute_sql(f"SET '{key}' = '1'")
    assert caught.value.hint == hint
