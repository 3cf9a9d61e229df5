"""Batches of librdkafka's messages as arrays, filled in C."""

from __future__ import annotations

import sys
from ctypes import c_int64, c_void_p
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.kafka.librdkafka import Librdkafka
from connectors.kafka.received import HEADERS, Received
from runtime.kernels.native import beside_kernels
from runtime.spi.format import Payloads

__all__ = ["Batch", "is_in_c"]

_END = -191
"""RD_KAFKA_RESP_ERR__PARTITION_EOF"""
_NOBODY = 2
"""References to an array that nobody else has: the attribute, and the argument of the question."""
_measure = beside_kernels("kafka_measure", (c_void_p, c_int64, c_void_p))
_fill = beside_kernels("kafka_fill", (c_void_p, c_int64, *[c_void_p] * 7))
_headers = beside_kernels("kafka_headers", (c_void_p, c_int64, *[c_void_p] * 9))
_release = beside_kernels("kafka_release", (c_void_p, c_int64, c_void_p))


def is_in_c() -> bool:
    """Whether there are functions in C for it."""
    return _fill is not None


class _Room:
    """Memory that is used again when nobody has a view of it any more: new memory costs as much as what is written to it."""

    def __init__(self) -> None:
        self._all = np.empty(0, np.uint8)

    def of(self, size: int) -> np.ndarray:
        """So many bytes, uint8."""
        if len(self._all) < size or sys.getrefcount(self._all) > _NOBODY:
            self._all = np.empty(size + size // 4, np.uint8)
        return self._all[:size]


class Batch:
    """Room for messages of a partition, which one thread uses at a time.

    Args:
        failed: makes the error for a code and a text.
    """

    def __init__(self, lib: Librdkafka, topic: str, partition: int, *, failed: Any) -> None:
        self._lib = lib
        self._topic, self._partition = topic, partition
        self._failed = failed
        self._messages = np.empty(0, np.uintp)
        self._values, self._keys, self._numbers = _Room(), _Room(), _Room()

    def receive(
        self, queue: Any, most: int, seconds: float, headers: bool
    ) -> tuple[Received, list[tuple[int, int, str]]]:
        """What a queue has now; where it has nothing, what there is when the first message comes, within a time. And of errors
        among them the code, the offset and the text."""
        if len(self._messages) < most:
            self._messages = np.empty(most, np.uintp)
        count = self._taken(queue, 0, most, 0.0)
        if not count and seconds:
            # The library waits until a batch is full.
            count = self._taken(queue, 0, 1, seconds)
            count += self._taken(queue, 1, most - 1, 0.0) if count else 0
        assert _release is not None
        try:
            return self._as_arrays(count, headers)
        finally:
            _release(self._messages.ctypes.data, count, self._lib.addresses["message_destroy"])

    def _taken(self, queue: Any, place: int, most: int, seconds: float) -> int:
        room = self._messages[place:].ctypes.data
        count = self._lib.consume_batch_queue(queue, int(seconds * 1000), room, most) if most else 0
        if count < 0:
            raise self._failed(-1, "messages cannot be read")
        return count

    def _as_arrays(self, count: int, headers: bool) -> tuple[Received, list[tuple[int, int, str]]]:
        messages = self._messages.ctypes.data
        assert _measure is not None and _fill is not None
        sizes = np.zeros(2, np.int64)
        _measure(messages, count, sizes.ctypes.data)
        values, keys = self._values.of(int(sizes[0])), self._keys.of(int(sizes[1]))
        numbers = self._numbers.of(8 * 8 * count).view(np.int64).reshape(8, count)
        flags, codes = np.empty((3, count), np.bool_), np.empty(count, np.int64)
        called = self._lib.addresses
        places = [a.ctypes.data for a in (values, keys, numbers, flags, codes)]
        failures = _fill(messages, count, called["message_timestamp"], called["message_leader_epoch"], *places)
        starts, ends, key_starts, key_ends, offsets, times, kinds, epochs = numbers
        told = self._told_headers(messages, count) if headers else None
        received = Received(
            self._topic, self._partition, Payloads(values, starts, ends), flags[0], Payloads(keys, key_starts, key_ends),
            flags[1], offsets, times, kinds, epochs, told,
        )  # fmt: skip
        if not failures:
            return received, []
        wrong = np.flatnonzero(flags[2]).tolist()
        errors = [
            (
                int(codes[i]),
                int(offsets[i]),
                received.values.raw(i).decode("utf-8", "replace") if codes[i] != _END else "",
            )
            for i in wrong
        ]
        return received.take(np.flatnonzero(~flags[2])), errors

    def _told_headers(self, messages: int, count: int) -> pa.Array:
        assert _headers is not None
        called = [self._lib.addresses[n] for n in ("message_headers", "header_get_all")]
        counts, sizes = np.zeros(count, np.int64), np.zeros(2, np.int64)
        total = _headers(messages, count, *called, counts.ctypes.data, sizes.ctypes.data, *[None] * 5)
        names, values = np.empty(sizes[0] + 1, np.uint8), np.empty(sizes[1] + 1, np.uint8)
        ends, valid = np.zeros((2, total + 1), np.int64), np.ones(total, np.bool_)
        given = (names, ends[0, 1:], values, ends[1, 1:], valid)
        _headers(messages, count, *called, counts.ctypes.data, sizes.ctypes.data, *[a.ctypes.data for a in given])
        buffers = [
            [pa.py_buffer(o.astype(np.int32)), pa.py_buffer(d)] for o, d in zip(ends, (names, values), strict=True)
        ]
        validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
        name_array = pa.Array.from_buffers(pa.binary(), total, [None, *buffers[0]])
        entries = [
            _as_text(name_array),
            pa.Array.from_buffers(pa.binary(), total, [validity, *buffers[1]]),
        ]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]).astype(np.int32)
        return pa.MapArray.from_arrays(pa.array(offsets), *entries).cast(HEADERS)


def _as_text(names: pa.Array) -> pa.Array:
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([n.decode("utf-8", "replace") for n in names.to_pylist()], pa.string())
