"""An object store in memory, or a shared folder, at each of whose operations something else may happen first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from runtime.checkpoint.remote_storage import RemoteStorage
from runtime.checkpoint.shared_folder import SharedFolder
from runtime.checkpoint.shared_storage import SharedStorage
from sqlengine import TableEnvironment
from sqlengine.database.folder import folder
from sqlengine.database.folder.lease import SharedLease

PLACE = "memory://shop"


class Gate:
    """Counts the operations of one owner. Before the operation `at` (counted from 1) `then` is done, once."""

    def __init__(self, at: int = 0, then: Callable[[], None] = lambda: None) -> None:
        self.operations = 0
        self.at = at
        self.then = then

    def passes(self) -> None:
        self.operations += 1
        if self.operations == self.at:
            self.then()


class GatedStorage(RemoteStorage):
    """A store behind a gate."""

    def __init__(self, store: MemoryStore, gate: Gate, place: str = PLACE, prefix: str = "") -> None:
        super().__init__(store, place, prefix)
        self.gate = gate
        self.store = store

    def below(self, folder: str) -> RemoteStorage:
        return GatedStorage(self.store, self.gate, f"{self.place}/{folder}", self._path(folder))

    def files(self, folder: str = "") -> dict[str, int]:
        self.gate.passes()
        return super().files(folder)

    def create(self, path: str, *, large: bool = False) -> Any:
        self.gate.passes()
        return super().create(path, large=large)

    def publish(self, path: str, data: bytes) -> None:
        self.gate.passes()
        super().publish(path, data)

    def replace(self, path: str, data: bytes) -> None:
        self.gate.passes()
        super().replace(path, data)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        self.gate.passes()
        return super().read(path, offset, length)

    def copy(self, path: str, new: str) -> None:
        self.gate.passes()
        super().copy(path, new)

    def delete(self, path: str) -> None:
        self.gate.passes()
        super().delete(path)


class GatedFolder(SharedFolder):
    """A shared folder behind a gate."""

    def __init__(self, root: str, gate: Gate, prefix: str = "") -> None:
        super().__init__(root, prefix)
        self.gate = gate

    def below(self, folder: str) -> SharedFolder:
        return GatedFolder(self._root, self.gate, f"{self._prefix}/{folder}" if self._prefix else folder)

    def files(self, folder: str = "") -> dict[str, int]:
        self.gate.passes()
        return super().files(folder)

    def create(self, path: str, *, large: bool = False) -> Any:
        self.gate.passes()
        return super().create(path, large=large)

    def publish(self, path: str, data: bytes) -> None:
        self.gate.passes()
        super().publish(path, data)

    def replace(self, path: str, data: bytes) -> None:
        self.gate.passes()
        super().replace(path, data)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        self.gate.passes()
        return super().read(path, offset, length)

    def copy(self, path: str, new: str) -> None:
        self.gate.passes()
        super().copy(path, new)

    def delete(self, path: str) -> None:
        self.gate.passes()
        super().delete(path)


class _AtOnce(threading.Thread):
    """A thread that has run when it is started: a scenario has one order of operations."""

    def start(self) -> None:
        super().start()
        self.join()


class Machines:
    """Processes on machines of their own, as far as a store can tell: each `start` is one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: str | None = None) -> None:
        self.store = MemoryStore()
        self._gate = Gate()

        def storage_of(path: str) -> SharedStorage:
            return GatedStorage(self.store, self._gate) if root is None else GatedFolder(root, self._gate)

        monkeypatch.setattr(folder, "storage_of", storage_of)
        monkeypatch.setattr(folder, "threading", SimpleNamespace(Thread=_AtOnce))

    def start(self, gate: Gate | None = None, options: dict[str, str] | None = None) -> TableEnvironment:
        """A process that opens the database. It waits for nobody: a former owner must be gone or cut off."""
        self._gate = gate or Gate()
        return TableEnvironment.create(options, path=PLACE)


def cut_off(environment: TableEnvironment) -> None:
    """The process stands still, or its network is gone: it says no more that it is there, and does not know it."""
    durable = environment.session.durable
    assert durable is not None and isinstance(durable.folder._lease, SharedLease)
    durable.folder._lease._lease.abandon()
