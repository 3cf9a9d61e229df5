"""The changes of a query as files, one for each epoch that changed something: what a stream of Spark reads.

    <folder>/log            the name of the log, made once
    <folder>/forgotten      the last epoch whose reader is done with it
    <folder>/<epoch>.arrow  the changes of an epoch: `op`, the row kind, before the other columns

A job writes an epoch under a hidden name and shows it when its checkpoint is complete, so that an epoch which a reader
has seen is never computed again. Epochs count from 1. Reading them again gives the same rows, until they are forgotten.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from runtime.checkpoint.arrow_streams import read_streams
from runtime.checkpoint.storage import Damage
from runtime.checkpoint.store import storage_at
from runtime.core.changelog import KIND_NAMES, ChangelogBatch, ChangelogMode
from runtime.core.errors import CheckpointError, ConnectorError
from runtime.core.schema import Schema
from runtime.spi.table import Delivery

__all__ = ["EpochLog", "EpochLogSink", "below"]

_NAME = "log"
_FORGOTTEN = "forgotten"
_SUFFIX = ".arrow"


def _file(epoch: int) -> str:
    return f"{epoch:012d}{_SUFFIX}"


def below(folder: str, name: str) -> str:
    """A folder in a folder, which may be a URI with options behind a question mark."""
    head, mark, options = folder.partition("?") if "://" in folder else (folder, "", "")
    return f"{head.rstrip('/')}/{name}{mark}{options}"


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
        above, mark, options = folder.partition("?") if "://" in folder else (folder, "", "")
        above, _, last = above.rstrip("/").rpartition("/")
        place = f"{above or '/'}{mark}{options}"
        self._storage = storage_at("s3://" + place[6:] if place.startswith("s3a://") else place, last)
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
            return self._storage.read(_NAME, 0, 64).to_pybytes().decode()

    def latest(self) -> int:
        """The last epoch that is shown; 0 when there is none yet."""
        return max([self.forgotten(), *self._shown()])

    def epochs(self, after: int, until: int) -> list[int]:
        """The epochs behind one and up to another that have changed something."""
        return [epoch for epoch in sorted(self._shown()) if after < epoch <= until]

    def read(self, epoch: int) -> pa.RecordBatch:
        """The changes of an epoch.

        Raises:
            ConnectorError: E3113 they are gone.
            CheckpointError: E3402 the file holds something else.
        """
        try:
            with _damaged(self.folder, _file(epoch)):
                (rows,) = read_streams(self._storage.read(_file(epoch)))
                return rows
        except FileNotFoundError as error:
            raise ConnectorError(
                f"the changes of epoch {epoch} are not in {self.folder}",
                code="E3113",
                hint="executors must see the folder of the option 'checkpoint' under the same name as the driver",
            ) from error

    def forget(self, epoch: int) -> None:
        """Nobody will read the epochs up to this one again."""
        if epoch > self.forgotten():
            self._storage.publish(_FORGOTTEN, str(epoch).encode())
        for old in self.epochs(0, epoch):
            self._storage.delete(_file(old))

    def forgotten(self) -> int:
        """The last epoch that was forgotten; 0 when none was."""
        try:
            with _damaged(self.folder, _FORGOTTEN):
                return int(self._storage.read(_FORGOTTEN, 0, 20).to_pybytes())
        except FileNotFoundError:
            return 0

    # --- for the job that writes it

    def stage(self, epoch: int, rows: pa.RecordBatch) -> None:
        """Write an epoch, hidden."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_batch(rows)
        self._storage.publish("." + _file(epoch), sink.getvalue().to_pybytes())

    def show(self, epoch: int) -> None:
        """Show an epoch that is staged, unless that is done. Raises ConnectorError E3113 when it is gone."""
        try:
            with _damaged(self.folder, "." + _file(epoch)):
                staged = self._storage.read("." + _file(epoch))
        except FileNotFoundError as error:
            if epoch > self.forgotten() and epoch not in self._shown():
                raise ConnectorError(
                    f"the changes of epoch {epoch} are gone from {self.folder}",
                    code="E3113",
                    hint="begin anew with another folder in the option 'checkpoint'",
                ) from error
            return
        # Copied and not renamed: not every store renames at once.
        self._storage.publish(_file(epoch), staged.to_pybytes())
        self._storage.delete("." + _file(epoch))

    def remove_staged(self) -> None:
        """Remove what was staged and never shown."""
        for name in self._storage.files():
            if name.startswith(".") and name.endswith(_SUFFIX):
                self._storage.delete(name)

    def begin_anew(self) -> EpochLog:
        """An empty log at the same place, under another name."""
        for name in self._storage.files():
            self._storage.delete(name)
        return EpochLog(self.folder)

    def _shown(self) -> list[int]:
        names = (n.removesuffix(_SUFFIX) for n in self._storage.files() if n.endswith(_SUFFIX) and n[0].isdigit())
        return [int(name) for name in names]


@contextmanager
def _damaged(folder: str, name: str) -> Iterator[None]:
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


class _LogWriter:
    """A committable is a list of epochs."""

    def __init__(self, log: EpochLog, names: Sequence[str]) -> None:
        self._log = log
        self._names = ["op", *names]
        self._rows: list[ChangelogBatch] = []
        self._staged: list[int] = []

    def write(self, batch: ChangelogBatch) -> None:
        self._rows.append(batch)

    def flush(self, epoch: int) -> None:
        if not self._rows:
            return
        changes, self._rows = ChangelogBatch.concat(self._rows), []
        op = pa.array(KIND_NAMES).take(pa.array(changes.kinds_or_inserts()))
        self._log.stage(epoch + 1, pa.RecordBatch.from_arrays([op, *changes.columns], names=self._names))
        self._staged.append(epoch + 1)

    def prepare(self) -> Any:
        return list(self._staged) or None

    def publish(self, committable: Any) -> None:
        for epoch in committable:
            self._log.show(epoch)
            if epoch in self._staged:
                self._staged.remove(epoch)

    def recover(self, committables: Sequence[Any]) -> None:
        if any(type(epoch) is not int or epoch < 1 for epochs in committables for epoch in epochs):
            raise ValueError("what is prepared are no epochs")
        for committable in committables:
            self.publish(committable)
        self._log.remove_staged()

    def discard(self, committable: Any) -> None:
        self.abort()

    def abort(self) -> None:
        self._rows, self._staged = [], []

    def close(self) -> None:
        self._rows = []
