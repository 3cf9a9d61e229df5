"""The connector `nats`: a stream of NATS JetStream as source and sink."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from connectors.databases.options import GUARANTEE, Delivering, read_delivering
from connectors.databases.writing import EpochWriter
from connectors.formats.message_table import format_prefixes, message_format
from connectors.kit.commits import SPOOL_SIZE, CommittingWriter
from connectors.kit.prefetch import PrefetchingReader
from connectors.nats.address import ADDRESS_OPTIONS, Address, read_address
from connectors.nats.commits import NatsCommits, NatsMessages
from connectors.nats.reading import METADATA, read_messages
from connectors.options import FORMAT, MAX_RECORD, TableOptions, memory_limit, physical_part
from runtime.core.changelog import ChangelogMode
from runtime.core.errors import OptionError
from runtime.core.options import text_option
from runtime.core.schema import Schema
from runtime.spi.format import Format
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.sink import Delivery
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics
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


@dataclass(frozen=True)
class NatsTable:
    """Messages of a stream. It opens nothing by itself.

    Attributes:
        schema: the columns to give; value: all that messages hold.
        subject: of the messages; empty for all of the stream.
        metadata: (column, metadata key).
        most: a message of more bytes is malformed.
    """

    schema: Schema
    primary_key: tuple[str, ...]
    value: Schema
    metadata: tuple[tuple[str, str], ...]
    name: str
    address: Address
    stream: str
    subject: str
    starts: str
    ends: str
    most: int
    delivering: Delivering
    time_zone: str
    format: Format = field(compare=False)

    def place(self) -> str:
        """For messages and lineage."""
        subject = f", {self.subject}" if self.subject else ""
        return f"{self.name} (stream {self.stream}{subject} of {self.address})"

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"connector": "nats", "columns": list(self.schema.names)}
        options = {"servers": str(self.address), "stream": self.stream, "format": self.format.name}
        return {**described, "options": {**options, **({"subject": self.subject} if self.subject else {})}}

    # --- what is read

    @property
    def changelog_mode(self) -> ChangelogMode:
        return self.format.changelog_mode

    @property
    def bounded(self) -> bool:
        return self.ends == "latest"

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        return [Split("stream")]

    def watch_splits(self, wake: object) -> Any:
        """There is never another one."""
        return lambda: None

    def open(self, split: Split, context: ReadContext) -> PrefetchingReader:
        return PrefetchingReader(self.place(), functools.partial(read_messages, self), context, bounded=self.bounded)

    def with_columns(self, names: Sequence[str]) -> NatsTable:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

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

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return self.format.changelog_mode

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
    format_ = message_format(request, options, writes=writes)
    if writes and request.metadata:
        raise OptionError(
            f"connector 'nats' cannot write metadata column '{request.metadata[0][1]}'", hint="declare it VIRTUAL"
        )
    table = NatsTable(
        request.schema,
        request.primary_key,
        physical_part(request),
        request.metadata,
        request.name,
        read_address(options),
        stream,
        subject,
        options.get(STARTS).lower(),
        options.get(ENDS).lower(),
        memory_limit(options, MAX_RECORD),
        read_delivering(options),
        request.time_zone,
        format_,
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
