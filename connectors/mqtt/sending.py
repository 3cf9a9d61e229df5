"""Sends rows as messages: at least once, for a server forgets what a client has sent when its connection ends."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from connectors.formats.message_rows import encoded_messages
from connectors.mqtt.address import Connection, connected
from connectors.mqtt.packets import Broken, Kind, Published, published, short
from runtime.core.changelog import ChangelogBatch

if TYPE_CHECKING:
    from connectors.mqtt.table import MqttTable

__all__ = ["MqttMessages"]

_AT_ONCE = 1000
"""So many messages wait for acknowledgements."""
_MOST_ANSWER = 1 << 16


class MqttMessages:
    """See `TransactionWriter`; what an error cuts short is sent again."""

    def __init__(self, table: MqttTable) -> None:
        self._table = table

    def write(self, batches: Sequence[ChangelogBatch]) -> None:
        table = self._table
        with connected(table.address, table.place(), "", clean=True, most=_MOST_ANSWER) as connection:
            for batch in batches:
                stored = batch.decoded().select([table.schema.index_of(name) for name in table.value.names])
                values = encoded_messages(table.format, table.value, stored, table.time_zone)
                for at in range(0, len(values), _AT_ONCE):
                    self._send(connection, values.slice(at, _AT_ONCE).to_pylist())

    def _send(self, connection: Connection, bodies: Sequence[bytes | None]) -> None:
        table = self._table
        qos, topic, retained = table.sent_qos, table.topics[0], table.retained
        messages = [Published(topic, body or b"", qos, retained, i) for i, body in enumerate(bodies, 1)]
        connection.send(b"".join(map(published, messages)))
        if qos:
            self._settle(connection, len(messages), qos)

    def _settle(self, connection: Connection, count: int, qos: int) -> None:
        """Until the server has all of them."""
        waiting = set(range(1, count + 1))
        until = time.monotonic() + self._table.address.timeout
        while waiting:
            found = connection.receive(max(0.0, until - time.monotonic()))
            if not found and time.monotonic() >= until:
                raise TimeoutError("the server does not acknowledge messages")
            answers: list[bytes] = []
            for one in found:
                kind, body = (None, b"") if isinstance(one, Published) else one
                number = int.from_bytes(body, "big")
                if kind is Kind.PUBREC and qos == 2:
                    answers.append(short(Kind.PUBREL, number))
                elif kind is (Kind.PUBACK if qos == 1 else Kind.PUBCOMP):
                    waiting.discard(number)
                else:
                    raise Broken("the server answers otherwise than one of MQTT")
            if found:
                until = time.monotonic() + self._table.address.timeout
            if answers:
                connection.send(b"".join(answers))

    def close(self) -> None:
        """Each time has a connection of its own."""
