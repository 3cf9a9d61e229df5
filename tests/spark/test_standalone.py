"""A cluster of processes on this machine: a worker is killed, then the driver, and what is published stays exact.

Six JVMs: only with SPARK_MATRIX=1 (`make spark-matrix`). SPARK_EVENTS says how many events (200,000), in twenty epochs.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).parents[2]
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
    pytest.mark.long,
    pytest.mark.skipif(not os.environ.get("SPARK_MATRIX"), reason="six JVMs: make spark-matrix"),
]


def environment() -> dict[str, str]:
    home = str(Path(pyspark.__file__).parent)
    return {
        **os.environ,
        "SPARK_HOME": home,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
    }


def until(found: Callable[[], object], what: str, seconds: float = 240) -> None:
    """Wait for what another process does."""
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A master and two workers of one core; ended with all that they started."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> None:
        log = (tmp_path / f"{name}.log").open("wb")
        command = [spark_class, *arguments, "--webui-port", "0"]
        started.append(subprocess.Popen(command, env=environment(), stdout=log, stderr=log, start_new_session=True))

    address = f"spark://127.0.0.1:{port}"
    start("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port))
    until(lambda: b"started at" in (tmp_path / "master.log").read_bytes(), "the master")
    for number in (1, 2):
        work = str(tmp_path / f"work{number}")
        start(f"worker{number}", "org.apache.spark.deploy.worker.Worker", "-c", "1", "-m", "1g", "-d", work, address)
    until(lambda: (tmp_path / "master.log").read_bytes().count(b"Registering worker") >= 2, "the workers")
    yield address, started[1:]
    for process in started:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """`kill -9` for a process and all that it started in its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


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
        numbers = [int(p.parent.name.removeprefix("chk-")) for p in state.rglob("chk-*/manifest.json")]
        return max(numbers, default=0)

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
