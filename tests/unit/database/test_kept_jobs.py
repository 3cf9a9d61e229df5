"""Jobs of a database in a folder: what has become of them when it is opened again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.core.errors import ConnectorError, SqlEngineError
from sqlengine import TableEnvironment
from sqlengine.database.durable import Durable
from sqlengine.database.kept_jobs import KeptCheckpoints
from sqlengine.user_functions.declare import udf
from tests.unit.database.test_lasting import _die, rows

OFTEN = {"execution.checkpointing.interval": "10 ms"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    return tmp_path


def opened(*statements: str, config: dict[str, str] | None = None) -> TableEnvironment:
    t_env = TableEnvironment.create(OFTEN if config is None else config, path="db")
    for statement in statements:
        t_env.execute_sql(statement)
    return t_env


FILES = (
    "CREATE TABLE g (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv', "
    "'source.monitor-interval' = '10 ms')"
)
STORED = "CREATE TABLE s (n BIGINT)"


def come(name: str, *numbers: int) -> None:
    hidden = Path("in", f"_{name}")
    hidden.write_text("".join(f"{n}\n" for n in numbers))
    hidden.rename(Path("in", f"{name}.csv"))


def until(t_env: TableEnvironment, query: str, expected: list[tuple[object, ...]]) -> None:
    """Wait for what a job writes."""
    while rows(t_env, query) != expected:
        failed = [job for job in t_env.session.jobs.jobs.values() if job.failure is not None]
        assert not failed, failed[0].failure


def jobs(t_env: TableEnvironment) -> list[tuple[object, ...]]:
    return rows(t_env, "SELECT job, status, error_code FROM system.jobs WHERE job LIKE 'job%'")


def test_a_job_is_there_again_with_its_name_state_and_options(here: Path) -> None:
    with opened(FILES, "CREATE TABLE k (z STRING PRIMARY KEY NOT ENFORCED, c BIGINT)") as t_env:
        t_env.execute_sql("SET 'table.local-time-zone' = 'Asia/Tokyo'")
        come("a", 0, 0, 1)
        t_env.execute_sql(
            "INSERT INTO k SELECT z, COUNT(*) FROM (SELECT CAST(TO_TIMESTAMP_LTZ(n, 3) AS STRING) AS z FROM g) GROUP BY z"
        )
        until(t_env, "SELECT c FROM k", [(1,), (2,)])
    come("b", 0)
    with opened() as t_env:
        until(t_env, "SELECT c FROM k", [(1,), (3,)])
        assert ("1970-01-01 09:00:00.000", 3) in rows(t_env, "SELECT * FROM k")
        assert jobs(t_env) == [("job-1", "RUNNING", None)]
        t_env.execute_sql("INSERT INTO k SELECT * FROM (VALUES ('x', CAST(9 AS BIGINT))) AS v(z, c)")
        names = [job for job, _, _ in jobs(t_env)]
        assert len(names) == len(set(names)) == 2


def test_what_is_stopped_stays_ended(here: Path) -> None:
    with opened(FILES, STORED, "INSERT INTO s SELECT n FROM g", "INSERT INTO s SELECT n + 100 FROM g") as t_env:
        come("a", 1)
        until(t_env, "SELECT n FROM s", [(1,), (101,)])
        t_env.execute_sql("STOP JOB 'job-1'")
    come("b", 2)
    with opened() as t_env:
        assert jobs(t_env) == [("job-2", "RUNNING", None)]
        until(t_env, "SELECT n FROM s", [(1,), (101,), (102,)])
        assert [path.name for path in Path("db", "jobs").iterdir()] == ["job-2"]


def test_what_was_not_committed_is_read_again(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that the log does not name counts no more than one that was not written."""
    t_env = opened(FILES, STORED, "INSERT INTO s SELECT n FROM g")
    come("a", 1)
    until(t_env, "SELECT n FROM s", [(1,)])
    commit = Durable.commit

    def fails(self: Durable, definitions: Any = None) -> None:
        if definitions:
            _die(t_env)
        commit(self, definitions)

    monkeypatch.setattr(Durable, "commit", fails)
    come("b", 2)
    with pytest.raises(SqlEngineError, match="is closed"):
        t_env.session.jobs.jobs["job-1"].wait()
    monkeypatch.undo()
    monkeypatch.chdir(here)
    newest = max(int(path.name.removeprefix("chk-")) for path in Path("db", "jobs", "job-1").glob("chk-*"))
    with opened() as t_env:
        assert int(t_env.session.durable.definitions["checkpoint", "job-1"].text) < newest  # type: ignore[union-attr]
        until(t_env, "SELECT n FROM s", [(1,), (2,)])
    come("c", 3)
    with opened() as t_env:
        until(t_env, "SELECT n FROM s", [(1,), (2,), (3,)])


