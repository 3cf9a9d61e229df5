"""Versions of state as tasks write and open them: immutable files, and the list of those that make up a version.

    <folder>/<epoch>-<stage>-<partition>-<attempt>.state.<size>.<SHA-256>

A file holds what one task's operators changed in one epoch, or all that they keep. A task writes it under a name that
nobody else writes; the driver takes the file of one attempt and forgets the others. So a task that is retried, that runs
twice or that goes on after it was given up changes nothing that another one reads.

Names go from task to driver to task with the executor's own messages, and say what is in a file: whoever can write to the folder
can make a job fail, and not have it read anything else.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
from pyarrow import fs

from runtime.checkpoint.storage import Damage
from runtime.checkpoint.store import storage_at
from runtime.core.errors import CheckpointError, SparkError
from runtime.state.snapshot import TaskState, merge_changes, single_batch
from runtime.state.table import SLOT, TableChanges
from runtime.tasks.wire import decode_rows, encode_rows

__all__ = ["Lineage", "StateFolder", "TaskChanges", "decode_changes", "encode_changes", "merged", "task_states"]

TaskChanges = Mapping[str, tuple[TableChanges, ...]]
"""What became of the tables of a task's operators, by operator name."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The files that a version of a task's state is made of, the first of them complete. `complete_bytes`: the size of
    that one, `bytes` of all. `last`: the file that the task has written last, where another one has taken its place."""

    files: tuple[str, ...] = ()
    complete_bytes: int = 0
    bytes: int = 0
    last: str = ""

    @property
    def token(self) -> str:
        """What a task that keeps this version in memory knows it by."""
        return self.last or (self.files[-1] if self.files else "")

    def then(self, file: str, size: int, complete: bool) -> Lineage:
        """The version after another file."""
        if complete:
            return Lineage((file,), size, size)
        return replace(self, files=(*self.files, file), bytes=self.bytes + size, last="")

    def compacted(self, count: int, file: str, size: int) -> Lineage:
        """The same version, whose first `count` files have become one."""
        rest = self.files[count:]
        return Lineage((file, *rest), size, size + sum(map(_size_of, rest)), "" if rest else self.token)


class StateFolder:
    """The folder of a job's state versions, which driver and tasks can reach: a path, or a URI that pyarrow knows."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._storage = storage_at(place, "")
        self._system: fs.FileSystem | None = None
        self._root = place
        if "://" in place:
            system, self._root = fs.FileSystem.from_uri(place)
            self._system = None if isinstance(system, fs.LocalFileSystem) else system

    @staticmethod
    def new(place: str) -> StateFolder:
        """A folder of a job of its own, below a place where jobs have theirs."""
        folder = StateFolder(f"{place}/{uuid.uuid4().hex}")
        folder.make()
        return folder

    def make(self) -> None:
        """Make the folder."""
        if self._system is None:
            os.makedirs(self._root, 0o700, exist_ok=True)
            os.chmod(self._root, 0o700)
        else:
            self._system.create_dir(self._root, recursive=True)

    def write(self, name: str, data: bytes | pa.Buffer) -> str:
        """A whole file, which appears at once and nobody else can read; `name` is new. Gives the name for `read`.

        Raises:
            CheckpointError: E3415 the folder takes no more; what was written of the file is removed.
        """
        name = f"{name}.{len(data)}.{hashlib.sha256(data).hexdigest()}"
        try:
            if self._system is None:
                self._write_here(os.path.join(self._root, name), data)
            else:
                with self._system.open_output_stream(f"{self._root}/{name}", compression=None) as stream:
                    stream.write(data)
        except FileExistsError:
            raise
        except OSError as error:
            raise CheckpointError(
                f"{len(data):,} bytes of the job's state or rows cannot be written into {self.place}: {error.strerror or error}",
                code="E3415",
                hint="give the disk room, or the job another folder ('sqlengine.spark.state-dir', for processes"
                " 'sqlengine.processes.dir'): it goes on from its checkpoint",
            ) from error
        return name

    @staticmethod
    def _write_here(path: str, data: bytes | pa.Buffer) -> None:
        part = path + ".part"
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            try:
                left = memoryview(data)
                while left:
                    left = left[os.write(file, left) :]
            finally:
                os.close(file)
            os.rename(part, path)
        except OSError:
            # The disk may be full of halves like this one.
            with suppress(OSError):
                os.unlink(part)
            raise

    def read(self, name: str) -> bytes:
        """What `write` has written. Raises SparkError E3607 when it is not there, or is something else."""
        _, size, digest = name.rsplit(".", 2)
        try:
            # Not more than it can be, whatever has taken its place.
            data = self._storage.read(name, 0, int(size) + 1).to_pybytes()
        except FileNotFoundError as error:
            raise SparkError(
                f"{name} is not in {self.place}",
                code="E3607",
                hint="all machines of the cluster must see that folder: set 'sqlengine.spark.state-dir' to one they share;"
                " where they do, run the job again: it goes on from its checkpoint",
            ) from error
        except Damage as damage:
            raise _damaged(str(damage), self.place) from damage
        except OSError as error:
            raise SparkError(f"{name} in {self.place} cannot be read: {error}", code="E3607") from error
        if len(data) != int(size) or hashlib.sha256(data).hexdigest() != digest:
            raise _damaged(f"{name} holds other bytes than were written", self.place)
        return data

    def exists(self, name: str) -> bool:
        if self._system is not None:
            return self._system.get_file_info(f"{self._root}/{name}").type is fs.FileType.File
        return os.path.exists(os.path.join(self._root, name))

    def delete(self, name: str) -> None:
        """The file is gone; it may have been before."""
        try:
            if self._system is not None:
                self._system.delete_file(f"{self._root}/{name}")
            else:
                os.remove(os.path.join(self._root, name))
        except OSError:
            pass

    def remove(self) -> None:
        """The folder is gone with all that is in it."""
        try:
            if self._system is not None:
                self._system.delete_dir(self._root)
            else:
                shutil.rmtree(self._root, ignore_errors=True)
        except OSError:
            pass


