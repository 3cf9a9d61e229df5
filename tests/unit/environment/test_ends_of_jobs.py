"""How jobs and views end: each sink is committed or aborted once, and a view that breaks does so alone."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator

import pytest

from runtime.core.errors import SqlEngineError
from runtime.local.dataflow import Dataflow
from runtime.operators.sink import SinkOperator
from sqlengine import SqlEngineWarning, TableEnvironment


@pytest.fixture
def t_env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as t_env:
        t_env.execute_sql("CREATE TABLE t (v INT)")
        yield t_env


def _break(t_env: TableEnvironment, monkeypatch: pytest.MonkeyPatch, view: str, error: BaseException) -> None:
    """The next epoch of a view raises."""
    broken = next(v.job.dataflow for v in t_env.session.views.jobs() if v.path.name == view)
    step = Dataflow.step

    def raising(self: Dataflow, *args: object) -> object:
        if self is broken:
            raise error
        return step(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Dataflow, "step", raising)


def _followers(t_env: TableEnvironment) -> int:
    return sum(len(table._readers) for table in t_env.session.memory.values())


def test_a_view_that_breaks_does_so_alone(t_env: TableEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT SUM(v) AS s FROM t")
    _break(t_env, monkeypatch, "b", ValueError("no such thing"))
    for _ in range(2):
        t_env.execute_sql("INSERT INTO t VALUES (1)")
    assert [list(t_env.execute_sql(f"SELECT s FROM {name}")) for name in "ac"] == [[(2,)], [(2,)]]
    with pytest.raises(SqlEngineError, match="E1713.*ValueError: no such thing"):
        t_env.execute_sql("SELECT s FROM b")
    assert _followers(t_env) == 2
    monkeypatch.undo()
    t_env.execute_sql("CREATE OR REPLACE MATERIALIZED VIEW b AS SELECT SUM(v) AS s FROM t")
    assert list(t_env.execute_sql("SELECT s FROM b")) == [(2,)]


def test_a_view_interrupted_within_an_epoch_is_not_gone_on_with(
    t_env: TableEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    t_env.execute_sql("CREATE MATERIALIZED VIEW a AS SELECT SUM(10 / v) AS s FROM t")
    t_env.execute_sql("CREATE MATERIALIZED VIEW b AS SELECT MAX(v) AS m FROM t")
    _break(t_env, monkeypatch, "a", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        t_env.execute_sql("INSERT INTO t VALUES (1)")
    monkeypatch.undo()
    t_env.execute_sql("INSERT INTO t VALUES (2)")
    assert list(t_env.execute_sql("SELECT m FROM b")) == [(2,)]
    with pytest.raises(SqlEngineError, match="E1713.*interrupted"):
        t_env.execute_sql("SELECT s FROM a")


def test_a_view_that_cannot_be_made_leaves_nothing(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE MATERIALIZED VIEW kept AS SELECT v FROM t")
    t_env.execute_sql("INSERT INTO t VALUES (0)")
    before = _followers(t_env)
    for name in ("other", "kept"):
        with pytest.raises(SqlEngineError, match="E2102"):
            t_env.execute_sql(f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS SELECT 1 / v AS v FROM t")
    assert _followers(t_env) == before
    t_env.execute_sql("INSERT INTO t VALUES (7)")
    assert sorted(t_env.execute_sql("SELECT v FROM kept")) == [(0,), (7,)]


def test_a_view_whose_input_has_ended_holds_no_thread(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE s (v INT) WITH ('connector' = 'values', 'data' = '{\"v\": 1}')")
    t_env.execute_sql("CREATE MATERIALIZED VIEW a AS SELECT v FROM s")
    t_env.flush()
    (view,) = t_env.session.views.jobs()
    assert view.job.status == "FINISHED" and not view.job._read_ahead.running
    assert list(t_env.execute_sql("SELECT v FROM a")) == [(1,)]


@pytest.mark.parametrize("failing", [None, 0, 1, 2])
def test_sinks_end_once(t_env: TableEnvironment, monkeypatch: pytest.MonkeyPatch, failing: int | None) -> None:
    ends: list[str] = []
    finish, abort = SinkOperator.finish, SinkOperator.abort

    def finishing(self: SinkOperator) -> None:
        if len(ends) == failing:
            ends.append("broken")
            raise OSError("disk full")
        ends.append("committed")
        finish(self)

    def aborting(self: SinkOperator) -> None:
        ends.append("aborted")
        abort(self)

    monkeypatch.setattr(SinkOperator, "finish", finishing)
    monkeypatch.setattr(SinkOperator, "abort", aborting)
    for name in "abc":
        t_env.execute_sql(f"CREATE TABLE {name} (v INT) WITH ('connector' = 'blackhole')")
    inserts = " ".join(f"INSERT INTO {name} SELECT v FROM t;" for name in "abc")
    statement = f"EXECUTE STATEMENT SET BEGIN {inserts} END"
    if failing is None:
        t_env.execute_sql(statement)
        assert ends == ["committed"] * 3
    else:
        with pytest.raises(OSError, match="disk full"):
            t_env.execute_sql(statement)
        assert ends == ["committed"] * failing + ["broken"] + ["aborted"] * (3 - failing)
        assert list(t_env.execute_sql("SELECT status FROM system.jobs")) == [("FAILED",)]


def test_a_statement_that_breaks_a_view_tells_so_once(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE MATERIALIZED VIEW inverse AS SELECT 100 / v AS x FROM t")
    with pytest.warns(SqlEngineWarning, match='view "inverse" has failed: division by zero') as caught:
        result = t_env.execute_sql("INSERT INTO t VALUES (0)")
    assert len(result.warnings) == len(caught) == 1 and "CREATE OR REPLACE" in result.warnings[0]
    assert caught[0].filename == __file__
    assert list(t_env.execute_sql("SELECT v FROM t")) == [(0,)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert t_env.execute_sql("INSERT INTO t VALUES (1)").warnings == ()


def test_waiting_for_all_jobs_goes_on_after_a_failure_that_was_told(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE bad (v INT NOT NULL)")
    t_env.execute_sql("INSERT INTO t VALUES (CAST(NULL AS INT))")
    with pytest.raises(SqlEngineError, match="E2011"):
        t_env.execute_sql("INSERT INTO bad SELECT v FROM t")
    jobs = t_env.session.jobs
    started, goes_on = threading.Event(), threading.Event()

    def run() -> None:
        started.set()
        goes_on.wait(10)

    job = next(iter(jobs.jobs.values())).job
    running = jobs.start("slow", "", job, run)
    assert started.wait(10)
    waiting = threading.Thread(target=jobs.wait_for_all)
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    goes_on.set()
    waiting.join(10)
    assert not waiting.is_alive() and running.done.is_set()


def test_a_job_that_shall_not_run_follows_nothing(t_env: TableEnvironment) -> None:
    """An INSERT into memory whose input has no end is planned twice: the first job lets go of its readers."""
    t_env.session.harness.inserts_follow = True
    t_env.execute_sql("CREATE TABLE target (v INT)")
    t_env.execute_sql("INSERT INTO t VALUES (1)")
    running = t_env.execute_sql("INSERT INTO target SELECT v FROM t").job
    with t_env.execute_sql("SUBSCRIBE TO target").collect() as steps:
        assert next(steps) == (1,)
        assert running is not None and _followers(t_env) == 2
    running.cancel()
    t_env.session.jobs.wait_for_all()
    assert _followers(t_env) == 0
    with pytest.raises(SqlEngineError, match="E1623"):
        t_env.execute_sql("EXPLAIN ANALYZE INSERT INTO target SELECT v FROM t")
    assert _followers(t_env) == 0
