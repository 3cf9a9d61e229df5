"""Sends rows as messages that the server confirms: at least once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from connectors.formats.message_rows import encoded_messages
from connectors.rabbitmq.address import library, parameters, telling
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, UnavailableError

if TYPE_CHECKING:
    from connectors.rabbitmq.table import RabbitTable

__all__ = ["RabbitMessages"]

_AT_ONCE = 1000
"""So many messages wait for confirmations."""


class RabbitMessages:
    """See `TransactionWriter`; what an error cuts short is sent again."""

    def __init__(self, table: RabbitTable) -> None:
        self._table = table

    def write(self, batches: Sequence[ChangelogBatch]) -> None:
        table = self._table
        bodies: list[bytes] = []
        for batch in batches:
            stored = batch.decoded().select([table.schema.index_of(name) for name in table.value.names])
            values = encoded_messages(table.format, table.value, stored, table.time_zone)
            bodies += [body or b"" for body in values.to_pylist()]
        if bodies:
            with telling(table.address, table.place()):
                _Sending(table, bodies).run()

    def close(self) -> None:
        """Each time has a connection of its own."""


class _Sending:
    """Bodies on their way, over a connection that answers as it comes (pika's `SelectConnection`)."""

    def __init__(self, table: RabbitTable, bodies: list[bytes]) -> None:
        self._table = table
        self._bodies = bodies
        self._pika = library()
        self._properties = self._pika.BasicProperties(delivery_mode=2)
        self._sent = 0
        self._waiting: set[int] = set()
        self._error: BaseException | None = None
        self._timer: Any = None
        self._done = False

    def run(self) -> None:
        """Returns when the server has all. Raises what the client raises, and ConnectorError E3257."""
        self._connection = self._pika.SelectConnection(
            parameters(self._table.address),
            on_open_callback=lambda c: c.channel(on_open_callback=self._opened),
            on_open_error_callback=lambda _, error: self._failed(error),
            on_close_callback=lambda _, error: self._closed(error),
        )
        self._watch()
        self._connection.ioloop.start()
        if self._error is not None:
            raise self._error

    def _opened(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_close_callback(lambda _, error: self._failed(error))
        channel.add_on_return_callback(self._returned)
        channel.confirm_delivery(self._confirmed, callback=lambda _: self._send())

    def _send(self) -> None:
        table = self._table
        while self._sent < len(self._bodies) and len(self._waiting) < _AT_ONCE:
            self._channel.basic_publish(
                table.exchange, table.routing_key, self._bodies[self._sent], self._properties, mandatory=True
            )
            self._sent += 1
            self._waiting.add(self._sent)
        if not self._waiting:
            self._done = True
            self._connection.close()

    def _confirmed(self, frame: Any) -> None:
        method = frame.method
        if isinstance(method, self._pika.spec.Basic.Nack):
            self._failed(UnavailableError(f"{self._table.place()}: RabbitMQ did not take a message", code="E3150"))
            return
        if method.multiple:
            self._waiting = {n for n in self._waiting if n > method.delivery_tag}
        else:
            self._waiting.discard(method.delivery_tag)
        self._watch()
        if self._error is None:
            self._send()

    def _returned(self, _channel: Any, method: Any, _properties: Any, _body: bytes) -> None:
        self._failed(
            ConnectorError(
                f"{self._table.place()}: RabbitMQ sends the message back: {method.reply_text}",
                code="E3257",
                hint="no queue gets messages of this exchange and routing key",
            )
        )

    def _watch(self) -> None:
        """It fails when nothing comes for as long as an answer may take."""
        if self._timer is not None:
            self._connection.ioloop.remove_timeout(self._timer)
        late = TimeoutError("no answer")
        self._timer = self._connection.ioloop.call_later(self._table.address.timeout, lambda: self._failed(late))

    def _failed(self, error: BaseException) -> None:
        if self._error is None and not self._done:
            self._error = error
        if self._connection.is_open:
            self._connection.close()
        elif not self._connection.is_closing:
            self._connection.ioloop.stop()

    def _closed(self, error: BaseException) -> None:
        if self._error is None and not self._done:
            self._error = error
        self._connection.ioloop.stop()
