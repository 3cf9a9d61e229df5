"""Who owns the folder of a database: one process at a time.

On a disk the operating system holds a lock for the owner and ends it with the process, so a lock that cannot be had tells that the
owner is alive. `owner.json` says who that is. Each owner has a higher fencing token than the one before; it stands in
every frame of the log and in every manifest, so that what a former owner writes (where a file system has no locks) is
found out. In an object store, and in a folder that several machines reach, see `runtime/checkpoint/object_lease.py`.
"""

from __future__ import annotations

import datetime as dt
import gc
import json
import os
import socket
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from runtime.checkpoint.local_storage import LocalStorage
from runtime.checkpoint.members import Members
from runtime.checkpoint.object_lease import ObjectLease, Taken, stand_by
from runtime.checkpoint.shared_storage import SharedStorage
from runtime.checkpoint.storage import Damage
from runtime.core.errors import CheckpointError, DatabaseError
from runtime.core.strict_json import read_json

__all__ = ["OWNER", "FolderLease", "Lease", "SharedLease", "taken_over"]

OWNER = "owner.json"
_MOST_BYTES = 1 << 16


class Lease(Protocol):
    """The right to write in a folder, from `take` until `release`."""

    @property
    def token(self) -> int:
        """Its fencing token: higher than those of all owners before."""
        ...

    def trusts(self, token: int) -> bool:
        """Whether the owner with that token, this one or one before, has ended for certain: nothing that it began is to
        come any more, and what it wrote stays."""
        ...

    def exceed(self, token: int) -> None:
        """Have a higher token than a former owner of whom nothing was known."""
        ...

    @property
    def is_doubtful(self) -> bool:
        """Whether this process has said nothing for so long that somebody else may own the folder by now."""
        ...

    @property
    def is_known_lost(self) -> bool:
        """Whether it is known that somebody else owns the folder; asks nobody, unless it is doubtful. Raises
        OSError."""
        ...

    def check(self) -> None:
        """Raises DatabaseError E3707 when somebody else owns the folder by now."""
        ...

    def release(self) -> None:
        """The folder may be owned by others."""
        ...


class FolderLease:
    """The right to write in a folder of the machine."""

    def __init__(self, storage: LocalStorage, token: int) -> None:
        self._storage = storage
        self._token = token

    @property
    def token(self) -> int:
        return self._token

    def trusts(self, token: int) -> bool:
        """Always: the lock ended with the process before."""
        return True

    @property
    def is_doubtful(self) -> bool:
        return False

    @property
    def is_known_lost(self) -> bool:
        return False

    @staticmethod
    def take(storage: LocalStorage) -> FolderLease:
        """Raises DatabaseError E3701 when another process, or another environment of this one, owns the folder; OSError
        when it cannot be read or written."""
        place = os.path.realpath(storage.place)
        if place in _held:
            gc.collect()
        if place in _held:
            raise DatabaseError(
                f"the database {storage.place} is open already: process {os.getpid()}, this one, owns it",
                code="E3701",
                hint="use new_session() of the environment that has it open, or close all sessions of that first",
            )
        try:
            storage.claim()
        except CheckpointError as error:
            raise _owned(storage.place, _who(storage)) from error
        try:
            before = _owner(storage)
            lease = FolderLease(storage, (before.integer("token", 0) if before is not None else 0) + 1)
            lease._announce()
        except BaseException:
            storage.release()
            raise
        _held[place] = lease
        return lease

    def exceed(self, token: int) -> None:
        """See `Lease`; where `owner.json` did not tell."""
        if self._token <= token:
            self._token = token + 1
            self._announce()

    def check(self) -> None:
        """Raises DatabaseError E3707 when somebody else owns the folder by now."""
        owner = _owner(self._storage)
        if owner is None or owner.integer("token", 0) != self.token:
            raise taken_over(self._storage.place)

    def release(self) -> None:
        """The folder may be owned by others."""
        place = os.path.realpath(self._storage.place)
        if _held.get(place) is self:
            del _held[place]
            self._storage.release()

    def _announce(self) -> None:
        owner = {
            "token": self.token,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        }
        self._storage.publish(OWNER, json.dumps(owner).encode())


class SharedLease:
    """The right to write below a prefix of an object store, or in a folder that several machines reach."""

    def __init__(self, storage: SharedStorage, lease: ObjectLease) -> None:
        self._storage = storage
        self._lease = lease

    @staticmethod
    def take(storage: SharedStorage) -> SharedLease:
        """Waits until an owner that says nothing is taken for gone.

        Raises:
            DatabaseError: another process owns it (E3701).
            OSError: the store cannot be read or written.
        """
        try:
            return SharedLease(storage, ObjectLease.take(storage))
        except Taken as owner:
            raise _owned(storage.place, str(owner)) from owner

    @staticmethod
    def stand_by(
        storage: SharedStorage, goes_on: Callable[[float], bool], tell: Callable[[str], object]
    ) -> SharedLease | None:
        """See `object_lease.stand_by`."""
        lease = stand_by(storage, goes_on, tell)
        return None if lease is None else SharedLease(storage, lease)

    @property
    def token(self) -> int:
        return self._lease.token

    def trusts(self, token: int) -> bool:
        return self._lease.trusts(token)

    @property
    def is_doubtful(self) -> bool:
        return self._lease.known_lost or self._lease.is_doubtful

    @property
    def is_known_lost(self) -> bool:
        return self._lease.known_lost or (self._lease.is_doubtful and self._lease.is_lost())

    def when_lost(self, call: Callable[[], object]) -> None:
        """Have something called, from any thread, when somebody else has taken over."""
        self._lease.on_lost = call
        if self._lease.known_lost:
            call()

    def exceed(self, token: int) -> None:
        try:
            self._lease.exceed(token)
        except Taken as owner:
            raise _owned(self._storage.place, str(owner)) from owner

    def check(self) -> None:
        if self._lease.is_lost():
            raise taken_over(self._storage.place)

    def release(self) -> None:
        self._lease.release()


def taken_over(place: str) -> DatabaseError:
    """That somebody else owns the database by now."""
    return DatabaseError(
        f"another process has taken over the database {place}",
        code="E3707",
        hint="close it here; what this process had been told to be done before is there",
    )


_held: weakref.WeakValueDictionary[str, FolderLease] = weakref.WeakValueDictionary()
"""The folders that this process owns: a lock of the system is one of the process, so it does not tell its parts apart.
What nobody uses any more owns nothing."""


def _owner(storage: LocalStorage) -> Members | None:
    """What `owner.json` says; None where it does not say it, as after a crash of the first start."""
    with suppress(FileNotFoundError, Damage, ValueError):
        members = Members(
            read_json(storage.read(OWNER, 0, _MOST_BYTES).to_pybytes()), OWNER, ("token", "host", "pid", "since")
        )
        members.integer("token", 0)
        return members
    return None


def _who(storage: LocalStorage) -> str:
    with suppress(OSError, Damage):
        owner = _owner(storage)
        if owner is not None:
            return f"process {owner.integer('pid')} on {owner.text('host')[:200]}, since {owner.text('since')[:40]}"
    return "another process"


def _owned(place: str, who: str) -> DatabaseError:
    return DatabaseError(
        f"the database {place} is open already: {who} owns it",
        code="E3701",
        hint="one process at a time: close it there first",
    )
