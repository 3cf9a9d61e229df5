"""Views of a database in a folder whose process is killed at random moments: each is what its query says.

Threads write tables, and files come that a view reads, while small checkpoints are taken all the time. After each kill
the database is opened again: what was told to be done is there, and views are what their queries say over the tables
and over all files. Files that somebody has made up, with right checksums, are refused or computed with, and are never an
internal error.
"""

from __future__ import annotations

import dataclasses
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from runtime.checkpoint.keys import NO_KEYS
from runtime.checkpoint.local_storage import LocalStorage
from runtime.checkpoint.segments import Segment, SegmentReader, SegmentWriter
from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment
from sqlengine.database.folder import checkpoint
from sqlengine.database.folder.view_state import ViewState
from tests.faults.conftest import FIRST_SEED, KILLS

QUERIES = {
    "groups": "SELECT w, COUNT(*) AS c, MAX(n) AS x FROM t GROUP BY w",
    "pairs": "SELECT t.w, t.n, u.v FROM t JOIN u ON t.n = u.n",
    "ranks": "SELECT w, n, COUNT(*) OVER (PARTITION BY w ORDER BY n) AS r FROM t",
    "above": "SELECT SUM(c) AS c, MAX(x) AS x FROM groups",
    "divided": "SELECT w, 100 / (n + 1) AS d FROM t",
    "read": "SELECT r, COUNT(*) AS c FROM (SELECT n % 7 AS r FROM f) GROUP BY r",
    "both": "SELECT f.n, u.v FROM f JOIN u ON f.n = u.n",
}
TABLES = (
    "CREATE TABLE t (w INT, n INT) WITH ('changelog-mode' = 'retract')",
    "CREATE TABLE u (n INT PRIMARY KEY NOT ENFORCED, v INT)",
    "CREATE TABLE f (n INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv', "
    "'source.monitor-interval' = '5 ms')",
)
_WRITERS = f"""
import sys, threading
from pathlib import Path
from sqlengine import TableEnvironment
t_env = TableEnvironment.create({{"sqlengine.database.checkpoint-size": sys.argv[1]}}, path="db")
known = {{r["w"]: r["c"] for r in t_env.execute_sql({QUERIES["groups"]!r}).to_arrow().to_pylist()}}
out = threading.Lock()
print("open", flush=True)
def write(w, session):
    n = known.get(w, 0)
    while True:
        session.execute_sql("BEGIN EPOCH")
        session.execute_sql(f"INSERT INTO t VALUES ({{w}}, {{n}})")
        session.execute_sql(f"INSERT INTO u VALUES ({{n}}, {{w}})")
        session.execute_sql("END EPOCH")
        if n % 5 == 4:
            session.execute_sql(f"UPDATE u SET v = v + 1 WHERE n = {{n - 2}}")
        n += 1
        with out:
            print(w, n, flush=True)
for w in range(4):
    threading.Thread(target=write, args=(w, t_env.new_session())).start()
files = len(list(Path("in").glob("*.csv")))
while True:
    hidden = Path("in", f"_{{files}}")
    hidden.write_text("".join(f"{{files * 10 + i}}\\n" for i in range(10)))
    hidden.rename(Path("in", f"{{files:05}}.csv"))
    files += 1
    with out:
        print("file", files, flush=True)
    threading.Event().wait(0.01)
"""


def _rows(t_env: TableEnvironment, query: str) -> list[str]:
    return sorted(map(repr, t_env.execute_sql(query).to_arrow().to_pylist()))


def test_views_of_a_process_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(FIRST_SEED)
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    with TableEnvironment.create(path="db") as t_env:
        for statement in TABLES:
            t_env.execute_sql(statement)
        for name, query in QUERIES.items():
            t_env.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    told = [0] * 4
    gone_on = 0
    for _ in range(max(3, KILLS)):
        size = rng.choice(["1", "2kb", "10kb"])
        process = subprocess.Popen([sys.executable, "-c", _WRITERS, size], stdout=subprocess.PIPE, text=True, bufsize=1)
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        lines = [process.stdout.readline() for _ in range(rng.randrange(1, 80))]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.read().splitlines(keepends=True)
        process.wait()
        process.stdout.close()
        for who, number in (line.split() for line in lines if line.endswith("\n")):
            if who != "file":
                told[int(who)] = int(number)
        with TableEnvironment.create(path="db") as t_env:
            gone_on += sum(view.job.restored is not None for view in t_env.session.views.jobs())
            t_env.flush()
            t_env.execute_sql("CREATE TEMPORARY TABLE files (n INT) WITH ('connector' = 'filesystem', 'path' = 'in', "
                              "'format' = 'csv')")  # fmt: skip
            for name, query in QUERIES.items():
                below = query.replace("FROM groups", f"FROM ({QUERIES['groups']})")
                below = below.replace("FROM f JOIN", "FROM files AS f JOIN").replace("FROM f)", "FROM files)")
                batch = f"SELECT * FROM ({below})"
                t_env.execute_sql("SET 'execution.runtime-mode' = 'batch'")
                assert _rows(t_env, f"SELECT * FROM {name}") == _rows(t_env, batch), name
            counts = {r["w"]: r["c"] for r in t_env.execute_sql("SELECT * FROM groups").to_arrow().to_pylist()}
            for w in range(4):
                assert told[w] <= counts.get(w, 0) <= told[w] + 1
                told[w] = counts.get(w, 0)
    assert gone_on > 0


