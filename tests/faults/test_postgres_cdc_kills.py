"""A job from a table of PostgreSQL into another one, whose process is killed with SIGKILL at random moments, and whose server
crashes now and then: what it writes is the answer of PostgreSQL.

`make faults` kills it fifty times.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

from tests.faults.conftest import FIRST_SEED, KILLS
from tests.faults.processes import WarmProcess
from tests.servers.postgres import PostgresDatabase

KILLED_SOURCES = ("postgres-cdc",)
"""Connectors of which the tests here prove something."""
_PATIENCE = 60.0


def _transactions(postgres: PostgresDatabase, rng: random.Random) -> Iterator[None]:
    """A transaction each time that it is asked; what a crash of the server rolls back is not there."""
    while True:
        try:
            with postgres.connect(autocommit=False) as connection:
                while True:
                    _change(connection, rng)
                    connection.commit()
                    yield
        except psycopg.OperationalError:
            yield


def _change(connection: psycopg.Connection, rng: random.Random) -> None:
    key, region = rng.randrange(200), rng.choice(["n", "s", "w"])
    connection.execute("INSERT INTO t VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", [key, region, rng.randrange(9)])
    connection.execute("UPDATE t SET amount = amount + 1, region = %s WHERE id %% 20 = %s", [region, key % 20])
    connection.execute("DELETE FROM t WHERE id = %s", [rng.randrange(200)])
    connection.execute(
        "UPDATE t SET id = %s WHERE id = %s AND NOT EXISTS (SELECT 1 FROM t WHERE id = %s)", [key, key // 2, key]
    )


def test_a_killed_job_writes_the_answer(postgres: PostgresDatabase, tmp_path: Path, warm: WarmProcess) -> None:
    postgres.run(
        "CREATE TABLE t (id INT PRIMARY KEY, region TEXT, amount INT)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t SELECT i, 'e', 1 FROM generate_series(1000, 4000) AS i",
        "CREATE TABLE totals (region TEXT PRIMARY KEY, n BIGINT, total BIGINT)",
    )
    source = (
        "CREATE TABLE t (id INT, region STRING, amount INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'postgres-cdc', "
        f"{postgres.options}, 'schema-name' = 'public', 'table-name' = 't', 'slot.name' = '{postgres.name}_slot');"
    )
    sink = (
        "CREATE TABLE totals (region STRING, n BIGINT, total BIGINT, PRIMARY KEY (region) NOT ENFORCED) WITH "
        f"('connector' = 'postgres', {postgres.options}, 'table-name' = 'totals', 'sink.delivery-guarantee' = 'exactly-once');"
    )
    insert = "INSERT INTO totals SELECT region, COUNT(*), SUM(amount) FROM t GROUP BY region;"
    (tmp_path / "job.sql").write_text(source + sink + insert)
    options = {
        "execution.checkpointing.dir": str(tmp_path / "state"),
        "execution.checkpointing.interval": "20 ms",
        "sqlengine.epoch.max-rows": "500",
    }
    arguments = ["run", str(tmp_path / "job.sql"), *(p for k, v in options.items() for p in ("-D", f"{k}={v}"))]
    rng = random.Random(FIRST_SEED)
    write = _transactions(postgres, rng)
    for number in range(KILLS):
        before = set(tmp_path.glob("state/*/chk-*/manifest.json"))
        warm.start(arguments, tmp_path / "said")
        until = time.monotonic() + rng.uniform(0, 1)
        limit = time.monotonic() + _PATIENCE
        while time.monotonic() < until or set(tmp_path.glob("state/*/chk-*/manifest.json")) <= before:
            next(write)
            assert not warm.ended(0.005), (tmp_path / "said").read_text()
            assert time.monotonic() < limit
        if number % 2:
            with postgres.server.away():
                next(write)
        warm.kill()
        assert warm.status() == -signal.SIGKILL
        for _ in range(rng.randrange(3)):
            next(write)
    expected = postgres.rows("SELECT region, count(*), sum(amount) FROM t GROUP BY region ORDER BY region")
    warm.start(arguments, tmp_path / "said")
    limit = time.monotonic() + _PATIENCE
    while (found := postgres.rows("SELECT * FROM totals ORDER BY region")) != expected:
        assert time.monotonic() < limit, (found, expected)
        assert not warm.ended(0.05), (tmp_path / "said").read_text()
    warm.kill()
    warm.status()
    ((slots,),) = postgres.rows("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()")
    assert slots == 1
