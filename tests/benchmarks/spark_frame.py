"""How much memory the driver needs while a query reads a DataFrame, or gives one, and how long that takes.

    python -m tests.benchmarks.spark_frame [MASTER [ROWS]]

The DataFrame is computed by Spark (`range`, with a text and a decimal), grouped by a key, on Spark and embedded; `to_spark`
gives all of its rows, or a row for every second one. Memory is the resident size of the driver's Python process, above what
it was when the session was there.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from runtime.spark.session import spark_session
from sqlengine.api.environment import TableEnvironment

QUERY = "SELECT k, COUNT(*) AS n, SUM(v) AS v, MAX(name) AS name FROM t WHERE v <> 7 GROUP BY k"

GIVEN = {
    "rows": "SELECT k, v, name, v * 2 AS twice FROM t WHERE v <> 7",
    "groups": "SELECT v / 2 AS k, COUNT(*) AS n, MAX(name) AS name FROM t GROUP BY v / 2",
}


def resident() -> int:
    """The resident size of this process, in bytes."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


class Highest:
    """The highest resident size while something is done."""

    def __enter__(self) -> Highest:
        self.before = self.high = resident()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self.high = max(self.high, resident())

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        self._thread.join()


def frame(spark: Any, rows: int) -> Any:
    """The rows: eight bytes of key, eight of value, a text, a decimal."""
    return spark.range(rows).selectExpr(
        "id % 1000 AS k",
        "id AS v",
        "concat('name ', id % 100000) AS name",
        "cast(id % 1000 AS DECIMAL(10, 2)) AS price",
    )


def measured(
    spark: Any, target: str, folder: str, count: int, what: str, work: Callable[[TableEnvironment], int]
) -> None:
    """The driver's memory and time while something is done with so many rows."""
    config = {"execution.target": target, "sqlengine.spark.state-dir": folder}
    with TableEnvironment.create(config, spark=spark) as t_env:
        t_env.create_temporary_view("t", frame(spark, count))
        started = time.monotonic()
        with Highest() as memory:
            found = work(t_env)
        seconds = time.monotonic() - started
    grown = (memory.high - memory.before) / 1e6
    print(f"{what:8} {target:6} {count:>10,} rows  {seconds:5.1f} s  driver +{grown:.0f} MB  {found:,}", flush=True)


def main() -> None:
    master = sys.argv[1] if len(sys.argv) > 1 else "local[2]"
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 5_000_000
    spark = spark_session(master, {"spark.executor.memory": "600m"})
    works: dict[str, Callable[[TableEnvironment], int]] = {
        "read": lambda t_env: sum(t_env.execute_sql(QUERY).to_arrow().column("n").to_pylist())
    }
    for what, query in GIVEN.items():
        works[what] = lambda t_env, query=query: t_env.execute_sql(query).to_spark(spark).count()
    with tempfile.TemporaryDirectory() as folder:
        for what, work in works.items():
            for target in ("spark", "local"):
                for count in (rows // 50, rows):
                    measured(spark, target, folder, count, what, work)
    spark.stop()


if __name__ == "__main__":
    main()
