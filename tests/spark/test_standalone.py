"""A cluster of processes on this machine: a worker is killed, then the driver, and what is published stays exact.

Six JVMs: only with SPARK_MATRIX=1 (`make spark-matrix`). SPARK_EVENTS says how many events (200,000), in twenty epochs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.standalone import environment, kill, newest_checkpoint, standalone, until

EVENTS = int(os.environ.get("SPARK_EVENTS", "200000"))
JOB = f"""
CREATE TABLE nexmark (event_type INT, bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,
  `dateTime` TIMESTAMP(3), extra STRING>)
WITH ('connector' = 'nexmark', 'events.num' = '{EVENTS}', 'seed' = '7');
CREATE TABLE totals (auction BIGINT, bids BIGINT, best BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'OUT', 'format' = 'debezium-json');
INSERT INTO totals
SELECT bid.auction, COUNT(*), MAX(bid.price) FROM nexmark WHERE event_type = 2 GROUP BY bid.auction;
"""

pytestmark = [
    pytest.mark.skipif(not os.environ.get("SPARK_MATRIX"), reason="six JVMs: make spark-matrix"),
]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    with standalone(tmp_path) as found:
        yield found


def run(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    job = folder / "job.sql"
    job.write_text(JOB.replace("OUT", str(folder / "out")))
    log = (folder / "driver.log").open("ab")
    command = [
        sys.executable,
        "-m",
        "sqlengine",
        "run",
        str(job),
        "-D",
        f"sqlengine.epoch.max-rows={EVENTS // 20}",
        *options,
    ]
    return subprocess.Popen(command, env=environment(), stdout=log, stderr=log, start_new_session=True)


def published(folder: Path) -> list[str]:
    files = [f for f in (folder / "out").rglob("*") if f.is_file() and not f.name.startswith((".", "_"))]
    return sorted(line for f in files for line in f.read_text().splitlines())


def test_a_killed_worker_and_a_killed_driver(
    tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    embedded, on_spark = tmp_path / "embedded", tmp_path / "spark"
    embedded.mkdir()
    on_spark.mkdir()
    assert run(embedded).wait() == 0
    master, workers = cluster
    state = on_spark / "state"
    options = ["--on", f"spark={master}", "-D", "parallelism.default=4", "-D", f"execution.checkpointing.dir={state}"]
    options += ["-D", "execution.checkpointing.interval=200 ms"]

    def checkpoint() -> int:
        return newest_checkpoint(state)

    driver = run(on_spark, *options)
    try:
        until(lambda: checkpoint() >= 1 or driver.poll() is not None, "a checkpoint")
        assert driver.poll() is None, (on_spark / "driver.log").read_text()
        kill(workers[0])
        before = checkpoint()
        until(lambda: checkpoint() > before or driver.poll() is not None, "a checkpoint after a worker has gone")
    finally:
        if driver.poll() is None:
            kill(driver)
    assert run(on_spark, *options).wait() == 0, (on_spark / "driver.log").read_text()
    log = (on_spark / "driver.log").read_text()
    print(log)
    assert "goes on after epoch" in log or "nothing to do" in log
    assert published(on_spark) == published(embedded)
