"""Rows that move from partition to partition, kept by a key that does not hold the partition: whichever task gives its
changes first, the row stays."""

from __future__ import annotations

import itertools

import pytest

from sqlengine import TableEnvironment
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from tests.oracle.key_claims import KeyClaims

RANKED = "SELECT k, g, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {} ORDER BY {}) AS n FROM t) WHERE n <= {}"
QUERIES = {
    "top 2": RANKED.format("g", "v DESC", 2),
    "top 1": RANKED.format("g", "v", 1),
    "top 2 of all": RANKED.format("v - v", "v", 2),
    "by key and partition": RANKED.format("k, g", "v", 1),
    "with its rank": "SELECT k, g, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v) AS n FROM t) WHERE n <= 2",
    "the first few of each": "SELECT a.k, b.g FROM (SELECT DISTINCT g FROM t) AS b CROSS JOIN LATERAL (SELECT k FROM t WHERE t.g = b.g"
    " ORDER BY v LIMIT 2) AS a",
    "group of a key": "SELECT k, g, SUM(v) AS v FROM t GROUP BY k, g",
}


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("name", QUERIES)
def test_a_row_that_moves_is_kept(name: str, tasks: int) -> None:
    with TableEnvironment.create({"parallelism.default": str(tasks)}) as t_env:
        t_env.execute_sql("CREATE TABLE t (k INT, g INT, v INT, PRIMARY KEY (k) NOT ENFORCED)")
        query = parse_statement(QUERIES[name])
        assert isinstance(query, st.QueryStatement)
        claims = KeyClaims(t_env.session, "kept", query.query.query, below=True)
        t_env.execute_sql("INSERT INTO t VALUES (1, 0, 5), (2, 1, 6)")
        # Every pair of partitions, so that each order of their tasks is met.
        for old, new in itertools.permutations(range(6), 2):
            t_env.execute_sql(f"INSERT INTO t VALUES (0, {old}, 1)")
            assert claims.problem() is None
            t_env.execute_sql(f"UPDATE t SET g = {new} WHERE k = 0")
            assert claims.problem() is None, (old, new)
