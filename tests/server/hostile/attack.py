"""Sends what is hostile, watches that the server answers others meanwhile, and what it holds afterwards."""

from __future__ import annotations

import os
import random
import re
import socket
import struct
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["Attack", "Attacker", "Held", "held_by", "settled"]

_AT_ONCE = 12
"""So many connections that are slow, or were left in the middle, are open at once."""
_SECONDS = 60.0
"""No answer takes so long, unless something is wrong."""
_SETTLES_SECONDS = 20.0
_ENDLESS = b"text/event-stream"
_BROKEN = re.compile(rb'E9\d00\b|XX000|Traceback(?!.{,40}%0A  File "pyarrow/_flight.pyx")')
"""What no answer has: an error inside. (Arrow tells of headers that are not ASCII so, and nobody can hinder it.)"""


class Attacker(Protocol):
    """One protocol.

    Attributes:
        patience: so many seconds it listens before it says that it will send no more.
    """

    patience: float

    def conversation(self, chance: random.Random) -> list[bytes]:
        """The messages of a connection, some of them broken."""
        ...

    def heard(self, answer: bytes) -> None:
        """What the server has answered to one."""
        ...

    def well(self) -> None:
        """A client that does all as it should is answered as it should be."""
        ...

    def end(self) -> None:
        """What it has opened is closed."""
        ...


@dataclass(frozen=True)
class Held:
    """What a process holds: `resident` in bytes, counts of the others."""

    resident: int
    threads: int
    handles: int


def held_by(process: int) -> Held:
    """Of the process with this number."""
    place = Path(f"/proc/{process}")
    resident = int((place / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return Held(resident, len(os.listdir(place / "task")), len(os.listdir(place / "fd")))


class Attack:
    """Args: `where` the port is, the `process` of the server, and the `seed`."""

    def __init__(self, where: tuple[str, int], process: subprocess.Popen[str], attacker: Attacker, seed: int) -> None:
        self._where = where
        self._process = process
        self._attacker = attacker
        self._chance = random.Random(seed)
        self._open: list[tuple[socket.socket, bytes]] = []
        self.sent = 0

    def send(self, messages: int) -> None:
        """Send so many, or a few more. Raises AssertionError where the server does not answer, or not others."""
        until, told = self.sent + messages, 0
        while self.sent < until:
            pieces = self._attacker.conversation(self._chance)
            self.sent += len(pieces)
            self._one(b"".join(pieces))
            self._go_on()
            if self.sent > told + 500:
                told = self.sent
                assert self._process.poll() is None, "the server has ended"
                self._attacker.well()
        while self._open:
            self._open.pop()[0].close()
        self._attacker.well()

    def _one(self, data: bytes) -> None:
        client = socket.create_connection(self._where, timeout=_SECONDS)
        kind = self._chance.random()
        if kind < 0.1:
            # The rest comes byte by byte, while others are answered; of some, never.
            client.setblocking(False)
            self._open.append((client, data))
            if len(self._open) > _AT_ONCE:
                self._open.pop(self._chance.randrange(len(self._open)))[0].close()
            return
        with client, suppress(ConnectionError):
            client.sendall(data)
            if kind < 0.2:
                # Without a word, and with what was not read.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            answer = self._heard(client)
            assert answer is not None, f"there is no end behind {data!r}"
            assert _BROKEN.search(answer) is None, f"{answer!r} answers {data!r}"
            self._attacker.heard(answer)

    def _heard(self, client: socket.socket) -> bytes | None:
        """All that the server says; None where that has no end."""
        found = bytearray()
        client.settimeout(self._attacker.patience)
        with suppress(ConnectionError):
            for _ in range(2):
                try:
                    while piece := client.recv(1 << 16):
                        found += piece
                    return bytes(found)
                except TimeoutError:
                    if _ENDLESS in found:
                        return bytes(found)
                    client.shutdown(socket.SHUT_WR)
                    client.settimeout(_SECONDS)
            return None
        return bytes(found)

    def _go_on(self) -> None:
        """Each slow client sends a byte, or some."""
        for at, (client, left) in enumerate(self._open):
            size = min(len(left), self._chance.choice((0, 1, 1, 7)))
            try:
                client.send(left[:size])
                with suppress(BlockingIOError):
                    client.recv(1 << 16)
            except OSError:
                left = b""
            self._open[at] = client, left[size:]


def settled(process: int, before: Held, most_new: int) -> Held:
    """What is held once hardly more threads and handles than before are; as it is after long enough, if more stay."""
    ends = time.monotonic() + _SETTLES_SECONDS
    while True:
        now = held_by(process)
        if max(now.threads - before.threads, now.handles - before.handles) < most_new or time.monotonic() > ends:
            return now
        time.sleep(0.05)
