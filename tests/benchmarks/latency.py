"""From row to result: `python -m tests.benchmarks.latency` pushes 100,000 rows a second, in pieces as they come due each
millisecond, and looks at each changed row of the result how long ago the newest row in it was due.

A row counts from the moment it was due, not from when it was pushed: if the engine falls behind, its delay counts. Each
query runs in a fresh process; what it does in the first seconds is left out. Printed, and written as lines of
`results/latency.jsonl`: milliseconds of the median row, of the 99th of a hundred, and of the slowest, and rows a second
that were taken.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.changelog import DELETE, UPDATE_BEFORE
from sqlengine import TableEnvironment
from tests.benchmarks import results
from tests.benchmarks.contenders import run

__all__ = ["QUERIES", "RATE", "main", "measure"]

RATE = 100_000
PIECE_SECONDS = 0.001
WARM_UP_SECONDS = 2.0
KEYS = 1_000
QUERIES = {
    "filter": "SELECT k, v * 2 AS doubled, due FROM stream WHERE v < 50",
    "aggregate": "SELECT k, COUNT(*) AS n, SUM(v) AS total, MAX(due) AS due FROM stream GROUP BY k",
    "join": "SELECT s.k, s.v, t.v AS other, s.due FROM stream AS s JOIN standing AS t ON s.k = t.k",
    "top 3": "SELECT k, v, due FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY due DESC) AS place FROM stream) "
    "WHERE place <= 3",
}


def main(words: list[str] | None = None) -> int:
    """Exit status 1 when a run failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.latency", description="From row to result.")
    parser.add_argument("--rate", type=int, default=RATE)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--under", default="")
    parser.add_argument("--out", default=str(results.RESULTS / "latency.jsonl"))
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.one:
        print(json.dumps(measure(options.one, options.rate, options.seconds)))
        return 0
    out, failed = Path(options.out), 0
    results.forget(out, lambda record: True)
    for number in range(options.repeat):
        for query in QUERIES:
            rate, seconds = str(options.rate), str(options.seconds)
            command = [sys.executable, "-m", __spec__.name, "--one", query, "--rate", rate, "--seconds", seconds]
            figures = run(command, options.under)
            failed += "error" in figures
            results.append(out, {"query": query, "rate": options.rate, "round": number, **figures})
    for (query,), record in results.medians(results.read(out), ["query"]).items():
        figures = [f"{record[name]:8.2f}" for name in ("p50", "p99", "slowest") if name in record]
        print(
            f"{query:<10}", record.get("error") or "  ".join([*figures, f"{record['rows_per_second']:>10,.0f} rows/s"])
        )
    return int(failed > 0)


def measure(
    query: str, rate: int, seconds: float, options: dict[str, str] | None = None, spark: Any = None
) -> dict[str, float]:
    """Milliseconds, in this process, or in the tasks of a Spark session."""
    with TableEnvironment.create(options, spark=spark) as environment:
        stream = environment.create_input("stream", "k BIGINT NOT NULL, v BIGINT NOT NULL, due BIGINT NOT NULL")
        standing = environment.create_input("standing", "k BIGINT NOT NULL, v BIGINT NOT NULL")
        changes = environment.execute_sql(QUERIES[query]).changes()
        standing_rows = pa.table({"k": np.arange(KEYS), "v": np.arange(KEYS)})
        total = int(rate * seconds)
        keys = np.random.default_rng(7).integers(0, KEYS, total)
        started = time.perf_counter_ns() + 500_000_000

        def push() -> None:
            standing.push(standing_rows)
            standing.close()
            sent = 0
            while sent < total:
                due = min(int((time.perf_counter_ns() - started) * rate / 1e9), total)
                if due > sent:
                    numbers = np.arange(sent, due)
                    times = started + (numbers * (1e9 / rate)).astype(np.int64)
                    stream.push(pa.record_batch({"k": keys[sent:due], "v": numbers % 100, "due": times}))
                    sent = due
                time.sleep(PIECE_SECONDS)
            stream.close()

        pusher = threading.Thread(target=push)
        gc.collect()
        pusher.start()
        late: list[np.ndarray] = []
        for batch in changes:
            now = time.perf_counter_ns()
            due = batch.rows["due"].to_numpy()
            if batch.kinds is not None:
                due = due[~np.isin(batch.kinds, (UPDATE_BEFORE, DELETE))]
            late.append((now - due)[due > started + WARM_UP_SECONDS * 1e9])
        taken = (time.perf_counter_ns() - started) / 1e9
        pusher.join()
    milliseconds = np.concatenate(late) / 1e6
    p50, p99 = np.percentile(milliseconds, [50, 99])
    return {"p50": p50, "p99": p99, "slowest": milliseconds.max(), "rows_per_second": total / taken}


if __name__ == "__main__":
    sys.exit(main())
