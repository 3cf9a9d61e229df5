"""A server of NATS with JetStream, started when a test first asks for it, with a stream for each test."""

from __future__ import annotations

import asyncio
import itertools
import socket
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import nats as client
import pytest
from nats.js.api import StreamConfig

from tests.server.debian import debian_program

__all__ = ["PASSWORD", "NatsServer", "nats", "nats_server", "running_nats"]

T = TypeVar("T")
PASSWORD = "quite another secret"
_numbers = itertools.count(1)


@dataclass
class NatsServer:
    """A server that may be stopped and started again at its port; it keeps what it has taken."""

    folder: Path
    port: int
    stream: str = ""
    """Of a test; its subjects begin with its name."""
    _process: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def options(self) -> str:
        """What a table says in WITH."""
        return f"'connector' = 'nats', 'url' = '{self.url}', 'username' = 'test', 'password' = '{PASSWORD}'"

    def run(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """With JetStream's own client."""

        async def done() -> T:
            connected = await client.connect(self.url, user="test", password=PASSWORD)
            try:
                return await work(connected.jetstream())
            finally:
                await connected.close()

        return asyncio.run(done())

    def make_stream(self, name: str, **more: Any) -> None:
        self.run(lambda stream: stream.add_stream(StreamConfig(name=name, subjects=[f"{name}.>"], **more)))

    def publish(self, subject: str, *messages: bytes) -> None:
        async def sent(stream: Any) -> None:
            for message in messages:
                await stream.publish(subject, message)

        self.run(sent)

    def start(self) -> None:
        """Returns when it answers."""
        command = [
            debian_program("nats-server"),
            "-a",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-js",
            "-sd",
            str(self.folder),
        ]
        more = ["--user", "test", "--pass", PASSWORD]
        self._process[:] = [subprocess.Popen([*command, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]

        async def asked() -> None:
            connected = await client.connect(
                self.url, user="test", password=PASSWORD, max_reconnect_attempts=500, reconnect_time_wait=0.02
            )
            await connected.jetstream().account_info()
            await connected.close()

        asyncio.run(asked())

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


@contextmanager
def running_nats() -> Iterator[NatsServer]:
    """A new server."""
    with tempfile.TemporaryDirectory(prefix="nats-", ignore_cleanup_errors=True) as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = NatsServer(Path(folder), free.getsockname()[1])
        free.close()
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NatsServer]:
    """The server of this process."""
    with running_nats() as server:
        yield server


@pytest.fixture
def nats(nats_server: NatsServer) -> NatsServer:
    """The server with an empty stream."""
    name = f"test{next(_numbers)}"
    nats_server.make_stream(name)
    return NatsServer(nats_server.folder, nats_server.port, name, nats_server._process)
