"""Sockets and WebSockets: rows since the connection, connections that end, and what is too long."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from aiohttp import web
from connector_tables import REGISTRY

from runtime.core.errors import ConnectorError, FormatError, SqlEngineError
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from runtime.spi.registry import TableRequest
from sqlengine import TableEnvironment
from sqlengine.testing.connectors.reading import Context
from tests.servers.live import socket_server, websocket_server

SCHEMA = Schema.of(("id", INT), ("name", STRING))


def table_of(connector: str, **options: str) -> Any:
    factory = REGISTRY.connectors.get(connector).source
    assert factory is not None
    given = {"format": "json", **options}
    return factory(TableRequest("t", SCHEMA, (), given, Options({}), registry=REGISTRY))


def read(table: Any, count: int, position: Any = None) -> tuple[list[tuple[Any, ...]], Any]:
    """So many rows, and the position behind them."""
    reader = table.open(table.splits()[0], Context())
    if position is not None:
        reader.seek(position)
    found: list[tuple[Any, ...]] = []
    until = time.monotonic() + 30
    try:
        while len(found) < count and time.monotonic() < until:
            batch = reader.poll(count - len(found))
            if batch is not None:
                found += [tuple(row.values()) for row in batch.rows.to_pylist()]
        return found, reader.position()
    finally:
        reader.close()


# --- sockets


def test_what_a_server_sends_is_cut_at_a_byte() -> None:
    sent = b'{"id": 1, "name": "a"}\n{"id": 2}\n{"id": 3'
    with socket_server(sent, b'4}\n{"id": 4}\n', b"") as server:
        table = table_of("socket", hostname="127.0.0.1", port=str(server.port))
        rows, position = read(table.with_columns(["id"]), 2)
        assert rows == [(1,), (2,)]
    with socket_server(b'x{"id": 5}x{"id": 6}x', b"") as server:
        table = table_of("socket", hostname="127.0.0.1", port=str(server.port), **{"byte-delimiter": "120"})
        assert read(table, 2, position)[0] == [(5, None), (6, None)]


def test_a_connection_that_ended_is_made_anew_and_half_of_a_record_left_out() -> None:
    with socket_server(b'{"id": 1}\n{"id": 2', b'{"id": 3}\n') as server:
        assert read(table_of("socket", hostname="127.0.0.1", port=str(server.port)), 2)[0] == [(1, None), (3, None)]
        assert server.connections == 2


def test_a_record_without_end_is_told() -> None:
    with socket_server(b"x" * 2000, b"") as server:
        options = {"source.max-record-size": "1000 b", "hostname": "127.0.0.1", "port": str(server.port)}
        with pytest.raises(ConnectorError, match="more than 1000 bytes"):
            read(table_of("socket", **options), 1)


def test_a_query_over_a_socket() -> None:
    with socket_server(b"a|1\nb|2\na|3\n") as server, TableEnvironment.create() as env:
        env.execute_sql(
            "CREATE TABLE s (name STRING, n INT) WITH ('connector' = 'socket', 'hostname' = '127.0.0.1', "
            f"'port' = '{server.port}', 'format' = 'csv', 'csv.field-delimiter' = '|')"
        )
        changes = env.execute_sql("SELECT n, name FROM s").changes()
        found: list[Any] = []
        while len(found) < 3:
            found += [tuple(r.values()) for r in next(changes).rows.to_pylist()]
        changes.close()
        assert found == [(1, "a"), (2, "b"), (3, "a")]


# --- WebSockets


def test_messages_come_until_the_connection_ends_and_then_from_the_next() -> None:
    async def serve(connection: Any, number: int) -> None:
        await connection.send_str(f'{{"id": {number * 10}, "name": "ü"}}')
        await connection.send_bytes(b'[{"id": %d}, {"id": %d}]' % (number * 10 + 1, number * 10 + 2))
        if number:
            await asyncio.sleep(3600)

    with websocket_server(serve, hello=True) as server:
        headers = {"authorization": "Bearer secret words", "connect.message": '{"subscribe": "trades"}'}
        table = table_of("websocket", url=server.url, **headers)
        rows, _ = read(table, 6)
        assert [row[0] for row in rows] == [0, 1, 2, 10, 11, 12] and rows[0][1] == "ü"
        assert server.told == ['{"subscribe": "trades"}'] * 2
        assert {h["Authorization"] for h in server.headers} == {"Bearer secret words"}
        assert "secret words" not in f"{table!r} {table.describe()} {table.place()}"


def test_malformed_and_long_messages_are_told() -> None:
    async def serve(connection: Any, number: int) -> None:
        await connection.send_str("no json" if number == 0 else "x" * 2000)
        await asyncio.sleep(3600)

    with websocket_server(serve) as server:
        with pytest.raises(FormatError, match="message 0"):
            read(table_of("websocket", url=server.url), 1)
        with pytest.raises(ConnectorError, match="at most 1000 bytes"):
            read(table_of("websocket", url=server.url, **{"source.max-record-size": "1000 b"}), 1)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (web.Response(status=403), "HTTP 403"),
        (web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}), "nothing is followed"),
    ],
)
def test_who_may_not_is_told(answer: Any, message: str) -> None:
    with websocket_server(lambda request, number: answer) as server:
        with pytest.raises(ConnectorError, match=message) as caught:
            read(table_of("websocket", url=server.url), 1)
        assert caught.value.code == "E3250"


def test_a_view_that_needs_earlier_rows_is_told_that_there_are_none() -> None:
    assert table_of("socket", hostname="h", port="1").readable_again is False


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'connector' = 'socket', 'port' = '1'", "needs the option 'hostname'"),
        ("'connector' = 'socket', 'hostname' = 'h/x', 'port' = '1'", "no address"),
        ("'connector' = 'socket', 'hostname' = 'h', 'port' = '70000'", "no address"),
        ("'connector' = 'socket', 'hostname' = 'h', 'port' = '1', 'byte-delimiter' = '300'", "no byte"),
        ("'connector' = 'socket', 'hostnam' = 'h', 'port' = '1'", 'did you mean "hostname"'),
        ("'connector' = 'websocket', 'url' = 'https://h/'", "not the address of a WebSocket"),
        ("'connector' = 'websocket', 'url' = 'ws://u:p@h/'", "not an address"),
        ("'connector' = 'websocket', 'url' = 'ws://h/{id}'", "names a column"),
    ],
)
def test_what_is_wrong(options: str, message: str) -> None:
    with TableEnvironment.create() as env, pytest.raises(SqlEngineError, match=message):
        env.execute_sql(f"CREATE TABLE t (id INT) WITH ('format' = 'json', {options})")
        env.execute_sql("SELECT * FROM t")
