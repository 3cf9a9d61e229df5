"""Which views a statement steps: those whose inputs have changed, once."""

from __future__ import annotations

from sqlengine import TableEnvironment

TABLES = "CREATE TABLE a (k INT, v INT); CREATE TABLE b (k INT, v INT); CREATE TABLE c (k INT PRIMARY KEY NOT ENFORCED, v INT)"
VIEWS = {
    "kept": "SELECT k, v + 1 AS w FROM a WHERE v > 1",
    "sums": "SELECT k, SUM(v) AS s FROM a GROUP BY k",
    "joined": "SELECT a.k, b.v FROM a JOIN b ON a.k = b.k",
    "best": "SELECT * FROM a ORDER BY v DESC LIMIT 3",
    "each": "SELECT DISTINCT k FROM a",
    "over_view": "SELECT MAX(s) AS m FROM sums",
    "other": "SELECT COUNT(*) AS n FROM c",
}


def epochs(t_env: TableEnvironment) -> dict[str, int]:
    return {view.path.name: view.job.dataflow.epoch for view in t_env.session.views.jobs()}


def test_a_statement_is_one_epoch_of_the_views_that_it_changes(t_env: TableEnvironment) -> None:
    t_env.execute_script(TABLES)
    for name, query in VIEWS.items():
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    before = epochs(t_env)
    t_env.execute_sql("INSERT INTO a VALUES (1, 2), (2, 3)")
    after = epochs(t_env)
    assert {name: after[name] - before[name] for name in VIEWS} == {name: int(name != "other") for name in VIEWS}
    t_env.execute_sql("INSERT INTO c VALUES (1, 2)")
    assert epochs(t_env) == {**after, "other": after["other"] + 1}


def test_a_view_in_which_time_passes_is_stepped_by_every_statement(t_env: TableEnvironment) -> None:
    t_env.execute_script(TABLES)
    t_env.execute_sql("SET 'table.exec.state.ttl' = '1 h'")
    t_env.execute_sql("CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(v) AS s FROM a GROUP BY k")
    before = epochs(t_env)["sums"]
    t_env.execute_sql("INSERT INTO b VALUES (1, 2)")
    assert epochs(t_env)["sums"] > before


def test_rows_of_constants_in_a_view_are_no_input_from_outside(t_env: TableEnvironment) -> None:
    rows = ", ".join(f"({i}, {i})" for i in range(200))
    t_env.execute_script(TABLES)
    t_env.execute_sql(
        f"CREATE MATERIALIZED VIEW v AS SELECT a.v, n.y FROM a JOIN (VALUES {rows}) AS n (x, y) ON a.k = n.x"
    )
    (view,) = t_env.session.views.jobs()
    assert not view.outside
    t_env.execute_sql("INSERT INTO a VALUES (7, 8)")
    assert t_env.execute_sql("SELECT * FROM v").to_arrow().to_pylist() == [{"v": 8, "y": 7}]
