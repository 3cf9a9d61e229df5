"""The connector `http` against a server: what is asked, what is told, what comes twice, and what is refused."""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from connector_tables import REGISTRY, sink

from connectors.http import sending
from connectors.http.client import TryLater, Way, client_of, patiently
from connectors.http.lookup import HttpBatchLookup, HttpKeyLookup
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, SqlEngineError, UnavailableError, UnsupportedError
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, INT, STRING, timestamp
from runtime.spi.lookup import AsyncLookupTable
from runtime.spi.registry import TableRequest
from sqlengine import TableEnvironment
from tests.servers.web import Reply, Request, WebServer, web_server

RATES = Schema.of(("currency", STRING), ("rate", INT))
TOKEN = "Bearer very-secret"


@pytest.fixture
def web() -> Iterator[WebServer]:
    with web_server() as server:
        yield server


def lookup(web: WebServer, path: str, schema: Schema = RATES, **options: str) -> Any:
    factory = REGISTRY.connectors.get("http").lookup
    assert factory is not None
    given = {"url": web.url + path, "format": "json", **{k.replace("_", "-"): v for k, v in options.items()}}
    return factory(TableRequest("rates", schema, (), given, Options({}), registry=REGISTRY))


def found(table: Any, columns: list[str], *keys: tuple[Any, ...]) -> list[tuple[int, dict[str, Any]]]:
    types = [table.schema[table.schema.index_of(c)].type.arrow for c in columns]
    batch = pa.RecordBatch.from_arrays([pa.array(c, t) for c, t in zip(zip(*keys), types)], names=columns)
    places, rows = table.lookup(columns, batch)
    assert places.type == pa.int64() and rows.schema == table.schema.arrow
    return list(zip(places.to_pylist(), rows.to_pylist()))


def of_paths(answers: dict[str, Any]) -> Any:
    def answer(request: Request) -> Reply:
        told = answers.get(request.name)
        return Reply(404, b"nobody") if told is None else Reply(200, json.dumps(told, indent=1).encode())

    return answer


def test_a_request_for_each_key(web: WebServer) -> None:
    web.answer = of_paths(
        {"EUR": {"currency": "EUR", "rate": 3}, "a/b ?ü": [{"rate": 1}, {"rate": None}], "none": [], "X": {"more": 1}}
    )
    table = lookup(web, "/rates/{currency}", authorization=TOKEN, http_headers="X-Shop: 7 | Accept-Language: en")
    assert isinstance(table, AsyncLookupTable)
    keys = [("a/b ?ü",), ("none",), (None,), ("EUR",), ("USD",), ("..",), ("X",)]
    assert found(table, ["currency"], *keys) == [
        (0, {"currency": "a/b ?ü", "rate": 1}),
        (0, {"currency": "a/b ?ü", "rate": None}),
        (3, {"currency": "EUR", "rate": 3}),
        (6, {"currency": "X", "rate": None}),
    ]
    assert sorted(r.name for r in web.asked) == ["EUR", "USD", "X", "a/b ?ü", "none"]
    assert {r.headers["Authorization"] for r in web.asked} == {TOKEN}
    assert web.asked[0].headers["X-Shop"] == "7" and web.asked[0].method == "GET"
    assert "very-secret" not in f"{table!r} {table.describe()} {table.place()}"


def test_other_columns_are_in_the_query(web: WebServer) -> None:
    schema = Schema.of(("a", STRING), ("b", BIGINT), ("at", timestamp(3)), ("v", INT))
    web.answer = lambda request: Reply(200, b'{"v": 1}')
    table = lookup(web, "/x?key=1", schema)
    moment = datetime.datetime(2024, 2, 29, 1, 2, 3)
    assert len(found(table, ["at", "a", "b"], (moment, "x&y=z", -5))) == 1
    assert web.asked[0].query == {"key": "1", "a": "x&y=z", "b": "-5", "at": "2024-02-29T01:02:03"}
    with pytest.raises(UnsupportedError, match="names the column a"):
        found(lookup(web, "/{a}", schema), ["b"], (1,))


