"""Reads one file of records as text: a block of bytes at a time, the rest of the decoded rows kept for the next
poll."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from connectors.formats.projecting import StartsAtHead
from connectors.formats.records import malformed_error
from runtime.core.changelog import UPDATE_BEFORE, ChangelogBatch
from runtime.core.errors import ConnectorError, FormatError
from runtime.spi.format import Decoder
from runtime.spi.table import RejectedRow

__all__ = ["TextFileReader"]

_BLOCK = 4 << 20


class TextFileReader:
    """Rows of one file in order.

    A position is `{"offset": byte at which a block begins, "rows": rows of the block already given}`: decoding again
    from there gives the same rows. The file is read up to the size it has when it is opened.

    Args:
        reject: takes malformed records; None when they fail the job.
        format_name: for messages.
    """

    def __init__(
        self,
        path: str,
        decoder: Decoder,
        format_name: str,
        reject: Callable[[Sequence[RejectedRow]], None] | None,
        block_bytes: int = _BLOCK,
    ) -> None:
        self._path = path
        self._decoder = decoder
        self._format_name = format_name
        self._reject = reject
        self._block_bytes = block_bytes
        try:
            self._file: io.BufferedReader | None = open(path, "rb")  # noqa: SIM115
        except OSError as error:
            raise ConnectorError(
                f"cannot read {path}: {error.strerror}", code="E3104", hint="check that the file exists and may be read"
            ) from error
        self._size = os.fstat(self._file.fileno()).st_size
        self._rest = b""
        self._block_offset = 0
        self._next_offset = 0
        self._pending: ChangelogBatch | None = None
        self._taken = 0
        self._skip = 0

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if max_rows <= 0:
            return None
        while self._pending is None and not self._at_end:
            self._read_block()
        if self._pending is None:
            return None
        whole = self._pending
        end = min(self._taken + max_rows, len(whole))
        if whole.kinds is not None and end < len(whole) and whole.kinds[end - 1] == UPDATE_BEFORE:
            end += 1
        part = whole if self._taken == 0 and end == len(whole) else whole.slice(self._taken, end - self._taken)
        self._taken = end
        if end == len(whole):
            self._pending = None
        return part

    @property
    def _at_end(self) -> bool:
        return self._next_offset >= self._size

    @property
    def finished(self) -> bool:
        return self._pending is None and self._at_end

    def position(self) -> Mapping[str, int]:
        if self._pending is None:
            return {"offset": self._next_offset, "rows": self._skip}
        return {"offset": self._block_offset, "rows": self._taken}

    def seek(self, position: Any) -> None:
        offset, rows = int(position["offset"]), int(position["rows"])
        if self._file is None:
            return
        if offset > self._size:
            raise ConnectorError(
                f"{self._path} is shorter than when it was last read",
                code="E3105",
                hint="files of a table must not change once they are there",
            )
        if offset and isinstance(self._decoder, StartsAtHead):
            self._decoder.begin_at(self._file.readline())
        self._file.seek(offset)
        self._rest = b""
        self._block_offset = self._next_offset = offset
        self._pending, self._taken, self._skip = None, 0, rows

    def _read_block(self) -> None:
        """Decode the next block into `_pending` (none of its rows may be left)."""
        assert self._file is not None
        wanted = self._block_bytes
        while True:
            start = self._next_offset
            room = self._size - start - len(self._rest)
            try:
                data = self._rest + self._file.read(min(wanted, room))
            except OSError as error:
                raise ConnectorError(f"cannot read {self._path}: {error.strerror}", code="E3104") from error
            final = start + len(data) >= self._size or (room > 0 and len(data) == len(self._rest))
            try:
                decoded = self._decoder.decode(data, final)
            except FormatError as error:
                raise FormatError(f"{self._path}: {error.message}", code=error.code, hint=error.hint) from error
            if decoded.consumed or final:
                break
            self._rest = data
            wanted *= 2
        self._rest = data[decoded.consumed :]
        self._block_offset, self._next_offset = start, self._size if final else start + decoded.consumed
        self._taken, self._skip = self._skip, 0
        # Rows that were given before were given with what was rejected among them.
        if decoded.rejected and not self._taken:
            self._refuse(decoded.rejected, start)
        if len(decoded.batch) > self._taken:
            self._pending = decoded.batch
        elif len(decoded.batch) < self._taken:
            self._skip = self._taken - len(decoded.batch)
            self._taken = 0

    def _refuse(self, rejected: Sequence[RejectedRow], offset: int) -> None:
        if self._reject is None:
            raise malformed_error(self._path, self._format_name, rejected[0], self._line_at(offset))
        self._reject(rejected)

    def _line_at(self, offset: int) -> int:
        """The 1-based number of the line that begins at an offset."""
        with open(self._path, "rb") as file:
            lines, left = 1, offset
            while left > 0 and (block := file.read(min(left, _BLOCK))):
                lines += block.count(b"\n")
                left -= len(block)
        return lines

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._pending = None
