"""How much memory the driver needs while a query reads a DataFrame, and how long that takes.

    python -m tests.benchmarks.spark_frame [MASTER [ROWS]]

The DataFrame is computed by Spark (`range`, with a text and a decimal), grouped by a key, on Spark and embedded. Memory is
the resident size of the driver's Python process, above what it was when the session was there.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from typing import Any

from runtime.spark.session import spark_session
from sqlengine.api.environment import TableEnvironment

QUERY = "SELECT k, COUNT(*) AS n, SUM(v) AS v, MAX(name) AS name FROM t WHERE v <> 7 GROUP BY k"


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


def main() -> None:
    master = sys.argv[1] if len(sys.argv) > 1 else "local[2]"
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 5_000_000
    spark = spark_session(master, {"spark.executor.memory": "600m"})
    with tempfile.TemporaryDirectory() as folder:
        for target in ("spark", "local"):
            for count in (rows // 50, rows):
                config = {"execution.target": target, "sqlengine.spark.state-dir": folder}
                with TableEnvironment.create(config, spark=spark) as t_env:
                    t_env.create_temporary_view("t", frame(spark, count))
                    started = time.monotonic()
                    with Highest() as memory:
                        found = t_env.execute_sql(QUERY).to_arrow()
                    seconds = time.monotonic() - started
                assert sum(found.column("n").to_pylist()) == count - 1
                grown = (memory.high - memory.before) / 1e6
                print(f"{target:6} {count:>10,} rows  {seconds:5.1f} s  driver +{grown:.0f} MB", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
