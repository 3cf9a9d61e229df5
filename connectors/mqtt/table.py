"""The connector `mqtt`: messages of a server of MQTT as source and sink."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from connectors.databases.writing import EpochWriter
from connectors.formats.message_table import format_prefixes, message_format
from connectors.kit.journal import opened_journal
from connectors.kit.journal_reading import ENDS, KEEP, SPOOL, SPOOL_SIZE, STARTS, journal_rows, spool_of
from connectors.kit.prefetch import Fetched, PrefetchingReader
from connectors.mqtt.address import ADDRESS_OPTIONS, Address, read_address
from connectors.mqtt.sending import MqttMessages
from connectors.mqtt.session import KeptMessage, Subscription, kept_messages, receiving
from connectors.options import FORMAT, MAX_RECORD, TableOptions, memory_limit, physical_part
from runtime.core.changelog import ChangelogMode
from runtime.core.errors import OptionError
from runtime.core.options import bool_option, text_option
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BOOLEAN, INT, STRING, timestamp_ltz
from runtime.spi.format import Format
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.sink import Delivery
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics
from runtime.spi.writer import SinkWriter

if TYPE_CHECKING:
    import threading

__all__ = ["MQTT", "OPTIONS", "MqttTable"]

TOPIC = text_option(
    "topic",
    "",
    "the topic of messages; what is read may have wildcards, such as 'plant/+/heat', and several are separated by ';'",
)
CLIENT = text_option("client-id", "", "the name under which the server keeps what is not read yet; of this table alone")
QOS = text_option(
    "qos", "", "quality of service: what is read is asked for with 2, what is written with 1", ("0", "1", "2")
)
RETAIN = bool_option(
    "retain", False, "whether the server keeps the newest message that is written, for who subscribes later"
)
OPTIONS = (
    *ADDRESS_OPTIONS, TOPIC, CLIENT, QOS, RETAIN, SPOOL, KEEP, SPOOL_SIZE, STARTS, ENDS, FORMAT, MAX_RECORD,
)  # fmt: skip
METADATA = {
    "topic": STRING.not_null(),
    "number": BIGINT.not_null(),
    "timestamp": timestamp_ltz(3).not_null(),
    "qos": INT.not_null(),
    "retained": BOOLEAN.not_null(),
}


@dataclass(frozen=True)
class MqttTable:
    """Messages of topics. It opens nothing by itself.

    Attributes:
        schema, value, metadata, most: see `MessageTable`.
        client, folder: of the session; empty for a table that is only written.
        keep: seconds; spool: bytes.
        qos: None where it is what is usual.
    """

    schema: Schema
    primary_key: tuple[str, ...]
    value: Schema
    metadata: tuple[tuple[str, str], ...]
    name: str
    address: Address
    topics: tuple[str, ...]
    client: str
    folder: str
    keep: float
    spool: int
    qos: int | None
    retained: bool
    starts: str
    ends: str
    most: int
    time_zone: str
    format: Format = field(compare=False)

    def place(self) -> str:
        """For messages and lineage."""
        return f"{self.name} (topic {';'.join(self.topics)} of {self.address})"

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"connector": "mqtt", "columns": list(self.schema.names)}
        options = {"server": str(self.address), "topic": ";".join(self.topics), "format": self.format.name}
        return {**described, "options": {**options, **({"client": self.client} if self.client else {})}}

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
        return [Split("journal")]

    def watch_splits(self, wake: object) -> Any:
        """There is never another one."""
        return lambda: None

    def open(self, split: Split, context: ReadContext) -> PrefetchingReader:
        return PrefetchingReader(self.place(), functools.partial(_read, self), context, bounded=self.bounded)

    def with_columns(self, names: Sequence[str]) -> MqttTable:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

    @property
    def subscription(self) -> Subscription:
        """What is received for the table."""
        return Subscription(self.address, self.client, self.topics, 2 if self.qos is None else self.qos, self.most)

    # --- what is written

    @property
    def sent_qos(self) -> int:
        """The quality of service of what is written."""
        return 1 if self.qos is None else self.qos

    @property
    def delivery(self) -> Delivery:
        return "at-least-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return self.format.changelog_mode

    def open_writer(self, job: str) -> SinkWriter:
        return EpochWriter(self.name, MqttMessages(self))


def _read(table: MqttTable, position: Any, stop: threading.Event) -> Iterator[Fetched]:
    """See `Fetching`."""
    folder = Path(table.folder)
    with opened_journal(folder, table.keep, table.spool) as journal:
        if table.bounded:
            yield from journal_rows(table, journal, position, stop, kept_messages, _metadata)
            return
        with receiving(folder, journal, table.subscription) as session:
            yield from journal_rows(table, journal, position, stop, kept_messages, _metadata, session.check)


def _metadata(messages: Sequence[KeptMessage], key: str) -> pa.Array:
    type_ = METADATA[key].arrow
    match key:
        case "number":
            return pa.array(np.array([m.number for m in messages], np.int64), type_)
        case "timestamp":
            micros = pa.array(np.array([m.at for m in messages], np.int64)).cast(pa.timestamp("us", "UTC"))
            return micros.cast(type_, safe=False)
        case "qos":
            return pa.array([m.qos for m in messages], type_)
        case "retained":
            return pa.array([m.retained for m in messages], type_)
        case _:
            return pa.array([m.topic for m in messages], type_)


def _topics(given: str, *, writes: bool) -> tuple[str, ...]:
    """Raises OptionError for what is no topic."""
    topics = tuple(topic.strip() for topic in given.split(";"))
    for topic in topics:
        levels = topic.split("/")
        wrong = [
            x
            for i, x in enumerate(levels)
            if ("+" in x and x != "+") or ("#" in x and (x != "#" or i < len(levels) - 1))
        ]
        if not topic or wrong or "\0" in topic or len(topic.encode()) > 65_535:
            raise OptionError(
                f"option 'topic' is no topic of MQTT: '{topic}'", hint="such as 'plant/heat' or 'plant/+/heat'"
            )
        if writes and ("+" in topic or "#" in topic or len(topics) > 1):
            raise OptionError(
                "a table that is written needs one 'topic' without wildcards", hint="such as 'plant/alarms'"
            )
    return topics


def _table(request: TableRequest, *, writes: bool = False) -> MqttTable:
    """The table that options describe; raises OptionError and UnsupportedError."""
    options = TableOptions(request.options, "connector 'mqtt'", OPTIONS, format_prefixes(request))
    if writes and request.metadata:
        raise OptionError(
            f"connector 'mqtt' cannot write metadata column '{request.metadata[0][1]}'", hint="declare it VIRTUAL"
        )
    client, folder, keep, most = options.get(CLIENT), "", 0.0, 0
    if not writes:
        folder, keep, most = spool_of(options)
        client = options.required(CLIENT)
    return MqttTable(
        request.schema,
        request.primary_key,
        physical_part(request),
        request.metadata,
        request.name,
        read_address(options),
        _topics(options.required(TOPIC), writes=writes),
        client,
        folder,
        keep,
        most,
        int(options.get(QOS)) if options.get(QOS) else None,
        options.get(RETAIN),
        options.get(STARTS).lower(),
        options.get(ENDS).lower(),
        memory_limit(options, MAX_RECORD),
        request.time_zone,
        message_format(request, options, writes=writes),
    )


MQTT = ConnectorFactory(
    name="mqtt",
    document="messages of MQTT: kept in a folder before they are acknowledged; written at least once",
    source=_table,
    sink=lambda request: _table(request, writes=True),
    metadata=METADATA,
    options=OPTIONS,
)
