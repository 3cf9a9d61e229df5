"""A server of Redis, started when a test first asks for it, with keys of their own for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import redis as client

from tests.server.debian import debian_program
from tests.servers.process import ServerProcess, folder_of_a_server, free_port, running

__all__ = ["PASSWORD", "RedisServer", "hashes", "redis", "redis_server", "running_redis"]

PASSWORD = "quite a secret"
_numbers = itertools.count(1)


@dataclass
class RedisServer(ServerProcess):
    """`prefix`: of the keys of a test."""

    prefix: str = ""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def options(self) -> str:
        """What a table says in WITH."""
        return f"'connector' = 'redis', 'url' = '{self.url}', 'password' = '{PASSWORD}'"

    def connect(self) -> client.Redis:
        return client.Redis(port=self.port, password=PASSWORD, decode_responses=True)

    def command(self) -> list[str]:
        listens = f"--port {self.port} --bind 127.0.0.1 --requirepass".split()
        keeps = ["--appendonly", "yes", "--appendfsync", "no", "--daemonize", "no", "--save"]
        return [debian_program("redis-server"), "--dir", str(self.folder), *listens, PASSWORD, *keeps, ""]

    def answers(self) -> bool:
        try:
            with self.connect() as asked:
                return bool(asked.ping())
        except client.RedisError:
            return False

    def of_a_test(self) -> RedisServer:
        return RedisServer(self.folder, self.port, f"test{next(_numbers)}:", _process=self._process)


@contextmanager
def running_redis() -> Iterator[RedisServer]:
    """A new server."""
    with folder_of_a_server("redis") as folder, running(RedisServer(folder, free_port())) as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """The server of this process."""
    with running_redis() as server:
        yield server


@pytest.fixture
def redis(redis_server: RedisServer) -> RedisServer:
    """The server, with a prefix of keys that no other test has."""
    return redis_server.of_a_test()


def hashes(server: RedisServer, prefix: str) -> dict[str, dict[str, Any]]:
    """All hashes whose keys begin with a prefix, by the rest of their keys."""
    with server.connect() as asked:
        return {key.removeprefix(prefix): asked.hgetall(key) for key in asked.scan_iter(f"{prefix}*", count=1000)}
