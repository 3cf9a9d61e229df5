"""The changes of a query as files, one for each epoch that changed something: what a stream of Spark reads.

    <folder>/log            the name of the log, made once
    <folder>/forgotten      the last epoch whose reader is done with it
    <folder>/<epoch>-<size>-<SHA-256>.arrow
                            the changes of an epoch: `op`, the row kind, before the other columns
    <folder>/<epoch>-<size>-<SHA-256>.parts
                            or the names of the files that hold them, one a line, in order
    <folder>/part-<token>-<size>-<SHA-256>.arrow
                            such a file: tasks have written it, and it means nothing before it is named

A name says what is in the file, so that a checkpoint that names it does, and damage is told. (An older version wrote
`<epoch>.arrow`.)

A job writes an epoch under a hidden name and shows it when its checkpoint is complete, so that an epoch which a reader
has seen is never computed again. Epochs count from 1. Reading them again gives the same rows, until they are forgotten.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import uuid
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from runtime.checkpoint.arrow_streams import read_streams
from runtime.checkpoint.storage import Damage, Storage
from runtime.checkpoint.store import storage_at
from runtime.core.changelog import KIND_NAMES, ChangelogBatch, ChangelogMode
from runtime.core.errors import CheckpointError, ConnectorError
from runtime.core.schema import Schema
from runtime.spi.sink import Delivery

__all__ = ["EpochLog", "EpochLogSink", "put_part", "write_part"]

_NAME = "log"
_FORGOTTEN = "forgotten"
_SUFFIX = ".arrow"
_PARTS = ".parts"
_EPOCH = re.compile(r"([0-9]{12,18})(?:-([0-9]{1,18})-([0-9a-f]{64}))?\.(?:arrow|parts)")
_PART = re.compile(r"part-[0-9a-f]{16}-([0-9]{1,18})-([0-9a-f]{64})\.arrow")
_MOST_BYTES = 1 << 31
"""Of a file whose name does not tell."""
_NUMBER = re.compile(rb"[0-9]{1,18}")
_LOG = re.compile(rb"[0-9a-f]{32}")


def _epoch_of(name: str) -> int:
    """Raises ValueError for what is no file of an epoch."""
    found = _EPOCH.fullmatch(name)
    if found is None or int(found[1]) < 1:
        raise ValueError(f"{name[:80]!r} is no file of an epoch")
    return int(found[1])


class EpochLog:
    """The files of a log.

    Args:
        folder: a path, or a URI that pyarrow knows (`s3a://`, as Spark has it, is `s3://`).
    Raises:
        ConnectorError: E3110 it cannot be written.
        CheckpointError: E3406 it cannot be reached.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._names: dict[int, str] = {}
        self._storage = _storage(folder)
        try:
            if _NAME not in self._storage.files():
                self._storage.publish(_NAME, uuid.uuid4().hex.encode())
        except OSError as error:
            raise ConnectorError(
                f"cannot write to {folder}: {error.strerror or error}",
                code="E3110",
                hint="the option 'checkpoint' names a folder that the driver may write and executors can read",
            ) from error

    @property
    def name(self) -> str:
        """Tells this log from any other, one made anew at the same place included."""
        with _damaged(self.folder, _NAME):
            return _text(self._storage.read(_NAME, 0, 64), _LOG)

    def latest(self) -> int:
        """The last epoch that is shown; 0 when there is none yet."""
        return max([self.forgotten(), *self._shown()])

    def epochs(self, after: int, until: int) -> list[int]:
        """The epochs behind one and up to another that have changed something."""
        return [epoch for epoch in sorted(self._shown()) if after < epoch <= until]

    def read(self, epoch: int) -> pa.RecordBatch:
        """The changes of an epoch. Raises as `parts`."""
        found = list(self.parts(epoch))
        return found[0] if len(found) == 1 else pa.Table.from_batches(found).combine_chunks().to_batches()[0]

    def parts(self, epoch: int) -> Iterator[pa.RecordBatch]:
        """The changes of an epoch, file by file.

        Raises:
            ConnectorError: E3113 they are gone.
            CheckpointError: E3402 a file holds something else.
        """
        if epoch not in self._names:
            self._names = self._shown()
        try:
            name = self._names[epoch]
            for part in self._parts_of(name) if name.endswith(_PARTS) else [name]:
                yield self._rows(part)
        except (FileNotFoundError, KeyError) as error:
            raise ConnectorError(
                f"the changes of epoch {epoch} are not in {self.folder}",
                code="E3113",
                hint="executors must see the folder of the option 'checkpoint' under the same name as the driver",
            ) from error

    def _rows(self, name: str) -> pa.RecordBatch:
        """The rows of a file. Raises as `_bytes`."""
        data = self._bytes(name)
        with _damaged(self.folder, name):
            found = list(read_streams(data))
            return found[0] if len(found) == 1 else pa.Table.from_batches(found).combine_chunks().to_batches()[0]

    def _parts_of(self, name: str) -> list[str]:
        """The files that a file of an epoch names. Raises as `_bytes`."""
        data = self._bytes(name)
        with _damaged(self.folder, name):
            names = data.to_pybytes().decode().split("\n")
            if not all(map(_PART.fullmatch, names)):
                raise ValueError("it names other files than parts")
            return names

    def _bytes(self, name: str) -> pa.Buffer:
        """What a file holds, hidden or not.

        Raises:
            CheckpointError: E3402 that is not what was written.
            FileNotFoundError: it is not there.
        """
        part, epoch = _PART.fullmatch(name), _EPOCH.fullmatch(name.removeprefix("."))
        with _damaged(self.folder, name):
            size, digest = part.groups() if part else (epoch[2], epoch[3]) if epoch else (None, None)
            # Not more than it can be, whatever has taken its place.
            data = self._storage.read(name, 0, int(size) + 1 if size else _MOST_BYTES)
            if size and (data.size != int(size) or hashlib.sha256(data).hexdigest() != digest):
                raise ValueError("its size or SHA-256 differs")
            return data

    def forget(self, epoch: int) -> None:
        """Nobody will read the epochs up to this one again."""
        if epoch > self.forgotten():
            self._storage.publish(_FORGOTTEN, str(epoch).encode())
        for shown, name in self._shown().items():
            if shown <= epoch:
                parts = self._parts_of(name) if name.endswith(_PARTS) else []
                # First what names them: an epoch is there as a whole, or not at all.
                self._storage.delete(name)
                self.delete_parts(parts)

    def forgotten(self) -> int:
        """The last epoch that was forgotten; 0 when none was."""
        try:
            with _damaged(self.folder, _FORGOTTEN):
                return int(_text(self._storage.read(_FORGOTTEN, 0, 20), _NUMBER))
        except FileNotFoundError:
            return 0

    # --- for the job that writes it

    def stage(self, epoch: int, rows: pa.RecordBatch) -> str:
        """Write an epoch, hidden. Gives its name for `show`."""
        return self._staged(epoch, _stream(rows), _SUFFIX)

    def stage_parts(self, epoch: int, names: Sequence[str]) -> str:
        """The same, of an epoch whose changes are in parts."""
        return self._staged(epoch, "\n".join(names).encode(), _PARTS)

    def _staged(self, epoch: int, data: bytes, suffix: str) -> str:
        name = f"{epoch:012d}-{len(data)}-{hashlib.sha256(data).hexdigest()}{suffix}"
        self._storage.publish("." + name, data)
        return name

    def has_parts(self, names: Sequence[str]) -> bool:
        """Whether these are there, as whoever sees the folder sees them."""
        return set(names) <= self._storage.files().keys()

    def delete_parts(self, names: Sequence[str]) -> None:
        """No epoch needs them."""
        for name in names:
            self._storage.delete(name)

    def show(self, name: str) -> None:
        """Show an epoch that is staged, unless that is done.

        Raises:
            ConnectorError: E3113 it is gone.
            CheckpointError: E3402 it is not what was staged.
        """
        epoch = _epoch_of(name)
        try:
            staged = self._bytes("." + name)
            if name.endswith(_PARTS):
                self._check_parts("." + name)
        except FileNotFoundError as error:
            if epoch > self.forgotten() and epoch not in self._shown():
                raise ConnectorError(
                    f"the changes of epoch {epoch} are gone from {self.folder}",
                    code="E3113",
                    hint="begin anew with another folder in the option 'checkpoint'",
                ) from error
            return
        # Copied and not renamed: not every store renames at once.
        self._storage.publish(name, staged.to_pybytes())
        self._storage.delete("." + name)

    def _check_parts(self, name: str) -> None:
        """Raises FileNotFoundError when a part of an epoch is gone, or has another size. Its bytes are looked at by who
        reads it."""
        there = self._storage.files()
        for part in self._parts_of(name):
            found = _PART.fullmatch(part)
            if found is None or there.get(part) != int(found[1]):
                raise FileNotFoundError(part)

    def remove_staged(self) -> None:
        """Remove what was staged and never shown, and parts that no epoch names."""
        files = self._storage.files()
        for name in files:
            if name.startswith(".") and name.endswith((_SUFFIX, _PARTS)):
                self._storage.delete(name)
        named = {p for name in self._shown().values() if name.endswith(_PARTS) for p in self._parts_of(name)}
        self.delete_parts([name for name in files if _PART.fullmatch(name) and name not in named])

    def begin_anew(self) -> EpochLog:
        """An empty log at the same place, under another name."""
        for name in self._storage.files():
            self._storage.delete(name)
        return EpochLog(self.folder)

    def _shown(self) -> dict[int, str]:
        """The files of the epochs that are shown. Raises CheckpointError E3402 when there are two of one."""
        names = [name for name in self._storage.files() if _EPOCH.fullmatch(name)]
        found = {_epoch_of(name): name for name in names}
        with _damaged(self.folder, max(names, default="")):
            if len(found) < len(names):
                raise ValueError("there are two files of an epoch")
        return found


