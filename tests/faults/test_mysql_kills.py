"""A job from tables of MariaDB into others, whose process is killed with SIGKILL at random moments, and whose server crashes: every
row is there once, and what follows changes is the answer of the server.

`make faults` kills it fifty times.
"""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

from tests.faults.conftest import FIRST_SEED, KILLS
from tests.faults.processes import WarmProcess
from tests.servers.mariadb import PASSWORD, MariaDatabase

KILLED_SOURCES = ("mysql-cdc",)
"""Connectors of which the tests here prove something."""
_PATIENCE = 60.0


def test_a_killed_job_writes_the_answer(mariadb: MariaDatabase, tmp_path: Path, warm: WarmProcess) -> None:
    rng = random.Random(FIRST_SEED)
    mariadb.run(
        "CREATE TABLE t (id INT PRIMARY KEY, region VARCHAR(5), amount INT)",
        "INSERT INTO t SELECT seq, 'e', 1 FROM seq_1000_to_4000",
        "CREATE TABLE totals (region VARCHAR(5) PRIMARY KEY, n BIGINT, total BIGINT)",
    )
    (tmp_path / "job.sql").write_text(
        "CREATE TABLE t (id INT, region STRING, amount INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'mysql-cdc', "
        f"'hostname' = '127.0.0.1', 'port' = '{mariadb.server.port}', 'username' = 'root', 'password' = '{PASSWORD}', "
        f"'database-name' = '{mariadb.name}', 'table-name' = 't');"
        f"CREATE TABLE totals (region STRING, n BIGINT, total BIGINT, PRIMARY KEY (region) NOT ENFORCED) WITH "
        f"('connector' = 'mysql', {mariadb.options}, 'table-name' = 'totals');"
        "INSERT INTO totals SELECT region, COUNT(*), SUM(amount) FROM t GROUP BY region;"
    )
    options = {
        "execution.checkpointing.dir": str(tmp_path / "state"),
        "execution.checkpointing.interval": "20 ms",
        "sqlengine.epoch.max-rows": "500",
    }
    arguments = ["run", str(tmp_path / "job.sql"), *(p for k, v in options.items() for p in ("-D", f"{k}={v}"))]
    for number in range(KILLS):
        newest = _newest(tmp_path)
        warm.start(arguments, tmp_path / "said")
        wanted, limit = newest + rng.randint(1, 4), time.monotonic() + _PATIENCE
        while _newest(tmp_path) < wanted:
            _change(mariadb, rng)
            assert not warm.ended(0.005), (tmp_path / "said").read_text()
            assert time.monotonic() < limit
        if number % 2:
            with mariadb.server.away():
                pass
            _change(mariadb, rng)
        warm.kill()
        assert warm.status() == -signal.SIGKILL
        for _ in range(rng.randrange(3)):
            _change(mariadb, rng)
    expected = mariadb.rows("SELECT region, COUNT(*), SUM(amount) FROM t GROUP BY region ORDER BY region")
    warm.start(arguments, tmp_path / "said")
    limit = time.monotonic() + _PATIENCE
    while (found := mariadb.rows("SELECT * FROM totals ORDER BY region")) != expected:
        assert time.monotonic() < limit, (found, expected)
        assert not warm.ended(0.05), (tmp_path / "said").read_text()
    warm.kill()
    warm.status()


def _change(mariadb: MariaDatabase, rng: random.Random) -> None:
    """A transaction of a few changes."""
    key, region = rng.randrange(200), rng.choice(["n", "s", "w"])
    with mariadb.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT IGNORE INTO t VALUES ({key}, '{region}', {rng.randrange(9)})")
        cursor.execute(f"UPDATE t SET amount = amount + 1, region = '{region}' WHERE id % 20 = {key % 20}")
        cursor.execute(f"DELETE FROM t WHERE id = {rng.randrange(200)}")
        cursor.execute(f"UPDATE IGNORE t SET id = {key} WHERE id = {key // 2}")
        connection.commit()


def _newest(folder: Path) -> int:
    """The number of the newest checkpoint that is whole; 0 without one."""
    return max(
        (int(path.parent.name.removeprefix("chk-")) for path in folder.glob("state/*/chk-*/manifest.json")), default=0
    )
