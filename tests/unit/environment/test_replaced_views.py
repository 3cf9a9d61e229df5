"""A materialized view that others read is given another query: they go on with the new answer, and hear what differs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlengine import SqlEngineError, TableEnvironment, udf

QUERIES = (
    # First one without a key: what is planned over a key keeps others away (`golden/tables/keys_of_views.slt`).
    "SELECT g, a AS s FROM t WHERE a > 1",
    "SELECT g, SUM(a) AS s FROM t GROUP BY g",
    "SELECT g, CAST(COUNT(*) AS INT) AS s FROM t GROUP BY g",
    "SELECT g, MAX(a) AS s FROM t GROUP BY g HAVING COUNT(*) > 1",
    "SELECT t.g, o.a AS s FROM t JOIN o ON t.a = o.a",
    "SELECT g, s FROM other",
)
ABOVE = {
    "w": "SELECT MAX(s) AS m, COUNT(*) AS n FROM v",
    "x": "SELECT v.g, v.s, w.m FROM v, w WHERE v.s < w.m",
    "y": "SELECT DISTINCT t.g FROM t JOIN v ON t.a = v.s",
    "z": "SELECT m, (SELECT COUNT(*) FROM x) AS n FROM w",
}
CHANGES = (
    "INSERT INTO t VALUES ('a', 1), ('b', 2)",
    "INSERT INTO t VALUES ('a', 3), (NULL, 2), ('a', 3)",
    "DELETE FROM t WHERE a = 3",
    "UPDATE t SET a = a + 1 WHERE g = 'a'",
    "INSERT INTO o VALUES (2), (3)",
    "DELETE FROM o WHERE a = 2",
)


def rows(t_env: TableEnvironment, query: str) -> list[tuple[object, ...]]:
    return sorted((tuple(r.values()) for r in t_env.execute_sql(query).to_arrow().to_pylist()), key=repr)


def made(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE t (g STRING, a INT)")
    t_env.execute_sql("CREATE TABLE o (a INT)")
    t_env.execute_sql(f"CREATE MATERIALIZED VIEW v AS {QUERIES[0]}")
    for name, query in ABOVE.items():
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    t_env.execute_sql("CREATE MATERIALIZED VIEW other AS SELECT g, MIN(a) AS s FROM t GROUP BY g")


@settings(deadline=None, max_examples=25)
@given(st.lists(st.sampled_from((*QUERIES, *CHANGES)), min_size=3, max_size=10))
def test_whoever_reads_a_replaced_view_has_the_answer_over_the_new_one(steps: list[str]) -> None:
    with TableEnvironment.create() as t_env:
        made(t_env)
        query = QUERIES[0]
        for step in steps:
            if step in QUERIES:
                query = step
                t_env.execute_sql(f"ALTER MATERIALIZED VIEW v AS {query}")
            else:
                t_env.execute_sql(step)
            assert rows(t_env, "SELECT * FROM v") == rows(t_env, query)
            for name, above in ABOVE.items():
                assert rows(t_env, f"SELECT * FROM {name}") == rows(t_env, above), (name, query)


def test_a_subscriber_hears_what_differs_as_one_epoch() -> None:
    with TableEnvironment.create() as t_env:
        t_env.execute_sql("CREATE TABLE t (g STRING, a INT)")
        t_env.execute_sql("INSERT INTO t VALUES ('a', 1), ('b', 5), ('b', 6)")
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW v AS {QUERIES[1]}")
        changes = t_env.execute_sql("SUBSCRIBE TO v").changes()
        assert next(changes).rows.num_rows == 2
        t_env.execute_sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {QUERIES[2]}")
        batch = next(changes)
        found = zip(batch.signs().tolist(), (tuple(r.values()) for r in batch.rows.to_pylist()), strict=True)
        assert list(found) == [(-1, ("b", 11)), (1, ("b", 2))]


def test_a_view_that_has_failed_is_mended_under_those_that_read_it() -> None:
    with TableEnvironment.create() as t_env:
        t_env.execute_sql("CREATE TABLE t (a INT)")
        t_env.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT 10 / a AS q FROM t")
        t_env.execute_sql("CREATE MATERIALIZED VIEW w AS SELECT SUM(q) AS s FROM v")
        t_env.execute_sql("INSERT INTO t VALUES (5)")
        with pytest.warns(UserWarning, match="division by zero"):
            t_env.execute_sql("INSERT INTO t VALUES (0)")
            assert t_env.execute_sql("SELECT COUNT(*) FROM t").to_arrow().to_pydict() == {"EXPR$0": [2]}
        with pytest.raises(SqlEngineError, match="E1713"):
            t_env.execute_sql("SELECT * FROM w")
        t_env.execute_sql("ALTER MATERIALIZED VIEW v AS SELECT 10 / a AS q FROM t WHERE a <> 0")
        t_env.execute_sql("INSERT INTO t VALUES (2)")
        assert rows(t_env, "SELECT * FROM w") == [(7,)]


def test_a_database_in_a_folder_has_the_new_query_the_next_time(tmp_path: Path) -> None:
    with TableEnvironment.create(path=str(tmp_path / "shop")) as t_env:
        made(t_env)
        t_env.execute_sql(CHANGES[0])
        # It reads a view that was made after those that read it.
        t_env.execute_sql("ALTER MATERIALIZED VIEW v AS SELECT g, s FROM other WHERE s > 1")
        before = {name: rows(t_env, f"SELECT * FROM {name}") for name in ("v", *ABOVE)}
    with TableEnvironment.create(path=str(tmp_path / "shop")) as t_env:
        assert {name: rows(t_env, f"SELECT * FROM {name}") for name in ("v", *ABOVE)} == before
        t_env.execute_sql(CHANGES[1])
        for name, above in ABOVE.items():
            assert rows(t_env, f"SELECT * FROM {name}") == rows(t_env, above)


def test_a_new_query_that_fails_changes_nothing() -> None:
    with TableEnvironment.create() as t_env:
        made(t_env)

        def refuse(a: int) -> int:
            raise ValueError("no")

        t_env.create_temporary_system_function("refuse", udf(refuse, result_type="INT"))
        t_env.execute_sql(CHANGES[0])
        before = {name: rows(t_env, f"SELECT * FROM {name}") for name in ("v", *ABOVE)}
        with pytest.raises(SqlEngineError, match="no"):
            t_env.execute_sql("ALTER MATERIALIZED VIEW v AS SELECT g, refuse(a) AS s FROM t")
        assert {name: rows(t_env, f"SELECT * FROM {name}") for name in ("v", *ABOVE)} == before
        t_env.execute_sql(CHANGES[1])
        assert rows(t_env, "SELECT * FROM v") == rows(t_env, QUERIES[0])
