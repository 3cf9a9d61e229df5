"""A queue of RabbitMQ: messages are acknowledged when a checkpoint that holds their rows is complete.

The server gives messages that were not acknowledged again, to whoever asks next. A message with an id is then known: a position
has the ids of all messages that were given and may not be acknowledged, so each counts once. One without id comes twice.

A position is `{"run": of which reader, "given": how many messages it has given, "ids": of messages that may come again, the first
"count" of which are meant, "part": [an id, how many of its rows were given] or null}`.
"""

from __future__ import annotations

import threading
import uuid
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors.kit.prefetch import Fetched, PrefetchingReader
from connectors.rabbitmq.address import connected
from connectors.rabbitmq.messages import Delivered, rows_of_delivered
from runtime.spi.reader import ReadContext

if TYPE_CHECKING:
    from connectors.rabbitmq.table import RabbitTable

__all__ = ["QueueReader"]

_WAIT_SECONDS = 0.1
_MOST_AT_ONCE = 5000
_MOST_KNOWN = 100_000
"""So many ids of an earlier run are remembered."""


@dataclass
class _Given:
    """A message that was given, by its number, and is not acknowledged. `tag`: for this connection; 0: it is not known there."""

    number: int
    id: str | None
    tag: int


@dataclass
class _Shown:
    """Ids that positions have, in the order in which messages were given, and the number of each; both only grow, so that a
    position is the list and a number."""

    ids: list[str]
    numbers: list[int]

    def add(self, id_: str, number: int) -> None:
        self.ids.append(id_)
        self.numbers.append(number)


class _Consuming:
    """See `Fetching`; knows what is not acknowledged. Its positions are `[messages given, rows of the next one]`."""

    def __init__(self, table: RabbitTable) -> None:
        self._table = table
        self.run = uuid.uuid4().hex
        self.lock = threading.Lock()
        self.shown = _Shown([], [])
        self.known: dict[str, int] = {}
        """Ids of an earlier run, with how many of their rows were given; -1: all."""
        self.safe = 0
        """So many messages are in a complete checkpoint."""
        self._given: list[_Given] = []
        self._by_id: dict[str, _Given] = {}
        self._count = 0

    def __call__(self, position: Any, stop: threading.Event) -> Iterator[Fetched]:
        table = self._table
        decode = rows_of_delivered(table)
        with connected(table.address, table.place()) as channel:
            wanted: int | None = None
            if table.bounded:
                wanted = int(channel.queue_declare(table.queue, passive=True).method.message_count)
            self._forget_tags()
            came: list[Delivered] = []
            if wanted != 0:
                channel.basic_consume(table.queue, lambda _, d, p, body: came.append((d, p, body)))
            while not stop.is_set() and wanted != 0:
                if not came:
                    channel.connection.process_data_events(_WAIT_SECONDS)
                self._acknowledge(channel)
                messages = came[: _MOST_AT_ONCE if wanted is None else min(wanted, _MOST_AT_ONCE)]
                del came[: len(messages)]
                if wanted is not None:
                    wanted -= len(messages)
                if messages:
                    for some, skipped in _alike(self._new(messages)):
                        yield self._fetched(decode(some), len(some), skipped)
                elif wanted is None:
                    yield Fetched(None, [self._count, 0])

    def _fetched(self, decoded: Any, messages: int, skipped: int) -> Fetched:
        """The rows of messages, but for the first ones of a message that was given in part."""
        before, self._count = self._count, self._count + messages
        after = self._count
        rows, rejected, of_row = decoded
        if rows is None:
            return Fetched(None, [after, 0], rejected)
        rows, of_row = rows.slice(skipped, len(rows) - skipped), of_row[skipped:]

        def within(count: int) -> tuple[list[int], int]:
            if count >= len(of_row):
                return [after, 0], 0
            message = int(of_row[count])
            begun = count - int(np.searchsorted(of_row, message))
            return [before + message, begun + skipped if begun else 0], 0

        return Fetched(rows, [after, 0], rejected, within)

    def _new(self, messages: Sequence[Delivered]) -> list[tuple[Delivered, int]]:
        """Those that were not given before; for each how many of its rows were."""
        found: list[tuple[Delivered, int]] = []
        number = self._count
        with self.lock:
            for message in messages:
                delivery, properties, _ = message
                id_ = self._id(properties)
                again = self._by_id.get(id_) if id_ is not None else None
                if again is not None:
                    again.tag = delivery.delivery_tag
                    continue
                rows = self.known.get(id_, 0) if id_ is not None else 0
                if rows >= 0:
                    number += 1
                    found.append((message, rows))
                    if id_ is not None:
                        self.shown.add(id_, number)
                # Another one is in the checkpoint from which the job goes on, and needs to be acknowledged only.
                made = _Given(number, id_, delivery.delivery_tag)
                self._given.append(made)
                if id_ is not None:
                    self._by_id[id_] = made
        return found

    def _id(self, properties: Any) -> str | None:
        found = properties.correlation_id if self._table.use_correlation_id else properties.message_id
        return found or None

    def _forget_tags(self) -> None:
        """A new connection: what has an id comes again and is known then; what has none is another message."""
        self._given = [one for one in self._given if one.id is not None]
        for one in self._given:
            one.tag = 0

    def _acknowledge(self, channel: Any) -> None:
        """What is in a complete checkpoint; returns when the server has taken it."""
        safe = self.safe
        if self._table.bounded or not self._given or self._given[0].number > safe:
            return
        done = [one for one in self._given if one.number <= safe and one.tag]
        if not done:
            return
        for one in done:
            channel.basic_ack(one.tag)
        # The answer to what is asked next comes behind them.
        channel.queue_declare(self._table.queue, passive=True)
        gone = {one.id for one in done}
        with self.lock:
            self._given = [one for one in self._given if one.number > safe or not one.tag]
            for one in done:
                if one.id is not None:
                    self._by_id.pop(one.id, None)
                    self.known.pop(one.id, None)
            kept = [(i, n) for i, n in zip(self.shown.ids, self.shown.numbers, strict=True) if i not in gone]
            self.shown = _Shown([i for i, _ in kept], [n for _, n in kept])

    def id_of(self, number: int) -> str | None:
        """Of the message with a number that is not acknowledged."""
        return next((one.id for one in reversed(self._given) if one.number == number), None)


