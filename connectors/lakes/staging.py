"""Files of a lake's table that no version has yet: texts in a checkpoint name them.

What nobody commits lies there until `CALL sys.remove_orphan_files`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Generic, TypeVar

import pyarrow as pa

from connectors.kit.folding import LastChanges, named
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.spi.writer import TaskWriter

__all__ = ["FileStaging", "KeyedStaging"]

F = TypeVar("F")
S = TypeVar("S")


class _LakeStaging(ABC, Generic[S]):
    """What both forms share: texts are read again as what is committed (S). `where`: names the table, for messages."""

    def __init__(self, where: str) -> None:
        self._where = where

    @abstractmethod
    def telling(self) -> AbstractContextManager[None]:
        """Errors of the library are those of the connector within."""

    @abstractmethod
    def read(self, found: dict[str, Any]) -> S:
        """What a text of a checkpoint names."""

    def rows(self, texts: Sequence[str]) -> list[S]:
        """Raises ConnectorError E3113 when files are gone."""
        with self.telling():
            return [self._read(text) for text in texts]

    def _read(self, text: str) -> S:
        try:
            return self.read(json.loads(text))
        except (FileNotFoundError, AttributeError, KeyError, TypeError, json.JSONDecodeError) as error:
            raise ConnectorError(
                f"files of {self._where} that a checkpoint names are gone: {error}",
                code="E3113",
                hint="were they removed as orphans? Keep those that are younger than a job may stand still",
            ) from error


class FileStaging(_LakeStaging[S], Generic[S, F]):
    """A `Staging` of rows that are added. F is what is known of a written file.

    Args:
        names: the columns of the table.
        target: rows of so many bytes go into files at once.
        writer: writes rows in a task.
    """

    def __init__(self, where: str, names: Sequence[str], target: int, writer: TaskWriter | None = None) -> None:
        super().__init__(where)
        self._names = names
        self._target = target
        self._writer = writer
        self._adopted: list[str] = []
        self._rows: list[ChangelogBatch] = []
        self._bytes = 0
        self._written: list[F] = []

    @abstractmethod
    def written(self, rows: pa.Table) -> list[F]:
        """Write rows: into one file, or several for each partition."""

    @abstractmethod
    def remove(self, file: F) -> None:
        """Remove a file that no checkpoint names."""

    @abstractmethod
    def text_of(self, files: list[F]) -> str:
        """Names files in a checkpoint."""

    @abstractmethod
    def files_of(self, staged: S) -> list[F]:
        """The files that a text has named."""

    def task_writer(self) -> TaskWriter | None:
        return self._writer

    def adopt(self, texts: Sequence[str]) -> None:
        self._adopted += texts

    def add(self, batch: ChangelogBatch) -> None:
        if not len(batch):
            return
        self._rows.append(named(batch, self._names))
        self._bytes += batch.nbytes
        if self._bytes >= self._target:
            self._write()

    def take(self) -> list[str]:
        self._write()
        files, self._written = self._written, []
        adopted, self._adopted = self._adopted, []
        if not files:
            return adopted
        with self.telling():
            return [*adopted, self.text_of(files)]

    def drop(self) -> None:
        self._rows, self._bytes = [], 0
        files, self._written = self._written, []
        adopted, self._adopted = self._adopted, []
        with suppress(Exception):
            files += [file for staged in self.rows(adopted) for file in self.files_of(staged)]
        for file in files:
            # What stays is an orphan, and says nothing wrong.
            with suppress(Exception):
                self.remove(file)

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        return tuple(self._rows)

    def _write(self) -> None:
        if not self._rows:
            return
        gathered = ChangelogBatch.concat(self._rows)
        self._rows, self._bytes = [], 0
        with self.telling():
            self._written += self.written(pa.Table.from_batches([gathered.rows]))


class KeyedStaging(_LakeStaging[S]):
    """A `Staging` of changes by key, of which the last one of each key counts.

    Args:
        names, key: the columns of the table, and those of its key.
        most: bytes of changes between two checkpoints.
    """

    def __init__(self, where: str, names: Sequence[str], key: Sequence[str], most: int) -> None:
        super().__init__(where)
        self._changes = LastChanges(where, names, key, most)

    @abstractmethod
    def text_of(self, changes: ChangelogBatch) -> str:
        """Write changes; names them in a checkpoint."""

    def add(self, batch: ChangelogBatch) -> None:
        self._changes.add(batch)

    def take(self) -> list[str]:
        last = self._changes.take()
        if last is None:
            return []
        with self.telling():
            return [self.text_of(last)]

    def drop(self) -> None:
        self._changes.clear()

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        return self._changes.buffered
