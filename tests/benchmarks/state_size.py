"""State larger than memory: `python -m tests.benchmarks.state_size 20000000 --memory 160mb`.

A group aggregate (`agg`), a join of two tables (`join`), each over so many different keys, and an aggregate in which half of
the rows are of any earlier key (`again`), through SQL, into a sink that forgets: first with all state in memory, then with
the state backend `rocksdb` and so much memory for state. Each in a fresh process. Printed: rows a second, rows a second of
processor time of all threads, and the peak memory of the whole process.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from sqlengine import TableEnvironment
from tests.benchmarks.one_run import peak_bytes
from tests.benchmarks.suites import ROOT

__all__ = ["main"]

QUERIES = {
    "agg": "INSERT INTO out3 SELECT id, COUNT(*), SUM(v) FROM a GROUP BY id",
    "join": "INSERT INTO out3 SELECT a.id, a.v, b.v FROM a JOIN b ON a.id = b.id",
    "again": "INSERT INTO out3 SELECT k, COUNT(*), SUM(v) FROM "
    "(SELECT CASE WHEN MOD(id, 2) = 0 THEN id ELSE ABS(MOD(id * 7919, {keys})) END AS k, v FROM a) GROUP BY k",
}


def main() -> int:
    """Exit status 1 when a run failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.state_size", description="State on disk.")
    parser.add_argument("keys", type=int, nargs="?", default=20_000_000)
    parser.add_argument("--memory", default="160mb")
    parser.add_argument("--query", default="agg,join")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure(options.one, options.query, options.keys, options.memory)
        return 0
    failed = 0
    for query in options.query.split(","):
        for backend in ("memory", "rocksdb"):
            words = [str(options.keys), "--one", backend, "--query", query, "--memory", options.memory]
            failed += subprocess.run([sys.executable, "-m", __spec__.name, *words], cwd=ROOT, check=False).returncode
    return int(failed > 0)


def measure(backend: str, query: str, keys: int, memory: str) -> None:
    """Runs one query in this process and prints a line."""
    ids = f"'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{keys}'"
    source = (
        f"'connector' = 'datagen', 'number-of-rows' = '{keys}', {ids}, 'fields.v.min' = '1', 'fields.v.max' = '100'"
    )
    with TableEnvironment.create({"state.backend.type": backend, "sqlengine.state.memory": memory}) as environment:
        environment.execute_script(
            f"CREATE TABLE a (id BIGINT NOT NULL, v BIGINT) WITH ({source});"
            f"CREATE TABLE b (id BIGINT NOT NULL, v BIGINT) WITH ({source});"
            "CREATE TABLE out3 (id BIGINT, n BIGINT, s BIGINT) WITH ('connector' = 'blackhole')"
        )
        started, busy = time.perf_counter(), time.process_time()
        environment.execute_sql(QUERIES[query].format(keys=keys)).wait()
        seconds, processor = time.perf_counter() - started, time.process_time() - busy
    rows = keys * (2 if query == "join" else 1)
    print(
        f"{query:<6} {backend:<8} {keys:>12,} keys {rows / seconds:>12,.0f} rows/s {rows / processor:>12,.0f} rows/cpu s "
        f"{peak_bytes() / 2**20:>7,.0f} MiB",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
