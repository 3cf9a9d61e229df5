"""The changes of a query as files, one for each epoch that changed something: what a stream of Spark reads.

    <folder>/log            the name of the log, made once
    <folder>/forgotten      the last epoch whose reader is done with it
    <folder>/<epoch>.arrow  the changes of an epoch: `op`, the row kind, before the other columns

A job writes an epoch under a hidden name and shows it when its checkpoint is complete, so that an epoch which a reader
has seen is never computed again. Epochs count from 1. Reading them again gives the same rows, until they are forgotten.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from runtime.core.changelog import KIND_NAMES, ChangelogBatch, ChangelogMode
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.spi.table import Delivery

__all__ = ["EpochLog", "EpochLogSink"]

_NAME = "log"
_FORGOTTEN = "forgotten"
_SUFFIX = ".arrow"


def _file(epoch: int) -> str:
    return f"{epoch:012d}{_SUFFIX}"


class EpochLog:
    """The files of a log. Raises ConnectorError E3110 for a folder that cannot be made."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        try:
            os.makedirs(folder, exist_ok=True)
            if not os.path.exists(self._path(_NAME)):
                self._write(_NAME, uuid.uuid4().hex.encode())
        except OSError as error:
            raise ConnectorError(
                f"cannot write to {folder}: {error.strerror}",
                code="E3110",
                hint="the option 'checkpoint' names a folder that the driver may write and executors can read",
            ) from error

    @property
    def name(self) -> str:
        """Tells this log from any other, one made anew at the same place included."""
        with open(self._path(_NAME)) as file:
            return file.read()

    def latest(self) -> int:
        """The last epoch that is shown; 0 when there is none yet."""
        return max([self.forgotten(), *self._shown()])

    def epochs(self, after: int, until: int) -> list[int]:
        """The epochs behind one and up to another that have changed something."""
        return [epoch for epoch in sorted(self._shown()) if after < epoch <= until]

    def read(self, epoch: int) -> pa.RecordBatch:
        """The changes of an epoch. Raises ConnectorError E3113 when they are gone."""
        try:
            with pa.OSFile(self._path(_file(epoch))) as file:
                return pa.ipc.open_stream(file).read_next_batch()
        except FileNotFoundError as error:
            raise ConnectorError(
                f"the changes of epoch {epoch} are not in {self.folder}",
                code="E3113",
                hint="executors must see the folder of the option 'checkpoint' under the same name as the driver",
            ) from error

    def forget(self, epoch: int) -> None:
        """Nobody will read the epochs up to this one again."""
        if epoch > self.forgotten():
            self._write(_FORGOTTEN, str(epoch).encode())
        for old in self.epochs(0, epoch):
            with suppress(FileNotFoundError):
                os.unlink(self._path(_file(old)))

    def forgotten(self) -> int:
        """The last epoch that was forgotten; 0 when none was."""
        try:
            with open(self._path(_FORGOTTEN)) as file:
                return int(file.read())
        except FileNotFoundError:
            return 0

    # --- for the job that writes it

    def stage(self, epoch: int, rows: pa.RecordBatch) -> None:
        """Write an epoch, hidden."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_batch(rows)
        self._write("." + _file(epoch), sink.getvalue())

    def show(self, epoch: int) -> None:
        """Show an epoch that is staged, unless that is done. Raises ConnectorError E3113 when it is gone."""
        try:
            os.rename(self._path("." + _file(epoch)), self._path(_file(epoch)))
        except FileNotFoundError as error:
            if epoch > self.forgotten() and not os.path.exists(self._path(_file(epoch))):
                raise ConnectorError(
                    f"the changes of epoch {epoch} are gone from {self.folder}",
                    code="E3113",
                    hint="begin anew with another folder in the option 'checkpoint'",
                ) from error

    def remove_staged(self) -> None:
        """Remove what was staged and never shown."""
        for name in os.listdir(self.folder):
            if name.startswith(".") and name.endswith(_SUFFIX):
                os.unlink(self._path(name))

    def _shown(self) -> list[int]:
        names = (n.removesuffix(_SUFFIX) for n in os.listdir(self.folder) if n.endswith(_SUFFIX) and n[0] != ".")
        return [int(name) for name in names]

    def _write(self, name: str, data: Any) -> None:
        """A whole file, which appears at once and survives a crash."""
        path = self._path(name)
        with open(path + ".part", "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(path + ".part", path)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)


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
        for committable in committables:
            self.publish(committable)
        self._log.remove_staged()

    def discard(self, committable: Any) -> None:
        self.abort()

    def abort(self) -> None:
        self._rows, self._staged = [], []

    def close(self) -> None:
        self._rows = []
