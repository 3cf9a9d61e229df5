"""librdkafka's clients, made with the properties of a table, and its errors in our words."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from connectors.kafka.options import Place
from runtime.core.errors import ConnectorError, FencedError, OptionError, UnavailableError

__all__ = [
    "ANSWER_SECONDS",
    "assigned",
    "commit",
    "consumer",
    "consumer_settings",
    "failure",
    "is_end",
    "is_fatal",
    "is_gone",
    "known_end",
    "library",
    "list_partitions",
    "mark",
    "marked",
    "offset_of",
    "offsets_there",
    "producer",
    "refused_properties",
    "told",
    "transactional_producer",
]

ANSWER_SECONDS = 20.0
"""How long a broker may take to answer."""
_ARE_THEY_THERE = "are the brokers there, and is 'properties.bootstrap.servers' what they are called from here?"
_PASSING = (
    "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE", "_MSG_TIMED_OUT", "_WAIT_COORD", "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "UNSTABLE_OFFSET_COMMIT", "CONCURRENT_TRANSACTIONS",
    "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "NOT_ENOUGH_REPLICAS",
)  # fmt: skip
"""Errors that the client does not mark as such, and that pass: brokers that start, change their part, or are away."""
_TRANSACTION_MILLIS = 600_000
_OF_CONSUMERS = ("group.id", "auto.offset.reset", "isolation.level")


def library() -> Any:
    """The Python client; raises ConnectorError E3130 where it is not installed."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise ConnectorError(
            "the Python client of Kafka is not installed", code="E3130", hint="pip install 'sqlengine[kafka]'"
        ) from error
    return confluent_kafka


@contextmanager
def told(servers: str) -> Generator[None]:
    """Errors of the client as ConnectorError E3131, or as what says more: UnavailableError E3131 what may work later,
    FencedError E3413 what a newer producer has the place of."""
    confluent = library()
    try:
        yield
    except confluent.KafkaException as error:
        told = error.args[0]
        text = f"Kafka at {servers}: {told.str() if hasattr(told, 'str') else error}"
        if not hasattr(told, "code"):
            raise ConnectorError(text, code="E3131", hint=_ARE_THEY_THERE) from error
        if told.code() in (confluent.KafkaError._FENCED, confluent.KafkaError.PRODUCER_FENCED):
            raise FencedError(
                text, hint="another run of this job writes, or a transaction took longer than 'transaction.timeout.ms'"
            ) from error
        passing = (
            told.retriable()
            or told.txn_requires_abort()
            or told.code() in {getattr(confluent.KafkaError, name) for name in _PASSING}
        )
        kind = UnavailableError if passing else ConnectorError
        raise kind(text, code="E3131", hint=_ARE_THEY_THERE) from error


def refused_properties(text: str) -> OptionError:
    """The error for properties that the client does not take, for a reason."""
    return OptionError(
        f"the client of Kafka does not take these properties: {text}",
        hint="they are those of librdkafka, which for the most part are called as in Java",
    )


def failure(code: int, text: str) -> Exception:
    """The error of the client for a code of librdkafka, as `told` knows it."""
    confluent = library()
    return confluent.KafkaException(confluent.KafkaError(code, text))


def _made(kind: str, properties: Mapping[str, Any], ours: Mapping[str, Any]) -> Any:
    confluent = library()
    try:
        return getattr(confluent, kind)({**properties, **ours}, logger=_SILENT)
    except confluent.KafkaException as error:
        raise refused_properties(error.args[0].str()) from error


class _Silent:
    """The client's log: what matters comes as errors."""

    def log(self, *told: Any, **more: Any) -> None:
        """Drops it."""


_SILENT = _Silent()


def consumer_settings(properties: Mapping[str, str], isolation: str = "read_committed") -> dict[str, Any]:
    """The properties of a consumer that reads what it is assigned, from offsets that are known."""
    ours = {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        # An offset that is gone is told: rows between it and the first that is there would be missed.
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": int(properties.get("fetch.wait.max.ms", 100)),
        "fetch.queue.backoff.ms": 20,
    }
    return {"isolation.level": isolation, **{k: v for k, v in properties.items() if k not in ours}, **ours}


def consumer(properties: Mapping[str, str], *, isolation: str = "read_committed") -> Any:
    """A consumer with these settings, as an object of Python."""
    return _made("Consumer", consumer_settings(properties, isolation), {})


def producer(properties: Mapping[str, str], *, errors: list[str]) -> Any:
    """A producer that loses nothing and keeps the order of a partition. `errors`: gets what could not be delivered."""

    def note(error: Any, message: Any) -> None:
        if error is not None:
            errors.append(error.str())

    given = {k: v for k, v in properties.items() if k not in _OF_CONSUMERS}
    defaults: dict[str, Any] = {"enable.idempotence": True, "linger.ms": 5, "partitioner": "murmur2_random"}
    return _made("Producer", {**defaults, **given}, {"delivery.report.only.error": True, "on_delivery": note})


