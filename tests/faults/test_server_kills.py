"""kill -9 of a server while clients insert, update, delete, copy, commit, roll back, and define views: what it has
acknowledged is there when it is started again, what it has not is there whole or not at all, and views fit their tables.

SERVER_KILLS says how often (`make server-kills`: 200), FAULT_FIRST_SEED at which moments.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg

from tests.faults.conftest import FIRST_SEED
from tests.faults.processes import WarmProcess
from tests.faults.server_load import DEFINITIONS, clients

_KILLS = int(os.environ.get("SERVER_KILLS", "1"))
_MOST_STEPS = 150
_PATIENCE_SECONDS = 120.0
"""Nothing takes so long, unless something is wrong."""


class _Progress:
    """Counts what was acknowledged."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def more(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait(self, steps: int, failed: Callable[[], bool]) -> None:
        """Until so many more were, or somebody has failed."""
        with self._changed:
            end = self._count + steps
            assert self._changed.wait_for(lambda: self._count >= end or failed(), _PATIENCE_SECONDS), "nobody gets on"


class _Server:
    """Over the database in a folder."""

    def __init__(self, folder: Path, warm: WarmProcess) -> None:
        self._warm = warm
        self._folder = folder
        self._said = folder.parent / "said"
        self._said.unlink(missing_ok=True)
        warm.start(
            ["serve", "--postgres", "127.0.0.1:0", str(folder), "-D", "sqlengine.database.checkpoint-size=64kb"],
            self._said,
        )

    def conninfo(self) -> str:
        """Where it listens, once it does."""
        while True:
            ended = self._warm.ended(0.01)
            said = self._said.read_text() if self._said.exists() else ""
            match = re.match(r"PostgreSQL clients connect to ([\d.]+):(\d+): .*\n", said)
            if match is not None:
                return f"host={match[1]} port={match[2]} user=sqlengine"
            assert not ended, said

    def opens(self) -> None:
        """Wait until it has a file of the database in its hands."""
        place = f"/proc/{self._warm.number}/fd"
        while not self._warm.ended(0):
            for name in os.listdir(place):
                with suppress(FileNotFoundError):
                    if os.readlink(f"{place}/{name}").startswith(str(self._folder)):
                        return

    def kill(self) -> None:
        """Without a word."""
        self._warm.kill()
        assert self._warm.status() == -signal.SIGKILL, self._said.read_text()

    def stop(self) -> None:
        """As somebody would who means well."""
        os.kill(self._warm.number, signal.SIGTERM)
        assert self._warm.status() == 0, self._said.read_text()


def test_what_was_acknowledged_is_there(tmp_path: Path, warm: WarmProcess) -> None:
    choose, progress, folder = random.Random(FIRST_SEED), _Progress(), tmp_path / "shop"
    working = clients(FIRST_SEED, progress.more)
    for kill in itertools.count():
        server = _Server(folder, warm)
        conninfo = server.conninfo()
        with psycopg.connect(conninfo, autocommit=True) as connection:
            if kill == 0:
                for definition in DEFINITIONS:
                    connection.execute(definition)  # type: ignore[call-overload]
            for client in working:
                client.check(connection)
        if kill == _KILLS:
            break
        for client in working:
            client.start(conninfo)
        progress.wait(choose.randint(len(working), _MOST_STEPS), lambda: any(c.failure is not None for c in working))
        server.kill()
        for client in working:
            client.join()
        if choose.random() < 0.2:
            # While it goes through what it was doing.
            server = _Server(folder, warm)
            server.opens()
            server.kill()
    server.stop()
    print(f"{_KILLS} kills, {sum(client.number for client in working):,} changes")
