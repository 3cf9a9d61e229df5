"""Servers as processes of the tests: they may be killed, and started again at their port."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from tests.servers.waiting import until

__all__ = ["RestartableServer", "ServerProcess", "folder_of_a_server", "free_port", "owned_by", "running"]

_chance = random.SystemRandom()


def free_port() -> int:
    """Below the ports that systems give to connections: the server takes it later, and nobody else meanwhile."""
    while True:
        port = _chance.randrange(10_000, 32_000)
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


@contextmanager
def folder_of_a_server(name: str) -> Generator[Path]:
    """Not in pytest's folder: a server that runs as another user may not look into that."""
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def owned_by(user: str, folder: Path) -> str | None:
    """The user of a server that refuses to be root, who gets its folder; None where the tests are not root."""
    if os.getuid() != 0:
        return None
    shutil.chown(folder, user)
    return user


class RestartableServer(ABC):
    """A server that may be stopped and started again at its port."""

    @abstractmethod
    def start(self) -> None:
        """Returns when it answers."""

    @abstractmethod
    def stop(self, how: Any = ...) -> None:
        """At once, as a crash; `how`: in another way, as the server has it."""

    @contextmanager
    def away(self, *how: Any) -> Generator[None]:
        """Nobody answers meanwhile."""
        self.stop(*how)
        try:
            yield
        finally:
            self.start()


@dataclass
class ServerProcess(RestartableServer):
    """A server that is one process, and keeps what it has taken in a folder."""

    ended_by: ClassVar[signal.Signals] = signal.SIGKILL

    folder: Path
    port: int
    _process: list[subprocess.Popen[bytes]] = field(default_factory=list, kw_only=True, repr=False)
    """The same list for all that share the server: who ends it must know who started it last."""

    @abstractmethod
    def command(self) -> list[str]:
        """What starts it."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it can be used."""

    def start(self) -> None:
        self._process[:] = [subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
        until(self.answers, self._process[0])

    def listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def stop(self, how: signal.Signals | None = None) -> None:
        for process in self._process:
            process.send_signal(how or self.ended_by)
            process.wait()


P = TypeVar("P", bound=RestartableServer)


@contextmanager
def running(server: P) -> Generator[P]:
    """A server while it runs."""
    server.start()
    try:
        yield server
    finally:
        server.stop()
