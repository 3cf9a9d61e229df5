"""Columns of queries, and the columns of tables that they come from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from planner.logical.lineage import column_origins, tables_read
from sqlengine import TableEnvironment
from sqlengine.parse import parse_query
from sqlengine.statements.planning import bound_view

TABLES = """
CREATE TABLE o (id INT, c STRING, amount DECIMAL(10, 2), tags ARRAY<STRING>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts);
CREATE TABLE c (name STRING, city STRING);
CREATE TABLE rates (cur STRING, rate INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (cur) NOT ENFORCED);
CREATE VIEW v AS SELECT c AS k, SUM(amount) AS s, COUNT(*) AS n FROM o GROUP BY c;
"""


@pytest.fixture(scope="module")
def environment() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        made.execute_script(TABLES)
        yield made


@pytest.mark.parametrize(
    ("query", "origins", "tables"),
    [
        ("SELECT id + 1, UPPER(c) || 'x', 7 FROM o WHERE amount > 3", "o.id; o.c; ", "o"),
        ("SELECT * FROM v", "o.c; o.amount; ", "o"),
        ("SELECT c.city, o.amount FROM o JOIN c ON o.c = c.name", "c.city; o.amount", "c o"),
        ("SELECT (SELECT MAX(s) FROM v), id IN (SELECT CAST(n AS INT) FROM v) FROM o", "o.amount; o.id", "o"),
        ("SELECT id FROM o WHERE EXISTS (SELECT 1 FROM c WHERE c.name = o.c)", "o.id", "c o"),
        ("SELECT name FROM c UNION ALL SELECT c FROM o", "c.name o.c", "c o"),
        (
            "SELECT window_start, SUM(amount) FROM TUMBLE(TABLE o, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
            " GROUP BY window_start, window_end",
            "o.ts; o.amount",
            "o",
        ),
        ("SELECT t, id FROM o CROSS JOIN UNNEST(tags) AS u (t)", "o.tags; o.id", "o"),
        ("SELECT id, SUM(amount) OVER (PARTITION BY c ORDER BY ts) FROM o", "o.id; o.amount o.c o.ts", "o"),
        (
            "WITH RECURSIVE r AS (SELECT id, c FROM o UNION ALL SELECT id + 1, c.city FROM r JOIN c ON c.name = r.c)"
            " SELECT * FROM r",
            "o.id; c.city o.c",
            "c o",
        ),
        ("WITH w AS (SELECT c AS k FROM o) SELECT a.k, b.k FROM w AS a, w AS b", "o.c; o.c", "o"),
        (
            "SELECT o.id, r.rate FROM o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.c = r.cur",
            "o.id; rates.rate",
            "o rates",
        ),
        ("SELECT COALESCE(c, CAST(id AS STRING)), COUNT(*) FROM o GROUP BY GROUPING SETS ((c), (id))", None, "o"),
    ],
)
def test_origins(environment: TableEnvironment, query: str, origins: str | None, tables: str) -> None:
    session = environment.session
    plan = session.at_a_version(lambda: bound_view(session, parse_query(query))).plan
    home = "default_catalog.default_database."
    assert " ".join(sorted(name.removeprefix(home) for name in tables_read(plan))) == tables
    found = "; ".join(
        " ".join(sorted(f"{table.removeprefix(home)}.{column}" for table, column in each))
        for each in column_origins(plan)
    )
    if origins is not None:
        assert found == origins
