"""Where a database of MySQL or MariaDB is, and who asks: options of tables and catalogs."""

from __future__ import annotations

import ssl
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
    Url,
    read_url,
    wrong_url,
)
from connectors.options import TableOptions
from runtime.core.errors import OptionError
from runtime.core.options import text_option

__all__ = ["ADDRESS_OPTIONS", "URL", "Address", "read_address", "server_address"]

URL = text_option("url", "", "the database, such as 'mysql://host:3306/shop' or 'jdbc:mariadb://host/shop'")
ADDRESS_OPTIONS = (URL, USERNAME, PASSWORD, SSL_MODE, SSL_ROOT, SSL_CERT, SSL_KEY, TIMEOUT)
PORT = 3306

_TRIED = ("allow", "prefer")
_EXAMPLE = "mysql://host:3306/database"
_SCHEME = "(?:jdbc:)?(?:mysql|mariadb)"
_TLS = {
    "DISABLED": "disable",
    "DISABLE": "disable",
    "PREFERRED": "prefer",
    "REQUIRED": "require",
    "TRUST": "require",
    "VERIFY_CA": "verify-ca",
    "VERIFY-CA": "verify-ca",
    "VERIFY_IDENTITY": "verify-full",
    "VERIFY-FULL": "verify-full",
}
"""What the drivers of MySQL and MariaDB for Java call it."""
_HARMLESS = frozenset(
    {
        "allowPublicKeyRetrieval",
        "autoReconnect",
        "cachePrepStmts",
        "characterEncoding",
        "connectionCollation",
        "rewriteBatchedStatements",
        "useCompression",
        "useCursorFetch",
        "useServerPrepStmts",
        "useUnicode",
    }
)
"""Parameters of those drivers that change no value."""


@dataclass(frozen=True)
class Address(ServerAddress):
    """A database, or a server when `database` is empty."""

    def parameters(self) -> dict[str, Any]:
        """What the client is told, with the password. Raises OptionError E1500 for certificates that cannot be read."""
        told: dict[str, Any] = {
            "host": self.host,
            "port": self.port,
            "database": self.database or None,
            "user": self.user or None,
            "password": self.password.reveal(),
            "connect_timeout": self.timeout,
        }
        if self.ssl_mode in ("disable", *_TRIED):
            told["ssl_disabled"] = True
        else:
            told["ssl"] = self._tls()
        return told

    def tried_tls(self) -> ssl.SSLContext | None:
        """For TLS that is used if the server has it; None where it must be used, or must not."""
        return self._tls() if self.ssl_mode in _TRIED else None

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = self.ssl_mode == "verify-full"
            if self.ssl_mode in ("require", *_TRIED):
                context.verify_mode = ssl.CERT_NONE
            elif self.ssl_root:
                context.load_verify_locations(self.ssl_root)
            else:
                # Reading them takes long.
                context.load_default_certs()
            if self.ssl_cert:
                context.load_cert_chain(self.ssl_cert, self.ssl_key or None)
        except (OSError, ssl.SSLError) as error:
            raise OptionError(
                f"the certificates of the options 'ssl-*' cannot be read: {error}", code="E1500", hint="check the paths"
            ) from error
        return context


def read_address(options: TableOptions) -> Address:
    """Raises OptionError E1504 without a URL, E1500 for one that is not understood, names no database or says what it may
    not."""
    url = read_url(options, URL, _SCHEME, PORT, _EXAMPLE, "MySQL or MariaDB")
    if not url.database:
        raise wrong_url("option 'url' names no database", f"write it as '{_EXAMPLE}'")
    return server_address(options, url)


def server_address(options: TableOptions, url: Url) -> Address:
    """The address of a URL. Raises OptionError E1500 for parameters that it may not have."""
    return Address(
        url.host,
        url.port,
        url.database,
        url.user,
        url.password,
        _mode(url.more) or options.get(SSL_MODE),
        options.get(SSL_ROOT),
        options.get(SSL_CERT),
        options.get(SSL_KEY),
        max(2, options.get(TIMEOUT) // 1000),
    )


def _mode(more: dict[str, str]) -> str | None:
    """What parameters of a URL say of TLS; of hosts, files and commands they may say nothing, and what changes values is
    done in one way here."""
    found = {k: v for k, v in more.items() if k not in _HARMLESS}
    for name in ("sslMode", "ssl-mode"):
        if name in found:
            mode = found.pop(name)
            if mode.upper() not in _TLS:
                raise wrong_url(f"'{mode}' is no value of 'sslMode'", "it may be one of " + ", ".join(sorted(_TLS)))
            found = {k: v for k, v in found.items() if k not in ("useSSL", "requireSSL", "verifyServerCertificate")}
            _refuse(found)
            return _TLS[mode.upper()]
    wanted = found.pop("useSSL", "").lower()
    required = found.pop("requireSSL", "").lower() == "true"
    checked = found.pop("verifyServerCertificate", "").lower() == "true"
    _refuse(found)
    if wanted == "false" and not required:
        return "disable"
    if checked:
        return "verify-ca"
    return "require" if required else None


def _refuse(unknown: dict[str, str]) -> None:
    if unknown:
        raise wrong_url(
            f"the parameter '{min(unknown)}' of option 'url' is not supported",
            "leave it out: times are those of UTC, texts are in Unicode; certificates are options of their own",
        )
