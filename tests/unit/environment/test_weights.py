"""Jobs and views of a database compute in turns, by their weights: epochs are counted, and no clock runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

from runtime.core.cancellation import Cancellation
from runtime.core.errors import SqlEngineError
from runtime.local.job import Job
from sqlengine import TableEnvironment, udf
from sqlengine.database import source_thread
from sqlengine.database.scheduler import QUANTUM_SECONDS, Scheduler, Share, Worker
from sqlengine.statements import queries
from tests.faults.gates import LONG, Gate

ROWS = 300
SOURCE = f"""CREATE TABLE g (v BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{ROWS}',
    'fields.v.kind' = 'sequence', 'fields.v.start' = '1', 'fields.v.end' = '{ROWS}')"""

FOLDER = """CREATE TABLE f (v BIGINT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv',
    'source.monitor-interval' = '1 s')"""


class Epochs:
    """Processor time in which each epoch of a job takes the same."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def counting(self) -> AbstractContextManager[None]:
        return nullcontext()

    def seconds(self) -> float:
        return self._job.dataflow.epoch * 2 * QUANTUM_SECONDS


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> Iterator[TableEnvironment]:
    def share_of(job: Job, weight: int) -> Share:
        return Share(weight, Worker(job.cancellation), Epochs(job))

    monkeypatch.setattr(queries._driving, "share_of", share_of)
    with TableEnvironment.create({"sqlengine.epoch.max-rows": "1"}) as made:
        scheduler(made)._clock = lambda: 0.0  # No turn is lent.
        made.session.inserts_in_background = True
        made.execute_sql("CREATE TABLE nowhere (v BIGINT) WITH ('connector' = 'blackhole')")
        yield made


def scheduler(env: TableEnvironment) -> Scheduler:
    return env.session.database.scheduler


@contextmanager
def nobody_computes(env: TableEnvironment) -> Iterator[Callable[[int], None]]:
    """The test has the turn. Gives what waits until so many wait for one."""

    class Nothing:
        def counting(self) -> AbstractContextManager[None]:
            return nullcontext()

        def seconds(self) -> float:
            return 0.0

    def until(count: int) -> None:
        while len(scheduler(env)._waiting) < count:
            pass

    with scheduler(env).turn(Share(1, Worker(Cancellation()), Nothing())):
        yield until


def insert(env: TableEnvironment, weight: int, text: str = "INSERT INTO nowhere SELECT v FROM g") -> str:
    env.execute_sql(f"SET 'sqlengine.scheduler.weight' = '{weight}'")
    env.execute_sql(text)
    return next(reversed(env.session.jobs.jobs))


def test_jobs_have_epochs_by_their_weights(env: TableEnvironment) -> None:
    env.execute_sql(SOURCE)
    epochs: list[str] = []

    def note(job: Job) -> None:
        job.on_epoch = lambda job: epochs.append(job.name)

    env.session.on_job = note
    with nobody_computes(env) as until:
        light, heavy = insert(env, 100), insert(env, 300)
        until(2)
    for name in (light, heavy):
        env.session.jobs.get(name).wait(LONG)
    assert epochs.count(heavy) == epochs.count(light) >= ROWS
    ended = len(epochs) - epochs[::-1].index(heavy)
    both = epochs[:ended]
    assert all(9 <= both[i : i + 40].count(light) <= 11 for i in range(len(both) - 40))


