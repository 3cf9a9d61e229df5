"""Numbers of seven bits a byte, as Thrift's compact protocol (Parquet) and Protocol Buffers (ORC) write them."""

from __future__ import annotations

__all__ = ["unsigned_varint"]

_MOST_BYTES = 10


def unsigned_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and where it ends. Raises IndexError where the bytes end before it does, ValueError for one
    of more than 64 bits."""
    value = 0
    for i in range(_MOST_BYTES):
        octet = data[at + i]
        value |= (octet & 127) << 7 * i
        if octet < 128:
            return value, at + i + 1
    raise ValueError("a number in it has no end")
