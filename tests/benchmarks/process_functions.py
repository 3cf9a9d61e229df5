"""A process function with a timer for each row, beside Flink's: `python -m tests.benchmarks.process_functions`.

Over the bids of Nexmark in files: for each bidder how many bids came until none came for ten seconds. Ours is called
row by row, and by epoch; Flink's is `flink_functions/Sessions.java`, which javac translates (`make bench-peers`; javac of
Java 17). Also ours without timers (a running count), which shows what a timer costs. Flink reads CSV; ours is
also measured over Parquet, where reading takes little. Each in a fresh process, after the
same over 100,000 events. Printed, and written as lines of `results/process_functions.jsonl`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import functools
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sqlengine import ProcessTableFunction, TableEnvironment, udptf
from tests.benchmarks import results
from tests.benchmarks.contenders import FLINK_PYTHON, flink_command, run
from tests.benchmarks.suites import NEXMARK

__all__ = ["FUNCTIONS", "main"]

GAP = dt.timedelta(seconds=10)
WARM_UP_SIZE = 100_000
SIZE = 1_000_000
FORMATS = ("csv", "parquet")
JAVA = Path(__file__).parent / "flink_functions"
BIDS = "CREATE TEMPORARY VIEW bids AS SELECT bidder, price, `dateTime` FROM bid"
RESULT = "CREATE TEMPORARY TABLE sessions_of_bidders (bidder BIGINT, n BIGINT{}) WITH ('connector' = 'blackhole')"
ROWTIME = ", `rowtime` TIMESTAMP(3)"


@udptf(result_types={"n": "BIGINT"}, state={"seen": "ROW<n BIGINT>"})
class Sessions(ProcessTableFunction):
    """Row by row."""

    def eval(self, ctx, seen, input):
        seen.n = (seen.n or 0) + 1
        ctx.register_on_time("idle", ctx.time() + GAP)

    def on_timer(self, ctx, seen):
        ctx.collect(seen.n)
        ctx.clear_all()


@udptf(func_type="arrow", result_types={"n": "BIGINT"}, state={"seen": "ROW<n BIGINT>"})
class EpochSessions(ProcessTableFunction):
    """By epoch."""

    def eval(self, ctx, seen, input):
        keys = ctx.keys()
        seen.put({"n": seen.get()["n"].fill_null(0).to_numpy() + np.bincount(keys, minlength=ctx.key_count)})
        last = np.zeros(ctx.key_count, "datetime64[ms]")
        # Bids come in order of time: of those of a key the last one is written last.
        last[keys] = input["dateTime"].to_numpy().astype("datetime64[ms]")
        ctx.register_on_time("idle", pa.array(last + np.timedelta64(GAP)))

    def on_timer(self, ctx, timers, seen):
        ctx.collect({"n": seen.get()["n"].take(pa.array(ctx.keys()))})
        ctx.clear_all()


@udptf(result_types={"n": "BIGINT"}, state={"seen": "ROW<n BIGINT>"})
class Counts(ProcessTableFunction):
    """Row by row, without timers."""

    def eval(self, ctx, seen, input):
        seen.n = (seen.n or 0) + 1
        ctx.collect(seen.n)


@udptf(func_type="arrow", result_types={"n": "BIGINT"}, state={"seen": "ROW<n BIGINT>"})
class EpochCounts(ProcessTableFunction):
    """By epoch, without timers."""

    def eval(self, ctx, seen, input):
        keys = ctx.keys()
        before = seen.get()["n"].fill_null(0).to_numpy()
        order = np.argsort(keys, kind="stable")
        counts = np.bincount(keys, minlength=ctx.key_count)
        place = np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts)
        seen.put({"n": before + counts})
        ctx.collect({"n": before[keys[order]] + place + 1}, rows=order)


FUNCTIONS: dict[str, Any] = {
    "sessions": Sessions,
    "sessions by epoch": EpochSessions,
    "counts": Counts,
    "counts by epoch": EpochCounts,
}


def statements(name: str, size: int, format_: str) -> list[str]:
    """Tables and the INSERT, for any program that speaks Flink's SQL."""
    folder = NEXMARK.files(size, format_, False)
    tables = [t for t in NEXMARK.tables_over(str(folder), format_) if " bid " in t]
    timed = name.startswith("sessions")
    call = f"sessions(input => TABLE bids PARTITION BY bidder{', on_time => DESCRIPTOR(`dateTime`)' if timed else ''})"
    return [
        *tables,
        BIDS,
        RESULT.format(ROWTIME if timed else ""),
        f"INSERT INTO sessions_of_bidders SELECT * FROM {call}",
    ]


