"""What a database in a folder costs: durable INSERTs a second from many threads, a bulk INSERT with the log beside one
without, and the start with many rows and three views.

    python -m tests.benchmarks.lasting [--rows 5000000] [--seconds 2]

Bars: 2,000 durable INSERTs of a row a second from 20 sessions; a bulk INSERT takes at most 1.3 times as long; a
database of 5,000,000 rows and three views is open in 5 s. Processor time stands beside the time of the clock, because
machines share their disks and cores.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from runtime.checkpoint.keys import NO_KEYS
from runtime.checkpoint.local_storage import LocalStorage
from runtime.core.changelog import ChangelogBatch
from sqlengine import TableEnvironment
from sqlengine.database.folder.changes import EpochChanges, TableChanges, bodies_of
from sqlengine.database.folder.log import Log
from sqlengine.database.folder.log_end import LogEnd

THREADS = 20
VIEWS = (
    "CREATE MATERIALIZED VIEW by_kind AS SELECT kind, COUNT(*) AS n, SUM(amount) AS amount FROM facts GROUP BY kind",
    "CREATE MATERIALIZED VIEW large AS SELECT id, amount FROM facts WHERE amount > 990",
    "CREATE MATERIALIZED VIEW total AS SELECT SUM(n) AS n FROM by_kind",
)


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the clock, and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - clock, time.process_time() - processor


def log_writes(folder: Path, seconds: float) -> float:
    """Epochs of a row a second that threads append and wait for."""
    log = Log(LocalStorage(str(folder)), "bench", 1, NO_KEYS, "full", LogEnd(0))
    rows = pa.RecordBatch.from_pydict({"id": [1], "kind": ["a"], "amount": [2.5]})
    end = time.perf_counter() + seconds
    counts = [0] * THREADS

    def write(thread: int) -> None:
        while time.perf_counter() < end:
            changes = EpochChanges({}, [TableChanges(("c", "d", "t"), False, [ChangelogBatch(rows)])])
            log.settle(log.append(bodies_of(changes)))
            counts[thread] += 1

    threads = [threading.Thread(target=write, args=(n,)) for n in range(THREADS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    return sum(counts) / (time.perf_counter() - started)


def session_writes(folder: Path, seconds: float, sessions: int, *, prepared: bool) -> tuple[float, float]:
    """INSERTs of a row a second that so many sessions of one database carry out, each in a thread; and the processor's
    milliseconds for each."""
    with TableEnvironment.create(path=folder) as t_env:
        t_env.execute_sql("CREATE TABLE facts (id BIGINT, kind STRING, amount DOUBLE)")
        made = [t_env.new_session() for _ in range(sessions)]
        counts = [0] * sessions
        end = time.perf_counter() + seconds

        def write(number: int) -> None:
            session = made[number]
            insert = session.prepare("INSERT INTO facts VALUES (?, ?, ?)")
            while time.perf_counter() < end:
                if prepared:
                    insert.execute([counts[number], "a", 2.5])
                else:
                    session.execute_sql(f"INSERT INTO facts VALUES ({counts[number]}, 'a', 2.5)")
                counts[number] += 1

        threads = [threading.Thread(target=write, args=(n,)) for n in range(sessions)]

        def all_write() -> None:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        clock, processor = timed(all_write)
        return sum(counts) / clock, processor / sum(counts) * 1000


def facts(rows: int) -> tuple[str, str, str]:
    return (
        "CREATE TABLE source (id BIGINT, kind INT, amount INT, label STRING) WITH ('connector' = 'datagen', "
        f"'number-of-rows' = '{rows}', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{rows}', "
        "'fields.kind.min' = '0', 'fields.kind.max' = '99', 'fields.amount.min' = '0', 'fields.amount.max' = '999', "
        "'fields.label.length' = '8')",
        "CREATE TABLE facts (id BIGINT, kind INT, amount INT, label STRING)",
        "INSERT INTO facts SELECT * FROM source",
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--seconds", type=float, default=2.0)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="sqlengine-lasting-"))
    try:
        print(f"log, {THREADS} threads: {log_writes(folder / 'log', args.seconds):,.0f} durable epochs/s")
        for sessions in (1, THREADS):
            for prepared in (True, False):
                path = folder / f"{sessions} {prepared}"
                rate, each = session_writes(path, args.seconds, sessions, prepared=prepared)
                how = "prepared" if prepared else "plain"
                print(f"{sessions} sessions, {how}: {rate:,.0f} durable INSERTs/s, processor {each:.3f} ms each")
        create, made, insert = facts(args.rows)
        for name, path in (("without a log", None), ("with a log", folder / "bulk")) * 2:
            if path is not None and path.exists():
                shutil.rmtree(path)
            with TableEnvironment.create(path=path) as t_env:
                t_env.execute_sql(create.replace("CREATE TABLE", "CREATE TEMPORARY TABLE"))
                t_env.execute_sql(made)
                clock, processor = timed(lambda: t_env.execute_sql(insert))
                print(f"bulk INSERT of {args.rows:,} rows {name}: {clock:.2f} s, processor {processor:.2f} s")
                if path is not None:
                    for view in VIEWS:
                        t_env.execute_sql(view)
                    clock, processor = timed(t_env.close)
                    print(f"close: {clock:.2f} s, processor {processor:.2f} s")
        opened: list[TableEnvironment] = []
        clock, processor = timed(lambda: opened.append(TableEnvironment.create(path=folder / "bulk")))
        print(f"start with {args.rows:,} rows and {len(VIEWS)} views: {clock:.2f} s, processor {processor:.2f} s")
        opened[0].close()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
