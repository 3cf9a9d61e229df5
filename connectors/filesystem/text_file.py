"""The bytes of a file of text, unpacked when its name says that it is compressed (`.gz`, `.bz2`, `.xz`, `.zst`,
`.deflate`, as Flink has it), and the stamp by which a file is known to be what it was."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Mapping
from typing import IO, Any

import pyarrow as pa

from runtime.core.errors import ConnectorError, FormatError

__all__ = ["FileStamp", "TextFile"]

_SKIPPED = 4 << 20
_FAILURES = (OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException)


class FileStamp:
    """Size in bytes and time of modification (nanoseconds since the epoch) of a file when it was opened.

    Kept in positions: one that was taken of another content would lead to other rows.
    """

    def __init__(self, path: str, status: os.stat_result) -> None:
        self._path = path
        self.size = status.st_size
        self._modified = status.st_mtime_ns

    def position(self, **place: int) -> dict[str, int]:
        """A position in this file."""
        return {**place, "size": self.size, "modified": self._modified}

    def check(self, position: Mapping[str, Any]) -> None:
        """Raise ConnectorError E3105 when a position is not of this content."""
        if position["size"] == self.size and position["modified"] == self._modified:
            return
        how = (
            f"is shorter than when it was last read ({self.size} bytes instead of {position['size']})"
            if self.size < position["size"]
            else f"is longer than when it was last read ({self.size} bytes instead of {position['size']})"
            if self.size > position["size"]
            else "has been written since it was last read"
        )
        raise ConnectorError(
            f"{self._path} {how}",
            code="E3105",
            hint="files of a table must not change once they are there: put it back as it was, or start the job anew",
        )


class TextFile:
    """A file to be read from the front, up to the size that it has when it is opened.

    Raises:
        ConnectorError: E3104 it cannot be read, E3105 it has become shorter.
        FormatError: E3206 it is not what its name says, or cut off.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._packed = _unpacking(path)
        self._raw = self._opened()
        try:
            self.stamp = FileStamp(path, os.fstat(self._raw.fileno()))
        except OSError as error:
            self._raw.close()
            raise self._failure(error) from error
        self._begin()

    def _opened(self) -> IO[bytes]:
        try:
            return open(self._path, "rb")
        except OSError as error:
            raise self._failure(error) from error

    def _begin(self) -> None:
        self._offset = 0
        self._file: IO[bytes] = self._raw
        if self._packed is None:
            self._ended = self.stamp.size == 0
            return
        try:
            self._file = self._packed(self._raw)
            self._ended = not self._peek()
        except BaseException:
            self._raw.close()
            raise

    @property
    def at_end(self) -> bool:
        """Whether `read` has given the last byte."""
        return self._ended

    def read(self, most: int) -> bytes:
        """The next bytes: as many as asked for, unless the file ends."""
        if self._ended:
            return b""
        try:
            if self._packed is not None:
                data = self._file.read(most)
                self._ended = not self._peek()
            else:
                wanted = min(most, self.stamp.size - self._offset)
                data = self._file.read(wanted)
                if len(data) < wanted:
                    raise ConnectorError(
                        f"{self._path} has become shorter while it was read",
                        code="E3105",
                        hint="files of a table must not change once they are there",
                    )
                self._ended = self._offset + len(data) >= self.stamp.size
        except _FAILURES as error:
            raise self._failure(error) from error
        self._offset += len(data)
        return data

    def first_line(self) -> bytes:
        """The first line; only before anything is read, or before `seek`."""
        try:
            return self._file.readline()
        except _FAILURES as error:
            raise self._failure(error) from error

    def seek(self, offset: int) -> None:
        """Go on at a byte of the content; a compressed file is unpacked up to there once more."""
        if self._packed is None:
            self._raw.seek(offset)
            self._offset, self._ended = offset, offset >= self.stamp.size
            return
        self.close()
        self._raw = self._opened()
        self._begin()
        while self._offset < offset and not self._ended:
            self.read(min(_SKIPPED, offset - self._offset))

    def lines_before(self, offset: int) -> int:
        """How many lines end before a byte of the content. Leaves the reading where it is."""
        other = TextFile(self._path)
        lines, left = 0, offset
        try:
            while left > 0 and not other.at_end:
                block = other.read(min(left, _SKIPPED))
                lines += block.count(b"\n")
                left -= len(block)
        finally:
            other.close()
        return lines

    def close(self) -> None:
        self._file.close()
        self._raw.close()

    def _peek(self) -> bytes:
        """Some bytes that come next, empty at the end; for what unpacks."""
        try:
            return self._file.peek(1)  # type: ignore[attr-defined, no-any-return]
        except _FAILURES as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> ConnectorError | FormatError:
        """What the system refuses has a number; anything else is said by those who unpack."""
        if isinstance(error, OSError) and error.errno is not None:
            return ConnectorError(
                f"cannot read {self._path}: {error.strerror}",
                code="E3104",
                hint="check that the file exists and may be read",
            )
        return FormatError(
            f"{self._path} is damaged: {error}",
            code="E3206",
            hint="its name says how it is compressed: check that it is, and whole",
        )


class _Deflated(io.RawIOBase):
    """What a stream of zlib holds."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._inflate = zlib.decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        most = len(buffer)
        while not self._inflate.eof:
            packed = self._inflate.unconsumed_tail or self._raw.read(1 << 16)
            if not packed:
                raise EOFError("the compressed data ends before its end is marked")
            data = self._inflate.decompress(packed, most)
            if data:
                buffer[: len(data)] = data
                return len(data)
        return 0


def _zstandard(raw: IO[bytes]) -> IO[bytes]:
    return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd"))


_UNPACK = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".gzip": lambda raw: gzip.GzipFile(fileobj=raw),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": _zstandard,
    ".deflate": lambda raw: io.BufferedReader(_Deflated(raw)),
}


def _unpacking(path: str) -> Any:
    """What makes a stream of the content; None for a plain file."""
    return _UNPACK.get(os.path.splitext(path)[1].lower())
