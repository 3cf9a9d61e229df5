"""Jobs in the background that fail, or start again: who is told, what, and how often."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.core.clock import VirtualClock
from runtime.core.errors import ConnectorError
from runtime.local.job import Job
from sqlengine import SqlEngineError, TableEnvironment
from sqlengine.api.pushed_input import Input

ERROR = "SELECT job, status, restarts, error_code, error, failed_at FROM system.jobs WHERE error_code IS NOT NULL"


@pytest.fixture
def env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create(clock=VirtualClock(5_000)) as made:
        made.create_input("texts", {"s": "STRING"})
        made.execute_sql("CREATE TABLE sink (n INT) WITH ('connector' = 'blackhole')")
        yield made


def failed(env: TableEnvironment) -> None:
    """A job that has failed, of which nobody waits."""
    result = env.execute_sql("INSERT INTO sink SELECT CAST(s AS INT) FROM texts")
    texts = env.session.inputs
    assert result.job is not None
    del result
    (pushed,) = texts.values()
    Input(pushed).push_row("x")
    (running,) = env.session.jobs.jobs.values()
    assert running.thread is not None
    running.thread.join(30)


def test_a_failure_that_nobody_waits_for_is_logged_once(
    env: TableEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "sqlengine"):
        failed(env)
        env.execute_sql("SELECT 1 AS a").to_arrow()
    (record,) = caplog.records
    assert record.getMessage().startswith("job-1 has failed: E2101 ") and "Traceback" not in record.getMessage()


def test_a_failure_that_is_raised_is_logged_and_not_told(
    env: TableEnvironment, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr("sqlengine.database.jobs.tell", told.append)
    result = env.execute_sql("INSERT INTO sink SELECT CAST(s AS INT) FROM texts")
    (running,) = env.session.jobs.jobs.values()
    running.awaited = True  # as if `wait` had begun before the failure, on another thread
    (pushed,) = env.session.inputs.values()
    Input(pushed).push_row("x")
    with pytest.raises(SqlEngineError, match="E2101"):
        result.wait(30)
    assert [(r.name, r.levelname) for r in caplog.records] == [("sqlengine.jobs", "ERROR")]
    assert told == []


def test_a_failed_job_says_why_in_system_jobs(env: TableEnvironment, caplog: pytest.LogCaptureFixture) -> None:
    failed(env)
    (row,) = env.execute_sql(ERROR)
    assert row[:4] == ("job-1", "FAILED", 0, "E2101") and "'x'" in row.error
    assert row.failed_at == dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.UTC)
    with pytest.raises(SqlEngineError, match="E2101"):
        env.session.jobs.get("job-1").wait()


def test_a_view_that_fails_says_why_in_system_jobs(env: TableEnvironment) -> None:
    env.execute_script("CREATE TABLE t (s STRING); CREATE MATERIALIZED VIEW v AS SELECT CAST(s AS INT) AS n FROM t")
    with pytest.warns(UserWarning, match="materialized view"):
        env.execute_sql("INSERT INTO t VALUES ('x')")
    (row,) = env.execute_sql(ERROR)
    assert row[:4] == ("view v", "FAILED", 0, "E2101") and "'x'" in row.error and row.failed_at is not None


def test_a_view_over_a_connector_that_fails_is_logged_once(
    env: TableEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever sees it first, the reader of the source or FLUSH, which raises it."""
    told: list[SqlEngineError] = []
    env.session.views.on_failed = told.append
    env.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT CAST(s AS INT) AS n FROM texts")
    (pushed,) = env.session.inputs.values()
    Input(pushed).push_row("x")
    with pytest.raises(SqlEngineError, match="E1713"):
        env.flush()
    with pytest.raises(SqlEngineError, match="E1713"):
        env.execute_sql("SELECT * FROM v").to_arrow()
    assert [(r.name, getattr(r, "code", None)) for r in caplog.records if r.levelname == "ERROR"] == [
        ("sqlengine.jobs", "E2101"),
        ("sqlengine.views", "E2101"),
    ]
    assert "cannot cast 'x'" in caplog.text
    assert len(told) <= 1 and all(e.code == "E1713" and "'x'" in e.message for e in told)


def test_a_job_that_starts_again_shows_how_often_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in.csv").write_text("1\n2\n3\n")
    advance = Job._advance
    left = [2]

    def failing(job: Job, *, waiting_only: bool) -> object:
        if left[0]:
            left[0] -= 1
            raise ConnectorError("the broker has gone", code="E3131")
        return advance(job, waiting_only=waiting_only)

    monkeypatch.setattr(Job, "_advance", failing)
    options = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "3"}
    with TableEnvironment.create({**options, "restart-strategy.fixed-delay.delay": "1 ms"}) as env:
        env.execute_script(
            f"CREATE TABLE i (n INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in.csv', 'format' = 'csv');"
            f"CREATE TABLE o (n INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'csv')"
        )
        env.execute_sql("INSERT INTO o SELECT n FROM i")
        (row,) = env.execute_sql("SELECT status, restarts, error_code, error FROM system.jobs")
        assert tuple(row) == ("FINISHED", 2, "E3131", "the broker has gone")
