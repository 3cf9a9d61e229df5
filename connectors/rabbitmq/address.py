"""Where a server of RabbitMQ is, and who asks: options of tables, connections, and errors in our words."""

from __future__ import annotations

import re
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from connectors.options import TableOptions
from runtime.core.errors import ConnectorError, OptionError, UnavailableError
from runtime.core.options import duration_option, text_option
from runtime.core.secrets import Secret

__all__ = ["ADDRESS_OPTIONS", "Address", "connected", "library", "parameters", "read_address", "telling"]

URL = text_option("url", "", "the server, such as 'amqp://host:5672/vhost', or 'amqps://host:5671' with TLS")
USERNAME = text_option("username", "", "who connects; without it 'guest'")
PASSWORD = text_option("password", "", "the password of the user; better '${secret:name}'")
ROOT = text_option("ssl-root-cert-path", "", "the file of the certificates that the server's must be signed by")
TIMEOUT = duration_option("connect-timeout", 10_000, "how long a connection, or an answer, may take")
ADDRESS_OPTIONS = (URL, USERNAME, PASSWORD, ROOT, TIMEOUT)

_URL = re.compile(
    r"(?P<scheme>amqps?)://(?:(?P<user>[^\s/@:?#]*)(?::(?P<password>[^\s/@?#]*))?@)?"
    r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?(?:/(?P<vhost>[^\s/?#]*))?"
)


@dataclass(frozen=True)
class Address:
    """A server, and how it is reached. No text of it has the password. `timeout`: seconds."""

    host: str
    port: int
    vhost: str
    encrypted: bool
    user: str = "guest"
    password: Secret = field(default=Secret("guest"), repr=False)
    root: str = ""
    timeout: float = 10.0

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{'' if self.vhost == '/' else self.vhost}".rstrip("/")


def read_address(options: TableOptions) -> Address:
    """Raises OptionError E1504 without a URL, E1500 for one that is not understood."""
    found = _URL.fullmatch(options.required(URL).strip())
    port = 0 if found is None else int(found["port"] or (5671 if found["scheme"] == "amqps" else 5672))
    if found is None or not 0 < port < 65536:
        raise OptionError(
            "option 'url' is not the address of a server of RabbitMQ",
            hint="write it as 'amqp://host:5672', or 'amqps://host:5671/vhost'",
        )
    return Address(
        found["host"].strip("[]"),
        port,
        unquote(found["vhost"] or "") or "/",
        found["scheme"] == "amqps",
        options.get(USERNAME) or unquote(found["user"] or "") or "guest",
        Secret(options.get(PASSWORD) or unquote(found["password"] or "") or "guest"),
        options.get(ROOT),
        max(0.1, options.get(TIMEOUT) / 1000),
    )


def library() -> Any:
    """The client (pika). Raises ConnectorError E3256."""
    try:
        import pika
    except ImportError as error:
        raise ConnectorError(
            "the client of RabbitMQ is not installed", code="E3256", hint="pip install 'sqlengine[rabbitmq]'"
        ) from error
    return pika


def parameters(address: Address) -> Any:
    """For connections of the client. There are no heartbeats: nobody answers them while rows wait to be taken; TCP tells of a
    server that is gone."""
    pika = library()
    options: Any = None
    if address.encrypted:
        options = pika.SSLOptions(ssl.create_default_context(cafile=address.root or None), address.host)
    return pika.ConnectionParameters(
        address.host,
        address.port,
        address.vhost,
        pika.PlainCredentials(address.user, address.password.reveal()),
        heartbeat=0,
        ssl_options=options,
        socket_timeout=address.timeout,
        stack_timeout=address.timeout,
        blocked_connection_timeout=address.timeout,
        tcp_options={"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6},
        client_properties={"connection_name": "sqlengine"},
    )


@contextmanager
def telling(address: Address, what: str) -> Generator[None]:
    """Errors of the client in our words; `what`: for messages. Raises UnavailableError E3150 for what passes, ConnectorError
    E3257 for what is refused."""
    errors = library().exceptions
    try:
        yield
    except (errors.ProbableAuthenticationError, errors.ProbableAccessDeniedError, errors.AuthenticationError) as error:
        raise ConnectorError(
            f"{what}: RabbitMQ at {address} refuses the connection",
            code="E3257",
            hint="check the options 'username' and 'password', and the virtual host at the end of 'url'",
        ) from error
    except errors.ChannelClosedByBroker as error:
        if "timed out" in error.reply_text:
            # Nothing was acknowledged for longer than the server waits; it gives the messages again.
            raise UnavailableError(f"{what}: RabbitMQ at {address}: {error.reply_text}") from error
        raise ConnectorError(
            f"{what}: RabbitMQ at {address}: {error.reply_text}",
            code="E3257",
            hint="the message is RabbitMQ's own: is the queue there, is it a stream, and what may the user do?",
        ) from error
    except ssl.SSLError as error:
        raise ConnectorError(
            f"{what}: RabbitMQ at {address}: {error}",
            code="E3257",
            hint="set 'ssl-root-cert-path' to a file of certificates (PEM)",
        ) from error
    except (errors.AMQPError, OSError, TimeoutError) as error:
        text = str(error) or type(error).__name__
        raise UnavailableError(
            f"{what}: RabbitMQ at {address}: {text}", hint="is the server there, and reachable from here?"
        ) from error


@contextmanager
def connected(address: Address, what: str) -> Generator[Any]:
    """A channel (pika's `BlockingChannel`) while it is open; errors as `telling` tells them."""
    pika = library()
    with telling(address, what):
        connection = pika.BlockingConnection(parameters(address))
        try:
            yield connection.channel()
        finally:
            if connection.is_open:
                connection.close()
