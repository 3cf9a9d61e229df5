"""What statements cost around the engine: `python -m tests.benchmarks.statements [NAME ..]`.

Each figure stands beside its bar: processor time, the least of some runs, so that other programs disturb little. Writes
nothing. How long a start takes is `tests/benchmarks/startup.py`.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator

from sqlengine import TableEnvironment

__all__ = ["main"]

Figure = tuple[str, float, float, str]
"""A line of the report: what, figure, bar, unit."""


def main(names: list[str] | None = None) -> None:
    """Print the figures of these groups, all of them when none is named."""
    for name, measure in GROUPS.items():
        if not names or name in names:
            gc.collect()
            with TableEnvironment.create() as t_env:
                for what, figure, bar, unit in measure(t_env):
                    print(f"{what:<58} {figure:8.2f} {unit:<3} (bar {bar:g} {unit})", flush=True)


def _least(run: Callable[[], object], times: int) -> float:
    """Seconds of the processor."""
    best = float("inf")
    for _ in range(times):
        started = time.process_time()
        run()
        best = min(best, time.process_time() - started)
    return best


def _values(t_env: TableEnvironment) -> Iterator[Figure]:
    count = 20_000
    t_env.execute_sql("CREATE TABLE t (id INT, name STRING, amount DECIMAL(10, 2), ok BOOLEAN, at TIMESTAMP(3))")
    rows = (
        f"({i}, 'n{i}', {i}.25, TRUE, TIMESTAMP '2024-01-01 00:{i // 60 % 60:02d}:{i % 60:02d}')" for i in range(count)
    )
    text = ", ".join(rows)
    micros = 1e6 / count
    yield (
        "INSERT of 20,000 rows of 5 constants, a row",
        _least(lambda: t_env.execute_sql(f"INSERT INTO t VALUES {text}"), 3) * micros,
        20,
        "µs",
    )
    query = f"SELECT COUNT(*) FROM (VALUES {text}) AS v (a, b, c, d, e) WHERE a > 5"
    yield (
        "SELECT from 20,000 such rows, a row",
        _least(lambda: t_env.execute_sql(query).to_arrow(), 3) * micros,
        20,
        "µs",
    )


def _in_list(t_env: TableEnvironment) -> Iterator[Figure]:
    t_env.execute_sql("CREATE TABLE t (id INT, name STRING)")
    t_env.execute_sql("INSERT INTO t VALUES (1, 'n1'), (-2, 'b')")
    for column, items in (("id", map(str, range(10_000))), ("name", (f"'n{i}'" for i in range(10_000)))):
        query = f"SELECT * FROM t WHERE {column} IN ({', '.join(items)})"
        seconds = _least(lambda query=query: t_env.execute_sql(query).to_arrow(), 5)  # type: ignore[misc]
        yield f"{column} IN of 10,000 values", seconds * 1e3, 50, "ms"


def _expressions(t_env: TableEnvironment) -> Iterator[Figure]:
    t_env.execute_sql("CREATE TABLE t (id INT, name STRING)")
    t_env.execute_sql("INSERT INTO t VALUES (1, 'n1'), (-2, 'b')")
    cases = {
        "OR of 10,000 equalities": "WHERE " + " OR ".join(f"id = {i}" for i in range(10_000)),
        "AND of 10,000 <> texts": "WHERE " + " AND ".join(f"name <> 'n{i}'" for i in range(10_000)),
        "1,000 operands of +": "WHERE 0 < " + " + ".join(["id"] * 1_000),
        "1,000 operands of ||": "WHERE '' < " + " || ".join(["name"] * 1_000),
    }
    for what, clause in cases.items():
        seconds = _least(lambda clause=clause: t_env.execute_sql(f"SELECT * FROM t {clause}").to_arrow(), 3)  # type: ignore[misc]
        yield what, seconds * 1e3, 100 if "10,000" in what else 600, "ms"


def _create(t_env: TableEnvironment) -> Iterator[Figure]:
    t_env.execute_sql("CREATE TABLE t (k INT, v INT)")
    numbers = iter(range(1_000))

    def create() -> None:
        i = next(numbers)
        t_env.execute_sql(
            f"CREATE MATERIALIZED VIEW v{i} AS SELECT k, SUM(v) AS s, COUNT(*) AS c FROM t WHERE v > {i} GROUP BY k"
        )

    create()
    yield "CREATE MATERIALIZED VIEW, the 2nd and on", _least(create, 20) * 1e3, 5, "ms"
    for _ in range(179):
        create()
    yield "CREATE MATERIALIZED VIEW, the 200th", _least(create, 20) * 1e3, 5, "ms"


def _one_row(t_env: TableEnvironment) -> Iterator[Figure]:
    t_env.execute_script(
        "CREATE TABLE t (k INT, v INT);"
        "CREATE MATERIALIZED VIEW a AS SELECT k, SUM(v) AS s FROM t GROUP BY k;"
        "CREATE MATERIALIZED VIEW b AS SELECT k, v + 1 AS w FROM t WHERE v > 10;"
        "CREATE MATERIALIZED VIEW c AS SELECT COUNT(*) AS n, MAX(v) AS m FROM t"
    )
    numbers = iter(range(10_000))

    def insert() -> None:
        i = next(numbers)
        t_env.execute_sql(f"INSERT INTO t VALUES ({i % 50}, {i})")

    yield "INSERT of one row with three views behind it", _least(insert, 500) * 1e3, 1, "ms"


def _many_views(t_env: TableEnvironment) -> Iterator[Figure]:
    t_env.execute_sql("CREATE TABLE t (k INT, v INT)")
    for i in range(200):
        t_env.execute_sql(
            f"CREATE MATERIALIZED VIEW v{i} AS SELECT k, SUM(v) AS s, COUNT(*) AS c FROM t WHERE v > {i} GROUP BY k"
        )
    rows = ", ".join(f"({i}, {i * 7})" for i in range(100))
    seconds = _least(lambda: t_env.execute_sql("INSERT INTO t VALUES (7, 500)"), 20)
    yield "INSERT of one row with 200 views behind it", seconds * 1e3, 40, "ms"
    seconds = _least(lambda: t_env.execute_sql(f"INSERT INTO t VALUES {rows}"), 10)
    yield "INSERT of 100 rows with 200 views behind it", seconds * 1e3, 100, "ms"


def _prepared(t_env: TableEnvironment) -> Iterator[Figure]:
    t_env.execute_sql("CREATE TABLE t (id INT, name STRING, amount DOUBLE)")
    numbers = iter(range(1_000_000))
    ms, micros = 1e3, 1e6

    def text() -> None:
        i = next(numbers)
        t_env.execute_sql(f"INSERT INTO t VALUES ({i}, 'n{i}', {i}.5)")

    yield "INSERT of one row as text", _least(text, 300) * ms, 1, "ms"
    insert = t_env.prepare("INSERT INTO t VALUES (?, ?, ?)")
    yield "INSERT of one row, prepared", _least(lambda: insert.execute([next(numbers), "n", 0.5]), 300) * ms, 0.5, "ms"
    rows = [(i, f"n{i}", i + 0.5) for i in range(20_000)]
    seconds = _least(lambda: insert.execute_many(rows), 3)
    yield "INSERT of 20,000 rows of 3 values, prepared, a row", seconds * micros / len(rows), 20, "µs"
    t_env.execute_sql("DELETE FROM t WHERE id >= 1000")
    query = "SELECT name, amount FROM t WHERE id = {} AND amount > {} ORDER BY name"
    seconds = _least(lambda: t_env.execute_sql(query.format(next(numbers) % 1000, 0.5)).to_arrow(), 100)
    yield "SELECT with two conditions as text", seconds * ms, 5, "ms"
    select = t_env.prepare(query.format("?", "?"))
    seconds = _least(lambda: select.execute([next(numbers) % 1000, 0.5]).to_arrow(), 100)
    yield "SELECT with two conditions, prepared", seconds * ms, 3, "ms"


GROUPS: dict[str, Callable[[TableEnvironment], Iterator[Figure]]] = {
    "values": _values,
    "in": _in_list,
    "expressions": _expressions,
    "create": _create,
    "one-row": _one_row,
    "many-views": _many_views,
    "prepared": _prepared,
}


if __name__ == "__main__":
    main(sys.argv[1:])
