"""The connector `mqtt`: messages of a server of MQTT as source and sink."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from connectors.databases.writing import EpochWriter
from connectors.formats.message_table import format_prefixes
from connectors.kit.journal import opened_journal
from connectors.kit.journal_reading import ENDS, KEEP, SPOOL, SPOOL_SIZE, STARTS, journal_rows, spool_of
from connectors.kit.message_source import MessageSource, messages_of
from connectors.kit.prefetch import Fetched
from connectors.mqtt.address import ADDRESS_OPTIONS, Address, read_address
from connectors.mqtt.sending import MqttMessages
from connectors.mqtt.session import KeptMessage, Subscription, kept_messages, receiving
from connectors.options import FORMAT, MAX_RECORD, TableOptions
from runtime.core.errors import OptionError
from runtime.core.options import bool_option, text_option
from runtime.core.types import BIGINT, BOOLEAN, INT, STRING, timestamp_ltz
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.sink import Delivery
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


@dataclass(frozen=True, kw_only=True)
class MqttTable(MessageSource):
    """Messages of topics. It opens nothing by itself.

    Attributes:
        client, folder: of the session; empty for a table that is only written.
        keep: seconds; spool: bytes.
        qos: None where it is what is usual.
    """

    SPLIT = "journal"

    address: Address
    topics: tuple[str, ...]
    client: str
    folder: str
    keep: float
    spool: int
    qos: int | None
    retained: bool

    def place(self) -> str:
        """For messages and lineage."""
        return f"{self.name} (topic {';'.join(self.topics)} of {self.address})"

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"connector": "mqtt", "columns": list(self.schema.names)}
        options = {"server": str(self.address), "topic": ";".join(self.topics), "format": self.format.name}
        return {**described, "options": {**options, **({"client": self.client} if self.client else {})}}

    # --- what is read

    def fetch(self, position: Any, stop: threading.Event) -> Iterator[Fetched]:
        """See `Fetching`."""
        folder = Path(self.folder)
        with opened_journal(folder, self.keep, self.spool) as journal:
            if self.bounded:
                yield from journal_rows(self, journal, position, stop, kept_messages, _metadata)
                return
            with receiving(folder, journal, self.subscription) as session:
                yield from journal_rows(self, journal, position, stop, kept_messages, _metadata, session.check)

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

    def open_writer(self, job: str) -> SinkWriter:
        return EpochWriter(self.name, MqttMessages(self))


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
    client, folder, keep, most = options.get(CLIENT), "", 0.0, 0
    if not writes:
        folder, keep, most = spool_of(options)
        client = options.required(CLIENT)
    return MqttTable(
        **messages_of("mqtt", request, options, STARTS, ENDS, writes=writes),
        address=read_address(options),
        topics=_topics(options.required(TOPIC), writes=writes),
        client=client,
        folder=folder,
        keep=keep,
        spool=most,
        qos=int(options.get(QOS)) if options.get(QOS) else None,
        retained=options.get(RETAIN),
    )


MQTT = ConnectorFactory(
    name="mqtt",
    document="messages of MQTT: kept in a folder before they are acknowledged; written at least once",
    source=_table,
    sink=lambda request: _table(request, writes=True),
    metadata=METADATA,
    options=OPTIONS,
)
