"""What checkpoints cost, and how fast state comes back: `python -m tests.benchmarks.checkpoints`.

Nexmark queries over generated events run with a checkpoint every ten seconds into a local folder, and without, in turn,
each in a fresh process. What counts is the time from the beginning of the first checkpoint to that of the third: two
whole intervals, in each of which one checkpoint is written. Printed are the events a second of both by the clock, what is
lost of them, the same in events a second of the processor, what part of the time the job itself waited for its state to
be collected, what part of the processor's seconds went into checkpoints (that, and all that the thread which writes does),
and at the end the geometric mean over all queries. Then a GROUP BY of so many keys is saved and restored.

    --query q5,q17      only these (default: all)
    --intervals 2       that are measured
    --repeat 1          rounds; the best of each counts
    --keys 5000000      to restore; 0 leaves that out
    --warm 0            so many GiB of memory are touched before each run: in a virtual machine memory that was not used
                        before may cost two seconds a GiB, which has nothing to do with what is measured
    --processor         intervals are seconds of the processor, for a machine that does other things, too

By the clock, checkpoints cost what the thread that writes takes from the others, and what the job waits. In seconds of
the processor, of all threads, the thread that writes counts in full although it has a core of its own: that is the most
that a machine without a second core would lose. Two runs, some seconds apart, differ by whatever the machine does
meanwhile, in a virtual one by a tenth and more; the part that went into checkpoints is of one run, and does not.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from runtime.local.job import Job
from sqlengine import TableEnvironment
from tests.benchmarks.suites import NEXMARK, ROOT

__all__ = ["main"]

INTERVAL = 10
EVENTS = 2_000_000_000
TIMEOUT_SECONDS = 1800
_GROUPS = """
CREATE TABLE numbers (k BIGINT, v INT) WITH ('connector' = 'datagen', 'number-of-rows' = '{keys}',
  'fields.k.kind' = 'sequence', 'fields.k.start' = '1', 'fields.k.end' = '{keys}', 'seed' = '1');
CREATE TABLE totals (k BIGINT, n BIGINT, total BIGINT) WITH ('connector' = 'blackhole');
"""


class ProcessorClock:
    """Processing time that goes on with the processor's, in milliseconds: intervals are as long as the work in them."""

    def now(self) -> int:
        return 1 + time.process_time_ns() // 1_000_000


