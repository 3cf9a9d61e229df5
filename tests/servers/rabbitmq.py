"""A server of RabbitMQ, started when a test first asks for it (that takes some seconds), with queues for each test."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.server.debian import debian_program
from tests.servers.process import folder_of_a_server, free_port
from tests.servers.waiting import until

__all__ = ["PASSWORD", "RabbitServer", "rabbitmq", "rabbitmq_server", "running_rabbitmq"]

PASSWORD = "quite another secret"
_numbers = itertools.count(1)
_CONFIG = """
listeners.tcp.1 = 127.0.0.1:{port}
default_user = test
default_pass = {password}
loopback_users = none
log.console = false
log.file.level = warning
vm_memory_high_watermark.relative = 0.2
disk_free_limit.absolute = 50MB
"""


@dataclass
class RabbitServer:
    """A server. `queue`: the name of a queue of the test, which is not made yet."""

    port: int
    queue: str = ""

    @property
    def url(self) -> str:
        return f"amqp://127.0.0.1:{self.port}"

    @property
    def options(self) -> str:
        """What a table says in WITH."""
        return f"'connector' = 'rabbitmq', 'url' = '{self.url}', 'username' = 'test', 'password' = '{PASSWORD}'"

    @contextmanager
    def channel(self) -> Iterator[Any]:
        """With RabbitMQ's own client."""
        login = pika.PlainCredentials("test", PASSWORD)
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, credentials=login))
        try:
            yield connection.channel()
        finally:
            connection.close()

    def answers(self) -> bool:
        try:
            with self.channel():
                return True
        except pika.exceptions.AMQPError:
            return False

    def make_queue(self, name: str = "", **arguments: Any) -> str:
        name = name or self.queue
        with self.channel() as channel:
            channel.queue_declare(name, durable=True, arguments={k.replace("_", "-"): v for k, v in arguments.items()})
        return name

    def publish(self, *bodies: bytes, queue: str = "", ids: Sequence[str | None] = ()) -> None:
        """Messages, with ids if there are some; the server has them when this returns."""
        with self.channel() as channel:
            channel.confirm_delivery()
            for number, body in enumerate(bodies):
                named = pika.BasicProperties(message_id=ids[number] if ids else None, delivery_mode=2)
                channel.basic_publish("", queue or self.queue, body, named)

    def waiting(self, queue: str = "") -> int:
        """How many messages nobody has."""
        with self.channel() as channel:
            return int(channel.queue_declare(queue or self.queue, passive=True).method.message_count)


@contextmanager
def running_rabbitmq() -> Iterator[RabbitServer]:
    """A new server, with a port mapper of Erlang of its own."""
    program = debian_program("rabbitmq-server", folders="/usr/lib/rabbitmq/bin")
    with folder_of_a_server("rabbit") as folder:
        name, port, mapper = str(folder), free_port(), free_port()
        (folder / "rabbitmq.conf").write_text(_CONFIG.format(port=port, password=PASSWORD))
        (folder / "plugins").write_text("[].")
        variables = {
            **os.environ,
            "HOME": name,
            "RABBITMQ_NODENAME": f"test{port}@localhost",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "ERL_EPMD_PORT": str(mapper),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        with open(folder / "out", "wb") as out:
            process = subprocess.Popen(
                [program], env=variables, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        server = RabbitServer(port)
        try:
            until(server.answers, process, 90)
            yield server
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            _end(name)


def _end(name: str) -> None:
    """Erlang's processes, and its port mapper, are in sessions of their own: they are known by their home."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"HOME={name}\0".encode() in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)
        except OSError:
            continue


@pytest.fixture(scope="session")
def rabbitmq_server() -> Iterator[RabbitServer]:
    """The server of this process."""
    with running_rabbitmq() as server:
        yield server


@pytest.fixture
def rabbitmq(rabbitmq_server: RabbitServer) -> RabbitServer:
    """The server with the name of a queue of its own."""
    return RabbitServer(rabbitmq_server.port, f"test{next(_numbers)}")
