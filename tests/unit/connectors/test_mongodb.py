"""MongoDB against a server that speaks its protocol: documents once, whatever is killed; ids, kinds of values, filters."""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal
from typing import Any

import bson
import numpy as np
import pyarrow as pa
import pytest
from connector_tables import REGISTRY

from connectors.mongodb.address import client_of
from connectors.mongodb.commits import COMMITS, MongoCommits, MongoDocuments
from connectors.mongodb.reading import behind as _behind
from connectors.mongodb.table import MongoTable
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, ChangelogBatch
from runtime.core.errors import FencedError, SqlEngineError
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BYTES, DATE, DOUBLE, INT, STRING, decimal, timestamp
from runtime.spi.registry import TableRequest
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SinkCase, SinkContract, SourceContract, rows_of, some_epochs
from tests.servers.mongodb import MongoServer
from tests.unit.connectors.database_sinks import some_upserts

SCHEMA = Schema.of(("id", INT), ("name", STRING))
TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "bytes", "date", "timestamp_ltz",
    "array", "map", "row",
)  # fmt: skip
_numbers = itertools.count(1)


def table_of(
    server: MongoServer, schema: Schema = SCHEMA, key: tuple[str, ...] = ("id",), collection: str = "", **options: str
) -> MongoTable:
    """A table of a collection of its own."""
    factory = REGISTRY.connectors.get("mongodb").sink
    assert factory is not None
    given = {
        "uri": server.uri,
        "database": server.database,
        "collection": collection or f"c{next(_numbers)}",
        **options,
    }
    table = factory(TableRequest("t", schema, key, given, Options({}), registry=REGISTRY))
    assert isinstance(table, MongoTable)
    return table


def changes(*rows: tuple[int, int, str | None]) -> ChangelogBatch:
    kinds = np.array([kind for kind, _, _ in rows], np.int8)
    columns = [pa.array([r[1] for r in rows], pa.int32()), pa.array([r[2] for r in rows], pa.string())]
    return ChangelogBatch.of(columns, SCHEMA, kinds)


def filled(server: MongoServer, schema: Schema, rows: list[tuple[Any, ...]], **options: str) -> MongoTable:
    table = table_of(server, schema, (), **options)
    columns = [pa.array([row[i] for row in rows], f.type.arrow) for i, f in enumerate(schema)]
    # Ids in the order of the rows.
    MongoDocuments(table)._write(
        [ChangelogBatch.of([c.slice(at, 1) for c in columns], schema) for at in range(0)], "row"
    )
    batch = ChangelogBatch.of(columns, schema)
    for at in range(len(rows)):
        MongoDocuments(table)._write([batch.slice(at, 1)], f"row{at:05}")
    return table


def documents(server: MongoServer, table: MongoTable) -> list[dict[str, Any]]:
    address = table.address
    return list(client_of(address)[server.database][address.collection].find(sort=[("_id", 1)]))


class TestSource(SourceContract):
    connectors = ("mongodb",)
    types = TYPES

    @pytest.fixture
    def table(self, mongodb: MongoServer) -> MongoTable:
        rows = [(i, None if i % 3 == 0 else f"n{i}") for i in range(14)]
        return filled(mongodb, SCHEMA, rows, **{"scan.fetch-size": "4"})

    @pytest.fixture
    def holding(self, mongodb: MongoServer) -> Callable[[Schema, list[tuple[Any, ...]]], MongoTable]:
        return lambda schema, rows: filled(mongodb, schema, rows)

    @pytest.fixture
    def away(self, mongodb: MongoServer) -> Callable[[], AbstractContextManager[MongoTable]]:
        @contextmanager
        def nobody() -> Iterator[MongoTable]:
            with mongodb.away():
                yield table_of(mongodb, **{"connect-timeout": "200 ms"})

        return nobody


class TestSink(SinkContract):
    connectors = ("mongodb",)
    steps = ((MongoCommits, "last"), (MongoCommits, "_write_rows"), (MongoCommits, "_keep"))
    seeds = 1

    @pytest.fixture
    def make(self, mongodb: MongoServer) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            table = table_of(mongodb, SCHEMA, ())

            def visible() -> list[tuple[Any, ...]]:
                return sorted(((d["id"], d["name"]) for d in documents(mongodb, table)), key=repr)

            return SinkCase(table, visible, *some_epochs(rng, SCHEMA, 3))

        return case


class TestUpserts(SinkContract):
    """Keys come again, change and go."""

    connectors = ("mongodb",)
    steps = ((MongoCommits, "_write_rows"),)
    seeds = 1

    @pytest.fixture
    def make(self, mongodb: MongoServer) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            table = table_of(mongodb, SCHEMA, ("id",))

            def visible() -> list[tuple[Any, ...]]:
                return sorted(((d["_id"], d["name"]) for d in documents(mongodb, table)), key=repr)

            return SinkCase(table, visible, *some_upserts(rng))

        return case


