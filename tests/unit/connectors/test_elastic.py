"""Elasticsearch and OpenSearch against a stand-in for their protocol: documents once, whatever is killed; ids, indices; reads."""

from __future__ import annotations

import base64
import datetime
import json
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from connector_tables import REGISTRY

from connectors.elastic.commits import COMMITS, ElasticCommits, ElasticDocuments
from connectors.elastic.table import ElasticTable
from runtime.core.changelog import APPEND, DELETE, INSERT, RETRACT, UPDATE_AFTER, ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError, SqlEngineError
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import DATE, INT, STRING, timestamp
from runtime.spi.registry import TableRequest
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SinkCase, SinkContract, SourceContract, rows_of, some_epochs
from sqlengine.testing.connectors.reading import Context
from tests.servers.elastic import Cluster, cluster
from tests.servers.web import Reply

SCHEMA = Schema.of(("id", INT), ("name", STRING))
TYPES = ("int", "bigint", "double", "boolean", "string", "date", "decimal", "timestamp")


@pytest.fixture(params=["elasticsearch", "opensearch"])
def there(request: pytest.FixtureRequest, no_pauses: None) -> Iterator[Cluster]:
    with cluster(request.param) as found:
        yield found


def table_of(
    there: Cluster, schema: Schema = SCHEMA, key: tuple[str, ...] = ("id",), writes: bool = False, **options: str
) -> ElasticTable:
    factory = REGISTRY.connectors.get("opensearch" if there.kind == "opensearch" else "elasticsearch-7")
    make = factory.sink if writes else factory.source
    assert make is not None
    given = {"hosts": there.url, "index": "things", **options}
    table = make(TableRequest("t", schema, key, given, Options({}), registry=REGISTRY))
    assert isinstance(table, ElasticTable)
    return table


def changes(*rows: tuple[int, int, str | None]) -> ChangelogBatch:
    kinds = np.array([kind for kind, _, _ in rows], np.int8)
    columns = [pa.array([r[1] for r in rows], pa.int32()), pa.array([r[2] for r in rows], pa.string())]
    return ChangelogBatch.of(columns, SCHEMA, kinds)


def filled(there: Cluster, schema: Schema, rows: list[tuple[Any, ...]]) -> ElasticTable:
    columns = [pa.array([row[i] for row in rows], f.type.arrow) for i, f in enumerate(schema)]
    table = table_of(there, schema, ())
    # Ids in the order of the rows, for both orders.
    ElasticDocuments(table)._write([ChangelogBatch.of(columns, schema)], 1, "row")
    held = there.indices["things"]
    there.indices["things"] = {f"{int(i.rpartition('-')[2]):06}": d for i, d in held.items()}
    return table


@pytest.fixture
def opensearch() -> Iterator[Cluster]:
    with cluster("opensearch") as found:
        yield found


class TestSource(SourceContract):
    connectors = ("elasticsearch-7", "opensearch")
    types = TYPES

    @pytest.fixture
    def table(self, opensearch: Cluster) -> ElasticTable:
        filled(opensearch, SCHEMA, [(i, None if i % 3 == 0 else f"n{i}") for i in range(14)])
        return table_of(opensearch, key=(), **{"scan.page-size": "4"})

    @pytest.fixture
    def holding(self, opensearch: Cluster) -> Callable[[Schema, list[tuple[Any, ...]]], ElasticTable]:
        return lambda schema, rows: filled(opensearch, schema, rows)

    @pytest.fixture
    def away(self, opensearch: Cluster) -> Callable[[], AbstractContextManager[ElasticTable]]:
        @contextmanager
        def nobody() -> Iterator[ElasticTable]:
            opensearch.web.answer = lambda request: Reply(503)
            yield table_of(opensearch)

        return nobody


