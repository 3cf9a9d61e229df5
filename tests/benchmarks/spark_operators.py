"""The aggregate, the window and the join beside Spark's own: `python -m tests.benchmarks.spark_operators [local|standalone] [CASE ...]`.

The same Parquet files in one session with two partitions, by: long-lived tasks, a Spark job for each epoch, the embedded
runtime with two threads, Spark's streams with their state in RocksDB, `transformWithState` in Python (the aggregate alone, with a
tenth of the rows in an epoch), and one batch query of Spark over all of it. Ours save a checkpoint every 10 s, Spark's streams with every
micro-batch, as they must; RocksDB writes its changes only then. An epoch of ours is one file, as a micro-batch of Spark's is.

Prints rows a second without the first epoch, of Spark's batch query with all, and how many times Spark's streams that is.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from runtime.spark.session import spark_session
from sqlengine import TableEnvironment
from tests.benchmarks.spark import (
    JOIN,
    ROCKSDB,
    SCHEMA,
    TOTALS,
    WINDOWS,
    by_program,
    from_files,
    joined,
    stream,
    timed_epochs,
    totals,
    windowed,
    write,
)
from tests.spark.standalone import standalone

ROWS, FILES, KEYS = 460_000, 8, 100_000
CASES: dict[str, tuple[str, dict[str, str], Callable[..., Any], str]] = {
    "aggregate": (TOTALS, {"t": "bids"}, totals, "update"),
    "window": (WINDOWS, {"t": "bids"}, windowed, "append"),
    "join": (JOIN, {"a": "left", "b": "right"}, joined, "append"),
}
"""By name: ours, its tables with their files, the same of Spark's DataFrames, and how that is written."""
WAYS = {
    "long-lived tasks": {"execution.target": "spark", "sqlengine.spark.mode": "continuous"},
    "a job an epoch": {"execution.target": "spark", "sqlengine.spark.mode": "per-epoch"},
    "embedded": {},
}


def prepare(folder: Path) -> None:
    chance = np.random.default_rng(3)
    write(folder / "bids", ((n, chance.integers(0, KEYS, ROWS)) for n in range(FILES)), 100_000)
    write(folder / "few", ((n, chance.integers(0, KEYS, ROWS // 10)) for n in range(FILES)), 100_000)
    half = ROWS // 2
    left = [(n, np.arange(n * half, (n + 1) * half)) for n in range(FILES)]
    write(folder / "left", left, 50_000)
    write(folder / "right", ((n, np.maximum(0, keys - chance.integers(0, 50_000, half))) for n, keys in left), 50_000)


def ours(spark: Any, query: str, tables: dict[str, Path], options: dict[str, str], checkpoints: Path) -> float:
    """Rows a second."""
    given = {
        "parallelism.default": "2",
        "sqlengine.epoch.max-rows": str(ROWS // len(tables)),
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.dir": str(checkpoints),
        **options,
    }
    with TableEnvironment.create(given, spark=spark if options else None) as t_env:
        seconds = timed_epochs(t_env, from_files(t_env, tables, query))
    return ROWS * (FILES - 1) / sum(seconds[1:])


def streams(frame: Any, mode: str, rows: int) -> float:
    """Rows a second of a streaming DataFrame."""
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.format("noop").outputMode(mode).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = [p.batchDuration / 1000 for p in query.recentProgress if p.numInputRows]
    return rows * len(seconds[1:]) / sum(seconds[1:])


def batch(frame: Any) -> float:
    """Rows a second of a DataFrame over all files."""
    begun = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return ROWS * FILES / (time.perf_counter() - begun)


def main(where: str, cases: list[str]) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="operators-")))
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        master = stack.enter_context(standalone(folder))[0] if where == "standalone" else "local[2]"
        prepare(folder)
        conf = {
            "spark.sql.shuffle.partitions": "2",
            "spark.executor.memory": "600m",
            "spark.driver.memory": "2g",
            "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        }
        spark = spark_session(master, conf)
        stack.callback(spark.stop)
        for case in cases or CASES:
            query, tables, made, mode = CASES[case]
            places = {table: folder / name for table, name in tables.items()}
            base = streams(made(*(stream(spark, place) for place in places.values())), mode, ROWS)
            found = {"Spark streams": base}
            for name, options in WAYS.items():
                found[name] = ours(spark, query, places, options, folder / f"{case} {name}")
            if case == "aggregate":
                found["transformWithState"] = streams(
                    by_program(stream(spark, folder / "few"), pandas=False), mode, ROWS // 10
                )
            whole = made(*(spark.read.schema(SCHEMA).parquet(str(place)) for place in places.values()))
            found["Spark batch"] = batch(whole)
            for name, rate in found.items():
                print(f"{where}  {case:10s} {name:20s} {rate:12,.0f} rows/s {rate / base:7.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "local", sys.argv[2:])
