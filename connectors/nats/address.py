"""Where a server of NATS is, and who asks: options of tables, connections, and errors in our words."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import unquote

from connectors.options import TableOptions
from runtime.core.errors import ConnectorError, OptionError, UnavailableError
from runtime.core.options import duration_option, text_option
from runtime.core.secrets import Secret

__all__ = ["ADDRESS_OPTIONS", "Address", "at_server", "connected", "read_address"]

T = TypeVar("T")

URL = text_option("url", "", "the servers, such as 'nats://host:4222' or 'tls://one:4222,tls://other:4222'")
USERNAME = text_option("username", "", "who connects, where the server asks for it")
PASSWORD = text_option("password", "", "the password of the user; better '${secret:name}'")
TOKEN = text_option("token", "", "the token, where the server asks for one; better '${secret:name}'")
ROOT = text_option("ssl-root-cert-path", "", "the file of the certificates that the server's must be signed by")
TIMEOUT = duration_option("connect-timeout", 10_000, "how long a connection, or an answer, may take")
ADDRESS_OPTIONS = (URL, USERNAME, PASSWORD, TOKEN, ROOT, TIMEOUT)

_URL = re.compile(
    r"(?P<scheme>nats|tls)://(?:(?P<user>[^\s/@:?#,]*)(?::(?P<password>[^\s/@?#,]*))?@)?"
    r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?/?"
)


@dataclass(frozen=True)
class Address:
    """Servers, and how they are reached. No text of it has the password or token. `timeout`: seconds."""

    servers: tuple[str, ...]
    encrypted: bool
    user: str = ""
    password: Secret = field(default=Secret(""), repr=False)
    token: Secret = field(default=Secret(""), repr=False)
    root: str = ""
    timeout: float = 10.0

    def __str__(self) -> str:
        return ",".join(self.servers)


def read_address(options: TableOptions) -> Address:
    """Raises OptionError E1504 without a URL, E1500 for one that is not understood."""
    found = [_URL.fullmatch(part.strip()) for part in options.required(URL).split(",")]
    known = [match for match in found if match is not None and 0 < int(match["port"] or 4222) < 65536]
    if len(known) != len(found) or len({match["scheme"] for match in known}) != 1:
        raise OptionError(
            "option 'url' is not the address of servers of NATS",
            hint="write it as 'nats://host:4222', or 'tls://host:4222'",
        )
    first = known[0]
    return Address(
        tuple(f"{match['host']}:{match['port'] or 4222}" for match in known),
        first["scheme"] == "tls",
        options.get(USERNAME) or unquote(first["user"] or ""),
        Secret(options.get(PASSWORD) or unquote(first["password"] or "")),
        Secret(options.get(TOKEN)),
        options.get(ROOT),
        max(0.1, options.get(TIMEOUT) / 1000),
    )


def _library() -> Any:
    try:
        import nats
    except ImportError as error:
        raise ConnectorError(
            "the client of NATS is not installed", code="E3244", hint="pip install 'sqlengine[nats]'"
        ) from error
    return nats


def at_server(address: Address, what: str, work: Callable[[Any], Awaitable[T]]) -> T:
    """Carry out work with a client (nats-py) that is connected meanwhile, in a loop of its own. `what`: for messages.

    Raises UnavailableError E3150 for what passes, ConnectorError E3245 for what is refused.
    """

    async def done() -> T:
        async with connected(address, what) as client:
            return await work(client)

    return asyncio.run(done())


@asynccontextmanager
async def connected(address: Address, what: str) -> AsyncGenerator[Any]:
    """A client while it is connected; errors within the block as `at_server` tells them."""
    library = _library()
    tls: ssl.SSLContext | None = None
    if address.encrypted:
        tls = ssl.create_default_context(cafile=address.root or None)
    failed: list[Exception] = []

    async def note(error: Exception) -> None:
        failed.append(error)

    try:
        client = await library.connect(
            [f"{'tls' if tls else 'nats'}://{server}" for server in address.servers],
            name="sqlengine",
            user=address.user or None,
            password=address.password.reveal() or None,
            token=address.token.reveal() or None,
            tls=tls,
            connect_timeout=address.timeout,
            allow_reconnect=False,
            error_cb=note,
        )
        try:
            yield client
        finally:
            await client.close()
    except library.js.errors.APIError as error:
        message = f"{what}: NATS at {address}: {error.description or error}"
        if (error.code or 0) >= 500:
            raise UnavailableError(message, hint="is JetStream on, and has it room?") from error
        raise ConnectorError(message, code="E3245", hint="the message is JetStream's own") from error
    except (library.errors.Error, OSError, TimeoutError) as error:
        text = next((str(e) for e in [*failed, error] if str(e)), type(error).__name__).removeprefix("nats: ")
        message = f"{what}: NATS at {address}: {text}"
        if "authorization" in text.lower() or "permissions" in text.lower() or isinstance(error, ssl.SSLError):
            raise ConnectorError(
                message,
                code="E3245",
                hint="check the options 'username', 'password' and 'token', and what the user may do",
            ) from error
        raise UnavailableError(message, hint="is the server there, and reachable from here?") from error
