"""Plans of every kind of operator, of statements over tables in memory."""

from __future__ import annotations

import json
import warnings
from typing import Any

from runtime.core.errors import FormatError
from runtime.expr.function import FunctionRegistry
from runtime.plan.base import PhysicalNode
from runtime.plan.json import encode_plan
from runtime.plan.stored import decode_plan
from runtime.plan.walk import walk_all
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.statements.explain import planned
from sqlengine.testing.simulated import SimulatedEnvironment

TABLES = """
CREATE TABLE bids (id INT, item STRING, price DECIMAL(10, 2), tags ARRAY<STRING>, at TIMESTAMP(3),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND);
CREATE TABLE items (name STRING, cat INT, at TIMESTAMP(3), WATERMARK FOR at AS at, PRIMARY KEY (name) NOT ENFORCED);
CREATE TABLE sums (item STRING, total DECIMAL(38, 2), PRIMARY KEY (item) NOT ENFORCED);
CREATE TABLE codes (op STRING, id INT);
CREATE FUNCTION share AS 'tests.unit.table_api.function_program.share' LANGUAGE PYTHON;
"""
QUERIES = [
    "SELECT id + 1, UPPER(item), CASE WHEN price > 1 THEN 'a' ELSE item END FROM bids WHERE item LIKE 'a%' AND id IN (1, 2)",
    "SELECT item, SUM(price), COUNT(DISTINCT id) FILTER (WHERE id > 2), LISTAGG(item, '-') FROM bids GROUP BY item",
    "SELECT cat, MAX(name) FROM items GROUP BY ROLLUP (cat)",
    "SELECT b.id, i.cat FROM bids b LEFT JOIN items i ON b.item = i.name AND b.id < i.cat",
    "SELECT b.id, i.cat FROM bids b JOIN items FOR SYSTEM_TIME AS OF b.at AS i ON b.item = i.name",
    "SELECT a.id, c.price FROM bids a JOIN bids b ON a.item = b.item LEFT JOIN bids c ON a.item = c.item",
    "SELECT a.id, b.id AS nearest FROM bids a ASOF LEFT JOIN bids b ON a.item = b.item AND a.at >= b.at",
    "SELECT a.id FROM bids a JOIN bids b ON a.item = b.item AND a.at BETWEEN b.at - INTERVAL '1' HOUR AND b.at",
    "SELECT window_start, item, AVG(price) FROM TABLE(HOP(TABLE bids, DESCRIPTOR(at), INTERVAL '1' MINUTE, INTERVAL '5' MINUTE))"
    " GROUP BY window_start, window_end, item",
    "SELECT * FROM TABLE(SESSION(TABLE bids PARTITION BY item, DESCRIPTOR(at), INTERVAL '5' MINUTE))",
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY price DESC) AS n FROM bids) WHERE n <= 3",
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY at DESC) AS n FROM bids) WHERE n = 1",
    "SELECT id, SUM(price) OVER (PARTITION BY item ORDER BY at ROWS BETWEEN 3 PRECEDING AND CURRENT ROW),"
    " LAG(id) OVER (PARTITION BY item ORDER BY at) FROM bids",
    "SELECT id, share(id) FROM bids",
    "SELECT item, share(COUNT(*)) FROM bids GROUP BY item",
    "SELECT item FROM bids EXCEPT SELECT name FROM items",
    "SELECT id FROM bids UNION ALL SELECT cat FROM items",
    "SELECT id, tag FROM bids CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, n)",
    "SELECT id FROM bids ORDER BY at",
    "SELECT id FROM bids LIMIT 3",
    "WITH RECURSIVE r (n, s) AS (SELECT id, item FROM bids UNION SELECT r.n + 1, b.item FROM r JOIN bids AS b ON b.id = r.n"
    " WHERE r.n < 9) SELECT * FROM r",
    "SELECT * FROM bids MATCH_RECOGNIZE (PARTITION BY item ORDER BY at MEASURES SUM(A.price) AS s, LAST(B.id) AS l"
    " PATTERN (A+ B) WITHIN INTERVAL '1' HOUR DEFINE A AS A.price > 1, B AS B.id > LAST(A.id)) AS m",
    "SELECT * FROM bids MATCH_RECOGNIZE (PARTITION BY item ORDER BY at MEASURES FINAL SUM(A.price) AS s, LAST(B.id) AS l"
    " ALL ROWS PER MATCH PATTERN ((A+ | B)+? C) DEFINE A AS A.price > 1, B AS B.id > LAST(A.id)) AS m",
    "SELECT item, TUMBLE_END(at, INTERVAL '5' MINUTE) AS e, COUNT(*) AS n FROM bids"
    " GROUP BY item, TUMBLE(at, INTERVAL '5' MINUTE) EMIT CHANGES",
    "SELECT b.id, c.price FROM bids AS b"
    " LEFT JOIN LATERAL TABLE(SNAPSHOT(TABLE bids, load_completed_idle_timeout => INTERVAL '1' MINUTE)) AS c"
    " ON b.item = c.item AND b.price < c.price",
    "SELECT id FROM bids WHERE at > CAST(MZ_NOW() AS TIMESTAMP(3)) AND (id = 1 OR at <= MZ_NOW() + INTERVAL '1' HOUR)",
    "SELECT * FROM FROM_CHANGELOG(TABLE codes)",
    "SELECT * FROM TO_CHANGELOG(TABLE items)",
    "SELECT i.name, s.id FROM items AS i LEFT JOIN LATERAL TABLE(VECTOR_SEARCH("
    "TABLE (SELECT id, ARRAY[1e0, CAST(id AS DOUBLE)] AS v FROM bids), DESCRIPTOR(v), ARRAY[i.cat, 1], 2)) AS s ON TRUE",
    "VALUES (1, 'a', DATE '2024-01-01'), (2, 'b', NULL)",
]
VIEWS = [
    f"CREATE MATERIALIZED VIEW v AS {query}"
    for query in (
        "SELECT item, SUM(price) FROM bids GROUP BY item",
        "SELECT name, UUID() AS u, ARRAY[NOW()] AS since FROM items",
        "SELECT cat FROM items WHERE RAND() > 0.5",
        "SELECT * FROM TO_CHANGELOG(TABLE items)",
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY price DESC) AS n FROM bids) WHERE n <= 3",
    )
]
INSERTS = ["INSERT INTO sums SELECT item, SUM(price) FROM bids GROUP BY item"]


def environment() -> SimulatedEnvironment:
    made = SimulatedEnvironment.create()
    made.execute_script(TABLES)
    return made


def plans(env: SimulatedEnvironment) -> list[tuple[str, tuple[PhysicalNode, ...]]]:
    """The statements with their plans."""
    found: list[tuple[str, tuple[PhysicalNode, ...]]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for text in [*QUERIES, *VIEWS, *INSERTS]:
            statement = parse_statement(text)
            assert isinstance(statement, st.Statement)
            found.append((text, tuple(p.physical for p in planned(statement, env.session))))
    return found


def decoded(plan: Any, roots: tuple[PhysicalNode, ...], functions: FunctionRegistry) -> tuple[PhysicalNode, ...]:
    """What comes back of the JSON of a plan, over the tables that it had."""
    tables = [node.outside for node in walk_all(roots) if node.outside is not None]
    rest = iter(tables)

    def table(*_: object) -> Any:
        if not tables:
            raise FormatError("there is no table", code="E3210")
        return next(rest, tables[-1])

    return decode_plan(plan, table, functions)


def as_json(roots: tuple[PhysicalNode, ...]) -> Any:
    return json.loads(json.dumps(encode_plan(roots)))
