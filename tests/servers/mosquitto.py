"""A server of MQTT (Mosquitto), started when a test first asks for it, with a topic for each test."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import paho.mqtt.client as paho
import pytest

from tests.server.debian import debian_program
from tests.servers.process import ServerProcess, folder_of_a_server, free_port, running

__all__ = ["PASSWORD", "MosquittoServer", "mosquitto", "mosquitto_server", "running_mosquitto"]

PASSWORD = "quite another secret"
_numbers = itertools.count(1)
_CONFIG = """
listener {port} 127.0.0.1
allow_anonymous false
password_file {folder}/users
acl_file {folder}/rights
persistence true
persistence_location {folder}/
max_inflight_messages 0
max_queued_messages 0
"""
_RIGHTS = "user test\ntopic readwrite #\nuser other\ntopic readwrite other/#\n"


@dataclass
class MosquittoServer(ServerProcess):
    """It keeps sessions, which it writes when it is told to end. `topic`: of a test."""

    ended_by = signal.SIGTERM

    topic: str = ""

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    @property
    def options(self) -> str:
        """What a table says in WITH."""
        return f"'connector' = 'mqtt', 'url' = '{self.url}', 'username' = 'test', 'password' = '{PASSWORD}'"

    def publish(self, topic: str, *messages: bytes, qos: int = 1, retain: bool = False) -> None:
        """With another client."""
        client = self._client()
        try:
            for message in messages:
                sent = client.publish(topic, message, qos, retain)
                sent.wait_for_publish(20)
                assert sent.is_published()
        finally:
            client.disconnect()
            client.loop_stop()

    def publish_at_once(self, topic: str, messages: Sequence[bytes]) -> None:
        """Of QoS 2, without waiting for each; returns when the server has all."""
        client = self._client()
        try:
            for sent in [client.publish(topic, message, 2) for message in messages]:
                sent.wait_for_publish(60)
                assert sent.is_published()
        finally:
            client.disconnect()
            client.loop_stop()

    @contextmanager
    def listening(self, topic: str) -> Iterator[list[paho.MQTTMessage]]:
        """What comes meanwhile, of QoS 2."""
        found: list[paho.MQTTMessage] = []
        subscribed = threading.Event()
        client = self._client()
        client.on_message = lambda _client, _data, message: found.append(message)
        client.on_subscribe = lambda *_: subscribed.set()
        client.subscribe(topic, 2)
        assert subscribed.wait(20)
        try:
            yield found
        finally:
            client.disconnect()
            client.loop_stop()

    def _client(self) -> paho.Client:
        client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        client.username_pw_set("test", PASSWORD)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        return client

    def command(self) -> list[str]:
        return [debian_program("mosquitto", folders="/usr/sbin"), "-c", str(self.folder / "mosquitto.conf")]

    def answers(self) -> bool:
        return self.listens()


@contextmanager
def running_mosquitto() -> Iterator[MosquittoServer]:
    """A new server."""
    with folder_of_a_server("mosquitto") as folder:
        port = free_port()
        if os.geteuid() == 0:
            # As root it becomes a user of its own, who must be able to write there.
            folder.chmod(0o777)
        (folder / "mosquitto.conf").write_text(_CONFIG.format(port=port, folder=folder))
        (folder / "rights").write_text(_RIGHTS)
        users = folder / "users"
        users.write_text(f"test:{PASSWORD}\nother:{PASSWORD}\n")
        debian_program("mosquitto", folders="/usr/sbin")
        subprocess.run([debian_program("mosquitto_passwd", "mosquitto"), "-U", str(users)], check=True)
        for path in folder.iterdir():
            path.chmod(0o644)
        with running(MosquittoServer(folder, port)) as server:
            yield server


@pytest.fixture(scope="session")
def mosquitto_server() -> Iterator[MosquittoServer]:
    """The server of this process."""
    with running_mosquitto() as server:
        yield server


@pytest.fixture
def mosquitto(mosquitto_server: MosquittoServer) -> MosquittoServer:
    """The server with a topic of its own."""
    known = mosquitto_server
    return MosquittoServer(known.folder, known.port, f"test{next(_numbers)}", _process=known._process)
