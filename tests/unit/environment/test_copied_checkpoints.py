"""Of a folder of checkpoints and its copy one goes on: rows never come twice, and none is lost. On either runtime."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import test_recovery
from test_recovery import INSERT, Stopped, expected, published, stop_after

from runtime.core.errors import CheckpointError, FencedError
from runtime.local.job import Job
from runtime.spark.simulated import SimulatedCluster
from runtime.tasks.divided import divided_dataflow
from sqlengine import TableEnvironment
from sqlengine.database.targets import JobTarget

__all__ = ["expected"]
DIR = "execution.checkpointing.dir"
TAKE_OVER = {"sqlengine.restore.take-over": "true"}
ROWS = "sqlengine.spark.write-in-tasks.min-rows"
KEPT = """CREATE TABLE kept (auction BIGINT, price BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv')"""
BIDS = "SELECT bid.auction, bid.price FROM nexmark WHERE event_type = {kind}"


@pytest.fixture(params=["embedded", "spark"], autouse=True)
def runtime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the jobs run. On Spark tasks write some rows and the driver others."""
    if request.param == "spark":
        made = partial(divided_dataflow, executor=SimulatedCluster(7))
        monkeypatch.setattr(JobTarget, "dataflow", lambda *_: made)


def environment(folder: Path, **more: str) -> TableEnvironment:
    return test_recovery.environment(folder, **{ROWS: "20", **more})


def stopped(folder: Path, epochs: int) -> None:
    """A job that died."""
    t_env = environment(folder)
    stop_after(t_env, epochs)
    with pytest.raises(Stopped):
        t_env.execute_sql(INSERT)
    t_env.close()


def copied(folder: Path) -> dict[str, str]:
    """The option by which a job goes on from a copy of the checkpoints."""
    shutil.copytree(folder / "state", folder / "copy")
    return {DIR: str(folder / "copy")}


def at_epoch(t_env: TableEnvironment, epoch: int, then: Callable[[], None]) -> None:
    """Has the next job of a session save after an epoch, and wait while something else is done."""
    follow = t_env.session.on_job

    def watch(job: Job) -> None:
        assert follow is not None
        follow(job)
        tick = job.on_epoch

        def look(job: Job) -> None:
            assert tick is not None
            tick(job)
            if job.dataflow.epoch == epoch:
                assert job.checkpoints is not None
                job.checkpoints.now(job)
                then()

        job.on_epoch = look

    t_env.session.on_job = watch


def refused(folder: Path, **more: str) -> str:
    with environment(folder, **more) as t_env, pytest.raises(FencedError) as caught:
        t_env.execute_sql(INSERT)
    assert caught.value.code == "E3413"
    return str(caught.value)


@pytest.mark.parametrize("epochs", [3, 11])
def test_a_copy_is_refused_after_the_others_rows(tmp_path: Path, expected: list[str], epochs: int) -> None:
    stopped(tmp_path, epochs)
    copy = copied(tmp_path)
    with environment(tmp_path) as t_env:
        t_env.execute_sql(INSERT)
    assert published(tmp_path / "out") == expected
    message = refused(tmp_path, **copy)
    assert str(tmp_path / "state") in message and str(tmp_path / "copy") in message and "take-over" in message
    assert published(tmp_path / "out") == expected


@pytest.mark.parametrize("epochs", [3, 11])
def test_a_copy_that_goes_on_first_is_the_one(tmp_path: Path, expected: list[str], epochs: int) -> None:
    stopped(tmp_path, epochs)
    copy = copied(tmp_path)
    with environment(tmp_path, **copy) as t_env:
        t_env.execute_sql(INSERT)
    assert published(tmp_path / "out") == expected
    refused(tmp_path)
    assert published(tmp_path / "out") == expected
    with environment(tmp_path, **copy) as t_env:
        t_env.execute_sql(INSERT)
    assert published(tmp_path / "out") == expected


def test_checkpoints_may_be_moved(tmp_path: Path, expected: list[str]) -> None:
    stopped(tmp_path, 7)
    (tmp_path / "state").rename(tmp_path / "moved")
    with environment(tmp_path, **{DIR: str(tmp_path / "moved")}) as t_env:
        t_env.execute_sql(INSERT)
    assert published(tmp_path / "out") == expected


@pytest.mark.parametrize("epoch", [4, 9])
def test_a_run_that_was_overtaken_shows_nothing_more(tmp_path: Path, expected: list[str], epoch: int) -> None:
    """The first run sleeps while its copy goes on to the end."""

    def overtake() -> None:
        with environment(tmp_path, **copied(tmp_path)) as other:
            other.execute_sql(INSERT)

    with environment(tmp_path) as t_env:
        at_epoch(t_env, epoch, overtake)
        with pytest.raises(FencedError, match="belongs to another run now"):
            t_env.execute_sql(INSERT)
    assert published(tmp_path / "out") == expected
    refused(tmp_path)


def test_who_takes_over_takes_back(tmp_path: Path, expected: list[str]) -> None:
    stopped(tmp_path, 5)
    copy = copied(tmp_path)
    with environment(tmp_path) as t_env:
        t_env.execute_sql(INSERT)
    with environment(tmp_path, **copy, **TAKE_OVER) as t_env:
        t_env.execute_sql(INSERT)
    assert published(tmp_path / "out") == expected


def test_one_folder_goes_back_without_being_asked(tmp_path: Path, expected: list[str]) -> None:
    retained = {"execution.checkpointing.num-retained": "3"}
    t_env = environment(tmp_path, **retained)
    stop_after(t_env, 9)
    for epoch in (5, 8):
        at_epoch(t_env, epoch, lambda: None)
    with pytest.raises(Stopped):
        t_env.execute_sql(INSERT)
    t_env.close()
    newest = max((tmp_path / "state").glob("*/chk-*"), key=lambda path: int(path.name[4:]))
    (newest / "manifest.json").write_bytes(b"damaged")
    with environment(tmp_path, **retained) as t_env:
        t_env.execute_sql(INSERT)
    assert published(tmp_path / "out") == expected


def test_two_jobs_of_a_process_cannot_share_a_folder(tmp_path: Path, expected: list[str]) -> None:
    found: list[str] = []

    def try_it() -> None:
        with environment(tmp_path) as other, pytest.raises(CheckpointError) as caught:
            other.execute_sql(INSERT)
        found.append(caught.value.code)

    with environment(tmp_path) as t_env:
        at_epoch(t_env, 6, try_it)
        t_env.execute_sql(INSERT)
    assert found == ["E3405"]
    assert published(tmp_path / "out") == expected


# --- INSERT OVERWRITE


def overwriting(folder: Path, kind: int, **more: str) -> tuple[TableEnvironment, str]:
    """A session, and its statement: of events of this kind."""
    t_env = environment(folder, **more)
    t_env.execute_sql(KEPT.format(out=folder / "kept"))
    return t_env, f"INSERT OVERWRITE kept {BIDS.format(kind=kind)}"


def overwritten(folder: Path, kind: int = 2, **more: str) -> list[str]:
    t_env, statement = overwriting(folder, kind, **more)
    with t_env:
        t_env.execute_sql(statement)
    return published(folder / "kept")


def test_a_copy_does_not_overwrite_again(tmp_path: Path) -> None:
    whole = overwritten(tmp_path / "whole")
    assert len(whole) > 1000
    t_env, statement = overwriting(tmp_path, 2)
    stop_after(t_env, 7)
    with pytest.raises(Stopped):
        t_env.execute_sql(statement)
    t_env.close()
    copy = copied(tmp_path)
    assert overwritten(tmp_path) == whole
    with pytest.raises(FencedError, match="take-over"):
        overwritten(tmp_path, **copy)
    assert published(tmp_path / "kept") == whole
    assert overwritten(tmp_path, **copy, **TAKE_OVER) == whole


@pytest.mark.parametrize("kind", [2, 99])
def test_a_run_that_was_overtaken_overwrites_nothing(tmp_path: Path, kind: int) -> None:
    """With rows of its own, and without: what came meanwhile stays."""
    found: list[str] = []

    def overtake() -> None:
        overwritten(tmp_path, kind, **copied(tmp_path))
        with environment(tmp_path, **{DIR: ""}) as other:
            other.execute_sql(KEPT.format(out=tmp_path / "kept"))
            other.execute_sql("INSERT INTO kept VALUES (1, 2)")
        found.extend(published(tmp_path / "kept"))

    t_env, statement = overwriting(tmp_path, kind)
    with t_env:
        at_epoch(t_env, 9, overtake)
        with pytest.raises(FencedError, match="belongs to another run now"):
            t_env.execute_sql(statement)
    assert "1,2" in found and published(tmp_path / "kept") == found
    assert len(found) > 1000 or kind == 99
