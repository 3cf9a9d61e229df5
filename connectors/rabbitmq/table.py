"""The connector `rabbitmq`: queues and streams of RabbitMQ as source, an exchange or a queue as sink."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from connectors.databases.writing import EpochWriter
from connectors.formats.message_table import format_prefixes
from connectors.kit.message_source import MessageSource, messages_of
from connectors.kit.prefetch import Fetched
from connectors.options import FORMAT, MAX_RECORD, TableOptions
from connectors.rabbitmq.address import ADDRESS_OPTIONS, Address, read_address
from connectors.rabbitmq.messages import METADATA
from connectors.rabbitmq.queueing import QueueReader
from connectors.rabbitmq.sending import RabbitMessages
from connectors.rabbitmq.streaming import read_stream
from runtime.core.errors import OptionError
from runtime.core.options import bool_option, text_option
from runtime.spi.reader import ReadContext, SourceReader
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.sink import Delivery
from runtime.spi.source import Split
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


@dataclass(frozen=True, kw_only=True)
class RabbitTable(MessageSource):
    """Messages of a queue or stream. It opens nothing by itself."""

    SPLIT = "queue"

    address: Address
    queue: str
    is_stream: bool
    use_correlation_id: bool
    exchange: str
    routing_key: str

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
    def readable_again(self) -> bool:
        """See `SupportsRereading`: of a queue, nobody gets what another one has."""
        return self.is_stream

    def fetch(self, position: Any, stop: threading.Event) -> Iterator[Fetched]:
        """See `Fetching`; of a stream."""
        return read_stream(self, position, stop)

    def open(self, split: Split, context: ReadContext) -> SourceReader:
        return super().open(split, context) if self.is_stream else QueueReader(self, context)

    # --- what is written

    @property
    def delivery(self) -> Delivery:
        return "at-least-once"

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
    return RabbitTable(
        **messages_of("rabbitmq", request, options, STARTS, ENDS, writes=writes),
        address=read_address(options),
        queue=queue,
        is_stream=options.get(KIND).lower() == "stream",
        use_correlation_id=options.get(CORRELATION),
        exchange=exchange,
        routing_key=key or ("" if exchange else queue),
    )


RABBITMQ = ConnectorFactory(
    name="rabbitmq",
    document="queues and streams of RabbitMQ; messages are acknowledged behind checkpoints, and written at least once",
    source=_table,
    sink=lambda request: _table(request, writes=True),
    metadata=METADATA,
    options=OPTIONS,
)
