"""Where a server of ClickHouse is, who asks, and requests to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import pyarrow as pa

from connectors.databases.address import PASSWORD, SSL_ROOT, TIMEOUT, USERNAME, Url, read_url, wrong_url
from connectors.http.client import Answer, Way, client_of
from connectors.options import TableOptions
from runtime.core.errors import ConnectorError, UnavailableError
from runtime.core.options import duration_option, text_option
from runtime.core.secrets import Secret, masked_text

__all__ = ["ADDRESS_OPTIONS", "DATABASE", "URL", "Server", "read_server"]

URL = text_option(
    "url", "", "the server, such as 'http://host:8123/shop', 'clickhouse://host/shop' or 'https://host:8443'"
)
DATABASE = text_option("database-name", "", "the database, where the URL names none; 'default' without either")
THINKING = duration_option("socket.timeout", 300_000, "how long a part of an answer may take")
ADDRESS_OPTIONS = (URL, DATABASE, USERNAME, PASSWORD, SSL_ROOT, TIMEOUT, THINKING)
_SCHEME = "(?:https?|(?:jdbc:)?(?:ch|clickhouse)(?::https?)?)"
_EXAMPLE = "http://host:8123/database"
_PORT, _TLS_PORT = 8123, 8443
_SHOWN = 400
_TAIL = 1 << 14
_MOST_ANSWER = 64 << 20
_END = b"\0\0\0\0"
"""Of a stream of Arrow."""
_READING = {"output_format_arrow_string_as_string": "0", "prefer_column_name_to_alias": "1", "join_use_nulls": "0"}
_WRITING = {"input_format_null_as_default": "0", "async_insert": "0"}
_LATER = frozenset((159, 202, 203, 209, 210, 225, 236, 241, 242, 252, 279, 285, 319, 394, 439, 473, 999))
"""Codes of errors that may pass: timeouts, too many queries or parts, memory, replicas that are not there."""
_ROWS = frozenset((27, 53, 69, 70, 72, 117, 131, 321, 349, 376, 407, 469, 691))
"""Values that a column does not take, and constraints."""
_SHAPES = frozenset((10, 16, 47, 60, 81))
_DENIED = frozenset((192, 193, 194, 497, 516))
_CODE = re.compile(r"Code: (\d+)\.")


@dataclass(frozen=True)
class Server:
    """A server, and who asks. `database`: the current one. No text of it has the password."""

    url: str
    database: str
    way: Way

    def __str__(self) -> str:
        return self.url.partition("://")[2]

    def run(self, statement: str) -> None:
        """Raises as `asked`."""
        self._done(client_of(self.way).ask("POST", self._address({}), statement.encode()), "")

    def insert(self, statement: str, rows: bytes, settings: Mapping[str, str], what: str) -> None:
        """Rows of Arrow into a table. Raises as `asked`, ConnectorError E3162 for a row that is refused."""
        address = self._address({"query": statement, **_WRITING, **settings})
        headers = {"Content-Type": "application/octet-stream"}
        self._done(client_of(self.way).ask("POST", address, rows, headers), what)

    def asked(self, query: str, what: str = "") -> list[dict[str, Any]]:
        """A short answer, as objects of Python; texts are bytes. `what`: for messages.

        Raises UnavailableError E3150 where it may work later, ConnectorError E3161, E3162 and E3163.
        """
        return [row for batch in self.rows(query, what) for row in batch.to_pylist()]

    def rows(self, query: str, what: str = "") -> Iterator[pa.RecordBatch]:
        """An answer as it comes. Raises as `asked`."""
        address = self._address(_READING)
        body = f"{query} FORMAT ArrowStream".encode()
        with client_of(self.way).opened("POST", address, body) as answer:
            if answer.status != 200:
                self._done(Answer(answer.status, answer.headers, answer.read(_MOST_ANSWER)), what)
            stream = _Watched(answer)
            first = stream.read(4)
            if not first:
                return
            stream.back = first
            try:
                reader = pa.ipc.open_stream(pa.PythonFile(stream, "r"))
                yield from reader
                if stream.read(1) or not stream.tail.endswith(_END):
                    raise pa.ArrowInvalid("it has no end")
            except (pa.ArrowInvalid, OSError) as error:
                # What goes wrong on the way stands in the middle of the answer.
                told = (stream.tail + stream.read(_TAIL)).decode("utf-8", "replace")
                begin = told.rfind("Code: ")
                if begin >= 0 and "DB::Exception" in told:
                    raise self._error(told[begin:], what) from error
                raise UnavailableError(
                    f"{self}: the answer was cut short", hint="the query may have taken too much of the server"
                ) from error

    def _address(self, settings: Mapping[str, str]) -> str:
        return f"{self.url}/?{urlencode({'database': self.database, **settings}, quote_via=quote)}"

    def _done(self, answer: Answer, what: str) -> None:
        if answer.status == 200:
            return
        text = answer.body[: 4 * _SHOWN].decode("utf-8", "replace")
        if _CODE.search(text) is None and answer.status in (408, 429, 502, 503, 504):
            raise UnavailableError(f"{self}: HTTP {answer.status} {_told(text)}", hint="the server may answer later")
        raise self._error(text or f"HTTP {answer.status}", what)

    def _error(self, text: str, what: str) -> ConnectorError:
        """What the server says of an error, as an error."""
        found = _CODE.search(text)
        code = int(found[1]) if found else 0
        message = f"{what or self}: {_told(text)}"
        if code in _LATER:
            return UnavailableError(message, hint="the server may answer later")
        if code in _ROWS:
            return ConnectorError(message, code="E3162", hint="mend the query, or the table")
        if code in _SHAPES:
            return ConnectorError(message, code="E3163", hint="is the table there, and has it these columns?")
        hint = "the message is the server's own"
        if code in _DENIED or not found:
            hint = "check the options 'url', 'username' and 'password', and what the user may do"
        return ConnectorError(message, code="E3161", hint=hint)


class _Watched:
    """An answer whose last bytes are known. `back`: what is read once more."""

    closed = False

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.tail = b""
        self.back = b""

    def read(self, size: int) -> bytes:
        again, self.back = self.back[:size], self.back[size:]
        found: bytes = again + self._answer.read(size - len(again)) if size > len(again) else again
        self.tail = (self.tail + found)[-_TAIL:]
        return found

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Whoever opened it closes it."""


