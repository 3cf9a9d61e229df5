"""What formats of columns (Parquet, ORC) share: a file is read whole, and written by a library that keeps a footer."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from connectors.formats.fitting import fit_columns
from connectors.formats.row_kinds import require_append
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import FormatError
from runtime.core.schema import Schema
from runtime.spi.format import Decoded

__all__ = ["ColumnFileDecoder", "ColumnFileEncoder"]


class ColumnFileDecoder:
    """A whole file in memory; nothing is decoded before the last byte has come.

    Args:
        read: the rows of a file; raises an error of Arrow for what is no such file.
        kind: of file, for messages.
    """

    def __init__(self, schema: Schema, read: Callable[[pa.BufferReader], pa.Table], kind: str) -> None:
        self._schema = schema
        self._read = read
        self._kind = kind

    def decode(self, data: bytes, final: bool) -> Decoded:
        """Raises FormatError E3204 for what is no such file, E3205 for columns of another type."""
        if not final:
            return Decoded(ChangelogBatch.empty(self._schema), (), 0)
        try:
            table = self._read(pa.BufferReader(data))
        except pa.ArrowException as error:
            raise FormatError(f"not {self._kind} file: {error}", code="E3204") from error
        columns = fit_columns(table.combine_chunks(), self._schema)
        return Decoded(ChangelogBatch.of(columns, self._schema), (), len(data))


class ColumnFileEncoder(ABC):
    """Collects rows to groups of useful size; `finish` gives the rest and the footer.

    Attributes:
        name: of the format, for messages.
        group_rows: rows that are given to the writer at a time.
    """

    name: str
    group_rows: int

    def __init__(self, schema: Schema) -> None:
        self._schema = pa.schema([pa.field(f.name, f.type.arrow) for f in schema])
        self._buffer = io.BytesIO()
        self._given = 0
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._writer = self._open(self._buffer, self._schema)

    @abstractmethod
    def _open(self, buffer: io.BytesIO, schema: pa.Schema) -> Any:
        """The library's writer of a file; it has `close()`."""

    @abstractmethod
    def _write(self, rows: pa.Table) -> None:
        """Give rows to the writer. There are none only in a file without rows."""

    def encode(self, batch: ChangelogBatch) -> bytes:
        """Raises PlanningError E1720 for updates and deletes."""
        require_append(batch, self.name)
        self._waiting.append(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
        self._rows += len(batch)
        if self._rows >= self.group_rows:
            self._give()
        return self._drain()

    def finish(self) -> bytes:
        # A file without rows has its columns, too.
        self._give()
        self._writer.close()
        return self._drain()

    def _give(self) -> None:
        self._write(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting, self._rows = [], 0

    def _drain(self) -> bytes:
        # The writer asks the buffer where it is, so the buffer may not shrink: it is handed out from where it was last.
        view = self._buffer.getbuffer()
        written = bytes(view[self._given :])
        self._given += len(written)
        del view
        return written
