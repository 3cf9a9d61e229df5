"""Where a database of PostgreSQL is, and who asks: options of tables and catalogs.

The address is read here, by one strict form, and given to the clients part by part: a URL of libpq may name other hosts,
files and commands in its parameters, and such a one would pass by what a server allows (`--allow-host`, `--allow-path`).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

from connectors.options import TableOptions
from runtime.core.errors import OptionError
from runtime.core.options import duration_option, text_option
from runtime.core.secrets import Secret

__all__ = ["ADDRESS_OPTIONS", "PASSWORD", "URL", "USERNAME", "Address", "read_address"]

URL = text_option("url", "", "the database, such as 'postgresql://host:5432/shop' or 'jdbc:postgresql://host/shop'")
USERNAME = text_option("username", "", "who connects; without it the user of the operating system")
PASSWORD = text_option("password", "", "the password of the user; better '${secret:name}'")
_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
SSL_MODE = text_option(
    "ssl-mode", "prefer", "TLS, as PostgreSQL's 'sslmode': 'verify-full' checks who the server is", _MODES
)
SSL_ROOT = text_option("ssl-root-cert-path", "", "the file of the certificates that the server's must be signed by")
SSL_CERT = text_option("ssl-cert-path", "", "the file of the client's certificate")
SSL_KEY = text_option("ssl-key-path", "", "the file of the client's key")
TIMEOUT = duration_option("connect-timeout", 30_000, "how long a connection may take")
ADDRESS_OPTIONS = (URL, USERNAME, PASSWORD, SSL_MODE, SSL_ROOT, SSL_CERT, SSL_KEY, TIMEOUT)

_URL = re.compile(
    r"""(?:jdbc:)?postgres(?:ql)?://
    (?:(?P<user>[^\s/@:?\#]*)(?::(?P<password>[^\s/@?\#]*))?@)?
    (?P<host>\[[0-9A-Fa-f:.%]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?
    /(?P<database>[^\s/?\#]*)(?:\?(?P<more>[^\s\#]*))?""",
    re.VERBOSE,
)
_MODE_OF = {"sslmode": SSL_MODE}
_SEARCH_PATH = "currentSchema"


@dataclass(frozen=True)
class Address:
    """A database, and how it is reached. No text of it has the password.

    Attributes:
        database: empty is the user's own.
        schema: where names without a schema are looked up.
        timeout: seconds.
    """

    host: str
    port: int
    database: str
    user: str = ""
    password: Secret = field(default=Secret(""), repr=False)
    schema: str = "public"
    ssl_mode: str = "prefer"
    ssl_root: str = ""
    ssl_cert: str = ""
    ssl_key: str = ""
    timeout: int = 30

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.database}"

    def parameters(self, application: str = "sqlengine") -> dict[str, Any]:
        """What libpq is told, by its own names, with the password. What the environment or files of the engine's user say
        of passwords is not for whoever declares a table."""
        told = {
            "host": self.host,
            "port": self.port,
            "dbname": self.database,
            "user": self.user,
            "password": self.password.reveal(),
            "passfile": os.devnull,
            "sslmode": self.ssl_mode,
            "sslrootcert": self.ssl_root,
            "sslcert": self.ssl_cert,
            "sslkey": self.ssl_key,
            "gssencmode": "disable",
            "connect_timeout": self.timeout,
            "application_name": application,
            "client_encoding": "UTF8",
            # A server that is gone without a word is noticed.
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": 60_000,
        }
        return {k: v for k, v in told.items() if v != ""}


def read_address(options: TableOptions) -> Address:
    """Raises OptionError E1504 without a URL, E1500 for one that is not understood or says what it may not."""
    url = options.required(URL)
    found = _URL.fullmatch(url)
    if found is None:
        raise _wrong(
            "option 'url' is not the address of a database of PostgreSQL",
            "write it as 'postgresql://host:5432/database'",
        )
    more = _parameters(found["more"] or "")
    user = options.get(USERNAME) or unquote(found["user"] or "") or more.pop("user", "")
    password = options.get(PASSWORD) or unquote(found["password"] or "") or more.pop("password", "")
    database = unquote(found["database"]) or user
    if not database:
        raise _wrong("option 'url' names no database", "write it as 'postgresql://host:5432/database'")
    port = int(found["port"] or 5432)
    if not 0 < port < 65536:
        raise _wrong(f"option 'url' names port {port}", "a port is from 1 to 65535")
    return Address(
        found["host"].strip("[]"),
        port,
        database,
        user,
        Secret(password),
        more.get(_SEARCH_PATH, "public"),
        SSL_MODE.read(more["sslmode"]) if "sslmode" in more else options.get(SSL_MODE),
        options.get(SSL_ROOT),
        options.get(SSL_CERT),
        options.get(SSL_KEY),
        max(2, options.get(TIMEOUT) // 1000),
    )


def _parameters(text: str) -> dict[str, str]:
    """Parameters of a URL that say nothing of hosts, files and commands."""
    found = dict(parse_qsl(text, keep_blank_values=True))
    if found.pop("ssl", "false").lower() in ("true", ""):
        found.setdefault("sslmode", "require")
    unknown = sorted(found.keys() - {"user", "password", "sslmode", _SEARCH_PATH})
    if unknown:
        raise _wrong(
            f"the parameter '{unknown[0]}' of option 'url' is not supported",
            "it may have user, password, sslmode, ssl and currentSchema; certificates are options of their own",
        )
    return found


def _wrong(message: str, hint: str) -> OptionError:
    return OptionError(message, code="E1500", hint=hint)
