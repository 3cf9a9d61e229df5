"""Every Nexmark query over so many events: `python -m tests.benchmarks.nexmark 1000000 10000000`.

The queries are those of `sql_examples/nexmark`, over the events as files (made once per size), into a sink that
forgets. Each runs in a fresh process; then DuckDB answers the same query in batch over the same files, with two
threads. Printed per query:
events a second (of
all events of the size, also where a query reads only some kinds of them: the benchmark's own way to count), seconds,
seconds of processor of all threads, peak memory, and how many times faster than DuckDB it was. Nothing is written but
the events, in the system's temporary folder.

    --query q0,q5    only these            --format parquet,csv    default: both
    --check          compare the answers instead, row by row
    --no-duckdb      leave DuckDB out      --repeat 3              the best of so many runs
    --tasks 2        one task and so many, in turn, instead of DuckDB
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tests.benchmarks.nexmark_events import FORMATS, event_files
from tests.benchmarks.nexmark_run import EXAMPLES, ROOT

__all__ = ["main"]

TIMEOUT_SECONDS = 900
WIDTHS = (6, 12, 8, 8, 7, 10, 13, 8, 8, 7, 7)
HEADINGS = (
    "query",
    "events/s",
    "seconds",
    "cpu s",
    "MiB",
    "rows out",
    "DuckDB ev/s",
    "seconds",
    "cpu s",
    "MiB",
    "ratio",
)
TASK_HEADINGS = ("query", "1: secs", "cpu s", "own s", "n: secs", "cpu s", "own s", "clock", "own")
TASK_WIDTHS = (6, *[8] * (len(TASK_HEADINGS) - 1))


def main() -> int:
    """Exit status 1 when a query failed or, with --check, answers differently."""
    options = _options()
    known = sorted((p.stem for p in EXAMPLES.glob("q*.sql")), key=lambda q: int(q[1:]))
    queries = options.query.split(",") if options.query else known
    failed = 0
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    for events in options.events:
        for file_format in options.format.split(","):
            # Two rows of the same time may stand in either order: answers are compared where there are none.
            folder = event_files(events, file_format, 1000 if options.check else 10_000)
            print(f"\n{events:,} events, {file_format}")
            if options.tasks:
                print(_line(TASK_HEADINGS, TASK_WIDTHS), flush=True)
            elif not options.check:
                print(_line(HEADINGS[:6] if options.no_duckdb else HEADINGS), flush=True)
            for query in queries:
                job = {"query": query, "events": events, "folder": str(folder), "format": file_format}
                if options.check:
                    failed += _check({**job, "tasks": options.tasks or 1})
                elif options.tasks:
                    failed += _compare_tasks(job, options.tasks, options.repeat)
                else:
                    failed += _measure(job, options.repeat, not options.no_duckdb)
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.nexmark", description="The Nexmark queries over files of events."
    )
    parser.add_argument("events", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--query", default="")
    parser.add_argument("--format", default=",".join(FORMATS))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--no-duckdb", action="store_true")
    return parser.parse_args()


def _measure(job: dict[str, Any], repeat: int, with_duckdb: bool) -> int:
    ours = _best(job, "sqlengine", repeat)
    if "error" in ours:
        print(f"{job['query']:<7} {ours['error']}", flush=True)
        return 1
    rate = job["events"] / ours["seconds"]
    cells = [job["query"], *_cells(rate, ours), f"{ours['rows']:,}"]
    if with_duckdb:
        theirs = _best(job, "duckdb", repeat)
        if "error" in theirs:
            cells.append(theirs["error"])
        else:
            their_rate = job["events"] / theirs["seconds"]
            cells += [*_cells(their_rate, theirs), f"{rate / their_rate:.2f}"]
    print(_line(cells), flush=True)
    return 0


def _compare_tasks(job: dict[str, Any], tasks: int, repeat: int) -> int:
    """One task and several in turn: the least seconds, seconds of processor of all threads, and of the thread that runs
    the job, which does what is not divided and the share of one task; then how many times faster by the clock, and by
    that thread: what is left when the others never keep it waiting."""
    runs = [(_run({**job, "by": "sqlengine"}), _run({**job, "by": "sqlengine", "tasks": tasks})) for _ in range(repeat)]
    failed = [run for pair in runs for run in pair if "error" in run]
    if failed:
        print(f"{job['query']:<7} {failed[0]['error']}", flush=True)
        return 1
    one, many = [{key: min(pair[i][key] for pair in runs) for key in runs[0][0]} for i in (0, 1)]
    figures = [f"{run[key]:.2f}" for run in (one, many) for key in ("seconds", "processor", "thread")]
    ratios = [f"{one[key] / many[key]:.2f}" for key in ("seconds", "thread")]
    print(_line([job["query"], *figures, *ratios], TASK_WIDTHS), flush=True)
    return 0


def _cells(rate: float, run: dict[str, Any]) -> list[str]:
    return [f"{rate:,.0f}", f"{run['seconds']:.2f}", f"{run['processor']:.2f}", f"{run['bytes'] / 2**20:,.0f}"]


def _check(job: dict[str, Any]) -> int:
    found = _run({**job, "by": "check"})
    if "error" in found:
        print(f"{job['query']:<7} {found['error']}", flush=True)
        return 1
    verdict = "same" if found["difference"] == 0 else f"{found['difference']:,} rows differ"
    print(f"{job['query']:<7} {found['rows']:>13,} rows: {verdict}", flush=True)
    return int(found["difference"] != 0)


def _best(job: dict[str, Any], by: str, repeat: int) -> dict[str, Any]:
    runs = [_run({**job, "by": by}) for _ in range(repeat)]
    failed = [r for r in runs if "error" in r]
    return failed[0] if failed else min(runs, key=lambda r: r["seconds"])


def _run(job: dict[str, Any]) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.nexmark_run", json.dumps(job)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {TIMEOUT_SECONDS} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"])[-1][:150]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _line(cells: Sequence[str], widths: Sequence[int] = WIDTHS) -> str:
    first, *rest = cells
    return " ".join([f"{first:<{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(rest, widths[1:], strict=False))])


if __name__ == "__main__":
    sys.exit(main())
