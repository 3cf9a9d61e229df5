"""A job from files into lakes whose process is killed with SIGKILL at random moments: each row is there once.

`make faults` kills it fifty times.
"""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sqlengine import TableEnvironment
from tests.faults.conftest import FIRST_SEED, KILLS
from tests.faults.processes import WarmProcess

MOST = KILLS if KILLS > 2 else 1
"""The libraries of lakes take long to load."""
ROWS = 24 * (MOST + 2)
KEYS = 17
LAKES = ("iceberg", "delta")


def catalogs(folder: Path) -> str:
    return (
        f"CREATE CATALOG iceberg WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = '{folder}/iceberg');"
        f"CREATE CATALOG delta WITH ('type' = 'delta', 'path' = '{folder}/delta');"
    )


def test_a_killed_job_leaves_each_row_once(tmp_path: Path, warm: WarmProcess) -> None:
    """Of both lakes in one job: by key, and every row."""
    numbers = pa.array(range(ROWS), pa.int32())
    keys = pa.array([n % KEYS for n in range(ROWS)], pa.int32())
    pq.write_table(pa.table({"id": keys, "n": numbers}), tmp_path / "given.parquet")
    with TableEnvironment.create() as t_env:
        t_env.execute_script(catalogs(tmp_path))
        for lake in LAKES:
            t_env.execute_script(
                f"CREATE DATABASE {lake}.db; CREATE TABLE {lake}.db.last (id INT, n INT, PRIMARY KEY (id) NOT ENFORCED);"
                f"CREATE TABLE {lake}.db.every (id INT, n INT);"
            )
    inserts = "".join(
        f"INSERT INTO {lake}.db.{t} SELECT id, n FROM given;" for lake in LAKES for t in ("last", "every")
    )
    (tmp_path / "job.sql").write_text(
        f"{catalogs(tmp_path)} CREATE TABLE given (id INT, n INT) WITH ('connector' = 'filesystem', 'format' = 'parquet', "
        f"'path' = '{tmp_path}/given.parquet'); EXECUTE STATEMENT SET BEGIN {inserts} END;"
    )
    options = {
        "execution.checkpointing.dir": str(tmp_path / "state"),
        "execution.checkpointing.interval": "20 ms",
        "sqlengine.epoch.max-rows": "8",
    }
    arguments = ["run", str(tmp_path / "job.sql"), *(p for k, v in options.items() for p in ("-D", f"{k}={v}"))]
    rng = random.Random(FIRST_SEED)
    killed = 0
    while True:
        before = set(tmp_path.glob("state/*/chk-*/manifest.json"))
        warm.start(arguments, tmp_path / "said")
        while killed < MOST and not warm.ended(0.002) and set(tmp_path.glob("state/*/chk-*/manifest.json")) <= before:
            pass
        if killed < MOST and not warm.ended(rng.uniform(0, 0.3)):
            warm.kill()
        status = warm.status()
        if status != -signal.SIGKILL:
            assert status == 0, (tmp_path / "said").read_text()
            break
        killed += 1
    expected = {
        "last": sorted((key, max(n for n in range(ROWS) if n % KEYS == key)) for key in range(KEYS)),
        "every": sorted((n % KEYS, n) for n in range(ROWS)),
    }
    with TableEnvironment.create() as t_env:
        t_env.execute_script(catalogs(tmp_path))
        for lake in LAKES:
            for name, rows in expected.items():
                found = t_env.execute_sql(f"SELECT id, n FROM {lake}.db.{name}").to_arrow().to_pylist()
                assert sorted((row["id"], row["n"]) for row in found) == rows, f"{lake} {name}"
    print(f"{killed} kills")
