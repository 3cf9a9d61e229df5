"""Rows as a server of MySQL sends them, as columns of texts.

An answer is packets, one for each row, whose cells are lengths and texts. A library makes objects of them one by one; here
the packets of a batch are found in a loop, and their cells are walked through together, column by column.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.databases.cells import cut_out
from runtime.core.errors import ConnectorError

__all__ = ["PADDING", "LongPacket", "Packets", "Places", "batches", "lengths_at", "text_columns"]

Places = npt.NDArray[np.int64]

_HEAD = 4
_LONG = 0xFFFFFF
"""A packet of this size goes on in the next one."""
_MOST = 1 << 30
"""Bytes of a row; what MySQL itself allows."""
_READ = 1 << 18
PADDING = bytes(16)
_NUMBER = struct.Struct("<I")
_NULL, _TWO, _THREE, _EIGHT = 251, 252, 253, 254


class LongPacket(Exception):
    """Bytes are no packets of this protocol, or are longer than any may be."""


class Packets:
    """Packets out of a stream of bytes.

    Args:
        read: gives some bytes, at most as many as it is told, and none at the end.
        read_all: gives exactly so many, or fewer at the end.
    """

    def __init__(self, read: Callable[[int], bytes], read_all: Callable[[int], bytes]) -> None:
        self._read = read
        self._read_all = read_all
        self._rest = b""

    def some(self) -> tuple[bytes, list[int], list[int]]:
        """What has come, at least one packet: bytes, and where each packet begins and ends in them. Raises EOFError when
        there is nothing more."""
        data, begins, ends = self._rest, list[int](), list[int]()
        at = _split(data, begins, ends)
        while not begins:
            chunk = self._read(_READ)
            if not chunk:
                raise EOFError
            data = data + chunk
            at = _split(data, begins, ends)
            if not begins and len(data) >= _HEAD:
                data, at = self._whole(data, begins, ends)
        self._rest = data[at:]
        return data, begins, ends

    def put_back(self, data: bytes) -> None:
        """Bytes with which the next packets begin."""
        self._rest = data + self._rest

    def _whole(self, data: bytes, begins: list[int], ends: list[int]) -> tuple[bytes, int]:
        """One packet that is longer than what has come, perhaps in parts."""
        parts: list[bytes] = []
        total = 0
        while True:
            if len(data) < _HEAD:
                data += self._exactly(_HEAD - len(data))
            size = int.from_bytes(data[:3], "little")
            total += size
            if total > _MOST:
                raise LongPacket
            if len(data) < _HEAD + size:
                data += self._exactly(_HEAD + size - len(data))
            parts.append(data[_HEAD : _HEAD + size])
            data = data[_HEAD + size :]
            if size < _LONG:
                break
        whole = b"".join(parts)
        begins.append(0)
        ends.append(len(whole))
        return whole + data, len(whole)

    def _exactly(self, count: int) -> bytes:
        # In steps, so that nothing is allocated for what a server only says that it will send.
        parts: list[bytes] = []
        while count:
            part = self._read_all(min(count, _READ * 4))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def _split(data: bytes, begins: list[int], ends: list[int]) -> int:
    """Find packets, in a loop over them; the place behind the last one that is whole."""
    at, limit = 0, len(data)
    while at + _HEAD <= limit:
        size = _NUMBER.unpack_from(data, at)[0] & _LONG
        end = at + _HEAD + size
        if end > limit or size == _LONG:
            break
        begins.append(at + _HEAD)
        ends.append(end)
        at = end
    return at


def lengths_at(octets: npt.NDArray[np.uint8], at: Places) -> tuple[Places, Places, npt.NDArray[np.bool_]]:
    """Lengths of MySQL's form at places: where what they count begins, how long it is, and whether it is NULL."""
    first = octets[at].astype(np.int64)
    if not len(first) or first.max() < _NULL:
        return at + 1, first, np.zeros(len(at), dtype=bool)
    length, start = first.copy(), at + 1
    missing = first == _NULL
    length[missing] = 0
    for mark, size in ((_TWO, 2), (_THREE, 3), (_EIGHT, 8)):
        here = np.flatnonzero(first == mark)
        if len(here):
            found = np.zeros(len(here), dtype=np.int64)
            for byte in range(min(size, 6)):
                found |= octets[np.minimum(at[here] + 1 + byte, len(octets) - 1)].astype(np.int64) << (8 * byte)
            length[here], start[here] = found, at[here] + 1 + size
    return start, length, missing


def text_columns(data: bytes, begins: Sequence[int], ends: Sequence[int], count: int) -> list[pa.Array]:
    """The cells of rows, as bytes. Raises ConnectorError E3164 for what is no such row."""
    padded = data + PADDING
    octets = np.frombuffer(padded, dtype=np.uint8)
    at = np.array(begins, dtype=np.int64)
    stop = np.array(ends, dtype=np.int64)
    columns: list[pa.Array] = []
    for _ in range(count):
        start, length, missing = lengths_at(octets, np.minimum(at, stop))
        at = start + length
        if (at > stop).any():
            raise _no_row()
        columns.append(cut_out(padded, start, length, missing))
    if (at != stop).any():
        raise _no_row()
    return columns


def _no_row() -> ConnectorError:
    return ConnectorError("the server has sent what is no row of MySQL's protocol", code="E3164")


def batches(
    packets: Packets, columns: Sequence[str], ended: Callable[[bytes], bool], most: int = 1 << 20
) -> Iterator[pa.RecordBatch]:
    """Rows of an answer as batches of bytes.

    Args:
        ended: whether a packet is the last one; raises what a packet of an error says.
    """
    done = False
    while not done:
        arrays: list[list[pa.Array]] = []
        size = 0
        while size < most and not done:
            data, begins, ends = packets.some()
            if _may_end(data, begins[-1], ends[-1]) and ended(data[begins[-1] : ends[-1]]):
                done = True
                begins.pop()
                ends.pop()
            if begins:
                arrays.append(text_columns(data, begins, ends, len(columns)))
                size += ends[-1]
        if arrays:
            yield pa.RecordBatch.from_arrays(
                [pa.concat_arrays(parts) for parts in zip(*arrays, strict=True)], names=list(columns)
            )


def _may_end(data: bytes, begin: int, end: int) -> bool:
    return begin < end and (data[begin] == 0xFF or (data[begin] == 0xFE and end - begin < 9))
