"""A server that speaks MongoDB's protocol (4.2), in Java and in memory: MongoDB itself is in no registry that the tests reach.

It checks documents, filters, orders and updates as MongoDB does, and has no sessions, transactions and change streams. Its jars
come from Maven Central.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.servers.jars import fetched_jars
from tests.servers.process import ServerProcess, folder_of_a_server, free_port, running

__all__ = ["MongoServer", "mongodb", "mongodb_server", "running_mongodb"]

_HERE = Path(__file__).parent
_JAVA = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_numbers = itertools.count(1)


@dataclass
class MongoServer(ServerProcess):
    """`database`: that of a test."""

    database: str = "test"

    @property
    def uri(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}/"

    @property
    def options(self) -> str:
        """What a table says in WITH, but for its collection."""
        return f"'connector' = 'mongodb', 'uri' = '{self.uri}', 'database' = '{self.database}'"

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """The database of the test."""
        # All tests load this module, and few need the client.
        from pymongo import MongoClient

        with MongoClient(self.uri, serverSelectionTimeoutMS=500) as client:
            yield client[self.database]

    def command(self) -> list[str]:
        jars = fetched_jars(_HERE / "mongodb_jars.txt", "mongo-java-server-1.47.0")
        return ["java", *_JAVA, "-cp", f"{jars}/*", str(_HERE / "MongoServing.java"), str(self.port)]

    def answers(self) -> bool:
        return self.listens()

    def of_a_test(self) -> MongoServer:
        return MongoServer(self.folder, self.port, f"test{next(_numbers)}", _process=self._process)


@contextmanager
def running_mongodb() -> Iterator[MongoServer]:
    """A new server."""
    with folder_of_a_server("mongodb") as folder, running(MongoServer(folder, free_port())) as server:
        yield server


@pytest.fixture(scope="session")
def mongodb_server() -> Iterator[MongoServer]:
    """The server of this process."""
    with running_mongodb() as server:
        yield server


@pytest.fixture
def mongodb(mongodb_server: MongoServer) -> MongoServer:
    """The server, with a database that no other test has."""
    return mongodb_server.of_a_test()
