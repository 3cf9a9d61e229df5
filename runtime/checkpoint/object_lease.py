"""Who may write below a prefix of an object store: one process at a time.

A store has no locks, but it can refuse to make a file that is there (`RemoteStorage.publish`). So an owner is a file
`owner/<token>.json`, and who wants to be the next makes that with the next number; two that try get one. The highest
number owns. It is the fencing token: what a former owner does later is found out by it.

An owner writes its file anew every `BEAT_SECONDS`. Who finds a file that stays as it is for `PATIENCE_SECONDS`, by its own
clock, takes over; where the file tells of a process of the same machine it is looked whether that is there, which needs no
patience. An owner that ends says so in its file, and the next one need not wait, either.

A lease is no lock: a process that stood still may believe that it owns what another one has taken over. Whoever writes must
be stopped by what it writes: see `sqlengine/database/folder/object_log.py`.
"""

from __future__ import annotations

import datetime as dt
import gc
import json
import os
import re
import socket
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from runtime.checkpoint.members import Members
from runtime.checkpoint.remote_storage import RemoteStorage
from runtime.checkpoint.storage import Damage
from runtime.core.logs import Log, tell
from runtime.core.strict_json import read_json

__all__ = ["BEAT_SECONDS", "FOLDER", "PATIENCE_SECONDS", "ObjectLease", "Taken"]

_log = Log("checkpoint")

FOLDER = "owner"
BEAT_SECONDS = 2.5
PATIENCE_SECONDS = 10.0
_DIGITS = 20
_FILE = re.compile(rf"{FOLDER}/(\d{{{_DIGITS}}})\.json")
_MOST_BYTES = 1 << 16
_MEMBERS = ("id", "token", "unbroken", "host", "pid", "process", "since", "beat", "released")


class Taken(Exception):
    """Somebody else is the owner. The message says who, as a part of a sentence."""


@dataclass(frozen=True, slots=True)
class _Owner:
    """What a file says. `id`: there is no other like it; `unbroken`: see `ObjectLease`; `process`: one of this machine
    while it runs, empty where that cannot be told."""

    id: str
    token: int
    unbroken: int
    host: str
    pid: int
    process: str
    since: str
    beat: int = 0
    released: bool = False

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host[:200]}, since {self.since[:40]}"

    def encoded(self, *, beat: int, released: bool = False) -> bytes:
        said = {name: getattr(self, name) for name in _MEMBERS} | {"beat": beat, "released": released}
        return json.dumps(said).encode()


class ObjectLease:
    """The right to write below a prefix, from `take` until `release`.

    Args:
        owner: what its file says. Its token is the fencing token; from the token `unbroken` on all owners before have
            ended and said so.
    """

    def __init__(self, storage: RemoteStorage, owner: _Owner) -> None:
        self.storage = storage
        self._owner = owner
        self._beat = 0
        self._lost = False
        self._ended = threading.Event()
        _held.add(self)

    @property
    def token(self) -> int:
        return self._owner.token

    def trusts(self, token: int) -> bool:
        """Whether the owner with that token, this one or one before, has ended as all after it: nothing that it began is
        to come any more, and what it wrote stays."""
        return token >= self._owner.unbroken

    @staticmethod
    def take(
        storage: RemoteStorage,
        *,
        wait: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
        beats: bool = True,
    ) -> ObjectLease:
        """Become the owner, after the one that is there has ended or said nothing for `PATIENCE_SECONDS`.

        Args:
            beats: a thread says that this process is there. (Tests say it themselves.)

        Raises:
            Taken: somebody else is the owner.
            OSError: the store cannot be read or written.
        """
        seen: tuple[int, bytes] | None = None
        since = 0.0
        while True:
            found = _newest(storage)
            owner = None if found is None else _read(found[1])
            released = owner is not None and owner.released
            if found is None or released or (owner is not None and _has_ended(owner, storage)):
                free = True
            elif owner is not None and owner.process and owner.process.partition(":")[0] == _machine():
                raise Taken(str(owner))
            elif seen is None or seen[0] != found[0]:
                free, seen, since = False, found, now()
                tell(f"{storage.place} is owned by {owner or 'somebody'}: looking whether that is still there")
            elif seen != found:
                raise Taken(str(owner) if owner is not None else "somebody else")
            else:
                free = now() - since >= PATIENCE_SECONDS
            if not free:
                wait(BEAT_SECONDS / 2)
                continue
            with suppress(FileExistsError):
                token = 1 if found is None else found[0] + 1
                lease = _made(storage, token, owner.unbroken if owner is not None and released else token)
                if beats:
                    lease._start()
                return lease
            seen = None

    def exceed(self, token: int) -> None:
        """Have a higher token than a former owner of whom there was no file. Raises Taken, OSError."""
        if self.token > token:
            return
        try:
            self._owner = _announced(self.storage, token + 1, token + 1)
        except FileExistsError as error:
            raise Taken("another process") from error

    def beat(self) -> None:
        """Say that this process is there, and look whether it is still the owner. Raises OSError."""
        if self.is_lost():
            self._ended.set()
            return
        self._beat += 1
        self.storage.replace(_name(self.token), self._owner.encoded(beat=self._beat))

    @property
    def known_lost(self) -> bool:
        """Whether it is known that somebody else has taken over; asks nobody."""
        return self._lost

    def is_lost(self) -> bool:
        """Whether somebody else has taken over. Raises OSError."""
        found = _newest(self.storage)
        self._lost = self._lost or found is None or found[0] != self.token
        return self._lost

    def release(self) -> None:
        """Nothing more will be written: others may own it at once. Harmless when called again, or when it is lost."""
        if self not in _held:
            return
        self.abandon()
        with suppress(OSError):
            self.storage.replace(_name(self.token), self._owner.encoded(beat=self._beat, released=True))

    def abandon(self) -> None:
        """Say nothing any more, as if the process had ended."""
        _held.discard(self)
        self._ended.set()

    def _start(self) -> None:
        beating = threading.Thread(
            target=_keep_beating, args=(weakref.ref(self), self._ended), name="lease of an object store", daemon=True
        )
        beating.start()


