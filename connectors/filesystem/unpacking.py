"""The content of compressed files, a piece at a time: `.gz`, `.bz2`, `.xz`, `.zst`, `.deflate`, as Flink has it, and `.lz4` and
`.snappy`."""

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

__all__ = ["UNPACKING_FAILURES", "Unpacking", "is_packed", "packed_as"]

UNPACKING_FAILURES = (OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException)
"""What those who unpack say of damage."""

_READ = 1 << 16
_GIVEN = 1 << 20
_MOST_PIECE = 64 << 20
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
    """The content of frames of Zstandard or LZ4."""

    def __init__(self, raw: BinaryIO, codec: str) -> None:
        self._raw = raw
        self._stream = pa.CompressedInputStream(pa.PythonFile(raw, "r"), codec)

    @property
    def packed(self) -> int:
        return self._raw.tell()

    def piece(self) -> bytes:
        """See `_Members`."""
        data: bytes = self._stream.read(_GIVEN)
        if not data and not self.packed:
            raise EOFError("there is no compressed data")
        return data


class _Blocks:
    """The content of blocks of Snappy, as Hadoop writes them: the size of a block unpacked, then pieces of it, each with its
    own size before it. Numbers have four bytes, the highest first."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._left = 0
        """What is missing of the block that was begun."""
        self.packed = 0

    def piece(self) -> bytes:
        """See `_Members`."""
        while not self._left:
            head = self._raw.read(4)
            self.packed += len(head)
            if not head and self.packed:
                return b""
            self._left = self._number(head)
        packed = self._taken(self._number(self._taken(4)))
        size = shift = 0
        for byte in packed[:5]:
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if not 0 < size <= min(self._left, _MOST_PIECE):
            raise EOFError("a block has another size than it says")
        data: bytes = pa.decompress(packed, decompressed_size=size, codec="snappy", asbytes=True)
        self._left -= size
        return data

    def _number(self, data: bytes) -> int:
        if len(data) < 4:
            raise EOFError("the compressed data ends before its end is marked")
        return int.from_bytes(data, "big")

    def _taken(self, size: int) -> bytes:
        if size > _MOST_PIECE:
            raise EOFError("a block is too large")
        data = self._raw.read(size)
        self.packed += len(data)
        if len(data) < size:
            raise EOFError("the compressed data ends before its end is marked")
        return data


class Unpacking:
    """The content of a compressed file. Raises one of `UNPACKING_FAILURES` for damage, after all that is before it was
    given; FormatError E3207 when it holds more than it may. `kind`: what `packed_as` gives."""

    def __init__(self, path: str, raw: BinaryIO, limits: ReadLimits, kind: str) -> None:
        self._path = path
        self._limits = limits
        self._pieces = _KINDS[kind](raw)
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
    "bz2": lambda raw: _Members(raw, bz2.BZ2Decompressor, True),
    "deflate": lambda raw: _Members(raw, zlib.decompressobj, False),
    "gzip": lambda raw: _Members(raw, lambda: zlib.decompressobj(31), True),
    "lz4": lambda raw: _Frames(raw, "lz4"),
    "snappy": _Blocks,
    "xz": lambda raw: _Members(raw, lambda: lzma.LZMADecompressor(memlimit=_LZMA_MEMORY), True),
    "zstd": lambda raw: _Frames(raw, "zstd"),
}
_ENDINGS = {
    ".bz2": "bz2",
    ".deflate": "deflate",
    ".gz": "gzip",
    ".gzip": "gzip",
    ".lz4": "lz4",
    ".snappy": "snappy",
    ".xz": "xz",
    ".zst": "zstd",
    ".zstd": "zstd",
}


def packed_as(path: str, packing: str = "auto") -> str:
    """How a file is compressed, by its name, or as the option `compression` says; empty when it is not."""
    if packing != "auto":
        return packing if packing != "none" else ""
    return _ENDINGS.get(os.path.splitext(bare_name(path))[1].lower(), "")


def is_packed(path: str) -> bool:
    """Whether the name says that the file is compressed."""
    return bool(packed_as(path))
