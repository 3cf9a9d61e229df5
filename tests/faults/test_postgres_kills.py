"""A job from PostgreSQL into PostgreSQL whose process is killed with SIGKILL at random moments, and whose server crashes: every
row is there once, and every sum is right.

`make faults` kills it fifty times.
"""

from __future__ import annotations

import random
import signal
import sys
from pathlib import Path

import pytest

from tests.faults.conftest import FIRST_SEED, KILLS
from tests.faults.processes import WarmProcess
from tests.servers.postgres import PostgresDatabase

pytestmark = [pytest.mark.long, pytest.mark.skipif(sys.platform == "win32", reason="kills with SIGKILL")]

ROWS = 80 * (KILLS + 2)


def test_a_killed_job_writes_each_row_once(postgres: PostgresDatabase, tmp_path: Path, warm: WarmProcess) -> None:
    postgres.run(
        f"CREATE TABLE given AS SELECT g AS id FROM generate_series(1, {ROWS}) AS g",
        "CREATE TABLE copied (id INT, twice INT)",
        "CREATE TABLE sums (k INT PRIMARY KEY, n BIGINT, total BIGINT)",
    )
    (tmp_path / "job.sql").write_text(
        f"CREATE CATALOG pg WITH ('type' = 'postgres', {postgres.options}); USE pg.public; EXECUTE STATEMENT SET BEGIN "
        "INSERT INTO copied SELECT id, id * 2 FROM given; "
        "INSERT INTO sums SELECT MOD(id, 10), COUNT(*), SUM(id) FROM given GROUP BY MOD(id, 10); END;"
    )
    options = {
        "execution.runtime-mode": "streaming",
        "execution.checkpointing.dir": str(tmp_path / "state"),
        "execution.checkpointing.interval": "5 ms",
        "sqlengine.epoch.max-rows": "4",
    }
    arguments = ["run", str(tmp_path / "job.sql"), *(p for k, v in options.items() for p in ("-D", f"{k}={v}"))]
    rng = random.Random(FIRST_SEED)
    killed, crashed = 0, 0
    while True:
        before = set(tmp_path.glob("state/*/chk-*/manifest.json"))
        warm.start(arguments, tmp_path / "said")
        while killed < KILLS and not warm.ended(0.002) and set(tmp_path.glob("state/*/chk-*/manifest.json")) <= before:
            pass
        if killed < KILLS and crashed <= killed // 2 and not warm.ended(rng.uniform(0, 0.1)):
            with postgres.server.away():
                crashed += 1
        if killed < KILLS and not warm.ended(rng.uniform(0, 0.3)):
            warm.kill()
        status = warm.status()
        if status != -signal.SIGKILL:
            assert status == 0, (tmp_path / "said").read_text()
            break
        killed += 1
    assert killed == KILLS
    assert postgres.rows("SELECT id, twice FROM copied ORDER BY 1") == [(i, 2 * i) for i in range(1, ROWS + 1)]
    expected = [(k, len(range(k or 10, ROWS + 1, 10)), sum(range(k or 10, ROWS + 1, 10))) for k in range(10)]
    assert postgres.rows("SELECT k, n, total FROM sums ORDER BY 1") == expected
    print(f"{killed} kills, {crashed} crashes of the server")
