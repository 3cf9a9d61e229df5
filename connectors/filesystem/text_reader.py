"""Reads one file of records as text: a block of bytes at a time, the rest of the decoded rows kept for the next
poll."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from connectors.filesystem.text_file import TextFile
from connectors.formats.projecting import StartsAtHead
from connectors.formats.records import malformed_error
from connectors.pending_rows import PendingRows
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import FormatError
from runtime.spi.format import Decoder
from runtime.spi.table import RejectedRow

__all__ = ["TextFileReader"]

_BLOCK = 4 << 20


class TextFileReader:
    """Rows of one file in order.

    A position is `{"offset": byte at which a block begins, "rows": rows of the block already given}`, with the stamp of
    the file: decoding again from there gives the same rows. The offset of a compressed file is in its content.

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
        self._file = TextFile(path)
        self._closed = False
        self._rest = b""
        self._block_offset = 0
        self._next_offset = 0
        self._pending = PendingRows()
        self._skip = 0

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if max_rows <= 0:
            return None
        while not self._pending and not self._at_end:
            self._read_block()
        return self._pending.take(max_rows) if self._pending else None

    @property
    def _at_end(self) -> bool:
        return self._closed or (self._file.at_end and not self._rest)

    @property
    def finished(self) -> bool:
        return not self._pending and self._at_end

    def position(self) -> Mapping[str, int]:
        stamp = self._file.stamp
        if not self._pending:
            return stamp.position(offset=self._next_offset, rows=self._skip)
        return stamp.position(offset=self._block_offset, rows=self._pending.taken)

    def seek(self, position: Any) -> None:
        """Raises ConnectorError E3105 when the file is not what it was."""
        offset, rows = int(position["offset"]), int(position["rows"])
        if self._closed:
            return
        self._file.stamp.check(position)
        if offset and isinstance(self._decoder, StartsAtHead):
            self._decoder.begin_at(self._file.first_line())
        self._file.seek(offset)
        self._rest = b""
        self._block_offset = self._next_offset = offset
        self._pending.clear()
        self._skip = rows

    def _read_block(self) -> None:
        """Decode the next block into `_pending` (none of its rows may be left).

        Where a block ends depends on nothing but where it begins, so that a reader that resumes decodes the same one.
        """
        wanted = self._block_bytes
        while True:
            start = self._next_offset
            data = self._rest + self._file.read(max(0, wanted - len(self._rest)))
            final = self._file.at_end
            try:
                decoded = self._decoder.decode(data, final)
            except FormatError as error:
                raise FormatError(f"{self._path}: {error.message}", code=error.code, hint=error.hint) from error
            if decoded.consumed or final:
                break
            self._rest = data
            wanted *= 2
        consumed = len(data) if final else decoded.consumed
        self._rest = data[consumed:]
        self._block_offset, self._next_offset = start, start + consumed
        given = self._skip
        # Rows that were given before were given with what was rejected among them.
        if decoded.rejected and not given:
            self._refuse(decoded.rejected, start)
        self._skip = max(0, given - len(decoded.batch))
        if len(decoded.batch) > given:
            self._pending.put(decoded.batch, given)

    def _refuse(self, rejected: Sequence[RejectedRow], offset: int) -> None:
        if self._reject is None:
            raise malformed_error(self._path, self._format_name, rejected[0], self._line_at(offset))
        self._reject(rejected)

    def _line_at(self, offset: int) -> int:
        """The 1-based number of the line that begins at an offset."""
        return self._file.lines_before(offset) + 1

    def close(self) -> None:
        if not self._closed:
            self._file.close()
            self._closed = True
        self._pending.clear()
