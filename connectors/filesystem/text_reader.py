"""Reads one file of records as text: a block of bytes at a time, the rest of the decoded rows kept for the next
poll."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from connectors.filesystem.limits import ReadLimits
from connectors.filesystem.opening import shown_path
from connectors.filesystem.systems.local import LOCAL
from connectors.filesystem.systems.seam import FileSystem
from connectors.filesystem.text_file import TextFile
from connectors.formats.projecting import LimitsRecords, SplitsAtReturns, StartsAtHead
from connectors.formats.records import MalformedRecord, malformed_error, shown_bytes, too_long
from connectors.pending_rows import PendingRows
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import FormatError
from runtime.core.strict_json import counts_of
from runtime.spi.format import Decoder
from runtime.spi.reader import RejectedRow

__all__ = ["TextFileReader"]

_BLOCK = 4 << 20
_FIRST_BLOCK = 1 << 16
"""A file whose first line is malformed, as all the others, is refused before much of it is decoded."""
_SHOWN_OF_LONG = 10_001
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class TextFileReader:
    """Rows of one file in order.

    A position is `{"offset": byte at which a block begins, "rows": rows of the block already given}`, with the stamp of
    the file: decoding again from there gives the same rows. The offset of a compressed file is in its content.

    Args:
        reject: takes malformed records; None when they fail the job.
        format_name: for messages.
        limits: longer records are malformed; a compressed file that holds more is an error.
        system: where the file is.
        packing: how it is compressed; `auto`: as its name says.
    """

    def __init__(
        self,
        path: str,
        decoder: Decoder,
        format_name: str,
        reject: Callable[[Sequence[RejectedRow]], None] | None,
        block_bytes: int = _BLOCK,
        *,
        limits: ReadLimits = ReadLimits(),  # noqa: B008
        system: FileSystem = LOCAL,
        packing: str = "auto",
    ) -> None:
        self._path = path
        self._decoder = decoder
        self._format_name = format_name
        self._reject = reject
        self._block_bytes = block_bytes
        self._most = limits.record
        self._file = TextFile(path, limits, system, packing)
        if isinstance(decoder, LimitsRecords):
            decoder.limit_records(limits.record)
        self._closed = False
        self._rest = b""
        self._block_offset = 0
        self._next_offset = 0
        self._pending = PendingRows()
        self._skip = 0
        self._failure: FormatError | None = None
        """Raised after the rows before what is malformed."""

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if max_rows <= 0:
            return None
        while not self._pending and not self._at_end and self._failure is None:
            self._read_block()
        if not self._pending and self._failure is not None:
            raise self._failure
        return self._pending.take(max_rows) if self._pending else None

    @property
    def _at_end(self) -> bool:
        return self._closed or (self._file.at_end and not self._rest)

    @property
    def finished(self) -> bool:
        return not self._pending and self._at_end and self._failure is None

    def position(self) -> Mapping[str, int]:
        stamp = self._file.stamp
        if not self._pending:
            return stamp.position(offset=self._next_offset, rows=self._skip)
        return stamp.position(offset=self._block_offset, rows=self._pending.taken)

    def seek(self, position: Any) -> None:
        """Raises ConnectorError E3105 when the file is not what it was."""
        offset, rows = counts_of(position, "offset", "rows")
        if self._closed:
            return
        self._file.stamp.check(position)
        if offset and isinstance(self._decoder, StartsAtHead):
            self._decoder.begin_at(self._file.head(self._most + 2))
        self._file.seek(offset)
        self._rest = b""
        self._block_offset = self._next_offset = offset
        self._pending.clear()
        self._skip = rows

    def _read_block(self) -> None:
        """Decode the next block into `_pending` (none of its rows may be left).

        Where a block ends depends on nothing but where it begins, so that a reader that resumes decodes the same one.
        """
        start = self._next_offset
        wanted = self._block_bytes if start else min(self._block_bytes, _FIRST_BLOCK)
        while True:
            data = self._rest + self._file.read(max(0, wanted - len(self._rest)))
            final = self._file.at_end
            # Kept until it is decoded: reading on may fail.
            self._rest = data
            mark = len(_BYTE_ORDER_MARK) if start == 0 and data.startswith(_BYTE_ORDER_MARK) else 0
            try:
                decoded = self._decoder.decode(data[mark:] if mark else data, final)
            except FormatError as error:
                raise FormatError(
                    f"{shown_path(self._path)}: {error.message}", code=error.code, hint=error.hint
                ) from error
            if decoded.consumed or final:
                break
            if len(data) > self._most:
                self._pass_over(start, data)
                return
            wanted = min(2 * max(wanted, len(data)), self._most + self._block_bytes)
        consumed = len(data) if final else decoded.consumed + mark
        self._rest = data[consumed:]
        self._decoded(start, start + consumed, decoded.batch, decoded.rejected, decoded.whole)

    def _decoded(
        self, start: int, end: int, batch: ChangelogBatch | None, rejected: Sequence[RejectedRow], whole: int
    ) -> None:
        """The rows of a block, and what is malformed in it."""
        self._block_offset, self._next_offset = start, end
        given = self._skip
        if rejected and self._reject is None:
            # Only the rows before it count.
            batch = None if batch is None or not whole else batch.slice(0, whole)
            self._failure = malformed_error(
                shown_path(self._path), self._format_name, rejected[0], self._line_at(start)
            )
        elif rejected and self._reject is not None and not given:
            # Rows that were given before were given with what was rejected among them.
            self._reject(rejected)
        rows = 0 if batch is None else len(batch)
        self._skip = max(0, given - rows)
        if self._failure is not None:
            # Whoever goes on behind these rows meets the same record.
            self._next_offset, self._skip = start, rows
        if batch is not None and rows > given:
            self._pending.put(batch, given)

    def _pass_over(self, start: int, data: bytes) -> None:
        """A line is over the limit: whatever its end, it is not kept."""
        end = start + len(data)
        self._rest = b""
        while not self._file.at_end:
            block = self._file.read(self._block_bytes)
            found = block.find(b"\n")
            if found >= 0:
                self._rest = block[found + 1 :]
                end += found + 1
                break
            end += len(block)
        self._decoded(
            start, end, None, [MalformedRecord(too_long(self._most), shown_bytes(data[:_SHOWN_OF_LONG]), 0)], 0
        )

    def _line_at(self, offset: int) -> int:
        """The 1-based number of the line that begins at an offset."""
        return self._file.lines_before(offset, isinstance(self._decoder, SplitsAtReturns)) + 1

    def close(self) -> None:
        if not self._closed:
            self._file.close()
            self._closed = True
        self._pending.clear()