def test_changes_by_key(mongodb: MongoServer) -> None:
    table = table_of(mongodb, **{"sink.buffer-flush.max-rows": "2"})
    assert table.delivery == "exactly-once"
    commits = MongoCommits(table, "job")
    assert commits.last() == 0
    commits.commit(1, [changes((INSERT, 1, "a"), (INSERT, 2, "b"), (INSERT, 3, None), (INSERT, 4, "d"))])
    with mongodb.connected() as database:
        database[table.address.collection].update_one({"_id": 1}, {"$set": {"theirs": True}})
    commits.commit(
        2, [changes((UPDATE_AFTER, 1, "A"), (DELETE, 2, None), (DELETE, 9, None)), changes((DELETE, 4, None))]
    )
    assert documents(mongodb, table) == [
        {"_id": 1, "id": 1, "name": "A", "theirs": True},
        {"_id": 3, "id": 3, "name": None},
    ]
    assert MongoCommits(table, "job").last() == 2


def test_a_commit_that_was_cut_short_is_written_again(mongodb: MongoServer) -> None:
    table = table_of(mongodb, SCHEMA, ())
    first = MongoCommits(table, "job")
    assert first.last() == 0
    first._write_rows(1, [changes((INSERT, 1, "a"), (INSERT, 1, "a"))])
    second = MongoCommits(table, "job")
    assert second.last() == 0
    with pytest.raises(FencedError):
        first.commit(1, [changes((INSERT, 8, "late"))])
    with pytest.raises(FencedError):
        first._keep(1)
    second.commit(1, [changes((INSERT, 1, "a"), (INSERT, 1, "a"))])
    assert rows_of(table) == [(1, "a"), (1, "a")]
    with mongodb.connected() as database:
        assert [d["number"] for d in database[COMMITS].find()] == [1]


def test_ids_of_keys(mongodb: MongoServer) -> None:
    schema = Schema.of(("a", STRING), ("b", BIGINT), ("n", INT))
    batch = ChangelogBatch.of([pa.array(["x"]), pa.array([7]), pa.array([1], pa.int32())], schema)
    two = table_of(mongodb, schema, ("b", "a"))
    MongoDocuments(two).write([batch])
    assert documents(mongodb, two) == [{"_id": {"b": 7, "a": "x"}, "a": "x", "b": 7, "n": 1}]
    hexed = "5f8f8c44b54764421b7156c9"
    own = Schema.of(("_id", STRING), ("n", INT))
    one = table_of(mongodb, own, ("_id",))
    MongoDocuments(one).write([ChangelogBatch.of([pa.array([hexed, "plain"]), pa.array([1, 2], pa.int32())], own)])
    assert documents(mongodb, one) == [{"_id": "plain", "n": 2}, {"_id": bson.ObjectId(hexed), "n": 1}]
    assert rows_of(one) == [("plain", 2), (hexed, 1)]
    places, rows = one.lookup(["_id"], pa.record_batch({"_id": [hexed, "none", None, "plain"]}))
    assert places.to_pylist() == [0, 3] and rows.column(1).to_pylist() == [1, 2]
    alone = Schema.of(("_id", INT))
    keys = table_of(mongodb, alone, ("_id",))
    for _ in range(2):
        MongoDocuments(keys).write([ChangelogBatch.of([pa.array([4, 5], pa.int32())], alone)])
    assert documents(mongodb, keys) == [{"_id": 4}, {"_id": 5}]
    with pytest.raises(SqlEngineError, match=r"E3282.*a part of the key is NULL"):
        MongoDocuments(one).write([ChangelogBatch.of([pa.array([None], pa.string()), pa.array([1], pa.int32())], own)])


def test_lookups_by_several_columns(mongodb: MongoServer) -> None:
    schema = Schema.of(("a", INT), ("b", STRING), ("n", BIGINT))
    table = filled(mongodb, schema, [(1, "x", 10), (1, "y", 11), (2, "x", 12), (1, "x", 13)])
    keys = pa.record_batch({"a": pa.array([2, 1, 1, 3], pa.int32()), "b": ["x", "x", None, "x"]})
    places, rows = table.lookup(["a", "b"], keys)
    assert list(zip(places.to_pylist(), rows.column(2).to_pylist(), strict=True)) == [(0, 12), (1, 10), (1, 13)]


def test_ids_of_all_kinds_are_read_behind_each_other(mongodb: MongoServer) -> None:
    moment = datetime.datetime(2024, 1, 1)
    ids = [
        1,
        2.5,
        bson.Int64(2**40),
        "a",
        "b",
        {"k": 1},
        bson.Binary(b"x"),
        bson.ObjectId("5" * 24),
        False,
        True,
        moment,
    ]
    table = table_of(mongodb, Schema.of(("n", INT)), (), **{"scan.fetch-size": "1"})
    with mongodb.connected() as database:
        collection = database[table.address.collection]
        collection.insert_many([{"_id": each, "n": n} for n, each in enumerate(ids)])
        order = [document["_id"] for document in collection.find(sort=[("_id", 1)])]
        for place, each in enumerate(order):
            behind = [document["_id"] for document in collection.find(_behind(each), sort=[("_id", 1)])]
            assert behind == order[place + 1 :], each
    assert sorted(rows_of(table)) == [(n,) for n in range(len(ids))]


