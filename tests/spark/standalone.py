"""A standalone cluster of processes on this machine: a master and workers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

__all__ = ["ROOT", "Workers", "below", "environment", "kill", "newest_checkpoint", "standalone", "until"]

ROOT = Path(__file__).parents[2]


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


def newest_checkpoint(folder: Path) -> int:
    """The number of the newest complete checkpoint below a folder, of which a job removes old ones meanwhile; 0: none."""
    found = [Path(place).name for place, _, files in os.walk(folder) if "manifest.json" in files]
    return max((int(name.removeprefix("chk-")) for name in found if name.startswith("chk-")), default=0)


class Workers(list[subprocess.Popen[bytes]]):
    """The workers of a cluster. `start`: makes another one."""

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        super().__init__()
        self.start = start

    def replace(self, number: int) -> None:
        """Kill one with all that it has started, and start another in its place."""
        kill(self[number])
        self[number] = self.start()


def below(process: int) -> dict[int, str]:
    """The processes that a process has started, at any depth, each with its command."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            parents.setdefault(parent, []).append(int(folder.name))
    found: dict[int, str] = {}
    waiting = [process]
    while waiting:
        for child in parents.get(waiting.pop(), []):
            try:
                found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            waiting.append(child)
    return found


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[tuple[str, Workers]]:
    """The address of a master, and its workers of one core; ended with all that they started."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = (folder / f"{name}.log").open("wb")
        command = [spark_class, *arguments, "--webui-port", "0"]
        started.append(subprocess.Popen(command, env=environment(), stdout=log, stderr=log, start_new_session=True))
        return started[-1]

    def worker() -> subprocess.Popen[bytes]:
        number = len(started)
        work = str(folder / f"work{number}")
        return start(
            f"worker{number}", "org.apache.spark.deploy.worker.Worker", "-c", "1", "-m", "1g", "-d", work, address
        )

    address = f"spark://127.0.0.1:{port}"
    try:
        start("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port))
        until(lambda: b"started at" in (folder / "master.log").read_bytes(), "the master")
        made = Workers(worker)
        made += [worker() for _ in range(workers)]
        until(lambda: (folder / "master.log").read_bytes().count(b"Registering worker") >= workers, "the workers")
        yield address, made
    finally:
        for process in started:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """`kill -9` for a process and all that it started in its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
