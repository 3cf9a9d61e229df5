"""Who may write below a prefix of an object store, or in a folder that several machines reach: one process at a time.

A store has no locks, but it can refuse to make a file that is there (`SharedStorage.publish`). So an owner is a file
`owner/<token>.json`, and who wants to be the next makes that with the next number; two that try get one. The highest
number owns. It is the fencing token: what a former owner does later is found out by it.

An owner writes its file anew every `BEAT_SECONDS`. Who finds a file that stays as it is for `PATIENCE_SECONDS`, by its own
clock, takes over; where the file tells of a process of the same machine it is looked whether that is there, which needs no
patience. An owner that ends says so in its file, and the next one need not wait, either. Who stands by (`stand_by`) goes on
looking until the owner has ended or says nothing.

A lease is no lock: a process that stood still may believe that it owns what another one has taken over. Whoever writes must
be stopped by what it writes: see `sqlengine/database/folder/log_files.py`.
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
from runtime.checkpoint.shared_storage import SharedStorage
from runtime.checkpoint.storage import Damage
from runtime.core.logs import Log, tell
from runtime.core.strict_json import read_json

__all__ = ["BEAT_SECONDS", "FOLDER", "PATIENCE_SECONDS", "ObjectLease", "Taken", "stand_by"]

_log = Log("checkpoint")

FOLDER = "owner"
BEAT_SECONDS = 1.5
PATIENCE_SECONDS = 6.0
_LOOK_SECONDS = 0.5
"""Who stands by looks so often."""
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

    def __init__(self, storage: SharedStorage, owner: _Owner) -> None:
        self.storage = storage
        self._owner = owner
        self._beat = 0
        self._lost = False
        self._beaten = _since_boot()
        self._ended = threading.Event()
        self.on_lost: Callable[[], object] | None = None
        """Called once when it is found out that somebody else has taken over; from any thread."""
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
        storage: SharedStorage,
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
        watch = _Watch(storage, now)
        while True:
            watch.look()
            if watch.alive:
                raise Taken(watch.owner)
            if not watch.free:
                wait(BEAT_SECONDS / 2)
                continue
            with suppress(FileExistsError):
                return _follow(storage, watch, beats=beats)
            watch = _Watch(storage, now)

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
        began = _since_boot()
        if self.is_lost():
            self._ended.set()
            return
        self._beat += 1
        self.storage.replace(_name(self.token), self._owner.encoded(beat=self._beat))
        self._beaten = began

    @property
    def known_lost(self) -> bool:
        """Whether it is known that somebody else has taken over; asks nobody."""
        return self._lost

    @property
    def is_doubtful(self) -> bool:
        """Whether it has said nothing for so long that somebody else may have taken over."""
        return _since_boot() - self._beaten >= PATIENCE_SECONDS

    def is_lost(self) -> bool:
        """Whether somebody else has taken over. Raises OSError."""
        found = _newest(self.storage)
        if not self._lost and (found is None or found[0] != self.token):
            self._lost = True
            if self.on_lost is not None:
                self.on_lost()
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

    def start(self) -> None:
        """A thread says from now on that this process is there."""
        beating = threading.Thread(
            target=_keep_beating, args=(weakref.ref(self), self._ended), name="lease of an object store", daemon=True
        )
        beating.start()


_held: weakref.WeakSet[ObjectLease] = weakref.WeakSet()
"""What this process owns. What nobody uses any more owns nothing."""


def stand_by(
    storage: SharedStorage, goes_on: Callable[[float], bool], tell: Callable[[str], object]
) -> ObjectLease | None:
    """Become the owner as soon as the one that is there has ended, or says nothing any more, be it a process of this
    machine or not; None when somebody has decided otherwise. A store that cannot be reached is asked again.

    Args:
        goes_on: waits for some seconds; whether to look again.
        tell: hears who the owner is, each time that there is another one.

    Raises:
        OSError: the store cannot be read or written at first.
    """
    watch, known = _Watch(storage, time.monotonic), ""
    watch.look()
    while True:
        if watch.free:
            with suppress(FileExistsError, Taken):
                return _follow(storage, watch, beats=True)
            watch = _Watch(storage, time.monotonic)
        elif watch.owner != known:
            known = watch.owner
            tell(known)
        if not goes_on(_LOOK_SECONDS):
            return None
        try:
            watch.look()
        except OSError as error:
            _log.warning("%s cannot be reached: %s", storage.place, error)
            watch = _Watch(storage, time.monotonic)


class _Watch:
    """Looks at an owner from time to time. After `look` it is known whether another one may follow.

    Args:
        now: seconds, by the clock of who looks.
    """

    def __init__(self, storage: SharedStorage, now: Callable[[], float]) -> None:
        self._storage = storage
        self._now = now
        self._seen: tuple[int, bytes] | None = None
        self._since = 0.0
        self.owner = ""
        """Who it is, as a part of a sentence; empty when there was none."""
        self.free = False
        """Whether somebody else may become the owner."""
        self.alive = False
        """Whether it is known that the owner is there."""
        self.token, self.unbroken = 1, 1
        """Those of who follows."""

    def look(self) -> None:
        """Raises OSError."""
        found = _newest(self._storage)
        owner = None if found is None else _read(found[1])
        released = owner is not None and owner.released
        self.token = 1 if found is None else found[0] + 1
        self.unbroken = owner.unbroken if owner is not None and released else self.token
        if found is None or released or (owner is not None and _has_ended(owner, self._storage)):
            self.free, self.alive = True, False
            return
        is_new = self._seen is None or self._seen[0] != found[0]
        moved = not is_new and self._seen != found
        is_here = owner is not None and owner.process.partition(":")[0] == _machine() != ""
        if is_new and not is_here:
            tell(f"{self._storage.place} is owned by {owner or 'somebody'}: looking whether that is still there")
        if is_new or moved:
            self._seen, self._since = found, self._now()
        self.owner = str(owner) if owner is not None else "somebody else"
        self.alive = moved or is_here
        self.free = self._now() - self._since >= PATIENCE_SECONDS


def _follow(storage: SharedStorage, watch: _Watch, *, beats: bool) -> ObjectLease:
    """Raises FileExistsError, Taken and OSError."""
    lease = _made(storage, watch.token, watch.unbroken)
    if beats:
        lease.start()
    return lease


def _since_boot() -> float:
    """Seconds, of which the time counts in which the machine slept."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


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


def _newest(storage: SharedStorage) -> tuple[int, bytes] | None:
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


def _made(storage: SharedStorage, token: int, unbroken: int) -> ObjectLease:
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


def _announced(storage: SharedStorage, token: int, unbroken: int) -> _Owner:
    since = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    owner = _Owner(
        os.urandom(8).hex(), token, unbroken, socket.gethostname(), os.getpid(), _process(os.getpid()), since
    )
    storage.publish(_name(token), owner.encoded(beat=0))
    return owner


def _has_ended(owner: _Owner, storage: SharedStorage) -> bool:
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