def test_a_post_has_the_key_as_an_object(web: WebServer) -> None:
    web.answer = lambda request: Reply(200, b'{"rate": 5}')
    assert found(lookup(web, "/", method="post"), ["currency"], ('"',)) == [(0, {"currency": '"', "rate": 5})]
    assert web.asked[0].method == "POST" and json.loads(web.asked[0].body) == {"currency": '"'}
    assert web.asked[0].headers["Content-Type"] == "application/json"


def test_many_keys_are_one_post(web: WebServer) -> None:
    def answer(request: Request) -> Reply:
        keys = [one["currency"] for one in json.loads(request.body)]
        rows = [{"currency": k, "rate": i} for k in keys if k != "C" for i in range(2 if k == "B" else 1)]
        return Reply(200, json.dumps(rows[::-1]).encode())

    web.answer = answer
    table = lookup(web, "/", **{"lookup.batch-size": "2"})
    assert isinstance(table, HttpBatchLookup) and not isinstance(table, AsyncLookupTable)
    got = found(table, ["currency"], ("B",), (None,), ("C",), ("D",))
    assert [(place, row["currency"]) for place, row in got] == [(0, "B"), (0, "B"), (3, "D")]
    assert sorted(len(json.loads(r.body)) for r in web.asked) == [1, 2]


def test_answers_that_are_none(web: WebServer) -> None:
    web.answer = lambda request: Reply(200, b"<html>")
    with pytest.raises(ConnectorError, match="what is no json") as caught:
        found(lookup(web, "/"), ["currency"], ("E",))
    assert caught.value.code == "E3251"
    assert found(lookup(web, "/", **{"json.ignore-parse-errors": "true"}), ["currency"], ("E",)) == []
    web.answer = lambda request: Reply(403, TOKEN.encode())
    with pytest.raises(ConnectorError, match="HTTP 403") as caught:
        found(lookup(web, "/", authorization=TOKEN), ["currency"], ("E",))
    assert caught.value.code == "E3250" and "very-secret" not in str(caught.value)
    web.answer = lambda request: Reply(302, b"", {"Location": "http://elsewhere/"})
    with pytest.raises(ConnectorError, match="HTTP 302"):
        found(lookup(web, "/"), ["currency"], ("E",))
    web.answer = lambda request: Reply(200, b" " * 2000 + b"{}")
    with pytest.raises(ConnectorError, match="more than 1000 bytes"):
        found(lookup(web, "/", **{"source.max-record-size": "1000 b"}), ["currency"], ("E",))


def test_connections_are_kept_and_lost_ones_made_anew(web: WebServer) -> None:
    client = client_of(Way())
    for _ in range(5):
        assert client.ask("GET", web.url).status == 200
    assert web.connections == 1
    web.first = [Reply(0), Reply(200, b"x"), Reply(0), Reply(0), Reply(200, b"y")]
    assert client.ask("GET", web.url).body == b"x"
    with pytest.raises(UnavailableError):
        client.ask("GET", web.url)
    assert client.ask("GET", web.url).body == b"y"


def test_a_server_says_when_it_may_be_asked_again(web: WebServer) -> None:
    client = client_of(Way())
    for text, least, most in (("7", 7, 7), ("soon", 0, 0), ("", 0, 0), ("99999999999", 300, 300)):
        with pytest.raises(TryLater) as caught:
            web.first = [Reply(429, b"slow down", {"Retry-After": text})]
            client.accepted(client.ask("GET", web.url), "t")
        assert least <= caught.value.seconds <= most


