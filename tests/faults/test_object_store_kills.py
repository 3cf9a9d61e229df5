"""A database in an object store that speaks S3: its processes are killed while they write, a second one is told who owns
it, and the command line takes a URI for a folder."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.checkpoint.store import CheckpointStore
from runtime.core.errors import CheckpointError, DatabaseError
from sqlengine import TableEnvironment
from tests.faults.conftest import FIRST_SEED, KILLS

WRITER = """
import sys
from sqlengine import TableEnvironment
environment = TableEnvironment.create({"sqlengine.database.checkpoint-size": "20 kb"}, path=sys.argv[1])
environment.execute_sql("CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY NOT ENFORCED, x INT)")
environment.execute_sql("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT COUNT(*) AS c, SUM(id) AS s FROM t")
next_id = max([0, *environment.execute_sql("SELECT id FROM t").to_arrow()["id"].to_pylist()]) + 1
print(next_id - 1, flush=True)
while True:
    environment.execute_sql(f"INSERT INTO t VALUES ({next_id}, 1), ({-next_id}, 2)").wait()
    print(next_id, flush=True)
    next_id += 1
"""


def test_killed_writers_lose_nothing_that_was_acknowledged(s3: str) -> None:
    uri, rng, known = f"s3://lake/killed?{s3}", random.Random(FIRST_SEED), 0
    for _ in range(max(3, KILLS)):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, uri], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        begun = int(writer.stdout.readline())
        # An INSERT that was at hand is there, whole, or not.
        assert begun in (known, known + 1)
        known = begun
        for _ in range(rng.randrange(1, 120)):
            known = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split()
        known = int(rest[-1]) if rest else known
        writer.wait()
    with TableEnvironment.create(path=uri) as environment:
        ids = {r["id"] for r in environment.execute_sql("SELECT id FROM t").to_arrow().to_pylist()}
        last = max(ids)
        assert last in (known, known + 1) and ids == {*range(1, last + 1), *range(-last, 0)}
        assert environment.execute_sql("SELECT c, s FROM v").to_arrow().to_pylist() == [{"c": 2 * last, "s": 0}]


def test_a_second_process_is_told_who_owns_it(s3: str) -> None:
    uri = f"s3://lake/owned?{s3}"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, uri], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    writer.stdout.readline()
    with pytest.raises(DatabaseError, match=rf"s3://lake/owned is open already: process {writer.pid} on ") as error:
        TableEnvironment.create(path=uri)
    assert error.value.code == "E3701"
    writer.kill()
    writer.wait()
    writer.stdout.close()
    TableEnvironment.create(path=uri).close()


JOB = """
import sys
from runtime.checkpoint.store import CheckpointStore
store = CheckpointStore(sys.argv[1], "totals")
store.claim()
print("claimed", flush=True)
sys.stdin.readline()
store.close()
print("closed", flush=True)
sys.stdin.readline()
"""


def test_two_jobs_with_one_folder_for_checkpoints_are_refused(s3: str) -> None:
    uri = f"s3://lake/checkpoints?{s3}"
    other = subprocess.Popen(
        [sys.executable, "-c", JOB, uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert other.stdin is not None and other.stdout is not None
    assert other.stdout.readline() == "claimed\n"
    store = CheckpointStore(uri, "totals")
    with pytest.raises(CheckpointError, match=rf"process {other.pid} on .* writes checkpoints to s3://lake/") as error:
        store.claim()
    assert error.value.code == "E3405"
    CheckpointStore(uri, "another job").claim()
    other.stdin.write("\n")
    assert other.stdout.readline() == "closed\n"
    store.claim()
    # The claims of a process are one.
    CheckpointStore(uri, "totals").claim()
    store.close()
    other.communicate("\n")


def test_the_command_line_and_backups_take_uris(s3: str, tmp_path: Path) -> None:
    shop, saved, again = (f"s3://lake/{name}?{s3}" for name in ("shop", "saved", "again"))

    def sqlengine(database: str, *statements: str) -> str:
        given = [word for statement in statements for word in ("-e", statement)]
        command = [sys.executable, "-m", "sqlengine", "run", "--database", database, *given]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ})
        return done.stdout + done.stderr

    sqlengine(shop, "CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, x INT)", "INSERT INTO t VALUES (1, 2), (3, 4)")
    assert "in the backup s3://lake/saved" in sqlengine(shop, f"BACKUP TO '{saved}'")
    assert "E3708" in sqlengine(shop, f"BACKUP TO '{saved}'")
    assert "| 4 |" in sqlengine(again, f"RESTORE FROM '{saved}'", "SELECT x FROM t WHERE id = 3")
    assert "| 4 |" in sqlengine(saved, "DELETE FROM t WHERE id = 1", "SELECT x FROM t")
    sqlengine(shop, f"BACKUP TO '{tmp_path}/local'")
    assert "| 2 |" in sqlengine(f"{tmp_path}/local", "SELECT x FROM t WHERE id = 1")
    assert "E3706" in sqlengine(f"s3://lake/saved/log?{s3}", "SHOW TABLES")
    assert not list(tmp_path.glob("s3*"))