def main() -> int:
    """Exit status 1 when a run failed."""
    if len(sys.argv) == 3 and sys.argv[1] == "--one":
        print(json.dumps(_measured(json.loads(sys.argv[2]))))
        return 0
    options = _options()
    known = NEXMARK.queries
    kept: list[tuple[float, float, float]] = []
    print(
        f"{'query':<6} {'events/s':>12} {'with':>12} {'lost':>7} {'of processor':>13} {'collecting':>11} {'in all':>7} "
        f"{'checkpoints':>12} {'MiB each':>9}",
        flush=True,
    )
    for query in options.query.split(",") if options.query else known:
        job = {"query": query, "intervals": options.intervals, "warm": options.warm, "processor": options.processor}
        plain: list[dict[str, Any]] = []
        saved: list[dict[str, Any]] = []
        for _ in range(options.repeat):
            plain.append(_run({**job, "saved": False}))
            saved.append(_run({**job, "saved": True}))
        before, after = max(r["rate"] for r in plain), max(r["rate"] for r in saved)
        lost = 1 - max(r["of_processor"] for r in saved) / max(r["of_processor"] for r in plain)
        own = min(r["own"] for r in saved)
        kept.append((after / before, 1 - lost, 1 - own))
        count, size = saved[-1]["checkpoints"], saved[-1]["bytes"] / max(1, saved[-1]["checkpoints"]) / 2**20
        print(
            f"{query:<6} {before:>12,.0f} {after:>12,.0f} {1 - after / before:>7.1%} {lost:>13.1%} "
            f"{saved[-1]['collecting']:>11.1%} {own:>7.1%} {count:>12} {size:>9,.1f}",
            flush=True,
        )
    by_clock, of_processor, own = (1 - np.exp(np.mean(np.log(ratios))) for ratios in zip(*kept, strict=True))
    print(f"{'mean':<6} {'':>12} {'':>12} {by_clock:>7.1%} {of_processor:>13.1%} {'':>11} {own:>7.1%}", flush=True)
    if options.keys:
        found = _run({"keys": options.keys})
        print(
            f"{options.keys:,} keys: saved in {found['save']:.1f} s, {found['bytes'] / 2**20:,.0f} MiB; restored in "
            f"{found['restore']:.1f} s ({found['restore_processor']:.1f} s of the processor)"
        )
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.checkpoints",
        description="What checkpoints cost, and how fast state comes back.",
    )
    parser.add_argument("--query", default="")
    parser.add_argument("--intervals", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--warm", type=float, default=0)
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--keys", type=int, default=5_000_000)
    return parser.parse_args()


def _run(job: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.checkpoints", "--one", json.dumps(job)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _measured(job: dict[str, Any]) -> dict[str, Any]:
    """In the fresh process."""
    with tempfile.TemporaryDirectory(prefix="sqlengine-checkpoints-") as folder:
        np.empty(int(job.get("warm", 0) * 2**30), np.uint8)[::4096] = 1
        return _restored(job["keys"], folder) if "keys" in job else _throughput(job, folder)


def _throughput(job: dict[str, Any], folder: str) -> dict[str, Any]:
    """Events a second of a query from the first checkpoint, or the time for it, to so many intervals later."""
    settings = {"execution.checkpointing.dir": folder, "execution.checkpointing.interval": f"{INTERVAL} s"}
    found: dict[str, Any] = {}
    clock = time.process_time if job["processor"] else time.perf_counter
    begun = clock()
    marks: list[tuple[float, float, int, float, float]] = []
    spent: list[float] = []
    wrote: list[float] = []

    def mark(of: Job) -> None:
        marks.append((time.perf_counter(), time.process_time(), _events(of), sum(spent), sum(wrote)))
        if len(marks) == 1 + job["intervals"]:
            seconds, busy, events, waited, written = (
                last - first for first, last in zip(marks[0], marks[-1], strict=True)
            )
            found.update(rate=events / seconds, of_processor=events / busy, collecting=waited / seconds)
            found["own"] = (waited + written) / busy
            found["checkpoints"], found["bytes"] = _written(of)
            of.cancel()

    def watch(running: Job) -> None:
        save = _timed(running.save, spent)

        def marked(**options: Any) -> Any:
            mark(running)
            return save(**options)

        def epoch(of: Job) -> None:
            if clock() - begun >= INTERVAL * (1 + len(marks)):
                mark(of)

        if job["saved"]:
            cast(Any, running).save = marked
            assert running.checkpoints is not None
            store: Any = running.checkpoints.store
            store.write = _timed(store.write, wrote, time.thread_time)
        else:
            running.on_epoch = epoch

    passing = ProcessorClock() if job["processor"] else None
    with TableEnvironment.create(settings if job["saved"] else {}, clock=passing) as t_env:
        declarations, insert = _statements(job["query"])
        t_env.execute_script(declarations)
        t_env.session.on_job = watch
        t_env.execute_sql(insert)
    return found


def _statements(query: str) -> tuple[str, str]:
    """An example as it stands, with persons, auctions and bids in one source, so that they come as they do in Nexmark;
    of many events and into a sink that forgets: its tables and views, and its INSERT."""
    text = (ROOT / "sql_examples" / "nexmark" / f"{query}.sql").read_text()
    source = (
        f"'connector' = 'nexmark', 'events.num' = '{EVENTS}', 'first-event.rate' = '10000', 'next-event.rate' = '10000'"
    )
    text = re.sub(r"WITH \('connector' = 'nexmark'[^)]*\)", f"WITH ({source}, 'seed' = '3')", text)
    result = rf"(CREATE TABLE nexmark_{query} \([^;]*?\))\s*((PARTITIONED|WITH)\b[^;]*)?;"
    declarations, rest = re.sub(result, r"\1 WITH ('connector' = 'blackhole');", text).split("\nINSERT INTO ")
    return declarations, "INSERT INTO " + rest.split(";")[0]


def _timed(
    function: Callable[..., Any], spent: list[float], clock: Callable[[], float] = time.perf_counter
) -> Callable[..., Any]:
    """The function, which notes its seconds."""

    def run(*args: Any, **options: Any) -> Any:
        started = clock()
        try:
            return function(*args, **options)
        finally:
            spent.append(clock() - started)

    return run


def _events(job: Job) -> int:
    """Rows that the sources have given."""
    return sum(v.rows_out for v in job.dataflow.vertices if v.operator is None)


def _written(job: Job) -> tuple[int, int]:
    """How many checkpoints there were, and the bytes of the newest one for each."""
    last = None if job.checkpoints is None else job.checkpoints.last
    return (0, 0) if last is None else (last.id, last.bytes * last.id)


def _restored(keys: int, folder: str) -> dict[str, Any]:
    settings = {"execution.checkpointing.dir": folder}
    insert = "INSERT INTO totals SELECT k, COUNT(*), SUM(v) FROM numbers GROUP BY k"
    with TableEnvironment.create(settings) as t_env:
        t_env.execute_script(_GROUPS.format(keys=keys))
        job = t_env.execute_sql(insert).job
        assert job is not None and job.checkpoints is not None and job.checkpoints.last is not None
        saved = job.checkpoints.last
    with TableEnvironment.create(settings) as t_env:
        t_env.execute_script(_GROUPS.format(keys=keys))
        started, busy = time.perf_counter(), time.process_time()
        job = t_env.execute_sql(insert).job
        taken, processor = time.perf_counter() - started, time.process_time() - busy
        assert job is not None and job.restored is not None
        assert job.dataflow.state_rows >= keys, job.dataflow.state_rows
    size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    return {"save": saved.duration / 1000, "bytes": size, "restore": taken, "restore_processor": processor}


if __name__ == "__main__":
    sys.exit(main())
