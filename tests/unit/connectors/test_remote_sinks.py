"""Files that are written to an object store: every row once, whatever is killed when, and nothing is left that nobody names."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from connector_tables import REGISTRY, end, rows_of, sink, source
from obstore.store import MemoryStore

from connectors.filesystem.systems import object_store
from runtime.checkpoint import remote_storage
from runtime.checkpoint.remote_storage import AwayError, RemoteStorage
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import CheckpointError, ConnectorError, FencedError, UnsupportedError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SinkCase, SinkContract, some_epochs
from tests.servers.s3 import Bucket, CutWay

SCHEMA = Schema.of(("a", INT), ("p", STRING))
SEEDS = int(os.environ.get("REMOTE_SINK_SEEDS", "3"))


def batch(*rows: tuple[int, str]) -> ChangelogBatch:
    return ChangelogBatch.of([pa.array([r[0] for r in rows], pa.int32()), pa.array([r[1] for r in rows])], SCHEMA)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """Stands in for every bucket."""
    memory = MemoryStore()
    monkeypatch.setattr(object_store, "_storage", lambda files, environment: RemoteStorage(memory, files.place))
    return memory


def keys(store: MemoryStore) -> list[str]:
    return sorted(entry["path"] for entries in store.list() for entry in entries)


def make_sink(path: str, *partitions: str, format_: str = "json", **options: str) -> Any:
    given = {"path": f"s3://lake/{path}", "format": format_, "sink.rolling-policy.file-size": "60b", **options}
    return sink("filesystem", SCHEMA, given, partitioned_by=partitions)


def visible(path: str, *partitions: str, format_: str = "json") -> list[Any]:
    read = source("filesystem", SCHEMA, {"path": f"s3://lake/{path}", "format": format_}, partitioned_by=partitions)
    try:
        return sorted(rows_of(read), key=repr)
    except ConnectorError as error:
        assert error.code == "E3101"
        return []


class _RemoteSinks(SinkContract):
    connectors = ("filesystem",)
    seeds = SEEDS
    steps = (
        (remote_storage._RemoteFile, "close"),
        (RemoteStorage, "copy"),
        (RemoteStorage, "delete"),
        (RemoteStorage, "replace"),
    )
    partitions: tuple[str, ...] = ()
    options: dict[str, str] = {}

    @staticmethod
    def error() -> Exception:
        return AwayError(5, "the store is away")

    @pytest.fixture
    def make(self, store: MemoryStore) -> Callable[[random.Random], SinkCase]:
        numbers = iter(range(10_000))

        def case(rng: random.Random) -> SinkCase:
            path = f"out-{next(numbers)}"
            epochs, expected = some_epochs(rng, SCHEMA, 4)
            table = make_sink(path, *self.partitions, **self.options)
            return SinkCase(table, lambda: visible(path, *self.partitions), epochs, expected)

        return case


class TestFiles(_RemoteSinks):
    pass


class TestPartitions(_RemoteSinks):
    partitions = ("p",)
    options = {"sink.partition-commit.policy.kind": "success-file"}


def test_what_no_checkpoint_names_is_removed(store: MemoryStore) -> None:
    """A run that was killed has left a file that is closed, and one that is open; another job's stay."""
    lost = make_sink("out").open_writer("job")
    lost.write(batch((1, "x" * 80)))  # closed, since it is large
    other = make_sink("out").open_writer("other")
    other.write(batch((2, "x" * 80)))
    assert len([k for k in keys(store) if ".staged-" in k]) == 2
    writer = make_sink("out").open_writer("job")
    writer.recover([])
    assert len([k for k in keys(store) if ".staged-" in k]) == 1
    writer.write(batch((3, "y")))
    end(writer)
    writer.close()
    assert visible("out") == [(3, "y")]
    end(other)
    assert visible("out") == [(2, "x" * 80), (3, "y")]
    assert all(re.search(r"out/part-[^/]*\.jsonl$", k) for k in keys(store))


def test_what_a_checkpoint_names_is_looked_at(store: MemoryStore) -> None:
    writer = make_sink("out").open_writer("job")
    writer.write(batch((1, "a")))
    prepared = writer.prepare()
    (staged,) = [k for k in keys(store) if ".staged-" in k]
    store.put(staged, b"{}")
    with pytest.raises(CheckpointError, match="E3402 .* bytes instead of"):
        make_sink("out").open_writer("job").recover([prepared])
    store.delete(staged)
    with pytest.raises(ConnectorError, match="E3113"):
        make_sink("out").open_writer("job").recover([prepared])


def test_two_runs_of_one_job(store: MemoryStore) -> None:
    """The one that goes on from a copy of the checkpoints shows nothing."""
    first = make_sink("out").open_writer("job")
    first.claim("here#1", None, False)
    first.write(batch((1, "a")))
    first.publish(first.prepare())
    history = first.history()
    second = make_sink("out").open_writer("job")
    second.claim("there#2", history, False)
    first.write(batch((2, "b")))
    with pytest.raises(FencedError, match="E3413"):
        first.publish(first.prepare())
    second.write(batch((3, "c")))
    second.publish(second.prepare())
    assert visible("out") == [(1, "a"), (3, "c")]
    assert second.revert(history) == 1
    assert visible("out") == [(1, "a")]