def _told(text: str) -> str:
    """Without the parts of the server's message that are about itself."""
    plain = re.sub(r"DB::Exception: |Code: \d+\. (?=.*Code: )", "", " ".join(text.split()))
    return masked_text(re.sub(r"\s*\(version [^)]*\)", "", plain)[:_SHOWN])


def read_server(options: TableOptions) -> Server:
    """Raises OptionError E1504 without a URL, E1500 for one that is not understood."""
    scheme = options.required(URL).partition("://")[0].lower()
    secure = scheme.endswith("https")
    found: Url = read_url(options, URL, _SCHEME, _TLS_PORT if secure else _PORT, _EXAMPLE, "ClickHouse")
    if found.more:
        raise wrong_url(
            f"the parameter '{min(found.more)}' of option 'url' is not supported", "leave what is behind the '?' out"
        )
    if not (found.user + found.password.reveal()).isprintable():
        raise wrong_url("user and password have characters that cannot be sent", "check them")
    own = [("X-ClickHouse-User", Secret(found.user))] if found.user else []
    own += [("X-ClickHouse-Key", found.password)] if found.password.reveal() else []
    host = f"[{found.host}]" if ":" in found.host else found.host
    seconds = (max(0.1, options.get(option) / 1000) for option in (TIMEOUT, THINKING))
    way = Way(tuple(own), options.get(SSL_ROOT), next(seconds), _MOST_ANSWER, next(seconds))
    url = f"{'https' if secure else 'http'}://{host}:{found.port}"
    return Server(url, found.database or options.get(DATABASE) or "default", way)