def _storage(folder: str) -> Storage:
    above, mark, options = folder.partition("?") if "://" in folder else (folder, "", "")
    above, _, last = above.rstrip("/").rpartition("/")
    place = f"{above or '/'}{mark}{options}"
    return storage_at("s3://" + place[6:] if place.startswith("s3a://") else place, last)


def _stream(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()


def write_part(folder: str, rows: pa.RecordBatch) -> str:
    """Rows as a part of an epoch that survives a crash; in any process. Gives its name."""
    return put_part(folder, _stream(rows))


def put_part(folder: str, data: bytes) -> str:
    """The same, of rows as an Arrow stream."""
    name = f"part-{secrets.token_hex(8)}-{len(data)}-{hashlib.sha256(data).hexdigest()}{_SUFFIX}"
    _storage(folder).publish(name, data)
    return name


def _text(data: pa.Buffer, pattern: re.Pattern[bytes]) -> str:
    """Raises ValueError when it is no such text."""
    if pattern.fullmatch(data.to_pybytes()) is None:
        raise ValueError(f"it is {data.to_pybytes()!r}")
    return data.to_pybytes().decode()


def _name_of(prepared: Any) -> str:
    """Raises ValueError for what is no epoch that was prepared."""
    if type(prepared) is int:
        return f"{prepared:012d}{_SUFFIX}"
    if not isinstance(prepared, str):
        raise ValueError(f"{str(prepared)[:80]!r} is no epoch")
    return prepared


@contextmanager
def _damaged(folder: str, name: str) -> Generator[None]:
    """What is wrong with a file is told as damage."""
    try:
        yield
    except (Damage, ValueError) as error:
        raise CheckpointError(
            f"{name} in {folder} holds other bytes than were written: {error}",
            code="E3402",
            hint="begin anew with another folder in the option 'checkpoint'",
        ) from error


@dataclass(frozen=True)
class EpochLogSink:
    """A log as a table to write: takes all row kinds."""

    name: str
    schema: Schema
    folder: str

    @property
    def primary_key(self) -> tuple[str, ...]:
        return ()

    @property
    def delivery(self) -> Delivery:
        return "exactly-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return requested

    def open_writer(self, job: str) -> _LogWriter:
        return _LogWriter(EpochLog(self.folder), self.schema.names)

    def describe(self) -> dict[str, Any]:
        return {"connector": "epoch log", "path": self.folder}


@dataclass(frozen=True)
class _PartWriter:
    """Writes parts of epochs in tasks (`runtime.spi.writer.TaskWriter`)."""

    folder: str
    names: tuple[str, ...]

    def write(self, batch: ChangelogBatch) -> list[str]:
        return [write_part(self.folder, self.rows(batch))]

    def rows(self, changes: ChangelogBatch) -> pa.RecordBatch:
        op = pa.array(KIND_NAMES).take(pa.array(changes.kinds_or_inserts()))
        return pa.RecordBatch.from_arrays([op, *changes.columns], names=["op", *self.names])


class _LogWriter:
    """A committable is a list of names of epochs; in an older version of their numbers."""

    def __init__(self, log: EpochLog, names: Sequence[str]) -> None:
        self._log = log
        self._parts_of = _PartWriter(log.folder, tuple(names))
        self._rows: list[ChangelogBatch] = []
        self._parts: list[str] = []
        self._staged: list[str] = []

    def write(self, batch: ChangelogBatch) -> None:
        self._rows.append(batch)

    def task_writer(self) -> _PartWriter:
        return self._parts_of

    def adopt(self, written: Any) -> None:
        self._as_part()
        self._parts += written

    def _as_part(self) -> None:
        if self._rows:
            rows, self._rows = ChangelogBatch.concat(self._rows), []
            self._parts += self._parts_of.write(rows)

    def flush(self, epoch: int) -> None:
        if self._parts:
            self._as_part()
            parts, self._parts = self._parts, []
            self._staged.append(self._log.stage_parts(epoch + 1, parts))
        elif self._rows:
            changes, self._rows = ChangelogBatch.concat(self._rows), []
            self._staged.append(self._log.stage(epoch + 1, self._parts_of.rows(changes)))

    def prepare(self) -> Any:
        return list(self._staged) or None

    def publish(self, committable: Any) -> None:
        for name in committable:
            self._log.show(name)
            if name in self._staged:
                self._staged.remove(name)

    def recover(self, committables: Sequence[Any]) -> None:
        """Raises ValueError, before anything is done, when these are no epochs."""
        for name in (names := [_name_of(given) for committable in committables for given in committable]):
            _epoch_of(name)
        self.publish(names)
        self._log.remove_staged()

    def discard(self, committable: Any) -> None:
        self.abort()

    def abort(self) -> None:
        self._log.delete_parts(self._parts)
        self._rows, self._parts, self._staged = [], [], []

    def close(self) -> None:
        self._rows = []
