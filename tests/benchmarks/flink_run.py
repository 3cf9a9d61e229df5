"""One query in Flink, in a local cluster in one JVM: `python tests/benchmarks/flink_run.py JOB`.

Runs with the interpreter of `.venv-peers` (see `make bench-peers`), so it imports nothing of this project. JOB is a JSON
object: `settings`; `jars`, paths; and either

- `warm_up` and `measured`, each a list of statements of which the last is run to its end. Prints one JSON object:
  `seconds` from the last statement of `measured` to its end, planning included, the start of the JVM and the warm-up left
  out; `processor`, the seconds of all threads of the JVM in that time; `bytes`, the peak of the JVM's memory in that time;
- or `declared`, a list of statements, and `question`, a query. Prints `rows`: its final contents, values as texts.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyflink.common import RowKind
from pyflink.java_gateway import get_gateway
from pyflink.table import EnvironmentSettings, TableEnvironment

TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    job: dict[str, Any] = json.loads(sys.argv[1])
    os.environ["HADOOP_CLASSPATH"] = ":".join(job["jars"])
    os.environ["TZ"] = "UTC"
    result = answer(job) if "question" in job else measure(job)
    print(json.dumps(result), flush=True)


def environment(settings: dict[str, str]) -> TableEnvironment:
    """In streaming mode, with a catalog of its own."""
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in settings.items():
        made.get_config().set(name, value)
    return made


def measure(job: dict[str, Any]) -> dict[str, float]:
    cold = environment(job["settings"])
    for statement in job["warm_up"]:
        cold.execute_sql(statement).wait()
    warm = environment(job["settings"])
    *declarations, measured = job["measured"]
    for statement in declarations:
        warm.execute_sql(statement)
    jvm = Path(f"/proc/{get_gateway().jvm.java.lang.ProcessHandle.current().pid()}")
    get_gateway().jvm.java.lang.System.gc()
    (jvm / "clear_refs").write_text("5")  # the peak counts from here
    started, busy = time.perf_counter(), processor_seconds(jvm)
    warm.execute_sql(measured).wait()
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "processor": processor_seconds(jvm) - busy, "bytes": peak_bytes(jvm)}


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Rows are counted in Flink: a top n gives new rows without taking the old ones back, unless an aggregate reads
    it. Where the rows have a key Flink leaves that aggregate out, and rows that were replaced remain."""
    made = environment(job["settings"])
    for statement in job["declared"]:
        made.execute_sql(statement)
    names = ", ".join(f"`{name}`" for name in made.sql_query(job["question"]).get_schema().get_field_names())
    counts: dict[tuple[str, ...], int] = {}
    counted = f"SELECT {names}, COUNT(*) FROM (\n{job['question']}\n) GROUP BY {names}"
    with made.execute_sql(counted).collect() as changes:
        for *row, count in changes_of(changes):
            counts[tuple(map(str, row))] = count
    return {"rows": [list(row) for row, count in counts.items() for _ in range(count)]}


def changes_of(changes: Any) -> Iterator[list[Any]]:
    """Each row with its count as it is from now on."""
    for change in changes:
        kind = change.get_row_kind()
        if kind != RowKind.UPDATE_BEFORE:
            *row, count = change
            yield [*row, 0 if kind == RowKind.DELETE else count]


def processor_seconds(process: Path) -> float:
    """User and system time of all its threads so far."""
    fields = (process / "stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_bytes(process: Path) -> int:
    """Since the peak was last set to what is used."""
    return int(re.findall(r"VmHWM:\s+(\d+) kB", (process / "status").read_text())[0]) * 1024


if __name__ == "__main__":
    main()
