"""Streams of Kinesis on moto's server, for which a shard that was split or merged ends as the service's documentation says: its
records stay, it takes no more, and whoever has read all of it gets no further iterator. (moto moves the records instead.)"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

__all__ = ["KinesisStream", "ending_shards", "kinesis_stream"]

_numbers = itertools.count(1)


@functools.lru_cache(maxsize=4)
def _client(endpoint: str) -> Any:
    import boto3

    return boto3.client(
        "kinesis", endpoint_url=endpoint, region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b"
    )


@dataclass(frozen=True)
class KinesisStream:
    endpoint: str
    name: str

    @property
    def arn(self) -> str:
        return f"arn:aws:kinesis:eu-west-1:123456789012:stream/{self.name}"

    @property
    def client(self) -> Any:
        import boto3

        return boto3.client(
            "kinesis",
            endpoint_url=self.endpoint,
            region_name="eu-west-1",
            aws_access_key_id="a",
            aws_secret_access_key="b",
        )

    @property
    def given(self) -> dict[str, str]:
        """Options of a table."""
        return {
            "stream.arn": self.arn,
            "aws.endpoint": self.endpoint,
            "aws.credentials.provider": "BASIC",
            "aws.credentials.basic.accesskeyid": "AKIDOFTESTS",
            "aws.credentials.basic.secretkey": "asecretkeyoftests",
            "source.shard.get-records.interval": "20 ms",
            "source.shard.discovery.interval": "50 ms",
        }

    @property
    def options(self) -> str:
        """What a table says in WITH."""
        return ", ".join(f"'{k}' = '{v}'" for k, v in {"connector": "kinesis", **self.given}.items())

    def put(self, *records: tuple[str, bytes]) -> None:
        """Partition keys and data."""
        client = self.client
        for key, data in records:
            client.put_record(StreamName=self.name, PartitionKey=key, Data=data)

    def records(self) -> list[tuple[str, bytes]]:
        """Of all shards that are there."""
        client, found = self.client, list[tuple[str, bytes]]()
        for shard in client.list_shards(StreamName=self.name)["Shards"]:
            how = {"StreamName": self.name, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
            answer = client.get_records(ShardIterator=client.get_shard_iterator(**how)["ShardIterator"])
            found += [(r["PartitionKey"], r["Data"]) for r in answer["Records"]]
        return found

    def split(self, shard: int) -> None:
        """In two halves."""
        client = self.client
        found = client.list_shards(StreamName=self.name)["Shards"][shard]
        keys = found["HashKeyRange"]
        middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2
        client.split_shard(StreamName=self.name, ShardToSplit=found["ShardId"], NewStartingHashKey=str(middle))

    def merge(self, one: int, other: int) -> None:
        client = self.client
        ids = [shard["ShardId"] for shard in client.list_shards(StreamName=self.name)["Shards"]]
        client.merge_shards(StreamName=self.name, ShardToMerge=ids[one], AdjacentShardToMerge=ids[other])


@contextmanager
def kinesis_stream(endpoint: str, shards: int = 1) -> Iterator[KinesisStream]:
    """A new stream of moto's server."""
    stream = KinesisStream(endpoint, f"orders{next(_numbers)}")
    stream.client.create_stream(StreamName=stream.name, ShardCount=shards)
    yield stream


def ending_shards(patched: pytest.MonkeyPatch) -> None:
    """See the module; of the server in this process."""
    from moto.kinesis import models, responses

    for name in ("split_shard", "merge_shards"):
        real = getattr(models.Stream, name)

        def kept(self: Any, *given: str, real: Any = real) -> None:
            held = {shard.shard_id: shard.records for shard in self.shards.values()}
            for shard in self.shards.values():
                shard.records = type(shard.records)()
            real(self, *given)
            for shard_id, records in held.items():
                self.shards[shard_id].records = records

        patched.setattr(models.Stream, name, kept)
    real_shard = models.Stream.get_shard_for_key

    def open_shard(self: Any, *given: Any) -> Any:
        held = self.shards
        self.shards = {name: shard for name, shard in held.items() if shard.is_open}
        try:
            return real_shard(self, *given)
        finally:
            self.shards = held

    patched.setattr(models.Stream, "get_shard_for_key", open_shard)
    real_records = models.KinesisBackend.get_records

    def records(self: Any, stream_arn: Any, iterator: str, limit: Any) -> Any:
        following, found, behind = real_records(self, stream_arn, iterator, limit)
        name, shard_id, _ = models.decompose_shard_iterator(following)
        shard = self.describe_stream(stream_arn=stream_arn, stream_name=name).get_shard(shard_id)
        over = not shard.is_open and len(found) < (limit or 10_000)
        return (None if over else following), found, behind

    patched.setattr(models.KinesisBackend, "get_records", records)
    real_answer = responses.KinesisResponse.get_records

    def answer(self: Any) -> Any:
        told = real_answer(self)
        if told.result["NextShardIterator"] is None:
            del told.result["NextShardIterator"]
        return told

    patched.setattr(responses.KinesisResponse, "get_records", answer)
