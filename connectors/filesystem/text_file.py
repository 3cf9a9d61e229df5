"""The bytes of a file of text, unpacked when its name says that it is compressed, and the stamp by which a file is known
to be what it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connectors.filesystem.limits import ReadLimits
from connectors.filesystem.opening import shown_path
from connectors.filesystem.systems.local import LOCAL
from connectors.filesystem.systems.seam import FileStatus, FileSystem
from connectors.filesystem.unpacking import UNPACKING_FAILURES, Unpacking, packed_as
from runtime.core.errors import ConnectorError, FormatError
from runtime.core.strict_json import counts_of

__all__ = ["FileStamp", "TextFile"]

_SKIPPED = 4 << 20


class FileStamp:
    """Size in bytes and time of modification (nanoseconds since the epoch) of a file when it was opened.

    Kept in positions: one that was taken of another content would lead to other rows.
    """

    def __init__(self, path: str, status: FileStatus) -> None:
        self._path = path
        self.size = status.size
        self._modified = status.modified

    def position(self, **place: int) -> dict[str, int]:
        """A position in this file."""
        return {**place, "size": self.size, "modified": self._modified}

    def check(self, position: Mapping[str, Any]) -> None:
        """Raise ConnectorError E3105 when a position is not of this content, ValueError when it is none."""
        size, modified = counts_of(position, "size", "modified")
        if (size, modified) == (self.size, self._modified):
            return
        how = (
            f"is shorter than when it was last read ({self.size} bytes instead of {size})"
            if self.size < size
            else f"is longer than when it was last read ({self.size} bytes instead of {size})"
            if self.size > size
            else "has been written since it was last read"
        )
        raise ConnectorError(
            f"{shown_path(self._path)} {how}",
            code="E3105",
            hint="files of a table must not change once they are there: put it back as it was, or start the job anew",
        )


class TextFile:
    """A file to be read from the front, up to the size that it has when it is opened.

    Raises:
        ConnectorError: E3104 it cannot be read, E3105 it has become shorter.
        FormatError: E3206 it is not what its name says, or cut off; E3207 it unpacks to more than it may.
    """

    def __init__(
        self,
        path: str,
        limits: ReadLimits = ReadLimits(),  # noqa: B008
        system: FileSystem = LOCAL,
        packing: str = "auto",
    ) -> None:
        self._path = path
        self._packing = packing
        self._system = system
        self._limits = limits
        self.stamp = FileStamp(path, self._begin())

    def _begin(self) -> FileStatus:
        self._offset = 0
        self._raw, status = self._system.open(self._path)
        try:
            self._size = status.size
            kind = packed_as(self._path, self._packing)
            self._unpacking = Unpacking(shown_path(self._path), self._raw, self._limits, kind) if kind else None
        except BaseException:
            self._raw.close()
            raise
        return status

    @property
    def at_end(self) -> bool:
        """Whether `read` has given the last byte."""
        return self._offset >= self._size if self._unpacking is None else self._unpacking.at_end

    def read(self, most: int) -> bytes:
        """The next bytes: as many as asked for, unless the file, or what is whole of it, ends."""
        if self.at_end or most <= 0:
            return b""
        try:
            if self._unpacking is not None:
                data = self._unpacking.read(most)
            else:
                wanted = min(most, self._size - self._offset)
                data = self._raw.read(wanted)
                if len(data) < wanted:
                    raise ConnectorError(
                        f"{shown_path(self._path)} has become shorter while it was read",
                        code="E3105",
                        hint="files of a table must not change once they are there",
                    )
        except UNPACKING_FAILURES as error:
            raise self._failure(error) from error
        self._offset += len(data)
        return data

    def head(self, most: int) -> bytes:
        """The first bytes. Leaves the reading where it is."""
        other = TextFile(self._path, self._limits, self._system, self._packing)
        try:
            return other.read(most)
        finally:
            other.close()

    def seek(self, offset: int) -> None:
        """Go on at a byte of the content; a compressed file is unpacked up to there once more."""
        if self._unpacking is None:
            self._raw.seek(offset)
            self._offset = offset
            return
        self.close()
        self._begin()
        while self._offset < offset and not self.at_end:
            self.read(min(_SKIPPED, offset - self._offset))

    def lines_before(self, offset: int, lone_returns: bool) -> int:
        """How many lines end before a byte of the content. Leaves the reading where it is.

        `lone_returns`: a carriage return ends a line without a line feed, too.
        """
        other = TextFile(self._path, self._limits, self._system, self._packing)
        lines, left, last = 0, offset, b""
        try:
            while left > 0 and not other.at_end:
                block = other.read(min(left, _SKIPPED))
                lines += block.count(b"\n")
                if lone_returns:
                    lines += block.count(b"\r") - (last + block).count(b"\r\n")
                left, last = left - len(block), block[-1:]
        finally:
            other.close()
        return lines

    def close(self) -> None:
        self._raw.close()

    def _failure(self, error: Exception) -> ConnectorError | FormatError:
        """What the system refuses has a number; anything else is said by those who unpack."""
        if isinstance(error, OSError) and error.errno is not None:
            return ConnectorError(
                f"cannot read {shown_path(self._path)}: {error.strerror}",
                code="E3104",
                hint="check that the file exists and may be read",
            )
        return FormatError(
            f"{shown_path(self._path)} is damaged: {error}",
            code="E3206",
            hint="its name says how it is compressed, or the option 'compression': check that it is, and whole",
        )
