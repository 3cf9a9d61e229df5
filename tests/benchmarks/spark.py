"""Ours on Spark beside what Spark has itself, over the same Parquet files, in one session: `python -m
tests.benchmarks.spark CASE [FOLDER]`.

CASE is one of

- `prepare`: writes the files (once; the others need them);
- `aggregate`: COUNT, SUM and MAX by key, against `groupBy().agg()` in update mode;
- `windows`: tumbling windows of event time by key, against `groupBy(window(...))`;
- `join`: an interval join of two streams, against the stream-stream join;
- `state`: the same totals by key, against `transformWithState` and `transformWithStateInPandas`, their state in RocksDB;
- `touched`: 5,000,000 keys of which each epoch touches 1 %: seconds, and bytes of state that are written;
- `first`: where the time of the first epoch goes;
- `reading`: sources read by tasks, and by the driver.

One file is one epoch of ours and one micro-batch of Spark's. Prints a line for each way: seconds of each epoch, and rows
a second of all but the first. Spark's own have two shuffle partitions, as many as there are cores, and their state where
Spark puts it by default.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from runtime.local.job import Job
from runtime.spark.session import spark_session
from sqlengine import TableEnvironment

EPOCH = 2_000_000
EPOCHS = 4
KEYS = 1_000_000
SMALL = 200_000
SMALL_KEYS = 20_000
MANY_KEYS = 5_000_000
BEGIN = 1_700_000_000_000_000
SCHEMA = "k BIGINT, v BIGINT, at TIMESTAMP_NTZ"
COLUMNS = "k BIGINT, v BIGINT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '4' SECOND"

TOTALS = "SELECT k, COUNT(*) AS n, SUM(v) AS v, MAX(v) AS m FROM t GROUP BY k"
WINDOWS = """SELECT k, window_start, COUNT(*) AS n, SUM(v) AS v FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(`at`),
  INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end"""
JOIN = """SELECT a.k, a.v, b.v FROM a JOIN b ON a.k = b.k
  AND b.`at` BETWEEN a.`at` - INTERVAL '2' SECOND AND a.`at` + INTERVAL '2' SECOND"""
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def write(folder: Path, files: Iterable[tuple[int, np.ndarray]], rate: int) -> None:
    """Files of rows with these keys, one behind the other in time; `rate`: rows a second of event time."""
    folder.mkdir(parents=True, exist_ok=True)
    row = 0
    chance = np.random.default_rng(1)
    for number, keys in files:
        count = len(keys)
        times = BEGIN + (np.arange(row, row + count) * 1_000_000 // rate) // 1000 * 1000
        row += count
        columns = [pa.array(keys), pa.array(chance.integers(0, 1000, count)), pa.array(times, pa.timestamp("us"))]
        pq.write_table(
            pa.table(columns, names=["k", "v", "at"]), folder / f"{number:04d}.parquet", row_group_size=1 << 19
        )
        os.utime(folder / f"{number:04d}.parquet", (1_700_000_000 + number, 1_700_000_000 + number))


def prepare(folder: Path) -> None:
    chance = np.random.default_rng(2)
    write(folder / "bids", ((n, chance.integers(0, KEYS, EPOCH)) for n in range(EPOCHS)), 100_000)
    half = EPOCH // 2
    write(folder / "left", ((n, np.arange(n * half, (n + 1) * half)) for n in range(EPOCHS)), 50_000)
    write(
        folder / "right",
        (
            (n, np.maximum(0, np.arange(n * half, (n + 1) * half) - chance.integers(0, 50_000, half)))
            for n in range(EPOCHS)
        ),
        50_000,
    )
    write(folder / "small", ((n, chance.integers(0, SMALL_KEYS, SMALL)) for n in range(EPOCHS)), 10_000)
    touched = [(0, np.arange(MANY_KEYS))]
    touched += [(n, chance.choice(MANY_KEYS, MANY_KEYS // 100, replace=False)) for n in range(1, 9)]
    write(folder / "touched", touched, 1_000_000)


def told(name: str, seconds: list[float], rows: int) -> None:
    later = seconds[1:] or seconds
    rate = rows * len(later) / sum(later)
    print(f"{name:40s} {rate:12,.0f} rows/s   " + " ".join(f"{s:.2f}" for s in seconds), flush=True)


def timed_epochs(t_env: TableEnvironment, insert: str) -> list[float]:
    """Seconds of each epoch of an INSERT."""
    seconds: list[float] = []
    last = [time.perf_counter()]

    def on_epoch(job: Job) -> None:
        now = time.perf_counter()
        seconds.append(now - last[0])
        last[0] = now

    def on_job(job: Job) -> None:
        job.on_epoch = on_epoch

    t_env.session.on_job = on_job
    last[0] = time.perf_counter()
    t_env.execute_sql(insert).wait()
    return seconds


def from_files(t_env: TableEnvironment, tables: dict[str, Path], query: str) -> str:
    """Declare tables over files, and one that keeps nothing: the INSERT of a query into that."""
    for table, path in tables.items():
        where = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet'"
        t_env.execute_sql(f"CREATE TABLE {table} ({COLUMNS}) WITH ({where})")
    columns = t_env.sql_query(query).schema
    types = ", ".join(f"c{i} {f.type.materialized().with_nullable(True)}" for i, f in enumerate(columns))
    t_env.execute_sql(f"CREATE TABLE out ({types}) WITH ('connector' = 'blackhole')")
    return f"INSERT INTO out {query}"


def ours(name: str, spark: Any, tables: dict[str, Path], query: str, epoch: int, **options: str) -> None:
    """Runs a query on Spark, or embedded when there is no session; an epoch has so many rows of each table."""
    with TableEnvironment.create({"sqlengine.epoch.max-rows": str(epoch), **options}, spark=spark) as t_env:
        told(name, timed_epochs(t_env, from_files(t_env, tables, query)), epoch * len(tables))


def theirs(name: str, frame: Any, mode: str, epoch: int) -> None:
    """Runs a streaming DataFrame to the end of what is there."""
    folder = tempfile.mkdtemp(prefix="benchmark-")
    query = (
        frame.writeStream.format("noop")
        .outputMode(mode)
        .option("checkpointLocation", folder)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = [p for p in query.recentProgress if p.numInputRows]
    told(name, [p.batchDuration / 1000 for p in found], epoch)
    shutil.rmtree(folder, ignore_errors=True)


def stream(spark: Any, path: Path) -> Any:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(path))


def totals(frame: Any) -> Any:
    """What `TOTALS` says, of a DataFrame."""
    from pyspark.sql import functions as f

    return frame.groupBy("k").agg(f.count("*"), f.sum("v"), f.max("v"))


def windowed(frame: Any) -> Any:
    """What `WINDOWS` says, of a DataFrame."""
    from pyspark.sql import functions as f

    timed = frame.withColumn("at", f.col("at").cast("timestamp")).withWatermark("at", "4 seconds")
    return timed.groupBy("k", f.window("at", "10 seconds")).agg(f.count("*"), f.sum("v"))


def joined(left: Any, right: Any) -> Any:
    """What `JOIN` says, of two DataFrames."""
    from pyspark.sql import functions as f

    sides = [
        frame.withColumn("at", f.col("at").cast("timestamp"))
        .withWatermark("at", "4 seconds")
        .select(*(f.col(c).alias(f"{side}_{c}") for c in ("k", "v", "at")))
        for side, frame in (("left", left), ("right", right))
    ]
    on = "left_k = right_k AND right_at BETWEEN left_at - INTERVAL 2 SECONDS AND left_at + INTERVAL 2 SECONDS"
    return sides[0].join(sides[1], f.expr(on))


def by_program(frame: Any, *, pandas: bool) -> Any:
    """What `TOTALS` says, by `transformWithState`. Needs pandas and protobuf."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

    class Totals(StatefulProcessor):
        """Row by row."""

        def init(self, handle: StatefulProcessorHandle) -> None:
            self._totals = handle.getValueState("totals", "n LONG, v LONG, m LONG")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            n, v, m = self._totals.get() if self._totals.exists() else (0, 0, 0)
            for row in rows:
                n, v, m = n + 1, v + row.v, max(m, row.v)
            self._totals.update((n, v, m))
            yield Row(k=key[0], n=n, v=v, m=m)

        def close(self) -> None:
            pass

    class FrameTotals(Totals):
        """A pandas DataFrame of each key's rows."""

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            from pandas import DataFrame

            n, v, m = self._totals.get() if self._totals.exists() else (0, 0, 0)
            for part in rows:
                n, v, m = n + len(part), v + int(part["v"].sum()), max(m, int(part["v"].max()))
            self._totals.update((n, v, m))
            yield DataFrame({"k": [key[0]], "n": [n], "v": [v], "m": [m]})

    how = {"outputStructType": "k LONG, n LONG, v LONG, m LONG", "outputMode": "Update", "timeMode": "None"}
    grouped = frame.groupBy("k")
    return (
        grouped.transformWithStateInPandas(FrameTotals(), **how)
        if pandas
        else grouped.transformWithState(Totals(), **how)
    )


