"""Memory of a job whose sink is slow: `python -m tests.benchmarks.slow_sink`.

Bids of Nexmark, generated as fast as they are asked for, go through a filter and a projection into a sink that takes ten
times as long for each batch as the source took to give it; then into one that takes no time. Each runs for so many seconds
in a fresh process. Printed is the memory of the process (resident, MiB) at the end of each tenth of the run, and the rows a
second. A job asks its sources for the next epoch only when its sinks have taken the last one, so memory does not follow
what the sink has not yet taken.

    --seconds 30    of each run          --factor 10    how much slower the sink is than the source
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from connectors.blackhole import table as blackhole
from runtime.core.changelog import ChangelogBatch
from runtime.local.job import Job
from sqlengine import TableEnvironment
from tests.benchmarks.suites import ROOT

__all__ = ["main"]

_TABLES = """
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3),
  extra STRING) WITH ('connector' = 'nexmark', 'nexmark.table' = 'bid', 'events.num' = '2000000000');
CREATE TABLE out_bids (auction BIGINT, price BIGINT, url STRING, extra STRING) WITH ('connector' = 'blackhole');
"""
_INSERT = "INSERT INTO out_bids SELECT auction, price + 1, UPPER(url), extra FROM bids WHERE price > 100"
_TENTHS = 10


def main() -> int:
    """Exit status 1 when a run failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.slow_sink", description="Memory of a job whose sink is slow."
    )
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--factor", type=float, default=10)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        _measure(options.seconds, options.factor)
        return 0
    print(f"{'sink':<12} {'rows/s':>12}   MiB after each tenth of {options.seconds:g} s", flush=True)
    words = ["--one", "--seconds", str(options.seconds), "--factor"]
    runs = [
        subprocess.run([sys.executable, "-m", __spec__.name, *words, str(factor)], cwd=ROOT, check=False)
        for factor in (0, options.factor)
    ]
    return int(any(run.returncode for run in runs))


def _measure(seconds: float, factor: float) -> None:
    writer: Any = blackhole._Writer
    reading: list[float] = [0.0]

    def write(_: Any, batch: ChangelogBatch) -> None:
        time.sleep(factor * reading[-1])

    writer.write = write
    memory: list[int] = []
    started = time.perf_counter()

    def watch(job: Job) -> None:
        source = job._sources[0]
        poll = source.poll

        def timed(*args: Any) -> Any:
            given = poll(*args)
            reading.append(given.seconds)
            return given

        source.poll = timed

        def epoch(of: Job) -> None:
            if time.perf_counter() - started >= seconds / _TENTHS * (1 + len(memory)):
                memory.append(_resident())
                if len(memory) == _TENTHS:
                    of.cancel()

        job.on_epoch = epoch

    with TableEnvironment.create() as t_env:
        t_env.execute_script(_TABLES)
        t_env.session.on_job = watch
        result = t_env.execute_sql(_INSERT)
        assert result.job is not None
        rows = sum(v.rows_out for v in result.job.dataflow.vertices if v.operator is None)
    name = f"{factor:g} x slower" if factor else "no time"
    print(f"{name:<12} {rows / seconds:>12,.0f}   {' '.join(f'{m / 2**20:,.0f}' for m in memory)}", flush=True)


def _resident() -> int:
    """Bytes of this process that are in memory now (Linux)."""
    return int(re.findall(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) * 1024


if __name__ == "__main__":
    sys.exit(main())
