"""Changes of a collection of MongoDB, against a stand-in for a replica set: documents, then changes, with no gap between."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import bson
import pytest
from connector_tables import changes_of, source

from connectors.mongodb.cdc.table import MongoCdcSource
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from runtime.core.errors import SqlEngineError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING, timestamp_ltz
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import Context, SourceContract
from tests.servers.mongodb_changes import ChangingCollection, changing_collection

SCHEMA = Schema.of(("_id", INT), ("name", STRING))
_FIRST = {"at": {"since": [1_700_000_000, 3], "behind": None}, "rows": 0}
"""Behind the first event."""


@pytest.fixture
def there(no_pauses: None) -> Iterator[ChangingCollection]:
    with changing_collection() as found:
        yield found


def followed(
    there: ChangingCollection,
    schema: Schema = SCHEMA,
    key: tuple[str, ...] = ("_id",),
    metadata: Any = (),
    **options: str,
) -> MongoCdcSource:
    given = {
        "uri": there.uri,
        "database": "shop",
        "collection": "items",
        "poll.await.time.ms": "20",
        "poll.max.batch.size": "3",
        **options,
    }
    made = source("mongodb-cdc", schema, given, primary_key=key, metadata=metadata)
    assert isinstance(made, MongoCdcSource)
    return made


class _Following:
    """Reads a table from a position on."""

    def __init__(self, table: MongoCdcSource, position: Any = None) -> None:
        self._woken = threading.Event()
        context = Context()
        context.wake = self._woken.set  # type: ignore[method-assign]
        (split,) = table.splits()
        self.reader = table.open(split, context)
        if position is not None:
            self.reader.seek(json.loads(json.dumps(position)))

    def all(self, at_once: int = 100) -> list[tuple[int, tuple[Any, ...]]]:
        """All changes that there are now."""
        self.reader.fetch_end_offset()
        found: list[tuple[int, tuple[Any, ...]]] = []
        while (batch := self.reader.poll(at_once)) is not None:
            found += changes_of(batch)
        return found

    def close(self) -> Any:
        position = self.reader.position()
        self.reader.close()
        return position


class TestSnapshot(SourceContract):
    """The documents as they are, which has an end."""

    connectors = ("mongodb-cdc",)

    @pytest.fixture
    def table(self, there: ChangingCollection) -> MongoCdcSource:
        there.put(*({"_id": i, "name": f"n{i}"} if i % 3 else {"_id": i} for i in range(8)))
        return followed(there, **{"scan.startup.mode": "snapshot"})

    @pytest.fixture
    def away(self, there: ChangingCollection) -> Callable[[], AbstractContextManager[MongoCdcSource]]:
        @contextmanager
        def nobody() -> Iterator[MongoCdcSource]:
            options = {"uri": "mongodb://127.0.0.1:9/?directConnection=true", "connect-timeout": "200 ms"}
            yield followed(there, **options, **{"scan.startup.mode": "snapshot"})

        return nobody


def applied(changes: list[tuple[int, tuple[Any, ...]]], rows: dict[Any, Any] | None = None) -> dict[Any, Any]:
    """What there is after changes that replace each other by key."""
    rows = {} if rows is None else rows
    for kind, row in changes:
        if kind == DELETE:
            rows.pop(row[0], None)
        else:
            rows[row[0]] = row[1]
    return rows


def test_documents_then_changes(there: ChangingCollection) -> None:
    there.put({"_id": 1, "name": "a"}, {"_id": 2, "name": "b"})
    reading = _Following(followed(there))
    assert reading.all() == [(INSERT, (1, "a")), (INSERT, (2, "b"))]
    there.put({"_id": 3, "name": "c"}, {"_id": 1, "name": "A"})
    there.set(2, name="B", other=5)
    there.delete(3)
    assert reading.all() == [
        (UPDATE_AFTER, (3, "c")), (UPDATE_AFTER, (1, "A")), (UPDATE_AFTER, (2, "B")), (DELETE, (3, None)),
    ]  # fmt: skip
    assert reading.all() == []
    reading.close()
    aggregates = [command for command in there.seen if "aggregate" in command]
    assert aggregates[0]["pipeline"][0]["$changeStream"]["fullDocument"] == "updateLookup"


def test_what_changes_while_documents_are_read(there: ChangingCollection) -> None:
    """Documents that are read late are as they are then; the stream tells the rest, from the moment before the first page on."""
    there.put(*({"_id": i, "name": "old"} for i in range(9)))
    table = followed(there)
    reading = _Following(table)
    assert reading.reader.poll(2) is not None
    position = reading.close()
    there.set(0, name="new")
    there.delete(1, 8)
    there.put({"_id": 8, "name": "again"}, {"_id": 9, "name": "later"})
    rest = _Following(table, position)
    assert applied(rest.all(), {0: "old", 1: "old"}) == {d["_id"]: d["name"] for d in there.documents.values()}
    rest.close()


def test_reading_goes_on_from_every_position(there: ChangingCollection) -> None:
    there.put(*({"_id": i, "name": "x"} for i in range(4)))
    table, since = followed(there), there.now()
    for step in range(3):
        there.set(0, name=f"{step}")
        there.set(1, name=f"{step}")
        there.delete(3 - step) if step < 2 else None
    final = {d["_id"]: d["name"] for d in there.documents.values()}
    once = _Following(table, {"at": {"since": [since.time, since.inc + 1], "behind": None}, "rows": 0})
    seen, positions = list[Any](), list[Any]()
    while True:
        positions.append((once.reader.position(), list(seen)))
        once.reader.fetch_end_offset()
        if (batch := once.reader.poll(1)) is None:
            break
        seen += changes_of(batch)
    once.close()
    assert applied(seen) == final
    assert len(positions) > 8
    for position, before in positions:
        again = _Following(table, position)
        assert applied(again.all(), applied(before)) == final
        again.close()


def test_a_document_that_is_gone_before_it_is_looked_up(there: ChangingCollection) -> None:
    there.put({"_id": 1, "name": "a"})
    reading = _Following(followed(there))
    assert reading.all() == [(INSERT, (1, "a"))]
    position = reading.close()
    there.set(1, name="b")
    there.delete(1)
    rest = _Following(followed(there), position)
    assert rest.all() == [(DELETE, (1, None))]
    rest.close()


def test_old_documents(there: ChangingCollection) -> None:
    """The pages are of one moment, and no row comes twice."""
    there.put(*({"_id": i, "name": "old"} for i in range(5)))
    table = followed(there, key=(), **{"scan.full-changelog": "true"})
    reading = _Following(table)
    first = reading.reader.poll(2)
    assert first is not None and changes_of(first) == [(INSERT, (0, "old")), (INSERT, (1, "old"))]
    position = reading.close()
    there.set(0, name="new")
    there.delete(4)
    there.put({"_id": 5, "name": "more"})
    rest = _Following(table, position)
    expected = [
        (INSERT, (2, "old")), (INSERT, (3, "old")), (INSERT, (4, "old")), (UPDATE_BEFORE, (0, "old")), (UPDATE_AFTER, (0, "new")),
        (DELETE, (4, "old")), (INSERT, (5, "more")),
    ]  # fmt: skip
    assert rest.all(1) == expected
    rest.close()
    again = _Following(table, position)
    assert [changes_of(again.reader.poll(1))[0] for _ in range(4)] == expected[:4]
    middle = again.close()
    behind = _Following(table, middle)
    # An old row and its new one are given together.
    assert behind.all() == expected[5:]
    behind.close()


@pytest.mark.parametrize("mode", ["latest-offset", "timestamp"])
def test_where_reading_begins(there: ChangingCollection, mode: str) -> None:
    there.put({"_id": 1, "name": "before"})
    options = {"scan.startup.mode": mode}
    if mode == "timestamp":
        options["scan.startup.timestamp-millis"] = str(there.now().time * 1000)
    reading = _Following(followed(there, **options))
    assert reading.all() == ([] if mode == "latest-offset" else [(UPDATE_AFTER, (1, "before"))])
    there.put({"_id": 2, "name": "now"})
    assert reading.all() == [(UPDATE_AFTER, (2, "now"))]
    reading.close()


def test_a_position_moves_without_changes(there: ChangingCollection) -> None:
    reading = _Following(followed(there, **{"scan.startup.mode": "latest-offset"}))
    assert reading.all() == []
    assert json.loads(reading.close()["at"]["token"]) == {"_data": "00000000"}


@pytest.mark.parametrize(
    ("prepare", "options", "told"),
    [
        (lambda there: there.end("drop"), {}, r"E3172 shop\.items has ended \(drop\)"),
        (lambda there: there.end("rename"), {}, r"E3172.*\(rename\)"),
        (lambda there: setattr(there, "forgotten", 99), {}, "E3170.*no longer be in the oplog"),
        (lambda there: setattr(there, "alone", True), {}, "E3171.*replica set"),
        (lambda there: setattr(there, "images", False), {"scan.full-changelog": "true"}, "E3171.*post-image"),
        (lambda there: there.refusing.update(find=[(239, "too old")]), {"scan.full-changelog": "true"}, "E3173.*too old"),
        (lambda there: there.refusing.update(aggregate=[(13, "not authorized")]), {}, "E3281.*not authorized"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed(there: ChangingCollection, prepare: Any, options: dict[str, str], told: str) -> None:
    there.put({"_id": 1, "name": "a"})
    prepare(there)
    reading = _Following(followed(there, **options), None if there.alone else _FIRST)
    there.put({"_id": 2, "name": "b"})
    with pytest.raises(SqlEngineError, match=told):
        for _ in range(9):
            reading.all()
    reading.close()


def test_a_server_that_is_busy_for_a_moment(there: ChangingCollection) -> None:
    there.refusing["getMore"] = [(43, "cursor id not found"), (43, "cursor id not found")]
    reading = _Following(followed(there))
    there.put({"_id": 1, "name": "a"})
    assert applied(reading.all() + reading.all()) == {1: "a"}
    reading.close()


def test_metadata(there: ChangingCollection) -> None:
    schema = Schema.of(("_id", INT), ("at", timestamp_ltz(3)), ("what", STRING), ("of", STRING))
    table = followed(there, schema, metadata=(("at", "op_ts"), ("what", "row_kind"), ("of", "collection_name")))
    reading = _Following(table)
    assert reading.all() == []
    there.put({"_id": 1})
    ((_, row),) = reading.all()
    assert row == (1, datetime.datetime.fromtimestamp(there.now().time, datetime.UTC), "+U", "items")
    reading.close()


@pytest.mark.parametrize(
    ("key", "options", "told"),
    [
        ((), {}, r"needs PRIMARY KEY \(_id\)"),
        (("name",), {"scan.full-changelog": "true"}, r"needs PRIMARY KEY \(_id\)"),
        (("_id",), {"hosts": "h:1"}, "both 'uri' and 'hosts'"),
        (("_id",), {"uri": "", "hosts": "h:1", "connection.options": "tlsCAFile=/etc/x"}, "both|that is not taken"),
        (("_id",), {"poll.await.time.ms": "0"}, "from 1 to 60000"),
        (("_id",), {"scan.startup.mode": "timestamp"}, "E1504.*timestamp-millis"),
        (("_id",), {"initial.snapshotting.pipeline": "[]"}, "is not supported"),
        (("_id",), {"scan.startup.mod": "initial"}, 'did you mean "scan.startup.mode"'),
    ],
)  # fmt: skip
def test_options(key: tuple[str, ...], options: dict[str, str], told: str) -> None:
    with pytest.raises(SqlEngineError, match=told):
        followed(ChangingCollection(1), key=key, **options)


def test_hosts_with_a_user() -> None:
    options = {"hosts": "h:1,i:2", "username": "me", "password": "zq9:Secret@", "connection.options": "replicaSet=rs0"}
    made = source("mongodb-cdc", SCHEMA, {"database": "d", "collection": "c", **options}, primary_key=("_id",))
    assert isinstance(made, MongoCdcSource)
    assert made.options.address.uri.reveal() == "mongodb://me:zq9%3ASecret%40@h:1,i:2/?replicaSet=rs0"
    assert "Secret" not in f"{made!r} {made.describe()}"


def test_a_view_over_changes(there: ChangingCollection) -> None:
    there.put(*({"_id": bson.ObjectId(f"{i:024x}"), "shop": "ab"[i % 2], "n": i} for i in range(4)))
    with TableEnvironment.create() as env:
        env.execute_sql(
            "CREATE TABLE items (_id STRING, shop STRING, n INT, PRIMARY KEY (_id) NOT ENFORCED) WITH ('connector' = 'mongodb-cdc', "
            f"'uri' = '{there.uri}', 'database' = 'shop', 'collection' = 'items', 'poll.await.time.ms' = '20')"
        )
        env.execute_sql("CREATE MATERIALIZED VIEW sums AS SELECT shop, SUM(n) AS n FROM items GROUP BY shop")
        env.execute_sql("FLUSH")
        assert sorted(tuple(r) for r in env.execute_sql("SELECT * FROM sums")) == [("a", 2), ("b", 4)]
        there.set(bson.ObjectId(f"{3:024x}"), shop="a")
        there.delete(bson.ObjectId(f"{1:024x}"))
        env.execute_sql("FLUSH")
        assert sorted(tuple(r) for r in env.execute_sql("SELECT * FROM sums")) == [("a", 5)]
