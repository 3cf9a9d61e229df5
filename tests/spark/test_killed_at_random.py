"""What a job publishes when processes of its cluster are killed or stand still at random moments, and files of its state are lost.

A standalone cluster of two workers, each kind SPARK_FAULTS times (`make spark-faults`; not at all without it, because of
the five JVMs: `test_local_cluster.py` kills a few where one is there). SPARK_EVENTS says how many events (400,000),
FAULT_SEED which moments.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.spark.standalone import Workers, below, environment, kill, newest_checkpoint, standalone, until

KILLS = int(os.environ.get("SPARK_FAULTS", "0"))
EVENTS = int(os.environ.get("SPARK_EVENTS", "400000"))
SEED = int(os.environ.get("FAULT_SEED", "1"))
JOB = f"""
CREATE TABLE nexmark (event_type INT, bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,
  `dateTime` TIMESTAMP(3), extra STRING>)
WITH ('connector' = 'nexmark', 'events.num' = '{EVENTS}', 'seed' = '7');
CREATE TABLE totals (auction BIGINT, bids BIGINT, best BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'OUT', 'format' = 'debezium-json');
INSERT INTO totals
SELECT bid.auction, COUNT(*), MAX(bid.price) FROM nexmark WHERE event_type = 2 GROUP BY bid.auction;
"""
KINDS = ("task", "executor", "worker", "driver", "resident", "state", "slow")

pytestmark = [
    pytest.mark.skipif(not KILLS, reason="five JVMs: make spark-faults"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Workers]]:
    with standalone(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("embedded")
    assert run(folder).wait() == 0
    return published(folder)


def run(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    job = folder / "job.sql"
    job.write_text(JOB.replace("OUT", str(folder / "out")))
    log = (folder / "driver.log").open("ab")
    command = [sys.executable, "-m", "sqlengine", "run", str(job), "-D", f"sqlengine.epoch.max-rows={EVENTS // 100}"]
    return subprocess.Popen([*command, *options], env=environment(), stdout=log, stderr=log, start_new_session=True)


def published(folder: Path) -> list[str]:
    files = [f for f in (folder / "out").rglob("*") if f.is_file() and not f.name.startswith((".", "_"))]
    return sorted(line for f in files for line in f.read_text().splitlines())


def tasks_and_executors(workers: Workers) -> dict[str, list[int]]:
    """The processes of the cluster, by kind."""
    found: dict[str, list[int]] = {"task": [], "executor": [], "resident": []}
    for worker in workers:
        there = below(worker.pid)
        for pid, command in there.items():
            if "CoarseGrainedExecutorBackend" in command:
                found["executor"].append(pid)
            elif "spark.resident" in command:
                found["resident"].append(pid)
            elif "pyspark.daemon" in command and any("pyspark.daemon" in c for c in below(pid).values()):
                # The first of its kind starts the others, which do the work.
                found["task"] += [p for p, c in below(pid).items() if "pyspark.daemon" in c]
    return found


def harm(kind: str, chance: random.Random, workers: Workers, driver: subprocess.Popen[bytes], state: Path) -> bool:
    """Whether there was something to harm."""
    if kind == "driver":
        kill(driver)
        return True
    if kind == "worker":
        workers.replace(chance.randrange(len(workers)))
        return True
    there = tasks_and_executors(workers)
    if kind == "slow":
        return stand_still(chance, [*there["task"], *there["executor"]])
    if kind == "state":
        files = [p for p in (state / ".versions").rglob("*.state.*") if p.is_file()]
        if not files or not there["task"]:
            return False
        for file in chance.sample(files, (len(files) + 1) // 2):
            if chance.random() < 0.5:
                file.unlink(missing_ok=True)
            elif file.exists():
                file.write_bytes(file.read_bytes()[:-1] + b"?")
    # Who opens files of state is who has lost what was in memory.
    pids = there["task" if kind == "state" else kind]
    if pids:
        os.kill(chance.choice(pids), signal.SIGKILL)
    return bool(pids)


def stand_still(chance: random.Random, pids: list[int]) -> bool:
    """One process does nothing for a while, as on a machine that swaps."""
    if not pids:
        return False
    pid = chance.choice(pids)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        over = time.monotonic() + 5 * chance.random()
        until(lambda: time.monotonic() > over, "a while")
        os.kill(pid, signal.SIGCONT)
    return True


@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_or_twice(tmp_path: Path, cluster: tuple[str, Workers], expected: list[str], kind: str) -> None:
    chance = random.Random(f"{SEED} {kind}")
    master, workers = cluster
    state = tmp_path / "state"
    options = ["--on", f"spark={master}", "-D", "parallelism.default=4", "-D", f"execution.checkpointing.dir={state}"]
    options += ["-D", "execution.checkpointing.interval=300 ms", "-D", "restart-strategy.type=none"]
    if kind == "resident":
        options += ["-D", "sqlengine.spark.mode=per-epoch"]

    def checkpoint() -> int:
        return newest_checkpoint(state)

    def moment(driver: subprocess.Popen[bytes]) -> None:
        """Behind the next checkpoint, or the end."""
        before, seconds = checkpoint(), chance.random()
        until(lambda: checkpoint() > before or driver.poll() is not None, "a checkpoint")
        then = time.monotonic() + seconds
        until(lambda: time.monotonic() > then, "a moment")

    driver = run(tmp_path, *options)
    done, starts = 0, 1
    try:
        while True:
            moment(driver)
            if driver.poll() is None and done < KILLS:
                done += harm(kind, chance, workers, driver, state)
            if driver.poll() is not None:
                if driver.returncode == 0:
                    break
                starts += 1
                assert starts <= KILLS + 2, (tmp_path / "driver.log").read_text()[-4000:]
                driver = run(tmp_path, *options)
    finally:
        kill(driver)
    log = (tmp_path / "driver.log").read_text()
    print(f"{kind}: {done} of {KILLS}, {starts} starts, {checkpoint()} checkpoints")
    assert done, "the job was over before anything was killed: raise SPARK_EVENTS"
    assert published(tmp_path) == expected
    # What stops a job has a code and a cause.
    assert "Traceback" not in log and "Py4JJavaError" not in log, log[-4000:]
    assert kind != "state" or starts == 1 or re.search(r"E3607 .*(holds other bytes|is not in)", log)