def test_joined_in_a_query(web: WebServer) -> None:
    web.answer = of_paths({"EUR": {"currency": "EUR", "rate": 3}})
    web.first = [Reply(503), Reply(500)]
    with TableEnvironment.create() as env:
        env.execute_sql(
            f"CREATE TABLE rates (currency STRING, rate INT) WITH ('connector' = 'http', 'format' = 'json', "
            f"'url' = '{web.url}/rates/{{currency}}', 'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.max-rows' = '10')"
        )
        env.execute_sql("CREATE TABLE o (id INT, c STRING, at AS PROCTIME()) WITH ('changelog-mode' = 'append')")
        query = "SELECT id, rate FROM o LEFT JOIN rates FOR SYSTEM_TIME AS OF o.at AS r ON r.currency = o.c"
        env.execute_sql("INSERT INTO o VALUES (1, 'EUR'), (2, 'USD'), (3, 'EUR')")
        rows = env.execute_sql(query).to_arrow().to_pylist()
        assert sorted(tuple(r.values()) for r in rows) == [(1, 3), (2, None), (3, 3)]


# --- what is told


def batch(*rows: tuple[str, int | None]) -> ChangelogBatch:
    return ChangelogBatch.of([pa.array([r[0] for r in rows]), pa.array([r[1] for r in rows], pa.int32())], RATES)


def told(web: WebServer, **options: str) -> Any:
    return sink("http", RATES, {"url": f"{web.url}/in", "format": "json", **options})


def test_rows_are_posted(web: WebServer) -> None:
    writer = told(web).open_writer("job")
    writer.write(batch(("a", 1), ("b", None)))
    assert not web.asked
    writer.flush(0)
    assert [json.loads(r.body) for r in web.asked] == [{"currency": "a", "rate": 1}, {"currency": "b", "rate": None}]
    assert {r.headers["Content-Type"] for r in web.asked} == {"application/json"}
    assert len({r.headers["Idempotency-Key"] for r in web.asked}) == 2
    assert writer.prepare() is None


@pytest.mark.parametrize(
    ("options", "bodies", "kind"),
    [
        (
            {},
            [b'[{"currency":"a","rate":1},{"currency":"b","rate":2}]', b'[{"currency":"c","rate":3}]'],
            "application/json",
        ),
        (
            {"sink.batch-body": "lines"},
            [b'{"currency":"a","rate":1}\n{"currency":"b","rate":2}', b'{"currency":"c","rate":3}'],
            "application/x-ndjson",
        ),
        ({"format": "csv", "sink.batch-body": "lines"}, [b"a,1\nb,2", b"c,3"], "text/csv"),
    ],
)
def test_batches(web: WebServer, options: dict[str, str], bodies: list[bytes], kind: str) -> None:
    writer = told(web, **{"sink.batch-size": "2", "method": "PUT", **options}).open_writer("job")
    writer.write(batch(("a", 1), ("b", 2), ("c", 3)))
    writer.flush(0)
    assert [r.body for r in web.asked] == bodies
    assert {(r.method, r.headers["Content-Type"]) for r in web.asked} == {("PUT", kind)}


