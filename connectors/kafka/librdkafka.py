"""The librdkafka that comes with the Python client, called in C, where messages go straight into arrays.

Only its public C interface is used (`rdkafka.h`), of which nothing has been taken back since 1.0. The library is the file
that the Python client itself is linked with, and says a version that is known, or it is left alone; then messages come
as objects of Python (`partition.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.kafka.received import HEADERS, Received
from runtime.kernels.native import beside_kernels
from runtime.spi.format import Payloads

__all__ = ["Librdkafka", "NativeConsumer", "librdkafka"]

_LEAST_VERSION, _MOST_VERSION = 0x01060000, 0x03000000
"""The versions of the interface: from 1.6 on, until somebody has looked at 3."""
_CONSUMER = 1
_TEXT = 512
_END = -191
"""RD_KAFKA_RESP_ERR__PARTITION_EOF"""

_FUNCTIONS: Mapping[str, tuple[Any, Sequence[Any]]] = {
    "version": (c_int, ()),
    "conf_new": (c_void_p, ()),
    "conf_set": (c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
    "conf_set_log_cb": (None, (c_void_p, c_void_p)),
    "conf_destroy": (None, (c_void_p,)),
    "new": (c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
    "poll_set_consumer": (c_int, (c_void_p,)),
    "queue_get_consumer": (c_void_p, (c_void_p,)),
    "queue_destroy": (None, (c_void_p,)),
    "consumer_close": (c_int, (c_void_p,)),
    "destroy": (None, (c_void_p,)),
    "topic_partition_list_new": (c_void_p, (c_int,)),
    "topic_partition_list_add": (c_void_p, (c_void_p, c_char_p, c_int32)),
    "topic_partition_list_set_offset": (c_int, (c_void_p, c_char_p, c_int32, c_int64)),
    "topic_partition_list_destroy": (None, (c_void_p,)),
    "assign": (c_int, (c_void_p, c_void_p)),
    "commit": (c_int, (c_void_p, c_void_p, c_int)),
    "consume_batch_queue": (c_ssize_t, (c_void_p, c_int, c_void_p, c_size_t)),
    "query_watermark_offsets": (
        c_int,
        (c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64), c_int),
    ),
    "get_watermark_offsets": (c_int, (c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64))),
    "err2str": (c_char_p, (c_int,)),
}
"""What each `rd_kafka_..` gives and takes."""
_ADDRESSES = ("message_timestamp", "message_leader_epoch", "message_destroy", "message_headers", "header_get_all")
_measure = beside_kernels("kafka_measure", (c_void_p, c_int64, c_void_p))
_fill = beside_kernels("kafka_fill", (c_void_p, c_int64, *[c_void_p] * 7))
_headers = beside_kernels("kafka_headers", (c_void_p, c_int64, *[c_void_p] * 9))
_release = beside_kernels("kafka_release", (c_void_p, c_int64, c_void_p))


class Librdkafka:
    """The functions of the library: `lib.conf_new()` is `rd_kafka_conf_new()`. Raises AttributeError when one is missing."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._called: dict[str, Any] = {}
        for name, (gives, takes) in _FUNCTIONS.items():
            function = getattr(library, f"rd_kafka_{name}")
            function.restype, function.argtypes = gives, list(takes)
            self._called[name] = function
        self.addresses = {n: ctypes.cast(getattr(library, f"rd_kafka_{n}"), c_void_p).value for n in _ADDRESSES}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_called"][name]
        except KeyError:
            raise AttributeError(name) from None


@cache
def librdkafka() -> Librdkafka | None:
    """The library; None where it cannot be used: another file than the client's, another version, or no kernels in C."""
    import confluent_kafka

    if _fill is None:
        return None
    known = confluent_kafka.libversion()[1]
    if not _LEAST_VERSION <= known < _MOST_VERSION:
        return None
    package = Path(confluent_kafka.__file__).parent
    folders = (package.with_name("confluent_kafka.libs"), package / ".dylibs")
    for path in [p for folder in folders if folder.is_dir() for p in sorted(folder.glob("librdkafka*"))]:
        try:
            found = Librdkafka(ctypes.CDLL(str(path)))
        except (OSError, AttributeError):
            continue
        if found.version() == known:
            return found
    return None


