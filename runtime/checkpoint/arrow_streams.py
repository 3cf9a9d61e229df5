"""Arrow IPC streams of a stranger: what they claim is compared with the bytes that are there, before anything is read.

Arrow checks offsets and lengths itself (`validate`), but takes the size of a decompressed buffer from the buffer, and
makes room for it: eight bytes may ask for 2^62. What may stand in a stream is little: a schema, batches of rows, buffers
compressed by lz4. (Format: Apache Arrow Columnar Format 1.5, "Encapsulated message format", and its Message.fbs.)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.types as t

__all__ = ["read_streams"]

_CONTINUATION = 0xFFFFFFFF
_SCHEMA, _BATCH = 1, 3
_LZ4 = 0
_RATIO = 256
"""So many times as large as its compressed bytes is the most that lz4 can make of them."""
_SLACK = 4096
_PLAIN = (
    t.is_null, t.is_boolean, t.is_integer, t.is_floating, t.is_decimal, t.is_date, t.is_time, t.is_timestamp,
    t.is_duration, t.is_interval, t.is_string, t.is_large_string, t.is_binary, t.is_large_binary, t.is_fixed_size_binary,
)  # fmt: skip


def read_streams(data: pa.Buffer, *, threads: bool = False) -> Iterator[pa.RecordBatch]:
    """The rows of streams, one after another up to the end of the bytes. `threads`: buffers are unpacked side by side.

    Raises:
        ValueError: they are no streams such as a store writes.
    """
    _check_streams(data)
    try:
        file = pa.BufferReader(data)
        while file.tell() < data.size:
            with pa.ipc.open_stream(file, options=pa.ipc.IpcReadOptions(use_threads=threads)) as stream:
                _check_types(stream.schema)
                for batch in stream:
                    batch.validate(full=True)
                    yield batch
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise ValueError(str(error)) from error


def _check_streams(data: pa.Buffer) -> None:
    """Streams, one after another up to the end of the bytes.

    Raises:
        ValueError: they are none, or claim more than the bytes can hold.
    """
    view = memoryview(data).cast("B")
    at = 0
    try:
        while at < len(view):
            mark, length = struct.unpack_from("<II", view, at)
            if mark != _CONTINUATION:
                raise ValueError("no message of Arrow")
            at += 8
            if length == 0:
                continue
            if length > len(view) - at:
                raise ValueError("a message that is cut off")
            body = _check_message(_Table.root(view[at : at + length]), view[at + length :])
            at += length + body
    except struct.error as error:
        raise ValueError("a message that is cut off") from error


def _check_types(schema: pa.Schema) -> None:
    """Raises ValueError when a column has a type that no state has, or a name or time zone that is no UTF-8."""
    waiting = list(schema)
    while waiting:
        field = waiting.pop()
        type_ = field.type
        if t.is_nested(type_) and not t.is_union(type_):
            waiting += [type_.field(i) for i in range(type_.num_fields)]
        elif not any(is_of(type_) for is_of in _PLAIN):
            raise ValueError(f"a column of type {type_}")
        # Arrow decodes them only now: what is no UTF-8 raises UnicodeDecodeError, which is a ValueError.
        field.name.encode()
        if t.is_timestamp(type_) and type_.tz is not None:
            type_.tz.encode()


def _check_message(message: _Table, body: memoryview) -> int:
    """Gives the length of the body."""
    kind, length = message.number(1, "<B"), message.number(3, "<q")
    if kind not in (_SCHEMA, _BATCH) or not 0 <= length <= len(body):
        raise ValueError("a message that is neither a schema nor rows" if kind not in (_SCHEMA, _BATCH) else "cut off")
    if kind == _BATCH:
        _check_batch(message.table(2), body[:length])
    return length


def _check_batch(batch: _Table, body: memoryview) -> None:
    buffers = batch.structs(2)
    offsets, lengths = buffers[:, 0], buffers[:, 1]
    if ((offsets < 0) | (lengths < 0) | (offsets > len(body)) | (lengths > len(body) - offsets)).any():
        raise ValueError("a buffer that is not within its message")
    if lengths.sum() > len(body):
        raise ValueError("buffers that overlap")
    if not batch.has(3):
        return
    if batch.table(3).number(0, "<b") != _LZ4:
        raise ValueError("a compression that is not lz4")
    for offset, length in zip(offsets[lengths > 0].tolist(), lengths[lengths > 0].tolist(), strict=True):
        (size,) = struct.unpack_from("<q", body, offset)
        if size != -1 and not 0 <= size <= _RATIO * length + _SLACK:
            raise ValueError(f"a buffer of {length} bytes that is to be one of {size}")


class _Table:
    """A table of a flatbuffer: fields by number, through a list of where each one is."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data = data
        self._at = at
        (back,) = struct.unpack_from("<i", data, _within(data, at))
        self._fields = _within(data, at - back)
        (self._size,) = struct.unpack_from("<H", data, self._fields)

    @staticmethod
    def root(data: memoryview) -> _Table:
        return _Table(data, struct.unpack_from("<I", data, 0)[0])

    def has(self, number: int) -> bool:
        return self._place(number) is not None

    def number(self, number: int, form: str) -> int:
        """A field that is a number; 0 when it is left out."""
        place = self._place(number)
        return 0 if place is None else int(struct.unpack_from(form, self._data, place)[0])

    def table(self, number: int) -> _Table:
        return _Table(self._data, self._referred(number))

    def structs(self, number: int) -> np.ndarray:
        """A field that is a list of pairs of int64."""
        if not self.has(number):
            return np.empty((0, 2), np.int64)
        at = self._referred(number)
        (count,) = struct.unpack_from("<I", self._data, _within(self._data, at))
        if 16 * count > len(self._data) - at - 4:
            raise ValueError("a list that is cut off")
        return np.frombuffer(self._data, np.int64, 2 * count, at + 4).reshape(-1, 2)

    def _referred(self, number: int) -> int:
        place = self._place(number)
        if place is None:
            raise ValueError("a message without a part that it needs")
        return place + int(struct.unpack_from("<I", self._data, place)[0])

    def _place(self, number: int) -> int | None:
        entry = 4 + 2 * number
        if entry + 2 > self._size:
            return None
        (offset,) = struct.unpack_from("<H", self._data, self._fields + entry)
        return _within(self._data, self._at + offset) if offset else None


def _within(data: memoryview, at: int) -> int:
    if not 0 <= at < len(data):
        raise ValueError("a message that refers to what is not in it")
    return at
