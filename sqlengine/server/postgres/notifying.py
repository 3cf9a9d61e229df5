"""LISTEN, NOTIFY and UNLISTEN: what sessions tell each other by the names of channels.

What a transaction asks for counts when it commits: then it listens, and those who listen are told, all in one order. A
session that has a transaction open hears of nothing until that ends. Source: PostgreSQL 15, SQL commands LISTEN, NOTIFY.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass

from runtime.core.wakeup import nobody
from sqlengine.server.postgres.messages import message
from sqlengine.server.postgres.sqlstate import PgError

__all__ = ["LONGEST_PAYLOAD", "Listener", "Notification", "Notifications", "checked_channel", "deaf"]

LONGEST_PAYLOAD = 7999
"""Bytes of a payload."""
_LONGEST_CHANNEL = 63
_MOST_BYTES = 8 << 20
"""A session for which more has gathered that its client has not been sent is ended."""


@dataclass(frozen=True)
class Notification:
    """Told by the session `sender`."""

    sender: int
    channel: str
    payload: str

    @property
    def nbytes(self) -> int:
        return len(self.channel) + len(self.payload) + 64

    def wire(self) -> bytes:
        """The message NotificationResponse."""
        body = struct.pack("!i", self.sender) + self.channel.encode() + b"\0" + self.payload.encode() + b"\0"
        return message(b"A", body)


def checked_channel(name: str | None) -> str:
    """The name of a channel that a function was given. Raises PgError 22023."""
    if not name:
        raise PgError("22023", "channel name cannot be empty")
    if len(name.encode()) > _LONGEST_CHANNEL:
        raise PgError("22023", "channel name too long", hint=f"it may have {_LONGEST_CHANNEL} bytes")
    return name


def deaf() -> PgError:
    """What a client is told that has let too many notifications gather."""
    return PgError(
        "53400",
        f"the connection was ended: {_MOST_BYTES >> 20} MiB of notifications have gathered that it has not been sent",
        hint="end transactions soon, and read what comes, on a connection that listens",
    )


class Notifications:
    """Who listens to what, in one server. From any thread."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Held while somebody is told."""
        self._listeners: dict[str, dict[Listener, None]] = {}

    def commit(self, listener: Listener, channels: set[str], told: list[Notification]) -> None:
        """From now on a session listens to these channels, and what it tells is heard."""
        with self.lock:
            for channel in listener.channels - channels:
                listeners = self._listeners[channel]
                del listeners[listener]
                if not listeners:
                    del self._listeners[channel]
            for channel in channels - listener.channels:
                self._listeners.setdefault(channel, {})[listener] = None
            listener.channels = frozenset(channels)
            for notification in told:
                for hearer in self._listeners.get(notification.channel, ()):
                    hearer.hear(notification)


class Listener:
    """What one session listens to and tells. Its statements use it, others `hear`.

    `channels`: those that it listens to. `on_heard`: called, from any thread, when something waits to be taken;
    `on_deaf`: when too much does.
    """

    def __init__(self, hub: Notifications, number: int) -> None:
        self._hub = hub
        self._number = number
        self.channels: frozenset[str] = frozenset()
        self.on_heard: Callable[[], object] = nobody
        self.on_deaf: Callable[[], object] = nobody
        self._asked: list[tuple[bool, str | None]] = []
        """What the transaction has asked for: to listen to a channel, or not to; None: to any."""
        self._told: dict[tuple[str, str], None] = {}
        self._heard: list[Notification] = []
        self._waiting = 0

    # --- in a transaction

    def listen(self, channel: str) -> None:
        self._asked.append((True, channel))

    def unlisten(self, channel: str | None) -> None:
        """None: all."""
        self._asked.append((False, channel))

    def tell(self, channel: str, payload: str) -> None:
        """What is the same as something before in the transaction is told once. Raises PgError 22023."""
        if len(payload.encode()) > LONGEST_PAYLOAD:
            raise PgError(
                "22023",
                "payload string too long",
                hint=f"it may have {LONGEST_PAYLOAD} bytes: write more to a table, and tell its key",
            )
        self._told[channel, payload] = None

    def mark(self) -> tuple[int, int]:
        """How far the transaction has come, for `back_to`."""
        return len(self._asked), len(self._told)

    def back_to(self, mark: tuple[int, int]) -> None:
        """Forget what was asked for and told since."""
        asked, told = mark
        del self._asked[asked:]
        for key in list(self._told)[told:]:
            del self._told[key]

    def commit(self) -> None:
        """It counts."""
        if not self._asked and not self._told:
            return
        channels = set(self.channels)
        for listens, channel in self._asked:
            if channel is None:
                channels.clear()
            elif listens:
                channels.add(channel)
            else:
                channels.discard(channel)
        told = [Notification(self._number, *key) for key in self._told]
        self.back_to((0, 0))
        self._hub.commit(self, channels, told)

    def close(self) -> None:
        """The session ends."""
        self.back_to((0, 0))
        self._hub.commit(self, set(), [])

    # --- what others tell

    def hear(self, notification: Notification) -> None:
        """Called with the lock of the hub held."""
        before, self._waiting = self._waiting, self._waiting + notification.nbytes
        if self._waiting <= _MOST_BYTES:
            self._heard.append(notification)
            self.on_heard()
        elif before <= _MOST_BYTES:
            self.on_deaf()

    def take(self) -> list[Notification]:
        """What was heard since the last time; by the thread of the loop."""
        if not self._heard:
            return []
        with self._hub.lock:
            heard, self._heard, self._waiting = self._heard, [], 0
        return heard
