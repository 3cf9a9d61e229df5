"""The content of compressed files, a piece at a time: `.gz`, `.bz2`, `.xz`, `.zst`, `.deflate`, as Flink has it."""

from __future__ import annotations

import bz2
import lzma
import os
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

import pyarrow as pa

from connectors.filesystem.limits import ReadLimits
from connectors.filesystem.opening import bare_name

__all__ = ["UNPACKING_FAILURES", "Unpacking", "is_packed"]

UNPACKING_FAILURES = (OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException)
"""What those who unpack say of damage."""

_READ = 1 << 16
_GIVEN = 1 << 20
_LZMA_MEMORY = 128 << 20
"""What unpacking may take: a file of xz says itself how much it needs."""


class _Members:
    """The content of compressed members one behind the other; bytes behind the last that begin no other are an error.

    Args:
        begin: makes what unpacks one member: a decompressor of zlib, bz2 or lzma.
        several: whether there may be more than one.
    """

    def __init__(self, raw: BinaryIO, begin: Callable[[], Any], several: bool) -> None:
        self._raw = raw
        self._begin = begin
        self._several = several
        self._member: Any = None
        self._waiting = b""
        self._whole = False
        self.packed = 0

    def piece(self) -> bytes:
        """The next bytes, empty at the end."""
        while True:
            if not self._waiting and (self._member is None or getattr(self._member, "needs_input", True)):
                self._waiting = self._raw.read(_READ)
                self.packed += len(self._waiting)
                if not self._waiting:
                    if self._member is None and self._whole:
                        return b""
                    raise EOFError("the compressed data ends before its end is marked")
            if self._member is None:
                if self._whole and not self._next_member():
                    continue
                self._member = self._begin()
            data = self._member.decompress(self._waiting, _GIVEN)
            self._waiting = getattr(self._member, "unconsumed_tail", b"")
            if self._member.eof:
                self._waiting = self._member.unused_data
                self._member, self._whole = None, True
            if data:
                return data

    def _next_member(self) -> bool:
        """Whether another member begins: zeros may stand behind the last one."""
        self._waiting = self._waiting.lstrip(b"\0")
        if self._waiting and not self._several:
            raise EOFError("more bytes follow the end of the compressed data")
        return bool(self._waiting)


class _Frames:
    """The content of frames of Zstandard."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._stream = pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd")

    @property
    def packed(self) -> int:
        return self._raw.tell()

    def piece(self) -> bytes:
        """See `_Members`."""
        data: bytes = self._stream.read(_GIVEN)
        if not data and not self.packed:
            raise EOFError("there is no compressed data")
        return data


class Unpacking:
    """The content of a compressed file. Raises one of `UNPACKING_FAILURES` for damage, after all that is before it was
    given; FormatError E3207 when it holds more than it may."""

    def __init__(self, path: str, raw: BinaryIO, limits: ReadLimits) -> None:
        self._path = path
        self._limits = limits
        self._pieces = _KINDS[_suffix(path)](raw)
        self._ahead = b""
        self._given = 0
        self._over = False
        self._failure: Exception | None = None
        self._look()

    @property
    def at_end(self) -> bool:
        return self._over and not self._ahead

    def read(self, most: int) -> bytes:
        """The next bytes: as many as asked for, unless the content or what is whole of it ends."""
        if self._failure is not None and not self._ahead:
            raise self._failure
        parts: list[bytes] = []
        wanted = most
        while wanted > 0 and self._ahead:
            part = self._ahead[:wanted]
            self._ahead = self._ahead[wanted:]
            parts.append(part)
            wanted -= len(part)
            self._look()
        return b"".join(parts)

    def _look(self) -> None:
        """Have some bytes ahead, so that the end is known when it is reached."""
        if self._ahead or self._over or self._failure is not None:
            return
        try:
            self._ahead = self._pieces.piece()
            self._given += len(self._ahead)
            self._limits.check(self._path, self._pieces.packed, self._given)
        except Exception as error:
            self._ahead = b""
            self._failure = error
        self._over = not self._ahead and self._failure is None


_KINDS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda raw: _Members(raw, lambda: zlib.decompressobj(31), True),
    ".gzip": lambda raw: _Members(raw, lambda: zlib.decompressobj(31), True),
    ".bz2": lambda raw: _Members(raw, bz2.BZ2Decompressor, True),
    ".xz": lambda raw: _Members(raw, lambda: lzma.LZMADecompressor(memlimit=_LZMA_MEMORY), True),
    ".zst": _Frames,
    ".deflate": lambda raw: _Members(raw, zlib.decompressobj, False),
}


def _suffix(path: str) -> str:
    return os.path.splitext(bare_name(path))[1].lower()


def is_packed(path: str) -> bool:
    """Whether the name says that the file is compressed."""
    return _suffix(path) in _KINDS
