"""Sinks that follow tables and views of a database: what becomes of them when jobs fail, stop, and go on over other views."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from runtime.checkpoint.storage import Damage
from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment
from sqlengine.database import binding
from sqlengine.database.folder import view_state
from sqlengine.statements import lasting_jobs, lasting_views
from sqlengine.statements.view_goes_on import ViewGoesOn, does_not_fit
from tests.unit.database.test_lasting import rows

OPTIONS = {"execution.checkpointing.interval": "1 ms", "sqlengine.insert.follow": "true"}
Written = Counter[tuple[object, ...]]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def opened(*statements: str, path: str | None = "db") -> TableEnvironment:
    t_env = TableEnvironment.create(OPTIONS, path=path)
    for statement in statements:
        t_env.execute_sql(statement)
    return t_env


def sink(name: str, columns: str) -> str:
    return f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{name}', 'format' = 'debezium-json')"


def written(name: str) -> Written:
    found: Written = Counter()
    for path in Path(name).glob("part-*"):
        for change in map(json.loads, path.read_text().splitlines()):
            for row, count in (change["before"], -1), (change["after"], 1):
                if row is not None:
                    found[tuple(row.values())] += count
    return +found + Counter({row: count for row, count in found.items() if count < 0})


def until(t_env: TableEnvironment, name: str, query: str) -> None:
    """Wait until a sink has what a query says, or a job has failed."""
    while written(name) != Counter(rows(t_env, query)):
        assert not rows(t_env, "SELECT job, error FROM system.jobs WHERE status = 'FAILED'")


TABLE = "CREATE TABLE t (w INT, n INT)"
SUMS = "CREATE MATERIALIZED VIEW sums AS SELECT w, SUM(n) AS s FROM t GROUP BY w"
STAMPS = "CREATE MATERIALIZED VIEW sums AS SELECT w, MAX(UUID()) AS s FROM t GROUP BY w"
FIRST = "INSERT INTO t VALUES (1, 1), (2, 2)"
JOB = "INSERT INTO o SELECT * FROM sums"


def test_a_view_that_is_made_again_gives_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(TABLE, STAMPS, FIRST, sink("o", "w INT, s STRING"), JOB) as t_env:
        until(t_env, "o", "SELECT * FROM sums")
        before = rows(t_env, "SELECT * FROM sums")
    with monkeypatch.context() as planned_otherwise:
        planned_otherwise.setattr(ViewGoesOn, "check", _refuse)
        again = opened("INSERT INTO t VALUES (3, 3)")
    with again as t_env:
        assert not set(before) & set(rows(t_env, "SELECT * FROM sums"))
        until(t_env, "o", "SELECT * FROM sums")


def _refuse(going_on: ViewGoesOn, view: object) -> None:
    raise does_not_fit("it is planned in another way now")


def test_a_job_ends_when_nobody_knows_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(TABLE, SUMS, FIRST, sink("o", "w INT, s INT"), JOB) as t_env:
        until(t_env, "o", "SELECT * FROM sums")
    with monkeypatch.context() as damaged:

        def damage(*given: object) -> None:
            raise Damage("it is damaged")

        for module in lasting_views, view_state:
            damaged.setattr(module, "read_rows", damage)
        again = opened()
    with again as t_env:
        assert rows(t_env, "SELECT error_code FROM system.jobs WHERE status = 'FAILED'") == [("E1711",)]
        assert rows(t_env, "SELECT * FROM sums") == [(1, 1), (2, 2)]
        (job,) = rows(t_env, "SELECT job FROM system.jobs WHERE status = 'FAILED'")
        for statement in (f"STOP JOB '{job[0]}'", sink("other", "w INT, s INT"), JOB.replace(" o ", " other ")):
            t_env.execute_sql(statement)
        until(t_env, "other", "SELECT * FROM sums")


def test_a_job_that_has_failed_goes_on_with_what_has_come() -> None:
    never = "SET 'restart-strategy.type' = 'none'"
    with opened(TABLE, SUMS, FIRST, sink("o", "w INT, s INT"), never, JOB) as t_env:
        until(t_env, "o", "SELECT * FROM sums")
        Path("o").rename("away")
        Path("o").write_text("no folder")
        t_env.execute_sql("INSERT INTO t VALUES (1, 5), (4, 0)")
        while not (failed := rows(t_env, "SELECT job FROM system.jobs WHERE status = 'FAILED'")):
            pass
        t_env.execute_sql("DELETE FROM t WHERE w = 2")
    with opened() as t_env:
        assert rows(t_env, "SELECT job FROM system.jobs WHERE status = 'FAILED'") == failed
        t_env.execute_sql("INSERT INTO t VALUES (5, 2)")
        Path("o").unlink()
        Path("away").rename("o")
        t_env.execute_sql(JOB)
        until(t_env, "o", "SELECT * FROM sums")


def test_nothing_waits_for_a_job_that_was_stopped() -> None:
    with opened(
        TABLE, SUMS, sink("o", "w INT, s INT"), sink("p", "w INT, n INT"), JOB, "INSERT INTO p SELECT * FROM t"
    ) as t_env:
        t_env.execute_sql(FIRST)
        until(t_env, "o", "SELECT * FROM sums")
        until(t_env, "p", "SELECT * FROM t")
        with pytest.raises(Exception, match="E1410"):
            t_env.execute_sql("DROP MATERIALIZED VIEW sums")
        for (job,) in rows(t_env, "SELECT job FROM system.jobs WHERE statement IS NOT NULL AND status = 'RUNNING'"):
            t_env.execute_sql(f"STOP JOB '{job}'")
        t_env.execute_sql("INSERT INTO t VALUES (7, 7)")
        t_env.execute_sql("DROP MATERIALIZED VIEW sums")
        durable = t_env.session.durable
        assert durable is not None and not list(durable.followed.held())
        contents = t_env.session.memory[t_env.session.catalogs.qualify(("t",))]
        assert not contents.has_followers
    with opened() as t_env:
        assert written("p") == Counter({(1, 1): 1, (2, 2): 1})


def test_a_database_in_memory_has_its_views_followed_until_it_ends() -> None:
    with opened(TABLE, SUMS, FIRST, sink("o", "w INT, s INT"), path=None) as t_env:
        t_env.execute_sql("SET 'sqlengine.sql.dialect' = 'postgres'")
        t_env.execute_sql(
            "CREATE SINK k FROM sums WITH (connector = 'filesystem', path = 'k', format = 'debezium-json')"
        )
        t_env.execute_sql("INSERT INTO t VALUES (1, 5)")
        t_env.execute_sql("SET 'execution.runtime-mode' = 'batch'")
        t_env.execute_sql(JOB)
        assert written("o") == Counter({(1, 6): 1, (2, 2): 1})
    assert written("k") == Counter({(1, 6): 1, (2, 2): 1})


def test_a_sink_with_a_key_shows_what_came_last_for_each() -> None:
    """Whether or not the key is one of the view's query, and when the database is opened again."""
    with opened(TABLE, SUMS, FIRST, "CREATE MATERIALIZED VIEW large AS SELECT w, n FROM t WHERE n > 0") as t_env:
        t_env.execute_sql("SET 'sqlengine.sql.dialect' = 'postgres'")
        for name, view in (("k", "sums"), ("l", "large")):
            options = f"connector = 'filesystem', path = '{name}', format = 'debezium-json', primary_key = 'w'"
            t_env.execute_sql(f"CREATE SINK {name} FROM {view} WITH ({options})")
        t_env.execute_sql("INSERT INTO t VALUES (1, 5)")
    with opened("INSERT INTO t VALUES (2, 7), (3, 3)") as t_env:
        for name, view in (("k", "sums"), ("l", "large")):
            while not {1, 2, 3} <= set(last(name)) or last(name)[2] not in (7, 9):
                assert not rows(t_env, "SELECT job, error FROM system.jobs WHERE status = 'FAILED'"), view
    assert last("k") == {1: 6, 2: 9, 3: 3} and last("l") == {1: 5, 2: 7, 3: 3}


