"""Reads one file of text that grows: rows that are appended to it are given when their lines have ended.

The file is known by its number and by the bytes before the place where reading goes on. One that has become shorter, is
gone, or is another one now is said, and not read any further: nobody knows which of its rows were given.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from connectors.filesystem.limits import ReadLimits
from connectors.filesystem.opening import shown_path
from connectors.filesystem.systems.local import LOCAL
from connectors.filesystem.systems.seam import FileStatus
from connectors.filesystem.text_file import TextFile
from connectors.filesystem.unpacking import is_packed
from connectors.formats.projecting import LimitsRecords, SplitsAtReturns, StartsAtHead
from connectors.formats.records import MalformedRecord, malformed_error, shown_bytes, too_long
from connectors.pending_rows import PendingRows
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, FormatError
from runtime.core.strict_json import counts_of
from runtime.spi.format import Decoded, Decoder
from runtime.spi.reader import RejectedRow, SkippedInput

__all__ = ["TailReader"]

_BLOCK = 4 << 20
_KNOWN_BY = 1024
"""So many bytes before the place where reading goes on tell whether the file is the same."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SHOWN_OF_LONG = 10_001
_REASON = "a file that is not what it was"


class TailReader:
    """Rows of one file in order, without an end.

    A position is `{"offset": byte at which a block begins, "end": byte behind it, "rows": rows of it already given, "before":
    what tells the bytes before it, "size", "modified"}`.

    Args:
        reject: takes what is said of the file.
        ignores: whether malformed records are rejected, too; otherwise they fail the job.
        interval: how often it is looked whether the file has grown, in seconds.
    """

    def __init__(
        self,
        path: str,
        decoder: Decoder,
        format_name: str,
        reject: Callable[[Sequence[RejectedRow]], None],
        *,
        ignores: bool,
        interval: float,
        limits: ReadLimits = ReadLimits(),  # noqa: B008
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if is_packed(path):
            raise ConnectorError(
                f"{shown_path(path)} is compressed: what is appended to it cannot be read by itself",
                code="E3104",
                hint="leave it out by 'source.path.regex-pattern', or leave 'source.tail' out",
            )
        self._path = path
        self._decoder = decoder
        self._format_name = format_name
        self._reject = reject
        self._ignores = ignores
        self._interval = interval
        self._limits = limits
        self._clock = clock
        self._looked_at: float | None = None
        self._status = LOCAL.status(path)
        self._seen = 0
        """The size at which nothing was left but a line without end."""
        if isinstance(decoder, LimitsRecords):
            decoder.limit_records(limits.record)
        self._pending = PendingRows()
        self._block = (0, 0)
        self._next = 0
        self._before = self._before_next = b""
        self._failure: FormatError | None = None
        self._over = False

    # --- what the engine calls

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if max_rows <= 0:
            return None
        while not self._pending and self._failure is None and not self._over and self._grown():
            self._read_block()
        if self._pending:
            return self._pending.take(max_rows)
        if self._failure is not None:
            raise self._failure
        return None

    @property
    def finished(self) -> bool:
        return self._over and not self._pending and self._failure is None

    def available_in(self) -> float:
        if self._pending or self._over or self._failure is not None or self._looked_at is None:
            return 0.0
        return max(0.0, self._looked_at + self._interval - self._clock())

    def fetch_end_offset(self) -> None:
        """Look at once: see `EndOffsetReader`."""
        self._looked_at = None

    def position(self) -> dict[str, Any]:
        begin, end, before, rows = self._next, self._next, self._before_next, 0
        if self._pending:
            (begin, end), before, rows = self._block, self._before, self._pending.taken
        known = hashlib.sha256(before).hexdigest()[:32]
        stamp = {"size": self._status.size, "modified": self._status.modified}
        return {"offset": begin, "end": end, "rows": rows, "before": known, **stamp}

    def seek(self, position: Any) -> None:
        """Raises ConnectorError E3105 when the file is shorter than it was, or another one."""
        begin, end, rows = counts_of(position, "offset", "end", "rows")
        if self._over:
            return
        if self._status.size < end:
            raise self._other(f"is shorter than when it was last read ({self._status.size} bytes, {end} were read)")
        before = self._bytes(max(0, begin - _KNOWN_BY), begin)
        if hashlib.sha256(before).hexdigest()[:32] != position["before"]:
            raise self._other("has been replaced since it was last read")
        if begin and isinstance(self._decoder, StartsAtHead):
            self._decoder.begin_at(self._bytes(0, min(self._status.size, self._limits.record + 2)))
        self._pending.clear()
        self._next, self._before_next = begin, before
        if end > begin:
            data = self._bytes(begin, end)
            self._decoded(data, self._decode(data), rows)

    def close(self) -> None:
        self._pending.clear()
        self._over, self._failure = True, None

    # --- the file

    def _grown(self) -> bool:
        """Whether there are bytes that were not looked at; looks now and then."""
        if self._next < self._status.size and self._seen < self._status.size:
            return True
        now = self._clock()
        if self._looked_at is not None and now - self._looked_at < self._interval:
            return False
        self._looked_at = now
        try:
            status = LOCAL.status(self._path)
        except ConnectorError as error:
            self._say(error.message)
            return False
        if not self._is_same(status):
            return False
        self._status = status
        return self._seen < status.size

    def _is_same(self, status: FileStatus) -> bool:
        """Whether it is the file that was read so far; says what is wrong."""
        path = shown_path(self._path)
        if status.version != self._status.version:
            self._say(
                f"{path} has been replaced: rows that were appended to the old one are lost, the new one is not read"
            )
        elif status.size < self._status.size:
            self._say(f"{path} has shrunk from {self._status.size} to {status.size} bytes: it is not read any further")
        return not self._over

    def _say(self, what: str) -> None:
        self._reject([SkippedInput(_REASON, what)])
        self._over = True

    def _bytes(self, begin: int, end: int) -> bytes:
        file, status = LOCAL.open(self._path)
        with file:
            if not self._is_same(status):
                return b""
            file.seek(begin)
            return file.read(end - begin)

    def _read_block(self) -> None:
        """Decode the next lines into `_pending`, as many as have ended."""
        begin, size, wanted = self._next, self._status.size, _BLOCK
        while True:
            data = self._bytes(begin, min(size, begin + wanted))
            if self._over:
                return
            decoded = self._decode(data)
            if decoded.consumed or decoded.rejected:
                self._decoded(data[: decoded.consumed], decoded, 0)
                return
            if len(data) > self._limits.record:
                self._pass_over(begin, data)
                return
            if begin + len(data) >= size:
                self._seen = size
                return
            wanted = min(2 * wanted, self._limits.record + _BLOCK)

    def _decode(self, data: bytes) -> Decoded:
        marked = self._next == 0 and data.startswith(_BYTE_ORDER_MARK)
        mark = len(_BYTE_ORDER_MARK) if marked else 0
        try:
            decoded = self._decoder.decode(data[mark:], False)
        except FormatError as error:
            raise FormatError(f"{shown_path(self._path)}: {error.message}", code=error.code, hint=error.hint) from error
        consumed = decoded.consumed + mark if decoded.consumed else 0
        return Decoded(decoded.batch, decoded.rejected, consumed, decoded.whole)

    def _decoded(self, data: bytes, decoded: Decoded, given: int) -> None:
        """The rows of a block, of which some were given, and what is malformed in it."""
        begin, batch = self._next, decoded.batch
        self._block, self._before = (begin, begin + len(data)), self._before_next
        self._next = begin + len(data)
        self._before_next = (self._before + data)[-_KNOWN_BY:]
        if decoded.rejected and not self._ignores:
            batch = batch.slice(0, decoded.whole)
            line = self._line_at(begin)
            self._failure = malformed_error(shown_path(self._path), self._format_name, decoded.rejected[0], line)
        elif decoded.rejected and not given:
            self._reject(decoded.rejected)
        if len(batch) > given:
            self._pending.put(batch, given)

    def _line_at(self, offset: int) -> int:
        file = TextFile(self._path, self._limits)
        try:
            return file.lines_before(offset, isinstance(self._decoder, SplitsAtReturns)) + 1
        finally:
            file.close()

    def _pass_over(self, begin: int, data: bytes) -> None:
        """A line is over the limit: it is passed over when it has ended."""
        at, shown = begin + len(data), data[:_SHOWN_OF_LONG]
        while at < self._status.size:
            block = self._bytes(at, min(self._status.size, at + _BLOCK))
            found = block.find(b"\n")
            if self._over:
                return
            at += found + 1 if found >= 0 else len(block)
            if found >= 0:
                record = MalformedRecord(too_long(self._limits.record), shown_bytes(shown), 0)
                self._before_next = self._bytes(max(0, at - _KNOWN_BY), at)
                if self._ignores:
                    self._reject([record])
                else:
                    line = self._line_at(begin)
                    self._failure = malformed_error(shown_path(self._path), self._format_name, record, line)
                self._next = at
                return
        self._seen = self._status.size

    def _other(self, how: str) -> ConnectorError:
        return ConnectorError(
            f"{shown_path(self._path)} {how}",
            code="E3105",
            hint="a file that is tailed may only grow: put it back as it was, or start the job anew",
        )
