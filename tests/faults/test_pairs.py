"""Jobs from any system into any other, drawn by a seed, whose process is killed with SIGKILL: each row is there once.

PAIR_KILLS is how often processes are killed, over all pairs that are drawn; `make faults PAIR_KILLS=1000` does so a thousand
times.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from sqlengine import TableEnvironment
from tests.faults.conftest import FIRST_SEED
from tests.faults.pairs import SYSTEMS, PairTable, fresh_names
from tests.faults.processes import WarmProcess

WANTED = int(os.environ.get("PAIR_KILLS", "2"))
OF_A_PAIR = 5
EPOCH_ROWS = 4
ROWS_OF_A_KILL = 500
"""Of so many, a job has given few when it is killed."""


def test_a_killed_job_writes_each_row_once(request: pytest.FixtureRequest, tmp_path: Path, warm: WarmProcess) -> None:
    rng, names = random.Random(FIRST_SEED), fresh_names()
    killed: Counter[tuple[str, str]] = Counter()
    runs = 0
    while killed.total() < WANTED:
        assert runs < 3 * WANTED, "jobs end before they are killed"
        source, sink = rng.choice([*SYSTEMS]), rng.choice([*SYSTEMS])
        kills = min(OF_A_PAIR if WANTED > OF_A_PAIR else 1, WANTED - killed.total())
        folder = tmp_path / f"run{runs}"
        folder.mkdir()
        given, made = (SYSTEMS[system](request, folder, next(names)) for system in (source, sink))
        killed[source, sink] += _killed(rng, folder, given, made, kills, warm, f"{source} -> {sink}")
        runs += 1
        print(f"{source} -> {sink}: {killed[source, sink]}")
    print(f"{killed.total()} kills in {runs} jobs of {len(killed)} pairs")


def _killed(
    rng: random.Random, folder: Path, given: PairTable, made: PairTable, kills: int, warm: WarmProcess, pair: str
) -> int:
    """How often a job was killed until it came to its end."""
    rows = ROWS_OF_A_KILL * (kills + 1)
    declared = given.declared + made.declared
    with TableEnvironment.create() as t_env:
        t_env.execute_script(declared + given.made + made.made)
        numbers = pa.table({"id": pa.array(range(rows), pa.int32()), "n": pa.array(range(rows), pa.int32())})
        t_env.create_temporary_view("numbers", t_env.from_arrow(numbers))
        t_env.execute_sql(f"INSERT INTO {given.name} SELECT id, n FROM numbers").wait()
    (folder / "job.sql").write_text(f"{declared} INSERT INTO {made.name} SELECT id, n + 1 FROM {given.name};")
    options = {
        "execution.checkpointing.dir": str(folder / "state"),
        "execution.checkpointing.interval": "5 ms",
        "sqlengine.epoch.max-rows": str(EPOCH_ROWS),
    }
    arguments = ["run", str(folder / "job.sql"), *(p for k, v in options.items() for p in ("-D", f"{k}={v}"))]
    killed = 0
    while True:
        wanted = _newest(folder) + rng.randint(1, 2)
        warm.start(arguments, folder / "said")
        while killed < kills and _newest(folder) < wanted and not warm.ended(0.002):
            pass
        # Anywhere between two checkpoints, and not only right behind one.
        if killed < kills and not warm.ended(rng.uniform(0, 0.01)):
            warm.kill()
        status = warm.status()
        if status != -signal.SIGKILL:
            assert status == 0, f"{pair}, seed {FIRST_SEED}, {killed} kills: {(folder / 'said').read_text()}"
            break
        killed += 1
    with TableEnvironment.create() as t_env:
        t_env.execute_script(declared)
        found = t_env.execute_sql(f"SELECT id, n FROM {made.name}").to_arrow().to_pylist()
    got = sorted((row["id"], row["n"]) for row in found)
    assert got == [(n, n + 1) for n in range(rows)], f"{pair}, seed {FIRST_SEED}, {killed} kills"
    return killed


def _newest(folder: Path) -> int:
    """The number of the newest checkpoint that is whole; 0 without one."""
    manifests = folder.glob("state/*/chk-*/manifest.json")
    return max((int(path.parent.name.removeprefix("chk-")) for path in manifests), default=0)
