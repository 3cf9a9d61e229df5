"""Jobs of a database in a folder whose process is killed at random moments go on, and count each row once.

A job reads files that come one after another, and a table; it writes to a table without key, to two with a key over
state, and to files. A view stands above the first table. After each kill the database is opened again.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sqlengine import TableEnvironment
from tests.faults.conftest import FIRST_SEED, KILLS

ROWS = 50
_WRITER = """
import sys
from sqlengine import TableEnvironment
t_env = TableEnvironment.create({"sqlengine.database.checkpoint-size": "20kb"}, path=sys.argv[1])
print("open", flush=True)
for _ in iter(sys.stdin.readline, ""):
    print(*t_env.execute_sql("SELECT c FROM m").to_arrow().to_pylist(), flush=True)
"""
DEFINITIONS = (
    "CREATE TABLE g (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv', "
    "'source.monitor-interval' = '10 ms')",
    "CREATE TABLE f (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'csv')",
    "CREATE TABLE s (n BIGINT)",
    "CREATE TABLE k (r BIGINT PRIMARY KEY NOT ENFORCED, c BIGINT)",
    "CREATE TABLE names (r BIGINT, name STRING)",
    "INSERT INTO names VALUES " + ", ".join(f"({r}, 'n{r}')" for r in range(7)),
    "CREATE TABLE named (name STRING PRIMARY KEY NOT ENFORCED, c BIGINT)",
    "CREATE MATERIALIZED VIEW m AS SELECT COUNT(*) AS c, SUM(n) AS n FROM s",
)
JOB = """EXECUTE STATEMENT SET BEGIN
INSERT INTO s SELECT n FROM g;
INSERT INTO k SELECT n % 7, COUNT(*) FROM g GROUP BY n % 7;
INSERT INTO f SELECT n FROM g;
INSERT INTO named SELECT name, COUNT(*) FROM g JOIN names ON g.n % 7 = names.r GROUP BY name;
END"""


@pytest.fixture(params=["db", "s3://lake/jobs"])
def place(request: pytest.FixtureRequest) -> str:
    """Where the database is: in a folder, or in an object store."""
    return request.param if request.param == "db" else f"{request.param}?{request.getfixturevalue('s3')}"


def _file(number: int) -> None:
    """The next file: rows follow one another."""
    hidden = Path("in", f"_{number}")
    hidden.write_text("".join(f"{number * ROWS + i}\n" for i in range(ROWS)))
    hidden.rename(Path("in", f"{number:04}.csv"))


def _counted(t_env: TableEnvironment) -> int:
    # Over no rows it has none.
    rows = t_env.execute_sql("SELECT c FROM m").to_arrow().to_pylist()
    return int(rows[0]["c"]) if rows else 0


def test_a_job_whose_process_is_killed_counts_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    rng = random.Random(FIRST_SEED)
    with TableEnvironment.create({"execution.checkpointing.interval": "20 ms"}, path=place) as t_env:
        for definition in DEFINITIONS:
            t_env.execute_sql(definition)
        assert not t_env.execute_sql(JOB).warnings
    files = 0
    for _ in range(max(3, KILLS)):
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "open\n"
        before = files
        while files < before + 2 or rng.random() < 0.8:
            _file(files)
            files += 1
            process.stdin.write("\n")
            process.stdout.readline()
        end = time.perf_counter() + rng.random() * 0.05
        while time.perf_counter() < end:
            pass
        process.send_signal(signal.SIGKILL)
        process.communicate()
    with TableEnvironment.create(path=place) as t_env:
        while _counted(t_env) < files * ROWS:
            pass
    with TableEnvironment.create(path=place) as t_env:
        rows = t_env.execute_sql("SELECT n FROM s").to_arrow().column("n").to_pylist()
        assert sorted(rows) == list(range(files * ROWS))
        assert t_env.execute_sql("SELECT * FROM m").to_arrow().to_pylist() == [{"c": len(rows), "n": sum(rows)}]
        groups = {r["r"]: r["c"] for r in t_env.execute_sql("SELECT * FROM k").to_arrow().to_pylist()}
        assert groups == {r: len(range(r, len(rows), 7)) for r in range(7)}
        named = {r["name"]: r["c"] for r in t_env.execute_sql("SELECT * FROM named").to_arrow().to_pylist()}
        assert named == {f"n{r}": count for r, count in groups.items()}
    written = [int(line) for path in Path("out").glob("part-*") for line in path.read_text().split()]
    assert sorted(written) == list(range(files * ROWS))
