"""A server of PostgreSQL, started when a test first asks for it, with a database for each test.

    def test_it(postgres: PostgresDatabase) -> None:
        with postgres.connect() as connection:
            connection.execute("CREATE TABLE t (id INT PRIMARY KEY)")

It can be read by logical replication (`wal_level=logical`), has one user `postgres` with the password `postgres`, who is a
superuser, and is lost with its folder.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.server.debian import debian_program
from tests.servers import process
from tests.servers.process import RestartableServer, folder_of_a_server, free_port, owned_by

__all__ = ["PostgresDatabase", "PostgresServer", "postgres", "postgres_server", "running"]

PASSWORD = "of tests alone"
_FOLDERS = "/usr/lib/postgresql/*/bin"
_SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{folder}'
wal_level = logical
max_prepared_transactions = 10
max_replication_slots = 20
max_wal_senders = 20
max_connections = 60
shared_buffers = 32MB
fsync = off
full_page_writes = off
timezone = 'Asia/Kathmandu'
"""
_numbers = itertools.count(1)


@dataclass
class PostgresServer(RestartableServer):
    """The server; its programs run as `user`, or as who runs the tests."""

    folder: Path
    port: int
    user: str | None
    host: str = "127.0.0.1"

    def start(self) -> None:
        self._control("start", "-l", str(self.folder / "said"), "-w", "-t", "60")

    def stop(self, how: str = "immediate") -> None:
        """As `pg_ctl` does: `immediate` is a crash, `fast` ends all sessions in good order."""
        self._control("stop", "-m", how, "-w", "-t", "60")

    def connect(self, database: str = "postgres", **more: Any) -> psycopg.Connection:
        """A connection that commits each statement by itself."""
        return psycopg.connect(
            host=self.host,
            port=self.port,
            dbname=database,
            user="postgres",
            password=PASSWORD,
            **{"autocommit": True, **more},
        )

    def _control(self, *arguments: str) -> None:
        subprocess.run(
            [_program("pg_ctl"), "-D", str(self.folder / "data"), *arguments],
            user=self.user,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
        )


@dataclass(frozen=True)
class PostgresDatabase:
    """An empty database."""

    server: PostgresServer
    name: str

    @property
    def url(self) -> str:
        """Without user and password."""
        return f"postgresql://{self.server.host}:{self.server.port}/{self.name}"

    @property
    def options(self) -> str:
        """What a table or catalog says in WITH."""
        return f"'url' = '{self.url}', 'username' = 'postgres', 'password' = '{PASSWORD}'"

    def connect(self, **more: Any) -> psycopg.Connection:
        return self.server.connect(self.name, **more)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The answer to one question."""
        with self.connect() as connection:
            return connection.execute(query).fetchall()

    def run(self, *statements: str) -> None:
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)


@contextmanager
def running() -> Iterator[PostgresServer]:
    """A new server."""
    _program("initdb")  # the package makes the user
    with folder_of_a_server("postgres") as folder:
        server = PostgresServer(folder, free_port(), owned_by("postgres", folder))
        _make(server)
        with process.running(server):
            yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server of this process."""
    with running() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[PostgresDatabase]:
    """A database for one test."""
    name = f"test{next(_numbers)}"
    with postgres_server.connect() as connection:
        connection.execute(
            f"CREATE DATABASE {name} ENCODING 'UTF8' LC_COLLATE 'C.UTF-8' LC_CTYPE 'C.UTF-8' TEMPLATE template0"
        )
    yield PostgresDatabase(postgres_server, name)
    with postgres_server.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND database = %s", [name]
        )
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active AND database = %s",
            [name],
        )
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _program(name: str) -> str:
    return debian_program(name, "postgresql", _FOLDERS)


def _make(server: PostgresServer) -> None:
    password = server.folder / "password"
    password.write_text(PASSWORD)
    made = [_program("initdb"), "-D", str(server.folder / "data"), "-U", "postgres", "-E", "UTF8", "--no-sync"]
    how = ["--locale=C.UTF-8", "--auth=scram-sha-256", f"--pwfile={password}"]
    if server.user is not None:
        shutil.chown(password, server.user)
    subprocess.run([*made, *how], user=server.user, check=True, capture_output=True, cwd=server.folder)
    with (server.folder / "data" / "postgresql.conf").open("a") as settings:
        settings.write(_SETTINGS.format(port=server.port, folder=server.folder))
