"""Where a database of PostgreSQL is, and who asks: options of tables and catalogs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from connectors.databases.address import (
    PASSWORD,
    SSL_CERT,
    SSL_KEY,
    SSL_MODE,
    SSL_ROOT,
    TIMEOUT,
    USERNAME,
    ServerAddress,
    read_url,
    wrong_url,
)
from connectors.options import TableOptions
from runtime.core.options import text_option

__all__ = ["ADDRESS_OPTIONS", "PASSWORD", "URL", "USERNAME", "Address", "read_address"]

URL = text_option("url", "", "the database, such as 'postgresql://host:5432/shop' or 'jdbc:postgresql://host/shop'")
ADDRESS_OPTIONS = (URL, USERNAME, PASSWORD, SSL_MODE, SSL_ROOT, SSL_CERT, SSL_KEY, TIMEOUT)

_EXAMPLE = "postgresql://host:5432/database"
_SEARCH_PATH = "currentSchema"


@dataclass(frozen=True)
class Address(ServerAddress):
    """A database. `schema`: where names without a schema are looked up."""

    schema: str = "public"

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
    url = read_url(options, URL, "(?:jdbc:)?postgres(?:ql)?", 5432, _EXAMPLE, "PostgreSQL")
    more = _parameters(url.more)
    database = url.database or url.user
    if not database:
        raise wrong_url("option 'url' names no database", f"write it as '{_EXAMPLE}'")
    return Address(
        url.host,
        url.port,
        database,
        url.user,
        url.password,
        SSL_MODE.read(more["sslmode"]) if "sslmode" in more else options.get(SSL_MODE),
        options.get(SSL_ROOT),
        options.get(SSL_CERT),
        options.get(SSL_KEY),
        max(2, options.get(TIMEOUT) // 1000),
        more.get(_SEARCH_PATH, "public"),
    )


def _parameters(given: dict[str, str]) -> dict[str, str]:
    """Parameters of a URL that say nothing of hosts, files and commands."""
    found = dict(given)
    if found.pop("ssl", "false").lower() in ("true", ""):
        found.setdefault("sslmode", "require")
    unknown = sorted(found.keys() - {"sslmode", _SEARCH_PATH})
    if unknown:
        raise wrong_url(
            f"the parameter '{unknown[0]}' of option 'url' is not supported",
            "it may have user, password, sslmode, ssl and currentSchema; certificates are options of their own",
        )
    return found