def transactional_producer(properties: Mapping[str, str], name: str) -> Any:
    """A producer whose transactions have this name. Nothing is told of single messages: the end of a transaction tells."""
    given = {k: v for k, v in properties.items() if k not in _OF_CONSUMERS}
    defaults: dict[str, Any] = {
        "linger.ms": 5,
        "partitioner": "murmur2_random",
        "transaction.timeout.ms": _TRANSACTION_MILLIS,
    }
    ours = {"transactional.id": name, "enable.idempotence": True, "delivery.report.only.error": True}
    return _made("Producer", {**defaults, **given}, ours)


def mark(producer: Any, group: Any, topic: str, number: int, note: str = "") -> None:
    """Note a number, and a text, in the group of a consumer, in the transaction of a producer."""
    marker = library().TopicPartition(topic, 0, number, note)
    producer.send_offsets_to_transaction([marker], group.consumer_group_metadata(), ANSWER_SECONDS)


def marked(group: Any, topic: str) -> tuple[int, str]:
    """The number and the text of the newest transaction that has ended; 0 before the first."""
    (found,) = group.committed([library().TopicPartition(topic, 0)], timeout=ANSWER_SECONDS)
    if found.error is not None:
        raise library().KafkaException(found.error)
    return max(0, int(found.offset)), found.metadata or ""


def list_partitions(properties: Mapping[str, str], chosen: Any) -> list[tuple[str, int]]:
    """Topic and partition of all partitions of topics that `chosen` says yes to, in order.

    Args:
        chosen: a function of a topic's name.
    """
    servers = properties["bootstrap.servers"]
    asked = consumer(properties)
    try:
        with told(servers):
            topics = asked.list_topics(timeout=ANSWER_SECONDS).topics
    finally:
        asked.close()
    return [(name, number) for name in sorted(topics) if chosen(name) for number in sorted(topics[name].partitions)]


def offset_of(asked: Any, properties: Mapping[str, str], topic: str, partition: int, place: Place, end: bool) -> int:
    """The offset that a place is in a partition.

    Args:
        end: it is where reading ends: what has no offset (no row from that time on, nothing committed) is the end.
    Raises:
        ConnectorError: E3131 the broker does not tell; E3132 the group has noted nothing, and nothing says what else.
    """
    confluent = library()
    with told(properties["bootstrap.servers"]):
        this = confluent.TopicPartition(topic, partition)
        low, high = asked.get_watermark_offsets(this, timeout=ANSWER_SECONDS)
        if place.mode == "earliest-offset":
            return int(low)
        if place.mode == "latest-offset":
            return int(high)
        if place.mode == "timestamp":
            this.offset = place.millis
            (found,) = asked.offsets_for_times([this], timeout=ANSWER_SECONDS)
            return int(found.offset) if found.offset >= 0 else int(high)
        known = dict(place.offsets)
        if place.mode == "specific-offsets" and partition in known:
            return known[partition]
        (noted,) = asked.committed([this], timeout=ANSWER_SECONDS)
    if noted.offset >= 0:
        return int(noted.offset)
    if end:
        return int(high)
    reset = properties.get("auto.offset.reset", "none")
    if reset in ("earliest", "smallest", "beginning"):
        return int(low)
    if reset in ("latest", "largest", "end"):
        return int(high)
    raise ConnectorError(
        f"the group {properties['group.id']} has noted no offset of partition {partition} of {topic}",
        code="E3132",
        hint="set 'scan.startup.mode' = 'earliest-offset', or 'properties.auto.offset.reset' = 'earliest'",
    )


def assigned(asked: Any, topic: str, partition: int, offset: int) -> None:
    """From now on `asked` reads this partition, from an offset on."""
    asked.assign([library().TopicPartition(topic, partition, offset)])


def offsets_there(asked: Any, topic: str, partition: int) -> tuple[int, int]:
    """The offset of the first message that is there, and the one behind the last."""
    this = library().TopicPartition(topic, partition)
    low, high = asked.get_watermark_offsets(this, timeout=ANSWER_SECONDS)
    return int(low), int(high)


def known_end(asked: Any, topic: str, partition: int) -> int:
    """The offset behind the last message as the last answer of the broker told it, -1 before the first."""
    found = asked.get_watermark_offsets(library().TopicPartition(topic, partition), cached=True)
    return -1 if found is None or found[1] < 0 else int(found[1])


def commit(asked: Any, topic: str, partition: int, offset: int) -> None:
    """Note in the group how far reading is; nobody waits for it, and nothing depends on it."""
    asked.commit(offsets=[library().TopicPartition(topic, partition, offset)], asynchronous=True)


def is_end(code: int) -> bool:
    """Whether an error only says that the end of the partition is reached."""
    return code == library().KafkaError._PARTITION_EOF


def is_fatal(error: BaseException | None) -> bool:
    """Whether a producer that has raised it will take nothing any more: of its own, or because another one has its name."""
    confluent = library()
    told = error.args[0] if error is not None and isinstance(error, confluent.KafkaException) else None
    return told is not None and told.code() == confluent.KafkaError._FATAL


def is_gone(code: int) -> bool:
    """Whether it says that the offset is not there any more."""
    return code in (library().KafkaError._AUTO_OFFSET_RESET, library().KafkaError.OFFSET_OUT_OF_RANGE)