def last(name: str) -> dict[int, int]:
    """What came last for each key."""
    lines = [line for path in sorted(Path(name).glob("part-*")) for line in path.read_text().splitlines()]
    found = [change["after"] for change in map(json.loads, lines) if change["after"] is not None]
    return {row["w"]: next(iter(v for k, v in row.items() if k != "w")) for row in found}


UPSERTED = (
    "CREATE TABLE o (w INT PRIMARY KEY NOT ENFORCED, s INT) "
    "WITH ('connector' = 'filesystem', 'path' = 'o', 'format' = 'debezium-json')"
)


def test_a_sink_has_the_key_of_the_view_that_it_follows() -> None:
    with opened(TABLE, SUMS, FIRST, UPSERTED, JOB) as t_env:
        until(t_env, "o", "SELECT * FROM sums")
    with opened("INSERT INTO t VALUES (1, 5), (4, 0)", "DELETE FROM t WHERE w = 2") as t_env:
        until(t_env, "o", "SELECT * FROM sums")
        (view,) = t_env.session.views.jobs()
        assert view.job.restored is not None
    refused = pytest.raises(SqlEngineError, match="others were planned: the job")
    with opened(TABLE, SUMS, FIRST, UPSERTED, JOB, path=None) as t_env, refused:
        t_env.execute_sql("ALTER MATERIALIZED VIEW sums AS SELECT w, n AS s FROM t")


def test_what_was_planned_without_keys_of_views_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by the versions before that knew them."""
    double = "CREATE MATERIALIZED VIEW double AS SELECT DISTINCT w FROM sums"
    clashing = JOB + " ON CONFLICT DO DEDUPLICATE"
    with monkeypatch.context() as before:
        before.setattr(binding, "_known_keys", lambda found: ())
        before.setattr(lasting_jobs, "_KNOWS_KEYS", 'rows of ["of", "no", "table"]')
        with opened(TABLE, SUMS, FIRST, double, UPSERTED, clashing) as t_env:
            until(t_env, "o", "SELECT * FROM sums")
    with opened("INSERT INTO t VALUES (1, 5), (4, 0)", "DELETE FROM t WHERE w = 2") as t_env:
        assert all(view.job.restored is not None for view in t_env.session.views.jobs())
        while last("o") != {1: 6, 2: 2, 4: 0}:
            assert not rows(t_env, "SELECT job, error FROM system.jobs WHERE status = 'FAILED'")
        assert sorted(rows(t_env, "SELECT * FROM double")) == [(1,), (4,)]
