"""Jobs of a database in a folder that read its tables, as they are when the job begins: they go on with that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.core.errors import ConnectorError, SqlEngineError
from runtime.local.checkpoints import Checkpoints
from sqlengine import TableEnvironment
from sqlengine.database.kept_jobs import KeptCheckpoints
from tests.unit.database.test_kept_jobs import FILES, OFTEN, come, here, jobs, opened, until
from tests.unit.database.test_lasting import _die, rows

__all__ = ["here"]
pytestmark = pytest.mark.usefixtures("here")

PRICES = "CREATE TABLE prices (n BIGINT PRIMARY KEY NOT ENFORCED, p BIGINT)"
SUMS = "CREATE TABLE sums (n BIGINT PRIMARY KEY NOT ENFORCED, p BIGINT)"
TWO = "INSERT INTO prices VALUES (1, 10), (2, 20)"
JOB = "INSERT INTO sums SELECT prices.n, SUM(p) FROM g JOIN prices ON g.n = prices.n GROUP BY prices.n"
ALL = "SELECT n, p FROM sums"


def running(t_env: TableEnvironment) -> int:
    return len(t_env.session.jobs.active())


def begun(**how: Any) -> TableEnvironment:
    t_env = opened(FILES, PRICES, SUMS, TWO, **how)
    come("a", 1, 1, 2)
    assert not t_env.execute_sql(JOB).warnings
    until(t_env, ALL, [(1, 20), (2, 20)])
    return t_env


def test_a_job_goes_on_with_what_a_table_had_when_it_began() -> None:
    begun().close()
    for number in range(3):
        with opened() as t_env:
            (job,) = t_env.session.jobs.active()
            prices = [source for source in job.job.inputs if source.node.name.endswith("prices")]
            # It has the rows in its state, and reads none again.
            assert [source.finished for source in prices] == [True]
            t_env.execute_sql("UPDATE prices SET p = 99")
            come(f"b{number}", 1, 3)
            until(t_env, ALL, [(1, 30 + 10 * number), (2, 20)])


@pytest.mark.parametrize("sizes", [(3, 3000, 30), (3000, 3, 30), (30, 3000, 3)])
def test_the_plan_is_that_over_the_numbers_of_rows_at_the_beginning(sizes: tuple[int, ...]) -> None:
    """Joins are ordered by them; the state is that of the first order."""
    job = """INSERT INTO sums SELECT n, SUM(p) FROM (
        SELECT a.n, c.p FROM a JOIN b ON a.n = b.n JOIN c ON b.p = c.n UNION ALL SELECT n, 1 FROM g) GROUP BY n"""
    tables = [f"CREATE TABLE {name} (n BIGINT, p BIGINT)" for name in "abc"]
    ones = [f"INSERT INTO {name} VALUES (1, 1)" for name in "abc"]
    with opened(FILES, SUMS, *tables, *ones) as t_env:
        come("a", 1)
        assert not t_env.execute_sql(job).warnings
        until(t_env, ALL, [(1, 2)])
        for name, rows_now in zip("abc", sizes, strict=True):
            t_env.execute_sql(f"INSERT INTO {name} VALUES " + ", ".join(f"({n}, {n})" for n in range(2, rows_now)))
    come("b", 1)
    with opened() as t_env:
        assert running(t_env) == 1
        until(t_env, ALL, [(1, 3)])


def test_a_view_is_read_as_a_table_is() -> None:
    view = "CREATE MATERIALIZED VIEW doubled AS SELECT n, 2 * p AS p FROM prices"
    with opened(FILES, PRICES, SUMS, TWO, view) as t_env:
        come("a", 1)
        assert not t_env.execute_sql(JOB.replace("prices", "doubled")).warnings
        until(t_env, ALL, [(1, 20)])
        for change in (
            "DROP MATERIALIZED VIEW doubled",
            "CREATE OR REPLACE MATERIALIZED VIEW doubled AS SELECT n, 3 * p AS p FROM prices",
        ):
            with pytest.raises(SqlEngineError, match="E1410"):
                t_env.execute_sql(change)
        t_env.execute_sql("UPDATE prices SET p = 11")
    come("b", 1, 2)
    with opened() as t_env:
        until(t_env, ALL, [(1, 40), (2, 40)])


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_job_that_ends_while_it_reads_a_table_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: int, how: str
) -> None:
    config = {**OFTEN, "sqlengine.epoch.max-rows": "1"}
    t_env = opened(FILES, PRICES, SUMS, "INSERT INTO prices VALUES (1, 10), (2, 20), (3, 30), (4, 40)", config=config)
    come("a", 1, 1, 2)
    database = t_env.session.database
    after_epoch, taken = KeptCheckpoints.after_epoch, []

    def ends(checkpoints: KeptCheckpoints, job: Any) -> None:
        after_epoch(checkpoints, job)
        taken.append((checkpoints.last, checkpoints.in_progress))
        if len(taken) == epochs:
            # The database ends while the job is in this epoch.
            database.closed.set()
            job.cancellation.request()

    monkeypatch.setattr(KeptCheckpoints, "after_epoch", ends)
    monkeypatch.setattr(Checkpoints, "_due", lambda self: True)
    assert not t_env.execute_sql(JOB).warnings
    job = list(t_env.session.jobs.jobs.values())[-1]
    assert job.done.wait(60)
    assert taken == [(None, False)] * epochs and job.job.status == "CANCELED"
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    database.closed.clear()
    assert rows(t_env, ALL) == []
    t_env.execute_sql("UPDATE prices SET p = 11 WHERE n = 1")
    if how == "closed":
        t_env.close()
    else:
        _die(t_env)
    with opened() as t_env:
        # Nothing that it had written counts, so it reads what the table has now.
        until(t_env, ALL, [(1, 22), (2, 20)])
    with opened() as t_env:
        come("b", 4)
        until(t_env, ALL, [(1, 22), (2, 20), (4, 40)])


def test_two_jobs_read_one_table_and_one_writes_what_another_reads() -> None:
    more = "CREATE TABLE more (n BIGINT PRIMARY KEY NOT ENFORCED, c BIGINT)"
    second = "INSERT INTO more SELECT g.n, SUM(sums.p) FROM g JOIN sums ON g.n = sums.n JOIN prices ON g.n = prices.n GROUP BY g.n"
    with begun() as t_env:
        t_env.execute_sql(more)
        assert not t_env.execute_sql(second).warnings
        until(t_env, "SELECT * FROM more", [(1, 40), (2, 20)])
    for number in range(1, 4):
        come(f"b{number}", 1)
        with opened() as t_env:
            assert running(t_env) == 2
            until(t_env, ALL, [(1, 20 + 10 * number), (2, 20)])
            until(t_env, "SELECT * FROM more", [(1, 40 + 20 * number), (2, 20)])


def test_a_job_into_files_reads_a_table_once() -> None:
    out = "CREATE TABLE f (n BIGINT, p BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'csv')"

    def written() -> list[str]:
        return sorted(line for path in Path("out").glob("part-*") for line in path.read_text().split())

    with opened(FILES, PRICES, out, TWO) as t_env:
        come("a", 1)
        assert not t_env.execute_sql("INSERT INTO f SELECT g.n, p FROM g JOIN prices ON g.n = prices.n").warnings
        while written() != ["1,10"]:
            pass
        t_env.execute_sql("TRUNCATE TABLE prices")
    come("b", 2)
    with opened():
        while written() != ["1,10", "2,20"]:
            pass


def test_a_job_that_starts_again_in_the_same_process_reads_a_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    after_epoch = KeptCheckpoints.after_epoch
    failures: list[int] = []

    def fails(self: KeptCheckpoints, job: Any) -> None:
        after_epoch(self, job)
        if len(failures) < 3:
            failures.append(1)
            raise ConnectorError("nobody is there", code="E3101")

    monkeypatch.setattr(KeptCheckpoints, "after_epoch", fails)
    config = {
        **OFTEN,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
        "restart-strategy.fixed-delay.attempts": "5",
    }
    with begun(config=config) as t_env:
        come("b", 1)
        until(t_env, ALL, [(1, 30), (2, 20)])
        come("c", 2)
        until(t_env, ALL, [(1, 30), (2, 40)])
        assert len(failures) == 3


def test_what_is_read_stays_and_a_backup_has_no_job() -> None:
    with begun() as t_env:
        with pytest.raises(SqlEngineError, match="E1410"):
            t_env.execute_sql("DROP TABLE prices")
        t_env.execute_sql("TRUNCATE TABLE prices")
        t_env.execute_sql("BACKUP TO 'saved'")
    with TableEnvironment.create(path="again") as t_env:
        t_env.execute_sql("RESTORE FROM 'saved'")
        assert rows(t_env, ALL) == [(1, 20), (2, 20)] and jobs(t_env) == []
