"""A few rows as DataRow messages, one by one: for lookups, whose rows are too few for the work by columns to pay.

The bytes are those that `encoded` makes. Types that have no short way here are made by its columns.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from sqlengine.server.postgres.binary_values import EPOCH_DAYS, in_binary
from sqlengine.server.postgres.text_values import in_text
from sqlengine.server.postgres.types import Described

__all__ = ["messages_of"]

_NULL = b"\xff\xff\xff\xff"


def messages_of(
    columns: Sequence[pa.Array], described: Sequence[Described], formats: Sequence[int], time_zone: str
) -> list[bytes]:
    """A DataRow message for each row. `formats`: 0 text, 1 binary, for each column."""
    if not columns:
        return []
    fields = [
        _binary(column, as_.type.name, as_) if format_ else _text(column, as_, time_zone)
        for column, as_, format_ in zip(columns, described, formats, strict=True)
    ]
    count = struct.pack("!H", len(fields))
    found: list[bytes] = []
    for row in zip(*fields, strict=True):
        body = b"".join(row)
        found.append(b"D" + (len(body) + 6).to_bytes(4, "big") + count + body)
    return found


def _framed(values: Sequence[bytes | None]) -> list[bytes]:
    return [_NULL if v is None else len(v).to_bytes(4, "big") + v for v in values]


def _text(column: pa.Array, as_: Described, time_zone: str) -> list[bytes]:
    make = _TEXTS.get(as_.type.name) if as_.type.element is None else None
    if make is None:
        return _framed(in_text(column, as_.type, time_zone).to_pylist())
    return [_NULL if v is None else len(made := make(v)).to_bytes(4, "big") + made for v in column.to_pylist()]


def _binary(column: pa.Array, name: str, as_: Described) -> list[bytes]:
    make = _BINARIES.get(name) if as_.type.element is None else None
    if make is None:
        return _framed(in_binary(column, as_.type).to_pylist())
    return [_NULL if v is None else make(v) for v in column.to_pylist()]


def _encoded(value: Any) -> bytes:
    return str(value).encode()


def _text_binary(value: Any) -> bytes:
    made = value.encode()
    return len(made).to_bytes(4, "big") + made


_TEXTS: dict[str, Callable[[Any], bytes]] = {
    "bool": lambda value: b"t" if value else b"f",
    "int2": _encoded,
    "int4": _encoded,
    "int8": _encoded,
    "text": str.encode,
    "varchar": str.encode,
    "bpchar": str.encode,
    "numeric": lambda value: format(value, "f").encode(),
    "date": _encoded,
}
_BINARIES: dict[str, Callable[[Any], bytes]] = {
    "bool": lambda value: b"\0\0\0\1\1" if value else b"\0\0\0\1\0",
    "int2": lambda value: struct.pack("!ih", 2, value),
    "int4": lambda value: struct.pack("!ii", 4, value),
    "int8": lambda value: struct.pack("!iq", 8, value),
    "float8": lambda value: struct.pack("!id", 8, value),
    "text": _text_binary,
    "varchar": _text_binary,
    "bpchar": _text_binary,
    "date": lambda value: struct.pack("!ii", 4, value.toordinal() - 719_163 - EPOCH_DAYS),
}