def _alike(messages: Sequence[tuple[Delivered, int]]) -> Iterator[tuple[list[Delivered], int]]:
    """Messages one behind the other; one of which rows were given before stands alone."""
    some: list[Delivered] = []
    for message, skipped in messages:
        if skipped:
            if some:
                yield some, 0
            yield [message], skipped
            some = []
        else:
            some.append(message)
    if some:
        yield some, 0


class QueueReader(PrefetchingReader):
    """See the module."""

    def __init__(self, table: RabbitTable, context: ReadContext) -> None:
        self._consuming = _Consuming(table)
        super().__init__(table.place(), self._consuming, context, bounded=table.bounded)

    def position(self) -> dict[str, Any]:
        """The list of ids may grow later: only `count` of them are meant."""
        given, begun = super().position()["at"] or (0, 0)
        following = self._consuming
        with following.lock:
            shown = following.shown
            part = following.id_of(given + 1) if begun else None
            count = bisect_right(shown.numbers, given)
        saved = None if part is None else [part, begun]
        return {"run": following.run, "given": given, "ids": shown.ids, "count": count, "part": saved}

    def seek(self, position: Any) -> None:
        following = self._consuming
        ids = [str(i) for i in position["ids"][: int(position["count"])]][-_MOST_KNOWN:]
        following.known = dict.fromkeys(ids, -1)
        following.shown = _Shown(list(ids), [0] * len(ids))
        if position["part"] is not None:
            name, rows = position["part"]
            following.known[str(name)] = int(rows)

    def checkpoint_complete(self, position: Any) -> None:
        """A checkpoint holds a position."""
        if position is not None and position["run"] == self._consuming.run:
            self._consuming.safe = max(self._consuming.safe, int(position["given"]))
