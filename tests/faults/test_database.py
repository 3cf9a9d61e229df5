"""A database in a folder under faults: what was told to be done is there, what was not is absent or whole.

Random statements run against a database; the disk fails or the process is killed at some operation, the log is cut at
some byte, a byte of a file is another. Then the database is opened again: its tables, views and definitions are those
after some statement that is no earlier than the last one that was told to be done. FAULT_SEEDS says how many seeds
there are, a hundredth of it, FAULT_FIRST_SEED which is the first.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment
from sqlengine.database.folder import lease
from tests.faults.conftest import FIRST_SEED, KILLS
from tests.faults.disk import Disk, Killed, fault_from

SEEDS = int(os.environ.get("FAULT_SEEDS", "1000")) // 100

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    # The thread that writes a checkpoint is killed, too.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

State = dict[str, object]

QUERIES = {
    name: f"SELECT * FROM {name}" for name in ("k", "bag", "made", "total", "shown", "pairs", "above")
}  # fmt: skip


def state(t_env: TableEnvironment) -> State:
    """All that can be seen of the database."""
    found: State = {}
    for name, query in QUERIES.items():
        try:
            found[name] = sorted(map(repr, t_env.execute_sql(query).to_arrow().to_pylist()))
        except SqlEngineError as error:
            found[name] = error.code
    return found


def statement(rng: random.Random) -> list[str]:
    """A statement, or those of an epoch, which count together."""
    if rng.random() < 0.15:
        return [
            "BEGIN EPOCH",
            *(_change(rng) for _ in range(3)),
            rng.choice(["END EPOCH", "END EPOCH", "ROLLBACK EPOCH"]),
        ]
    return [_change(rng) if rng.random() < 0.75 else _definition(rng)]


def _change(rng: random.Random) -> str:
    n, m = rng.randrange(6), rng.randrange(1000)
    return rng.choice(
        [
            f"INSERT INTO k VALUES ({n}, {m})",
            f"INSERT INTO k VALUES ({n}, {m}), ({n + 1}, {m + 1})",
            f"INSERT INTO bag SELECT x + {n} FROM (VALUES {', '.join(f'({i})' for i in range(1 + n * n))}) AS v(x)",
            f"UPDATE k SET n = n + 1 WHERE id > {n}",
            f"DELETE FROM bag WHERE n = {n}",
            f"DELETE FROM k WHERE id = {n}",
            "INSERT INTO k SELECT n, n FROM bag ON CONFLICT DO DEDUPLICATE",
            "TRUNCATE TABLE bag" if n == 0 else f"INSERT INTO bag VALUES ({m})",
        ]
    )


def _definition(rng: random.Random) -> str:
    return rng.choice(
        [
            "CREATE TABLE IF NOT EXISTS k (id INT PRIMARY KEY NOT ENFORCED, n INT)",
            "CREATE TABLE IF NOT EXISTS bag (n INT)",
            "CREATE OR REPLACE TABLE made AS SELECT n FROM bag",
            "DROP TABLE IF EXISTS made",
            "ALTER TABLE made RENAME n TO m",
            "CREATE OR REPLACE MATERIALIZED VIEW total AS SELECT COUNT(*) AS c, SUM(n) AS s FROM k",
            "DROP MATERIALIZED VIEW IF EXISTS total",
            "CREATE MATERIALIZED VIEW IF NOT EXISTS pairs AS SELECT k.id, b.n FROM k JOIN bag AS b ON k.id = b.n",
            "CREATE OR REPLACE MATERIALIZED VIEW above AS SELECT n % 3 AS r, COUNT(*) AS c FROM pairs GROUP BY n % 3",
            "DROP MATERIALIZED VIEW IF EXISTS above",
            "CREATE VIEW IF NOT EXISTS shown AS SELECT n, COUNT(*) AS c FROM bag GROUP BY n",
            "DROP VIEW IF EXISTS shown",
            "DROP TABLE IF EXISTS bag",
        ]
    )


FIRST = (
    "CREATE TABLE k (id INT PRIMARY KEY NOT ENFORCED, n INT)",
    "CREATE TABLE bag (n INT)",
    "CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS c, SUM(n) AS s FROM k",
    "CREATE MATERIALIZED VIEW pairs AS SELECT k.id, b.n FROM k JOIN bag AS b ON k.id = b.n",
    "CREATE MATERIALIZED VIEW above AS SELECT n % 3 AS r, COUNT(*) AS c FROM pairs GROUP BY n % 3",
)


def settings(rng: random.Random) -> dict[str, str]:
    return {
        "sqlengine.database.checkpoint-size": rng.choice(["1", "3kb", "20kb", "64mb"]),
        "sqlengine.database.synchronous": rng.choice(["full", "full", "normal", "off"]),
    }


def carry_out(t_env: TableEnvironment, statements: list[str]) -> None:
    """Statements that the engine refuses, such as one about a table that is not there, change nothing."""
    for text in statements:
        try:
            t_env.execute_sql(text)
        except SqlEngineError as error:
            if error.code.startswith("E37"):
                raise


def process_ends(t_env: TableEnvironment | None) -> None:
    """Without a word: nothing that an environment does from now on counts."""
    if t_env is not None and t_env.session.durable is not None:
        with suppress(BaseException):
            t_env.session.durable.abandon()
    lease._held.clear()
    gc.collect()


class Trial:
    """A database, and beside it one in memory that carries out the same: the model.

    `states`: those that it may be in: after what was told to be done, and after what was tried since.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.rng = random.Random(seed)
        self.done: list[list[str]] = [[text] for text in FIRST]

    def model(self, done: list[list[str]]) -> State:
        with TableEnvironment.create() as t_env:
            for statements in done:
                carry_out(t_env, statements)
            return state(t_env)

    def run(self, disk: Disk, count: int) -> None:
        """Carries out statements until the disk fails or the process is killed; then it is opened on a whole disk."""
        t_env: TableEnvironment | None = None
        tried: list[list[str]] = []
        with disk.installed():
            try:
                t_env = TableEnvironment.create(settings(self.rng), path=self.folder)
                for _ in range(count):
                    tried = [statement(self.rng)]
                    carry_out(t_env, tried[0])
                    self.done += tried
                    tried = []
                t_env.close()
            except (Killed, SqlEngineError) as error:
                if isinstance(error, SqlEngineError):
                    assert error.code in ("E3700", "E3704"), error
            finally:
                process_ends(t_env)
        self.check(tried)

    def check(self, tried: list[list[str]]) -> None:
        with TableEnvironment.create(path=self.folder) as t_env:
            found = state(t_env)
        if found == self.model(self.done):
            return
        self.done += tried
        assert tried and found == self.model(self.done)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_disk_faults(tmp_path: Path, seed: int) -> None:
    trial = Trial(tmp_path / "db", seed)
    with TableEnvironment.create(path=trial.folder) as t_env:
        for text in FIRST:
            t_env.execute_sql(text)
    for _ in range(3):
        rng = trial.rng
        operations = rng.choice([20, 60, 200])
        killed = rng.random() < 0.5
        disk = Disk(None, rng.randrange(operations)) if killed else Disk(fault_from(rng, operations)[1])
        trial.run(disk, rng.randrange(2, 20))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + max(1, SEEDS // 8)))
def test_a_log_cut_at_any_byte(tmp_path: Path, seed: int) -> None:
    """The states at all cuts are those after each statement, in order."""
    rng = random.Random(seed)
    folder = tmp_path / "db"
    t_env = TableEnvironment.create(path=folder)
    states: list[State] = [state(t_env)]
    sizes: list[int] = [0]
    (log,) = (folder / "log").iterdir()
    for statements in [*([text] for text in FIRST), *(statement(rng) for _ in range(12))]:
        carry_out(t_env, statements)
        states.append(state(t_env))
        sizes.append(log.stat().st_size)
    process_ends(t_env)
    whole = log.read_bytes()
    cuts = sorted({rng.randrange(len(whole) + 1) for _ in range(25)} | {len(whole)})
    for cut in cuts:
        copy = tmp_path / str(cut)
        shutil.copytree(folder, copy)
        (copy / "log" / log.name).write_bytes(whole[:cut])
        with TableEnvironment.create(path=copy) as again:
            last = max(i for i, size in enumerate(sizes) if size <= cut)
            # The statements of an epoch count together, but what it defines is there at once.
            assert state(again) == states[last], cut
        shutil.rmtree(copy)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + max(2, SEEDS // 4)))
def test_other_bytes(tmp_path: Path, seed: int) -> None:
    """Damage is told, or does not matter: never is anything missing without a word."""
    rng = random.Random(seed)
    folder = tmp_path / "db"
    t_env = TableEnvironment.create({"sqlengine.database.checkpoint-size": "4kb"}, path=folder)
    for text in FIRST:
        t_env.execute_sql(text)
    for _ in range(15):
        carry_out(t_env, [_change(rng)])
    t_env.session.durable.folder._wait()  # type: ignore[union-attr]
    # The end of the log is known to be whole by what stands behind it.
    t_env.execute_sql("CREATE TABLE last (a INT)")
    expected = state(t_env)
    process_ends(t_env)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]
    for _ in range(12):
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        path = copy / rng.choice(files).relative_to(folder)
        data = bytearray(path.read_bytes())
        way = rng.random()
        if way < 0.6:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif way < 0.8 and path.parent.name != "log":
            del data[rng.randrange(len(data)) :]
        path.write_bytes(data) if way < 0.9 else path.unlink()
        try:
            with TableEnvironment.create(path=copy) as again:
                # The last statement is the only one whose damage looks like a crash.
                assert state(again) == expected, path
        except SqlEngineError as error:
            assert error.code in ("E3702", "E3703"), error
        shutil.rmtree(copy)


_WRITERS = """
import sys, threading
from sqlengine import TableEnvironment
t_env = TableEnvironment.create({"sqlengine.database.checkpoint-size": "20kb"}, path=sys.argv[1])
t_env.execute_sql("CREATE TABLE IF NOT EXISTS t (w INT, n INT)")
t_env.execute_sql("CREATE TABLE IF NOT EXISTS u (w INT PRIMARY KEY NOT ENFORCED, n INT)")
t_env.execute_sql("CREATE MATERIALIZED VIEW IF NOT EXISTS m AS SELECT w, COUNT(*) AS c FROM t GROUP BY w")
known = {r["w"]: r["c"] for r in t_env.execute_sql("SELECT * FROM m").to_arrow().to_pylist()}
out = threading.Lock()
print("open", flush=True)
def write(w, session):
    n = known.get(w, 0)
    while True:
        session.execute_sql("BEGIN EPOCH")
        session.execute_sql(f"INSERT INTO t VALUES ({w}, {n})")
        session.execute_sql(f"INSERT INTO u VALUES ({w}, {n})")
        session.execute_sql("END EPOCH")
        n += 1
        with out:
            print(w, n, flush=True)
for w in range(20):
    threading.Thread(target=write, args=(w, t_env.new_session())).start()
"""


_LOG_WRITER = """
import sys, threading
from runtime.checkpoint.keys import NO_KEYS
from runtime.checkpoint.local_storage import LocalStorage
from sqlengine.database.folder.log import Log, read_log
from sqlengine.database.folder.log_end import LogEnd
storage, end = LocalStorage(sys.argv[1]), LogEnd(0)
counts = [0] * 20
for epoch in read_log(storage, "db", 0, NO_KEYS, end):
    thread, number = map(int, epoch.bodies[0].to_pybytes().split())
    assert number == counts[thread] + 1
    counts[thread] = number
log, out = Log(storage, "db", 1, NO_KEYS, "full", end), threading.Lock()
print("open", *counts, flush=True)
def write(thread):
    while True:
        counts[thread] += 1
        log.settle(log.append([[b"%d " % thread, b"%d" % counts[thread]], [b"second part"]]))
        with out:
            print(thread, counts[thread], flush=True)
for thread in range(20):
    threading.Thread(target=write, args=(thread,)).start()
"""


def _killed(program: str, folder: Path, most: int) -> tuple[list[int], list[tuple[int, int]]]:
    """Runs writers in a process that is killed after some of at most so many lines: what they told when the folder was
    open, and then, by number of the writer."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdout is not None
    word, *counts = process.stdout.readline().split()
    assert word == "open"
    lines = [process.stdout.readline() for _ in range(most)]
    process.send_signal(signal.SIGKILL)
    lines += process.stdout.read().splitlines(keepends=True)
    process.wait()
    process.stdout.close()
    told = [line.split() for line in lines if line.endswith("\n")]
    return [int(count) for count in counts], [(int(writer), int(number)) for writer, number in told]


def test_twenty_sessions_that_are_killed_lose_nothing_that_they_were_told(tmp_path: Path) -> None:
    """Each session writes epochs of two tables: what it was told is there, and one more at most, whole."""
    rng = random.Random(FIRST_SEED)
    told = [0] * 20
    for _ in range(max(2, KILLS)):
        for w, n in _killed(_WRITERS, tmp_path / "db", rng.randrange(1, 150))[1]:
            told[w] = n
        with TableEnvironment.create(path=tmp_path / "db") as t_env:
            found = t_env.execute_sql("SELECT w, n FROM t").to_arrow().to_pylist()
            newest = {r["w"]: r["n"] for r in t_env.execute_sql("SELECT w, n FROM u").to_arrow().to_pylist()}
            for w in range(20):
                numbers = sorted(r["n"] for r in found if r["w"] == w)
                assert numbers == list(range(len(numbers))) and told[w] <= len(numbers) <= told[w] + 1
                assert newest.get(w, -1) == len(numbers) - 1
                told[w] = len(numbers)
            views = t_env.execute_sql("SELECT * FROM m").to_arrow().to_pylist()
            assert {r["w"]: r["c"] for r in views} == {w: n for w, n in enumerate(told) if n}


def test_twenty_writers_of_a_log_are_killed(tmp_path: Path) -> None:
    """Of each writer all epochs that it was told are safe are there, and one more at most."""
    rng = random.Random(FIRST_SEED)
    told = [0] * 20
    for _ in range(max(3, KILLS)):
        counts, numbers = _killed(_LOG_WRITER, tmp_path / "db", rng.randrange(1, 400))
        for thread, count in enumerate(counts):
            assert told[thread] <= count <= told[thread] + 1
            told[thread] = count
        for thread, count in numbers:
            told[thread] = count