class NativeConsumer:
    """A consumer of one partition.

    Args:
        properties: of librdkafka.
        refused: makes the error for a property that it does not take, of its text; `failed`: for a code and a text.
    """

    def __init__(
        self, lib: Librdkafka, properties: Mapping[str, Any], topic: str, partition: int, *, refused: Any, failed: Any
    ) -> None:
        self._lib = lib
        self._topic, self._name, self._partition = topic, topic.encode(), partition
        self._failed = failed
        self._batch = np.empty(0, np.uintp)
        text = ctypes.create_string_buffer(_TEXT)
        conf = lib.conf_new()
        lib.conf_set_log_cb(conf, None)
        for key, value in properties.items():
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            if lib.conf_set(conf, key.encode(), shown.encode(), text, _TEXT):
                lib.conf_destroy(conf)
                raise refused(text.value.decode("utf-8", "replace"))
        self._handle = lib.new(_CONSUMER, conf, text, _TEXT)
        if not self._handle:
            lib.conf_destroy(conf)
            raise refused(text.value.decode("utf-8", "replace"))
        lib.poll_set_consumer(self._handle)
        self._queue = lib.queue_get_consumer(self._handle)

    def assign(self, offset: int) -> None:
        """From now on the partition is read, from an offset on."""
        self._with_offset(offset, lambda given: self._lib.assign(self._handle, given))

    def commit(self, offset: int) -> None:
        """Note in the group how far reading is; nobody waits for it."""
        self._with_offset(offset, lambda given: self._lib.commit(self._handle, given, 1))

    def _with_offset(self, offset: int, call: Any) -> None:
        given = self._lib.topic_partition_list_new(1)
        try:
            self._lib.topic_partition_list_add(given, self._name, self._partition)
            self._lib.topic_partition_list_set_offset(given, self._name, self._partition, offset)
            self._check(call(given))
        finally:
            self._lib.topic_partition_list_destroy(given)

    def _check(self, code: int) -> None:
        if code:
            raise self._failed(code, self._lib.err2str(code).decode())

    def offsets_there(self, seconds: float) -> tuple[int, int]:
        """The offset of the first message that is there, and the one behind the last, as the brokers say."""
        low, high = c_int64(), c_int64()
        millis = int(seconds * 1000)
        self._check(
            self._lib.query_watermark_offsets(
                self._handle, self._name, self._partition, byref(low), byref(high), millis
            )
        )
        return low.value, high.value

    def known_end(self) -> int:
        """The offset behind the last message as the last answer of the broker told it, -1 before the first."""
        low, high = c_int64(), c_int64()
        code = self._lib.get_watermark_offsets(self._handle, self._name, self._partition, byref(low), byref(high))
        return -1 if code or high.value < 0 else high.value

    def receive(self, most: int, seconds: float, headers: bool) -> tuple[Received, list[tuple[int, int, str]]]:
        """Messages in order, as many as there are or come within a time; and of errors among them the code, the offset and
        the text."""
        if len(self._batch) < most:
            self._batch = np.empty(most, np.uintp)
        messages = self._batch.ctypes.data
        count = self._lib.consume_batch_queue(self._queue, int(seconds * 1000), messages, most)
        if count < 0:
            raise self._failed(-1, "messages cannot be read")
        assert _measure is not None and _fill is not None and _release is not None
        try:
            return self._received(messages, count, headers)
        finally:
            _release(messages, count, self._lib.addresses["message_destroy"])

    def _received(self, messages: int, count: int, headers: bool) -> tuple[Received, list[tuple[int, int, str]]]:
        assert _measure is not None and _fill is not None
        sizes = np.zeros(2, np.int64)
        _measure(messages, count, sizes.ctypes.data)
        values, keys = np.empty(sizes[0], np.uint8), np.empty(sizes[1], np.uint8)
        numbers, flags = np.empty((8, count), np.int64), np.empty((3, count), np.bool_)
        codes = np.empty(count, np.int64)
        called = self._lib.addresses
        places = [a.ctypes.data for a in (values, keys, numbers, flags, codes)]
        failures = _fill(
            messages, count, called["message_timestamp"], called["message_leader_epoch"], *places
        )  # fmt: skip
        starts, ends, key_starts, key_ends, offsets, times, kinds, epochs = numbers
        told = self._headers(messages, count) if headers else None
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

    def _headers(self, messages: int, count: int) -> pa.Array:
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

    def close(self) -> None:
        """Ends the consumer."""
        if self._handle:
            self._lib.consumer_close(self._handle)
            self._lib.queue_destroy(self._queue)
            self._lib.destroy(self._handle)
            self._handle = None


def _as_text(names: pa.Array) -> pa.Array:
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([n.decode("utf-8", "replace") for n in names.to_pylist()], pa.string())
