"""The connector `http` as a source: pages, what has come since, and positions in the middle of a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from connector_tables import REGISTRY

from connectors.http.json_places import place_of, read_path, scalar_at
from connectors.http.polling import HttpSource
from runtime.core.errors import SqlEngineError
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, DOUBLE, INT, STRING, timestamp
from runtime.spi.registry import TableRequest
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SourceContract, rows_of
from sqlengine.testing.connectors.reading import Context, drain
from tests.servers.web import Reply, Request, WebServer, web_server

SCHEMA = Schema.of(("id", INT), ("name", STRING))
ROWS = [(i, None if i % 3 == 0 else f"n{i}") for i in range(20)]


@pytest.fixture
def web() -> Iterator[WebServer]:
    with web_server() as server:
        yield server


def source(web: WebServer, schema: Schema = SCHEMA, path: str = "/items", **options: str) -> HttpSource:
    factory = REGISTRY.connectors.get("http").source
    assert factory is not None
    given = {"url": web.url + path, "format": "json"}
    given |= {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    table = factory(TableRequest("items", schema, (), given, Options({}), registry=REGISTRY))
    assert isinstance(table, HttpSource)
    return table


def objects(rows: list[tuple[Any, ...]], names: tuple[str, ...] = ("id", "name")) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in rows]


def of_cursors(rows: list[tuple[Any, ...]], size: int = 6) -> Callable[[Request], Reply]:
    """Pages of some rows, whose cursor is the number of the next row."""

    def answer(request: Request) -> Reply:
        at = int(request.query.get("after", 0))
        more = str(at + size) if at + size < len(rows) else None
        page = {"meta": {"next": more, "total": [1, {"next": 7}]}, "data": {"items": objects(rows[at : at + size])}}
        return Reply(200, json.dumps(page).encode())

    return answer


CURSOR = {
    "scan__rows": "data.items",
    "scan__page": "cursor",
    "scan__page__parameter": "after",
    "scan__page__path": "$.meta.next",
}


class TestPages(SourceContract):
    connectors = ("http",)
    types = ("int", "bigint", "double", "boolean", "string", "date", "decimal", "timestamp")

    @pytest.fixture
    def table(self, web: WebServer) -> HttpSource:
        web.answer = of_cursors(ROWS)
        return source(web, **CURSOR)

    @pytest.fixture
    def holding(self, web: WebServer) -> Callable[[Schema, list[tuple[Any, ...]]], HttpSource]:
        def held(schema: Schema, rows: list[tuple[Any, ...]]) -> HttpSource:
            shown = [json.dumps(dict(zip(schema.names, row, strict=True)), default=str) for row in rows]
            web.answer = lambda request: Reply(200, f"[{','.join(shown)}]".encode())
            return source(web, schema)

        return held

    @pytest.fixture
    def away(self, web: WebServer) -> Callable[[], AbstractContextManager[HttpSource]]:
        @contextmanager
        def nobody() -> Iterator[HttpSource]:
            web.answer = lambda request: Reply(503, b"not now")
            yield source(web)

        return nobody


def test_the_next_page_is_in_the_header_or_in_the_answer(web: WebServer) -> None:
    def answer(request: Request) -> Reply:
        at = int(request.query.get("p", 0))
        body = json.dumps(
            {"items": objects(ROWS[at * 8 : at * 8 + 8]), "next": None if at == 2 else f"?p={at + 1}"}
        ).encode()
        link = f'<{web.url}/items?p=0>; rel="first", </items?p={at + 1}&x=<>; rel=next'
        return Reply(200, body, {} if at == 2 else {"Link": link.replace("&x=<", "")})

    web.answer = answer
    assert rows_of(source(web, scan__rows="items", scan__page="link")) == ROWS
    assert rows_of(source(web, scan__rows="items", scan__page="link", scan__page__path="next")) == ROWS
    assert [r.query.get("p") for r in web.asked] == [None, "1", "2"] * 2


@pytest.mark.parametrize(("kind", "first", "step"), [("offset", 0, 6), ("number", 1, 1)])
def test_pages_by_offset_and_by_number_end_with_an_empty_one(web: WebServer, kind: str, first: int, step: int) -> None:
    def answer(request: Request) -> Reply:
        at = (int(request.query["p"]) - first) * 6 // step
        return Reply(200, json.dumps(objects(ROWS[at : at + 6])).encode())

    web.answer = answer
    table = source(web, scan__page=kind, scan__page__parameter="p", scan__page__first=str(first), path="/items?k=v")
    assert rows_of(table) == ROWS
    assert [r.query["p"] for r in web.asked] == [str(first + n * step) for n in range(4)] + [
        "20" if kind == "offset" else "5"
    ]
    assert len(web.asked) == 5 and {r.query["k"] for r in web.asked} == {"v"}


class Endless:
    """Reads an endless table round by round."""

    def __init__(self, table: HttpSource, position: Any = None) -> None:
        self.reader = table.open(table.splits()[0], Context())
        if position is not None:
            self.reader.seek(json.loads(json.dumps(position)))

    def round(self) -> list[tuple[Any, ...]]:
        """What has come until the server has been asked for all once more."""
        self.reader.fetch_end_offset()  # type: ignore[attr-defined]
        found: list[tuple[Any, ...]] = []
        while (batch := self.reader.poll(100)) is not None:
            found += [tuple(row.values()) for row in batch.rows.to_pylist()]
        return found


@pytest.fixture
def endless() -> Iterator[Callable[..., Endless]]:
    opened: list[Endless] = []

    def make(*args: Any) -> Endless:
        opened.append(Endless(*args))
        return opened[-1]

    yield make
    for each in opened:
        each.reader.close()


def test_what_has_come_since_is_given_once(web: WebServer, endless: Callable[..., Endless]) -> None:
    """The server gives the rows of the greatest value again, and rows of one value come late."""
    held = [(1, "a", "2024-01-01T00:00:00"), (2, "b", "2024-01-02T00:00:00.5"), (3, "c", "2024-01-02T00:00:00.5")]
    schema = Schema.of(("id", INT), ("name", STRING), ("t", timestamp(3)))

    def answer(request: Request) -> Reply:
        since = request.query.get("since", "")
        return Reply(200, json.dumps(objects([r for r in held if r[2] >= since], schema.names)).encode())

    web.answer = answer
    options = {
        "scan__since__column": "t",
        "scan__since__parameter": "since",
        "json__timestamp_format__standard": "ISO-8601",
    }
    table = source(web, schema, scan__interval="1 ms", **options)
    reading = endless(table.with_columns(["id"]))
    assert reading.round() == [(1,), (2,), (3,)]
    assert reading.round() == []
    held += [(4, "d", "2024-01-02T00:00:00.5"), (5, "e", "2024-01-03T00:00:00")]
    assert reading.round() == [(4,), (5,)]
    position = reading.reader.position()
    assert reading.round() == []
    held += [(6, "f", "2024-01-03T00:00:00")]
    assert [row[:2] for row in endless(table, position).round()] == [(6, "f")]
    assert {r.query.get("since") for r in web.asked} == {None, "2024-01-02T00:00:00.5", "2024-01-03T00:00:00"}


def test_an_answer_that_has_not_changed_gives_no_rows(web: WebServer, endless: Callable[..., Endless]) -> None:
    held = [ROWS[1]]

    def answer(request: Request) -> Reply:
        tag = f'"{len(held)}"'
        if request.headers.get("If-None-Match") == tag:
            return Reply(304, b"")
        return Reply(
            200, json.dumps(objects(held)).encode(), {"ETag": tag, "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
        )

    web.answer = answer
    reading = endless(source(web, scan__interval="1 ms"))
    assert reading.round() == held
    assert reading.round() == reading.round() == []
    held.append(ROWS[2])
    assert reading.round() == held
    assert web.asked[1].headers["If-Modified-Since"] == "Mon, 01 Jan 2024 00:00:00 GMT"


def test_asking_goes_on_from_the_last_cursor(web: WebServer, endless: Callable[..., Endless]) -> None:
    held = list(ROWS[:5])

    def answer(request: Request) -> Reply:
        at = int(request.query.get("after", 0))
        page = held[at : at + 2]
        return Reply(200, json.dumps({"next": at + len(page), "rows": objects(page)}).encode())

    web.answer = answer
    options = {**CURSOR, "scan__rows": "rows", "scan__page__path": "next", "scan__next_round": "onward"}
    table = source(web, scan__interval="1 ms", **options)
    reading = endless(table)
    assert reading.round() == ROWS[:5]
    assert reading.round() == []
    held += ROWS[5:9]
    assert reading.round() == ROWS[5:9]
    position = reading.reader.position()
    held += ROWS[9:]
    assert endless(table, position).round() == ROWS[9:]


def test_a_page_that_has_changed_is_gone_on_with_as_it_was(web: WebServer) -> None:
    web.answer = of_cursors(ROWS)
    table = source(web, **CURSOR)
    reader = table.open(table.splits()[0], Context())
    first = []
    while len(first) < 8:
        batch = reader.poll(8 - len(first))
        first += [] if batch is None else [tuple(row.values()) for row in batch.rows.to_pylist()]
    position = json.loads(json.dumps(reader.position()))
    reader.close()
    web.answer = lambda request: Reply(200, b'{"meta": {}, "data": {"items": [{"id": 77}]}}')
    resumed = table.open(table.splits()[0], Context())
    resumed.seek(position)
    assert first + [row for _, row in drain(resumed)] == [*ROWS[:12], (77, None)]


@pytest.mark.parametrize(
    ("body", "headers", "told"),
    [
        (b'{"data": {"items": []}, "meta": {"next": [1]}}', {}, "no text or number"),
        (b'{"data": {"item": []}}', {}, "there is no data.items in it"),
        (b'{"data": {"items": [}}', {}, "cannot be read"),
        (b"[" * 100_000, {}, "there is no data.items"),
        (b'{"data": {"items": ' + b"[" * 100_000, {}, "nested too deeply"),
        (b'{"data": {"items": [{"id": 1}]}, "meta": {"next": "same"}}', {}, "the same page"),
    ],
)
def test_answers_that_cannot_be_read(web: WebServer, body: bytes, headers: dict[str, str], told: str) -> None:
    web.answer = lambda request: Reply(200, body, headers)
    with pytest.raises(SqlEngineError, match=f"E3251.*{told}"):
        rows_of(source(web, **CURSOR))


@pytest.mark.parametrize("link", ["http://other.example/items", "//other.example/x", "file:///etc/passwd"])
def test_a_link_to_another_host_is_not_followed(web: WebServer, link: str) -> None:
    web.answer = lambda request: Reply(200, b'{"rows": [], "next": "%s"}' % link.encode())
    with pytest.raises(SqlEngineError, match="E3250.*not on"):
        rows_of(source(web, scan__rows="rows", scan__page="link", scan__page__path="next"))
    assert len(web.asked) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"scan__page": "cursor", "scan__page__path": "a"}, "needs the option 'scan.page.parameter'"),
        ({"scan__page": "cursor", "scan__page__parameter": "a"}, "needs the option 'scan.page.path'"),
        ({"scan__page": "offset", "scan__page__parameter": "a", "scan__page__path": "b"}, "has no use for"),
        ({"scan__page__parameter": "a"}, "has no use for"),
        ({"scan__next_round": "onward"}, "needs pages by cursor or offset"),
        ({"scan__rows": "a..b"}, "is no path"),
        ({"scan__rows": "a[0]"}, "is no path"),
        ({"scan__since__column": "id"}, "go together"),
        ({"scan__since__column": "nmae", "scan__since__parameter": "s"}, 'did you mean "name"'),
        ({"scan__since__column": "d", "scan__since__parameter": "s"}, "a column of type DOUBLE"),
        ({"scan__since__column": "id", "scan__since__parameter": "s", "scan__since__start": "x"}, "'x' is no INT"),
        ({"scan__pages": "link"}, "E1503"),
    ],
)
def test_options_that_contradict(web: WebServer, options: dict[str, str], told: str) -> None:
    schema = Schema.of(("id", INT), ("name", STRING), ("d", DOUBLE), ("n", BIGINT))
    with pytest.raises(SqlEngineError) as caught:
        source(web, schema, **options)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "path", "found"),
    [
        ('{"a": {"b": [1, "}"], "c": "\\u0078"}, "b": 2}', "a.b", '[1, "}"]'),
        (' {"a" : 1.50 } ', "$.a", "1.50"),
        ('{"a": {}}', "a.b", None),
        ("[1]", "a", None),
        ("[1]", "$", "[1]"),
        ('{"\\u0061": true}', "a", "true"),
        ('{"a": 1, "a": 2}', "a", "1"),
    ],
)
def test_places_in_json(text: str, path: str, found: str | None) -> None:
    names = read_path(path)
    assert names is not None
    place = place_of(text, names)
    assert (None if place is None else text[place[0] : place[1]]) == found


def test_a_malformed_row_of_a_page_is_rejected_alone(web: WebServer) -> None:
    web.answer = lambda request: Reply(200, b' [ {"id": 1}, {"id": "x"} , [{"id": 2}], 7, {"id": 3} ] ')
    table = source(web, json__ignore_parse_errors="true")
    context = Context()
    assert rows_of(table, context=context) == [(1, None), (2, None), (3, None)]
    assert [row.raw for row in context.rejected] == ['{"id": "x"}', "7"]
    web.answer = lambda request: Reply(200, b"1,a\nx,b\n2,\n")
    table = source(web, format="csv", csv__ignore_parse_errors="true")
    assert rows_of(table) == [(1, "a"), (2, "")]


def test_numbers_as_cursors_keep_their_digits() -> None:
    assert scalar_at('{"next": 12345678901234567890}', ("next",)) == "12345678901234567890"
    assert scalar_at('{"next": 1.10}', ("next",)) == "1.10"
    assert scalar_at('{"next": false}', ("next",)) == ""


@pytest.mark.parametrize("options", ["'url' = 'http://h/{id}'", "'url' = 'http://h/', 'method' = 'POST'"])
def test_what_is_asked_by_key_is_no_source(options: str) -> None:
    with TableEnvironment.create() as env:
        env.execute_sql(f"CREATE TABLE t (id INT) WITH ('connector' = 'http', 'format' = 'json', {options})")
        with pytest.raises(SqlEngineError, match="E1628"):
            env.execute_sql("SELECT * FROM t")


def test_a_job_copies_all_pages(web: WebServer, tmp_path: Path) -> None:
    web.answer = of_cursors(ROWS)
    with TableEnvironment.create({"sqlengine.epoch.max-rows": "4"}) as env:
        env.execute_script(
            f"CREATE TABLE items (id INT, name STRING) WITH ('connector' = 'http', 'url' = '{web.url}/items', 'format' = 'json', "
            "'scan.rows' = 'data.items', 'scan.page' = 'cursor', 'scan.page.parameter' = 'after', "
            f"'scan.page.path' = 'meta.next'); CREATE TABLE copy (id INT, name STRING) WITH ('connector' = 'filesystem', "
            f"'path' = '{tmp_path}/copy', 'format' = 'json');"
        )
        env.execute_sql("INSERT INTO copy SELECT * FROM items").wait()
        assert sorted(tuple(r) for r in env.execute_sql("SELECT id, name FROM copy")) == sorted(
            ROWS, key=lambda r: r[0]
        )
