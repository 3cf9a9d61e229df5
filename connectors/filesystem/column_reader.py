"""What readers of files of columns share: a file is a row of groups (row groups of Parquet, stripes of ORC), of which
some can be left out, and each is read in batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from connectors.filesystem.column_filters import ColumnFilter, passing
from connectors.filesystem.limits import ReadLimits
from connectors.filesystem.opening import shown_path
from connectors.filesystem.systems.local import LOCAL
from connectors.filesystem.systems.seam import FileSystem
from connectors.filesystem.text_file import FileStamp
from connectors.formats.fitting import fit_columns
from connectors.pending_rows import PendingRows
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import FormatError, SqlEngineError
from runtime.core.schema import Schema
from runtime.core.strict_json import counts_of

__all__ = ["BATCH_ROWS", "ColumnFileReader", "damaged", "refusing_damage"]

BATCH_ROWS = 1 << 17
_SIGNS_OF_DAMAGE = (pa.ArrowException, OSError, ValueError, OverflowError, IndexError, MemoryError)
"""What Arrow says of bytes that it cannot make sense of."""


def damaged(path: str, how: object) -> FormatError:
    """The error for a file that does not hold what it says."""
    return FormatError(
        f"{shown_path(path)} is damaged: {how}", code="E3206", hint="write the file anew, or take it out of the folder"
    )


@contextmanager
def refusing_damage(path: str) -> Generator[None]:
    """Whatever Arrow says of a damaged file is FormatError E3206."""
    try:
        yield
    except _SIGNS_OF_DAMAGE as error:
        raise damaged(path, error) from error


class ColumnFileReader(ABC):
    """Rows of one file in order, without the groups that cannot hold a row that passes the filters.

    A position is `{"group": group, "rows": rows of it already given}`, with the stamp of the file.

    Args:
        schema: the columns to give.
        wanted: all columns that are read: those of `schema` and those that only filters need.
        time_zone: the session's.
        limits: what compressed columns may hold.
        system: where the file is.
    Raises:
        ConnectorError: E3104 the file cannot be read, E3105 it has changed.
        FormatError: E3204 it is none of the format, E3206 it is damaged, E3207 it holds more than it may.
    """

    def __init__(
        self,
        path: str,
        schema: Schema,
        wanted: Schema,
        filters: Sequence[ColumnFilter],
        time_zone: str = "UTC",
        limits: ReadLimits = ReadLimits(),  # noqa: B008
        system: FileSystem = LOCAL,
    ) -> None:
        self._path = path
        self._system = system
        self._bytes, status = system.open(path, in_order=False)
        self._time_zone = time_zone
        self._schema = schema
        self._wanted = wanted
        self._filters = filters
        self._limits = limits
        self._stamp = FileStamp(path, status)
        try:
            with refusing_damage(path):
                self._open()
                names = list(self._names())
                self._stored = [f.name for f in wanted if f.name in names]
                self._groups = self._useful_groups()
            twice = [name for name in self._stored if names.count(name) > 1]
            if twice:
                raise FormatError(f"{shown_path(path)} has more than one column {twice[0]}", code="E3205")
        except BaseException:
            self._bytes.close()
            raise
        self._at = 0
        self._given = 0
        self._skip = 0
        self._left_in_group = 0
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._pending = PendingRows()

    @abstractmethod
    def _open(self) -> None:
        """Open the file; raises ConnectorError E3104 or FormatError E3204."""

    @abstractmethod
    def _names(self) -> Sequence[str]:
        """The columns that the file has."""

    @abstractmethod
    def _count(self) -> int:
        """How many groups it has."""

    @abstractmethod
    def _useful_groups(self) -> list[int]:
        """Those that may have rows that pass."""

    @abstractmethod
    def _begin_group(self, group: int, columns: list[str]) -> tuple[int, Iterator[pa.RecordBatch]]:
        """How many rows a group has, and these columns of them, of which there is at least one."""

    @abstractmethod
    def _rows_of(self, group: int) -> int:
        """How many rows a group has."""

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if max_rows <= 0:
            return None
        while not self._pending:
            if not self._advance():
                return None
        part = self._pending.take(max_rows)
        self._given += len(part)
        if not self._pending:
            self._close_group_when_read()
        return part

    def _advance(self) -> bool:
        """Read the next batch; false when there is none."""
        if self._at >= len(self._groups):
            return False
        with refusing_damage(self._path):
            if self._batches is None:
                group = self._groups[self._at]
                if self._stored:
                    self._left_in_group, self._batches = self._begin_group(group, self._stored)
                else:
                    self._left_in_group = self._rows_of(group)
                    self._batches = _uncolumned(self._left_in_group)
            rows = next(self._batches, None)
            if rows is not None:
                # Arrow believes offsets, indices and texts, and whoever uses them later does, too.
                rows.validate(full=True)
        if rows is None or rows.num_rows > self._left_in_group:
            raise damaged(self._path, "it has another number of rows than it says")
        self._left_in_group -= rows.num_rows
        self._take(rows)
        if not self._pending:
            self._close_group_when_read()
        return True

    def _take(self, rows: pa.RecordBatch) -> None:
        try:
            columns = fit_columns(rows, self._wanted)
        except SqlEngineError as error:
            raise FormatError(f"{shown_path(self._path)}: {error.message}", code=error.code, hint=error.hint) from error
        by_name = dict(zip(self._wanted.names, columns, strict=True))
        batch = ChangelogBatch.of([by_name[n] for n in self._schema.names], self._schema)
        mask = passing(self._filters, by_name)
        if mask is not None:
            batch = ChangelogBatch(batch.rows.filter(mask))
        skipped = min(self._skip, len(batch))
        self._skip -= skipped
        if len(batch) > skipped:
            self._pending.put(batch, skipped)

    def _close_group_when_read(self) -> None:
        if self._left_in_group <= 0:
            self._at += 1
            self._given = self._skip = 0
            self._batches = None

    @property
    def finished(self) -> bool:
        return not self._pending and self._at >= len(self._groups)

    def position(self) -> dict[str, int]:
        group = self._groups[self._at] if self._at < len(self._groups) else self._count()
        return self._stamp.position(group=group, rows=self._given)

    def seek(self, position: Any) -> None:
        """Raises ConnectorError E3105 when the file is not what it was."""
        self._stamp.check(position)
        group, rows = counts_of(position, "group", "rows")
        with refusing_damage(self._path):
            self._groups = [g for g in self._useful_groups() if g >= group]
        self._at = 0
        self._skip = self._given = rows if self._groups and self._groups[0] == group else 0
        self._batches = None
        self._pending.clear()

    def close(self) -> None:
        self._batches = None
        self._pending.clear()
        self._at = len(self._groups)
        self._bytes.close()


def _uncolumned(rows: int) -> Iterator[pa.RecordBatch]:
    """So many rows of a file that has none of the columns."""
    for begin in range(0, rows, BATCH_ROWS):
        yield pa.RecordBatch.from_arrays([pa.nulls(min(BATCH_ROWS, rows - begin))], names=["\0"])
