"""Where a server of databases is, and who asks: options of tables and catalogs.

An address is read here, by one strict form, and given to the clients part by part: a URL of theirs may name other hosts, files
and commands in its parameters, and such a one would pass by what a server allows (`--allow-host`, `--allow-path`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from connectors.options import TableOptions
from runtime.core.errors import OptionError
from runtime.core.options import Option, duration_option, text_option
from runtime.core.secrets import Secret

__all__ = [
    "PASSWORD",
    "SSL_CERT",
    "SSL_KEY",
    "SSL_MODE",
    "SSL_ROOT",
    "TIMEOUT",
    "USERNAME",
    "ServerAddress",
    "Url",
    "read_url",
    "wrong_url",
]

USERNAME = text_option("username", "", "who connects; without it the user of the operating system")
PASSWORD = text_option("password", "", "the password of the user; better '${secret:name}'")
SSL_MODE = text_option(
    "ssl-mode",
    "prefer",
    "TLS, as PostgreSQL's 'sslmode': 'verify-full' checks who the server is",
    ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
)
SSL_ROOT = text_option("ssl-root-cert-path", "", "the file of the certificates that the server's must be signed by")
SSL_CERT = text_option("ssl-cert-path", "", "the file of the client's certificate")
SSL_KEY = text_option("ssl-key-path", "", "the file of the client's key")
TIMEOUT = duration_option("connect-timeout", 30_000, "how long a connection may take")

_REST = r"""
    (?:(?P<user>[^\s/@:?\#]*)(?::(?P<password>[^\s/@?\#]*))?@)?
    (?P<host>\[[0-9A-Fa-f:.%]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?
    (?:/(?P<database>[^\s/?\#]*))?(?:\?(?P<more>[^\s\#]*))?"""


@dataclass(frozen=True)
class ServerAddress:
    """A database, and how it is reached. No text of it has the password.

    Attributes:
        timeout: seconds.
    """

    host: str
    port: int
    database: str
    user: str = ""
    password: Secret = field(default=Secret(""), repr=False)
    ssl_mode: str = "prefer"
    ssl_root: str = ""
    ssl_cert: str = ""
    ssl_key: str = ""
    timeout: int = 30

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.database}"


@dataclass(frozen=True)
class Url:
    """What a URL says, without user and password. `more`: its parameters."""

    host: str
    port: int
    database: str
    user: str
    password: Secret
    more: dict[str, str]


def read_url(options: TableOptions, option: Option[str], scheme: str, port: int, example: str, system: str) -> Url:
    """The parts of a URL; user and password are those of the options where they are given.

    Args:
        scheme: a regular expression of what it begins with.
        port: that of the system.
    Raises:
        OptionError: E1504 without a URL, E1500 for one that is not understood.
    """
    found = re.fullmatch(f"{scheme}://{_REST}", options.required(option), re.VERBOSE)
    if found is None:
        raise wrong_url(f"option 'url' is not the address of a database of {system}", f"write it as '{example}'")
    more = dict(parse_qsl(found["more"] or "", keep_blank_values=True))
    user = options.get(USERNAME) or unquote(found["user"] or "") or more.get("user", "")
    password = options.get(PASSWORD) or unquote(found["password"] or "") or more.get("password", "")
    number = int(found["port"] or port)
    if not 0 < number < 65536:
        raise wrong_url(f"option 'url' names port {number}", "a port is from 1 to 65535")
    more = {k: v for k, v in more.items() if k not in ("user", "password")}
    host = found["host"].strip("[]")
    return Url(host, number, unquote(found["database"] or ""), user, Secret(password), more)


def wrong_url(message: str, hint: str) -> OptionError:
    """What is said of a URL."""
    return OptionError(message, code="E1500", hint=hint)
