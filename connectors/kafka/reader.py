"""Reads one partition of a topic, message by message from an offset on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from connectors.kafka import client
from connectors.kafka.messages import MessageDecoder
from connectors.kafka.options import Place
from connectors.kafka.partition import Failures, PartitionConsumer, open_partition
from connectors.kafka.received import Received
from connectors.pending_rows import PendingRows
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.core.strict_json import as_count, counts_of

__all__ = ["KafkaReader"]

_MOST_AT_ONCE = 100_000
_ARRIVAL_SECONDS = 2.0
"""How long messages that are there may take to arrive before others are asked."""
_STEP_SECONDS = 0.1
_TOLD = ("earliest-offset", "latest-offset", "unbounded")
"""Where reading begins or ends by what the brokers tell of each partition."""


class KafkaReader:
    """See the module.

    A position is `{"offset": of a message, "rows": how many rows were given of it and those behind it, "end": where
    reading ends, or null}`: settled when reading begins, so that whoever goes on from it, or reads it again, gets the
    same messages. There are such rows where messages give several.

    Args:
        begin, end: used when there is no position.
        notes: whether checkpoints note the offset in the consumer group.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        properties: Mapping[str, str],
        begin: Place,
        end: Place,
        decoder: MessageDecoder,
        *,
        notes: bool,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._properties = properties
        self._begin = begin
        self._until = end
        self._decoder = decoder
        self._notes = notes
        self._consumer: PartitionConsumer | None = None
        self._offset: int | None = None
        self._end: int | None = None
        self._reads = False
        self._high = -1
        self._pending = PendingRows()
        self._pending_from = 0
        self._skip = 0

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if max_rows <= 0:
            return None
        while not self._pending:
            if self.finished:
                return None
            received = self._messages(min(max_rows, _MOST_AT_ONCE))
            if received is None:
                return None
            self._take(int(received.offsets[0]), self._decoder.decode(received))
        return self._pending.take(max_rows)

    def _take(self, offset: int, rows: ChangelogBatch | None) -> None:
        """Rows of messages from an offset on; those that were given before are left out."""
        given, count = self._skip, 0 if rows is None else len(rows)
        self._skip = max(0, given - count)
        if rows is not None and count > given:
            self._pending.put(rows, given)
            self._pending_from = offset

    def _messages(self, most: int) -> Received | None:
        """What there is, in order; None when all has been read. Waits for what is there and on its way."""
        consumer = self._start_reading()
        until = time.monotonic() + _ARRIVAL_SECONDS
        wait = 0.0
        while True:
            with client.told(self._servers):
                given, failures = consumer.receive(most, wait, self._decoder.wants_headers)
            received = self._received(given, failures)
            if len(received):
                return received
            if self._all_given or self._all_read(consumer) or time.monotonic() > until:
                return None
            wait = _STEP_SECONDS

    def _received(self, given: Received, failures: Failures) -> Received:
        """What the client has given, up to the end; notes how far that is."""
        assert self._offset is not None
        offset = self._offset
        for code, place, text in failures:
            if client.is_end(code):
                # What lies before it are marks of transactions.
                self._high = max(self._high, place)
                offset = max(offset, place)
            elif client.is_gone(code):
                raise self._gone()
            else:
                raise ConnectorError(
                    f"{self._topic}, partition {self._partition}, at {self._servers}: {text}", code="E3131"
                )
        if len(given):
            offset = max(offset, int(given.offsets[-1]) + 1)
        if self._end is not None and offset > self._end:
            given = given.take(np.flatnonzero(given.offsets < self._end))
            offset = max(self._end, 0)
        self._offset = offset
        return given

    def fetch_end_offset(self) -> None:
        """Asks the broker: what it has sent so far tells of the moment before."""
        if self._reads:
            self._high = max(self._high, self._there()[1])

    def _gone(self) -> ConnectorError:
        return ConnectorError(
            f"offset {self._offset} of {self._topic}, partition {self._partition}, is not there",
            code="E3132",
            hint="the topic keeps messages for a shorter time than the job stood still, or it was made anew; "
            "start the job anew with --fresh, or let the topic keep more",
        )

    def _all_read(self, consumer: PartitionConsumer) -> bool:
        assert self._offset is not None
        self._high = max(self._high, consumer.known_end())
        return self._offset >= self._high

    @property
    def _servers(self) -> str:
        return self._properties["bootstrap.servers"]

    def _settle(self) -> None:
        """Where to begin and where to end, once."""
        if self._offset is not None:
            return
        begin, end = self._begin, self._until
        if begin.mode in _TOLD and end.mode in _TOLD:
            low, self._high = self._there()
            self._offset = low if begin.mode == "earliest-offset" else self._high
            self._end = None if end.mode == "unbounded" else self._high
            return
        asked = client.consumer(self._properties)
        try:
            known = (asked, self._properties, self._topic, self._partition)
            self._offset = client.offset_of(*known, begin, end=False)
            if end.mode != "unbounded":
                self._end = client.offset_of(*known, end, end=True)
        finally:
            asked.close()

    def _opened(self) -> PartitionConsumer:
        if self._consumer is None:
            self._consumer = open_partition(self._properties, self._topic, self._partition)
        return self._consumer

    def _there(self) -> tuple[int, int]:
        """The offset of the first message that is there, and the one behind the last, as the brokers say."""
        with client.told(self._servers):
            return self._opened().offsets_there(client.ANSWER_SECONDS)

    def _start_reading(self) -> PartitionConsumer:
        self._settle()
        assert self._offset is not None
        consumer = self._opened()
        if not self._reads:
            low, self._high = self._there()
            if not low <= self._offset <= self._high:
                raise self._gone()
            with client.told(self._servers):
                consumer.assign(self._offset)
            self._reads = True
        return consumer

    @property
    def finished(self) -> bool:
        if self._offset is None and self._until.mode != "unbounded":
            self._settle()  # There may be nothing at all.
        return not self._pending and self._all_given

    @property
    def _all_given(self) -> bool:
        return self._end is not None and self._offset is not None and self._offset >= self._end

    def position(self) -> dict[str, int | None]:
        self._settle()
        if self._pending:
            return {"offset": self._pending_from, "rows": self._pending.taken, "end": self._end}
        return {"offset": self._offset, "rows": self._skip, "end": self._end}

    def seek(self, position: Any) -> None:
        if position is not None:
            self._offset, self._skip = counts_of(position, "offset", "rows")
            self._end = None if position["end"] is None else as_count(position["end"])

    def checkpoint_complete(self, position: Any) -> None:
        """A checkpoint holds a position: the group is told."""
        if self._notes and self._consumer is not None and position is not None:
            with client.told(self._servers):
                self._consumer.commit(int(position["offset"]))

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