def _size_of(name: str) -> int:
    """The bytes of a file that `StateFolder.write` has named."""
    return int(name.rsplit(".", 2)[1])


def _damaged(what: str, place: str) -> SparkError:
    return SparkError(
        f"in {place} a file of the job's state is not what was written: {what}",
        code="E3607",
        hint="the folder of 'sqlengine.spark.state-dir' is for jobs alone; run the job again: it goes on from its checkpoint",
    )


def encode_changes(changes: TaskChanges) -> bytes:
    """What a file holds: a checksum, then the changes by operator and table."""
    parts: list[bytes | pa.Buffer] = []
    head: dict[str, list[list[object]]] = {}
    for operator, tables in changes.items():
        head[operator] = []
        for table in tables:
            rows, removed = encode_rows(table.rows), table.removed.tobytes()
            head[operator].append([table.table, len(rows), len(removed), table.complete])
            parts += [rows, removed]
    described = json.dumps(head).encode()
    parts = [len(described).to_bytes(8, "little"), described, *parts]
    checksum = reduce(lambda sum_, part: zlib.crc32(part, sum_), parts, 0)
    return b"".join([checksum.to_bytes(4, "little"), *parts])


def decode_changes(data: bytes, name: str) -> TaskChanges:
    """The changes of a file. Raises SparkError E3607 when it is not what was written."""
    if len(data) < 4 or zlib.crc32(data[4:]) != int.from_bytes(data[:4], "little"):
        raise SparkError(f"{name} holds other bytes than were written", code="E3607")
    at = 12 + int.from_bytes(data[4:12], "little")
    found: dict[str, tuple[TableChanges, ...]] = {}
    for operator, tables in json.loads(data[12:at]).items():
        made: list[TableChanges] = []
        for table, rows, removed, complete in tables:
            slots = np.frombuffer(data, np.int64, removed // 8, at + rows)
            made.append(TableChanges(table, decode_rows(data[at : at + rows]), slots, complete))
            at += rows + removed
        found[operator] = tuple(made)
    return found


def task_states(changes: Sequence[TaskChanges]) -> dict[str, TaskState]:
    """What a chain of changes, from complete ones on, adds up to, by operator."""
    chains: dict[str, dict[str, list[TableChanges]]] = {}
    for entry in changes:
        for operator, tables in entry.items():
            for table in tables:
                chains.setdefault(operator, {}).setdefault(table.table, []).append(table)
    return {
        operator: {table: merge_changes(chain) for table, chain in tables.items()}
        for operator, tables in chains.items()
    }


def merged(changes: Sequence[TaskChanges]) -> dict[str, tuple[TableChanges, ...]]:
    """A chain of changes as one, by operator: complete where one of them is."""
    chains: dict[str, dict[str, list[TableChanges]]] = {}
    for entry in changes:
        for operator, tables in entry.items():
            for table in tables:
                chains.setdefault(operator, {}).setdefault(table.table, []).append(table)
    return {operator: tuple(_merged(chain) for chain in tables.values()) for operator, tables in chains.items()}


def _merged(chain: Sequence[TableChanges]) -> TableChanges:
    """The last word on each slot."""
    if any(c.complete for c in chain):
        return TableChanges(chain[0].table, merge_changes(chain), np.empty(0, np.int64), True)
    if len(chain) == 1:
        return chain[0]
    written = [c.rows.column(SLOT).to_numpy() for c in chain]
    high = max((int(s.max()) + 1 for s in (*written, *(c.removed for c in chain)) if len(s)), default=0)
    last = np.full(high, -1, np.int32)
    gone = np.zeros(high, np.bool_)
    for number, changes in enumerate(chain):
        last[written[number]] = number
        gone[written[number]] = False
        gone[changes.removed] = True
    parts = [
        changes.rows.filter(pa.array((last[slots] == number) & ~gone[slots]))
        for number, (slots, changes) in enumerate(zip(written, chain, strict=True))
    ]
    return TableChanges(chain[0].table, single_batch(parts), np.flatnonzero(gone).astype(np.int64), False)