def measure(name: str, size: int, format_: str) -> dict[str, float]:
    """Ours, in this process."""
    with TableEnvironment.create() as made:
        made.create_temporary_system_function("sessions", FUNCTIONS[name])
        *declared, insert = statements(name, size, format_)
        for statement in declared:
            made.execute_sql(statement)
        started, busy = time.perf_counter(), time.process_time()
        made.execute_sql(insert).wait()
        return {"seconds": time.perf_counter() - started, "processor": time.process_time() - busy}


def read_alone(size: int, format_: str) -> dict[str, float]:
    """What reading the bids takes, which is part of the others."""
    with TableEnvironment.create() as made:
        *declared, _ = statements("counts", size, format_)
        for statement in declared:
            made.execute_sql(statement)
        started, busy = time.perf_counter(), time.process_time()
        made.execute_sql("INSERT INTO sessions_of_bidders SELECT bidder, price FROM bid").wait()
        return {"seconds": time.perf_counter() - started, "processor": time.process_time() - busy}


def java_archive(folder: Path) -> Path:
    """`Sessions.java` as a jar. Raises CalledProcessError where javac refuses it."""
    lib = subprocess.run(
        [str(FLINK_PYTHON), "-c", "import pyflink, pathlib; print(pathlib.Path(pyflink.__file__).parent / 'lib')"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    classes = folder / "classes"
    subprocess.run(
        ["javac", "-parameters", "--release", "17", "-cp", f"{lib}/*", "-d", str(classes), str(JAVA / "Sessions.java")],
        check=True,
    )
    archive = folder / "sessions.jar"
    subprocess.run(["jar", "--create", "--file", str(archive), "-C", str(classes), "."], check=True)
    return archive


def in_flink(size: int, archive: Path) -> dict[str, Any]:
    settings = {
        "parallelism.default": "2",
        "pipeline.jars": archive.as_uri(),
        "table.local-time-zone": "UTC",
    }

    def with_function(rows: int) -> list[str]:
        *declared, insert = statements("sessions", rows, "csv")
        return [*declared, "CREATE TEMPORARY SYSTEM FUNCTION sessions AS 'Sessions'", insert]

    return run(
        flink_command({"settings": settings, "warm_up": with_function(WARM_UP_SIZE), "measured": with_function(size)})
    )


def main(words: list[str] | None = None) -> int:
    """Exit status 1 when a run failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.process_functions", description="Beside Flink's.")
    parser.add_argument("--size", type=int, default=SIZE, help="events; 46 of 50 are bids")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--one", choices=["read", *FUNCTIONS], help="measure this in this process, and print it")
    parser.add_argument("--format", choices=FORMATS, default="csv", help="of the files for --one")
    parser.add_argument("--out", default=str(results.RESULTS / "process_functions.jsonl"))
    given = parser.parse_args(words)
    if given.one:
        ask = read_alone if given.one == "read" else functools.partial(measure, given.one)
        ask(WARM_UP_SIZE, given.format)
        print(json.dumps(ask(given.size, given.format)))
        return 0
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        archive = java_archive(Path(folder)) if FLINK_PYTHON.exists() else None
        for number in range(given.repeat):
            ours = itertools.product(FORMATS, ("read", *FUNCTIONS))
            for format_, name in (*ours, *([("csv", "flink")] if archive is not None else [])):
                if name == "flink":
                    assert archive is not None
                    taken = in_flink(given.size, archive)
                else:
                    command = ["--one", name, "--size", str(given.size), "--format", format_]
                    taken = run([sys.executable, "-m", "tests.benchmarks.process_functions", *command])
                failed |= "error" in taken
                bids = given.size * 46 // 50
                rate = f"{bids / taken['seconds']:12,.0f} rows/s" if "seconds" in taken else taken["error"]
                print(f"{name:20} {format_:8} {rate}", flush=True)
                record = {"what": name, "format": format_, "rows": bids, "round": number, **taken}
                with Path(given.out).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