@pytest.mark.parametrize(
    ("type_", "value", "read"),
    [
        (INT, 5.0, 5), (INT, 5.5, None), (INT, "5", None), (INT, True, None), (INT, 2**40, None), (DOUBLE, 3, 3.0),
        (DOUBLE, bson.Decimal128("1.5"), 1.5), (STRING, 5, None), (STRING, bson.ObjectId("5" * 24), "5" * 24),
        (decimal(4, 1), bson.Decimal128("12.35"), Decimal("12.4")), (decimal(4, 1), 0.25, Decimal("0.3")),
        (decimal(4, 1), bson.Decimal128("12345"), None), (decimal(4, 1), bson.Decimal128("NaN"), None), (DATE, "2024-01-01", None),
        (DATE, datetime.datetime(2024, 1, 1, 23), datetime.date(2024, 1, 1)), (BYTES, "x", None),
        (timestamp(3), datetime.datetime(2024, 1, 1, 0, 0, 0, 5000), datetime.datetime(2024, 1, 1, 0, 0, 0, 5000)),
    ],
)  # fmt: skip
def test_values_of_another_kind(mongodb: MongoServer, type_: Any, value: Any, read: Any) -> None:
    table = table_of(mongodb, Schema.of(("v", type_)), ())
    with mongodb.connected() as database:
        database[table.address.collection].insert_one({"v": value})
    if read is not None:
        assert rows_of(table) == [(read,)]
        return
    with pytest.raises(SqlEngineError, match=r"E3283.*the field v of a document is no"):
        rows_of(table)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"uri": "http://h/"}, "not the address of MongoDB"),
        ({"uri": "mongodb://h/?tlsCAFile=/etc/passwd"}, "'tlsCAFile' that is not taken"),
        ({"uri": "mongodb://h/?tlsAllowInvalidCertificates=true"}, "that is not taken"),
        ({"uri": "mongodb://h/?authMechanism=MONGODB-AWS"}, "users have passwords"),
        ({"uri": "mongodb://h/?replicaset1=x"}, 'did you mean "replicaset"'),
        ({"database": "a b"}, "names of MongoDB"),
        ({"collection": "system.users"}, "names of MongoDB"),
        ({"scan.fetch-size": "0"}, "at least 1"),
        ({"colection": "x"}, "E1503"),
    ],
)
def test_options(options: dict[str, str], told: str) -> None:
    with pytest.raises(SqlEngineError) as caught:
        table_of(MongoServer(None, 1), **{"collection": "c", **options})  # type: ignore[arg-type]
    assert told in str(caught.value)


@pytest.mark.parametrize("type_", [timestamp(6), decimal(38, 2)])
def test_columns_that_documents_do_not_hold(type_: Any) -> None:
    with pytest.raises(SqlEngineError, match=r'E1643.*column "v" of type'):
        table_of(MongoServer(None, 1), Schema.of(("v", type_)))  # type: ignore[arg-type]


def test_nobody_sees_the_password() -> None:
    table = table_of(MongoServer(None, 1), uri="mongodb://me:zq9Secret@h:1,i:2/?authSource=admin")  # type: ignore[arg-type]
    assert "zq9Secret" not in f"{table!r} {table.describe()} {table.place()}"
    assert "h:1,i:2" in table.place()


def test_a_job_of_all(mongodb: MongoServer) -> None:
    """Written by key, read with filters, looked up, and refused."""
    with TableEnvironment.create() as env:
        env.execute_script(
            f"CREATE TABLE items (id INT, name STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ({mongodb.options}, "
            "'collection' = 'items'); CREATE TABLE orders (id INT, at AS PROCTIME()) WITH ('changelog-mode' = 'append');"
            "INSERT INTO orders VALUES (1), (3), (9);"
        )
        env.execute_sql("INSERT INTO items VALUES (1, 'a', 5), (2, 'b', 6), (3, 'c', NULL), (1, 'A', 7)").wait()
        assert sorted(tuple(r) for r in env.execute_sql("SELECT id, n FROM items WHERE n > 5 OR n IS NULL")) == [
            (1, 7),
            (2, 6),
            (3, None),
        ]
        plan = str(env.explain_sql("SELECT id FROM items WHERE n >= 6 AND name IN ('b', 'x')"))
        assert '"$gte"' in plan and '"$in"' in plan
        assert [tuple(r) for r in env.execute_sql("SELECT id FROM items WHERE n >= 6 AND name IN ('b', 'x')")] == [(2,)]
        joined = env.execute_sql(
            "SELECT o.id, i.name FROM orders AS o LEFT JOIN items FOR SYSTEM_TIME AS OF o.at AS i ON i.id = o.id"
        )
        assert sorted(tuple(r) for r in joined) == [(1, "A"), (3, "c"), (9, None)]
