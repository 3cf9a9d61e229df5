"""A leader and a standby: the other one follows, nothing acknowledged is lost or doubled, and a former leader does nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.servers.process import free_port

_KILLS = int(os.environ.get("STANDBY_KILLS", "1"))
_FOLLOWS_SECONDS = 10.0
_PATIENCE_SECONDS = 60.0
"""Nothing takes so long, unless something is wrong."""


class Machine:
    """A server on a machine of its own: `ports` are those of PostgreSQL and of the web page."""

    def __init__(self, place: str, *arguments: str) -> None:
        self.ports = free_port(), free_port()
        self.arguments = (place, *arguments)
        self.lines: list[str] = []
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "sqlengine", "serve", "--standby", *self.arguments]
        command += ["--postgres", f"127.0.0.1:{self.ports[0]}", "--web", f"127.0.0.1:{self.ports[1]}"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                self.lines.append(line)

    def says(self, text: str, times: int = 1) -> None:
        """Wait until it has said something so often."""
        until(lambda: sum(text in line for line in list(self.lines)) >= times, self)

    def health(self, path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[1]}{path}", timeout=5) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
            self.process.kill()
        self.process.wait()


def until(done: Callable[[], bool], *machines: Machine) -> None:
    begun = time.monotonic()
    while not done():
        assert time.monotonic() - begun < _PATIENCE_SECONDS, [machine.lines for machine in machines]
        threading.Event().wait(0.02)


def both(*machines: Machine) -> str:
    """All machines, of which the one that takes writes is meant."""
    hosts, ports = ",".join("127.0.0.1" for _ in machines), ",".join(str(machine.ports[0]) for machine in machines)
    return f"host={hosts} port={ports} user=sqlengine target_session_attrs=read-write connect_timeout=5"


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    made: list[Machine] = []

    def make(*arguments: str) -> Machine:
        made.append(Machine(str(tmp_path / "shop"), *arguments))
        return made[-1]

    yield make
    for machine in made:
        machine.end()


class Writer(threading.Thread):
    """Inserts numbers one after another, at whatever machine there is."""

    def __init__(self, conninfo: str) -> None:
        super().__init__(daemon=True)
        self.conninfo = conninfo
        self.acknowledged: list[int] = []
        self.unknown: list[int] = []
        self.gap = 0.0
        self.stopped = threading.Event()

    def run(self) -> None:
        number, last = 0, time.monotonic()
        while not self.stopped.is_set():
            try:
                with psycopg.connect(self.conninfo, autocommit=True) as connection:
                    while not self.stopped.is_set():
                        number += 1
                        connection.execute("INSERT INTO t VALUES (%s)", (number,))
                        self.acknowledged.append(number)
                        self.gap = max(self.gap, time.monotonic() - last)
                        last = time.monotonic()
            except psycopg.Error:
                self.unknown.append(number)
                self.stopped.wait(0.02)


def test_the_other_one_follows_and_nothing_is_lost_or_doubled(machines: Callable[..., Machine], tmp_path: Path) -> None:
    """With a job that is exactly once: what it has written to files is what it has read, once."""
    first = machines()
    first.says("Browsers open")
    second = machines()
    second.says("standing by for")
    assert (first.health("/readyz"), second.health("/readyz"), second.health("/healthz")) == (200, 503, 200)
    assert second.health("/api/v1/jobs") == 503
    asked = urllib.request.Request(f"http://127.0.0.1:{second.ports[1]}/", headers={"Accept": "text/html"})
    with pytest.raises(urllib.error.HTTPError) as waits:
        urllib.request.urlopen(asked, timeout=60)
    with waits.value as told:
        assert told.headers["Refresh"] == "2" and b"this server stands by" in told.read()
    with pytest.raises(psycopg.OperationalError, match="another one serves the database") as refused:
        psycopg.connect(both(second))
    assert "HINT:  connect to the other server" in str(refused.value)
    (tmp_path / "in").mkdir()
    with psycopg.connect(both(first, second), autocommit=True) as connection:
        assert connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)
        files = "'connector' = 'filesystem', 'format' = 'csv'"
        for statement in (
            "CREATE TABLE t (n INT)",
            "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS c, COUNT(DISTINCT n) AS d FROM t",
            f"CREATE TABLE g (n INT) WITH ({files}, 'path' = '{tmp_path}/in', 'source.monitor-interval' = '20 ms')",
            f"CREATE TABLE f (n INT) WITH ({files}, 'path' = '{tmp_path}/out')",
            "CREATE TABLE s (n INT)",
            "SET 'execution.checkpointing.interval' = '50 ms'",
            "INSERT INTO s SELECT n FROM g",
            "INSERT INTO f SELECT n FROM g",
        ):
            connection.execute(statement)  # type: ignore[call-overload]
    writer = Writer(both(first, second))
    writer.start()
    for kill in range(_KILLS):
        leader, other = (first, second) if kill % 2 == 0 else (second, first)
        add_file(tmp_path, 2 * kill)
        count = len(writer.acknowledged)
        until(lambda count=count: len(writer.acknowledged) > count + 20, leader)  # type: ignore[misc]
        leader.kill()
        add_file(tmp_path, 2 * kill + 1)
        count = len(writer.acknowledged)
        until(lambda count=count: len(writer.acknowledged) > count + 20, other)  # type: ignore[misc]
        if kill + 1 < _KILLS:
            leader.start()
            leader.says("standing by for", kill // 2 + 1)
    writer.stopped.set()
    writer.join()
    assert writer.gap < _FOLLOWS_SECONDS
    wanted = [(n,) for n in range(100 * _KILLS)]
    with psycopg.connect(both(first, second), autocommit=True) as connection:
        found = [n for (n,) in connection.execute("SELECT n FROM t").fetchall()]
        assert len(found) == len(set(found))
        assert set(writer.acknowledged) <= set(found) <= set(writer.acknowledged) | set(writer.unknown)
        assert connection.execute("SELECT c, d FROM v").fetchall() == [(len(found), len(found))]
        until(lambda: connection.execute("SELECT n FROM s ORDER BY n").fetchall() == wanted, first, second)

    def written() -> list[tuple[int]]:
        return sorted((int(n),) for path in (tmp_path / "out").glob("part-*") for n in path.read_text().split())

    until(lambda: written() == wanted, first, second)


def add_file(folder: Path, number: int) -> None:
    hidden = folder / "in" / f"_{number}"
    hidden.write_text("".join(f"{number * 50 + i}\n" for i in range(50)))
    hidden.rename(folder / "in" / f"{number:04}.csv")


def test_a_leader_that_stood_still_writes_and_answers_nothing_more(machines: Callable[..., Machine]) -> None:
    first = machines()
    first.says("Browsers open")
    second = machines()
    second.says("standing by for")
    old = psycopg.connect(both(first), autocommit=True)
    idle = psycopg.connect(both(first), autocommit=True)
    old.execute("CREATE TABLE t (n INT)")
    old.execute("INSERT INTO t VALUES (1)")
    first.process.send_signal(signal.SIGSTOP)
    outcome: list[BaseException | None] = []

    def write() -> None:
        # It is on its way while the leader stands still, and is read when that goes on.
        try:
            old.execute("INSERT INTO t VALUES (2)")
            outcome.append(None)
        except psycopg.Error as error:
            outcome.append(error)

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    second.says("PostgreSQL clients connect")
    with psycopg.connect(both(second), autocommit=True) as new:
        new.execute("INSERT INTO t VALUES (3)")
        first.process.send_signal(signal.SIGCONT)
        with pytest.raises(psycopg.OperationalError):
            idle.execute("SELECT n FROM t").fetchall()
        writing.join(_PATIENCE_SECONDS)
        assert isinstance(outcome[0], psycopg.OperationalError)
        # It stands by from now on.
        first.says("standing by for")
        assert first.health("/readyz") == 503
        first.process.terminate()
        assert first.process.wait(30) == 0
        assert new.execute("SELECT n FROM t ORDER BY n").fetchall() == [(1,), (3,)]
    second.process.terminate()
    assert second.process.wait(30) == 0
