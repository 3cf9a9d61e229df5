"""The bars of the Spark runtime, side by side: `python -m tests.benchmarks.spark_bars [local|standalone] [SECONDS]`.

COUNT, SUM and MAX by key over the same Parquet files in one session, with two partitions: in long-lived tasks, in a Spark job
for each epoch, embedded with two threads, and by Spark's own streams with their state in RocksDB. All save a checkpoint
every 10 s (Spark's streams with every micro-batch, as they must). `standalone`: a master and two workers of one core.

- *small*: milliseconds of the median epoch of 2,000 rows;
- *large*: rows a second with epochs of 460,000 rows, without the first epoch;
- *late*: milliseconds from row to result at 20,000 rows a second, median and 99th of a hundred.

`python -m tests.benchmarks.spark_operators` compares windows and joins.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from runtime.spark.session import spark_session
from sqlengine import TableEnvironment
from tests.benchmarks.latency import measure
from tests.benchmarks.spark import COLUMNS, stream, timed_epochs, write
from tests.spark.standalone import standalone

SMALL, LARGE, KEYS, RATE = 2_000, 460_000, 100_000, 20_000
QUERY = "INSERT INTO out SELECT k, COUNT(*), SUM(v), MAX(v) FROM t GROUP BY k"


def epochs(spark: Any, folder: Path, rows: int, checkpoints: str, **options: str) -> list[float]:
    """Seconds of each epoch."""
    given = {
        "parallelism.default": "2",
        "sqlengine.epoch.max-rows": str(rows),
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.dir": checkpoints,
        **options,
    }
    with TableEnvironment.create(given, spark=spark) as t_env:
        t_env.execute_sql(
            f"CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'parquet')"
        )
        t_env.execute_sql("CREATE TABLE out (k BIGINT, n BIGINT, v BIGINT, m BIGINT) WITH ('connector' = 'blackhole')")
        return timed_epochs(t_env, QUERY)


def theirs(spark: Any, folder: Path) -> list[float]:
    """Seconds of each micro-batch of Spark's own."""
    from pyspark.sql import functions as f

    frame = stream(spark, folder).groupBy("k").agg(f.count("*"), f.sum("v"), f.max("v"))
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.format("noop").outputMode("update").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [p.batchDuration / 1000 for p in query.recentProgress if p.numInputRows]


def rate(rows: int, seconds: list[float]) -> float:
    later = seconds[1:]
    return rows * len(later) / sum(later)


def main(where: str, seconds: float) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bars-")))
        # Workers of a cluster would take the Python that their machine finds first.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        master = stack.enter_context(standalone(folder))[0] if where == "standalone" else "local[2]"
        chance = np.random.default_rng(3)
        write(folder / "small", ((n, chance.integers(0, KEYS, SMALL)) for n in range(100)), 100_000)
        write(folder / "large", ((n, chance.integers(0, KEYS, LARGE)) for n in range(12)), 100_000)
        conf = {
            "spark.sql.shuffle.partitions": "2",
            "spark.executor.memory": "600m",
            "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
            "RocksDBStateStoreProvider",
        }
        spark = spark_session(master, conf)
        stack.callback(spark.stop)
        ways: dict[str, tuple[Any, dict[str, str]]] = {
            "long-lived tasks": (spark, {"sqlengine.spark.mode": "continuous"}),
            "a job an epoch": (spark, {"sqlengine.spark.mode": "per-epoch"}),
            "embedded": (None, {}),
        }
        print(f"{where:20s}  small ms   large rows/s   late p50 ms   p99 ms", flush=True)
        for name, (session, options) in ways.items():
            checkpoints = [str(folder / f"checkpoints {name} {n}") for n in range(3)]
            few = epochs(session, folder / "small", SMALL, checkpoints[0], **options)
            many = epochs(session, folder / "large", LARGE, checkpoints[1], **options)
            late = {"p50": float("nan"), "p99": float("nan")}
            if name != "a job an epoch":
                saved = {"execution.checkpointing.interval": "10 s", "execution.checkpointing.dir": checkpoints[2]}
                late = measure("aggregate", RATE, seconds, {"parallelism.default": "2", **saved, **options}, session)
            print(
                f"{name:20s}  {median(few[1:]) * 1000:8.1f} {rate(LARGE, many):14,.0f} {late['p50']:13.1f} {late['p99']:8.1f}",
                flush=True,
            )
        own = theirs(spark, folder / "small")
        large = theirs(spark, folder / "large")
        print(f"{'Spark streams':20s}  {median(own[1:]) * 1000:8.1f} {rate(LARGE, large):14,.0f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "local", float(sys.argv[2]) if len(sys.argv) > 2 else 30.0)
