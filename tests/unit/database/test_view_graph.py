"""An epoch costs as much as the views that it touches: the others are not looked at."""

from __future__ import annotations

import pytest

from sqlengine import TableEnvironment
from sqlengine.database.views import MaintainedView


@pytest.fixture
def env() -> TableEnvironment:
    made = TableEnvironment.create()
    made.execute_sql("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, x INT)")
    made.execute_sql("CREATE TABLE u (id INT PRIMARY KEY NOT ENFORCED, x INT)")
    return made


def answer(env: TableEnvironment, view: str) -> list[tuple]:
    return sorted(tuple(row) for row in env.execute_sql(f"SELECT * FROM {view}"))


def test_views_of_other_tables_are_not_looked_at(env: TableEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(20):
        env.execute_sql(f"CREATE MATERIALIZED VIEW other{i} AS SELECT SUM(x) AS s FROM u WHERE x > {i}")
    env.execute_sql("CREATE MATERIALIZED VIEW total AS SELECT SUM(x) AS s FROM t")
    looked: set[str] = set()
    may_wait = MaintainedView.may_wait.fget
    assert may_wait is not None

    def noted(view: MaintainedView) -> bool:
        looked.add(view.path.name)
        return may_wait(view)

    monkeypatch.setattr(MaintainedView, "may_wait", property(noted))
    env.execute_sql("INSERT INTO t VALUES (1, 5)")
    assert looked == {"total"}
    stale = env.session.database.shown.stale
    env.execute_sql("INSERT INTO t VALUES (2, 6)")
    assert env.session.database.shown.stale is stale
    assert answer(env, "total") == [(11,)]
    assert env.session.database.shown.stale == frozenset()


def test_what_gathers_below_a_view_that_is_followed_does_not_wait(env: TableEnvironment) -> None:
    env.execute_sql("CREATE MATERIALIZED VIEW low AS SELECT x, COUNT(*) AS n FROM t GROUP BY x")
    env.execute_sql("CREATE MATERIALIZED VIEW mid AS SELECT n, COUNT(*) AS m FROM low GROUP BY n")
    env.execute_sql("CREATE MATERIALIZED VIEW high AS SELECT SUM(m) AS s FROM mid")
    env.execute_sql("INSERT INTO t VALUES (1, 1), (2, 1), (3, 2)")
    with env.execute_sql("SUBSCRIBE TO high").collect() as changes:
        assert next(changes)["s"] == 2
        env.execute_sql("INSERT INTO t VALUES (4, 3)")
        assert [next(changes)["s"] for _ in range(2)] == [2, 3]
    env.execute_sql("INSERT INTO t VALUES (5, 4)")
    assert answer(env, "mid") == [(1, 3), (2, 1)]
    env.execute_sql("INSERT INTO t VALUES (6, 5)")
    assert answer(env, "high") == [(5,)]


def test_a_view_that_another_one_brings_up_to_date_is_stale(env: TableEnvironment) -> None:
    env.execute_sql("CREATE MATERIALIZED VIEW low AS SELECT x, COUNT(*) AS n FROM t GROUP BY x")
    env.execute_sql("CREATE MATERIALIZED VIEW high AS SELECT SUM(n) AS s FROM low")
    env.execute_sql("INSERT INTO t VALUES (1, 1)")
    assert answer(env, "low") == [(1, 1)]
    assert {contents.name for contents in env.session.database.shown.stale} == {"default_catalog.default_database.high"}
    assert answer(env, "high") == [(1,)]
    env.execute_sql("CREATE OR REPLACE MATERIALIZED VIEW low AS SELECT x, COUNT(*) + 1 AS n FROM t GROUP BY x")
    env.execute_sql("INSERT INTO t VALUES (2, 7)")
    assert answer(env, "high") == [(4,)]
    env.execute_sql("DROP MATERIALIZED VIEW high")
    env.execute_sql("INSERT INTO t VALUES (3, 7)")
    assert answer(env, "low") == [(1, 2), (7, 3)]