_held: weakref.WeakSet[ObjectLease] = weakref.WeakSet()
"""What this process owns. What nobody uses any more owns nothing."""


def _keep_beating(lease: weakref.ref[ObjectLease], ended: threading.Event) -> None:
    while not ended.wait(BEAT_SECONDS):
        held = lease()
        if held is None:
            return
        try:
            held.beat()
        except OSError as error:
            _log.warning("the lease of %s cannot be renewed: %s", held.storage.place, error)
        del held


def _name(token: int) -> str:
    return f"{FOLDER}/{token:0{_DIGITS}}.json"


def _newest(storage: RemoteStorage) -> tuple[int, bytes] | None:
    """The highest token, and what its file says."""
    while tokens := sorted(int(m[1]) for path in storage.files(FOLDER) if (m := _FILE.fullmatch(path))):
        with suppress(FileNotFoundError):
            return tokens[-1], storage.read(_name(tokens[-1]), 0, _MOST_BYTES).to_pybytes()
    return None


def _read(data: bytes) -> _Owner | None:
    """What a file says; None where it does not say it."""
    with suppress(Damage, ValueError):
        members = Members(read_json(data), FOLDER, _MEMBERS)
        return _Owner(
            members.text("id"),
            members.integer("token", 1),
            members.integer("unbroken", 1),
            members.text("host"),
            members.integer("pid", 0),
            members.text("process"),
            members.text("since"),
            members.integer("beat", 0),
            members.flag("released"),
        )
    return None


def _made(storage: RemoteStorage, token: int, unbroken: int) -> ObjectLease:
    """Raises FileExistsError when somebody was faster; Taken when this process was so slow that its number had been given
    and taken back meanwhile."""
    owner = _announced(storage, token, unbroken)
    newest = _newest(storage)
    if newest is None or newest[0] != token:
        raise Taken("another process")
    for path in storage.files(FOLDER):
        match = _FILE.fullmatch(path)
        if match is not None and int(match[1]) < token:
            storage.delete(path)
    return ObjectLease(storage, owner)


def _announced(storage: RemoteStorage, token: int, unbroken: int) -> _Owner:
    since = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    owner = _Owner(
        os.urandom(8).hex(), token, unbroken, socket.gethostname(), os.getpid(), _process(os.getpid()), since
    )
    storage.publish(_name(token), owner.encoded(beat=0))
    return owner


def _has_ended(owner: _Owner, storage: RemoteStorage) -> bool:
    """Whether the owner is known to be gone: a process of this machine that is not there, or this one, which has forgotten
    that it owns."""
    machine, _, rest = owner.process.partition(":")
    if not owner.process or machine != _machine():
        return False
    if owner.process != _process(os.getpid()):
        pid = rest.partition(":")[0]
        return not pid.isdecimal() or _process(int(pid)) != owner.process
    gc.collect()
    return not any(h.token == owner.token and h.storage.place == storage.place for h in _held)


def _machine() -> str:
    """This machine since its start, with what sees the same processes; empty where the system does not tell."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read().strip()}/{os.readlink('/proc/self/ns/pid')}".replace(":", "")
    return ""


def _process(pid: int) -> str:
    """A process of this machine: its number, and when it began, because numbers are used again; empty when there is none."""
    machine = _machine()
    with suppress(OSError, IndexError):
        if machine:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            # A zombie is none.
            return "" if fields[0] in ("Z", "X") else f"{machine}:{pid}:{fields[19]}"
    return ""
