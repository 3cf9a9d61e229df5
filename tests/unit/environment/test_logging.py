"""The log: what it tells of jobs, checkpoints, views and rejected rows, at which level, and what it never tells."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.core.errors import ConnectorError
from runtime.core.logs import FACTS, LOGGERS, Log, connector_log
from runtime.local.job import Job
from sqlengine import SqlEngineError, TableEnvironment

ROOT = Path(__file__).parents[3]


def told(caplog: pytest.LogCaptureFixture, logger: str) -> list[tuple[str, str]]:
    """Level and text of what a logger was given."""
    return [(r.levelname, r.getMessage()) for r in caplog.records if r.name == f"sqlengine.{logger}"]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "sqlengine")
    return caplog


def filled(tmp_path: Path, text: str, options: dict[str, str] | None = None) -> TableEnvironment:
    """An environment with a table of two columns over a file, and one that takes them."""
    (tmp_path / "in").mkdir(exist_ok=True)
    (tmp_path / "in" / "a.csv").write_text(text)
    env = TableEnvironment.create(options)
    env.execute_script(
        f"""CREATE TABLE source (k STRING, n INT) WITH (
              'connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'csv', 'csv.ignore-parse-errors' = 'false');
            CREATE TABLE sink (k STRING, n INT) WITH (
              'connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'csv')"""
    )
    return env


def test_the_life_of_a_job(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    with filled(tmp_path, "a,1\nb,2\n") as env:
        env.execute_sql("INSERT INTO sink SELECT * FROM source").wait()
    jobs = told(log, "jobs")
    assert [text for level, text in jobs if level == "INFO"] == [
        f"job-1 is {s}" for s in ("CREATED", "RUNNING", "FINISHED")
    ]
    assert ("DEBUG", "job-1 runs INSERT INTO sink SELECT * FROM source") in jobs
    assert any(re.fullmatch(r"job-1: epoch 1 took [\d.]+ s", text) for level, text in jobs if level == "DEBUG")
    ended = next(r for r in log.records if r.getMessage() == "job-1 is FINISHED")
    assert (ended.job, ended.status, ended.epoch) == (
        "job-1",
        "FINISHED",
        env.session.jobs.get("job-1").job.dataflow.epoch,
    )  # type: ignore[attr-defined]
    splits = [text for _, text in told(log, "connectors" + ".filesystem")]
    assert any(text.endswith("a.csv begun") for text in splits) and any(text.endswith("a.csv ended") for text in splits)
    assert any(text.endswith("commit 1") for text in splits)


def test_checkpoints_and_what_a_job_goes_on_from(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    options = {"execution.checkpointing.dir": str(tmp_path / "state")}
    for text in ("a,1\n", "a,1\n"):
        with filled(tmp_path, text, options) as env:
            env.execute_sql("INSERT INTO sink SELECT * FROM source").wait()
    texts = told(log, "checkpoint")
    complete = [r for r in log.records if "is complete" in r.getMessage()]
    assert [r.levelname for r in complete] == ["INFO"] and complete[0].bytes > 0  # type: ignore[attr-defined]
    assert complete[0].job == "job-1" and complete[0].seconds >= 0 and "chk-1" in complete[0].path  # type: ignore[attr-defined]
    assert any(level == "DEBUG" and "begun after epoch" in text for level, text in texts)
    assert any(level == "INFO" and "job-1 goes on after epoch" in text for level, text in texts)


def test_a_damaged_checkpoint_is_a_warning(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    options = {"execution.checkpointing.dir": str(tmp_path / "state")}
    with filled(tmp_path, "a,1\n", options) as env:
        env.execute_sql("INSERT INTO sink SELECT * FROM source").wait()
    (manifest,) = (tmp_path / "state").rglob("manifest.json")
    manifest.write_text("{}")
    with filled(tmp_path, "a,1\n", options) as env, pytest.raises(SqlEngineError, match="E3402"):
        env.execute_sql("INSERT INTO sink SELECT * FROM source")
    (record,) = [r for r in log.records if r.name == "sqlengine.checkpoint" and r.levelname == "WARNING"]
    assert (record.code, record.checkpoint) == ("E3402", 1)  # type: ignore[attr-defined]


def test_a_checkpoint_that_fails_is_a_warning_and_the_job_an_error(
    tmp_path: Path, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"execution.checkpointing.dir": str(tmp_path / "state"), "restart-strategy.type": "none"}
    with filled(tmp_path, "a,1\n", options) as env:

        def full(*args: object) -> None:
            raise OSError("No space left on device")

        monkeypatch.setattr("runtime.checkpoint.image.ImageWriter.write", full)
        with pytest.raises(SqlEngineError, match="E3401"):
            env.execute_sql("INSERT INTO sink SELECT * FROM source").wait()
    assert [level for level, text in told(log, "checkpoint") if "a checkpoint has failed: E3401" in text] == ["WARNING"]
    assert [level for level, text in told(log, "jobs") if text.startswith("job-1 has failed: E3401")] == ["ERROR"]


def test_a_restart_is_a_warning(tmp_path: Path, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    advance, left = Job._advance, [1]

    def failing(job: Job, *, waiting_only: bool) -> object:
        if left.pop() if left else 0:
            raise ConnectorError("the broker has gone: sasl.password=hunter2", code="E3131")
        return advance(job, waiting_only=waiting_only)

    monkeypatch.setattr(Job, "_advance", failing)
    options = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"}
    with filled(tmp_path, "a,1\n", options) as env:
        env.execute_sql("INSERT INTO sink SELECT * FROM source").wait()
    (record,) = [r for r in log.records if r.levelname == "WARNING"]
    assert (record.name, record.code, record.status) == ("sqlengine.jobs", "E3131", "RESTARTING")  # type: ignore[attr-defined]
    assert "starts again in" in record.getMessage() and "hunter2" not in record.getMessage()
    statuses = [r.status for r in log.records if r.name == "sqlengine.jobs" and hasattr(r, "status")]
    assert statuses == ["CREATED", "RUNNING", "RESTARTING", "RUNNING", "FINISHED"]


def test_rejected_rows_are_counted_and_never_shown(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    bad = "".join(f"b,secret{i}\n" for i in range(30))
    with filled(tmp_path, "a,1\n" + bad) as env:
        env.execute_sql("ALTER TABLE source SET ('csv.ignore-parse-errors' = 'true')")
        env.execute_sql("INSERT INTO sink SELECT * FROM source").wait()
        rejected = env.session.rejected.total
    warned = [r for r in log.records if r.name == "sqlengine.rejected" and r.levelname == "WARNING"]
    assert rejected == sum(r.rows for r in warned) == 30 and not any("secret" in r.getMessage() for r in log.records)  # type: ignore[attr-defined]


def test_many_rejections_are_few_warnings(log: pytest.LogCaptureFixture) -> None:
    env = TableEnvironment.create()
    for _ in range(1_000):
        env.session.rejected.count("job-1", "Scan", "late", 1)
    warned = [r.rows for r in log.records if r.levelname == "WARNING"]  # type: ignore[attr-defined]
    assert warned == [1, 10, 100, 1_000]


def test_the_life_of_a_view(log: pytest.LogCaptureFixture) -> None:
    with TableEnvironment.create() as env:
        env.execute_script(
            """CREATE TABLE t (s STRING); CREATE MATERIALIZED VIEW v AS SELECT CAST(s AS INT) AS n FROM t;
               CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT CAST(s AS BIGINT) AS n FROM t"""
        )
        with pytest.warns(UserWarning, match="materialized view"):
            env.execute_sql("INSERT INTO t VALUES ('x')")
    path = "default_catalog.default_database.v"
    assert told(log, "views") == [
        ("INFO", f"{path} is made"),
        ("INFO", f"{path} is replaced"),
        ("ERROR", f"{path} is no longer kept: E2101 cannot cast 'x' from STRING to BIGINT"),
        ("INFO", f"{path} is no longer kept"),
    ]


def test_a_query_that_fails_is_no_error_of_the_log(log: pytest.LogCaptureFixture) -> None:
    with TableEnvironment.create() as env, pytest.raises(SqlEngineError):
        env.execute_sql("SELECT CAST(s AS INT) AS n FROM (VALUES ('x'), ('y')) AS t(s)").to_arrow()
    assert not [r for r in log.records if r.levelno > logging.INFO]
    assert any("has failed: E2101" in r.getMessage() and r.levelname == "INFO" for r in log.records)


def test_an_unexpected_failure_tells_its_traceback_to_those_who_debug(log: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("mysql://root:hunter2@host/db")
    except ValueError as error:
        Log("jobs").failure("job-1 has failed", error, job="job-1")
    first, second = log.records
    assert first.levelname == "ERROR" and first.getMessage().startswith("job-1 has failed: E9100 ValueError")
    assert second.levelname == "DEBUG" and "Traceback" in second.getMessage()
    assert not any("hunter2" in r.getMessage() for r in log.records)


@pytest.mark.parametrize(
    "set_up", ["", "import logging; logging.basicConfig(level='ERROR', format='LOGGED %(name)s');"]
)
def test_who_sets_up_nothing_hears_of_a_lost_failure_and_of_nothing_else(set_up: str) -> None:
    program = f"""{set_up}
import sqlengine
with sqlengine.TableEnvironment.create() as env:
    made = env.create_input("texts", {{"s": "STRING"}})
    env.execute_sql("CREATE TABLE sink (n INT) WITH ('connector' = 'blackhole')")
    env.execute_sql("INSERT INTO sink SELECT CAST(s AS INT) FROM texts")
    (running,) = env.session.jobs.jobs.values()
    made.push_row("x")
    running.thread.join()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert lines == (
        ["LOGGED sqlengine.jobs"] if set_up else ["job-1 has failed: E2101 cannot cast 'x' from STRING to INT"]
    )


def test_the_page_names_all_loggers_and_facts() -> None:
    page = (ROOT / "docs" / "observability.md").read_text()
    named = re.findall(r"^\| `sqlengine\.(\w+)(?:\.<connector>)?` \|", page, re.MULTILINE)
    assert sorted(named) == sorted(LOGGERS)
    (facts,) = re.findall(r"\(`extra`\), for formatters that write JSON: (.*)\.$", page, re.MULTILINE)
    assert re.findall(r"`(\w+)`", facts) and set(re.findall(r"`(\w+)`", facts)) == set(FACTS)


@pytest.mark.parametrize(
    ("module", "folder"),
    [
        ("connectors.filesystem.table", "filesystem"),
        ("sqlengine.connectors.kafka.reader", "kafka"),
        ("redis_for_sql.tables", "redis_for_sql"),
        ("connectors", "connectors"),
    ],
)
def test_the_logger_of_a_connector_is_its_folder_whatever_the_package(
    module: str, folder: str, log: pytest.LogCaptureFixture
) -> None:
    connector_log(module).info("here")
    # The name of the logger, which is no module's and stays in a wheel.
    assert told(log, "connectors" + f".{folder}") == [("INFO", "here")]


def test_a_file_that_cannot_be_read_is_a_warning(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.parquet").write_bytes(b"PAR1 no")
    with TableEnvironment.create() as env:
        env.execute_script(
            f"""CREATE TABLE source (n INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in',
                  'format' = 'parquet', 'source.bad-files' = 'skip');
                CREATE TABLE b (n INT) WITH ('connector' = 'blackhole')"""
        )
        env.execute_sql("INSERT INTO b SELECT * FROM source").wait()
    (record,) = [r for r in log.records if r.name == "sqlengine.connectors.filesystem" and r.levelname == "WARNING"]
    assert "a.parquet" in record.path and record.code.startswith("E3")  # type: ignore[attr-defined]
