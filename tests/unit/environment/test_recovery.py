"""INSERTs that go on from their checkpoints and savepoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.core.clock import VirtualClock
from runtime.core.errors import ConnectorError, SqlEngineError
from runtime.local.job import Job
from sqlengine import TableEnvironment

NEXMARK = """
CREATE TABLE nexmark (
  event_type INT,
  bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,
    `dateTime` TIMESTAMP(3), extra STRING>,
  person ROW<id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,
    `dateTime` TIMESTAMP(3), extra STRING>,
  auction ROW<id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, `dateTime` TIMESTAMP(3),
    expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING>
) WITH ('connector' = 'nexmark', 'events.num' = '{events}', 'seed' = '7');
CREATE TABLE totals (auction BIGINT, n BIGINT, best BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'debezium-json');
"""
INSERT = "INSERT INTO totals SELECT bid.auction, COUNT(*), MAX(bid.price) FROM nexmark WHERE event_type = 2 GROUP BY bid.auction"


class Stopped(Exception):
    """The process is gone, as far as the job can tell."""


def options(folder: Path, **more: str) -> dict[str, str]:
    return {
        "execution.checkpointing.dir": str(folder / "state"),
        "execution.checkpointing.interval": "1 ms",
        "sqlengine.epoch.max-rows": "100",
        **{key.replace("_", "-"): value for key, value in more.items()},
    }


def environment(
    folder: Path, *, events: int = 2000, out: str = "out", fresh: bool = False, **more: Any
) -> TableEnvironment:
    clock = VirtualClock(1)
    made = TableEnvironment.create({**options(folder), **more}, clock=clock, fresh=fresh)
    made.execute_script(NEXMARK.format(events=events, out=folder / out))

    def tick(job: Job) -> None:
        job.on_epoch = lambda job: clock.advance_to(clock.now() + 10)

    made.session.on_job = tick
    return made


def published(folder: Path) -> list[str]:
    files = [f for f in folder.rglob("*") if f.is_file() and not f.name.startswith((".", "_"))]
    return sorted(line for f in files for line in f.read_text().splitlines())


def stop_after(t_env: TableEnvironment, epochs: int) -> None:
    """Has the next job die between two epochs, leaving everything as it stands."""
    follow = t_env.session.on_job

    def watch(job: Job) -> None:
        assert follow is not None
        follow(job)
        tick = job.on_epoch

        def count(job: Job) -> None:
            assert tick is not None
            tick(job)
            if job.dataflow.epoch >= epochs:
                raise Stopped

        job.on_epoch = count

    t_env.session.on_job = watch


@pytest.fixture
def expected(tmp_path: Path) -> list[str]:
    with environment(tmp_path / "whole") as t_env:
        t_env.execute_sql(INSERT)
    return published(tmp_path / "whole" / "out")


@pytest.mark.parametrize("epochs", [1, 2, 7, 13, 19])
def test_an_insert_goes_on_where_it_stopped(tmp_path: Path, expected: list[str], epochs: int) -> None:
    t_env = environment(tmp_path)
    stop_after(t_env, epochs)
    with pytest.raises(Stopped):
        t_env.execute_sql(INSERT)
    assert published(tmp_path / "out") != expected
    with environment(tmp_path) as again:
        result = again.execute_sql(INSERT)
        assert result.job is not None
        assert (result.job.restored is not None) == (epochs > 1)
    assert published(tmp_path / "out") == expected


def test_a_finished_insert_has_nothing_more_to_do(tmp_path: Path, expected: list[str]) -> None:
    for _ in range(2):
        with environment(tmp_path) as t_env:
            result = t_env.execute_sql(INSERT)
        assert published(tmp_path / "out") == expected
    assert result.summary is not None
    assert "--fresh" in result.summary


def test_fresh_starts_anew(tmp_path: Path, expected: list[str]) -> None:
    with environment(tmp_path) as t_env:
        t_env.execute_sql(INSERT)
    with environment(tmp_path, fresh=True) as t_env:
        t_env.execute_sql(INSERT)
    assert published(tmp_path / "out") == sorted(expected * 2)


def test_two_inserts_into_one_table_have_checkpoints_of_their_own(tmp_path: Path) -> None:
    with environment(tmp_path) as t_env:
        t_env.execute_sql(INSERT)
        t_env.execute_sql(INSERT)
    assert len([f for f in (tmp_path / "state").iterdir() if f.is_dir()]) == 2


def test_a_failing_sink_is_tried_again_from_the_checkpoint(tmp_path: Path, expected: list[str]) -> None:
    strategy = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "0",
        "restart-strategy.fixed-delay.attempts": "2",
    }
    with environment(tmp_path, **strategy) as t_env:
        follow = t_env.session.on_job
        failures = [5, 11]
        notes: list[str] = []

        def watch(job: Job) -> None:
            assert follow is not None
            follow(job)
            job.on_note = notes.append
            step = type(job)._advance

            def advance(**how: Any) -> Any:
                if failures and job.dataflow.epoch == failures[0]:
                    del failures[0]
                    raise ConnectorError("the disk is away")
                return step(job, **how)

            job._advance = advance  # type: ignore[method-assign]

        t_env.session.on_job = watch
        result = t_env.execute_sql(INSERT)
        assert result.job is not None
        assert result.job.attempts == 2
        assert len(notes) == 2
    assert published(tmp_path / "out") == expected


def test_a_savepoint_of_a_running_job_and_another_that_goes_on_from_it(tmp_path: Path, expected: list[str]) -> None:
    with environment(tmp_path) as t_env:
        paths: list[str] = []

        def watch(job: Job) -> None:
            def ask(job: Job) -> None:
                if job.dataflow.epoch == 5:
                    paths.append(str(tmp_path / "saved"))
                    job.savepoint(paths[0], stop=True)

            job.on_epoch = ask

        t_env.session.on_job = watch
        t_env.execute_sql(INSERT)
    first = published(tmp_path / "out")
    with environment(tmp_path / "other", **{"execution.savepoint.path": paths[0]}) as t_env:
        result = t_env.execute_sql(INSERT)
        assert result.job is not None
        assert result.job.restored is not None
        assert result.job.restored.epoch == 6
    assert sorted(first + published(tmp_path / "other" / "out")) == expected


def test_a_path_without_a_savepoint(tmp_path: Path) -> None:
    with (
        environment(tmp_path, **{"execution.savepoint.path": str(tmp_path / "nowhere")}) as t_env,
        pytest.raises(SqlEngineError, match="E3404"),
    ):
        t_env.execute_sql(INSERT)


def test_other_names_of_columns_keep_the_state(tmp_path: Path, expected: list[str]) -> None:
    named = """INSERT INTO totals SELECT {a}, COUNT(*), MAX({p})
        FROM (SELECT bid.auction AS {a}, bid.price AS {p} FROM nexmark WHERE event_type = 2) GROUP BY {a}"""
    t_env = environment(tmp_path)
    stop_after(t_env, 7)
    with pytest.raises(Stopped):
        t_env.execute_sql(named.format(a="a", p="p"))
    with environment(tmp_path) as again:
        result = again.execute_sql(named.format(a="p", p="a"))
        assert result.job is not None
        assert result.job.restored is not None
    assert published(tmp_path / "out") == expected


def test_checkpoints_and_state_are_tables(tmp_path: Path) -> None:
    with environment(tmp_path) as t_env:
        result = t_env.execute_sql(INSERT)
        assert result.job is not None
        (aggregate,) = (v.name for v in result.job.dataflow.vertices if v.name.startswith("GroupAggregate"))
        ((job, status, path),) = t_env.execute_sql("SELECT job, status, path FROM system.checkpoints").collect()
        assert (job, status) == ("job-1", "completed")
        counted = "SELECT COUNT(*) AS n FROM system.state.`{}`.`{}`.groups"
        live = t_env.execute_sql(counted.format("job-1", aggregate)).to_arrow()
        assert live == t_env.execute_sql(counted.format(path, aggregate)).to_arrow()
        (figures,) = t_env.execute_sql(
            f"SELECT kind, rows_in, rows_filtered, state_rows FROM system.operators WHERE operator = '{aggregate}'"
        ).collect()
        assert figures[0] == "GroupAggregate"
        assert live.to_pylist() == [{"n": figures[3]}]
        with pytest.raises(SqlEngineError, match=r"E1202.*did you mean"):
            t_env.execute_sql(f"SELECT * FROM system.state.`job-1`.`{aggregate}`.group")
