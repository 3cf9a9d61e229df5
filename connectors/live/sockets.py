"""The connector `socket`, which Flink's documentation has as its example of one: what a server sends, cut at a byte."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from connectors.formats.message_table import format_prefixes, message_format
from connectors.live.table import LiveTable
from connectors.options import FORMAT, MAX_RECORD, TableOptions, memory_limit, physical_part
from runtime.core.errors import ConnectorError, OptionError
from runtime.core.options import duration_option, int_option, text_option
from runtime.spi.registry import ConnectorFactory, TableRequest

__all__ = ["OPTIONS", "SOCKET", "SocketWay"]

HOST = text_option("hostname", "", "the host of the server")
PORT = int_option("port", 0, "its port")
DELIMITER = int_option("byte-delimiter", 10, "the byte behind each record, as a number; 10 is the line end")
TIMEOUT = duration_option("connect-timeout", 10_000, "how long the connection may take")
OPTIONS = (HOST, PORT, DELIMITER, TIMEOUT, FORMAT, MAX_RECORD)
_WAIT_SECONDS = 0.1
_PIECE = 1 << 18


@dataclass(frozen=True)
class SocketWay:
    """A connection to a server. `timeout`: seconds."""

    host: str
    port: int
    delimiter: bytes
    timeout: float
    kind: str = "socket"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def messages(self, most: int, stop: threading.Event) -> Iterator[list[bytes]]:
        """See `Way`. What stands behind the last delimiter when the connection ends is half of a record, and left out."""
        with socket.create_connection((self.host, self.port), self.timeout) as connection:
            connection.settimeout(_WAIT_SECONDS)
            rest = b""
            while not stop.is_set():
                try:
                    data = connection.recv(_PIECE)
                except TimeoutError:
                    yield []
                    continue
                if not data:
                    raise ConnectionError(f"{self} has ended the connection")
                *whole, rest = (rest + data).split(self.delimiter)
                if len(rest) > most:
                    raise ConnectorError(
                        f"{self} has sent more than {most} bytes without a delimiter",
                        code="E3201",
                        hint="check the option 'byte-delimiter', or raise 'source.max-record-size'",
                    )
                if whole:
                    yield whole


def _table(request: TableRequest) -> LiveTable:
    """The table that options describe; raises OptionError and UnsupportedError."""
    options = TableOptions(request.options, "connector 'socket'", OPTIONS, format_prefixes(request))
    host, port = options.required(HOST), options.required(PORT)
    if re.fullmatch(r"\[?[A-Za-z0-9._:-]+\]?", host) is None or not 0 < port < 65536:
        raise OptionError("'hostname' and 'port' are no address of a server", hint="such as 'localhost' and '9999'")
    delimiter = options.get(DELIMITER)
    if not 0 <= delimiter < 256:
        raise OptionError("option 'byte-delimiter' is no byte", hint="such as '10', the line end")
    way = SocketWay(host.strip("[]"), port, bytes([delimiter]), max(0.1, options.get(TIMEOUT) / 1000))
    return LiveTable(
        request.schema,
        request.primary_key,
        physical_part(request),
        request.name,
        way,
        memory_limit(options, MAX_RECORD),
        request.time_zone,
        message_format(request, options),
    )


SOCKET = ConnectorFactory(
    name="socket",
    document="what a server sends on a connection, at most once",
    source=_table,
    options=OPTIONS,
)
