"""A server of MariaDB, started when a test first asks for it, with a database for each test.

    def test_it(mariadb: MariaDatabase) -> None:
        mariadb.run("CREATE TABLE t (id INT PRIMARY KEY)")

It keeps a log of changes by row, with whole rows, has one user `root` with a password, who may do everything, and is lost with
its folder.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.server.debian import debian_program
from tests.servers import process
from tests.servers.process import RestartableServer, folder_of_a_server, free_port, owned_by
from tests.servers.waiting import until

__all__ = ["PASSWORD", "MariaDatabase", "MariaServer", "mariadb", "mariadb_server", "running"]

PASSWORD = "of tests alone"
_SETTINGS = """[mariadbd]
datadir={folder}/data
socket={folder}/socket
pid-file={folder}/pid
init-file={folder}/users
bind-address=127.0.0.1
port={port}
skip-name-resolve
log-bin=log
server-id=1
binlog-format=ROW
binlog-row-image=FULL
character-set-server=utf8mb4
default-time-zone=+05:45
innodb-buffer-pool-size=32M
innodb-log-file-size=16M
innodb-flush-log-at-trx-commit=2
sync-binlog=0
innodb-doublewrite=0
max-connections=100
max-statement-time=60
innodb-lock-wait-timeout=20
{more}
"""
_numbers = itertools.count(1)
_SECONDS = 60
_NOBODY_THERE = 2003


@dataclass
class MariaServer(RestartableServer):
    """The server; its programs run as `user`, or as who runs the tests."""

    folder: Path
    port: int
    user: str | None
    host: str = "127.0.0.1"
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        said = (self.folder / "said").open("ab")
        with said:
            self._process = subprocess.Popen(
                [_program("mariadbd"), f"--defaults-file={self.folder}/settings"],
                user=self.user,
                cwd=self.folder,
                stdout=said,
                stderr=said,
            )
        until(self._answers, self._process, _SECONDS)

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except pymysql.err.OperationalError as error:
            assert error.args[0] == _NOBODY_THERE, (error, (self.folder / "said").read_text())
            return False
        return True

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """SIGKILL is a crash, SIGTERM ends all sessions in good order."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_SECONDS)
            self._process = None

    def connect(self, database: str | None = None, **more: Any) -> pymysql.connections.Connection[Any]:
        """A connection that commits each statement by itself."""
        return pymysql.connect(
            host=self.host,
            port=self.port,
            database=database,
            user="root",
            password=PASSWORD,
            # Without: to read the certificates of the system takes longer than most tests.
            ssl_disabled=True,
            **{"autocommit": True, "charset": "utf8mb4", **more},
        )

    def run(self, *statements: str) -> None:
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


@dataclass(frozen=True)
class MariaDatabase:
    """An empty database."""

    server: MariaServer
    name: str

    @property
    def url(self) -> str:
        """Without user and password."""
        return f"mysql://{self.server.host}:{self.server.port}/{self.name}"

    @property
    def options(self) -> str:
        """What a table or catalog says in WITH."""
        return f"'url' = '{self.url}', 'username' = 'root', 'password' = '{PASSWORD}'"

    def connect(self, **more: Any) -> pymysql.connections.Connection[Any]:
        return self.server.connect(self.name, **more)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The answer to one question."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def run(self, *statements: str) -> None:
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


@contextmanager
def running(more: str = "") -> Generator[MariaServer]:
    """A new server. `more`: lines of its settings."""
    _program("mariadbd")  # the package makes the user
    with folder_of_a_server("mariadb") as folder:
        server = MariaServer(folder, free_port(), owned_by("mysql", folder))
        _make(server, more)
        with process.running(server):
            yield server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaServer]:
    """The server of this process."""
    with running() as server:
        yield server


@pytest.fixture
def mariadb(mariadb_server: MariaServer) -> Iterator[MariaDatabase]:
    """A database for one test."""
    name = f"test{next(_numbers)}"
    mariadb_server.run(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    yield MariaDatabase(mariadb_server, name)
    mariadb_server.run(f"DROP DATABASE {name}")


def _program(name: str) -> str:
    return debian_program(name, "mariadb-server", "/usr/sbin" if name == "mariadbd" else "/usr/bin")


def _make(server: MariaServer, more: str) -> None:
    (server.folder / "settings").write_text(_SETTINGS.format(folder=server.folder, port=server.port, more=more))
    made = [_program("mariadb-install-db"), f"--defaults-file={server.folder}/settings", "--skip-test-db"]
    how = ["--auth-root-authentication-method=normal"]
    subprocess.run([*made, *how], user=server.user, check=True, capture_output=True, cwd=server.folder)
    (server.folder / "users").write_text(
        f"SET sql_log_bin = 0;\nALTER USER root@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
    )
