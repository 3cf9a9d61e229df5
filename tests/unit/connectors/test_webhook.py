"""The connector `webhook`: what is answered with 200 is kept, once, whoever dies; what is refused; and the journal."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from connector_tables import REGISTRY

from connectors.formats.message_rows import encoded_messages
from connectors.http.client import Client, Way
from connectors.kit.journal import Journal, opened_journal
from connectors.webhook.table import WebhookTable
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, SqlEngineError, UnavailableError
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from runtime.spi.registry import TableRequest
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SourceContract, rows_of
from sqlengine.testing.connectors.reading import Context
from tests.servers.process import free_port
from tests.servers.waiting import until

SCHEMA = Schema.of(("id", INT), ("name", STRING))
TYPES = ("int", "bigint", "double", "boolean", "string", "date", "decimal", "timestamp")


def table_of(folder: Path, schema: Schema = SCHEMA, **options: str) -> WebhookTable:
    given = {"format": "json", "spool.path": str(folder), "scan.bounded.mode": "latest", **options}
    factory = REGISTRY.connectors.get("webhook").source
    assert factory is not None
    table = factory(TableRequest("hooked", schema, (), given, Options({}), registry=REGISTRY))
    assert isinstance(table, WebhookTable)
    return table


def filled(folder: Path, schema: Schema, rows: list[tuple[Any, ...]]) -> WebhookTable:
    columns = [pa.array([row[i] for row in rows], f.type.arrow) for i, f in enumerate(schema)]
    table = table_of(folder, schema)
    messages = encoded_messages(table.format, schema, ChangelogBatch.of(columns, schema), "UTC").to_pylist()
    with opened_journal(folder, 1e9, 1 << 30) as journal:
        for at in range(0, len(messages), 7):
            journal.append([("", m) for m in messages[at : at + 7]])
    return table


class TestSource(SourceContract):
    connectors = ("webhook",)
    types = TYPES

    @pytest.fixture
    def table(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WebhookTable:
        monkeypatch.setattr("connectors.kit.journal._FILE", 300)
        return filled(tmp_path / "spool", SCHEMA, [(i, None if i % 3 == 0 else f"n{i}") for i in range(40)])

    @pytest.fixture
    def holding(self, tmp_path: Path) -> Callable[[Schema, list[tuple[Any, ...]]], WebhookTable]:
        return lambda schema, rows: filled(tmp_path / "spool", schema, rows)


# --- the listener


class Hook:
    """A table that is listened for, and a client."""

    def __init__(self, folder: Path, **options: str) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.folder = folder
        more = {"listen.address": self.address, "scan.bounded.mode": "unbounded", **options}
        self.table = table_of(folder, **more)
        [split] = self.table.splits()
        self.reader = self.table.open(split, Context())
        while self.reader.position()["at"] is None:
            self.reader.poll(1)
        self.client = Client(Way(timeout=20))

    def post(self, body: bytes = b'{"id": 1}', route: str = "/", method: str = "POST", **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.ask(method, f"http://{self.address}{route}", body, named).status

    def rows(self) -> list[Any]:
        return rows_of(table_of(self.folder))

    def close(self) -> None:
        self.client.close()
        self.reader.close()


@pytest.fixture
def hook(tmp_path: Path) -> Any:
    made: list[Hook] = []

    def make(**options: str) -> Hook:
        made.append(Hook(tmp_path / f"spool{len(made)}", **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_each_key_is_taken_once(hook: Callable[..., Hook]) -> None:
    there = hook()
    assert there.post(b'{"id": 1, "name": "a"}', Idempotency_Key="k1") == 200
    assert there.post(b'{"id": 1, "name": "a"}', Idempotency_Key="k1") == 200
    assert there.post(b'[{"id": 2}, {"id": 3}]', Idempotency_Key="k2", method="PUT") == 200
    assert there.post(b'{"id": 4}') == 200 and there.post(b'{"id": 4}') == 200
    assert there.rows() == [(1, "a"), (2, None), (3, None), (4, None), (4, None)]


def test_keys_are_known_after_a_restart(hook: Callable[..., Hook], tmp_path: Path) -> None:
    there = hook()
    assert there.post(b'{"id": 1}', Idempotency_Key="k1") == 200
    there.close()
    again = Hook(there.folder)
    assert again.post(b'{"id": 1}', Idempotency_Key="k1") == 200 and again.post(b'{"id": 2}') == 200
    assert again.rows() == [(1, None), (2, None)]
    again.close()


def test_many_at_once_are_all_there(hook: Callable[..., Hook]) -> None:
    there = hook()
    statuses: list[int] = []

    def send(number: int) -> None:
        for i in range(20):
            key = f"{number // 2}-{i}"
            statuses.append(there.post(b'{"id": %d}' % i, Idempotency_Key=key))

    threads = [threading.Thread(target=send, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 160 and sorted(r[0] for r in there.rows()) == sorted(list(range(20)) * 4)


def test_what_is_refused_leaves_nothing(hook: Callable[..., Hook]) -> None:
    there = hook(
        route="/in", token="quite secret", **{"source.max-record-size": "100 b", "idempotency.required": "true"}
    )
    good = {"Authorization": "Bearer quite secret", "Idempotency_Key": "k"}
    assert there.post(route="/other", **good) == 404
    assert there.post(route="/in", Idempotency_Key="k") == 401
    assert there.post(route="/in", Idempotency_Key="k", Authorization="Bearer quite") == 401
    assert there.post(route="/in", method="GET", **good) == 405
    assert there.post(route="/in", Authorization="Bearer quite secret") == 400
    assert there.post(b"no json", route="/in", **good) == 400
    assert there.post(b'{"id": 1, "name": "' + b"x" * 100 + b'"}', route="/in", **good) == 413
    assert there.post(route="/in", **good, Content_Encoding="gzip") == 415
    assert there.rows() == []
    assert there.post(route="/in", **good) == 200
    assert "quite secret" not in f"{there.table!r} {there.table.describe()}"


def test_a_page_in_a_browser_cannot_send(hook: Callable[..., Hook]) -> None:
    assert hook().post(Origin="https://evil.example") == 403


def test_a_full_folder_and_a_full_disk_say_later(hook: Callable[..., Hook], monkeypatch: pytest.MonkeyPatch) -> None:
    there = hook(**{"spool.max-size": "120 b"})
    assert there.post(b'{"id": 1}') == 200

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("connectors.kit.journal.os.fdatasync", full)
        assert there.post(b'{"id": 2}', Idempotency_Key="k") == 503
    assert there.post(b'{"id": 2}', Idempotency_Key="k") == 200
    assert there.post(b'{"id": 3}' + b" " * 60) == 503
    assert there.rows() == [(1, None), (2, None)]


def test_tables_share_a_listener_by_routes(hook: Callable[..., Hook]) -> None:
    one = hook(route="/one")
    two = Hook(one.folder.parent / "two", **{"listen.address": one.address, "route": "/two"})
    assert one.post(route="/one") == 200 and one.post(route="/two") == 200
    third = table_of(one.folder.parent / "three", **{**_unbounded(one.address), "route": "/two"})
    with pytest.raises(ConnectorError, match="listened to for another table"):
        until_it_fails(third)
    two.close()
    while one.post(route="/two") != 404:
        pass
    assert one.post(route="/one") == 200
    one.close()
    with pytest.raises(UnavailableError):
        while True:
            one.post(route="/one")


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        table = table_of(tmp_path / "s", **_unbounded(f"127.0.0.1:{taken.getsockname()[1]}"))
        with pytest.raises(ConnectorError, match="nothing can listen") as caught:
            until_it_fails(table)
    assert caught.value.code == "E3254"


def until_it_fails(table: WebhookTable) -> None:
    reader = table.open(table.splits()[0], Context())
    try:
        while not reader.finished:
            reader.poll(1)
    finally:
        reader.close()


def _unbounded(address: str) -> dict[str, str]:
    return {"listen.address": address, "scan.bounded.mode": "unbounded"}


# --- the journal


def test_what_was_cut_off_is_gone_and_what_is_damaged_is_told(tmp_path: Path) -> None:
    for length in range(1, 60, 7):
        folder = tmp_path / str(length)
        journal = Journal(folder, 1e9, 1 << 30)
        journal.append([("k", b"first")])
        journal.append([("l", b"second" * 10)])
        journal.close()
        [file] = folder.glob("*.log")
        os.truncate(file, file.stat().st_size - length)
        journal = Journal(folder, 1e9, 1 << 30)
        assert journal.knows("k") and not journal.knows("l")
        journal.append([("m", b"third")])
        messages, end = journal.read(journal.begin)
        assert [(m.number, m.key, m.body) for m in messages] == [(0, "k", b"first"), (1, "m", b"third")]
        assert end == journal.end and journal.read(end) == ([], end)
        journal.close()


def test_old_files_go_with_their_keys(tmp_path: Path) -> None:
    now = [1000.0]
    journal = Journal(tmp_path, 100.0, 1 << 30, lambda: now[0])
    begin = journal.begin
    for number in range(10):
        journal.append([(f"k{number}", b"%d" % number)])
        now[0] += 20
    assert not journal.knows("k3") and journal.knows("k4") and journal.knows("k9")
    at, found = journal.begin, []
    while at != journal.end:
        messages, at = journal.read(at)
        found += [m.number for m in messages]
    assert found == [4, 5, 6, 7, 8, 9]
    with pytest.raises(ConnectorError, match="are gone") as caught:
        journal.read(begin)
    assert caught.value.code == "E3252"
    journal.close()


def test_a_folder_that_was_made_anew_is_told(tmp_path: Path) -> None:
    table = filled(tmp_path / "s", SCHEMA, [(1, "a")])
    reader = table.open(table.splits()[0], Context())
    while not reader.finished:
        reader.poll(10)
    position = reader.position()
    reader.close()
    os.rename(tmp_path / "s", tmp_path / "old")
    table = filled(tmp_path / "s", SCHEMA, [(1, "a"), (2, "b")])
    reader = table.open(table.splits()[0], Context())
    reader.seek(position)
    with pytest.raises(ConnectorError, match="made anew"):
        while not reader.finished:
            reader.poll(10)
    reader.close()


# --- with a job


def test_metadata_and_a_view(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    with TableEnvironment.create() as env:
        env.execute_sql(
            "CREATE TABLE orders (item INT, pieces INT, `number` BIGINT METADATA, `idempotency-key` STRING METADATA) WITH "
            f"('connector' = 'webhook', 'format' = 'json', 'listen.address' = '{address}', 'spool.path' = '{tmp_path}')"
        )
        env.execute_sql(
            "CREATE MATERIALIZED VIEW sold AS SELECT item, SUM(pieces) AS pieces, MAX(`idempotency-key`) AS k FROM orders GROUP BY item"
        )
        client = Client(Way())
        for key, body in (
            ("a", b'{"item": 1, "pieces": 2}'),
            ("b", b'{"item": 1, "pieces": 3}'),
            ("a", b'{"item": 1, "pieces": 2}'),
        ):
            _until_taken(client, address, key, body)
        env.execute_sql("FLUSH")
        rows = env.execute_sql("SELECT item, pieces, k FROM sold").to_arrow().to_pylist()
        assert [tuple(r.values()) for r in rows] == [(1, 5, "b")]


def _until_taken(client: Client, address: str, key: str, body: bytes) -> None:
    def taken() -> bool:
        try:
            return client.ask("POST", f"http://{address}/", body, {"Idempotency-Key": key}).status == 200
        except UnavailableError:
            return False

    until(taken)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'listen.address' = '0.0.0.0:80'", "'token' is missing"),
        ("'listen.address' = 'shop.example:80'", "'token' is missing"),
        ("'listen.address' = '127.0.0.1'", "no host and port"),
        ("'listen.address' = '127.0.0.1:70000'", "no host and port"),
        ("'route' = 'x'", "no path"),
        ("'route' = '/a b'", "no path"),
        ("'idempotency.header' = 'a:b'", "no name of a header"),
        ("'spool.keep-time' = '0 s'", "more than 0"),
        ("'tokn' = 'x'", 'did you mean "token"'),
        ("'format' = 'orc'", "of files"),
    ],
)
def test_what_is_wrong(options: str, message: str, tmp_path: Path) -> None:
    given = options if "'format'" in options else f"{options}, 'format' = 'json'"
    with TableEnvironment.create() as env, pytest.raises(SqlEngineError, match=message):
        env.execute_sql(f"CREATE TABLE t (id INT) WITH ('connector' = 'webhook', 'spool.path' = '{tmp_path}', {given})")
        env.execute_sql("SELECT * FROM t")