class TestByKey(SinkContract):
    """Keys come again, change and go."""

    connectors = ("elasticsearch-7", "opensearch")
    steps = (
        (ElasticCommits, "last"),
        (ElasticCommits, "_write_rows"),
        (ElasticCommits, "_keep"),
        (ElasticDocuments, "_bulk"),
    )
    seeds = 1

    @pytest.fixture
    def make(self, elastic: Cluster) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            elastic.indices.clear()
            rows: dict[int, str | None] = {}
            epochs: list[ChangelogBatch] = []
            states: list[dict[int, str | None]] = [{}]
            for epoch in range(5):
                found: list[tuple[int, int, str | None]] = []
                for key in rng.sample(range(6), 3):
                    if key in rows and rng.random() < 0.4:
                        found.append((DELETE, key, rows.pop(key)))
                    else:
                        kind = UPDATE_AFTER if key in rows else INSERT
                        rows[key] = f"e{epoch}"
                        found.append((kind, key, rows[key]))
                epochs.append(changes(*found))
                states.append(dict(rows))
            table = table_of(elastic, writes=True, **{"sink.bulk-flush.max-actions": "2"})
            visible = lambda: sorted((int(i), d["name"]) for i, d in elastic.documents("things").items())  # noqa: E731
            return SinkCase(table, visible, epochs, lambda n: sorted(states[n].items()))

        return case


class TestWithoutKey(SinkContract):
    connectors = ("elasticsearch-7", "opensearch")
    steps = ((ElasticCommits, "commit"), (ElasticCommits, "_write_rows"))
    seeds = 1

    @pytest.fixture
    def make(self, elastic: Cluster) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            elastic.indices.clear()
            visible = lambda: sorted(((d["id"], d["name"]) for d in elastic.documents("things").values()), key=repr)  # noqa: E731
            return SinkCase(table_of(elastic, key=(), writes=True), visible, *some_epochs(rng, SCHEMA, 3))

        return case


@pytest.fixture
def elastic(no_pauses: None) -> Iterator[Cluster]:
    with cluster() as found:
        yield found


def test_an_older_run_is_told(elastic: Cluster) -> None:
    table = table_of(elastic, writes=True)
    first = ElasticCommits(table, "job")
    assert first.last() == 0
    first.commit(1, [changes((INSERT, 1, "a"))])
    second = ElasticCommits(table, "job")
    assert second.last() == 1
    with pytest.raises(FencedError):
        first.commit(2, [changes((INSERT, 1, "b"))])
    second.commit(2, [changes((UPDATE_AFTER, 1, "c"), (INSERT, 2, "d"))])
    assert elastic.documents("things") == {"1": {"id": 1, "name": "c"}, "2": {"id": 2, "name": "d"}}
    assert ElasticCommits(table, "job").last() == 2 and ElasticCommits(table, "another").last() == 0
    assert {d["number"] for d in elastic.documents(COMMITS).values()} == {2, 0}


def test_documents_that_are_there_already_are_replaced(elastic: Cluster) -> None:
    for number in range(5):
        elastic.put("things", "1", {"id": 1, "name": f"old{number}"})
    commits = ElasticCommits(table_of(elastic, writes=True), "job")
    commits.commit(commits.last() + 1, [changes((INSERT, 1, "new"))])
    assert elastic.documents("things")["1"]["name"] == "new"


def test_somebody_else_who_writes_is_told(elastic: Cluster) -> None:
    commits = ElasticCommits(table_of(elastic, writes=True), "job")
    commits.commit(commits.last() + 1, [changes((INSERT, 1, "a"))])
    for _ in range(3):
        elastic.put("things", "1", {})
    with pytest.raises(FencedError, match="newer there"):
        commits.commit(2, [changes((UPDATE_AFTER, 1, "b"))])


def test_what_is_busy_comes_again_and_what_is_refused_is_told(elastic: Cluster) -> None:
    elastic.busy = 2
    writer = table_of(elastic, writes=True, **{"sink.delivery-guarantee": "at-least-once"}).open_writer("job")
    writer.write(changes((INSERT, 1, "a"), (INSERT, 2, None)))
    writer.flush(0)
    assert elastic.documents("things") == {"1": {"id": 1, "name": "a"}, "2": {"id": 2, "name": None}}
    elastic.refused = {"3"}
    rows = changes((INSERT, 3, "x"), (INSERT, 4, "y"))
    with pytest.raises(ConnectorError, match="failed to parse field of 3") as caught:
        ElasticDocuments(table_of(elastic, writes=True)).write([rows])
    assert caught.value.code == "E3262"
    ElasticDocuments(table_of(elastic, writes=True, **{"failure-handler": "ignore"})).write([rows])
    assert set(elastic.documents("things")) == {"1", "2", "4"}


