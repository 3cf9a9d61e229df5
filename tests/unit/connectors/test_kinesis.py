"""Kinesis against moto's server: each record once from every position, shards that end, and what is sent again."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pyarrow as pa
import pytest
from connector_tables import REGISTRY

from connectors.kinesis import reading
from connectors.kinesis.address import client_of
from connectors.kinesis.sending import KinesisRecords
from connectors.kinesis.table import KinesisTable
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import AccessError, ConnectorError, FormatError, SqlEngineError, UnavailableError
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from runtime.spi.registry import TableRequest
from sqlengine import TableEnvironment
from sqlengine.roles.outside import Outside
from sqlengine.testing.connectors import SourceContract, rows_of
from sqlengine.testing.connectors.reading import Context
from tests.servers.kinesis import KinesisStream, ending_shards, kinesis_stream

SCHEMA = Schema.of(("id", INT), ("name", STRING))
TYPES = ("int", "bigint", "double", "boolean", "string", "date", "decimal", "timestamp")


@pytest.fixture
def stream(s3_endpoint: str) -> Iterator[KinesisStream]:
    with kinesis_stream(s3_endpoint) as found:
        yield found


def table_of(
    stream: KinesisStream, schema: Schema = SCHEMA, by: tuple[str, ...] = (), writes: bool = False, **options: str
) -> KinesisTable:
    factory = REGISTRY.connectors.get("kinesis")
    make = factory.sink if writes else factory.source
    assert make is not None
    given = {"format": "json", "scan.bounded.mode": "latest", **stream.given, **options}
    table = make(TableRequest("t", schema, (), given, Options({}), partitioned_by=by, registry=REGISTRY))
    assert isinstance(table, KinesisTable)
    return table


def filled(stream: KinesisStream, schema: Schema, rows: list[tuple[Any, ...]]) -> KinesisTable:
    columns = [pa.array([row[i] for row in rows], f.type.arrow) for i, f in enumerate(schema)]
    KinesisRecords(table_of(stream, schema, writes=True)).write([ChangelogBatch.of(columns, schema)])
    return table_of(stream, schema)


class TestSource(SourceContract):
    connectors = ("kinesis",)
    types = TYPES

    @pytest.fixture
    def table(self, stream: KinesisStream) -> KinesisTable:
        return filled(stream, SCHEMA, [(i, None if i % 3 == 0 else f"n{i}") for i in range(5)])

    @pytest.fixture
    def holding(self, stream: KinesisStream) -> Callable[[Schema, list[tuple[Any, ...]]], KinesisTable]:
        return lambda schema, rows: filled(stream, schema, rows)

    @pytest.fixture
    def away(self) -> Callable[[], AbstractContextManager[KinesisTable]]:
        @contextmanager
        def nobody() -> Iterator[KinesisTable]:
            yield table_of(KinesisStream("http://127.0.0.1:1", "nobody"))

        return nobody


# --- shards


class Reading:
    """All shards of a table, as a job reads them: new ones are found, each is polled in turn."""

    def __init__(self, table: KinesisTable, saved: dict[str, Any] | None = None, over: set[str] | None = None) -> None:
        self.table, self.context, self.over = table, Context(), set(over or ())
        self.open: dict[str, Any] = {}
        first = saved is None
        for split in table.splits():
            if split.id not in self.over:
                self._begin(split if first else table.discovered(split))
                if saved is not None and split.id in saved:
                    self.open[split.id].seek(json.loads(json.dumps(saved[split.id])))

    def _begin(self, split: Any) -> None:
        self.open[split.id] = self.table.open(split, self.context)

    def poll(self, size: int = 2) -> list[int]:
        """The ids of the rows that come, newest shards first, as a wrong order would be."""
        for split in self.table.splits():
            if split.id not in self.open and split.id not in self.over:
                self._begin(self.table.discovered(split))
        found: list[int] = []
        for name in sorted(self.open, reverse=True):
            batch = self.open[name].poll(size)
            found += [] if batch is None else batch.rows.column(0).to_pylist()
            if self.open[name].finished:
                self.over.add(name)
                self.open.pop(name).close()
        return found

    def until(self, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            found += self.poll()
        return found

    def saved(self) -> dict[str, Any]:
        return {name: reader.position() for name, reader in self.open.items()}

    def close(self) -> None:
        for reader in self.open.values():
            reader.close()


def put(stream: KinesisStream, *ids: int) -> None:
    stream.put(*((f"k{i}", b'{"id": %d}' % i) for i in ids))


def test_shards_that_follow_others_wait_for_them(stream: KinesisStream, monkeypatch: pytest.MonkeyPatch) -> None:
    ending_shards(monkeypatch)
    put(stream, *range(6))
    stream.split(0)
    put(stream, *range(100, 106))
    stream.merge(1, 2)
    put(stream, *range(200, 206))
    table = table_of(stream, **{"scan.bounded.mode": "unbounded"})
    whole = Reading(table)
    found = whole.until(18)
    assert [i // 100 for i in found] == [0] * 6 + [1] * 6 + [2] * 6
    assert found[:6] == list(range(6)) and found[12:] == list(range(200, 206))
    assert len(whole.over) == 3
    whole.close()
    for taken in (4, 9):
        begun = Reading(table_of(stream, **{"scan.bounded.mode": "unbounded"}))
        before: list[int] = []
        while len(before) < taken:
            before += begun.poll(1)
        saved, over = begun.saved(), set(begun.over)
        begun.close()
        resumed = Reading(table_of(stream, **{"scan.bounded.mode": "unbounded"}), saved, over)
        after = resumed.until(18 - len(before))
        resumed.close()
        assert sorted(before + after) == sorted(found)
        assert [i // 100 for i in before + after] == [0] * 6 + [1] * 6 + [2] * 6


def test_a_shard_that_appears_is_read_from_its_beginning(
    stream: KinesisStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending_shards(monkeypatch)
    put(stream, 1)
    table = table_of(stream, **{"scan.bounded.mode": "unbounded", "source.init.position": "LATEST"})
    job = Reading(table)
    assert all(reader.position()["at"]["begin"] for reader in job.open.values()), "settled before it is polled"
    put(stream, 2)
    found = job.until(1)
    stream.split(0)
    put(stream, 3, 4, 5, 6)
    assert sorted(found + job.until(4)) == [2, 3, 4, 5, 6]
    job.close()


def test_an_iterator_that_expired_is_made_anew(stream: KinesisStream) -> None:
    put(stream, 1, 2)
    table = table_of(stream)
    times: list[Any] = []
    client = type("Client", (), {})()
    client.exceptions = type("E", (), {"ExpiredIteratorException": KeyError})
    answers = iter([KeyError(), {"Records": []}])

    def get_records(**given: Any) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    client.get_records = get_records
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "_iterator", lambda *given: times.append(given) or "new")
        patched.setattr(reading, "client_of", lambda address: client)
        assert reading._records(table, "s", {"after": "7"}, "old") == {"Records": []}
    assert len(times) == 1


def test_a_job_that_stood_still_for_too_long_is_told(stream: KinesisStream, monkeypatch: pytest.MonkeyPatch) -> None:
    put(stream, 1)
    table = table_of(stream)
    reader = table.open(table.splits()[0], Context())
    while not reader.finished:
        reader.poll(1)
    position = reader.position()
    reader.close()
    now = reading._now()
    monkeypatch.setattr(reading, "_now", lambda: now + 25 * 3_600_000)
    late = table.open(table.splits()[0], Context())
    late.seek(position)
    with pytest.raises(ConnectorError, match="stood still") as caught:
        while not late.finished:
            late.poll(1)
    late.close()
    assert caught.value.code == "E3272"


def test_malformed_records_are_told(stream: KinesisStream) -> None:
    stream.put(("a", b"no json"))
    with pytest.raises(FormatError, match="message 1"):
        rows_of(table_of(stream))


def test_shards_are_looked_for_in_the_background(stream: KinesisStream, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not answer ends no job that has its shards."""
    table = table_of(stream, **{"scan.bounded.mode": "unbounded", "source.shard.discovery.interval": "1 ms"})
    assert len(table.splits()) == 1
    asked = threading.Semaphore(0)

    def away(of: Any) -> Any:
        asked.release()
        raise UnavailableError("away", hint="wait")

    with monkeypatch.context() as patched:
        patched.setattr("connectors.kinesis.table.listed_shards", away)
        while not asked.acquire(timeout=0.01):
            assert len(table.splits()) == 1
        table.refresh_splits()
        with pytest.raises(UnavailableError):
            table.splits()


