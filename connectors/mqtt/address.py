"""Where a server of MQTT is, and who asks: options of tables, connections, and errors in our words."""

from __future__ import annotations

import re
import select
import socket
import ssl
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import unquote

from connectors.mqtt.packets import Broken, Kind, PacketReader, Published, connect, packet
from connectors.options import TableOptions
from runtime.core.errors import ConnectorError, OptionError, UnavailableError
from runtime.core.options import duration_option, text_option
from runtime.core.secrets import Secret

__all__ = ["ADDRESS_OPTIONS", "Address", "Connection", "connected", "read_address"]

URL = text_option("url", "", "the server, such as 'mqtt://host:1883', or 'mqtts://host:8883' with TLS")
USERNAME = text_option("username", "", "who connects, where the server asks for it")
PASSWORD = text_option("password", "", "the password of the user; better '${secret:name}'")
ROOT = text_option("ssl-root-cert-path", "", "the file of the certificates that the server's must be signed by")
TIMEOUT = duration_option("connect-timeout", 10_000, "how long a connection, or an answer, may take")
ADDRESS_OPTIONS = (URL, USERNAME, PASSWORD, ROOT, TIMEOUT)
KEEP_ALIVE = 60
"""Seconds after which the server takes a client that is silent for dead."""

_URL = re.compile(
    r"(?P<scheme>mqtts?)://(?:(?P<user>[^\s/@:?#]*)(?::(?P<password>[^\s/@?#]*))?@)?"
    r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?/?"
)
_REFUSALS = {
    1: "it does not speak MQTT 3.1.1",
    2: "it does not take the name of the client",
    3: "it is not available",
    4: "user or password are wrong",
    5: "the user may not connect",
}
_UNAVAILABLE = 3


@dataclass(frozen=True)
class Address:
    """A server, and how it is reached. No text of it has the password. `timeout`: seconds."""

    host: str
    port: int
    encrypted: bool
    user: str = ""
    password: Secret = field(default=Secret(""), repr=False)
    root: str = ""
    timeout: float = 10.0

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def read_address(options: TableOptions) -> Address:
    """Raises OptionError E1504 without a URL, E1500 for one that is not understood."""
    found = _URL.fullmatch(options.required(URL).strip())
    port = 0 if found is None else int(found["port"] or (8883 if found["scheme"] == "mqtts" else 1883))
    if found is None or not 0 < port < 65536:
        raise OptionError(
            "option 'url' is not the address of a server of MQTT",
            hint="write it as 'mqtt://host:1883', or 'mqtts://host:8883'",
        )
    return Address(
        found["host"],
        port,
        found["scheme"] == "mqtts",
        options.get(USERNAME) or unquote(found["user"] or ""),
        Secret(options.get(PASSWORD) or unquote(found["password"] or "")),
        options.get(ROOT),
        max(0.1, options.get(TIMEOUT) / 1000),
    )


class Connection:
    """A connection over which packets go."""

    def __init__(self, address: Address, client: str, *, clean: bool, most: int) -> None:
        self._address = address
        self._reader = PacketReader(most)
        self._waiting: list[Published | tuple[Kind, bytes]] = []
        plain = socket.create_connection((address.host.strip("[]"), address.port), address.timeout)
        self._socket = plain
        try:
            if address.encrypted:
                context = ssl.create_default_context(cafile=address.root or None)
                self._socket = context.wrap_socket(plain, server_hostname=address.host.strip("[]"))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.is_known = self._open(client, clean)
        except BaseException:
            self._socket.close()
            raise

    def _open(self, client: str, clean: bool) -> bool:
        """Whether the server has kept something for this client."""
        address = self._address
        password = address.password.reveal()
        self.send(connect(client, address.user, password, clean=clean, keep_alive=KEEP_ALIVE))
        kind, body = self._answer()
        if kind is not Kind.CONNACK:
            raise Broken("the server answers otherwise than one of MQTT")
        if body[1] == _UNAVAILABLE:
            raise ConnectionError(_REFUSALS[_UNAVAILABLE])
        if body[1]:
            raise ConnectorError(
                f"the server of MQTT at {address} refuses the connection: {_REFUSALS.get(body[1], str(body[1]))}",
                code="E3247",
                hint="check the options 'username' and 'password', and what the user may do",
            )
        return bool(body[0] & 1)

    def _answer(self) -> tuple[Kind, bytes]:
        until = time.monotonic() + self._address.timeout
        while True:
            found = self.receive(max(0.0, until - time.monotonic()))
            if found:
                first, self._waiting = found[0], found[1:]
                if isinstance(first, Published):
                    raise Broken("the server answers otherwise than one of MQTT")
                return first
            if time.monotonic() >= until:
                raise TimeoutError("no answer")

    def send(self, data: bytes) -> None:
        """Raises OSError."""
        self._socket.sendall(data)

    def receive(self, seconds: float) -> list[Published | tuple[Kind, bytes]]:
        """What has come, after so many seconds at most. Raises OSError where the connection has ended."""
        if self._waiting:
            found, self._waiting = self._waiting, []
            return found
        pending = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()
        if not pending and not select.select([self._socket], [], [], seconds)[0]:
            return []
        data = self._socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server has ended the connection")
        return self._reader.feed(data)

    def close(self, *, politely: bool) -> None:
        """`politely`: the server is told."""
        try:
            if politely:
                self.send(packet(Kind.DISCONNECT, 0, b""))
        except OSError:
            pass
        finally:
            self._socket.close()


@contextmanager
def connected(address: Address, what: str, client: str, *, clean: bool, most: int) -> Generator[Connection]:
    """A connection; `what`: for messages. Raises UnavailableError E3150 for what passes, ConnectorError E3247 for what is
    refused."""
    try:
        connection = Connection(address, client, clean=clean, most=most)
        try:
            yield connection
        except BaseException:
            connection.close(politely=False)
            raise
        connection.close(politely=True)
    except ssl.SSLCertVerificationError as error:
        raise ConnectorError(
            f"{what}: the certificate of the server of MQTT at {address} is not trusted: {error.verify_message}",
            code="E3247",
            hint="set 'ssl-root-cert-path' to a file of certificates (PEM)",
        ) from error
    except (OSError, TimeoutError) as error:
        raise UnavailableError(
            f"{what}: MQTT at {address}: {error}", hint="is the server there, and reachable from here?"
        ) from error
