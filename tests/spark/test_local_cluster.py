"""Long-lived tasks in executors of their own (`local-cluster`): an executor is killed with all that it has."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runtime.local.job import Job
from runtime.spark.continuous import continuous_of
from runtime.spark.session import spark_session
from tests.spark.test_simulated import Stopped, published
from tests.spark.watched import QUERY, ROWS, Watched, answer, environment

EXECUTORS = int(os.environ.get("SPARK_EXECUTORS", "2"))


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    os.environ["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", __import__("sys").executable)
    session = spark_session(f"local-cluster[{EXECUTORS},1,1024]", {"spark.executor.memory": "600m"})
    context = session.sparkContext
    # Executors come one after another; a barrier waits for all. Spark counts its jobs as done when their events have passed.
    context.parallelize(range(EXECUTORS), EXECUTORS).barrier().mapPartitions(list).collect()
    context._jsc.sc().listenerBus().waitUntilEmpty()
    yield session
    session.stop()


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_an_executor_is_killed(spark: Any, tmp_path: Path) -> None:
    """Only what is lost is opened from files, and what is written follows what changes."""
    expected = answer(environment())
    crews = continuous_of(spark.sparkContext)
    options = {"parallelism.default": str(EXECUTORS), "sqlengine.spark.state-dir": str(tmp_path)}
    t_env = environment(spark, **options)
    watched = Watched(t_env, crews)
    assert answer(t_env) == expected
    # A busy machine may cost a crew, whose tasks are cold again, and phases without one; a crew for each epoch would be many.
    assert 1 <= crews.gathered <= 2
    assert 0 < watched.cold_in_crews <= 2 * EXECUTORS * crews.gathered
    assert crews.phases > ROWS // 400
    quiet = sum(r.bytes for r in watched.reports)

    def kill() -> None:
        # A task's process is a child of the executor's daemon.
        os.kill(parent(parent(crews.pids[0])), signal.SIGKILL)

    t_env = environment(spark, **options)
    watched = Watched(t_env, crews, epoch6=kill)
    assert answer(t_env) == expected
    assert watched.cold <= 6 * EXECUTORS
    assert sum(r.bytes for r in watched.reports) < 1.5 * quiet


def test_tasks_are_killed_while_checkpoints_are_written(spark: Any, tmp_path: Path) -> None:
    """SPARK_FAULTS times, each behind an epoch by chance; the job then goes on from its last checkpoint once more."""
    sizes = {"killed": int(os.environ.get("SPARK_FAULTS", "1")), "here": 0}
    chance = random.Random(int(os.environ.get("FAULT_SEED", "1")))
    crews = continuous_of(spark.sparkContext)
    for name, kills in sizes.items():
        epochs = sorted(chance.sample(range(2, 18), min(16, kills)))
        for last in (9, 20) if kills else (20,):
            options = {
                "execution.checkpointing.dir": str(tmp_path / name / "state"),
                "execution.checkpointing.interval": "1 ms",
                "parallelism.default": str(EXECUTORS),
            }
            t_env = environment(spark if kills else None, **options)
            t_env.execute_sql(
                f"""CREATE TABLE told (k BIGINT, n BIGINT, s BIGINT)
                WITH ('connector' = 'filesystem', 'path' = '{tmp_path / name / "told"}', 'format' = 'debezium-json')"""
            )

            def on_epoch(job: Job, last: int = last, epochs: list[int] = epochs) -> None:
                while epochs and epochs[0] <= job.dataflow.epoch:
                    epochs.pop(0)
                    if crews.pids:
                        os.kill(chance.choice(crews.pids), signal.SIGKILL)
                if job.dataflow.epoch == last < 20:
                    raise Stopped

            def on_job(job: Job, on_epoch: Any = on_epoch) -> None:
                job.on_epoch = on_epoch

            t_env.session.on_job = on_job
            with suppress(Stopped):
                t_env.execute_sql(f"INSERT INTO told {QUERY}").wait()
    assert published(tmp_path / "killed", "told") == published(tmp_path / "here", "told") != []
