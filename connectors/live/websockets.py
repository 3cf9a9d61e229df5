"""The connector `websocket`: the messages that a server sends, as a client of it."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import Any

from connectors.formats.message_table import format_prefixes, message_format
from connectors.http.address import WAY_OPTIONS, Address, read_url, read_way
from connectors.http.client import PASSING
from connectors.http.client import Way as HttpWay
from connectors.live.table import LiveTable
from connectors.options import FORMAT, MAX_RECORD, TableOptions, memory_limit, physical_part
from runtime.core.errors import ConnectorError, OptionError
from runtime.core.options import text_option
from runtime.spi.registry import ConnectorFactory, TableRequest

__all__ = ["OPTIONS", "WEBSOCKET", "WebSocketWay"]

URL = text_option("url", "", "the address, such as 'wss://host/trades'")
HELLO = text_option("connect.message", "", "what is sent when the connection is made, such as what is subscribed to")
OPTIONS = (URL, HELLO, *WAY_OPTIONS, FORMAT, MAX_RECORD)
_WAIT_SECONDS = 0.1
_PING_SECONDS = 20.0
_AT_ONCE = 1000


@dataclass(frozen=True)
class WebSocketWay:
    """A connection to a server. `hello`: what is sent when it is made."""

    address: Address
    http: HttpWay
    hello: str = field(default="", repr=False)
    kind: str = "websocket"

    def __str__(self) -> str:
        return str(self.address)

    def messages(self, most: int, stop: threading.Event) -> Iterator[list[bytes]]:
        """See `Way`: the thread has a loop of its own, which runs while something is asked for. While memory is full, pings are
        not answered."""
        loop = asyncio.new_event_loop()
        came = self._messages(most, stop)
        try:
            while (found := loop.run_until_complete(anext(came, None))) is not None:
                yield found
        finally:
            loop.run_until_complete(came.aclose())
            loop.close()

    async def _messages(self, most: int, stop: threading.Event) -> AsyncGenerator[list[bytes]]:
        library = _library()
        try:
            async with self._connected(library, most) as connection:
                if self.hello:
                    await connection.send_str(self.hello)
                coming = asyncio.ensure_future(connection.receive())
                try:
                    while not stop.is_set():
                        found: list[bytes] = []
                        body: bytes | Exception = b""
                        seconds = _WAIT_SECONDS
                        while len(found) < _AT_ONCE and (await asyncio.wait({coming}, timeout=seconds))[0]:
                            body = self._body(library, coming.result(), most)
                            if isinstance(body, Exception):
                                break
                            found.append(body)
                            coming = asyncio.ensure_future(connection.receive())
                            seconds = 0.0
                        yield found
                        if isinstance(body, Exception):
                            # What came before it is given first.
                            raise body
                finally:
                    coming.cancel()
        except library.WSServerHandshakeError as error:
            what = f"{self} does not open a WebSocket: HTTP {error.status}"
            if error.status in PASSING:
                raise ConnectionError(what) from error
            raise ConnectorError(what, code="E3250", hint="check the address, and who may ask") from error
        except library.ClientConnectorCertificateError as error:
            raise ConnectorError(
                f"the certificate of {self} is not trusted",
                code="E3250",
                hint="set 'ssl-root-cert-path' to the file of the certificates that it is signed by (PEM)",
            ) from error
        except library.ClientError as error:
            raise ConnectionError(f"{self} does not answer: {error}") from error

    def _connected(self, library: Any, most: int) -> Any:
        """The connection, as a context."""
        headers = {name: value.reveal() for name, value in self.http.headers}
        url = "ws" + self.address.url().removeprefix("http")
        known: dict[str, Any] = {"headers": headers, "heartbeat": _PING_SECONDS, "max_msg_size": most + 1}
        if url.startswith("wss:"):
            known["ssl"] = ssl.create_default_context(cafile=self.http.trusted or None)
        return _Session(library, url, self.http.timeout, known)

    def _body(self, library: Any, message: Any, most: int) -> bytes | Exception:
        """The message, or why there is none any more."""
        kinds = library.WSMsgType
        match message.type:
            case kinds.TEXT:
                return str(message.data).encode()
            case kinds.BINARY:
                return bytes(message.data)
            case kinds.ERROR if isinstance(message.data, library.WebSocketError):
                return ConnectorError(
                    f"{self} has sent a message that is not taken: {message.data}",
                    code="E3201",
                    hint=f"a message has at most {most} bytes ('source.max-record-size')",
                )
            case _:
                return ConnectionError(f"{self} has ended the connection")


class _Session:
    """A session of the client and its one connection, opened and closed together."""

    def __init__(self, library: Any, url: str, timeout: float, known: dict[str, Any]) -> None:
        async def elsewhere(*told: object) -> None:
            # Whoever looks at the hosts of tables has looked at this one only.
            raise ConnectorError(
                f"{url.partition('?')[0]} is elsewhere, and nothing is followed to another address",
                code="E3250",
                hint="give that one, if it may be asked",
            )

        self._trace = library.TraceConfig()
        self._trace.on_request_redirect.append(elsewhere)
        self._library, self._url, self._timeout, self._known = library, url, timeout, known

    async def __aenter__(self) -> Any:
        self._session = self._library.ClientSession(trace_configs=[self._trace])
        try:
            async with asyncio.timeout(self._timeout):
                self._connection = await self._session.ws_connect(
                    self._url, timeout=_closing(self._library), **self._known
                )
        except BaseException:
            await self._session.close()
            raise
        return self._connection

    async def __aexit__(self, *error: object) -> None:
        await self._connection.close()
        await self._session.close()


def _closing(library: Any) -> Any:
    # The other side may never answer that it has seen the end.
    return library.ClientWSTimeout(ws_close=0.2)


def _library() -> Any:
    try:
        import aiohttp
    except ImportError as error:
        raise ConnectorError(
            "the library that speaks WebSocket is not installed", code="E3255", hint="pip install 'sqlengine[webhook]'"
        ) from error
    return aiohttp


def _table(request: TableRequest) -> LiveTable:
    """The table that options describe; raises OptionError and UnsupportedError."""
    options = TableOptions(request.options, "connector 'websocket'", OPTIONS, format_prefixes(request))
    url, most = options.required(URL), memory_limit(options, MAX_RECORD)
    if not url.startswith(("ws://", "wss://")):
        raise OptionError("option 'url' is not the address of a WebSocket", hint="write it as 'wss://host/path'")
    address = read_url("http" + url.removeprefix("ws"), URL.key)
    if address.columns:
        raise OptionError("option 'url' names a column, and there is no row yet", hint="leave it out")
    way = WebSocketWay(address, read_way(options, most), options.get(HELLO))
    return LiveTable(
        request.schema,
        request.primary_key,
        physical_part(request),
        request.name,
        way,
        most,
        request.time_zone,
        message_format(request, options),
    )


WEBSOCKET = ConnectorFactory(
    name="websocket",
    document="the messages that a server sends on a WebSocket, at most once",
    source=_table,
    options=OPTIONS,
)
