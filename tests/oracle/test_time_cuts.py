"""Queries over event time do not depend on how the input was cut into statements.

Each query is a materialized view twice: one follows random inserts into two tables, one row or several at a time, out
of order but never late; the other is created at the end and reads the same rows as one epoch. Both have seen the same
watermark, so they must hold the same rows.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from sqlengine.api.environment import TableEnvironment
from sqlengine.testing.cells import row_lines

OUT_OF_ORDER_MS = 5_999

QUERIES = {
    "tumble": (
        "SELECT window_start, k, COUNT(*) n, SUM(v) s, COUNT(DISTINCT v) d, MIN(v) lo, MAX(v) hi FROM "
        "TABLE(TUMBLE(TABLE a, DESCRIPTOR(at), INTERVAL '7' SECOND)) GROUP BY window_start, window_end, k"
    ),
    "hop": (
        "SELECT window_start, COUNT(*) n, SUM(v) s, COUNT(DISTINCT k) d FROM TABLE(HOP(TABLE a, "
        "DESCRIPTOR(at), INTERVAL '3' SECOND, INTERVAL '9' SECOND)) GROUP BY window_start, window_end"
    ),
    "hopk": (
        "SELECT window_start, k, AVG(v) n, SUM(v) FILTER (WHERE v > 3) s FROM TABLE(HOP(TABLE a, "
        "DESCRIPTOR(at), INTERVAL '3' SECOND, INTERVAL '9' SECOND, INTERVAL '1' SECOND)) GROUP BY "
        "window_start, window_end, k"
    ),
    "cumulate": (
        "SELECT window_start, window_end, k, COUNT(*) n, SUM(v) s FROM TABLE(CUMULATE(TABLE a, "
        "DESCRIPTOR(at), INTERVAL '2' SECOND, INTERVAL '8' SECOND)) GROUP BY window_start, window_end, k"
    ),
    "session": (
        "SELECT k, window_start, window_end, COUNT(*) n, SUM(v) s, MAX(v) m FROM TABLE(SESSION(TABLE a "
        "PARTITION BY k, DESCRIPTOR(at), INTERVAL '3' SECOND)) GROUP BY k, window_start, window_end"
    ),
    "session0": (
        "SELECT window_start, window_end, COUNT(*) n, COUNT(DISTINCT k) s FROM TABLE(SESSION(TABLE a, "
        "DESCRIPTOR(at), INTERVAL '1' SECOND)) GROUP BY window_start, window_end"
    ),
    "cascade": (
        "SELECT window_start, SUM(s) t, COUNT(*) c FROM TABLE(TUMBLE(TABLE (SELECT window_time AS wt, k, "
        "SUM(v) AS s FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(at), INTERVAL '2' SECOND)) GROUP BY window_start, "
        "window_end, window_time, k), DESCRIPTOR(wt), INTERVAL '6' SECOND)) GROUP BY window_start, window_end"
    ),
    "wjoin": (
        "SELECT x.id, y.id AS yid, x.window_start FROM (SELECT * FROM {a5}) x JOIN (SELECT * FROM {b5}) y ON "
        "x.k = y.k AND x.window_start = y.window_start AND x.window_end = y.window_end"
    ),
    "wfull": (
        "SELECT x.id, y.id AS yid, x.window_start FROM (SELECT * FROM TABLE(HOP(TABLE a, DESCRIPTOR(at), "
        "INTERVAL '5' SECOND, INTERVAL '10' SECOND))) x FULL JOIN (SELECT * FROM TABLE(HOP(TABLE b, "
        "DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '10' SECOND))) y ON x.k = y.k AND x.v < y.v AND "
        "x.window_start = y.window_start AND x.window_end = y.window_end"
    ),
    "wanti": (
        "SELECT x.id FROM (SELECT * FROM {a5}) x WHERE NOT EXISTS (SELECT 1 FROM {b5} y WHERE x.k = y.k AND "
        "x.window_start = y.window_start AND x.window_end = y.window_end)"
    ),
    "wtop": (
        "SELECT * FROM (SELECT id, k, v, window_start, ROW_NUMBER() OVER (PARTITION BY window_start, "
        "window_end, k ORDER BY v DESC, id) rn FROM {a5}) WHERE rn <= 2"
    ),
    "wrank": (
        "SELECT * FROM (SELECT k, s, window_start, RANK() OVER (PARTITION BY window_start, window_end ORDER "
        "BY s DESC) rn FROM (SELECT window_start, window_end, k, SUM(v) s FROM {a5} GROUP BY window_start, "
        "window_end, k)) WHERE rn <= 2"
    ),
    "wlast": (
        "SELECT id, window_start FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k "
        "ORDER BY at DESC) rn FROM {a5}) WHERE rn = 1"
    ),
    "wfirst": (
        "SELECT id, window_start FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k "
        "ORDER BY at) rn FROM TABLE(HOP(TABLE a, DESCRIPTOR(at), INTERVAL '2' SECOND, INTERVAL '4' SECOND))) "
        "WHERE rn = 1"
    ),
    "first": "SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY at) rn FROM a) WHERE rn = 1",
    "last": ("SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY at DESC) rn FROM a) WHERE rn = 1"),
    "interval": (
        "SELECT a.id, b.id AS bid FROM a JOIN b ON a.k = b.k AND a.at BETWEEN b.at - INTERVAL '3' SECOND AND "
        "b.at + INTERVAL '1' SECOND"
    ),
    "ileft": (
        "SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON a.k = b.k AND a.v <> b.v AND a.at BETWEEN b.at - "
        "INTERVAL '3' SECOND AND b.at + INTERVAL '1' SECOND"
    ),
    "iright": (
        "SELECT a.id, b.id AS bid FROM a RIGHT JOIN b ON a.k = b.k AND a.at >= b.at AND a.at < b.at + "
        "INTERVAL '2' SECOND"
    ),
    "ifull": (
        "SELECT a.id, b.id AS bid FROM a FULL JOIN b ON a.k = b.k AND a.at >= b.at - INTERVAL '4' SECOND AND "
        "a.at <= b.at - INTERVAL '1' SECOND"
    ),
    "ieq": "SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON a.k = b.k AND a.at = b.at",
    "iwin": (
        "SELECT window_start, COUNT(*) c FROM TABLE(TUMBLE(TABLE (SELECT a.at, a.id FROM a JOIN b ON a.k = "
        "b.k AND a.at BETWEEN b.at - INTERVAL '3' SECOND AND b.at), DESCRIPTOR(at), INTERVAL '5' SECOND)) "
        "GROUP BY window_start, window_end"
    ),
    "iwinleft": (
        "SELECT window_start, COUNT(*) c, COUNT(bid) d FROM TABLE(TUMBLE(TABLE (SELECT a.at, a.id, b.id AS "
        "bid FROM a LEFT JOIN b ON a.k = b.k AND a.at BETWEEN b.at - INTERVAL '3' SECOND AND b.at), "
        "DESCRIPTOR(at), INTERVAL '5' SECOND)) GROUP BY window_start, window_end"
    ),
    "temporal": "SELECT a.id, r.v FROM a JOIN b_last FOR SYSTEM_TIME AS OF a.at AS r ON a.k = r.k",
    "over": (
        "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY at) s, COUNT(*) OVER (PARTITION BY k ORDER BY at) c, "
        "MAX(v) OVER (PARTITION BY k ORDER BY at) m FROM a"
    ),
    "over10": (
        "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY at RANGE BETWEEN INTERVAL '4' SECOND PRECEDING AND "
        "CURRENT ROW) s, COUNT(DISTINCT v) OVER (PARTITION BY k ORDER BY at RANGE BETWEEN INTERVAL '4' SECOND "
        "PRECEDING AND CURRENT ROW) c, MIN(v) OVER (PARTITION BY k ORDER BY at RANGE BETWEEN INTERVAL '4' "
        "SECOND PRECEDING AND CURRENT ROW) c2 FROM a"
    ),
    "overrows": (
        "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY at ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) s, "
        "MAX(v) OVER (PARTITION BY k ORDER BY at ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) c, LAG(v) OVER "
        "(PARTITION BY k ORDER BY at) l FROM a"
    ),
    "overwin": (
        "SELECT window_start, SUM(s) t FROM TABLE(TUMBLE(TABLE (SELECT at, COUNT(*) OVER (ORDER BY at RANGE "
        "BETWEEN INTERVAL '4' SECOND PRECEDING AND CURRENT ROW) s FROM a), DESCRIPTOR(at), INTERVAL '5' "
        "SECOND)) GROUP BY window_start, window_end"
    ),
    "sort": "SELECT id, at FROM a ORDER BY at, id",
    "union": (
        "SELECT window_start, COUNT(*) c FROM TABLE(TUMBLE(TABLE (SELECT at, k FROM a UNION ALL SELECT at, k "
        "FROM b WHERE v > 2), DESCRIPTOR(at), INTERVAL '5' SECOND)) GROUP BY window_start, window_end"
    ),
    "winagg_join": (
        "SELECT x.k, x.s, y.s AS s2, x.window_start FROM (SELECT window_start, window_end, k, SUM(v) s FROM "
        "{a5} GROUP BY window_start, window_end, k) x LEFT JOIN (SELECT window_start, window_end, k, SUM(v) s "
        "FROM {b5} GROUP BY window_start, window_end, k) y ON x.window_start = y.window_start AND "
        "x.window_end = y.window_end AND x.k = y.k"
    ),
    "rollup": "SELECT window_end, k, v, COUNT(*) c FROM {a5} GROUP BY window_start, window_end, ROLLUP(k, v)",
    "dedwin": (
        "SELECT window_start, COUNT(*) c, SUM(v) s FROM TABLE(TUMBLE(TABLE (SELECT at, k, v FROM (SELECT *, "
        "ROW_NUMBER() OVER (PARTITION BY k, v ORDER BY at) rn FROM a) WHERE rn = 1), DESCRIPTOR(at), INTERVAL "
        "'5' SECOND)) GROUP BY window_start, window_end"
    ),
    "regular": "SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON a.k = b.k AND a.v = b.v",
    "top": (
        "SELECT id, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) rn FROM a) WHERE rn <= 3"
    ),
    "semi": "SELECT id FROM a WHERE (k, v) IN (SELECT k, v FROM b)",
    "notin": "SELECT id FROM a WHERE v NOT IN (SELECT v FROM b WHERE b.k = a.k)",
    "cumdist": (
        "SELECT window_start, window_end, COUNT(DISTINCT k) n, MAX(v) s, LISTAGG(k) l FROM "
        "TABLE(CUMULATE(TABLE (SELECT * FROM a), DESCRIPTOR(at), INTERVAL '2' SECOND, INTERVAL '8' SECOND)) "
        "GROUP BY window_start, window_end"
    ),
}

LAST_OF_B = "SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY at DESC) AS rn FROM b"
_WINDOWS = {
    "a5": "TABLE(TUMBLE(TABLE a, DESCRIPTOR(at), INTERVAL '5' SECOND))",
    "b5": "TABLE(TUMBLE(TABLE b, DESCRIPTOR(at), INTERVAL '5' SECOND))",
}


def _contents(environment: TableEnvironment, view: str) -> Counter[str]:
    *_, result = environment.execute_script(f"SELECT * FROM {view}")
    return Counter(row_lines(result.folded(), result.schema))


def _insert(environment: TableEnvironment, chance: random.Random) -> None:
    """Random inserts: time goes on for both tables, a row is at most as old as the watermarks allow."""
    now = identity = 0
    for _ in range(chance.randint(5, 25)):
        rows = []
        for _ in range(chance.choice([1, 1, 2, 5])):
            now += chance.choice([0, 0, 500, 1_000, 1_000, 4_000])
            identity += 1
            at = max(0, now - chance.choice([0, 0, 1_000, 3_000, OUT_OF_ORDER_MS]))
            time = f"TO_TIMESTAMP('2024-01-01') + INTERVAL '{at // 1000}.{at % 1000:03}' SECOND(5, 3)"
            key = chance.choice(["'p'", "'q'", "'r'", "NULL"])
            rows.append(
                f"({identity}, CAST({time} AS TIMESTAMP(3)), {key}, {chance.choice(['1', '2', '3', '4', '5', 'NULL'])})"
            )
        environment.execute_script(f"INSERT INTO {chance.choice('ab')} VALUES {', '.join(rows)}")


@pytest.mark.parametrize("seed", range(2))
def test_views_over_event_time_do_not_depend_on_the_cuts(seed: int) -> None:
    chance = random.Random(seed)
    with TableEnvironment.create({}) as environment:
        environment.session.harness.checked = True
        for table in "ab":
            environment.execute_script(
                f"CREATE TABLE {table} (id INT, at TIMESTAMP(3), k STRING, v INT, "
                "WATERMARK FOR at AS at - INTERVAL '6' SECOND)"
            )
        environment.execute_script(f"CREATE VIEW b_last AS SELECT k, v, at FROM ({LAST_OF_B}) WHERE rn = 1")
        queries = {name: query.format(**_WINDOWS) for name, query in QUERIES.items()}
        for name, query in queries.items():
            environment.execute_script(f"CREATE MATERIALIZED VIEW followed_{name} AS {query}")
        _insert(environment, chance)
        different = []
        rows = 0
        for name, query in queries.items():
            environment.execute_script(f"CREATE MATERIALIZED VIEW at_once_{name} AS {query}")
            followed, at_once = _contents(environment, f"followed_{name}"), _contents(environment, f"at_once_{name}")
            rows += at_once.total()
            if followed != at_once:
                different.append((name, dict(followed - at_once), dict(at_once - followed)))
        assert rows > len(queries)
        assert not different
        assert not _contents(environment, "system.rejected")
