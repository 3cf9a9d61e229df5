"""A server in a process of its own, started once for all tests of a worker, and empty schemas for each test."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Address:
    """Where the server is, and the schema that a test has for itself."""

    host: str
    port: int
    schema: str

    @property
    def conninfo(self) -> str:
        return (
            f"host={self.host} port={self.port} user=sqlengine dbname=default_catalog "
            f"options='-c search_path={self.schema}'"
        )

    def connect(self, **more: object) -> psycopg.Connection:
        return psycopg.connect(self.conninfo, **{"autocommit": True, **more})  # type: ignore[arg-type]


def started(*arguments: str) -> tuple[subprocess.Popen[str], str, int]:
    """A server that listens, and where."""
    command = [sys.executable, "-m", "sqlengine", "serve", "--postgres", "127.0.0.1:0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    line = process.stdout.readline()
    match = re.match(r"PostgreSQL clients connect to ([\d.]+):(\d+)", line)
    assert match is not None, line + process.stderr.read()
    return process, match[1], int(match[2])


def stop(process: subprocess.Popen[str]) -> int:
    """Its exit status."""
    process.terminate()
    status = process.wait(60)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    return status


@pytest.fixture(scope="session")
def server() -> Iterator[tuple[str, int]]:
    process, host, port = started()
    yield host, port
    assert stop(process) == 0


@pytest.fixture
def address(server: tuple[str, int]) -> Address:
    """The server, with a schema that is empty."""
    schema = f"s{next(_numbers)}"
    found = Address(*server, "default_database")
    with found.connect() as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return Address(*server, schema)


@pytest.fixture
def client(address: Address) -> Iterator[psycopg.Connection]:
    with address.connect() as connection:
        yield connection
