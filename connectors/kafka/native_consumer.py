"""Consumers of single partitions that share a client of librdkafka, called in C.

A client has threads, a connection to each broker, and one fetch for all of its partitions: so partitions with the same
properties are read by one client, each from a queue of its own.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from ctypes import byref, c_int64, c_void_p
from threading import Lock
from typing import Any

from connectors.kafka.librdkafka import Librdkafka
from connectors.kafka.received import Received
from connectors.kafka.received_in_c import Batch

__all__ = ["NativeConsumer"]

_CONSUMER = 1
_TEXT = 512
_UNKNOWN_PARTITION = -190
"""RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION"""
_ERRORS_AT_ONCE = 64

Failure = tuple[int, int, str]
"""Code, offset and text of an error."""


class _Client:
    """A client whose partitions are read by consumers.

    Attributes:
        consumers: who reads a partition.
    """

    def __init__(self, lib: Librdkafka, properties: Mapping[str, Any], *, refused: Any, failed: Any) -> None:
        self._lib = lib
        self.consumers: dict[tuple[str, int], NativeConsumer] = {}
        text = ctypes.create_string_buffer(_TEXT)
        conf = lib.conf_new()
        lib.conf_set_log_cb(conf, None)
        for key, value in properties.items():
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            if lib.conf_set(conf, key.encode(), shown.encode(), text, _TEXT):
                lib.conf_destroy(conf)
                raise refused(text.value.decode("utf-8", "replace"))
        self.handle = lib.new(_CONSUMER, conf, text, _TEXT)
        if not self.handle:
            lib.conf_destroy(conf)
            raise refused(text.value.decode("utf-8", "replace"))
        lib.poll_set_consumer(self.handle)
        self._queue = lib.queue_get_consumer(self.handle)
        self._batch = Batch(lib, "", -1, failed=failed)
        self._failed = failed
        self._draining = Lock()

    def told_to(self, consumer: NativeConsumer) -> list[Failure]:
        """Errors of the client, such as rights that are missing, that a consumer was not told yet: each is told to all."""
        with self._draining:
            received, failures = self._batch.receive(self._queue, _ERRORS_AT_ONCE, 0.0, False)
            if len(received):
                raise self._failed(-1, "a message came that is of no partition")
            for each in list(self.consumers.values()) if failures else ():
                each.failures.extend(failures)
            told, consumer.failures = consumer.failures, []
            return told

    def close(self) -> None:
        self._lib.consumer_close(self.handle)
        self._lib.queue_destroy(self._queue)
        self._lib.destroy(self.handle)


class _Clients:
    """The clients of this process, by their properties. Two consumers of one partition have two clients."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: dict[tuple[Any, ...], list[_Client]] = {}

    def join(
        self, consumer: NativeConsumer, lib: Librdkafka, properties: Mapping[str, Any], *, refused: Any, failed: Any
    ) -> _Client:
        with self._lock:
            key = _key(lib, properties)
            client = next((c for c in self._open.get(key, ()) if consumer.place not in c.consumers), None)
            if client is None:
                client = _Client(lib, properties, refused=refused, failed=failed)
                self._open.setdefault(key, []).append(client)
            client.consumers[consumer.place] = consumer
            return client

    def leave(self, consumer: NativeConsumer, client: _Client) -> None:
        """The last one closes the client."""
        with self._lock:
            del client.consumers[consumer.place]
            if client.consumers:
                return
            for key, there in list(self._open.items()):
                if client in there:
                    there.remove(client)
                if not there:
                    del self._open[key]
        client.close()


def _key(lib: Librdkafka, properties: Mapping[str, Any]) -> tuple[Any, ...]:
    # A process that was forked has none of the threads of its parent's clients.
    return os.getpid(), id(lib), *sorted((k, str(v)) for k, v in properties.items())


_CLIENTS = _Clients()


