"""MATCH_RECOGNIZE beside Flink: `python -m tests.benchmarks.patterns [ROWS] [--keys 10000] [--repeat 3]`.

`PATTERN (A B+ C)` over a CSV file of rows of so many keys in order of time: with conditions of each row alone, and with
conditions that read rows of the match so far (`A.price`, `LAST(B.price, 1)`). Both engines run in one task, each run in a
process of its own, after the same over a tenth of the rows; they take turns, and a figure is the best of the runs. The row
`read` is ours without the pattern: reading the file and its watermark is part of the others.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from sqlengine import TableEnvironment
from tests.benchmarks.contenders import FLINK_PYTHON, flink_command, run

__all__ = ["main"]

DEFINES = {
    "alone": "A AS A.price > 50, B AS B.price <= 50, C AS C.price > 50",
    "match": "A AS A.price > 50, B AS B.price < A.price AND (LAST(B.price, 1) IS NULL OR B.price < LAST(B.price, 1)), "
    "C AS C.price > LAST(B.price)",
}
READ = "read"


def main() -> None:
    parser = argparse.ArgumentParser(description="MATCH_RECOGNIZE beside Flink")
    parser.add_argument("rows", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", choices=(READ, *DEFINES), help="measure this in this process, and print it")
    parser.add_argument("--folder", default="")
    given = parser.parse_args()
    if given.only:
        for file in ("warm_up.csv", "rows.csv"):
            taken = ours(Path(given.folder) / file, given.only)
        print(json.dumps(taken))
        return
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "rows.csv", given.rows, given.keys)
        write(Path(folder) / "warm_up.csv", given.rows // 10, given.keys)
        best: dict[str, float] = {}
        for _ in range(given.repeat):
            for name, taken in _each(Path(folder)):
                if "error" in taken:
                    print(f"{name}: {taken['error']}", file=sys.stderr)
                    continue
                best[name] = min(best.get(name, float("inf")), taken["seconds"])
    print(f"{'':<14} {'rows/s':>12} {'x Flink':>8}")
    for name, seconds in best.items():
        flink = best.get(f"Flink, {name}")
        print(f"{name:<14} {given.rows / seconds:>12,.0f} {'' if flink is None else f'{flink / seconds:8.1f}'}")


def _each(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    taken: list[tuple[str, dict[str, Any]]] = []
    for name in (READ, *DEFINES):
        words = ["-m", "tests.benchmarks.patterns", "--only", name, "--folder", str(folder)]
        taken.append((name, run([sys.executable, *words])))
        if FLINK_PYTHON.exists() and name != READ:
            made = [statements(folder / file, name) for file in ("warm_up.csv", "rows.csv")]
            settings = {"parallelism.default": "1", "pipeline.object-reuse": "true", "table.local-time-zone": "UTC"}
            taken.append(
                (f"Flink, {name}", run(flink_command({"settings": settings, "warm_up": made[0], "measured": made[1]})))
            )
    return taken


def write(file: Path, rows: int, keys: int) -> None:
    """A row each millisecond, of any key."""
    chance = np.random.default_rng(1)
    start = np.datetime64("2024-01-01T00:00:00", "ms")
    times = pa.array(start + np.arange(rows)).cast(pa.string())
    table = pa.table({"k": chance.integers(0, keys, rows), "price": chance.integers(0, 100, rows), "at": times})
    pc.write_csv(table, file, pc.WriteOptions(include_header=False, quoting_style="none"))


def statements(file: Path, name: str) -> list[str]:
    """The table, the sink, and the INSERT."""
    tables = [
        "CREATE TEMPORARY TABLE prices (k BIGINT, price INT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`) "
        f"WITH ('connector' = 'filesystem', 'path' = '{file}', 'format' = 'csv')",
        "CREATE TEMPORARY TABLE found (k BIGINT, a INT, n BIGINT, c INT) WITH ('connector' = 'blackhole')",
    ]
    if name == READ:
        return [*tables, "INSERT INTO found SELECT k, price, 1, price FROM prices"]
    pattern = (
        "INSERT INTO found SELECT * FROM prices MATCH_RECOGNIZE (PARTITION BY k ORDER BY `at` MEASURES A.price AS a, "
        "COUNT(B.price) AS n, C.price AS c ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C) "
        f"DEFINE {DEFINES[name]}) AS m"
    )
    return [*tables, pattern]


def ours(file: Path, name: str) -> dict[str, float]:
    with TableEnvironment.create() as made:
        *declared, insert = statements(file, name)
        for statement in declared:
            made.execute_sql(statement)
        started = time.perf_counter()
        made.execute_sql(insert).wait()
        return {"seconds": time.perf_counter() - started}


if __name__ == "__main__":
    main()
