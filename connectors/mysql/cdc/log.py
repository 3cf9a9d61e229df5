"""Events of a binary log, by the protocol of replication: the server sends them as they are written."""

from __future__ import annotations

import secrets
import select
import struct
from collections.abc import Generator
from contextlib import closing, contextmanager

import numpy as np

from connectors.mysql.address import Address
from connectors.mysql.cdc.events import CHECKSUM, FORMAT, Events
from connectors.mysql.cdc.gtids import MysqlGtids, parsed
from connectors.mysql.cdc.positions import Place
from connectors.mysql.connection import Connection, literal, telling
from connectors.mysql.wire import Packets
from runtime.core.errors import ConnectorError

__all__ = ["LogStream", "written"]

_DUMP, _DUMP_GTID = 0x12, 0x1E
_FIRST = 4
"""Where the first event of a file is."""
_OK, _EOF, _ERROR = 0x00, 0xFE, 0xFF
_FATAL = 1236
_HEARTBEAT_NANOSECONDS = 1_000_000_000
_LEAST_ID = 1 << 20
_WAIT_SECONDS = 1.0


class LogStream:
    """The log from a place on.

    Args:
        what: the table, for messages.
        place: with GTIDs they say where, and without the file and the bytes.
        number: this reader's among the servers; 0 is one by chance, which no other is likely to have.
        maria: the server is one of MariaDB.
    Raises:
        ConnectorError: E3170 the server has not this part of its log any more; what `telling` says.
    """

    def __init__(self, address: Address, what: str, place: Place, number: int, *, maria: bool) -> None:
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
            raw._execute_command(*self._asked(place, number, maria))
            # Never more than what is asked for is taken from the socket, so that it tells whether there is more.
            self._packets = Packets(raw._rfile.read1, raw._rfile.read1)
            self._socket = raw._sock

    def _asked(self, place: Place, number: int, maria: bool) -> tuple[int, bytes]:
        """The command that has the log sent, and what is said with it."""
        if place.gtids is None:
            return _DUMP, struct.pack("<IHI", place.at, 0, number) + place.file.encode()
        if maria:
            self._connection.run(
                f"SET @slave_connect_state = {literal(place.gtids)}, @slave_gtid_strict_mode = 1, "
                "@slave_gtid_ignore_duplicates = 0"
            )
            return _DUMP, struct.pack("<IHI", _FIRST, 0, number)
        known = parsed(place.gtids, maria=False)
        assert isinstance(known, MysqlGtids)
        packed = known.packed()
        return _DUMP_GTID, struct.pack("<HIIQI", 0, number, 0, _FIRST, len(packed)) + packed

    def events(self, seconds: float) -> Events:
        """What has come; waits so long for it."""
        if not self._ready(seconds):
            return Events(b"", (), ())
        with self._told():
            data, begins, ends = self._packets.some()
        octets, at = np.frombuffer(data, dtype=np.uint8), np.array(begins)
        others = np.flatnonzero((at == np.array(ends)) | (octets[np.minimum(at, len(octets) - 1)] != _OK))
        if len(others):
            first = int(others[0])
            begin, end = begins[first], ends[first]
            if first == 0:
                self._ended(data[begin:end], data[begin] if end > begin else _ERROR)
            # First what came before.
            self._packets.put_back(data[begin - 4 :])
            begins, ends = begins[:first], ends[:first]
        return Events(data, [begin + 1 for begin in begins], ends)

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


def written(address: Address, what: str, place: Place) -> int:
    """When the file of the log was begun whose first place is given, in seconds since 1970. Raises as `LogStream`."""
    with closing(LogStream(address, what, place, 0, maria=False)) as stream:
        while True:
            for _, _, seconds, kind, _ in stream.events(_WAIT_SECONDS).heads:
                if kind == FORMAT:
                    return seconds
