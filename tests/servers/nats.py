"""A server of NATS with JetStream, started when a test first asks for it, with a stream for each test."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import nats as client
import pytest
from nats.js.api import StreamConfig

from tests.server.debian import debian_program
from tests.servers.process import ServerProcess, folder_of_a_server, free_port, running

__all__ = ["PASSWORD", "NatsServer", "nats", "nats_server", "running_nats"]

T = TypeVar("T")
PASSWORD = "quite another secret"
_numbers = itertools.count(1)


@dataclass
class NatsServer(ServerProcess):
    """`stream`: of a test; its subjects begin with its name."""

    stream: str = ""

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

    def command(self) -> list[str]:
        listens = f"-a 127.0.0.1 -p {self.port} --user test --pass".split()
        return [debian_program("nats-server"), *listens, PASSWORD, "-js", "-sd", str(self.folder)]

    def answers(self) -> bool:
        if not self.listens():
            return False

        async def asked(stream: Any) -> None:
            await stream.account_info()

        self.run(asked)
        return True


@contextmanager
def running_nats() -> Iterator[NatsServer]:
    """A new server."""
    with folder_of_a_server("nats") as folder, running(NatsServer(folder, free_port())) as server:
        yield server


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
    return NatsServer(nats_server.folder, nats_server.port, name, _process=nats_server._process)