def test_names_of_indices_and_ids(elastic: Cluster) -> None:
    schema = Schema.of(("region", STRING), ("day", DATE), ("at", timestamp(3)), ("n", INT))
    rows = [
        ("eu", datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3), 1),
        ("us", datetime.date(1969, 1, 2), datetime.datetime(1, 1, 1), 2),
    ]
    batch = ChangelogBatch.of([pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(schema)], schema)
    index = "a-{region}-{day|yyyy.MM}-{at|}-{n}"
    table = table_of(elastic, schema, ("region", "day"), writes=True, index=index, **{"document-id.key-delimiter": "$"})
    ElasticDocuments(table).write([batch])
    found = {name: list(elastic.documents(name)) for name in elastic.indices}
    assert found == {
        "a-eu-2024.02-2024_02_29_01_02_03-1": ["eu$2024-02-29"],
        "a-us-1969.01-0001_01_01_00_00_00-2": ["us$1969-01-02"],
    }
    assert table.accepts(RETRACT) == APPEND, "an update could move a row to another index"
    inside = table_of(elastic, schema, ("region", "day"), writes=True, index="a-{region}")
    assert inside.accepts(RETRACT).delete
    with pytest.raises(ConnectorError, match="delimiter of ids"):
        ElasticDocuments(
            table_of(elastic, schema, ("region", "day"), writes=True, **{"document-id.key-delimiter": "u"})
        ).write([batch])
    gone = ChangelogBatch.of([pa.nulls(1, pa.string()), *(c.slice(0, 1) for c in batch.columns[1:])], schema)
    for key, message in (((), "into no index"), (("region",), "a part of the key is NULL")):
        with pytest.raises(ConnectorError, match=message):
            ElasticDocuments(table_of(elastic, schema, key, writes=True, index="a-{region}")).write([gone])


def test_the_index_of_now(elastic: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_709_200_000.0)
    table = table_of(elastic, key=(), writes=True, index="log-{now()|yyyy-MM-dd}")
    ElasticDocuments(table).write([changes((INSERT, 1, "a"))])
    assert list(elastic.indices) == ["log-2024-02-29"] and table.accepts(RETRACT) == APPEND


def test_requests_are_as_long_as_is_wanted(elastic: Cluster) -> None:
    options = {"sink.bulk-flush.max-actions": "10", "sink.bulk-flush.max-size": "400 b"}
    ElasticDocuments(table_of(elastic, writes=True, **options)).write(
        [changes(*((INSERT, i, "x" * (300 if i == 5 else 20)) for i in range(20)))]
    )
    lengths = [len(r.body) for r in elastic.web.asked]
    assert len(elastic.documents("things")) == 20 and sum(length > 400 for length in lengths) <= 1 and len(lengths) > 5


def test_lookups_by_id(there: Cluster) -> None:
    schema = Schema.of(("a", STRING), ("b", INT), ("v", timestamp(3)))
    there.put("by-x", "x_1", {"a": "x", "b": 1, "v": "2024-01-01 00:00:00.5", "more": {"a": [1]}})
    there.put("by-y", "y_1", {"a": "y", "b": 1})
    table = table_of(there, schema, ("a", "b"), index="by-{a}")
    keys = pa.RecordBatch.from_arrays(
        [pa.array([1, 1, None, 2, 1], pa.int32()), pa.array(["y", "x", "x", "x", "gone"])], names=["b", "a"]
    )
    places, rows = table.lookup(["b", "a"], keys)
    assert places.to_pylist() == [0, 1]
    assert rows.to_pylist() == [
        {"a": "y", "b": 1, "v": None},
        {"a": "x", "b": 1, "v": datetime.datetime(2024, 1, 1, 0, 0, 0, 500_000)},
    ]
    with pytest.raises(SqlEngineError, match="whole key"):
        table.lookup(["b"], keys.select([0]))
    there.put("by-y", "y_1", {"a": "y", "b": {"no": "number"}})
    with pytest.raises(ConnectorError) as caught:
        table.lookup(["b", "a"], keys)
    assert caught.value.code == "E3264"


def test_a_point_in_time_that_is_gone_is_told(there: Cluster) -> None:
    filled(there, SCHEMA, [(i, "x") for i in range(20)])
    table = table_of(there, key=(), **{"scan.page-size": "5"})
    reader = table.open(table.splits()[0], Context())
    while reader.poll(5) is None:
        pass
    position = json.loads(json.dumps(reader.position()))
    reader.close()
    there.points.clear()
    again = table.open(table.splits()[0], Context())
    again.seek(position)
    with pytest.raises(ConnectorError) as caught:
        while not again.finished:
            again.poll(5)
    again.close()
    assert caught.value.code == "E3263"


