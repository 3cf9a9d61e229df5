"""Where the checkpoints of a database's jobs are.

On a disk a job has the folder `jobs/<name>`. In an object store an owner of the database may still be there although another
process has taken over, and it may write and delete where it has its checkpoints. So an owner has them in `jobs/<token>`, by
its fencing token, and the log names the token of each job together with the number of the checkpoint that counts. Who takes
over copies that to a folder of its own; where owners ended one after another, as they should, the folder is gone on with.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from typing import Protocol

from runtime.checkpoint.local_storage import LocalStorage
from runtime.checkpoint.shared_storage import SharedStorage
from runtime.checkpoint.store import folder_name
from sqlengine.database.folder.lease import Lease

__all__ = ["FOLDER", "JobFolders", "job_folders"]

FOLDER = "jobs"
_TOKEN_DIGITS = 20


class JobFolders(Protocol):
    """Where jobs have their checkpoints."""

    @property
    def are_fenced(self) -> bool:
        """Whether the log must name the checkpoint that counts, whatever a job writes to."""
        ...

    def open(self, job: str, mark: str) -> tuple[str | SharedStorage, str]:
        """Where the folder of a job is, and how the log is to name that from now on. `mark`: how it does by now; empty
        when there is none yet. Raises OSError."""
        ...

    def remove(self, job: str, mark: str) -> None:
        """Delete the folder of a job. Raises OSError where it cannot be left."""
        ...

    def remove_others(self, marks: Collection[str]) -> None:
        """Delete the folders of former owners that the log names no more. Raises OSError."""
        ...


def job_folders(storage: LocalStorage | SharedStorage, lease: Lease) -> JobFolders:
    """Those of a database."""
    return _OfDisk(storage) if isinstance(storage, LocalStorage) else _OfStore(storage, lease)


class _OfDisk:
    are_fenced = False

    def __init__(self, storage: LocalStorage) -> None:
        self._root = os.path.join(storage.place, FOLDER)

    def open(self, job: str, mark: str) -> tuple[str, str]:
        return self._root, ""

    def remove(self, job: str, mark: str) -> None:
        shutil.rmtree(os.path.join(self._root, folder_name(job)), ignore_errors=True)

    def remove_others(self, marks: Collection[str]) -> None:
        """Nothing: there are none."""


class _OfStore:
    are_fenced = True

    def __init__(self, storage: SharedStorage, lease: Lease) -> None:
        self._storage = storage.below(FOLDER)
        self._lease = lease

    def open(self, job: str, mark: str) -> tuple[SharedStorage, str]:
        own = f"{self._lease.token:0{_TOKEN_DIGITS}}"
        if not mark:
            return self._storage.below(own), own
        if mark.isdecimal() and self._lease.trusts(int(mark)):
            return self._storage.below(mark), mark
        before = f"{mark}/{folder_name(job)}/"
        # Manifests last: none is to name files that are not there.
        for path in sorted(self._files(before), key=lambda path: path.endswith(".json")):
            with suppress(FileNotFoundError):
                self._storage.copy(path, own + path.removeprefix(mark))
        return self._storage.below(own), own

    def remove(self, job: str, mark: str) -> None:
        for path in self._files(f"{mark}/{folder_name(job)}/"):
            self._storage.delete(path)

    def remove_others(self, marks: Collection[str]) -> None:
        for path in self._storage.files():
            token = path.partition("/")[0]
            if token.isdecimal() and int(token) < self._lease.token and token not in marks:
                self._storage.delete(path)

    def _files(self, folder: str) -> list[str]:
        return sorted(path for path in self._storage.files(folder) if path.startswith(folder))
