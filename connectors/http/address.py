"""Addresses of the web, and who asks: options of tables.

An address is read by one strict form, so that the host that is asked is the one that a server has looked at
(`--allow-host`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from connectors.http.client import Way
from connectors.options import TableOptions
from runtime.core.errors import OptionError
from runtime.core.options import duration_option, text_option
from runtime.core.secrets import Secret

__all__ = ["WAY_OPTIONS", "Address", "headers_of", "read_url", "read_way"]

AUTHORIZATION = text_option(
    "authorization", "", "the header of this name, such as 'Bearer ${secret:token}'; better with a secret"
)
HEADERS = text_option("http-headers", "", "more headers, such as 'Accept-Language: en | X-Shop: 7'")
ROOT = text_option("ssl-root-cert-path", "", "the file of the certificates that the server's must be signed by")
TIMEOUT = duration_option("connect-timeout", 30_000, "how long a connection, or a part of an answer, may take")
WAY_OPTIONS = (AUTHORIZATION, HEADERS, ROOT, TIMEOUT)

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?(?P<target>[/?][^\s\\#]*)?"
)
_COLUMN = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SAFE = "%/:=&?~+!$,;'@()*[]{}"


@dataclass(frozen=True)
class Address:
    """An address whose path and query may name columns, `{id}`.

    Attributes:
        place: scheme, host and port.
        target: path and query, with the columns.
        columns: those that it names, in order.
    """

    place: str
    target: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        """Without the query, which may have keys."""
        return self.place + self.target.partition("?")[0]

    def url(self, values: dict[str, str] | None = None) -> str:
        """The address for these values of columns."""
        if not self.columns or values is None:
            return self.place + self.target
        return self.place + _COLUMN.sub(lambda found: quote(values[found[1]], safe=""), self.target)


def read_url(text: str, option: str) -> Address:
    """Raises OptionError for a text that is no address."""
    found = _URL.fullmatch(text)
    if found is None or not 0 < int(found["port"] or 80) < 65536:
        raise OptionError(
            f"option '{option}' is not an address of the web",
            hint="write it as 'https://host/path'; user and password belong into the option 'authorization'",
        )
    place = f"{found['scheme']}://{found['host']}" + (f":{found['port']}" if found["port"] else "")
    target = quote(found["target"] or "/", safe=_SAFE)
    if not target.startswith("/"):
        target = f"/{target}"
    named = tuple(dict.fromkeys(_COLUMN.findall(found["target"] or "")))
    if "{" in _COLUMN.sub("", target) or "}" in _COLUMN.sub("", target):
        raise OptionError(f"option '{option}' has a brace that nothing closes", hint="a column is written as '{id}'")
    # Names are not quoted: they are looked for.
    for name in named:
        target = target.replace("{" + quote(name, safe=_SAFE) + "}", "{" + name + "}")
    return Address(place, target, named)


def headers_of(text: str, option: str) -> tuple[tuple[str, Secret], ...]:
    """Headers of a text such as `A: b | C: d`. Raises OptionError for what is none."""
    found: list[tuple[str, Secret]] = []
    for part in filter(str.strip, text.split("|")):
        name, colon, value = (piece.strip() for piece in part.partition(":"))
        if not colon or _NAME.fullmatch(name) is None or not _is_plain(value):
            raise OptionError(f"option '{option}' has a part that is no header", hint="such as 'Accept-Language: en'")
        found.append((name, Secret(value)))
    return tuple(found)


def read_way(options: TableOptions, most: int) -> Way:
    """How the options want servers to be asked. `most`: bytes of an answer."""
    authorization = options.get(AUTHORIZATION)
    if not _is_plain(authorization):
        raise OptionError("option 'authorization' is no value of a header", hint="such as 'Bearer ${secret:token}'")
    own = (("Authorization", Secret(authorization)),) if authorization else ()
    return Way(
        (*own, *headers_of(options.get(HEADERS), HEADERS.key)),
        options.get(ROOT),
        max(0.1, options.get(TIMEOUT) / 1000),
        most,
    )


def _is_plain(value: str) -> bool:
    return value.isascii() and value.isprintable()