def test_what_there_is_to_read(there: Cluster) -> None:
    assert len(rows_of(filled(there, SCHEMA, [(i, "x") for i in range(20)]))) == 20
    with pytest.raises(ConnectorError, match="no such index"):
        rows_of(table_of(there, index="nothing"))
    assert rows_of(table_of(there, index="nothing*")) == []


def test_a_host_that_is_away_is_passed_by(elastic: Cluster) -> None:
    elastic.put("things", "1", {"id": 1})
    assert rows_of(table_of(elastic, hosts=f"http://127.0.0.1:1;{elastic.url}")) == [(1, None)]


def test_who_asks_is_told_and_no_text_has_the_password(elastic: Cluster) -> None:
    elastic.put("things", "1", {"id": 1})
    options = {"username": "shop", "password": "very:secret", "connection.path-prefix": "/es/"}
    real = elastic.web.answer

    def behind(request: Any) -> Reply:
        assert request.path.startswith("/es/")
        return real(type(request)(request.method, request.path[3:], request.query, request.headers, request.body))

    elastic.web.answer = behind
    table = table_of(elastic, **options)
    assert rows_of(table) == [(1, None)]
    sent = elastic.web.asked[0].headers["Authorization"]
    assert base64.b64decode(sent.removeprefix("Basic ")) == b"shop:very:secret"
    assert "very:secret" not in f"{table!r} {table.describe()} {table.place()}" and sent not in repr(table)
    elastic.web.answer = lambda request: Reply(403, b'{"error": {"reason": "action is unauthorized"}}')
    with pytest.raises(ConnectorError, match="action is unauthorized") as caught:
        rows_of(table)
    assert caught.value.code == "E3260"


def test_a_job_from_index_to_index(elastic: Cluster) -> None:
    for i in range(6):
        elastic.put(f"orders-{i % 2}", str(i), {"item": i % 3, "pieces": i})
    with TableEnvironment.create() as env:
        env.execute_sql(
            "CREATE TABLE orders (item INT, pieces INT) WITH ('connector' = 'elasticsearch-7', "
            f"'hosts' = '{elastic.url}', 'index' = 'orders-*')"
        )
        env.execute_sql(
            "CREATE TABLE sold (item INT PRIMARY KEY NOT ENFORCED, pieces INT) WITH ('connector' = 'elasticsearch-7', "
            f"'hosts' = '{elastic.url}', 'index' = 'sold')"
        )
        env.execute_sql("INSERT INTO sold SELECT item, SUM(pieces) FROM orders GROUP BY item").wait()
    assert elastic.documents("sold") == {str(i): {"item": i, "pieces": 2 * i + 3} for i in range(3)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'index' = 'a'", "needs the option 'hosts'"),
        ("'hosts' = 'http://h/x', 'index' = 'a'", "more than hosts"),
        ("'hosts' = 'h:9200', 'index' = 'a'", "no address|not an address"),
        ("'hosts' = 'http://h', 'index' = 'a-{idd}'", "no column"),
        ("'hosts' = 'http://h', 'index' = 'a-{id|yyyy}'", "no time"),
        ("'hosts' = 'http://h', 'index' = 'a-{id'", "brace"),
        ("'hosts' = 'http://h', 'index' = 'a-*'", "several indices"),
        ("'hosts' = 'http://h', 'index' = 'a', 'format' = 'csv'", "'format'|JSON"),
        ("'hosts' = 'http://h', 'index' = 'a', 'indx' = 'b'", 'did you mean "index"'),
        ("'hosts' = 'http://h', 'index' = 'a', 'username' = 'u', 'api-key' = 'b'", "both"),
    ],
)
def test_what_is_wrong(options: str, message: str) -> None:
    with TableEnvironment.create() as env, pytest.raises(SqlEngineError, match=message):
        env.execute_sql(f"CREATE TABLE t (id INT) WITH ('connector' = 'elasticsearch-7', {options})")
        env.execute_sql("INSERT INTO t VALUES (1)").wait()
