"""The connector `rabbitmq`: queues and streams of RabbitMQ as source, an exchange or a queue as sink."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from connectors.databases.writing import EpochWriter
from connectors.formats.message_table import format_prefixes, message_format
from connectors.kit.prefetch import PrefetchingReader
from connectors.options import FORMAT, MAX_RECORD, TableOptions, memory_limit, physical_part
from connectors.rabbitmq.address import ADDRESS_OPTIONS, Address, read_address
from connectors.rabbitmq.messages import METADATA
from connectors.rabbitmq.queueing import QueueReader
from connectors.rabbitmq.sending import RabbitMessages
from connectors.rabbitmq.streaming import read_stream
from runtime.core.changelog import ChangelogMode
from runtime.core.errors import OptionError
from runtime.core.options import bool_option, text_option
from runtime.core.schema import Schema
from runtime.spi.format import Format
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.sink import Delivery
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics
from runtime.spi.writer import SinkWriter

__all__ = ["OPTIONS", "RABBITMQ", "RabbitTable"]

QUEUE = text_option("queue", "", "the queue or stream, which must be there; written to, where no exchange is named")
KIND = text_option("queue-type", "queue", "'stream': it is a stream, which is read by offsets", ("queue", "stream"))
CORRELATION = bool_option(
    "use-correlation-id", False, "true or false: messages are known by their correlation id, not by their message id"
)
EXCHANGE = text_option("exchange", "", "the exchange that messages are sent to")
KEY = text_option("routing-key", "", "the routing key of messages that are sent; without an exchange it is the queue")
STARTS = text_option(
    "scan.startup.mode", "earliest", "where a stream is read from; a queue has no other place", ("earliest", "latest")
)
ENDS = text_option(
    "scan.bounded.mode",
    "unbounded",
    "'latest': reading ends with what is there when it begins, and takes nothing away",
    ("unbounded", "latest"),
)
OPTIONS = (*ADDRESS_OPTIONS, QUEUE, KIND, CORRELATION, EXCHANGE, KEY, STARTS, ENDS, FORMAT, MAX_RECORD)
_LONGEST = 255


@dataclass(frozen=True)
class RabbitTable:
    """Messages of a queue or stream. It opens nothing by itself.

    Attributes:
        schema, value, metadata, most: see `MessageTable`.
    """

    schema: Schema
    primary_key: tuple[str, ...]
    value: Schema
    metadata: tuple[tuple[str, str], ...]
    name: str
    address: Address
    queue: str
    is_stream: bool
    use_correlation_id: bool
    exchange: str
    routing_key: str
    starts: str
    ends: str
    most: int
    time_zone: str
    format: Format = field(compare=False)

    def place(self) -> str:
        """For messages and lineage."""
        what = f"{'stream' if self.is_stream else 'queue'} {self.queue}" if self.queue else f"exchange {self.exchange}"
        return f"{self.name} ({what} of {self.address})"

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"connector": "rabbitmq", "columns": list(self.schema.names)}
        options = {"server": str(self.address), "queue": self.queue, "exchange": self.exchange}
        return {**described, "options": {**{k: v for k, v in options.items() if v}, "format": self.format.name}}

    # --- what is read

    @property
    def changelog_mode(self) -> ChangelogMode:
        return self.format.changelog_mode

    @property
    def bounded(self) -> bool:
        return self.ends == "latest"

    @property
    def readable_again(self) -> bool:
        """See `SupportsRereading`: of a queue, nobody gets what another one has."""
        return self.is_stream

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        return [Split("queue")]

    def watch_splits(self, wake: object) -> Any:
        """There is never another one."""
        return lambda: None

    def open(self, split: Split, context: ReadContext) -> PrefetchingReader:
        if self.is_stream:
            return PrefetchingReader(self.place(), functools.partial(read_stream, self), context, bounded=self.bounded)
        return QueueReader(self, context)

    def with_columns(self, names: Sequence[str]) -> RabbitTable:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

    # --- what is written

    @property
    def delivery(self) -> Delivery:
        return "at-least-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return self.format.changelog_mode

    def open_writer(self, job: str) -> SinkWriter:
        return EpochWriter(self.name, RabbitMessages(self))


def _table(request: TableRequest, *, writes: bool = False) -> RabbitTable:
    """The table that options describe; raises OptionError and UnsupportedError."""
    options = TableOptions(request.options, "connector 'rabbitmq'", OPTIONS, format_prefixes(request))
    exchange, key = options.get(EXCHANGE), options.get(KEY)
    queue = options.get(QUEUE) if writes and (exchange or key) else options.required(QUEUE)
    for name in (queue, exchange, key):
        if len(name.encode()) > _LONGEST:
            raise OptionError(f"'{name[:40]}..' is longer than names of RabbitMQ: {_LONGEST} bytes")
    if writes and request.metadata:
        raise OptionError(
            f"connector 'rabbitmq' cannot write metadata column '{request.metadata[0][1]}'", hint="declare it VIRTUAL"
        )
    return RabbitTable(
        request.schema,
        request.primary_key,
        physical_part(request),
        request.metadata,
        request.name,
        read_address(options),
        queue,
        options.get(KIND).lower() == "stream",
        options.get(CORRELATION),
        exchange,
        key or ("" if exchange else queue),
        options.get(STARTS).lower(),
        options.get(ENDS).lower(),
        memory_limit(options, MAX_RECORD),
        request.time_zone,
        message_format(request, options, writes=writes),
    )


RABBITMQ = ConnectorFactory(
    name="rabbitmq",
    document="queues and streams of RabbitMQ; messages are acknowledged behind checkpoints, and written at least once",
    source=_table,
    sink=lambda request: _table(request, writes=True),
    metadata=METADATA,
    options=OPTIONS,
)
