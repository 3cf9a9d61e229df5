"""One query of Nexmark in a fresh process, so that memory and caches are its own: `python -m
tests.benchmarks.nexmark_run JOB`.

JOB is a JSON object: `by` ("sqlengine", "duckdb" or "check"), `query` ("q0" ...), `events`, `folder` and `format` of
the files, `tasks` of a keyed operator (1 if it is not given). Prints one JSON object: `seconds` from the statement to its
end (imports and the declaration of tables left out), `processor` seconds of all threads in that time (of ours also
`thread`, those of the thread that runs the job), `rows` that came out, `bytes` of peak memory of the process; for
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
from tests.benchmarks.nexmark_events import COLUMNS
from tests.oracle.duckdb_oracle import connect

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "sql_examples" / "nexmark"
DUCKDB_TEXTS = ROOT / "tests" / "oracle" / "nexmark_duckdb"
CLOCK_OF_Q12 = 1_577_836_815_000
"""The processing time that DuckDB's text of q12 supposes, milliseconds: all bids in one window."""
THREADS = 2


def statements(query: str, sink: str) -> tuple[str, str]:
    """An example's statements over flat event tables that exist: its tables and views, then its INSERT. `sink` is put
    behind the columns of its result table in place of what stands there."""
    text = (EXAMPLES / f"{query}.sql").read_text()
    text = re.sub(r"CREATE TABLE nexmark \(.*?;\n", "", text, flags=re.DOTALL)
    text = re.sub(r"CREATE VIEW (person|auction|bid) AS\n[^;]*;\n", "", text)
    text = re.sub(rf"(CREATE TABLE nexmark_{query} \([^;]*?\))\s*((PARTITIONED|WITH)\b[^;]*)?;", rf"\1 {sink};", text)
    declarations, rest = text.split("\nINSERT INTO ")
    return declarations, "INSERT INTO " + rest.split(";")[0]


def environment(job: dict[str, Any], clock: Clock | None = None) -> TableEnvironment:
    """With the event tables over the files."""
    made = TableEnvironment.create({"parallelism.default": str(job.get("tasks", 1))}, clock=clock)
    for kind, columns in COLUMNS.items():
        made.execute_sql(
            f"CREATE TABLE {kind} ({columns}, WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND) "
            f"WITH ('connector' = 'filesystem', 'path' = '{job['folder']}/{kind}', 'format' = '{job['format']}')"
        )
    return made


def judge(job: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    """DuckDB with the events as views over the same files."""
    connection = connect()
    connection.execute(f"SET threads = {THREADS}")
    for kind, columns in COLUMNS.items():
        if job["format"] == "parquet":
            read = f"read_parquet('{job['folder']}/{kind}/*')"
        else:
            typed = re.sub(r"`?(\w+)`? (BIGINT|STRING|TIMESTAMP)(\(3\))?", r"'\1': '\2'", columns).replace(
                "STRING", "VARCHAR"
            )
            read = f"read_csv('{job['folder']}/{kind}/*', header = false, columns = {{{typed}}})"
        connection.execute(f"CREATE VIEW {kind} AS SELECT * FROM {read}")
    return connection


def ask_sqlengine(job: dict[str, Any]) -> dict[str, float]:
    """Into a sink that forgets."""
    with environment(job) as ours:
        declarations, insert = statements(job["query"], "WITH ('connector' = 'blackhole')")
        ours.execute_script(declarations)
        started, busy, own = time.perf_counter(), time.process_time(), time.thread_time()
        ours.execute_sql(insert).wait()
        taken = {"seconds": time.perf_counter() - started, "processor": time.process_time() - busy}
        taken["thread"] = time.thread_time() - own
        last = list(ours.session.jobs.jobs.values())[-1].job.dataflow
        return {**taken, "rows": sum(s.rows_written for s in last.sinks())}


def ask_duckdb(job: dict[str, Any]) -> dict[str, float]:
    """Batch by batch, each forgotten."""
    connection = judge(job)
    started, busy = time.perf_counter(), time.process_time()
    answer = connection.execute((DUCKDB_TEXTS / f"{job['query']}.sql").read_text()).to_arrow_reader(1 << 17)
    rows = sum(batch.num_rows for batch in answer)
    return {"seconds": time.perf_counter() - started, "processor": time.process_time() - busy, "rows": rows}


def check(job: dict[str, Any]) -> dict[str, float]:
    """The final contents of the query's result and DuckDB's answer, as bags."""
    clock = VirtualClock()
    clock.advance_to(CLOCK_OF_Q12)
    with environment(job, clock) as ours:
        declarations, insert = statements(job["query"], "")
        ours.execute_script(declarations)
        started = time.perf_counter()
        ours.execute_sql(insert).wait()
        mine = ours.execute_sql(f"SELECT * FROM nexmark_{job['query']}").to_arrow()
        seconds = time.perf_counter() - started
    connection = judge(job)
    connection.register("mine", mine)
    names = [f"c{i}" for i in range(mine.num_columns)]
    text = (DUCKDB_TEXTS / f"{job['query']}.sql").read_text()
    types = [row[1] for row in connection.execute("DESCRIBE mine").fetchall()]
    cast = ", ".join(f"CAST({n} AS {t})" for n, t in zip(names, types, strict=True))
    connection.execute(f"CREATE TABLE theirs AS SELECT {cast} FROM ({text}\n) AS t({', '.join(names)})")
    found = connection.execute(
        "SELECT (SELECT COUNT(*) FROM (FROM mine EXCEPT ALL FROM theirs)) + (SELECT COUNT(*) FROM (FROM theirs EXCEPT ALL FROM mine))"
    ).fetchone()
    assert found is not None
    return {"seconds": seconds, "rows": mine.num_rows, "difference": found[0]}


def main() -> None:
    job = json.loads(sys.argv[1])
    result = {"sqlengine": ask_sqlengine, "duckdb": ask_duckdb, "check": check}[job["by"]](job)
    print(json.dumps({**result, "bytes": peak_bytes()}))


def peak_bytes() -> int:
    """Of this process alone: what `getrusage` says begins, on Linux, with the parent's peak."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main()