# --- what is written


def batch(*rows: tuple[int, str | None]) -> ChangelogBatch:
    return ChangelogBatch.of([pa.array([r[0] for r in rows], pa.int32()), pa.array([r[1] for r in rows])], SCHEMA)


@pytest.mark.parametrize(
    ("by", "options", "keys"),
    [
        (("name", "id"), {}, ["a|1", "null|2"]),
        (("name",), {"sink.partitioner-field-delimiter": "-"}, ["a", "null"]),
        ((), {"sink.partitioner": "fixed"}, None),
        ((), {}, None),
    ],
)
def test_keys_of_partitions(stream: KinesisStream, by: tuple[str, ...], options: dict[str, str], keys: Any) -> None:
    KinesisRecords(table_of(stream, by=by, writes=True, **options)).write([batch((1, "a"), (2, None))])
    found = stream.records()
    assert [data for _, data in found] == [b'{"id":1,"name":"a"}', b'{"id":2,"name":null}']
    if keys is not None:
        assert [key for key, _ in found] == keys
    else:
        assert len({key for key, _ in found}) == (1 if options else 2)


def test_what_was_not_taken_is_sent_again(
    stream: KinesisStream, monkeypatch: pytest.MonkeyPatch, no_pauses: None
) -> None:
    records = KinesisRecords(table_of(stream, writes=True, **{"sink.batch.max-size": "3"}))
    records.write([batch((0, "first"))])
    client = client_of(table_of(stream).address)
    real, sent = client.put_records, list[list[Any]]()

    def some(StreamARN: str, Records: list[Any]) -> Any:
        sent.append([json.loads(r["Data"])["id"] for r in Records])
        if len(sent) in (1, 2):
            real(StreamARN=StreamARN, Records=Records[:1])
            busy = {"ErrorCode": "ProvisionedThroughputExceededException", "ErrorMessage": "Rate exceeded"}
            told = [{"SequenceNumber": "1"}, *([busy] * (len(Records) - 1))]
            return {"FailedRecordCount": len(Records) - 1, "Records": told}
        return real(StreamARN=StreamARN, Records=Records)

    monkeypatch.setattr(client, "put_records", some)
    records.write([batch((1, "a"), (2, "b"), (3, "c"), (4, "d"))])
    assert sent == [[1, 2, 3], [2, 3], [3], [4]]
    assert [json.loads(data)["id"] for _, data in stream.records()] == [0, 1, 2, 3, 4]


