"""The connector `webhook`: what others send over HTTP, as a source."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from connectors.formats.message_rows import MessageRows
from connectors.formats.message_table import format_prefixes
from connectors.kit.journal import Message, opened_journal
from connectors.kit.journal_reading import ENDS, KEEP, SPOOL, SPOOL_SIZE, STARTS, journal_rows, spool_of
from connectors.kit.message_source import MessageSource, messages_of
from connectors.kit.prefetch import Fetched
from connectors.options import FORMAT, MAX_RECORD, TableOptions
from connectors.webhook.listening import Listening, Route, routed
from runtime.core.errors import OptionError
from runtime.core.options import bool_option, text_option
from runtime.core.secrets import Secret
from runtime.core.types import BIGINT, STRING, timestamp_ltz
from runtime.spi.format import Payloads
from runtime.spi.registry import ConnectorFactory, TableRequest

if TYPE_CHECKING:
    import threading

__all__ = ["OPTIONS", "WEBHOOK", "WebhookTable"]

LISTEN = text_option("listen.address", "127.0.0.1:8088", "where it listens, host and port; by default for this machine")
ROUTE = text_option("route", "/", "the path that requests go to, such as '/orders'")
TOKEN = text_option(
    "token", "", "what requests bear, 'Authorization: Bearer ..'; needed unless only this machine can send"
)
CERTIFICATE = text_option("ssl-certificate-path", "", "the file of the certificate (PEM), for TLS")
KEY = text_option("ssl-key-path", "", "the file of its key (PEM), when it is another one")
HEADER = text_option(
    "idempotency.header", "Idempotency-Key", "has the key of a request; one that is known is not taken twice"
)
NEEDS = bool_option("idempotency.required", False, "whether requests without a key are refused")
OPTIONS = (
    LISTEN, ROUTE, TOKEN, CERTIFICATE, KEY, SPOOL, KEEP, SPOOL_SIZE, HEADER, NEEDS, STARTS, ENDS, FORMAT, MAX_RECORD,
)  # fmt: skip
METADATA = {
    "number": BIGINT.not_null(),
    "timestamp": timestamp_ltz(3).not_null(),
    "idempotency-key": STRING,
}
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+):(?P<port>\d{1,5})")
_ROUTE = re.compile(r"/[A-Za-z0-9._~/-]*")


@dataclass(frozen=True, kw_only=True)
class WebhookTable(MessageSource):
    """What was taken. It opens nothing by itself.

    Attributes:
        keep: seconds; spool: bytes.
    """

    SPLIT = "journal"

    listening: Listening
    route: str
    token: Secret
    folder: str
    keep: float
    spool: int
    header: str
    needs_key: bool

    def place(self) -> str:
        """For messages and lineage."""
        return f"{self.name} ({self.listening}{self.route})"

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"connector": "webhook", "columns": list(self.schema.names)}
        options = {"listens": str(self.listening), "route": self.route, "spool": self.folder}
        return {**described, "options": {**options, "format": self.format.name}}

    def fetch(self, position: Any, stop: threading.Event) -> Iterator[Fetched]:
        """See `Fetching`. A position is the folder's id, where reading is, and the number before which it ends, or null."""
        with opened_journal(Path(self.folder), self.keep, self.spool) as journal:
            route = Route(
                self.route, self.token, self.header, self.needs_key, self.most, _checking(self), journal.knows,
                journal.has_room, journal.append,
            )  # fmt: skip
            with nullcontext() if self.bounded else routed(self.listening, route):
                yield from journal_rows(self, journal, position, stop, list, _metadata)


def _checking(table: WebhookTable) -> Callable[[bytes], str | None]:
    """Tells why a body is no message of the table; None for one that is. For one thread."""
    rows = MessageRows.of(table.format, table.value, table.value.names, table.time_zone, table.most)

    def malformed(body: bytes) -> str | None:
        decoded = rows.decode(Payloads.of(pa.array([body], pa.large_binary())))
        return decoded.rejected[0][1].reason if decoded.rejected else None

    return malformed


def _metadata(messages: Sequence[Message], key: str) -> pa.Array:
    type_ = METADATA[key].arrow
    match key:
        case "number":
            return pa.array(np.array([m.number for m in messages], np.int64), type_)
        case "timestamp":
            micros = pa.array(np.array([m.at for m in messages], np.int64)).cast(pa.timestamp("us", "UTC"))
            return micros.cast(type_, safe=False)
        case _:
            return pa.array([m.key or None for m in messages], type_)


def _listening(options: TableOptions) -> Listening:
    """Raises OptionError for what is no address, or one that others reach without a token."""
    found = _ADDRESS.fullmatch(options.get(LISTEN))
    if found is None or not 0 < int(found["port"]) < 65536:
        raise OptionError("option 'listen.address' is no host and port", hint="such as '127.0.0.1:8088'")
    host = found["host"].strip("[]")
    if not options.get(TOKEN) and not _is_loopback(host):
        raise OptionError(
            f"whoever reaches {host} could send rows: option 'token' is missing",
            code="E1504",
            hint="set it to '${secret:name}', or listen at 127.0.0.1",
        )
    return Listening(host, int(found["port"]), options.get(CERTIFICATE), options.get(KEY))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _table(request: TableRequest) -> WebhookTable:
    """The table that options describe; raises OptionError and UnsupportedError."""
    options = TableOptions(request.options, "connector 'webhook'", OPTIONS, format_prefixes(request))
    folder, keep, most = spool_of(options)
    route = options.get(ROUTE)
    if _ROUTE.fullmatch(route) is None:
        raise OptionError("option 'route' is no path", hint="such as '/orders'")
    header = options.get(HEADER)
    if re.fullmatch(r"[A-Za-z0-9-]+", header) is None:
        raise OptionError("option 'idempotency.header' is no name of a header", hint="such as 'Idempotency-Key'")
    return WebhookTable(
        **messages_of("webhook", request, options, STARTS, ENDS),
        listening=_listening(options),
        route=route,
        token=options.secret(TOKEN),
        folder=folder,
        keep=keep,
        spool=most,
        header=header,
        needs_key=options.get(NEEDS),
    )


WEBHOOK = ConnectorFactory(
    name="webhook",
    document="what others send over HTTP: kept in a folder before it is acknowledged, each request once by its key",
    source=_table,
    metadata=METADATA,
    options=OPTIONS,
)
