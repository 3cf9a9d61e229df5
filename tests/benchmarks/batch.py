"""Batch queries against DuckDB itself: `python -m tests.benchmarks.batch [ROWS] [--from memory] [--repeat 3] [--query q1,q5]`.

The views of TPC-H as batch queries over so many rows of all tables (10,000,000 if not given), and the same questions to
DuckDB with as many threads, in one process. The two take turns; a figure is the best of the runs. Time is from the text to
an Arrow table in memory. `--from parquet`: both read the same files. `--from memory`: both read the same Arrow tables.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from sqlengine import TableEnvironment
from tests.benchmarks import tpch_tables
from tests.benchmarks.results import geometric_mean
from tests.benchmarks.suites import TPCH
from tests.oracle.duckdb_oracle import connect


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=10_000_000)
    parser.add_argument("--from", dest="source", choices=("parquet", "memory"), default="parquet")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--query", default=",".join(TPCH.queries))
    args = parser.parse_args()
    ours, theirs = _over(str(tpch_tables.table_files(args.rows, "parquet")), args.source)
    ratios: list[float] = []
    print("query     ours s  DuckDB s  ours / DuckDB")
    for query in args.query.split(","):
        texts = TPCH.texts(query, "")
        text = texts.measured.split(" AS\n", 1)[1]
        mine, other = _in_turn(
            args.repeat,
            lambda text=text: ours.execute_sql(text).to_arrow(),
            lambda text=texts.batch: theirs.sql(text).to_arrow_table(),
        )
        ratios.append(mine / other)
        print(f"{query:5}  {mine:9.3f} {other:9.3f}  {mine / other:13.2f}", flush=True)
    print(f"geometric mean {geometric_mean(ratios):25.2f}")


def _over(folder: str, source: str) -> tuple[TableEnvironment, duckdb.DuckDBPyConnection]:
    ours = TableEnvironment.create({"execution.runtime-mode": "batch"})
    theirs = connect()
    theirs.execute(f"SET threads = {len(os.sched_getaffinity(0))}")
    if source == "parquet":
        for declaration in TPCH.tables_over(folder, "parquet"):
            ours.execute_sql(declaration)
    for name in TPCH.tables:
        if source == "parquet":
            theirs.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{folder}/{name}/*')")
        else:
            table = pq.read_table(f"{folder}/{name}")
            table = table.cast(pa.schema([f.with_type(_narrow(f.type)) for f in table.schema]))
            ours.create_temporary_view(name, ours.from_arrow(table))
            theirs.register(name, table)
    return ours, theirs


def _narrow(type_: pa.DataType) -> pa.DataType:
    return pa.string() if type_ in (pa.string_view(), pa.large_string()) else type_


def _in_turn(repeat: int, *contenders: Callable[[], pa.Table]) -> list[float]:
    """The best time of each, in seconds."""
    best = [float("inf")] * len(contenders)
    for _ in range(repeat):
        for number, ask in enumerate(contenders):
            started = time.perf_counter()
            ask()
            best[number] = min(best[number], time.perf_counter() - started)
    return best


if __name__ == "__main__":
    main()
