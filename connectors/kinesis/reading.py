"""Records of a shard as rows, in the background.

A position is `{"after": the sequence number of the last record, or null, "begin": where reading begins as long as there is none,
"seen": when all before it was seen last}`: milliseconds since 1970 for a moment, 0 for the oldest record.

A shard that was split or merged ends; those that follow it begin when its last row was given, so rows of a key come in order.
What the stream has dropped before it was read is told by the time: a job may stand still for as long as records are kept.
"""

from __future__ import annotations

import datetime
import functools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.formats.message_table import RowsOfMessages
from connectors.kinesis.address import client_of, telling
from connectors.kit.prefetch import Fetched
from runtime.core.errors import ConnectorError
from runtime.core.types import STRING, timestamp_ltz

if TYPE_CHECKING:
    from connectors.kinesis.table import KinesisTable

__all__ = ["METADATA", "first_position", "listed_shards", "read_shard"]

METADATA = {
    "timestamp": timestamp_ltz(3).not_null(),
    "shard-id": STRING.not_null(),
    "sequence-number": STRING.not_null(),
    "partition-key": STRING.not_null(),
}
_AT_ONCE = 10_000
_PARENT_SECONDS = 0.05
_SEEN_MILLIS = 60_000


def listed_shards(table: KinesisTable) -> list[Any]:
    """What the service tells of each shard, as it gives it; a parent comes before those that follow it."""
    client, found = client_of(table.address), list[Any]()
    with telling(table.address):
        asked: dict[str, Any] = {"StreamARN": table.address.arn}
        while True:
            answer = client.list_shards(**asked)
            found += answer["Shards"]
            if not answer.get("NextToken"):
                break
            asked = {"NextToken": answer["NextToken"]}
    return sorted(found, key=lambda shard: shard["ShardId"])


def first_position(begin: int) -> dict[str, Any]:
    """Where reading begins: milliseconds since 1970, 0 for the oldest record."""
    return {"after": None, "begin": begin, "seen": _now()}


def read_shard(
    table: KinesisTable, shard: str, waits: Callable[[], bool], position: Any, stop: threading.Event
) -> Iterator[Fetched]:
    """See `Fetching`. `waits`: whether a shard before it has rows that were not given yet."""
    at: dict[str, Any] = dict(position)
    _check(table, shard, at)
    while waits():
        if stop.wait(_PARENT_SECONDS):
            return
        yield Fetched(None, dict(at))
    decode = RowsOfMessages(table)
    iterator = _iterator(table, shard, at)
    while not stop.is_set():
        answer = _records(table, shard, at, iterator)
        iterator, records = answer.get("NextShardIterator"), answer["Records"]
        caught_up = answer.get("MillisBehindLatest", 0) == 0
        if records:
            at["after"], at["seen"] = records[-1]["SequenceNumber"], _millis(records[-1])
            rows, rejected = decode(
                pa.array([record["Data"] for record in records], pa.large_binary()),
                functools.partial(_metadata, shard, records),
                lambda number, found=records: found[number]["SequenceNumber"],
            )
            yield Fetched(rows, dict(at), rejected)
        elif iterator is None or (table.bounded and caught_up):
            return
        elif caught_up:
            if _now() - at["seen"] > _SEEN_MILLIS:
                at["seen"] = _now()
            yield Fetched(None, dict(at))
        if iterator is None:
            return
        # A shard may be asked five times a second.
        stop.wait(table.interval)


def _check(table: KinesisTable, shard: str, at: dict[str, Any]) -> None:
    """Raises ConnectorError E3272 where records behind a position may be gone."""
    client = client_of(table.address)
    with telling(table.address):
        summary = client.describe_stream_summary(StreamARN=table.address.arn)["StreamDescriptionSummary"]
    hours = summary["RetentionPeriodHours"]
    if _now() - at["seen"] > hours * 3_600_000:
        raise ConnectorError(
            f"{table.place()}: records of {shard} are kept for {hours} hours, and the job stood still for longer",
            code="E3272",
            hint="some may be gone before they were read: begin anew",
        )


def _iterator(table: KinesisTable, shard: str, at: dict[str, Any]) -> str:
    if at["after"] is not None:
        how: dict[str, Any] = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": at["after"]}
    elif at["begin"]:
        moment = datetime.datetime.fromtimestamp(at["begin"] / 1000, datetime.UTC)
        how = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": moment}
    else:
        how = {"ShardIteratorType": "TRIM_HORIZON"}
    client = client_of(table.address)
    with telling(table.address):
        found: str = client.get_shard_iterator(StreamARN=table.address.arn, ShardId=shard, **how)["ShardIterator"]
    return found


def _records(table: KinesisTable, shard: str, at: dict[str, Any], iterator: str) -> Any:
    """What comes next; an iterator that nobody has used for five minutes is made anew."""
    client = client_of(table.address)
    with telling(table.address):
        try:
            return client.get_records(ShardIterator=iterator, Limit=_AT_ONCE, StreamARN=table.address.arn)
        except client.exceptions.ExpiredIteratorException:
            pass
    iterator = _iterator(table, shard, at)
    with telling(table.address):
        return client.get_records(ShardIterator=iterator, Limit=_AT_ONCE, StreamARN=table.address.arn)


def _now() -> int:
    return int(time.time() * 1000)


def _millis(record: Any) -> int:
    return int(record["ApproximateArrivalTimestamp"].timestamp() * 1000)


def _metadata(shard: str, records: Sequence[Any], key: str) -> pa.Array:
    type_ = METADATA[key].arrow
    match key:
        case "timestamp":
            return (
                pa.array([_millis(record) for record in records], pa.int64())
                .cast(pa.timestamp("ms", "UTC"))
                .cast(type_)
            )
        case "shard-id":
            return pa.array([shard] * len(records), type_)
        case "sequence-number":
            return pa.array([record["SequenceNumber"] for record in records], type_)
        case _:
            return pa.array([record["PartitionKey"] for record in records], type_)
