"""Views whose changes gather while nobody looks: whoever reads or follows one sees what it would be after each statement."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from sqlengine import TableEnvironment
from sqlengine.database.views import MOST_GATHERED

TABLES = """
CREATE TABLE a (k INT, v INT);
CREATE TABLE b (k INT, v INT);
CREATE TABLE c (k INT PRIMARY KEY NOT ENFORCED, v INT)
"""
GATHERING = {
    "kept": "SELECT k, v + 1 AS w FROM a WHERE v > 1",
    "sums": "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM a GROUP BY k",
    "joined": "SELECT a.k, a.v, b.v AS w FROM a LEFT JOIN b ON a.k = b.k",
    "best": "SELECT v FROM c ORDER BY v DESC LIMIT 3",
    "each": "SELECT DISTINCT v FROM c",
    "over_view": "SELECT MAX(s) AS m, SUM(n) AS n FROM sums",
    "over_views": "SELECT x.k, x.s, y.w FROM sums AS x JOIN kept AS y ON x.k = y.k",
    "words": "SELECT k, CASE WHEN v > 5 THEN UPPER('much') ELSE 'little' END AS w, v / 2 AS half FROM c",
    "either": "SELECT k FROM a INTERSECT SELECT k FROM b",
    "totals": "SELECT k, v, SUM(v) OVER (PARTITION BY k) AS s FROM c",
    "constant": "SELECT a.v, n.y FROM a JOIN (VALUES (1, 'one'), (2, 'two')) AS n (x, y) ON a.k = n.x",
}
FOLLOWING = {
    "may_fail": "SELECT 10 / v AS w FROM a",
    "fails_in_a_join": "SELECT a.v FROM a LEFT JOIN b ON a.k = b.k AND 1 / a.k > 0",
    "first_to_come": "SELECT k, v FROM c LIMIT 2",
    "clock": "SELECT v, CURRENT_TIMESTAMP AS at FROM a",
    "chance": "SELECT v, RAND() AS r FROM a",
    "arrival_in_several": "SELECT LISTAGG(CAST(a.v AS STRING)) AS l FROM a JOIN b ON a.k = b.k",
    "ties_of_several": "SELECT a.k, b.v FROM a JOIN b ON a.k = b.k ORDER BY a.k LIMIT 2",
}


@pytest.fixture
def t_env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as t_env:
        t_env.execute_script(TABLES)
        yield t_env


def create(t_env: TableEnvironment, *names: str) -> None:
    for name in names:
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS {(GATHERING | FOLLOWING)[name]}")


def epochs(t_env: TableEnvironment) -> dict[str, int]:
    return {view.path.name: view.job.dataflow.epoch for view in t_env.session.views.jobs()}


def rows(t_env: TableEnvironment, query: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in t_env.execute_sql(query)), key=repr)


def test_which_views_let_changes_gather(t_env: TableEnvironment) -> None:
    create(t_env, *GATHERING, *FOLLOWING)
    assert {v.path.name: v.gathers for v in t_env.session.views.jobs()} == {
        **dict.fromkeys(GATHERING, True),
        **dict.fromkeys(FOLLOWING, False),
    }


@pytest.mark.parametrize("seed", range(12))
def test_a_reader_sees_the_answer_of_this_moment(t_env: TableEnvironment, seed: int) -> None:
    rng = random.Random(f"gathered/{seed}")
    create(t_env, *GATHERING)
    for _ in range(40):
        t_env.execute_sql(_statement(rng))
        while rng.random() < 0.4:
            name = rng.choice(list(GATHERING))
            assert rows(t_env, f"SELECT * FROM {name}") == rows(t_env, GATHERING[name]), name
    for name, query in GATHERING.items():
        assert rows(t_env, f"SELECT * FROM {name}") == rows(t_env, query), name


def _statement(rng: random.Random) -> str:
    table = rng.choice("abc")
    if rng.random() < 0.6:
        keys = [rng.randrange(6) for _ in range(rng.randint(1, 4))]
        return f"INSERT INTO {table} VALUES " + ", ".join(f"({k}, {rng.randrange(9)})" for k in keys)
    where = f"WHERE k = {rng.randrange(6)} OR v = {rng.randrange(9)}"
    return f"DELETE FROM {table} {where}" if rng.random() < 0.5 else f"UPDATE {table} SET v = v + 1 {where}"


def test_a_view_takes_all_that_has_gathered_as_one_epoch(t_env: TableEnvironment) -> None:
    create(t_env, "sums", "over_view")
    before = epochs(t_env)
    for i in range(10):
        t_env.execute_sql(f"INSERT INTO a VALUES (1, {i})")
    assert epochs(t_env) == before
    assert rows(t_env, "SELECT * FROM over_view") == [(45, 10)]
    assert epochs(t_env) == {name: epoch + 1 for name, epoch in before.items()}


def test_a_view_with_much_to_take_is_brought_up_to_date(t_env: TableEnvironment) -> None:
    create(t_env, "sums")
    before = epochs(t_env)["sums"]
    large = ", ".join(f"({i}, 1)" for i in range(MOST_GATHERED))
    t_env.execute_sql(f"INSERT INTO a VALUES {large}")
    assert epochs(t_env)["sums"] == before + 1
    statements = 0
    while epochs(t_env)["sums"] == before + 1:
        t_env.execute_sql("INSERT INTO a VALUES (1, 1)")
        statements += 1
    assert 100 < statements < 1000


def test_a_subscriber_gets_every_statement_by_itself(t_env: TableEnvironment) -> None:
    create(t_env, "sums", "over_view")
    t_env.execute_sql("INSERT INTO a VALUES (1, 1)")
    subscription = t_env.execute_sql("SUBSCRIBE TO over_view")
    epochs_seen = subscription.rows()
    next(epochs_seen)
    before = epochs(t_env)
    for i in range(3):
        t_env.execute_sql(f"INSERT INTO a VALUES (1, {i + 10})")
    assert epochs(t_env) == {name: epoch + 3 for name, epoch in before.items()}
    assert [[tuple(row) for row in next(epochs_seen)] for _ in range(3)] == [
        [(1, 1), (11, 2)],
        [(11, 2), (22, 3)],
        [(22, 3), (34, 4)],
    ]
    subscription.cancel()


def test_a_view_that_may_fail_reads_one_that_gathers(t_env: TableEnvironment) -> None:
    create(t_env, "sums")
    t_env.execute_sql("CREATE MATERIALIZED VIEW inverse AS SELECT 10 / s AS i FROM sums")
    with pytest.warns(UserWarning, match='"inverse" has failed: division by zero'):
        t_env.execute_sql("INSERT INTO a VALUES (1, 0)")
    assert rows(t_env, "SELECT * FROM sums") == [(1, 0, 1)]


def test_gathered_changes_and_an_open_epoch(t_env: TableEnvironment) -> None:
    create(t_env, "sums", "over_view")
    t_env.execute_sql("INSERT INTO a VALUES (1, 1)")
    t_env.execute_sql("BEGIN EPOCH")
    assert rows(t_env, "SELECT * FROM over_view") == [(1, 1)]
    t_env.execute_sql("INSERT INTO a VALUES (1, 5)")
    assert rows(t_env, "SELECT * FROM over_view") == [(6, 2)]
    t_env.execute_sql("ROLLBACK EPOCH")
    t_env.execute_sql("INSERT INTO a VALUES (1, 2)")
    assert rows(t_env, "SELECT * FROM over_view") == [(3, 2)]


def test_system_tables_show_what_has_gathered(t_env: TableEnvironment) -> None:
    create(t_env, "sums")
    t_env.execute_sql("INSERT INTO a VALUES (1, 1), (2, 1), (3, 1)")
    found = rows(t_env, "SELECT job, `rows` FROM system.state")
    assert ("view sums", 3) in found
