"""State larger than memory in tasks on Spark: `python -m tests.benchmarks.spark_large_state [KEYS] [--memory 200mb]`.

COUNT and SUM by so many keys in two long-lived tasks on `local[2]`, which keep so much state in memory, and the rest in
RocksDB. First all keys come, a million in an epoch, then a hundredth of them in each of ten epochs, spread over all of
them. Checkpoints follow each other. Printed for both: seconds of the median and the slowest epoch, how many checkpoints there
were and their bytes, and the peak memory of a task's process until then.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from statistics import median
from typing import Any

from runtime.local.job import Job
from runtime.spark.continuous import continuous_of
from runtime.spark.session import spark_session
from sqlengine import TableEnvironment
from tests.benchmarks.one_run import peak_bytes

__all__ = ["main"]

STEP, LATER = 1_000_000, 10
TABLES = """CREATE TABLE t (k BIGINT, v BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{rows}',
  'fields.k.kind' = 'sequence', 'fields.k.start' = '0', 'fields.k.end' = '{last}', 'fields.v.max' = '100', 'fields.v.min' = '1');
CREATE TABLE out (k BIGINT, n BIGINT, v BIGINT) WITH ('connector' = 'blackhole')"""
QUERY = """INSERT INTO out SELECT k, COUNT(*), SUM(v) FROM (
  SELECT CASE WHEN k < {keys} THEN k ELSE MOD(k * 7919 * 104729, {keys}) END AS k, v FROM t) GROUP BY k"""
"""Rows behind the first ones are of any earlier key."""


class Cut:
    """How many rows an epoch has."""

    def __init__(self, keys: int) -> None:
        self._keys = keys

    def rows(self, sources: Any, epoch: int) -> list[int]:
        return [STEP if epoch < self._keys // STEP else self._keys // 100]


class Watch:
    """What is seen of a job, epoch by epoch."""

    def __init__(self, spark: Any) -> None:
        self._crew = continuous_of(spark.sparkContext)
        self._last = time.perf_counter()
        self.seconds: list[float] = []
        self.peaks: list[int] = []
        self.checkpoints: dict[int, int] = {}
        """By the epoch behind which each was taken, its bytes."""

    def __call__(self, job: Job) -> None:
        job.on_epoch = self._epoch

    def _epoch(self, job: Job) -> None:
        now = time.perf_counter()
        self.seconds.append(now - self._last)
        self._last = now
        self.peaks.append(max(map(peak_bytes, self._crew.pids), default=0))
        last = None if job.checkpoints is None else job.checkpoints.last
        if last is not None:
            self.checkpoints[last.epoch] = last.bytes

    def told(self, name: str, first: int, last: int) -> None:
        """What is seen of epochs from one number to another."""
        seconds = self.seconds[first:last]
        sizes = [size for epoch, size in self.checkpoints.items() if first < epoch <= last]
        print(
            f"{name:16s} epoch {median(seconds):6.2f} s, at most {max(seconds):6.2f} s; "
            f"{len(sizes)} checkpoints, {median(sizes or [0]) / 1e6:7.1f} MB; a task {max(self.peaks[first:last]) / 2**20:,.0f} MiB",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.spark_large_state")
    parser.add_argument("keys", type=int, nargs="?", default=10_000_000)
    parser.add_argument("--memory", default="200mb")
    asked = parser.parse_args()
    rows = asked.keys + LATER * (asked.keys // 100)
    with tempfile.TemporaryDirectory(prefix="large-state-") as folder, spark_session("local[2]", {}) as spark:
        options = {
            "parallelism.default": "2",
            "state.backend.type": "rocksdb",
            "state.backend.rocksdb.localdir": f"{folder}/rocksdb",
            "sqlengine.state.memory": asked.memory,
            "sqlengine.spark.state-dir": f"{folder}/versions",
            "execution.checkpointing.dir": f"{folder}/checkpoints",
            "execution.checkpointing.interval": "1 ms",
            "sqlengine.epoch.max-rows": str(STEP),
        }
        with TableEnvironment.create(options, spark=spark) as t_env:
            t_env.execute_script(TABLES.format(rows=rows, last=rows - 1))
            watch = Watch(spark)
            t_env.session.on_job = watch
            t_env.session.harness.cut = Cut(asked.keys)
            t_env.execute_sql(QUERY.format(keys=asked.keys)).wait()
            loaded = asked.keys // STEP
            print(f"{asked.keys:,} keys, {asked.memory} of memory for state")
            watch.told("all keys come", min(1, loaded - 1), loaded)
            watch.told("a hundredth", loaded, loaded + LATER)


if __name__ == "__main__":
    main()
