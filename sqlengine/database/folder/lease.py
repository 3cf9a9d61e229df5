"""Who owns the folder of a database: one process at a time.

The operating system holds a lock for the owner and ends it with the process, so a lock that cannot be had tells that the
owner is alive. `owner.json` says who that is. Each owner has a higher fencing token than the one before; it stands in
every frame of the log and in every manifest, so that what a former owner writes (where a file system has no locks) is
found out.
"""

from __future__ import annotations

import datetime as dt
import gc
import json
import os
import socket
import weakref
from contextlib import suppress

from runtime.checkpoint.local_storage import LocalStorage
from runtime.checkpoint.members import Members
from runtime.checkpoint.storage import Damage
from runtime.core.errors import CheckpointError, DatabaseError
from runtime.core.strict_json import read_json

__all__ = ["OWNER", "Lease"]

OWNER = "owner.json"
_MOST_BYTES = 1 << 16


class Lease:
    """The right to write in a folder, from `take` until `release`. `token` is its fencing token."""

    def __init__(self, storage: LocalStorage, token: int) -> None:
        self._storage = storage
        self.token = token

    @staticmethod
    def take(storage: LocalStorage) -> Lease:
        """Raises DatabaseError E3701 when another process, or another environment of this one, owns the folder; OSError
        when it cannot be read or written."""
        place = os.path.realpath(storage.place)
        if place in _held:
            gc.collect()
        if place in _held:
            raise _owned(storage)
        try:
            storage.claim()
        except CheckpointError as error:
            raise _owned(storage) from error
        try:
            before = _owner(storage)
            lease = Lease(storage, (before.integer("token", 0) if before is not None else 0) + 1)
            lease._announce()
        except BaseException:
            storage.release()
            raise
        _held[place] = lease
        return lease

    def exceed(self, token: int) -> None:
        """Have a higher token than a former owner, where `owner.json` did not tell."""
        if self.token <= token:
            self.token = token + 1
            self._announce()

    def check(self) -> None:
        """Raises DatabaseError E3707 when somebody else owns the folder by now."""
        owner = _owner(self._storage)
        if owner is None or owner.integer("token", 0) != self.token:
            raise DatabaseError(
                f"another process has taken over the database {self._storage.place}",
                code="E3707",
                hint="close it here; what this process had been told to be done before is there",
            )

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


_held: weakref.WeakValueDictionary[str, Lease] = weakref.WeakValueDictionary()
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


def _owned(storage: LocalStorage) -> DatabaseError:
    who = "another process"
    with suppress(OSError, Damage):
        owner = _owner(storage)
        if owner is not None:
            who = f"process {owner.integer('pid')} on {owner.text('host')[:200]}, since {owner.text('since')[:40]}"
    return DatabaseError(
        f"the database {storage.place} is open already: {who} owns it",
        code="E3701",
        hint="one process at a time: close it there first",
    )
