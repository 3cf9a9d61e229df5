"""One query in a fresh process, so that memory and caches are its own: `python -m tests.benchmarks.one_run JOB`.

JOB is a JSON object: `by` ("ours", "duckdb" or "check"), `suite` ("nexmark", "tpch"), `query` ("q0" ...), `size` in
events or rows, `folder` and `format` of the files (format "generator": no files), `tasks` of a keyed operator (1 if it
is not given), `warm_up`, over which the query is first answered unmeasured (another such folder, or so many generated
events). Prints one JSON object: `seconds` from the statement to its end (imports and the declaration of tables left
out), `processor` seconds of all threads in that time (of ours also `thread`, those of the thread that runs the job),
`rows` that came out, of ours `state`, the bytes kept when the input ended, and `bytes` of peak memory of the process; for
"check" `difference`, the number of rows in which the two answers differ.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from pathlib import Path
from typing import Any

import duckdb

from runtime.core.clock import Clock, VirtualClock
from sqlengine import TableEnvironment
from tests.benchmarks.suites import GENERATED, SUITES
from tests.oracle.duckdb_oracle import connect

__all__ = ["answer_of", "ask_duckdb", "ask_ours", "check", "environment", "judge", "peak_bytes", "warmed"]

CLOCK_OF_Q12 = 1_577_836_815_000
"""The processing time that DuckDB's text of Nexmark's q12 supposes, milliseconds: all bids in one window."""
THREADS = 2
BLACKHOLE = "WITH ('connector' = 'blackhole')"


def environment(job: dict[str, Any], clock: Clock | None = None) -> TableEnvironment:
    """With the tables that are read."""
    suite = SUITES[job["suite"]]
    generated = job["format"] == GENERATED
    tables = suite.generated_tables(job["size"]) if generated else suite.tables_over(job["folder"], job["format"])
    made = TableEnvironment.create({"parallelism.default": str(job.get("tasks", 1))}, clock=clock)
    for table in tables:
        made.execute_sql(table)
    return made


def judge(job: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    """DuckDB with the tables as views over the same files."""
    connection = connect()
    connection.execute(f"SET threads = {THREADS}")
    for name, columns in SUITES[job["suite"]].tables.items():
        if job["format"] == "parquet":
            read = f"read_parquet('{job['folder']}/{name}/*')"
        else:
            typed = re.sub(r"`?(\w+)`? (BIGINT|STRING|TIMESTAMP)(\(3\))?", r"'\1': '\2'", columns).replace(
                "STRING", "VARCHAR"
            )
            read = f"read_csv('{job['folder']}/{name}/*', header = false, columns = {{{typed}}})"
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {read}")
    return connection


def warmed(job: dict[str, Any]) -> dict[str, Any]:
    """The same job over what it is warmed up with."""
    return {**job, "size" if job["format"] == GENERATED else "folder": job["warm_up"]}


def ask_ours(job: dict[str, Any]) -> dict[str, float]:
    """Into a sink that forgets."""
    if "warm_up" in job:
        _ask_ours(warmed(job))
    return _ask_ours(job)


def _ask_ours(job: dict[str, Any]) -> dict[str, float]:
    texts = SUITES[job["suite"]].texts(job["query"], BLACKHOLE)
    with environment(job) as ours:
        ours.execute_script(texts.declarations)
        started, busy, own = time.perf_counter(), time.process_time(), time.thread_time()
        ours.execute_sql(texts.measured).wait()
        taken = {"seconds": time.perf_counter() - started, "processor": time.process_time() - busy}
        taken["thread"] = time.thread_time() - own
        last = list(ours.session.jobs.jobs.values())[-1].job.dataflow
        return {**taken, "rows": sum(s.rows_written for s in last.sinks()), "state": last.state_bytes}


def ask_duckdb(job: dict[str, Any]) -> dict[str, float]:
    """Batch by batch, each forgotten."""
    if "warm_up" in job:
        _ask_duckdb(warmed(job))
    return _ask_duckdb(job)


def _ask_duckdb(job: dict[str, Any]) -> dict[str, float]:
    connection, text = judge(job), SUITES[job["suite"]].texts(job["query"], "").batch
    started, busy = time.perf_counter(), time.process_time()
    answer = connection.sql(text).to_arrow_reader(1 << 17)
    rows = sum(batch.num_rows for batch in answer)
    return {"seconds": time.perf_counter() - started, "processor": time.process_time() - busy, "rows": rows}


def answer_of(job: dict[str, Any]) -> Any:
    """The final contents of the query's result, as an Arrow table."""
    clock = VirtualClock()
    clock.advance_to(CLOCK_OF_Q12)
    texts = SUITES[job["suite"]].texts(job["query"], "")
    with environment(job, clock) as ours:
        ours.execute_script(texts.declarations)
        ours.execute_sql(texts.measured).wait()
        return ours.execute_sql(f"SELECT * FROM {texts.answer}").to_arrow()


def check(job: dict[str, Any]) -> dict[str, float]:
    """The final contents of the query's result and DuckDB's answer, as bags."""
    started = time.perf_counter()
    mine = answer_of(job)
    seconds = time.perf_counter() - started
    connection = judge(job)
    connection.register("mine", mine)
    names = [f"c{i}" for i in range(mine.num_columns)]
    types = [row[1] for row in connection.execute("DESCRIBE mine").fetchall()]
    cast = ", ".join(f"CAST({n} AS {t})" for n, t in zip(names, types, strict=True))
    text = SUITES[job["suite"]].texts(job["query"], "").batch
    connection.execute(f"CREATE TABLE theirs AS SELECT {cast} FROM ({text}\n) AS t({', '.join(names)})")
    found = connection.execute(
        "SELECT (SELECT COUNT(*) FROM (FROM mine EXCEPT ALL FROM theirs)) + (SELECT COUNT(*) FROM (FROM theirs EXCEPT ALL FROM mine))"
    ).fetchone()
    assert found is not None
    return {"seconds": seconds, "rows": mine.num_rows, "difference": found[0]}


def main() -> None:
    job = json.loads(sys.argv[1])
    result = {"ours": ask_ours, "duckdb": ask_duckdb, "check": check}[job["by"]](job)
    print(json.dumps({**result, "bytes": peak_bytes()}))


def peak_bytes(process: int | str = "self") -> int:
    """Of this process alone (or, on Linux, of another): what `getrusage` says begins, there, with the parent's peak."""
    status = Path(f"/proc/{process}/status")
    if status.exists():
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main()
