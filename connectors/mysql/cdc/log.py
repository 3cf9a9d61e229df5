"""Events of a binary log, by the protocol of replication: the server sends them as they are written."""

from __future__ import annotations

import secrets
import select
import struct
from collections.abc import Generator
from contextlib import contextmanager

from connectors.mysql.address import Address
from connectors.mysql.cdc.events import CHECKSUM
from connectors.mysql.cdc.positions import Place
from connectors.mysql.connection import Connection, telling
from connectors.mysql.wire import Packets
from runtime.core.errors import ConnectorError

__all__ = ["LogStream"]

_DUMP = 0x12
_OK, _EOF, _ERROR = 0x00, 0xFE, 0xFF
_FATAL = 1236
_HEARTBEAT_NANOSECONDS = 1_000_000_000
_LEAST_ID = 1 << 20


class LogStream:
    """The log from a place on.

    Args:
        what: the table, for messages.
        number: this reader's among the servers; 0 is one by chance, which no other is likely to have.
    Raises:
        ConnectorError: E3170 the server has not this part of its log any more; what `telling` says.
    """

    def __init__(self, address: Address, what: str, place: Place, number: int) -> None:
        self._place = place
        self._what = what
        self._connection = Connection(address, what)
        number = number or _LEAST_ID + secrets.randbelow((1 << 32) - _LEAST_ID - 1)
        self._connection.run(
            "SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum, "
            f"@mariadb_slave_capability = 4, @master_heartbeat_period = {_HEARTBEAT_NANOSECONDS}, "
            f"@source_heartbeat_period = {_HEARTBEAT_NANOSECONDS}"
        )
        ((checksum,),) = self._connection.asked("SELECT @@global.binlog_checksum")
        self.trailer = 0 if str(checksum).upper() == "NONE" else CHECKSUM
        """Bytes of checksum behind the first event, which comes before it is told."""
        with self._told():
            raw = self._connection.raw
            raw._execute_command(_DUMP, struct.pack("<IHI", place.at, 0, number) + place.file.encode())
            # Never more than what is asked for is taken from the socket, so that it tells whether there is more.
            self._packets = Packets(raw._rfile.read1, raw._rfile.read1)
            self._socket = raw._sock

    def events(self, seconds: float) -> list[memoryview]:
        """What has come; waits so long for it."""
        if not self._ready(seconds):
            return []
        with self._told():
            data, begins, ends = self._packets.some()
        found: list[memoryview] = []
        view = memoryview(data)
        for begin, end in zip(begins, ends, strict=True):
            kind = data[begin] if end > begin else _ERROR
            if kind == _OK:
                found.append(view[begin + 1 : end])
            elif not found:
                self._ended(data[begin:end], kind)
            else:
                # First what came before.
                self._packets.put_back(data[begin - 4 :])
                break
        return found

    def _ready(self, seconds: float) -> bool:
        pending = getattr(self._socket, "pending", None)
        if pending is not None and pending():
            return True
        with self._told():
            return bool(select.select([self._socket], [], [], seconds)[0])

    def _ended(self, packet: bytes, kind: int) -> None:
        if kind != _ERROR:
            with self._told():
                raise EOFError
        (code,) = struct.unpack_from("<H", packet.ljust(3, b"\0"), 1)
        text = packet[9:].decode(errors="replace")
        if code == _FATAL:
            raise ConnectorError(
                f"the log of {self._what} from {self._place} on cannot be read: {text}",
                code="E3170",
                hint="has the server removed that file? Begin anew with --fresh, and keep logs for longer "
                "(expire_logs_days, binlog_expire_logs_seconds)",
            )
        with self._told():
            self._connection.fail(packet)

    @contextmanager
    def _told(self) -> Generator[None]:
        with telling(self._connection.address, self._what):
            yield

    def close(self) -> None:
        self._connection.close()