def test_files_of_tasks(store: MemoryStore) -> None:
    writer = make_sink("out", "p").open_writer("job")
    task = writer.task_writer()
    assert task is not None
    writer.adopt(task.write(batch((1, "a"), (2, "b"))))
    task.write(batch((9, "z")))  # never adopted
    end(writer)
    writer.close()
    assert visible("out", "p") == [(1, "a"), (2, "b")]
    assert not [k for k in keys(store) if ".staged-" in k]


@pytest.mark.parametrize("partitions", [(), ("p",)])
def test_insert_overwrite(store: MemoryStore, partitions: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for first in ((1, "a"), (2, "b")):
        writer = make_sink("out", *partitions).open_writer("job")
        writer.write(batch(first))
        end(writer)
    table = make_sink("out", *partitions).with_overwrite({})
    writer = table.open_writer("new")
    writer.write(batch((3, "b")))
    held = writer.prepare()
    writer.publish(held)
    assert visible("out", *partitions) == [(1, "a"), (2, "b")]
    writer.complete()
    prepared = writer.prepare()
    with monkeypatch.context() as patched:
        # Killed when the new files are there and the old ones are not gone.
        real = RemoteStorage.delete
        patched.setattr(RemoteStorage, "delete", lambda self, path: real(self, path) if ".staged" in path else 1 / 0)
        with pytest.raises(ZeroDivisionError):
            writer.publish(prepared)
    again = table.open_writer("new")
    again.recover([prepared])
    assert visible("out", *partitions) == ([(1, "a"), (3, "b")] if partitions else [(3, "b")])


def test_a_root_that_is_a_file_and_what_cannot_be_written(store: MemoryStore) -> None:
    store.put("out", b"x")
    with pytest.raises(ConnectorError, match="E3110 cannot write to s3://lake/out: it is a file"):
        make_sink("out").open_writer("job")
    for path in ("https://h/x", "hdfs://h/x"):
        with pytest.raises(UnsupportedError, match="E1601"):
            sink("filesystem", SCHEMA, {"path": path, "format": "json"})
    with pytest.raises(UnsupportedError, match="E1604"):
        make_sink("other").compact(1 << 20)


# --- against a server


@pytest.fixture(scope="module")
def bucket(s3_endpoint: str) -> Bucket:
    return Bucket.made(s3_endpoint, "sinks")


def test_statements_write_to_a_server(bucket: Bucket) -> None:
    options = ", ".join(f"'{k}' = '{v}'" for k, v in bucket.options.items())
    with TableEnvironment.create() as environment:
        run = environment.execute_sql
        run(
            "CREATE TABLE sales (shop STRING, `day` DATE, amount INT) PARTITIONED BY (`day`) WITH ('connector' = 'filesystem',"
            f" 'path' = 's3://sinks/sales', 'format' = 'parquet', 'sink.partition-commit.policy.kind' = 'success-file', {options})"
        )
        run("INSERT INTO sales VALUES ('Bern', DATE '2024-05-01', 1), ('Graz', DATE '2024-05-02', 2)").wait()
        run("INSERT INTO sales VALUES ('Chur', DATE '2024-05-02', 3)").wait()
        assert run("SELECT SUM(amount) AS s FROM sales").to_arrow().to_pylist() == [{"s": 6}]
        run("INSERT OVERWRITE sales PARTITION (`day` = DATE '2024-05-02') SELECT 'Wien', 9").wait()
        rows = run("SELECT shop, amount FROM sales ORDER BY amount").to_arrow().to_pylist()
        assert rows == [{"shop": "Bern", "amount": 1}, {"shop": "Wien", "amount": 9}]
    names = [key.rpartition("/")[2] for key in bucket.files("sales/")]
    assert sorted(n for n in names if not n.startswith("part-")) == ["_SUCCESS", "_SUCCESS"] and len(names) == 4


def test_a_large_file_goes_in_parts(bucket: Bucket) -> None:
    """As a multipart upload of the library; the copy holds the same."""
    schema = Schema.of(("b", STRING))
    given = {"path": "s3://sinks/large", "format": "csv", **bucket.options}
    writer = REGISTRY.connectors.get("filesystem").sink
    assert writer is not None
    large = sink("filesystem", schema, given).open_writer("job")
    text = "x" * 1_000_000
    for _ in range(10):
        large.write(ChangelogBatch.of([pa.array([text])], schema))
    end(large)
    large.close()
    (data,) = bucket.files("large/").values()
    assert data == (text + "\n").encode() * 10


def test_a_store_that_is_away_or_full_is_an_error(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_storage, "_RETRIES", {"max_retries": 0})
    way = CutWay(bucket.endpoint)
    given = {"path": "s3://sinks/away", "format": "json", **Bucket(way.endpoint, "sinks").options}
    writer = sink("filesystem", SCHEMA, given).open_writer("job")
    writer.write(batch((1, "a")))
    way.cut()
    with pytest.raises(ConnectorError, match="E3111"):
        writer.prepare()
    with pytest.raises(ConnectorError, match="E3110"):
        sink("filesystem", SCHEMA, given).open_writer("job")
    way.refusing = False
    again = sink("filesystem", SCHEMA, given).open_writer("job")
    again.recover([])
    again.write(batch((1, "a")))
    prepared = again.prepare()
    way.cut()
    with pytest.raises(ConnectorError, match="E3112"):
        again.publish(prepared)
    way.refusing = False
    again.publish(prepared)
    assert list(bucket.files("away/").values()) == [b'{"a":1,"p":"a"}\n']
    way.close()
