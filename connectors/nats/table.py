"""The connector `nats`: a stream of NATS JetStream as source and sink."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from connectors.databases.options import GUARANTEE, Delivering, read_delivering
from connectors.databases.writing import EpochWriter
from connectors.formats.message_table import format_prefixes
from connectors.kit.commits import SPOOL_SIZE, CommittingWriter
from connectors.kit.message_source import MessageSource, messages_of
from connectors.kit.prefetch import Fetched
from connectors.nats.address import ADDRESS_OPTIONS, Address, read_address
from connectors.nats.commits import NatsCommits, NatsMessages
from connectors.nats.reading import METADATA, read_messages
from connectors.options import FORMAT, MAX_RECORD, TableOptions
from runtime.core.errors import OptionError
from runtime.core.options import text_option
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.sink import Delivery
from runtime.spi.writer import SinkWriter

__all__ = ["NATS", "OPTIONS", "NatsTable"]

STREAM = text_option("stream", "", "the name of the stream, which must be there")
SUBJECT = text_option(
    "subject",
    "",
    "the subject of messages; what is read may have wildcards, such as 'orders.*'; without it all of the stream",
)
STARTS = text_option("scan.startup.mode", "earliest", "where the stream is read from", ("earliest", "latest"))
ENDS = text_option(
    "scan.bounded.mode",
    "unbounded",
    "'latest': reading ends with what is there when it begins",
    ("unbounded", "latest"),
)
OPTIONS = (*ADDRESS_OPTIONS, STREAM, SUBJECT, STARTS, ENDS, FORMAT, MAX_RECORD, GUARANTEE, SPOOL_SIZE)


@dataclass(frozen=True, kw_only=True)
class NatsTable(MessageSource):
    """Messages of a stream. It opens nothing by itself.

    Attributes:
        subject: of the messages; empty for all of the stream.
    """

    SPLIT = "stream"

    address: Address
    stream: str
    subject: str
    delivering: Delivering

    def place(self) -> str:
        """For messages and lineage."""
        subject = f", {self.subject}" if self.subject else ""
        return f"{self.name} (stream {self.stream}{subject} of {self.address})"

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"connector": "nats", "columns": list(self.schema.names)}
        options = {"servers": str(self.address), "stream": self.stream, "format": self.format.name}
        return {**described, "options": {**options, **({"subject": self.subject} if self.subject else {})}}

    def fetch(self, position: Any, stop: threading.Event) -> Iterator[Fetched]:
        """See `Fetching`."""
        return read_messages(self, position, stop)

    # --- what is written

    @property
    def target(self) -> str:
        """The subject that is written. Raises OptionError."""
        if not self.subject or "*" in self.subject or ">" in self.subject:
            raise OptionError(
                f"{self.name} is written, and needs the option 'subject' without wildcards", hint="such as 'orders.new'"
            )
        return self.subject

    @property
    def writing(self) -> NatsTable:
        """What reads the messages that are written."""
        return replace(self, subject=self.target)

    @property
    def delivery(self) -> Delivery:
        return "exactly-once" if self.delivering.exactly_once else "at-least-once"

    def open_writer(self, job: str) -> SinkWriter:
        if self.delivering.exactly_once:
            commits = NatsCommits(self, job)
            return CommittingWriter(self.name, self.schema.names, commits, most=self.delivering.spool)
        return EpochWriter(self.name, NatsMessages(self))


def _table(request: TableRequest, *, writes: bool = False) -> NatsTable:
    """The table that options describe; raises OptionError and UnsupportedError."""
    options = TableOptions(request.options, "connector 'nats'", OPTIONS, format_prefixes(request))
    stream = options.required(STREAM)
    if any(c in stream for c in ".*> \t\r\n/\\"):
        raise OptionError(
            f"option 'stream' is no name of a stream: '{stream}'", hint="names have no blanks, '.', '*' and '>'"
        )
    subject = options.get(SUBJECT)
    if any(c.isspace() for c in subject):
        raise OptionError("option 'subject' has blanks", hint="such as 'orders.new'")
    table = NatsTable(
        **messages_of("nats", request, options, STARTS, ENDS, writes=writes),
        address=read_address(options),
        stream=stream,
        subject=subject,
        delivering=read_delivering(options),
    )
    return table.writing if writes else table


NATS = ConnectorFactory(
    name="nats",
    document="streams of NATS JetStream: bounded, or without an end; written exactly once",
    source=_table,
    sink=lambda request: _table(request, writes=True),
    metadata=METADATA,
    options=OPTIONS,
)
