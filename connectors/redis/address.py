"""Where a server of Redis is, and who asks: options of tables, and connections.

The address is read here, by one strict form: a URL of a client may have parameters that name other hosts and files.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from connectors.options import TableOptions
from runtime.core.errors import ConnectorError, OptionError, UnavailableError
from runtime.core.options import duration_option, text_option
from runtime.core.secrets import Secret

__all__ = ["ADDRESS_OPTIONS", "Address", "connected", "read_address", "telling"]

URL = text_option("url", "", "the server, such as 'redis://host:6379/0', or 'rediss://host' for TLS")
USERNAME = text_option("username", "", "who connects; without it the server's default user")
PASSWORD = text_option("password", "", "the password of the user; better '${secret:name}'")
ROOT = text_option("ssl-root-cert-path", "", "the file of the certificates that the server's must be signed by")
TIMEOUT = duration_option("connect-timeout", 10_000, "how long a connection may take")
ANSWER = duration_option("answer-timeout", 60_000, "how long an answer may take")
ADDRESS_OPTIONS = (URL, USERNAME, PASSWORD, ROOT, TIMEOUT, ANSWER)

_URL = re.compile(
    r"""(?P<scheme>rediss?)://(?:(?P<user>[^\s/@:?\#]*)(?::(?P<password>[^\s/@?\#]*))?@)?
    (?P<host>\[[0-9A-Fa-f:.%]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?(?:/(?P<database>\d{0,5}))?""",
    re.VERBOSE,
)
_PASSING = ("LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "NOREPLICAS")
"""What the server answers while it starts, changes its role, or is busy."""
_DENIED = ("WRONGPASS", "NOAUTH", "NOPERM", "ERR invalid password", "ERR Client sent AUTH")


@dataclass(frozen=True)
class Address:
    """A database of a server, and how it is reached. No text of it has the password. Times are in seconds."""

    host: str
    port: int
    database: int
    encrypted: bool = False
    user: str = ""
    password: Secret = field(default=Secret(""), repr=False)
    root: str = ""
    timeout: float = 10.0
    answer: float = 60.0

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.database}"


def read_address(options: TableOptions) -> Address:
    """Raises OptionError E1504 without a URL, E1500 for one that is not understood."""
    found = _URL.fullmatch(options.required(URL))
    if found is None or not 0 < int(found["port"] or 6379) < 65536:
        raise OptionError(
            "option 'url' is not the address of a server of Redis", hint="write it as 'redis://host:6379/0'"
        )
    return Address(
        found["host"].strip("[]"),
        int(found["port"] or 6379),
        int(found["database"] or 0),
        found["scheme"] == "rediss",
        options.get(USERNAME) or unquote(found["user"] or ""),
        Secret(options.get(PASSWORD) or unquote(found["password"] or "")),
        options.get(ROOT),
        max(0.1, options.get(TIMEOUT) / 1000),
        max(0.1, options.get(ANSWER) / 1000),
    )


def _library() -> Any:
    try:
        import redis
    except ImportError as error:
        raise ConnectorError(
            "the client of Redis is not installed", code="E3240", hint="pip install 'sqlengine[redis]'"
        ) from error
    return redis


@contextmanager
def telling(address: Address, what: str) -> Generator[None]:
    """Errors of the client as UnavailableError E3150, what passes, or ConnectorError E3241. `what`: for messages."""
    library = _library()
    try:
        yield
    except library.RedisError as error:
        text = str(error).strip() or type(error).__name__
        message = f"{what}: Redis at {address}: {text.splitlines()[0]}"
        lost = isinstance(error, library.ConnectionError | library.TimeoutError)
        if text.startswith(_DENIED) or isinstance(error, library.AuthenticationError):
            raise ConnectorError(
                message, code="E3241", hint="check the options 'username' and 'password', and what the user may do"
            ) from error
        if lost or text.startswith(_PASSING) or isinstance(error, library.BusyLoadingError | library.ReadOnlyError):
            raise UnavailableError(message, hint="is the server there, and reachable from here?") from error
        raise ConnectorError(message, code="E3241", hint="the message is Redis's own") from error


def connected(address: Address) -> Any:
    """A connection (redis-py's `Connection`) that gives answers as bytes. Raises what `telling` makes of errors."""
    library = _library()
    with telling(address, "connecting"):
        known: dict[str, Any] = {
            "host": address.host,
            "port": address.port,
            "db": address.database,
            "username": address.user or None,
            "password": address.password.reveal() or None,
            "socket_connect_timeout": address.timeout,
            "socket_timeout": address.answer,
            "socket_keepalive": True,
            "protocol": 2,
            "decode_responses": False,
            "retry": None,
        }
        if address.encrypted:
            more = {"ssl_ca_certs": address.root} if address.root else {}
            connection = library.SSLConnection(**known, **more)
        else:
            connection = library.Connection(**known)
        connection.connect()
        return connection
