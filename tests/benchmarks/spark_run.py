"""One query by Spark Structured Streaming in a fresh process: `python -m tests.benchmarks.spark_run JOB`.

JOB and what is printed are as in `one_run`, of the queries of Nexmark in `QUERIES`: the others need what Spark's streams
have not (ranks without windows, COUNT(DISTINCT), joins that change) or their text in DuckDB's words is not to be had in Spark's.
Spark runs in one JVM with two cores and two partitions of state, its watermark left out, its trigger `availableNow`, and
forgets the rows (`noop`); aggregates and joins without windows give changes (`update`). Peak memory and seconds of
processor are those of the JVM, as Linux tells them.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import sqlglot

from runtime.spark.session import spark_session
from tests.benchmarks.one_run import THREADS, peak_bytes, warmed
from tests.benchmarks.suites import SUITES

__all__ = ["QUERIES", "main", "spark_text", "spark_types"]

QUERIES = {
    **dict.fromkeys(("q0", "q1", "q2", "q3", "q10", "q14", "q20", "q22"), "append"),
    "q17": "update",
}
"""The queries that Spark's streams answer, and how they give their rows."""


def spark_types(columns: str) -> str:
    """Columns as in CREATE TABLE, in Spark's words."""
    return re.sub(r"TIMESTAMP\(3\)", "TIMESTAMP_NTZ", columns)


def spark_text(query: str) -> str:
    """A query of Nexmark, out of DuckDB's words for it."""
    text = SUITES["nexmark"].texts(query, "").batch.replace("flink_avg_int(price)", "CAST(AVG(price) AS BIGINT)")
    return sqlglot.transpile(text, read="duckdb", write="spark")[0]


def _ask(session: Any, job: dict[str, Any], jvm: int) -> dict[str, float]:
    for name, columns in SUITES["nexmark"].tables.items():
        reader = session.readStream.schema(spark_types(columns)).format(job["format"])
        reader.load(f"{job['folder']}/{name}").createOrReplaceTempView(name)
    with tempfile.TemporaryDirectory() as folder:
        started, busy = time.perf_counter(), _processor(jvm)
        writer = session.sql(spark_text(job["query"])).writeStream.format("noop").outputMode(QUERIES[job["query"]])
        query = writer.trigger(availableNow=True).option("checkpointLocation", folder).start()
        query.awaitTermination()
        rows = sum(progress["numInputRows"] for progress in query.recentProgress)
        return {"seconds": time.perf_counter() - started, "processor": _processor(jvm) - busy, "rows": rows}


def _processor(process: int) -> float:
    """Seconds of processor of a process."""
    after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    # Fields 14 and 15 of proc(5), in hundredths of a second.
    return (int(after_name[11]) + int(after_name[12])) / 100


def main() -> None:
    job = json.loads(sys.argv[1])
    options = {
        "spark.sql.shuffle.partitions": str(THREADS),
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "8g",
    }
    with spark_session(f"local[{THREADS}]", options) as session:
        jvm = session._jvm.java.lang.ProcessHandle.current().pid()
        _ask(session, warmed(job), jvm)
        result = _ask(session, job, jvm)
        print(json.dumps({**result, "bytes": peak_bytes(jvm)}))


if __name__ == "__main__":
    main()
