"""A server that stands by: it waits until nobody owns the database any more, and then opens it.

The same command runs on all machines. Who comes first serves; the others look at its lease twice a second, and one of them
follows when it has ended, or has said nothing for some seconds. Meanwhile their ports tell so.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NoReturn, Protocol, TypeVar

from runtime.checkpoint.shared_storage import SharedStorage
from runtime.core.errors import OptionError
from runtime.core.logs import Log
from sqlengine.api.environment import TableEnvironment
from sqlengine.database.folder.lease import SharedLease
from sqlengine.server.signals import on_signal

__all__ = ["Port", "Server", "begin_anew", "listen", "stand_by", "wait_at"]

T = TypeVar("T")
_log = Log("server")


class Server(Protocol):
    """What listens at a port."""

    async def start(self, host: str, port: int) -> tuple[str, int]: ...

    async def stop(self) -> None: ...


@dataclass(frozen=True)
class Port:
    """Where a server listens, by which argument, and what is said of it."""

    argument: str
    server: Server
    host: str
    port: int
    message: str


async def listen(port: Port) -> tuple[str, int]:
    """Have a server listen; where it does. Raises OptionError."""
    try:
        return await port.server.start(port.host, port.port)
    except OSError as error:
        raise OptionError(
            f"cannot listen at {port.host}:{port.port}: {error.strerror or error}",
            code="E1500",
            hint=f"another program may have the port: give {port.argument} HOST:PORT",
        ) from error


class StandingBy:
    """What clients are told while a server stands by."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._owner = ""
        self._opens = False

    def told(self, owner: str) -> None:
        """Who has the database now."""
        self._owner = owner
        print(f"standing by for {self._place}: {owner} has it", flush=True)
        _log.info("standing by for %s: %s has it", self._place, owner, path=self._place)

    def opens(self) -> None:
        """This server has it, and opens it."""
        self._opens = True
        _log.info("taking over %s", self._place, path=self._place)

    def why(self) -> str:
        """What is going on, for clients. Who the owner is is not for everybody."""
        if self._opens:
            return "the database system is starting up"
        return "this server stands by: another one serves the database"


def stand_by(
    storage: SharedStorage,
    opened: Callable[[SharedLease], TableEnvironment],
    ports: Callable[[Callable[[], str]], Iterable[Port]],
) -> TableEnvironment | None:
    """Wait for a database; None when the process is to end before.

    Args:
        opened: opens it.
        ports: those at which clients are told what it is given.

    Raises what `opened` raises, and OptionError when it cannot listen.
    """
    said = StandingBy(storage.place)

    def wait(goes_on: Callable[[float], bool]) -> TableEnvironment | None:
        lease = SharedLease.stand_by(storage, goes_on, said.told)
        if lease is None:
            return None
        said.opens()
        return opened(lease)

    return wait_at(ports(said.why), wait)


def wait_at(
    ports: Iterable[Port], work: Callable[[Callable[[float], bool]], TableEnvironment | None]
) -> TableEnvironment | None:
    """Have ports tell clients to wait while something is done; gives what that gives, or None when the process is to end.

    Args:
        work: is given what waits for some seconds, and tells whether to go on.
    """
    return asyncio.run(_waited(ports, work))


async def _waited(
    ports: Iterable[Port], work: Callable[[Callable[[float], bool]], TableEnvironment | None]
) -> TableEnvironment | None:
    loop, ended = asyncio.get_running_loop(), threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        on_signal(loop, number, ended.set)
    listening: list[Port] = []
    try:
        for port in ports:
            await listen(port)
            listening.append(port)
        environment = await _in_thread(lambda: work(lambda seconds: not ended.wait(seconds)))
        if environment is not None and ended.is_set():
            environment.close()
            return None
        return environment
    finally:
        for port in listening:
            await port.server.stop()


async def _in_thread(work: Callable[[], T]) -> T:
    """What a call gives, on a thread of its own that ends with the process."""
    loop, given = asyncio.get_running_loop(), Future[T]()

    def run() -> None:
        try:
            given.set_result(work())
        except BaseException as error:
            given.set_exception(error)

    threading.Thread(target=run, name="standing by", daemon=True).start()
    return await asyncio.wrap_future(given, loop=loop)


def begin_anew() -> NoReturn:
    """The same command again in the place of this process, so that nothing of what it knew, and no thread, is left."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
