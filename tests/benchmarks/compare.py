"""Every query side by side: `python -m tests.benchmarks.compare nexmark 1000000 10000000`.

For each query the contenders run in turn, each in a fresh process, `--repeat` times around; so what else the machine
does falls on all of them. Every run is a line in `tests/benchmarks/results/SUITE.jsonl`, from which `python -m
tests.benchmarks.report` makes the figures of docs/performance.md; runs that are there are not made again. Printed are
medians: events a second, of all events of the size, also where a query reads only some kinds of them (the benchmark's own
way to count).

    --query q0,q5      only these           --format parquet,csv              default: all of the suite
    --by ours,duckdb   only these           --repeat 5                        runs of each
    --again ours       measure anew, whatever is there
    --out FILE         another file         --under "taskset -c 0,1"          put before each command
    --check            compare the answers instead, row by row, with DuckDB's, and with --by flink with Flink's
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import sys
from pathlib import Path
from typing import Any

from tests.benchmarks import results
from tests.benchmarks.answers import disagreements
from tests.benchmarks.contenders import CONTENDERS, run
from tests.benchmarks.suites import GENERATED, SUITES

__all__ = ["main"]

KEY = ("suite", "size", "format", "query", "by")


def main(words: list[str] | None = None) -> int:
    """Exit status 1 when one of ours failed or, with --check, an answer differs."""
    options = _options(words)
    suite = SUITES[options.suite]
    out = Path(options.out) if options.out else results.RESULTS / f"{suite.name}.jsonl"
    queries = options.query.split(",") if options.query else suite.queries
    failed = 0
    for size in options.sizes:
        for file_format in options.format.split(",") if options.format else suite.formats:
            if options.check and file_format == GENERATED:
                # Nobody else reads what the generator makes; the files hold the same rows.
                continue
            folder = "" if file_format == GENERATED else str(suite.files(size, file_format, options.check))
            print(f"\n{suite.name}, {size:,} from {file_format}", flush=True)
            for query in queries:
                job = {"suite": suite.name, "size": size, "format": file_format, "query": query, "folder": folder}
                failed += disagreements(job, options.by.split(",")) if options.check else _measure(job, options, out)
    return int(failed > 0)


def _options(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.compare", description="Queries side by side.")
    parser.add_argument("suite", choices=sorted(SUITES))
    parser.add_argument("sizes", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--query", default="")
    parser.add_argument("--format", default="")
    parser.add_argument("--by", default=",".join(CONTENDERS))
    parser.add_argument("--again", default="")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out", default="")
    parser.add_argument("--under", default="")
    parser.add_argument("--check", action="store_true")
    return parser.parse_args(words)


def _measure(job: dict[str, Any], options: argparse.Namespace, out: Path) -> int:
    taking = [c for c in (CONTENDERS[name] for name in options.by.split(",")) if c.takes(job)]
    again = set(options.again.split(","))
    fields = {name: job[name] for name in KEY if name in job}
    results.forget(out, lambda r: r["by"] in again and all(r[name] == value for name, value in fields.items()))
    known = {(r["by"], r["round"]) for r in results.read(out) if all(r[n] == v for n, v in fields.items())}
    for number in range(options.repeat):
        for contender in taking:
            if (contender.name, number) not in known:
                figures = run(contender.command(job), options.under)
                made = {"at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"), "machine": _machine()}
                results.append(out, {**fields, "by": contender.name, "round": number, **figures, **made})
    found = [r for r in results.read(out) if all(r[name] == value for name, value in fields.items())]
    middle = {key[0]: record for key, record in results.medians(found, ["by"]).items()}
    shown = [f"{name} {_rate(job, record)}" for name, record in middle.items()]
    print(f"{job['query']:<4}  " + "   ".join(shown), flush=True)
    return sum("error" in record for name, record in middle.items() if name.startswith("ours"))


def _rate(job: dict[str, Any], record: results.Record) -> str:
    return str(record["error"]) if "error" in record else f"{job['size'] / record['seconds']:,.0f}"


def _machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


if __name__ == "__main__":
    sys.exit(main())
