"""Rows as messages of a topic, exactly once: each commit is a transaction with a marker in it.

The transaction that sends the messages of a commit also notes the commit's number, as if it were an offset, in a consumer
group of the sink's own: Kafka makes both visible or neither. Kafka cannot go on with a transaction of a process that is
gone, so nothing is sent before the checkpoint that holds the messages is complete (`CommittingWriter`).

    last     a new producer with the sink's transactional id: Kafka aborts what an earlier one has open, and refuses
             whatever that one still sends; then the marker is read
    commit   begin, messages, marker, end
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from connectors.kafka import client
from connectors.kafka.outgoing import COLUMNS, produce
from connectors.kit.commits import CommittingWriter
from runtime.core.changelog import ChangelogBatch

if TYPE_CHECKING:
    from connectors.kafka.sink import KafkaSink

__all__ = ["KafkaCommits", "TransactionalWriter"]


class TransactionalWriter(CommittingWriter):
    """Messages are made when rows come, so that what cannot be sent fails the job before a checkpoint holds it."""

    def __init__(self, sink: KafkaSink, job: str) -> None:
        super().__init__(sink.name, COLUMNS, KafkaCommits(sink, job), most=sink.spool)
        self._encoder = sink.encoder()

    def write(self, batch: ChangelogBatch) -> None:
        super().write(ChangelogBatch(self._encoder.encode(batch)))


class KafkaCommits:
    """`EpochCommits` of one sink of one job."""

    def __init__(self, sink: KafkaSink, job: str) -> None:
        self._topic = sink.topic
        self._properties = dict(sink.properties)
        self._servers = self._properties["bootstrap.servers"]
        self._id = f"{sink.transactional_prefix}-{hashlib.sha256(job.encode()).hexdigest()[:20]}"
        self._producer: Any = None
        self._group: Any = None

    def last(self) -> int:
        with client.told(self._servers):
            self._renew()
            return client.marked(self._group, self._topic)

    def commit(self, number: int, batches: Iterable[ChangelogBatch]) -> None:
        with client.told(self._servers):
            self._begin()
            self._send(batches)
            self._mark(number)
            self._end()

    def close(self) -> None:
        self._drop()
        if self._group is not None:
            self._group.close()
            self._group = None

    def _renew(self) -> None:
        self._drop()
        self._producer = client.transactional_producer(self._properties, self._id)
        self._producer.init_transactions(client.ANSWER_SECONDS)
        if self._group is None:
            known = {k: v for k, v in self._properties.items() if k != "isolation.level"}
            self._group = client.consumer({**known, "group.id": self._id})

    def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()

    def _begin(self) -> None:
        self._producer.begin_transaction()

    def _send(self, batches: Iterable[ChangelogBatch]) -> None:
        for batch in batches:
            produce(self._producer, self._topic, batch.rows, lambda: None)

    def _mark(self, number: int) -> None:
        client.mark(self._producer, self._group, self._topic, number)

    def _end(self) -> None:
        self._producer.commit_transaction(client.ANSWER_SECONDS * 3)