class NativeConsumer:
    """A consumer of one partition.

    Args:
        properties: of librdkafka.
        refused: makes the error for a property that it does not take, of its text; `failed`: for a code and a text.

    Attributes:
        place: topic and partition.
        failures: errors of its client that it has yet to tell.
    """

    def __init__(
        self, lib: Librdkafka, properties: Mapping[str, Any], topic: str, partition: int, *, refused: Any, failed: Any
    ) -> None:
        self._lib = lib
        self.place = (topic, partition)
        self._name, self._partition = topic.encode(), partition
        self._failed = failed
        self.failures: list[Failure] = []
        self._batch = Batch(lib, topic, partition, failed=failed)
        self._assigned = False
        self._client: _Client | None = None
        self._client = _CLIENTS.join(self, lib, properties, refused=refused, failed=failed)
        self._queue = lib.queue_get_partition(self._client.handle, self._name, partition)
        # Before messages come: what the client forwards by itself would be mixed with those of other partitions.
        lib.queue_forward(self._queue, None)

    @property
    def _handle(self) -> Any:
        assert self._client is not None
        return self._client.handle

    def assign(self, offset: int) -> None:
        """From now on the partition is read, from an offset on."""
        if self._assigned:
            self._with_offset(offset, self._unassign)
        self._with_offset(offset, lambda given: self._checked(self._lib.incremental_assign(self._handle, given)))
        self._assigned = True

    def _unassign(self, given: Any) -> None:
        self._checked(self._lib.incremental_unassign(self._handle, given))
        self._assigned = False

    def commit(self, offset: int) -> None:
        """Note in the group how far reading is; nobody waits for it."""
        self._with_offset(offset, lambda given: self._check(self._lib.commit(self._handle, given, 1)))

    def _with_offset(self, offset: int, call: Any) -> None:
        given = self._lib.topic_partition_list_new(1)
        try:
            self._lib.topic_partition_list_add(given, self._name, self._partition)
            self._lib.topic_partition_list_set_offset(given, self._name, self._partition, offset)
            call(given)
        finally:
            self._lib.topic_partition_list_destroy(given)

    def _check(self, code: int) -> None:
        if code:
            raise self._failed(code, self._lib.err2str(code).decode())

    def _checked(self, error: Any) -> None:
        if error:
            code, text = self._lib.error_code(error), self._lib.error_string(error).decode()
            self._lib.error_destroy(error)
            raise self._failed(code, text)

    def offsets_there(self, seconds: float) -> tuple[int, int]:
        """The offset of the first message that is there, and the one behind the last, as the brokers say."""
        low, high, millis = c_int64(), c_int64(), int(seconds * 1000)
        asked = (self._handle, self._name, self._partition, byref(low), byref(high), millis)
        code = self._lib.query_watermark_offsets(*asked)
        if code == _UNKNOWN_PARTITION:
            # The client has looked at the topic before this partition was made.
            self._look_again(millis)
            code = self._lib.query_watermark_offsets(*asked)
        self._check(code)
        return low.value, high.value

    def _look_again(self, millis: int) -> None:
        """The client asks which partitions its topics have."""
        found = c_void_p()
        self._check(self._lib.metadata(self._handle, 0, None, byref(found), millis))
        self._lib.metadata_destroy(found)

    def known_end(self) -> int:
        """The offset behind the last message as the last answer of the broker told it, -1 before the first."""
        low, high = c_int64(), c_int64()
        code = self._lib.get_watermark_offsets(self._handle, self._name, self._partition, byref(low), byref(high))
        return -1 if code or high.value < 0 else high.value

    def receive(self, most: int, seconds: float, headers: bool) -> tuple[Received, list[Failure]]:
        """Messages in order, as many as there are; where there is none, it waits a time for the first. And errors among
        them."""
        assert self._client is not None
        given, failures = self._batch.receive(self._queue, most, seconds, headers)
        return given, [*failures, *self._client.told_to(self)]

    def close(self) -> None:
        """Ends the consumer."""
        if self._client is None:
            return
        try:
            if self._assigned:
                self._with_offset(0, self._unassign)
        finally:
            self._lib.queue_destroy(self._queue)
            client, self._client = self._client, None
            _CLIENTS.leave(self, client)
