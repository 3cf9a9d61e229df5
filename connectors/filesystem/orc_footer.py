"""How many rows and bytes the stripes of an ORC file have, as its footer says: whoever reads a stripe makes room for all of
its rows at once.

The file ends with its postscript and the length of that. Both are messages of Protocol Buffers; the footer is in chunks,
each compressed for itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from connectors.filesystem.varint import unsigned_varint

__all__ = ["Stripe", "stripes"]

_FOOTER_LENGTH, _COMPRESSION, _BLOCK_SIZE = 1, 2, 3
_STRIPES = 3
_INDEX, _DATA, _STRIPE_FOOTER, _ROWS = 2, 3, 4, 5
_MOST_FOOTER = 64 << 20


@dataclass(frozen=True, slots=True)
class Stripe:
    """Its bytes in the file, and its rows."""

    packed: int
    rows: int


def stripes(file: BinaryIO, size: int) -> list[Stripe]:
    """The stripes of a file of so many bytes, in order. Raises ValueError for a footer that is none."""
    length = min(size, 1 + 255)
    file.seek(size - length)
    tail = file.read(length)
    if not tail or tail[-1] >= len(tail):
        raise ValueError("its postscript is cut off")
    postscript = dict(_fields(tail[-1 - tail[-1] : -1]))
    footer_length = _number(postscript.get(_FOOTER_LENGTH, 0))
    begin = size - 1 - tail[-1] - footer_length
    if begin < 0 or footer_length > _MOST_FOOTER:
        raise ValueError("its footer has another length")
    file.seek(begin)
    kind, block = _number(postscript.get(_COMPRESSION, 0)), _number(postscript.get(_BLOCK_SIZE, 256 << 10))
    footer = _unpacked(file.read(footer_length), kind, min(block, _MOST_FOOTER))
    found: list[Stripe] = []
    for number, value in _fields(footer):
        if number == _STRIPES and isinstance(value, bytes):
            stripe = dict(_fields(value))
            packed = sum(_number(stripe.get(part, 0)) for part in (_INDEX, _DATA, _STRIPE_FOOTER))
            found.append(Stripe(packed, _number(stripe.get(_ROWS, 0))))
    return found


def _number(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ValueError("its footer has a text for a number")
    return value


def _unpacked(data: bytes, kind: int, block: int) -> bytes:
    if kind == 0:
        return data
    unpack = _UNPACK.get(kind)
    if unpack is None:
        raise ValueError("its compression is not known")
    parts: list[bytes] = []
    at = 0
    while at + 3 <= len(data):
        header = int.from_bytes(data[at : at + 3], "little")
        piece = data[at + 3 : at + 3 + (header >> 1)]
        at += 3 + (header >> 1)
        parts.append(piece if header & 1 else unpack(piece, block))
        if sum(map(len, parts)) > _MOST_FOOTER:
            raise ValueError("its footer is too long")
    return b"".join(parts)


def _inflate(piece: bytes, block: int) -> bytes:
    try:
        return zlib.decompressobj(-15).decompress(piece, block)
    except zlib.error as error:
        raise ValueError(str(error)) from error


def _snappy(piece: bytes, block: int) -> bytes:
    size, _ = _varint(piece, 0)
    if size > block:
        raise ValueError("its footer unpacks to more than it says")
    return pa.decompress(piece, decompressed_size=size, codec="snappy", asbytes=True)


def _lz4(piece: bytes, block: int) -> bytes:
    size = _lz4_size(piece)
    if size > block:
        raise ValueError("its footer unpacks to more than it says")
    return pa.decompress(piece, decompressed_size=size, codec="lz4_raw", asbytes=True)


def _lz4_size(piece: bytes) -> int:
    """How long a block of LZ4 unpacks to, which it does not say: sequences of literals and of repeated bytes."""
    at = size = 0
    while at < len(piece):
        token = piece[at]
        literals, at = _lz4_length(piece, at + 1, token >> 4)
        at, size = at + literals, size + literals
        if at >= len(piece):
            break
        repeated, at = _lz4_length(piece, at + 2, token & 15)
        size += repeated + 4
    return size


def _lz4_length(piece: bytes, at: int, length: int) -> tuple[int, int]:
    if length == 15:
        while True:
            if at >= len(piece):
                raise ValueError("its footer is cut off")
            length += piece[at]
            at += 1
            if piece[at - 1] != 255:
                break
    return length, at


def _zstd(piece: bytes, block: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(piece), "zstd") as stream:
        return bytes(stream.read(block))


_UNPACK: dict[int, Callable[[bytes, int], bytes]] = {
    1: _inflate,
    2: _snappy,
    4: _lz4,
    5: _zstd,
}


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: numbers, and bytes of what has a length."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind, number = key & 7, key >> 3
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        elif kind == 2:
            length, at = _varint(data, at)
            if at + length > len(data):
                raise ValueError("its footer is cut off")
            yield number, data[at : at + length]
            at += length
        else:
            raise ValueError("its footer is none")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    try:
        return unsigned_varint(data, at)
    except IndexError:
        raise ValueError("its footer is cut off") from None