SMALL = (
    *TABLES[:2],
    "INSERT INTO t VALUES (1, 1), (1, 2), (2, 3), (2, 4)",
    "INSERT INTO u VALUES (1, 10), (2, 20), (3, 30)",
)


def _made_up(rng: random.Random, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with another column: other values, another type, none at all."""
    if not rows.num_columns:
        return rows
    at = rng.randrange(rows.num_columns)
    name, count = rows.schema.names[at], rows.num_rows
    columns, names = list(rows.columns), list(rows.schema.names)
    way = rng.randrange(6)
    if way == 0:
        columns[at] = pa.array([rng.choice([-1, 0, 7, 1 << 40, (1 << 62) + 1]) for _ in range(count)], pa.int64())
    elif way == 1:
        columns[at] = pa.nulls(count, columns[at].type)
    elif way == 2:
        columns[at] = pa.array(["x"] * count)
    elif way == 3:
        del columns[at], names[at]
    elif way == 4:
        return pa.concat_batches([rows, rows])
    else:
        names[at] = f"{name}?"
    return pa.RecordBatch.from_arrays(columns, names=names) if columns else rows


def _with_segments(view: ViewState, replaced: Callable[[Segment], Segment]) -> ViewState:
    def piece(given: object) -> object:
        found = {f.name: getattr(given, f.name) for f in dataclasses.fields(given)}  # type: ignore[arg-type]
        changed = {name: replaced(value) for name, value in found.items() if isinstance(value, Segment)}
        return dataclasses.replace(given, **changed)  # type: ignore[type-var]

    operators = tuple(
        dataclasses.replace(
            op, tasks=tuple({name: tuple(map(piece, pieces)) for name, pieces in task.items()} for task in op.tasks)
        )
        for op in view.operators
    )
    plan = replaced(view.plan)
    return dataclasses.replace(view, plan=plan, operators=operators, contents=list(map(piece, view.contents)))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + 8))
def test_state_that_somebody_has_made_up(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        for statement in SMALL:
            t_env.execute_sql(statement)
        names = [name for name, query in QUERIES.items() if "f" not in query.split()]
        for name in names:
            t_env.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS {QUERIES[name].replace(' f)', ' t)')}")
    for _ in range(4):
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / "db", copy)
        storage = LocalStorage(str(copy))
        ((epoch, path),) = checkpoint.manifests(storage)
        manifest = checkpoint.read_manifest(storage, path, epoch, NO_KEYS)
        chosen = rng.choice(sorted(manifest.views))
        segments = [s for s in manifest.views[chosen].segments if s.rows]
        target = rng.choice(segments)
        writer = SegmentWriter(storage, checkpoint.FOLDER, "abcdef012345")
        made = [_made_up(rng, batch) for batch in SegmentReader(storage).batches(target)]
        with_other = writer.rows(made[0].schema, made, sum(batch.nbytes for batch in made))
        writer.close()
        manifest.views[chosen] = _with_segments(
            manifest.views[chosen], lambda s, target=target, other=with_other: other if s == target else s
        )
        storage.delete(path)
        storage.publish(path, checkpoint._manifest_bytes(manifest, NO_KEYS))
        with TableEnvironment.create(path=copy) as t_env:
            for statement in (
                "INSERT INTO t VALUES (1, 3), (3, 1)",
                "DELETE FROM t WHERE n = 2",
                "UPDATE u SET v = v + 1",
                *(f"SELECT * FROM {name}" for name in names),
            ):
                try:
                    t_env.execute_sql(statement).to_arrow()
                except SqlEngineError as error:
                    assert error.code == "E1713" and "bug of the engine" not in str(error), (chosen, target, error)
            # The others are what they were.
            if chosen[2] not in ("groups", "pairs"):
                below = _rows(t_env, QUERIES["groups"]), _rows(t_env, QUERIES["pairs"])
                assert (_rows(t_env, "SELECT * FROM groups"), _rows(t_env, "SELECT * FROM pairs")) == below
        shutil.rmtree(copy)
