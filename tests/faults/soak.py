"""A database in a folder that works for a long time and must not grow.

    python -m tests.faults.soak [--seconds 1800] [--folder FOLDER]

Each round is the same work over other rows: sessions come and go, statements change rows, fail and are stopped, tables,
views, functions of a session and jobs are made and dropped, subscribers listen, epochs are rolled back, checkpoints are
written, and now and then the database is closed and opened. After every round tables, views and what a subscriber has
heard are compared with a model.

It fails when a series grows over its second half by more than its bound in `MOST_GROWTH`: the slope of a line through
the samples, times their number.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from runtime.core.cancellation import Stopped
from sqlengine import SqlEngineError, TableEnvironment
from tests.faults.stopping import StopAtLook

KEYS, GROUPS = 200, 10
MIB = 1 << 20
CONFIG = {"sqlengine.database.checkpoint-size": "256kb", "sqlengine.database.synchronous": "normal"}
MOST_GROWTH = {
    "resident": 8 * MIB,
    "arrow": 1 * MIB,
    "handles": 2,
    "threads": 2,
    "files": 4,
    "bytes": MIB,
    "registries": 2,
}
"""By how much a series may grow in its second half: bytes, or a count."""
SAMPLES_AT_LEAST = 8

BY_GROUP = f"SELECT k % {GROUPS} AS g, COUNT(*) AS n, SUM(v) AS v FROM t GROUP BY k % {GROUPS}"


class Soak:
    """A database at work, and what must be in it."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self._path = folder / "shop"
        self._input = folder / "input"
        self._input.mkdir(parents=True)
        (self._input / "rows.csv").write_text("1\n2\n3\n")
        self._choose = random.Random(seed)
        self._rows: dict[int, int] = {}
        self.rounds = 0
        self._env = TableEnvironment.create(path=str(self._path), config=CONFIG)
        self._run("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v INT)")
        self._run(f"CREATE MATERIALIZED VIEW by_group AS {BY_GROUP}")
        self._run("CREATE MATERIALIZED VIEW total AS SELECT SUM(n) AS n, SUM(v) AS v FROM by_group")
        self._run("CREATE TABLE nowhere (n INT) WITH ('connector' = 'blackhole')")
        watched = (
            f"'connector' = 'filesystem', 'path' = '{self._input}', 'format' = 'csv', 'source.monitor-interval' = '1 s'"
        )
        self._run(f"CREATE TABLE endless (n INT) WITH ({watched})")
        self._insert(self._env, range(KEYS // 2))

    def close(self) -> None:
        self._env.close()

    def round(self) -> None:
        """One round of all work, and its comparison with the model."""
        self.rounds += 1
        session = self._env.new_session()
        heard, changed, listener = self._listen()
        try:
            self._change(session)
            self._prepared(session)
            self._fail(session)
            self._stop(session)
            self._roll_back(session)
            self._make_and_drop(session)
            self._run_jobs(session)
        finally:
            session.close()
        self._compare()
        expected = Counter(dict.fromkeys(self._groups(), 1))
        with changed:
            assert changed.wait_for(lambda: +heard == expected, 60), "a subscriber has not heard what has changed"
        listener.stop()
        if self.rounds % 20 == 0:
            self.reopen()

    def reopen(self) -> None:
        """The database is closed and opened again, and has the same rows."""
        self._env.close()
        self._env = TableEnvironment.create(path=str(self._path), config=CONFIG)
        self._compare()

    def sample(self) -> dict[str, int]:
        """What is held now, by name: bytes and counts."""
        gc.collect()
        pa.default_memory_pool().release_unused()
        files = [entry for entry in self._path.rglob("*") if entry.is_file()]
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return {
            "resident": resident,
            "arrow": pa.total_allocated_bytes(),
            "handles": len(os.listdir("/proc/self/fd")),
            "threads": len(os.listdir("/proc/self/task")),
            "files": len(files),
            "bytes": sum(file.stat().st_size for file in files),
            "registries": sum(self.registries().values()),
        }

    def registries(self) -> dict[str, int]:
        """How many things the database knows, by what they are."""
        database = self._env.session.database
        durable = database.durable
        assert durable is not None
        return {
            "tables in memory": len(database.memory),
            "inputs": len(database.inputs),
            "jobs": len(database.jobs.jobs),
            "views": sum(1 for _ in database.views.jobs()),
            "sessions": len(database._sessions),
            "functions": len(database.user_functions),
            "objects": sum(len(d.objects) for c in database.catalogs._catalogs.values() for d in c.databases.values()),
            "watchers": sum(len(table.watchers) + table.open_epochs for table in database.memory.values()),
            "definitions": len(durable.definitions),
            "known": len(durable.known),
            "kept": len(durable._kept),
            "reads of views": len(durable.view_reads),
            "rejected": len(database.rejected.counts),
            "threads": threading.active_count(),
        }

    def _run(self, sql: str) -> None:
        self._env.execute_sql(sql).wait()

    def _insert(self, session: TableEnvironment, keys: range) -> None:
        new = {k: self._choose.randint(0, 1000) for k in keys if k not in self._rows}
        if new:
            session.execute_sql("INSERT INTO t VALUES " + ", ".join(f"({k}, {v})" for k, v in new.items())).wait()
            self._rows |= new

    def _change(self, session: TableEnvironment) -> None:
        """INSERT, UPDATE and DELETE of some rows."""
        start = self._choose.randrange(KEYS)
        self._insert(session, range(start, min(KEYS, start + 20)))
        group = self._choose.randrange(GROUPS)
        session.execute_sql(f"UPDATE t SET v = (v * 7 + 1) % 1000 WHERE k % {GROUPS} = {group}").wait()
        self._rows = {k: (v * 7 + 1) % 1000 if k % GROUPS == group else v for k, v in self._rows.items()}
        start = self._choose.randrange(KEYS)
        session.execute_sql(f"DELETE FROM t WHERE k >= {start} AND k < {start + 20}").wait()
        self._rows = {k: v for k, v in self._rows.items() if not start <= k < start + 20}

    def _prepared(self, session: TableEnvironment) -> None:
        """A statement that is prepared and run with other values, in Python and in SQL."""
        statement = session.prepare("INSERT INTO t VALUES (?, ?)")
        for key in self._choose.sample(range(KEYS), 5):
            if key not in self._rows:
                statement.execute([key, key]).wait()
                self._rows[key] = key
        least = self._choose.randrange(1000)
        found = session.execute_sql("SELECT COUNT(*) AS n FROM t WHERE v >= ?", [least]).to_arrow()
        # A global aggregate of a streaming query has no row before it has seen one.
        assert (found["n"].to_pylist() or [0]) == [sum(v >= least for v in self._rows.values())]

    def _fail(self, session: TableEnvironment) -> None:
        """Statements that fail when they are read, bound, and while they run."""
        for sql in (
            "SELECT FROM WHERE",
            f"SELECT nothing{self.rounds} FROM t",
            f"SELECT * FROM missing{self.rounds}",
            "INSERT INTO t SELECT k + 1000, CAST('x' || CAST(k AS STRING) AS INT) FROM t",
        ):
            try:
                session.execute_sql(sql).wait()
            except SqlEngineError as error:
                assert not error.code.startswith("E9"), error
            else:
                raise AssertionError(f"{sql} did not fail")

    def _stop(self, session: TableEnvironment) -> None:
        """Statements that are stopped while they run change nothing; those that end before do."""
        for at in (1, 2, 3, 5, 8, 13):
            try:
                with StopAtLook(at).governing():
                    session.execute_sql(f"UPDATE t SET v = v + 1 WHERE k >= {at}").wait()
            except (SqlEngineError, Stopped):
                continue
            self._rows = {k: v + 1 if k >= at else v for k, v in self._rows.items()}
        result = self._env.execute_sql("SELECT k, COUNT(*) AS n FROM endless, t WHERE n <> k GROUP BY k")
        steps = result.rows()
        next(steps)
        result.cancel()
        # The query runs in its reader, and ends there.
        steps.close()

    def _roll_back(self, session: TableEnvironment) -> None:
        session.execute_sql("BEGIN EPOCH")
        session.execute_sql("DELETE FROM t WHERE k < 50").wait()
        session.execute_sql("ROLLBACK EPOCH")

    def _make_and_drop(self, session: TableEnvironment) -> None:
        """Tables, views and functions that are gone at the end of the round."""
        name = f"made{self.rounds % 7}"
        session.execute_sql(f"CREATE TABLE {name} (k INT, v INT)")
        session.execute_sql(f"CREATE MATERIALIZED VIEW {name}_view AS SELECT COUNT(*) AS n, SUM(v) AS v FROM {name}")
        session.execute_sql(f"INSERT INTO {name} SELECT k, v FROM t").wait()
        found = session.execute_sql(f"SELECT n, v FROM {name}_view").to_arrow().to_pylist()
        assert found == [{"n": len(self._rows), "v": sum(self._rows.values()) if self._rows else None}]
        session.execute_sql(f"CREATE TEMPORARY VIEW passing AS SELECT * FROM {name}")
        session.execute_sql("SELECT COUNT(*) FROM passing").to_arrow()
        session.execute_sql(f"DROP MATERIALIZED VIEW {name}_view")
        session.execute_sql(f"DROP TABLE {name}")

    def _run_jobs(self, session: TableEnvironment) -> None:
        """A job that ends, and one without an end, which is stopped."""
        session.execute_sql("INSERT INTO nowhere SELECT k FROM t").wait()
        running = session.execute_sql("INSERT INTO nowhere SELECT n FROM endless")
        client = running.get_job_client()
        assert client is not None
        client.cancel().result()
        self._env.session.database.jobs.wait_for_all()

    def _listen(self) -> tuple[Counter[tuple[object, ...]], threading.Condition, object]:
        """What a subscriber of `by_group` holds, from now on, and who tells that it has changed."""
        heard: Counter[tuple[object, ...]] = Counter()
        changed = threading.Condition()

        def hear(rows: list[object]) -> None:
            with changed:
                for row in rows:
                    heard[tuple(row)] += 1 if row.get_row_kind().value in ("+I", "+U") else -1  # type: ignore[attr-defined]
                changed.notify_all()

        return heard, changed, self._env.execute_sql("SUBSCRIBE TO by_group").listen(hear)

    def _groups(self) -> set[tuple[int, int, int]]:
        groups: dict[int, list[int]] = {}
        for k, v in self._rows.items():
            groups.setdefault(k % GROUPS, []).append(v)
        return {(g, len(values), sum(values)) for g, values in groups.items()}

    def _compare(self) -> None:
        rows = self._env.execute_sql("SELECT k, v FROM t").to_arrow().to_pylist()
        assert sorted((r["k"], r["v"]) for r in rows) == sorted(self._rows.items())
        rows = self._env.execute_sql("SELECT g, n, v FROM by_group").to_arrow().to_pylist()
        assert {tuple(r.values()) for r in rows} == self._groups() and len(rows) == len(self._groups())
        (total,) = self._env.execute_sql("SELECT n, v FROM total").to_arrow().to_pylist() or [{"n": None, "v": None}]
        assert (total["n"] or 0, total["v"] or 0) == (len(self._rows), sum(self._rows.values()))


def growth(series: list[int]) -> float:
    """By how much a series grows over its second half: the slope of the line through it, times its length."""
    half = np.asarray(series[len(series) // 2 :], np.float64)
    return 0.0 if len(half) < 2 else float(np.polyfit(np.arange(len(half)), half, 1)[0] * len(half))


def grown(samples: list[dict[str, int]]) -> list[str]:
    """The series that have grown by more than they may."""
    found = {name: growth([sample[name] for sample in samples]) for name in MOST_GROWTH}
    return [
        f"{name} grew by {by:,.0f}, {MOST_GROWTH[name]:,} is the most"
        for name, by in found.items()
        if by > MOST_GROWTH[name]
    ]


def _line(values: dict[str, int], rounds: int, seconds: float) -> str:
    shown = (f"{v / MIB:.1f} MiB" if name in ("resident", "arrow", "bytes") else str(v) for name, v in values.items())
    return "  ".join(f"{cell:>11}" for cell in (f"{seconds:.0f} s", str(rounds), *shown))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    samples: list[dict[str, int]] = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        soak = Soak(Path(folder), arguments.seed)
        started = time.monotonic()
        print("  ".join(f"{name:>11}" for name in ("time", "rounds", *MOST_GROWTH)), flush=True)
        first: dict[str, int] = {}
        while len(samples) < SAMPLES_AT_LEAST or time.monotonic() - started < arguments.seconds:
            # A whole cycle of what is not done in each round.
            for _ in range(20):
                soak.round()
            samples.append(soak.sample())
            first = first or soak.registries()
            print(_line(samples[-1], soak.rounds, time.monotonic() - started), flush=True)
        for name, size in soak.registries().items():
            if size != first[name]:
                print(f"{name}: {first[name]} after 20 rounds, {size} now")
        soak.close()
    wrong = grown(samples)
    print("\n".join(wrong) or "nothing has grown")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