def test_a_checkpoint_that_is_damaged_is_told_and_nothing_is_doubled(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(FILES, STORED, "INSERT INTO s SELECT n FROM g") as t_env:
        come("a", 1)
        until(t_env, "SELECT n FROM s", [(1,)])
    newest = max(Path("db", "jobs", "job-1").glob("chk-*/manifest.json"), key=lambda p: int(p.parent.name[4:]))
    newest.write_bytes(newest.read_bytes()[:-5])
    told: list[str] = []
    monkeypatch.setattr("sqlengine.statements.lasting_jobs.tell", told.append)
    with opened() as t_env:
        assert told == [told[0]] and told[0].startswith("job-1 is kept, but could not go on: E3402")
        assert jobs(t_env) == [("job-1", "FAILED", "E3402")]
        assert rows(t_env, "SELECT n FROM s") == [(1,)]
        t_env.execute_sql("STOP JOB 'job-1'")
        assert jobs(t_env) == []
    with opened() as t_env:
        assert jobs(t_env) == []


def test_a_job_that_has_failed_says_so_and_goes_on_when_it_is_begun_again(here: Path) -> None:
    insert = "INSERT INTO s SELECT 10 / n FROM g"
    config = {**OFTEN, "restart-strategy.type": "none"}
    with opened(FILES, STORED, insert, config=config) as t_env:
        come("a", 1)
        until(t_env, "SELECT n FROM s", [(10,)])
        come("b", 0)
        with pytest.raises(SqlEngineError):
            t_env.session.jobs.jobs["job-1"].wait()
        (before,) = jobs(t_env)
        assert before[:2] == ("job-1", "FAILED")
    with opened() as t_env:
        assert jobs(t_env) == [before]
        assert rows(t_env, "SELECT error FROM system.jobs") != [(None,)]
        come("b", 5)
        t_env.execute_sql(insert)
        until(t_env, "SELECT n FROM s", [(10,), (2,)])
        assert jobs(t_env) == [("job-1", "RUNNING", None)]
    with opened() as t_env:
        assert jobs(t_env) == [("job-1", "RUNNING", None)]


@pytest.mark.filterwarnings("ignore:job-. ends with the process")
def test_jobs_that_cannot_be_made_again_say_so(here: Path) -> None:
    with opened(FILES, STORED) as t_env:
        t_env.create_temporary_function("mine", udf(lambda x: x, result_type="BIGINT"))
        t_env.execute_sql("CREATE TEMPORARY TABLE t (n BIGINT)")
        for insert, why in (
            ("INSERT INTO s SELECT mine(n) FROM g", "it reads the function MINE"),
            ("INSERT INTO t SELECT n FROM g", 'it writes to the temporary table "t"'),
            (
                "INSERT INTO s SELECT g.n FROM g JOIN system.jobs AS j ON g.n = j.epochs",
                "which is no table of the database",
            ),
        ):
            (warning,) = t_env.execute_sql(insert).warnings
            assert "ends with the process" in warning and why in warning
    with opened() as t_env:
        assert jobs(t_env) == []


def test_a_table_made_from_a_stream_goes_on(here: Path) -> None:
    with opened(FILES) as t_env:
        come("a", 1)
        t_env.execute_sql("CREATE TABLE made AS SELECT n AS m FROM g")
        until(t_env, "SELECT m FROM made", [(1,)])
    come("b", 2)
    with opened() as t_env:
        until(t_env, "SELECT m FROM made", [(1,), (2,)])


def test_a_backup_has_no_jobs(here: Path) -> None:
    with opened(FILES, STORED, "INSERT INTO s SELECT n FROM g") as t_env:
        come("a", 1)
        until(t_env, "SELECT n FROM s", [(1,)])
        t_env.execute_sql("BACKUP TO 'saved'")
    with TableEnvironment.create(path="saved") as t_env:
        assert jobs(t_env) == [] and rows(t_env, "SELECT n FROM s") == [(1,)]


def test_a_job_that_starts_again_in_the_same_process_counts_each_row_once(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {**OFTEN, "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"}
    after_epoch = KeptCheckpoints.after_epoch
    failures: list[int] = []

    def fails(self: KeptCheckpoints, job: Any) -> None:
        after_epoch(self, job)
        if job.dataflow.sinks()[0].rows_written and len(failures) < 3:
            failures.append(1)
            raise ConnectorError("nobody is there", code="E3101")

    monkeypatch.setattr(KeptCheckpoints, "after_epoch", fails)
    config["restart-strategy.fixed-delay.attempts"] = "5"
    with opened(FILES, STORED, "CREATE MATERIALIZED VIEW m AS SELECT COUNT(*) AS c FROM s", config=config) as t_env:
        t_env.execute_sql("INSERT INTO s SELECT n FROM g")
        come("a", 1)
        until(t_env, "SELECT * FROM m", [(1,)])
        come("b", 2, 3)
        until(t_env, "SELECT * FROM m", [(3,)])
        come("c", 4)
        until(t_env, "SELECT n FROM s", [(1,), (2,), (3,), (4,)])
        assert len(failures) == 3
    with opened() as t_env:
        assert rows(t_env, "SELECT n FROM s") == [(1,), (2,), (3,), (4,)]
        assert rows(t_env, "SELECT * FROM m") == [(4,)]
