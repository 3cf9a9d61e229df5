"""A server of Redis, started when a test first asks for it, with keys of their own for each test."""

from __future__ import annotations

import itertools
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis as client

from tests.server.debian import debian_program

__all__ = ["PASSWORD", "RedisServer", "hashes", "redis", "redis_server", "running_redis"]

PASSWORD = "quite a secret"
_numbers = itertools.count(1)


@dataclass
class RedisServer:
    """A server that may be stopped and started again at its port; it keeps what it has taken."""

    folder: Path
    port: int
    prefix: str = ""
    """Of the keys of a test."""
    _process: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def options(self) -> str:
        """What a table says in WITH."""
        return f"'connector' = 'redis', 'url' = '{self.url}', 'password' = '{PASSWORD}'"

    def connect(self) -> client.Redis:
        return client.Redis(port=self.port, password=PASSWORD, decode_responses=True)

    def start(self) -> None:
        """Returns when it answers."""
        command = [
            debian_program("redis-server"),
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--requirepass",
            PASSWORD,
        ]
        kept = [
            "--dir",
            str(self.folder),
            "--appendonly",
            "yes",
            "--appendfsync",
            "no",
            "--save",
            "",
            "--daemonize",
            "no",
        ]
        process = subprocess.Popen([*command, *kept], stdout=subprocess.DEVNULL)
        # The same list for all that share the server: who ends it must know who started it last.
        self._process[:] = [process]
        retry = client.retry.Retry(client.backoff.ConstantBackoff(0.02), 500)
        with client.Redis(port=self.port, password=PASSWORD, retry=retry) as asked:
            asked.ping()

    def stop(self) -> None:
        """At once, as kill -9."""
        for process in self._process:
            process.kill()
            process.wait()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Nobody answers meanwhile."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def of_a_test(self) -> RedisServer:
        return RedisServer(self.folder, self.port, f"test{next(_numbers)}:", self._process)


@contextmanager
def running_redis() -> Iterator[RedisServer]:
    """A new server."""
    with tempfile.TemporaryDirectory(prefix="redis-") as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = RedisServer(Path(folder), free.getsockname()[1])
        free.close()
        server.start()
        try:
            yield server
        finally:
            server.stop()


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
