"""A job from PostgreSQL into PostgreSQL whose process is killed with SIGKILL at random moments, and whose server crashes: every
row is there once, and every sum is right.

`make faults` kills it fifty times.
"""

from __future__ import annotations

import random
import signal
from pathlib import Path

from tests.faults.conftest import FIRST_SEED, KILLS
from tests.faults.processes import WarmProcess
from tests.servers.postgres import PostgresDatabase

ROWS = 400 * (KILLS + 2)


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
        newest = _newest(tmp_path)
        warm.start(arguments, tmp_path / "said")
        if killed < KILLS:
            if _goes_on(warm, tmp_path, newest + rng.randint(1, 3)) and crashed <= killed // 2:
                with postgres.server.away():
                    crashed += 1
            # It stops anywhere between two checkpoints, and not only right behind one.
            if _goes_on(warm, tmp_path, newest + rng.randint(4, 8)) and not warm.ended(rng.uniform(0, 0.01)):
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
    assert crashed == (KILLS + 1) // 2
    print(f"{killed} kills, {crashed} crashes of the server")


def _newest(folder: Path) -> int:
    """The number of the newest checkpoint that is whole; 0 without one."""
    return max(
        (int(path.parent.name.removeprefix("chk-")) for path in folder.glob("state/*/chk-*/manifest.json")), default=0
    )


def _goes_on(warm: WarmProcess, folder: Path, checkpoint: int) -> bool:
    """Wait for a checkpoint; False when the job has ended before."""
    while _newest(folder) < checkpoint:
        if warm.ended(0.002):
            return False
    return True
