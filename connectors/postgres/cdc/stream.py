"""The messages of a slot, by PostgreSQL's protocol of replication.

libpq speaks it, so it goes through the same TLS and proofs of identity as other connections. The server sends a transaction
when it is committed, however large, and waits while nobody reads, so no more than a part of one is in memory.
"""

from __future__ import annotations

import struct
import time
from typing import Any

from connectors.postgres.address import Address
from connectors.postgres.cdc.copied import copied, wait
from connectors.postgres.cdc.positions import lsn_text
from connectors.postgres.connection import connected, quoted
from runtime.core.errors import ConnectorError, UnavailableError

__all__ = ["SlotStream"]

_KEEPALIVE = ord("k")
_STATUS_SECONDS = 10.0
_IN_USE, _NOT_THERE = "55006", "42704"
_2000 = 946_684_800
"""Seconds: PostgreSQL counts time from the year 2000 on."""


class SlotStream:
    """What a slot says from a place of the log on. The caller translates the client's errors (`telling`).

    Attributes:
        sent: all that was committed before this place has come.
    """

    def __init__(self, address: Address, slot: str, publication: str, lsn: int) -> None:
        self.sent = 0
        self._lsn = lsn
        self._told = 0
        self._told_at = time.monotonic()
        self._ask = False
        self._connection = connected(address, replication="database")
        try:
            self._begin(slot, publication, lsn)
        except BaseException:
            self._connection.close()
            raise

    def _begin(self, slot: str, publication: str, lsn: int) -> None:
        from psycopg import pq

        names = quoted(publication).replace("'", "''")
        libpq = self._connection.pgconn
        answer = libpq.exec_(
            f"START_REPLICATION SLOT {quoted(slot)} LOGICAL {lsn_text(lsn)} "
            f"(proto_version '1', publication_names '{names}')".encode()
        )
        if answer.status != pq.ExecStatus.COPY_BOTH:
            raise self._refused(answer, slot)
        libpq.nonblocking = 1
        self._libpq = libpq
        self._slot = slot

    def _refused(self, answer: Any, slot: str) -> Exception:
        from psycopg import errors

        error = errors.error_from_result(answer)
        said = (error.diag.message_primary or str(error)).splitlines()[0]
        if error.sqlstate == _IN_USE:
            return UnavailableError(
                f"the slot {slot} is being read: {said}",
                hint="one job reads a slot, and once: give this one another 'slot.name'",
            )
        if error.sqlstate == _NOT_THERE and said.startswith("replication slot"):
            return ConnectorError(
                f"there is no slot {slot} any more: changes since {lsn_text(self._lsn)} are lost",
                code="E3170",
                hint="somebody has dropped it, or the server is another one. Begin anew with --fresh",
            )
        if error.sqlstate == _NOT_THERE:
            return ConnectorError(
                f"the slot {slot} cannot be read: {said}",
                code="E3170",
                hint="a publication must be there when a slot is made, and as long as it is read: drop the slot, and begin anew",
            )
        return error

    def frames(self, most: int) -> list[memoryview]:
        """Messages that have come, each in its frame, of about so many bytes at most; nothing when none has."""
        found, ended = copied(self._libpq, most, _KEEPALIVE)
        if found and found[-1][0] == _KEEPALIVE:
            self._alive(found.pop())
        elif ended and not found:
            raise self._refused(self._libpq.get_result(), self._slot)
        return found

    def _alive(self, frame: memoryview) -> None:
        end, _, wanted = struct.unpack_from(">QqB", frame, 1)
        self.sent = max(self.sent, end)
        self._ask = self._ask or bool(wanted)

    def wait(self, seconds: float) -> None:
        """Until something comes, at most so long."""
        wait(self._libpq, seconds)

    def tell(self, durable: int, received: int, *, ask: bool = False) -> None:
        """Tell the server, now and then, how far changes were received, and how far it need not keep them any more.

        Args:
            ask: the server is asked how far it has sent all, and answers at once.
        """
        now = time.monotonic()
        if not (ask or self._ask) and durable <= self._told and now - self._told_at < _STATUS_SECONDS:
            return
        self._ask, self._told, self._told_at = False, max(durable, self._told), now
        clock = int((time.time() - _2000) * 1_000_000)
        self._libpq.put_copy_data(struct.pack(">cQQQqB", b"r", max(received, durable), durable, durable, clock, ask))
        self._libpq.flush()

    def close(self) -> None:
        self._connection.close()