# --- with a job


def test_from_stream_to_stream(stream: KinesisStream, s3_endpoint: str) -> None:
    stream.put(
        ("a", b'{"item": 1, "pieces": 3}'), ("b", b'{"item": 2, "pieces": 1}'), ("a", b'{"item": 1, "pieces": 2}')
    )
    with kinesis_stream(s3_endpoint, 2) as target, TableEnvironment.create() as env:
        env.execute_sql(
            "CREATE TABLE orders (item INT, pieces INT, `partition-key` STRING METADATA VIRTUAL, `shard-id` STRING METADATA "
            f"VIRTUAL, `timestamp` TIMESTAMP_LTZ(3) METADATA VIRTUAL) WITH ({stream.options}, 'format' = 'json', "
            "'scan.bounded.mode' = 'latest')"
        )
        env.execute_sql(
            f"CREATE TABLE large (item INT, k STRING) PARTITIONED BY (item) WITH ({target.options}, 'format' = 'json', "
            "'scan.bounded.mode' = 'latest')"
        )
        rows = env.execute_sql("SELECT pieces, `partition-key`, `shard-id` FROM orders").to_arrow().to_pylist()
        assert [tuple(r.values()) for r in rows] == [
            (3, "a", "shardId-000000000000"), (1, "b", "shardId-000000000000"), (2, "a", "shardId-000000000000"),
        ]  # fmt: skip
        env.execute_sql("INSERT INTO large SELECT item, `partition-key` FROM orders WHERE pieces > 1").wait()
        assert [r["item"] for r in env.execute_sql("SELECT item FROM large").to_arrow().to_pylist()] == [1, 1]


def test_a_view_goes_on_over_a_split(stream: KinesisStream, monkeypatch: pytest.MonkeyPatch) -> None:
    ending_shards(monkeypatch)
    put(stream, 1, 2)
    with TableEnvironment.create() as env:
        env.execute_sql(f"CREATE TABLE s (id INT) WITH ({stream.options}, 'format' = 'json')")
        changes = env.execute_sql("SELECT id FROM s").changes()
        found: list[int] = []
        while len(found) < 2:
            found += next(changes).rows.column(0).to_pylist()
        stream.split(0)
        put(stream, 3, 4, 5)
        while len(found) < 5:
            found += next(changes).rows.column(0).to_pylist()
        changes.close()
    assert sorted(found) == [1, 2, 3, 4, 5]


def test_no_text_has_the_secrets_and_a_server_looks_at_the_region(stream: KinesisStream) -> None:
    table = table_of(stream)
    assert "asecretkeyoftests" not in f"{table!r} {table.describe()} {table.place()}"
    inside = Outside(None, ("kinesis.eu-west-1.amazonaws.com",))
    inside.check({"stream.arn": stream.arn})
    for options in (
        {"stream.arn": stream.arn.replace("eu-west", "us-east")},
        {"stream.arn": stream.arn, "aws.endpoint": "http://h"},
    ):
        with pytest.raises(AccessError):
            inside.check(options)
    with pytest.raises(AccessError):
        Outside(None, ("h",)).check({"stream.arn": stream.arn, "aws.endpoint": ""})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stream.arn": "orders"}, "names no stream"),
        ({"aws.region": "us-east-1"}, "the stream is in"),
        ({"aws.credentials.basic.secretkey": ""}, "secretkey"),
        ({"aws.credentials.provider": "ROLE"}, "aws.credentials.provider"),
        ({"aws.endpoint": "http://h/x"}, "has a path"),
        ({"source.init.position": "AT_TIMESTAMP"}, "source.init.timestamp"),
        ({"source.init.position": "AT_TIMESTAMP", "source.init.timestamp": "2024-01-01T00:00:00"}, "no moment"),
        ({"sink.batch.max-size": "501"}, "1 to 500"),
        ({"stream.ar": "x"}, 'did you mean "stream.arn"'),
    ],
)
def test_what_is_wrong(options: dict[str, str], message: str) -> None:
    with pytest.raises(SqlEngineError, match=message):
        table_of(KinesisStream("http://h", "s"), **options)
