"""Five tables joined on one key: `python -m tests.benchmarks.five_way [ROWS] [--kind LEFT]` runs the join over files with and
without the operator that keeps each table once, and in Flink with and without its own, where Flink is installed.

Each run has a process of its own. Printed: rows of all tables per second; the rows and bytes of the joins' state, for us; the
peak memory of the JVM, for Flink. Writes nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc

from sqlengine import TableEnvironment
from tests.benchmarks.contenders import FLINK_PYTHON, flink_command

__all__ = ["main"]

TABLES = ("orders", "payments", "shipments", "invoices", "reviews")
OPTION = "table.optimizer.multi-join.enabled"
COLUMNS = "k BIGINT, name STRING, amount BIGINT, note STRING"


def main() -> None:
    """Measure all, or one of our runs (`--only`) for a parent."""
    parser = argparse.ArgumentParser(description="five tables joined on one key")
    parser.add_argument("rows", type=int, nargs="?", default=200_000, help="of each table")
    parser.add_argument("--kind", default="INNER", choices=("INNER", "LEFT"))
    parser.add_argument("--keys", type=int, default=0, help="how many keys each table has; all different by default")
    parser.add_argument("--only", default="")
    parser.add_argument("--folder", default="")
    given = parser.parse_args()
    if given.only:
        print(json.dumps(ours(Path(given.folder), given.kind, given.only)))
        return
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), given.rows, given.keys or given.rows)
        total = len(TABLES) * given.rows
        print(f"{'':<22} {'rows/s':>10} {'state rows':>12} {'state MB':>10} {'JVM MB':>8}")
        for name, value in (("in one operator", "true"), ("as a chain", "false")):
            words = [
                sys.executable,
                "-m",
                "tests.benchmarks.five_way",
                "--kind",
                given.kind,
                "--only",
                value,
                "--folder",
                folder,
            ]
            found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
            speed = total / found["seconds"]
            print(f"{name:<22} {speed:>10,.0f} {found['rows']:>12,} {found['bytes'] / 1e6:>10,.1f}")
            if not FLINK_PYTHON.exists():
                continue
            job = flink_job(Path(folder), given.kind, value)
            answered = subprocess.run(flink_command(job), check=True, capture_output=True, text=True).stdout
            found = json.loads(answered.splitlines()[-1])
            name = f"Flink, {name}"
            print(f"{name:<22} {total / found['seconds']:>10,.0f} {'':>12} {'':>10} {found['bytes'] / 1e6:>8,.0f}")


def write(folder: Path, rows: int, keys: int) -> None:
    """The tables as CSV files. A key is in all of them, and rows of a key are not together."""
    place = [(i * 7919) % keys for i in range(rows)]
    for number, name in enumerate(TABLES):
        table = pa.table(
            {
                "k": place,
                "name": [f"{name} number {i:012d}" for i in range(rows)],
                "amount": [i * (number + 1) for i in range(rows)],
                "note": [f"what was said about {name} {i % 1000:06d}" for i in range(rows)],
            }
        )
        pc.write_csv(table, folder / f"{name}.csv", pc.WriteOptions(include_header=False, quoting_style="none"))


def statements(folder: Path, kind: str) -> list[str]:
    """The tables, the sink, and the INSERT."""
    made = [
        f"CREATE TABLE {name} ({COLUMNS}) WITH ('connector' = 'filesystem', 'path' = '{folder / name}.csv', 'format' = 'csv')"
        for name in TABLES
    ]
    first, *others = TABLES
    columns = ", ".join(
        f"{name}_{c} {t}" for name in TABLES for c, t in (("name", "STRING"), ("amount", "BIGINT"), ("note", "STRING"))
    )
    made.append(f"CREATE TABLE answer (k BIGINT, {columns}) WITH ('connector' = 'blackhole')")
    chosen = ", ".join(f"{name}.{c}" for name in TABLES for c in ("name", "amount", "note"))
    joins = " ".join(f"{kind} JOIN {name} ON {first}.k = {name}.k" for name in others)
    made.append(f"INSERT INTO answer SELECT {first}.k, {chosen} FROM {first} {joins}")
    return made


def ours(folder: Path, kind: str, enabled: str) -> dict[str, float]:
    """Seconds of the INSERT, and the state of its joins at the end."""
    with TableEnvironment.create({OPTION: enabled}) as environment:
        *declared, insert = statements(folder, kind)
        for statement in declared:
            environment.execute_sql(statement)
        started = time.perf_counter()
        environment.execute_sql(insert).wait()
        seconds = time.perf_counter() - started
        sums = "SELECT SUM(state_rows), SUM(state_bytes) FROM system.operators WHERE kind LIKE '%Join'"
        ((rows, size),) = list(environment.execute_sql(sums).collect())
    return {"seconds": seconds, "rows": rows, "bytes": size}


def flink_job(folder: Path, kind: str, enabled: str) -> dict[str, object]:
    """The same for `flink_run.py`."""
    settings = {OPTION: enabled, "parallelism.default": "1"}
    return {"settings": settings, "warm_up": statements(folder, kind), "measured": statements(folder, kind)}


if __name__ == "__main__":
    main()
