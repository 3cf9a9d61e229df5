"""Reads one file of Avro, block by block, straight into columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from connectors.filesystem.column_reader import damaged, refusing_damage
from connectors.filesystem.limits import ReadLimits
from connectors.filesystem.opening import shown_path
from connectors.filesystem.systems.local import LOCAL
from connectors.filesystem.systems.seam import FileSystem
from connectors.filesystem.text_file import FileStamp
from connectors.formats.avro_container import Header, read_block, read_header, unpacked
from connectors.formats.avro_reading import Unresolved, reading_program
from connectors.formats.avro_types import columns_of
from connectors.pending_rows import PendingRows
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import FormatError
from runtime.core.schema import Schema
from runtime.core.strict_json import counts_of
from runtime.kernels.avro_read import read_stream, reason_of

__all__ = ["AvroFileReader", "avro_columns"]

_FREE_RECORDS = 1 << 16
"""So many records may a block have that take no bytes."""


def avro_columns(path: str, system: FileSystem = LOCAL) -> Schema:
    """The columns of a file. Raises FormatError E3204, UnsupportedError for types that SQL does not have."""
    file, _ = system.open(path, in_order=False)
    with file:
        return columns_of(_header(path, file).schema)


def _header(path: str, file: BinaryIO) -> Header:
    try:
        return read_header(file)
    except (ValueError, OverflowError) as error:
        raise FormatError(
            f"{shown_path(path)} is not an Avro file: {error}", code="E3204", hint="check the option 'format'"
        ) from error


class AvroFileReader:
    """Rows of one file in order.

    A position is `{"offset": where a block begins, "rows": rows of it already given}`, with the stamp of the file.

    Args:
        schema: the columns to give, by the names of the fields; one that the file lacks is NULL.
        limits: what blocks may hold.
        system: where the file is.
    Raises:
        ConnectorError: E3104 the file cannot be read, E3105 it has changed.
        FormatError: E3204 it is none of Avro, E3205 a field has another type, E3206 it is damaged, E3207 it holds more than
            it may.
    """

    def __init__(
        self,
        path: str,
        schema: Schema,
        limits: ReadLimits = ReadLimits(),  # noqa: B008
        system: FileSystem = LOCAL,
    ) -> None:
        self._path = path
        self._schema = schema
        self._limits = limits
        self._file, status = system.open(path)
        self._size = status.size
        self._stamp = FileStamp(path, status)
        self._pending = PendingRows()
        self._skip = 0
        self._closed = False
        try:
            self._header = _header(path, self._file)
            self._program = reading_program(self._header.schema, schema)
        except Unresolved as error:
            self._file.close()
            raise FormatError(
                f"{shown_path(path)}: {error}",
                code="E3205",
                hint="declare the columns with the types that the file has",
            ) from error
        except BaseException:
            self._file.close()
            raise
        self._block_offset = self._next_offset = self._header.size

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if max_rows <= 0:
            return None
        while not self._pending and not self._at_end:
            self._read_block()
        return self._pending.take(max_rows) if self._pending else None

    @property
    def _at_end(self) -> bool:
        return self._closed or self._next_offset >= self._size

    @property
    def finished(self) -> bool:
        return not self._pending and self._at_end

    def position(self) -> Mapping[str, int]:
        if not self._pending:
            return self._stamp.position(offset=self._next_offset, rows=self._skip)
        return self._stamp.position(offset=self._block_offset, rows=self._pending.taken)

    def seek(self, position: Any) -> None:
        """Raises ConnectorError E3105 when the file is not what it was."""
        offset, rows = counts_of(position, "offset", "rows")
        if self._closed:
            return
        self._stamp.check(position)
        self._block_offset = self._next_offset = max(offset, self._header.size)
        self._pending.clear()
        self._skip = rows

    def _read_block(self) -> None:
        path, begin = shown_path(self._path), self._next_offset
        with refusing_damage(self._path):
            block = read_block(self._file, self._header, begin, self._size, self._limits.page)
            most = self._limits.page
            data = unpacked(self._header.codec, block.packed, most)
            self._limits.check(path, len(block.packed), len(data))
            if block.records > max(len(data), _FREE_RECORDS):
                raise ValueError(f"a block says that it has {block.records:,} records in {len(data):,} bytes")
            columns, state, end = read_stream(self._program, np.frombuffer(data, np.uint8), 0, block.records)
        bad = np.flatnonzero(state)
        if len(bad):
            reason = reason_of(self._program, int(state[bad[0]]))
            raise damaged(self._path, f"record {int(bad[0]) + 1} of the block at byte {begin}: {reason}")
        if end != len(data):
            raise damaged(self._path, f"the block at byte {begin} has more bytes than its records")
        self._block_offset, self._next_offset = begin, block.end
        rows = ChangelogBatch.of(columns, self._schema)
        skipped = min(self._skip, len(rows))
        self._skip -= skipped
        if len(rows) > skipped:
            self._pending.put(rows, skipped)

    def close(self) -> None:
        if not self._closed:
            self._file.close()
            self._closed = True
        self._pending.clear()