def test_a_busy_server_is_told_again_under_the_same_key(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(sending, "patiently", lambda *given: patiently(*given, pauses.append))
    web.first = [Reply(), Reply(429, b"", {"Retry-After": "20"}), Reply(503)]
    writer = told(web).open_writer("job")
    writer.write(batch(("a", 1), ("b", 2)))
    writer.flush(0)
    assert pauses[0] == 20 and pauses[1] < 1 and len(pauses) == 2
    keys = [r.headers["Idempotency-Key"] for r in web.asked]
    assert len(keys) == 4 and len(set(keys)) == 2 and len(set(keys[1:])) == 1


def test_who_refuses_fails_the_job(web: WebServer) -> None:
    web.answer = lambda request: Reply(422, b"no such currency")
    writer = told(web).open_writer("job")
    writer.write(batch(("a", 1)))
    with pytest.raises(ConnectorError, match="HTTP 422 no such currency"):
        writer.flush(0)


def test_with_its_checkpoint_a_request_repeats_itself(web: WebServer) -> None:
    """A receiver that leaves out keys that it knows takes each row once, wherever the sender dies."""
    taken: dict[str, bytes] = {}

    def answer(request: Request) -> Reply:
        key = request.headers["Idempotency-Key"]
        assert taken.setdefault(key, request.body) == request.body
        return Reply()

    web.answer = answer
    table, real = told(web, **{"sink.send-with": "checkpoint"}), sending.HttpRequests._sent
    for dies_at in itertools.count(1):
        taken.clear()
        left, died = dies_at, False

        def bomb(self: Any, key: str, body: bytes) -> None:
            nonlocal left, died
            left -= 1
            real(self, key, body)
            if left == 0:
                died = True
                raise KeyboardInterrupt

        saved: tuple[int, Any] = (0, None)
        writer, at = None, 0
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sending.HttpRequests, "_sent", bomb)
            while saved[0] < 4 or writer is None:
                try:
                    if writer is None:
                        writer, at = table.open_writer("job"), saved[0]
                        writer.recover([] if saved[1] is None else [saved[1]])
                    while at < 4:
                        writer.write(batch((f"e{at}", at), (f"e{at}", at)))
                        writer.flush(at)
                        at += 1
                        prepared = json.loads(json.dumps(writer.prepare()))
                        saved = (at, prepared)
                        writer.publish(prepared)
                except KeyboardInterrupt:
                    writer = None
        assert sorted(json.loads(b)["rate"] for b in taken.values()) == [0, 0, 1, 1, 2, 2, 3, 3]
        if not died:
            break
    assert dies_at == 9


def test_inserted_by_a_query(web: WebServer) -> None:
    with TableEnvironment.create() as env:
        env.execute_sql(
            f"CREATE TABLE t (id INT, name STRING) WITH ('connector' = 'http', 'format' = 'json', 'url' = '{web.url}/t')"
        )
        env.execute_sql("INSERT INTO t VALUES (1, 'a')").wait()
    assert [json.loads(r.body) for r in web.asked] == [{"id": 1, "name": "a"}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'url' = 'ftp://h'", "no address|not an address"),
        ("'url' = 'http://user:pw@h/'", "not an address"),
        ("'url' = 'http://good\\@bad/'", "not an address"),
        ("'url' = 'http://h:99999/'", "not an address"),
        ("'url' = 'http://h/{id'", "brace"),
        ("'url' = 'http://h/{id}'", "to one address"),
        ("'url' = 'http://h/', 'method' = 'GET'", "cannot be written by"),
        ("'url' = 'http://h/', 'methods' = 'GET'", "unknown option 'methods'"),
        ("'url' = 'http://h/', 'http-headers' = 'a b: c'", "no header"),
        ("'url' = 'http://h/', 'sink.batch-size' = '0'", "at least 1"),
        ("'url' = 'http://h/', 'format' = 'csv', 'sink.batch-size' = '2'", "cannot be an array"),
        ("'url' = 'http://h/', 'format' = 'parquet'", "of files"),
    ],
)
def test_what_is_wrong(options: str, message: str) -> None:
    given = options if "'format'" in options else f"{options}, 'format' = 'json'"
    with TableEnvironment.create() as env, pytest.raises(SqlEngineError, match=message):
        env.execute_sql(f"CREATE TABLE t (id INT) WITH ('connector' = 'http', {given})")
        env.execute_sql("INSERT INTO t VALUES (1)").wait()


def test_what_is_wrong_with_lookups(web: WebServer) -> None:
    with pytest.raises(SqlEngineError, match="no column"):
        lookup(web, "/{curency}")
    with pytest.raises(SqlEngineError, match="not possible"):
        lookup(web, "/", method="PUT")
    assert isinstance(lookup(web, "/"), HttpKeyLookup)
