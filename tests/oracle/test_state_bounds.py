"""The state of queries over event time stays as large as what is open, however long they run and however many keys have
come and gone.

Every epoch brings keys and values never seen before and moves event time on, so that what an operator forgets to forget
(rows, keys in an index, interned strings, timers, arrays that only grow) adds up.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from sqlengine.api.environment import TableEnvironment
from tests.oracle.test_time_cuts import _WINDOWS, LAST_OF_B, QUERIES

EPOCHS = 126
ROWS = 24
START = 1_704_067_200_000
OF_KEYS = ("first", "last", "top", "temporal", "over", "overrows")
"""Queries of `QUERIES` whose state is so much for each key ever seen: a row or some, a version, a sum."""
OF_ALL_TIME = (*OF_KEYS, "regular", "semi", "notin", "dedwin", "session0")
"""Those, and what keeps all rows; a session without gaps never ends."""

MORE = {
    "lists": (
        "SELECT window_start, LISTAGG(k) l, ARRAY_AGG(k) a, COLLECT(k) c, COUNT(DISTINCT k) d, MIN(k) lo, MAX(k) hi, "
        "FIRST_VALUE(k) f, LAST_VALUE(k) z FROM {a5} GROUP BY window_start, window_end"
    ),
    "lists_by_key": (
        "SELECT window_start, k, LISTAGG(k) l, MAX(k) hi, COUNT(DISTINCT k) d FROM TABLE(HOP(TABLE a, DESCRIPTOR(at), "
        "INTERVAL '2' SECOND, INTERVAL '4' SECOND)) GROUP BY window_start, window_end, k"
    ),
    "session_lists": (
        "SELECT window_start, k, LISTAGG(k) l, MAX(k) m, LAST_VALUE(k) z FROM TABLE(SESSION(TABLE a PARTITION BY k, "
        "DESCRIPTOR(at), INTERVAL '3' SECOND)) GROUP BY k, window_start, window_end"
    ),
    "session_rows": "SELECT * FROM TABLE(SESSION(TABLE a PARTITION BY k, DESCRIPTOR(at), INTERVAL '3' SECOND))",
    "group_window": (
        "SELECT TUMBLE_START(at, INTERVAL '5' SECOND) s, k, SUM(v) t FROM a GROUP BY TUMBLE(at, INTERVAL '5' SECOND), k"
    ),
    "group_session": (
        "SELECT SESSION_START(at, INTERVAL '2' SECOND) s, k, MAX(k) t FROM a "
        "GROUP BY SESSION(at, INTERVAL '2' SECOND), k"
    ),
    "over_one": (
        "SELECT id, COUNT(*) OVER (ORDER BY at ROWS BETWEEN 20 PRECEDING AND CURRENT ROW) c, MAX(k) OVER (ORDER BY at "
        "ROWS BETWEEN 20 PRECEDING AND CURRENT ROW) m FROM a"
    ),
}
OF_KEYS_THAT_GO = {
    "groups": "SELECT k, COUNT(*) c, MAX(k) m, LISTAGG(k) l, COUNT(DISTINCT k) d, MIN(v) lo FROM t GROUP BY k",
    "distinct": "SELECT DISTINCT k, v FROM t",
    "join": "SELECT t.id, s.id AS sid, t.k FROM t JOIN t AS s ON t.k = s.k",
    "outer": "SELECT t.id, s.id AS sid, t.k FROM t LEFT JOIN t AS s ON t.k = s.k AND t.v < s.v",
    "anti": "SELECT id, k FROM t WHERE NOT EXISTS (SELECT 1 FROM t AS s WHERE s.k = t.k AND s.id > t.id)",
    "top": "SELECT * FROM (SELECT id, k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) rn FROM t) WHERE rn <= 2",
    "best": "SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY v DESC, id) rn FROM t) WHERE rn <= 5",
    "over": "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY id) s, MAX(k) OVER (PARTITION BY k) m FROM t",
    "except": "SELECT k, v FROM t EXCEPT SELECT k, id FROM t",
    "intersect": "SELECT k FROM t INTERSECT ALL SELECT k FROM t WHERE v > 3",
}


def _follow(environment: TableEnvironment, queries: dict[str, str]) -> None:
    for name, query in queries.items():
        environment.execute_sql(f"CREATE MATERIALIZED VIEW kept_{name} AS {query.format(**_WINDOWS)}")


def _sizes(environment: TableEnvironment) -> dict[str, np.ndarray]:
    """Rows and bytes of every operator, with what views have let gather."""
    found = {}
    for view in environment.session.views.up_to_date():
        for number, vertex in enumerate(view.job.dataflow.vertices):
            if vertex.operator is not None:
                size = vertex.operator.state_size
                name = f"{view.path.name} {type(vertex.node).__name__} {number}"
                found[name] = np.array([size.rows, size.bytes])
    return found


def _assert_bounded(sizes: list[dict[str, np.ndarray]]) -> None:
    """The most of the last third is at most a little more than the most of the third before."""
    third = len(sizes) // 3
    grown = {}
    for name in sizes[0]:
        before = np.max([s[name] for s in sizes[third : 2 * third]], axis=0)
        after = np.max([s[name] for s in sizes[2 * third :]], axis=0)
        if (after > before * 1.3 + (10, 4096)).any():
            grown[name] = (before.tolist(), after.tolist())
    assert not grown


def _keys(numbers: np.ndarray) -> pa.Array:
    return pa.array([f"{'key' * 200}{number}" for number in numbers.tolist()])


def _event_rows(chance: np.random.Generator, epoch: int, keys: int | None = None) -> pa.RecordBatch:
    """Rows of some seconds around the epoch's, never late, of keys that live for two epochs, or of so many keys."""
    at = np.maximum(0, epoch * 1000 - chance.choice([0, 0, 1000, 3000, 5000], ROWS))
    numbers = np.arange(ROWS) + epoch * ROWS
    columns = [
        pa.array(numbers, pa.int32()),
        pa.array((at + START) * 1000, pa.timestamp("us")),
        _keys(numbers % keys if keys is not None else numbers // (2 * ROWS) * ROWS + numbers % ROWS),
        pa.array(numbers + chance.integers(0, 3, ROWS), pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["id", "at", "k", "v"])


def _run(queries: dict[str, str], keys: int | None) -> list[dict[str, np.ndarray]]:
    """The sizes of the operators of queries over the tables `a` and `b` of event time, every other epoch."""
    chance = np.random.default_rng(1)
    with TableEnvironment.create({}) as environment:
        for table in "ab":
            environment.execute_sql(
                f"CREATE TABLE {table} (id INT, at TIMESTAMP(3), k STRING, v INT, "
                "WATERMARK FOR at AS at - INTERVAL '6' SECOND)"
            )
        environment.execute_sql(f"CREATE VIEW b_last AS SELECT k, v, at FROM ({LAST_OF_B}) WHERE rn = 1")
        _follow(environment, queries)
        tables = [environment.session.memory_table(environment.session.catalogs.get((t,), None)) for t in "ab"]
        sizes = []
        for epoch in range(EPOCHS):
            for table in tables:
                table.apply(ChangelogBatch(_event_rows(chance, epoch, keys)))
            environment.session.publish(tables)
            if epoch % 2 == 0:
                sizes.append(_sizes(environment))
        assert not [v.failure for v in environment.session.views.jobs() if v.failure is not None]
        return sizes


def test_state_of_event_time_is_that_of_the_open_windows() -> None:
    _assert_bounded(_run({n: q for n, q in QUERIES.items() if n not in OF_ALL_TIME} | MORE, None))


def test_state_per_key_does_not_follow_the_number_of_rows() -> None:
    _assert_bounded(_run({n: QUERIES[n] for n in OF_KEYS}, 6))


def test_state_of_keys_that_are_deleted_is_given_back() -> None:
    """A table of 50 rows that are all replaced by others again and again."""
    chance = np.random.default_rng(2)
    with TableEnvironment.create({}) as environment:
        environment.execute_sql("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, k STRING, v INT)")
        _follow(environment, OF_KEYS_THAT_GO)
        table = environment.session.memory_table(environment.session.catalogs.get(("t",), None))
        sizes = []
        before = None
        for epoch in range(EPOCHS):
            numbers = np.arange(50) + epoch * 50
            columns = [
                pa.array(numbers, pa.int32()),
                _keys(numbers // 2),
                pa.array(numbers % 7 + chance.integers(0, 3, 50), pa.int32()),
            ]
            batch = pa.RecordBatch.from_arrays(columns, names=["id", "k", "v"])
            if before is not None:
                table.apply(ChangelogBatch(before, np.full(50, 3, dtype=np.int8)))
            table.apply(ChangelogBatch(batch))
            before = batch
            environment.session.publish([table])
            if epoch % 2 == 0:
                sizes.append(_sizes(environment))
        assert not [v.failure for v in environment.session.views.jobs() if v.failure is not None]
        _assert_bounded(sizes)
