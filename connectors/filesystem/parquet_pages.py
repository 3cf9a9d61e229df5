"""What the pages of a Parquet file say of themselves: how large they are unpacked, and how many values a dictionary has.

The footer says it of a column in a row group, too, but whoever reads the pages believes them and not the footer, and makes
room for a page before looking at it. A page's header is a struct of Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from connectors.filesystem.varint import unsigned_varint

__all__ = ["Page", "pages"]

_DICTIONARY = 2
_HEADER_BYTES = 1 << 8
_MOST_HEADER_BYTES = 16 << 20
_DEEPEST = 8
_BEYOND_BYTES = 100
"""Old writers left out so much of what a column takes."""


@dataclass(frozen=True, slots=True)
class Page:
    """Bytes in the file, its header included, and unpacked; the values of a dictionary, else 0."""

    packed: int
    unpacked: int
    dictionary_values: int


def pages(file: BinaryIO, begin: int, size: int) -> Iterator[Page]:
    """The pages in so many bytes of a file. Raises ValueError for what is no page."""
    at, end = begin, begin + size
    while at < end:
        fields, length = _header(file, at, end)
        kind, unpacked, packed = (int(fields.get(number, -1)) for number in (1, 2, 3))  # type: ignore[call-overload]
        if kind < 0 or unpacked < 0 or packed < 0 or at + length + packed > end + _BEYOND_BYTES:
            raise ValueError("a page says that it has another size")
        dictionary = fields.get(7) if kind == _DICTIONARY else None
        values = dictionary.get(1, 0) if isinstance(dictionary, dict) else 0
        yield Page(length + packed, unpacked, values if isinstance(values, int) else 0)
        at += length + packed


def _header(file: BinaryIO, at: int, end: int) -> tuple[dict[int, object], int]:
    """The fields of a page's header, and its length."""
    wanted = _HEADER_BYTES
    while True:
        file.seek(at)
        data = file.read(min(wanted, end + _BEYOND_BYTES - at))
        try:
            return _struct(data, 0, 0)
        except IndexError:
            if wanted >= min(end - at, _MOST_HEADER_BYTES):
                raise ValueError("a page's header has no end") from None
            wanted *= 8


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, object], int]:
    """The numbers and structs of a struct by field, and where it ends."""
    if depth > _DEEPEST:
        raise ValueError("a page's header is nested too deeply")
    fields: dict[int, object] = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        kind = head & 15
        if kind == 0:
            return fields, at
        if head >> 4:
            number += head >> 4
        else:
            number, at = _signed(data, at)
        fields[number], at = _value(data, at, kind, depth)


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[object, int]:
    if kind in (1, 2):
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in (4, 5, 6):
        return _signed(data, at)
    if kind == 7:
        return None, _within(data, at + 8)
    if kind == 8:
        length, at = unsigned_varint(data, at)
        return None, _within(data, at + length)
    if kind == 12:
        return _struct(data, at, depth + 1)
    # No page has lists, sets or maps in its header.
    raise ValueError("a page's header is none")


def _within(data: bytes, at: int) -> int:
    if at > len(data):
        raise IndexError
    return at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = unsigned_varint(data, at)
    return (value >> 1) ^ -(value & 1), at
