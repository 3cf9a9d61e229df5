"""A process beside the workers of an executor that keeps the operators of a partition from epoch to epoch.

Spark gives a task to any worker that is free, so that a worker which kept operators would often be asked for another
partition. A worker therefore hands the work on to the resident process of the partition on its machine, which it starts
when there is none. It is a cache and nothing else: a resident that has gone, that hangs on the state of an attempt which
did not count, or that cannot be started costs time, because the state is then opened from its files.

A resident ends with the executor that it belongs to, or when nobody has asked it for ten minutes.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, cast

from runtime.local.allocator import keep_freed_memory
from runtime.tasks.program import EpochOrder
from runtime.tasks.saving import SaveStage
from runtime.tasks.task import Record, run_stage

__all__ = ["run_in_resident", "save_in_resident", "serve"]

_START_SECONDS = 30.0
_IDLE_SECONDS = 600.0
_WATCH_SECONDS = 2.0

Work = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments."""

_connections: dict[str, Connection] = {}


class LostTask(RuntimeError):
    """A resident could not do the work, for a reason that is no error of ours: Spark tries again."""


def run_in_resident(
    most: int, order: EpochOrder, stage: int, partition: int, records: list[Record]
) -> list[tuple[int, Record]]:
    """What `run_stage` gives, from the resident of the partition if there is one or one can be started. `most`: so many
    residents an executor has."""
    found: list[tuple[int, Record]] = _asked(most, partition, run_stage, (order, stage, partition, records))
    return found


def save_in_resident(most: int, stage: SaveStage, partition: int, records: Sequence[Record]) -> list[Record]:
    """What `SaveStage.done` gives, likewise: the resident remembers how tables lie in files."""
    found: list[Record] = _asked(most, partition, SaveStage.done, (stage, partition, records))
    return found


def _asked(most: int, partition: int, function: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    try:
        address = _address(partition % most)
    except OSError:
        return function(*given)
    connection = _connected(address)
    if connection is None:
        return function(*given)
    try:
        connection.send_bytes(pickle.dumps((function, given), protocol=5))
        done, found = pickle.loads(connection.recv_bytes())
    except (EOFError, OSError):
        # It has gone. What it may have written counts for nobody.
        with suppress(OSError):
            _connections.pop(address).close()
        return function(*given)
    if not done:
        raise LostTask(found)
    return found


def _address(number: int) -> str:
    """The socket of a resident of this user and this executor.

    Raises OSError when somebody else can reach the folder: what comes from a socket there is unpickled.
    """
    folder = os.path.join(tempfile.gettempdir(), f"sqlengine-resident-{os.getuid()}")
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else")
    if stat.S_IMODE(status.st_mode) != 0o700:
        os.chmod(folder, 0o700)
    code = hashlib.blake2b(repr((os.getppid(), sys.path)).encode(), digest_size=6).hexdigest()
    return os.path.join(folder, f"{code}-{number}")


def _require_own(address: str) -> None:
    """Raises PermissionError when a socket is another user's, made while the folder was open to all: what comes from it
    is unpickled."""
    if os.lstat(address).st_uid != os.getuid():
        raise PermissionError(f"{address} belongs to somebody else")


def _is_own(connection: Connection) -> bool:
    """Whether the process at the other end is this user's, as the system says: what it sends is unpickled."""
    asked = getattr(socket, "SO_PEERCRED", None)
    if asked is None:
        # Then only the folder, which no other user can open, keeps others out.
        return True
    with socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as end:
        _, user, _ = struct.unpack("3i", end.getsockopt(socket.SOL_SOCKET, asked, 12))
    return user == os.getuid()


def _connected(address: str) -> Connection | None:
    """A connection to the resident, started if need be; None when that does not work."""
    known = _connections.get(address)
    if known is not None:
        return known
    process: subprocess.Popen[bytes] | None = None
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        with suppress(OSError):
            _require_own(address)
            connection = Client(address, "AF_UNIX")
            if not _is_own(connection):
                connection.close()
                return None
            _connections[address] = connection
            return connection
        if process is None:
            with suppress(OSError):
                os.unlink(address)
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
            try:
                process = subprocess.Popen(
                    [sys.executable, "-m", f"{__package__}.resident", address, str(os.getppid())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=environment,
                    start_new_session=True,
                )
            except OSError:
                return None
        elif process.poll() is not None:
            return None
        time.sleep(0.02)
    return None


def serve(address: str, parent: int) -> None:
    """Be a resident, until `parent` has ended."""
    keep_freed_memory()
    last = [time.monotonic()]
    locks = defaultdict[bool, threading.Lock](threading.Lock)
    threading.Thread(target=_watch, args=(address, parent, last), daemon=True).start()
    with Listener(address, "AF_UNIX") as listener:
        while True:
            with suppress(OSError, EOFError):
                connection = listener.accept()
                if not _is_own(connection):
                    connection.close()
                    continue
                threading.Thread(target=_answer, args=(connection, locks, last), daemon=True).start()


def _answer(connection: Connection, locks: Mapping[bool, threading.Lock], last: list[float]) -> None:
    """Do what one worker asks for, a stage at a time whoever asks; for checkpoints beside that."""
    with suppress(OSError, EOFError):
        while True:
            data = connection.recv_bytes()
            last[0] = time.monotonic()
            connection.send_bytes(pickle.dumps(_done(data, locks), protocol=5))
            last[0] = time.monotonic()


def _done(data: bytes, locks: Mapping[bool, threading.Lock]) -> tuple[bool, object]:
    try:
        function, given = cast(Work, pickle.loads(data))
        with locks[function is run_stage]:
            return True, function(*given)
    except BaseException:
        return False, traceback.format_exc()


def _watch(address: str, parent: int, last: list[float]) -> None:
    while time.monotonic() - last[0] < _IDLE_SECONDS:
        time.sleep(_WATCH_SECONDS)
        try:
            os.kill(parent, 0)
        except OSError:
            break
    with suppress(OSError):
        os.unlink(address)
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
