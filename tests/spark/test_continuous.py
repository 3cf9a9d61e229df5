"""Long-lived tasks on a real Spark: what they cost, and what becomes of the job when they go."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.core.errors import SparkError
from runtime.spark.continuous import Continuous, continuous_of
from runtime.spark.session import spark_session
from tests.spark.watched import QUERY, ROWS, Watched, answer, environment


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    session = spark_session("local[2]")
    yield session
    session.stop()


@pytest.fixture
def crews(spark: Any) -> Continuous:
    return continuous_of(spark.sparkContext)


@pytest.fixture(scope="module")
def expected() -> list[tuple[int, ...]]:
    return answer(environment())


def test_no_task_is_cold_after_the_first_epoch_and_what_is_written_follows_changes(
    spark: Any, crews: Continuous, expected: list[tuple[int, ...]]
) -> None:
    phases = crews.phases
    t_env = environment(spark)
    watched = Watched(t_env)
    assert answer(t_env) == expected
    assert crews.phases - phases == ROWS // 200
    # Two stages with two partitions each.
    assert watched.cold == 4
    # Now and then a task puts what its many small files hold into one.
    written = [r.bytes for r in watched.reports if r.stage == 0 and not (r.complete and r.warm)]
    assert len(written) >= 34
    assert max(written[-8:]) < 1.5 * max(written[:4])


def test_more_partitions_than_slots(spark: Any, crews: Continuous, expected: list[tuple[int, ...]]) -> None:
    phases = crews.phases
    assert answer(environment(spark, **{"parallelism.default": "5"})) == expected
    assert crews.phases > phases
    assert len(crews.pids) <= 2


def test_a_task_that_is_killed_between_epochs(
    spark: Any, crews: Continuous, expected: list[tuple[int, ...]], caplog: pytest.LogCaptureFixture
) -> None:
    t_env = environment(spark)
    watched = Watched(t_env, epoch5=lambda: os.kill(crews.pids[0], signal.SIGKILL))
    assert answer(t_env) == expected
    # All tasks are started again, and go on from their versions.
    assert watched.cold == 8
    assert re.search("are started again: task [12] has gone", caplog.text)
    assert "opens its state from files" in caplog.text


def test_a_task_that_is_killed_within_an_epoch(spark: Any, expected: list[tuple[int, ...]], tmp_path: Path) -> None:
    flag = str(tmp_path / "killed")

    def through(value: int) -> int:
        if value > 50_000 and not os.path.exists(flag):
            with open(flag, "w"):
                os.kill(os.getpid(), signal.SIGKILL)
        return value

    t_env = environment(spark)
    t_env.create_temporary_system_function("through", through)
    query = QUERY.replace("SUM(s) AS s", "through(SUM(s)) AS s")
    watched = Watched(t_env)
    found = sorted(tuple(row.values()) for row in t_env.execute_sql(query).folded().to_pylist())
    assert os.path.exists(flag)
    assert found == expected
    assert watched.cold == 8


def test_tasks_that_always_end_fail_the_job(spark: Any, expected: list[tuple[int, ...]]) -> None:
    def ends(value: int) -> int:
        os._exit(3)

    t_env = environment(spark)
    t_env.create_temporary_system_function("ends", ends)
    with pytest.raises(Exception, match="tasks were lost 4 times in one epoch") as told:
        t_env.execute_sql("SELECT ends(SUM(i)) FROM n GROUP BY MOD(i, 3)").to_arrow()
    assert told.value.code == "E3600"  # type: ignore[attr-defined]
    assert answer(t_env) == expected


def test_spark_has_slots_for_other_work_while_a_job_is_open(
    spark: Any, crews: Continuous, expected: list[tuple[int, ...]]
) -> None:
    """All slots are taken: the tasks make way, and the job goes on meanwhile."""
    counted: list[int] = []
    t_env = environment(spark)
    watched = Watched(t_env, epoch4=lambda: counted.append(spark.range(1000).count()))
    assert answer(t_env) == expected
    assert counted == [1000]
    assert watched.cold > 4


def test_explain_tells_the_mode_and_why(spark: Any) -> None:
    t_env = environment(spark)
    t_env.create_temporary_view("frame", spark.readStream.format("rate").load())
    told = {
        name: t_env.explain_sql(query).split("== Execution ==\n")[1]
        for name, query in (("table", QUERY), ("frame", "SELECT `value`, COUNT(*) FROM frame GROUP BY `value`"))
    }
    assert told["table"] == "Spark, continuous: 2 partitions in 2 long-lived tasks"
    assert told["frame"].startswith("Spark, a job for each epoch, 2 tasks: a streaming DataFrame is read")
    t_env.get_config().set("sqlengine.spark.mode", "per-epoch")
    assert "'sqlengine.spark.mode' says so" in t_env.explain_sql(QUERY)
    t_env.get_config().set("sqlengine.spark.mode", "continuous")
    with pytest.raises(SparkError, match="cannot have long-lived tasks: a streaming DataFrame is read") as refused:
        t_env.execute_sql("SELECT `value`, COUNT(*) FROM frame GROUP BY `value`").wait()
    assert refused.value.code == "E3608"
