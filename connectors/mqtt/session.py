"""Receives what the server keeps for a client, and acknowledges what is in the journal.

The server keeps a session under the client's name: what it subscribes to, and messages until they are acknowledged. A message of
QoS 1 comes again when the connection ends before the server has the acknowledgement, under a number that may meanwhile be
another message's: at least once. One of QoS 2 comes again only until the server knows that it is here (PUBREC), and its number
is another's only after that was ended (PUBREL, PUBCOMP). So numbers that are here and not ended are in the journal, too, and
each message is there once, whoever dies.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from connectors.kit.journal import Journal, Message
from connectors.mqtt.address import KEEP_ALIVE, Address, Connection, connected
from connectors.mqtt.packets import Broken, Kind, Published, packet, short, text
from runtime.core.errors import ConnectorError, UnavailableError
from runtime.core.logs import connector_log
from runtime.core.retries import Retries

__all__ = ["KeptMessage", "Subscription", "kept_messages", "receiving"]

_MESSAGE, _ENDED, _OPEN = range(3)
"""What a record of the journal is: a message, the number of one that is ended, or all numbers that are not."""
_HEAD = struct.Struct("<BBHH")
"""What it is, QoS and whether it was retained, the number, and the length of the topic."""
_STATE_BYTES = 1 << 20
"""After so many bytes all open numbers are written again, so that few files are looked through at the beginning."""
_SECONDS = 0.5
_CLOSING_SECONDS = 10.0
_FULL_SECONDS = 0.2
_SUBSCRIBED = 1
_REFUSED = 0x80
_RETRIES = Retries(1 << 30, 0.1, 10.0, jitter=0.5)


@dataclass(frozen=True)
class Subscription:
    """What is received. `client`: the name of the session. `most`: bytes of a message."""

    address: Address
    client: str
    topics: tuple[str, ...]
    qos: int
    most: int


@dataclass(frozen=True, slots=True)
class KeptMessage:
    """A message of the journal; `at`: microseconds since 1970."""

    number: int
    at: int
    topic: str
    qos: int
    retained: bool
    body: bytes


def kept_messages(messages: Sequence[Message]) -> list[KeptMessage]:
    """The messages among the records of a journal, one by one."""
    found: list[KeptMessage] = []
    for message in messages:
        what, flags, _, length = _HEAD.unpack_from(message.body)
        if what == _MESSAGE:
            begin = _HEAD.size + length
            topic = message.body[_HEAD.size : begin].decode()
            found.append(
                KeptMessage(message.number, message.at, topic, flags >> 1, bool(flags & 1), message.body[begin:])
            )
    return found


def _record(message: Published) -> bytes:
    topic = message.topic.encode()
    return (
        _HEAD.pack(_MESSAGE, message.qos << 1 | int(message.retained), message.id, len(topic)) + topic + message.payload
    )


def _state(opened: set[int]) -> bytes:
    """The record that tells all open numbers; as long as any other one at least."""
    return struct.pack(f"<B{_HEAD.size}x{len(opened)}H", _OPEN, *opened)


def _open_numbers(journal: Journal) -> set[int]:
    """The numbers of messages of QoS 2 that are in the journal and not ended: from the newest record that tells all of them."""
    for begin in reversed(journal.files()):
        at, found = begin, None
        while True:
            messages, behind = journal.read(at)
            if not messages:
                break
            for message in messages:
                what = message.body[0]
                if what == _OPEN:
                    numbers = message.body[1 + _HEAD.size :]
                    found = set(struct.unpack(f"<{len(numbers) // 2}H", numbers))
                elif found is not None:
                    _, flags, number, _ = _HEAD.unpack_from(message.body)
                    if what == _ENDED:
                        found.discard(number)
                    elif flags >> 1 == 2:
                        found.add(number)
            at = behind
        if found is not None:
            return found
    return set()


class _Receiving:
    """See the module: a thread that keeps the session connected."""

    def __init__(self, journal: Journal, subscription: Subscription) -> None:
        self.subscription = subscription
        self._journal = journal
        self._open = _open_numbers(journal)
        self._since = _STATE_BYTES
        self._stop = threading.Event()
        self._log = connector_log(__name__)
        self._what = f"client {subscription.client}"
        self.error: ConnectorError | None = None
        self.subscribed = threading.Event()
        """Whether the server has the subscription."""
        self._thread = threading.Thread(target=self._run, name=f"mqtt {self._what}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(_CLOSING_SECONDS)

    def check(self) -> None:
        """Raises what the server refuses."""
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        pauses = _RETRIES.pauses()
        subscription = self.subscription
        while not self._stop.is_set():
            self.subscribed.clear()
            try:
                with connected(
                    subscription.address, self._what, subscription.client, clean=False, most=subscription.most
                ) as connection:
                    self._serve(connection)
            except UnavailableError as error:
                if self.subscribed.is_set():
                    pauses = _RETRIES.pauses()
                pause = next(pauses, 10.0)
                self._log.failure(f"{self._what} connects again in {pause:.1f} s", error, logging.WARNING)
                self._stop.wait(pause)
            except ConnectorError as error:
                self.error = error
                return
            except Exception as error:
                self.error = ConnectorError(f"{self._what}: {error}", code="E3247")
                self.error.__cause__ = error
                return

    def _serve(self, connection: Connection) -> None:
        if not connection.is_known:
            if self._journal.end.number:
                self._log.warning(
                    "%s: the server has no session of this name any more: what it kept is lost", self._what
                )
            # The numbers of a new session are others, which must be known before it has any.
            self._journal.append([("", _state(set()))])
            self._open, self._since = set(), 0
        asked = b"".join(text(topic) + bytes((self.subscription.qos,)) for topic in self.subscription.topics)
        connection.send(packet(Kind.SUBSCRIBE, 2, _SUBSCRIBED.to_bytes(2, "big") + asked))
        heard = sent = time.monotonic()
        while not self._stop.is_set():
            found = connection.receive(_SECONDS)
            now = time.monotonic()
            if found:
                heard = now
                answers = self._taken(found)
                if answers:
                    connection.send(answers)
                    sent = now
            elif now - heard > 1.5 * KEEP_ALIVE:
                raise ConnectionError("the server is silent")
            if now - sent > KEEP_ALIVE / 2:
                connection.send(packet(Kind.PINGREQ, 0, b""))
                sent = now

    def _taken(self, packets: Sequence[Published | tuple[Kind, bytes]]) -> bytes:
        """Keeps what has come, and gives what is to be answered. Raises OSError where it cannot be kept: then nothing is
        answered."""
        records: list[bytes] = []
        answers: list[bytes] = []
        opened = set(self._open)
        for one in packets:
            if isinstance(one, Published):
                # Whether it says that it was sent before does not count: not all servers do.
                if one.qos < 2 or one.id not in opened:
                    records.append(_record(one))
                if one.qos == 2:
                    opened.add(one.id)
                if one.qos:
                    answers.append(short(Kind.PUBACK if one.qos == 1 else Kind.PUBREC, one.id))
                continue
            kind, body = one
            if kind is Kind.PUBREL:
                number = int.from_bytes(body, "big")
                if number in opened:
                    opened.discard(number)
                    records.append(_HEAD.pack(_ENDED, 0, number, 0))
                answers.append(short(Kind.PUBCOMP, number))
            elif kind is Kind.SUBACK:
                self._subscribed(body)
            elif kind is not Kind.PINGRESP:
                raise Broken("the server answers otherwise than one of MQTT")
        if records:
            self._keep(records, opened)
        return b"".join(answers)

    def _keep(self, records: list[bytes], opened: set[int]) -> None:
        size = sum(map(len, records))
        if self._since + size > _STATE_BYTES:
            # As it is before these records.
            records.insert(0, _state(self._open))
            self._since = 0
        while not self._journal.has_room(size) and not self._stop.wait(_FULL_SECONDS):
            pass
        if self._stop.is_set():
            raise ConnectionError("nobody reads any more")
        self._journal.append([("", record) for record in records])
        self._open = opened
        self._since += size

    def _subscribed(self, body: bytes) -> None:
        for topic, code in zip(self.subscription.topics, body[2:], strict=False):
            if code == _REFUSED:
                raise ConnectorError(
                    f"the server of MQTT at {self.subscription.address} refuses the subscription of '{topic}'",
                    code="E3247",
                    hint="check the option 'topic', and what the user may read",
                )
        self.subscribed.set()


_running: dict[Path, tuple[_Receiving, list[int]]] = {}
_starting = threading.Lock()


@contextmanager
def receiving(folder: Path, journal: Journal, subscription: Subscription) -> Generator[_Receiving]:
    """The session whose messages come into the journal of a folder; it is the process's, however many read the folder.

    Raises ConnectorError E3248 where another table receives into the folder, or under the name."""
    folder = Path(os.path.realpath(folder))
    with _starting:
        for other, (known, _) in _running.items():
            same = known.subscription.client == subscription.client and str(known.subscription.address) == str(
                subscription.address
            )
            if (other == folder and known.subscription != subscription) or (other != folder and same):
                raise ConnectorError(
                    f"client {subscription.client} at {subscription.address} and the folder {folder} belong together, and "
                    "another table has one of them",
                    code="E3248",
                    hint="give each table a 'client-id' and a 'spool.path' of its own",
                )
        if folder not in _running:
            made = _Receiving(journal, subscription)
            made.start()
            _running[folder] = made, [0]
        found, users = _running[folder]
        users[0] += 1
    try:
        yield found
    finally:
        with _starting:
            users[0] -= 1
            if not users[0]:
                del _running[folder]
                found.stop()