def aggregate(spark: Any, folder: Path) -> None:
    frame = totals(stream(spark, folder / "bids"))
    theirs("Spark groupBy().agg(), update", frame, "update", EPOCH)
    ours("ours on Spark", spark, {"t": folder / "bids"}, TOTALS, EPOCH)
    ours("ours embedded", None, {"t": folder / "bids"}, TOTALS, EPOCH)


def windows(spark: Any, folder: Path) -> None:
    frame = windowed(stream(spark, folder / "bids"))
    theirs("Spark groupBy(window()).agg(), append", frame, "append", EPOCH)
    ours("ours on Spark", spark, {"t": folder / "bids"}, WINDOWS, EPOCH)
    ours("ours embedded", None, {"t": folder / "bids"}, WINDOWS, EPOCH)


def join(spark: Any, folder: Path) -> None:
    frame = joined(stream(spark, folder / "left"), stream(spark, folder / "right"))
    theirs("Spark stream-stream join, append", frame, "append", EPOCH)
    tables = {"a": folder / "left", "b": folder / "right"}
    ours("ours on Spark", spark, tables, JOIN, EPOCH // 2)
    ours("ours embedded", None, tables, JOIN, EPOCH // 2)


def state(spark: Any, folder: Path) -> None:
    """Needs pandas and protobuf."""
    ours("ours on Spark", spark, {"t": folder / "small"}, TOTALS, SMALL)
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    frame = stream(spark, folder / "small")
    theirs("Spark transformWithState", by_program(frame, pandas=False), "update", SMALL)
    theirs("Spark transformWithStateInPandas", by_program(frame, pandas=True), "update", SMALL)


def touched(spark: Any, folder: Path) -> None:
    query = "SELECT k, COUNT(*) AS n, SUM(v) AS v FROM t GROUP BY k"
    place = tempfile.mkdtemp(prefix="benchmark-")
    sizes: list[int] = []
    epoch = MANY_KEYS // 100
    rest = folder / "touched"
    with TableEnvironment.create(
        {"sqlengine.epoch.max-rows": "1000000", "sqlengine.spark.state-dir": place}, spark=spark
    ) as t_env:
        t_env.execute_sql(
            f"CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'filesystem', 'path' = '{rest}', 'format' = 'parquet')"
        )
        t_env.execute_sql("CREATE TABLE out (k BIGINT, n BIGINT, v BIGINT) WITH ('connector' = 'blackhole')")
        last, seconds, known = [time.perf_counter()], list[float](), dict[str, int]()

        def on_epoch(job: Job) -> None:
            now = time.perf_counter()
            seconds.append(now - last[0])
            last[0] = now
            files = {str(p): p.stat().st_size for p in Path(place).rglob("*.state")}
            sizes.append(sum(size for name, size in files.items() if name not in known))
            known.update(files)

        class Cut:
            """The keys in steps of a million rows, then a hundredth of them in each epoch."""

            def rows(self, sources: Any, number: int) -> list[int]:
                return [1_000_000 if number < MANY_KEYS // 1_000_000 else epoch]

        def on_job(job: Job) -> None:
            job.on_epoch = on_epoch

        t_env.session.on_job = on_job
        t_env.session.harness.cut = Cut()
        last[0] = time.perf_counter()
        t_env.execute_sql(f"INSERT INTO out {query}").wait()
    print("seconds of an epoch:", " ".join(f"{s:.2f}" for s in seconds))
    print("megabytes of state: ", " ".join(f"{s / 1e6:.1f}" for s in sizes), flush=True)
    shutil.rmtree(place, ignore_errors=True)


def reading(spark: Any, folder: Path) -> None:
    from_json = folder / "json"
    if not from_json.exists():
        spark.read.schema(SCHEMA).parquet(str(folder / "bids")).repartition(4).write.json(str(from_json))
    for wanted in ("false", "true"):
        options = {"sqlengine.spark.read-in-tasks": wanted}
        ours(
            f"Parquet, read in tasks: {wanted}",
            spark,
            {"t": folder / "bids"},
            "SELECT MOD(k, 1000), COUNT(*) FROM t GROUP BY MOD(k, 1000)",
            EPOCH // 2,
            **options,
        )
    for wanted in ("false", "true"):
        seconds: list[float] = []
        with TableEnvironment.create(
            {"sqlengine.epoch.max-rows": str(EPOCH // 2), "sqlengine.spark.read-in-tasks": wanted}, spark=spark
        ) as t_env:
            t_env.execute_sql(
                f"CREATE TABLE t (k BIGINT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = '{from_json}', 'format' = 'json')"
            )
            begin = time.perf_counter()
            t_env.execute_sql("SELECT MOD(k, 1000), COUNT(*) FROM t GROUP BY MOD(k, 1000)").wait()
            seconds.append(time.perf_counter() - begin)
        told(f"JSON, read in tasks: {wanted}", seconds, EPOCH * EPOCHS)


def first(spark: Any, folder: Path) -> None:
    for time_ in ("first", "second"):
        ours(f"{time_} job of a session", spark, {"t": folder / "small"}, TOTALS, SMALL)


CASES = {
    "aggregate": aggregate,
    "windows": windows,
    "join": join,
    "state": state,
    "touched": touched,
    "first": first,
    "reading": reading,
}


def main(case: str, folder: Path) -> None:
    if case == "prepare":
        prepare(folder)
        return
    begin = time.perf_counter()
    spark = spark_session("local[2,4]", {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "3g"})
    print(f"{case}: JVM and session {time.perf_counter() - begin:.1f} s", flush=True)
    CASES[case](spark, folder)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.gettempdir()) / "sqlengine-spark-benchmark")
