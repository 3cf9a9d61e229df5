"""Rows as messages of a topic, exactly once: each commit is a transaction with a marker in it.

The transaction that sends the messages of a commit also notes the commit's number, as if it were an offset, in a consumer
group of the sink's own: Kafka makes both visible or neither. Kafka cannot go on with a transaction of a process that is
gone, so nothing is sent before the checkpoint that holds the messages is complete (`StagedWriter`).

    last     a new producer with the sink's transactional id: Kafka aborts what an earlier one has open, and refuses
             whatever that one still sends; then the marker is read
    commit   begin, messages, marker, end

Where tasks have written the messages (`LanedWriter`), each lane is such a transaction, with an id and a group of its own,
and the last one has the marker alone (`lane_commit.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.kafka import client
from connectors.kafka.lane_commit import LaneCommit, end_lanes, group_of
from connectors.kafka.outgoing import COLUMNS, produce
from connectors.kit.lane_files import MOST_LANES, LaneFiles
from connectors.kit.laned import CarryOut, Laned, LanedWriter, in_lanes
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import UnavailableError

if TYPE_CHECKING:
    from connectors.kafka.sink import KafkaSink

__all__ = ["KafkaCommits", "KafkaTaskWriter", "TransactionalWriter"]

_LANE_TRIES = 4


class TransactionalWriter(LanedWriter):
    """Messages are made when rows come, so that what cannot be sent fails the job before a checkpoint holds it."""

    def __init__(self, sink: KafkaSink, job: str) -> None:
        self._sink = sink
        self._lanes = 0
        self._for_this = KafkaCommits(sink, job)
        super().__init__(sink.name, COLUMNS, self._for_this, folder=sink.staged_for(job), most=sink.spool)
        self._for_this.files = self.files
        self._encoder = sink.encoder()

    def write(self, batch: ChangelogBatch) -> None:
        super().write(ChangelogBatch(self._encoder.encode(batch)))

    def commit_in_tasks(self, count: int, carry_out: CarryOut) -> None:
        self._lanes = min(count, MOST_LANES) if self._sink.has_lanes else 1
        self._for_this.carry_out = carry_out

    def task_writer(self) -> KafkaTaskWriter | None:
        """None without a folder that lasts as long as checkpoints, or for a format that asks a registry."""
        if self.files is None or not self._lanes or not self._sink.encoded_anywhere:
            return None
        writer = KafkaTaskWriter(self._sink.without_address(), self.files.folder, self.run, self._lanes)
        self.staged_by(writer)
        return writer


@dataclass(frozen=True)
class KafkaTaskWriter:
    """Makes messages in a task, and puts them into a file (`runtime.spi.writer.TaskWriter`)."""

    sink: KafkaSink
    folder: str
    run: str
    lanes: int

    def write(self, batch: ChangelogBatch) -> str | None:
        """Raises ConnectorError E3131 for a message that is too long, E3111 when the file cannot be written."""
        return self.put(self.sink.encoder().encode(batch)) if LaneFiles(self.folder).seen(self.run) else None

    def put(self, rows: pa.RecordBatch) -> str:
        key = None if self.sink.key_format is None else rows.column("key")
        return LaneFiles(self.folder).put(self.run, in_lanes(rows, key, self.lanes))


class KafkaCommits:
    """`EpochCommits` of one sink of one job.

    Attributes:
        files: those that tasks have written.
        carry_out: has lanes committed.
    """

    def __init__(self, sink: KafkaSink, job: str) -> None:
        self._topic = sink.topic
        self._properties = dict(sink.properties)
        self._servers = self._properties["bootstrap.servers"]
        self._id = f"{sink.transactional_prefix}-{hashlib.sha256(job.encode()).hexdigest()[:20]}"
        self._producer: Any = None
        self._group: Any = None
        self._number = 0
        self.files: LaneFiles | None = None
        self.carry_out: CarryOut = _here

    def last(self) -> int:
        with client.told(self._servers):
            self._renew()
            self._number = client.marked(self._group, self._topic)[0]
            return self._number

    def commit(self, number: int, batches: Laned) -> None:
        if batches.files:
            self._commit_lanes(self._lanes(number, batches))
        with client.told(self._servers):
            self._begin()
            self._send(batches.batches)
            self._mark(number)
            self._end()
        self._number = number

    def _commit_lanes(self, lanes: Sequence[LaneCommit]) -> None:
        """Two attempts at a lane break each other off, so that it is tried again; but not by a run that has been replaced,
        which the brokers tell when it notes its number once more."""
        for tries in range(_LANE_TRIES, 0, -1):
            with client.told(self._servers):
                self._producer.begin_transaction()
                self._mark(self._number)
                self._producer.commit_transaction(client.ANSWER_SECONDS * 3)
            try:
                self.carry_out(lanes)
                return
            except UnavailableError:
                if tries == 1:
                    raise

    def close(self) -> None:
        self._drop()
        end_lanes(self._id)
        if self._group is not None:
            self._group.close()
            self._group = None

    def _lanes(self, number: int, rows: Laned) -> list[LaneCommit]:
        assert self.files is not None
        first = LaneCommit(
            self._topic, self._properties, self._id, self.files.folder, rows.files, rows.lanes, 0, number
        )
        return [replace(first, lane=lane) for lane in range(rows.lanes)]

    def _renew(self) -> None:
        self._drop()
        self._producer = client.transactional_producer(self._properties, self._id)
        self._producer.init_transactions(client.ANSWER_SECONDS)
        if self._group is None:
            self._group = group_of(self._properties, self._id)

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


def _here(works: Sequence[Callable[[], object]]) -> None:
    for work in works:
        work()
