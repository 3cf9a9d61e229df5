"""How throughput changes with the number of keys in the state: `python -m tests.benchmarks.growth`.

For each number of keys a fresh process first gives every key one row, in no order and not measured, then measures rows of keys
drawn at random. Two queries: `aggregate`, counts and sums by key; `join`, where each row meets the one row of its key in
a table that stands in the state. Drawn in two ways: from all keys, each as likely as the others, so that with more keys
fewer rows of an epoch share one and more results change; and from 10,000 that are `active`, others in each piece of 131,072
rows, so that only what is kept grows. Every run is a line in `results/growth.jsonl`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from sqlengine import TableEnvironment
from tests.benchmarks import results
from tests.benchmarks.contenders import run
from tests.benchmarks.one_run import peak_bytes

__all__ = ["KEYS", "QUERIES", "main", "measure"]

KEYS = (10_000, 100_000, 1_000_000, 10_000_000)
ROWS = 4_000_000
BATCH = 1 << 17
QUERIES = {
    "aggregate": "INSERT INTO forgotten SELECT k, COUNT(*), SUM(v) FROM stream GROUP BY k",
    "join": "INSERT INTO forgotten SELECT s.k, s.v, t.v FROM stream AS s JOIN standing AS t ON s.k = t.k",
}
ACTIVE = 10_000
WARM_UP = 3
"""Pieces that come before time is taken: with them the index makes room once more, which belongs to filling it."""
COLUMNS = "k BIGINT NOT NULL, v BIGINT NOT NULL"


def main(words: list[str] | None = None) -> int:
    """Exit status 1 when a run failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.growth", description="Keys against throughput.")
    parser.add_argument("--keys", default=",".join(map(str, KEYS)))
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--under", default="")
    parser.add_argument("--out", default=str(results.RESULTS / "growth.jsonl"))
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    parser.add_argument("--active", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.one:
        print(json.dumps(measure(options.one, int(options.keys), options.rows, options.active)))
        return 0
    out, failed = Path(options.out), 0
    results.forget(out, lambda record: True)
    runs = itertools.product(range(options.repeat), QUERIES, (0, ACTIVE), options.keys.split(","))
    for number, query, active, keys in runs:
        words = ["--one", query, "--keys", keys, "--rows", str(options.rows), "--active", str(active)]
        figures = run([sys.executable, "-m", __spec__.name, *words], options.under)
        failed += "error" in figures
        name = f"{query}, {active:,} active" if active else query
        results.append(out, {"query": name, "keys": int(keys), "round": number, **figures})
    for (query, keys), record in results.medians(results.read(out), ["query", "keys"]).items():
        print(f"{query:<24} {keys:>12,} keys", record.get("error") or f"{record['rows_per_second']:>12,.0f} rows/s")
    return int(failed > 0)


def measure(query: str, keys: int, rows: int, active: int = 0) -> dict[str, float]:
    """Rows a second with so many keys in the state, in this process. Args: `active`: the keys that a piece of rows is
    drawn from; 0 is all."""
    every = np.random.default_rng(5).permutation(keys)
    first = [_batch(every[start : start + BATCH]) for start in range(0, keys, BATCH)]
    drawn = [_batch(_drawn(np.random.default_rng(start), keys, active)) for start in range(0, rows, BATCH)]
    with TableEnvironment.create() as environment:
        stream = environment.create_input("stream", COLUMNS, capacity=BATCH)
        standing = environment.create_input("standing", COLUMNS)
        environment.execute_sql(
            "CREATE TABLE forgotten (k BIGINT, n BIGINT, s BIGINT) WITH ('connector' = 'blackhole')"
        )
        result = environment.execute_sql(QUERIES[query])
        flow = list(environment.session.jobs.jobs.values())[-1].job.dataflow
        filled = standing if query == "join" else stream
        for batch in first:
            filled.push(batch)
        standing.close()
        while flow.state_rows < keys:
            threading.Event().wait(0.01)
        for batch in drawn[:WARM_UP]:
            stream.push(batch)
        started, busy = time.perf_counter(), time.process_time()
        for batch in drawn:
            stream.push(batch)
        stream.close()
        result.wait()
        seconds = time.perf_counter() - started
        state = flow.state_bytes
    return {
        "rows_per_second": len(drawn) * BATCH / seconds,
        "seconds": seconds,
        "processor": time.process_time() - busy,
        "state": state,
        "bytes": peak_bytes(),
    }


def _drawn(chance: np.random.Generator, keys: int, active: int) -> np.ndarray:
    if not active or active >= keys:
        return chance.integers(0, keys, BATCH)
    return chance.integers(0, keys, active)[chance.integers(0, active, BATCH)]


def _batch(keys: np.ndarray) -> pa.RecordBatch:
    return pa.record_batch({"k": keys.astype(np.int64), "v": keys % 100})


if __name__ == "__main__":
    sys.exit(main())
