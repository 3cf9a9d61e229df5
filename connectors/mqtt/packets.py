"""Packets of MQTT 3.1.1 (https://docs.oasis-open.org/mqtt/mqtt/v3.1.1/mqtt-v3.1.1.html), of those that a client needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

__all__ = ["Broken", "Kind", "PacketReader", "Published", "connect", "packet", "published", "short", "text"]

_MOST_TOPIC = 70_000
"""Bytes of a message's packet beside its payload, at most."""
_LONGEST = 65_535


class Broken(ConnectionError):
    """What comes is not MQTT."""


class Kind(IntEnum):
    """What a packet is."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14


@dataclass(frozen=True, slots=True)
class Published:
    """A message. `id`: of its packet; 0 for QoS 0. `again`: it was sent before."""

    topic: str
    payload: bytes
    qos: int
    retained: bool
    id: int = 0
    again: bool = False


def packet(kind: Kind, flags: int, body: bytes) -> bytes:
    """A packet as it is sent."""
    length, rest = bytearray(), len(body)
    while True:
        length.append(rest & 127 | (128 if rest > 127 else 0))
        rest >>= 7
        if not rest:
            return bytes((kind << 4 | flags,)) + bytes(length) + body


def text(value: str | bytes) -> bytes:
    """A text with its length; raises Broken for one that is too long."""
    raw = value.encode() if isinstance(value, str) else value
    if len(raw) > _LONGEST:
        raise Broken("a text is longer than MQTT allows")
    return len(raw).to_bytes(2, "big") + raw


def short(kind: Kind, number: int) -> bytes:
    """A packet that only has the number of another one."""
    return packet(kind, 2 if kind in (Kind.PUBREL, Kind.SUBSCRIBE) else 0, number.to_bytes(2, "big"))


def connect(client: str, user: str, password: str, *, clean: bool, keep_alive: int) -> bytes:
    """The first packet of a client. `clean`: nothing is kept for it. `keep_alive`: seconds."""
    flags = (2 if clean else 0) | (0x80 if user else 0) | (0x40 if password else 0)
    given = text(client) + (text(user) if user else b"") + (text(password) if password else b"")
    return packet(Kind.CONNECT, 0, text("MQTT") + bytes((4, flags)) + keep_alive.to_bytes(2, "big") + given)


def published(message: Published) -> bytes:
    """A message as it is sent."""
    number = message.id.to_bytes(2, "big") if message.qos else b""
    flags = (8 if message.again else 0) | message.qos << 1 | int(message.retained)
    return packet(Kind.PUBLISH, flags, text(message.topic) + number + message.payload)


def _message(flags: int, body: bytes) -> Published:
    qos = flags >> 1 & 3
    end = 2 + int.from_bytes(body[:2], "big")
    behind = end + (2 if qos else 0)
    number = int.from_bytes(body[end:behind], "big")
    if len(body) < behind or qos == 3 or (qos and not number):
        raise Broken("a message is malformed")
    try:
        topic = body[2:end].decode()
    except UnicodeDecodeError as error:
        raise Broken("a topic is no text") from error
    return Published(topic, bytes(body[behind:]), qos, bool(flags & 1), number, bool(flags & 8))


class PacketReader:
    """Takes bytes as they come, and gives packets: a `Published`, or the kind and body of another one.

    Args:
        most: of a message with more bytes of payload only one more is kept, so that who decodes it sees that it is too long.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()
        self._drop = 0

    def feed(self, data: bytes) -> list[Published | tuple[Kind, bytes]]:
        """Raises Broken."""
        if self._drop:
            passed = min(self._drop, len(data))
            self._drop -= passed
            data = data[passed:]
        self._buffer += data
        found: list[Published | tuple[Kind, bytes]] = []
        at = 0
        while True:
            head = self._head(at)
            if head is None:
                break
            begin, length = head
            kept = length
            if self._buffer[at] >> 4 == Kind.PUBLISH:
                kept = min(length, self._most + _MOST_TOPIC)
            elif length > _MOST_TOPIC:
                raise Broken("a packet is too long")
            if len(self._buffer) - begin < kept:
                break
            found.append(self._packet(self._buffer[at], bytes(self._buffer[begin : begin + kept])))
            at = min(begin + length, len(self._buffer))
            self._drop = begin + length - at
            if self._drop:
                break
        del self._buffer[:at]
        return found

    def _head(self, at: int) -> tuple[int, int] | None:
        """Where the body of a packet begins, and its length; None when that has not come yet."""
        length = 0
        for place in range(4):
            if at + 1 + place >= len(self._buffer):
                return None
            byte = self._buffer[at + 1 + place]
            length |= (byte & 127) << 7 * place
            if byte < 128:
                return at + 2 + place, length
        raise Broken("the length of a packet is none")

    def _packet(self, first: int, body: bytes) -> Published | tuple[Kind, bytes]:
        try:
            kind = Kind(first >> 4)
        except ValueError as error:
            raise Broken("a packet is of no kind") from error
        if kind is Kind.PUBLISH:
            message = _message(first & 15, body)
            if len(message.payload) > self._most:
                return replace(message, payload=message.payload[: self._most + 1])
            return message
        if kind in (Kind.PUBACK, Kind.PUBREC, Kind.PUBREL, Kind.PUBCOMP, Kind.CONNACK) and len(body) != 2:
            raise Broken("a packet is malformed")
        return kind, body