def test_views_have_epochs_by_their_weights(env: TableEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Views over connectors share one thread, and their turns with jobs."""
    env.execute_sql(SOURCE.replace("'number-of-rows'", "'rows-per-second' = '1000000000', 'number-of-rows'"))
    epochs: list[str] = []

    class Fixed(Epochs):
        """Of the view that is followed next."""

        def __init__(self) -> None:
            super().__init__(env.session.views.jobs()[-1].job)

    monkeypatch.setattr(source_thread, "ProcessorTime", Fixed)
    with nobody_computes(env) as until:
        for name, weight in (("light", 100), ("heavy", 300)):
            env.execute_sql(f"SET 'sqlengine.scheduler.weight' = '{weight}'")
            env.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT COUNT(*) AS n FROM g")
        for view in env.session.views.jobs():

            def advance(name: str = view.path.name, step: Callable[..., bool] = view.advance, **how: bool) -> bool:
                moved = step(**how)
                epochs.extend([name] if moved else ())
                return moved

            view.advance = advance  # type: ignore[method-assign]
        job = insert(env, 200)
        env.session.jobs.get(job).job.on_epoch = lambda job: epochs.append(job.name)
        until(2)
    env.session.jobs.get(job).wait(LONG)
    while any(not view.job.finished for view in env.session.views.jobs()):
        pass
    # From where all are busy until the first has ended.
    ended = min(len(epochs) - epochs[::-1].index(name) for name in (job, "light", "heavy"))
    both = epochs[20:ended]
    assert len(both) > ROWS
    for name, share in (("light", 10), (job, 20), ("heavy", 30)):
        assert all(abs(both[i : i + 60].count(name) - share) <= 2 for i in range(len(both) - 60)), name


def test_a_job_that_waits_for_a_turn_is_stopped(env: TableEnvironment) -> None:
    env.execute_sql(SOURCE)
    with nobody_computes(env) as until:
        name = insert(env, 100)
        until(1)
        env.execute_sql(f"STOP JOB '{name}'")
        assert env.session.jobs.get(name).job.status == "CANCELED"
        assert not scheduler(env)._waiting


@pytest.mark.parametrize("memory", [False, True])
def test_a_database_is_closed_while_some_wait(env: TableEnvironment, tmp_path: Path, memory: bool) -> None:
    env.execute_sql(SOURCE)
    (tmp_path / "1.csv").write_text("1\n2\n")
    env.execute_sql(FOLDER.format(path=tmp_path))
    env.execute_sql("CREATE TABLE m (v BIGINT)")
    ended = threading.Event()

    def close() -> None:
        env.close()
        ended.set()

    with nobody_computes(env) as until:
        # A job that holds the lock in its epochs, or one that does not.
        insert(env, 100, "INSERT INTO m SELECT v FROM f" if memory else "INSERT INTO nowhere SELECT v FROM g")
        env.execute_sql("CREATE MATERIALIZED VIEW w AS SELECT v FROM f")
        until(2)
        thread = threading.Thread(target=close)
        thread.start()
        assert ended.wait(LONG)
        thread.join()


def test_statements_wait_for_no_turn(env: TableEnvironment) -> None:
    env.execute_sql("CREATE TABLE m (v BIGINT)")
    env.execute_sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS c FROM m")
    env.execute_sql(SOURCE)
    with nobody_computes(env) as until:
        insert(env, 1000)
        until(1)
        env.execute_sql("INSERT INTO m SELECT v FROM g")
        env.execute_sql("UPDATE m SET v = v + 1 WHERE v < 3")
        assert list(env.execute_sql("SELECT c FROM n")) == [(ROWS,)]


def test_who_waits_holds_no_lock(env: TableEnvironment, tmp_path: Path) -> None:
    """A job that changes a table in memory, and holds its lock in each epoch, waits without it."""
    env.execute_sql(FOLDER.format(path=tmp_path))
    env.execute_sql("CREATE TABLE m (v BIGINT)")
    with nobody_computes(env) as until:
        name = insert(env, 100, "INSERT INTO m SELECT v FROM f")
        assert env.session.jobs.get(name).locked
        until(1)
        env.execute_sql("INSERT INTO m VALUES (2)")
        env.execute_sql("CREATE TABLE other (v BIGINT)")
        env.execute_sql("DROP TABLE other")


def test_a_job_that_is_blocked_lends_its_turn(tmp_path: Path) -> None:
    """What blocks it is a function of the program here, as it might be a connector."""
    gate = Gate()
    gate._open.clear()
    with TableEnvironment.create() as env:
        env.session.inserts_in_background = True
        env.create_temporary_function("gate", udf(gate, result_type="BIGINT"))
        env.execute_sql(SOURCE)
        env.execute_sql("CREATE TABLE nowhere (v BIGINT) WITH ('connector' = 'blackhole')")
        blocked = insert(env, 1000, "INSERT INTO nowhere SELECT gate(v) FROM g")
        assert gate._reached.wait(LONG)
        env.session.jobs.get(insert(env, 1)).wait(LONG)
        assert not env.session.jobs.get(blocked).done.is_set()
        gate._open.set()
        env.session.jobs.get(blocked).wait(LONG)


def test_weights_are_shown(env: TableEnvironment, tmp_path: Path) -> None:
    env.execute_sql(FOLDER.format(path=tmp_path))
    env.execute_sql("CREATE TABLE m (v BIGINT)")
    env.execute_sql("CREATE MATERIALIZED VIEW over_memory AS SELECT v FROM m")
    name = insert(env, 250, "INSERT INTO m SELECT v FROM f")
    assert [(r[0], r[3]) for r in env.execute_sql("SHOW JOBS")] == [(name, 250)]
    query = "SELECT job, weight FROM system.jobs WHERE status <> 'FINISHED' ORDER BY job"
    shown = [row for row in env.execute_sql(query) if row[0] in (name, "view over_memory")]
    # What follows tables alone is computed with the statements that change them.
    assert shown == [(name, 250), ("view over_memory", None)]


def test_jobs_of_a_folder_keep_their_weights(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with TableEnvironment.create(path=str(tmp_path / "db")) as env:
        env.execute_sql(FOLDER.format(path=tmp_path / "in"))
        env.execute_sql("CREATE TABLE m (v BIGINT)")
        insert(env, 7, "INSERT INTO m SELECT v FROM f")
        env.execute_sql("SET 'sqlengine.scheduler.weight' = '8'")
        env.execute_sql("CREATE MATERIALIZED VIEW w AS SELECT v FROM f")
    with TableEnvironment.create(path=str(tmp_path / "db")) as env:
        assert list(
            env.execute_sql("SELECT weight FROM system.jobs WHERE job IN ('job-1', 'view w') ORDER BY job")
        ) == [
            (7,),
            (8,),
        ]


@pytest.mark.parametrize("value", ["0", "1001", "-1", "1.5", "many", "٣"])
def test_weights_have_bounds(value: str) -> None:
    with TableEnvironment.create() as env, pytest.raises(SqlEngineError, match="number from 1 to 1000"):
        env.execute_sql(f"SET 'sqlengine.scheduler.weight' = '{value}'")


def test_the_number_of_turns_is_that_of_the_database() -> None:
    with TableEnvironment.create({"sqlengine.scheduler.jobs-at-once": "3"}) as env:
        assert scheduler(env)._at_once == 3
        env.execute_sql("SET 'sqlengine.scheduler.jobs-at-once' = '2'")
        assert scheduler(env)._at_once == 2
        env.execute_sql("RESET 'sqlengine.scheduler.jobs-at-once'")
        assert scheduler(env)._at_once == 1
