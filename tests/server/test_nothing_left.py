"""What many clients do leaves nothing in the server: objects are counted after some rounds, and after as many more."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import sqlengine.server.feeds as feeds_module
from sqlengine import TableEnvironment
from sqlengine.server.access import Access
from sqlengine.server.feeds import Feeds
from sqlengine.server.postgres.listener import PostgresServer
from tests.server.wire_client import WireClient, message

_CLIENTS = 2
_WARM, _MORE = 4, 4
"""Rounds until what is kept up to a bound is full, and those in which nothing may be added."""
_OURS = ("sqlengine.server", "sqlengine.database", "sqlengine.api", "runtime.local.job", "asyncio", "concurrent")
"""Packages whose objects a client may have. What plans and tables are made of is left out: some plans are kept, of
statements that may come again."""


async def _alone(server: PostgresServer) -> None:
    """Until all clients are gone."""
    while server._served:
        await asyncio.sleep(0)


@contextmanager
def _served(environment: TableEnvironment) -> Iterator[Callable[[int], None]]:
    """A server in this process, where its objects can be counted; gives what plays a round."""
    database = environment.session.database
    server = PostgresServer(environment, access=Access(database, None, trusting=True), feeds=Feeds(database))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        host, port = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0), loop).result(30)

        def play(number: int) -> None:
            _round(host, port, number)
            asyncio.run_coroutine_threadsafe(_alone(server), loop).result(60)

        yield play
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _round(host: str, port: int, number: int) -> None:
    """Clients that come, subscribe, change and ask, and go."""
    clients = [WireClient(host, port) for _ in range(_CLIENTS)]
    readers = [WireClient(host, port) for _ in range(_CLIENTS)]
    for reader in readers:
        reader.send(message(b"Q", b"COPY (SUBSCRIBE TO v WITHOUT SNAPSHOT) TO STDOUT\0"))
        reader.until(b"H")
    for i, client in enumerate(clients):
        assert client.query(f"INSERT INTO t VALUES ({i}, {number})")[-2:] == [b"C", b"Z"]
        assert client.query(f"INSERT INTO t SELECT id + 10, {number} FROM t WHERE id = {i}")[-2:] == [b"C", b"Z"]
        assert b"D" in client.query(f"SELECT g, COUNT(*) FROM t WHERE id = {i} GROUP BY g")
        assert b"D" in client.query(f"SELECT n FROM v WHERE g = {number}")
        assert b"E" in client.query("SELECT nothing FROM v")
    for reader in readers:
        reader.until(b"d")
    for client in clients + readers:
        client.close()


def _counted() -> Counter[str]:
    gc.collect()
    kinds = (type(thing) for thing in gc.get_objects())
    return Counter(f"{kind.__module__}.{kind.__name__}" for kind in kinds if str(kind.__module__).startswith(_OURS))


def test_nothing_is_left_of_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    # A feed is full after the first rounds.
    monkeypatch.setattr(feeds_module, "_READ_BYTES", 20_000)
    monkeypatch.setattr("sqlengine.database.jobs.ENDED_JOBS_KEPT", 5)
    with TableEnvironment.create() as environment:
        environment.execute_sql("CREATE TABLE t (id INT, g INT, PRIMARY KEY (id) NOT ENFORCED)")
        environment.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n FROM t GROUP BY g")
        with _served(environment) as play:
            for number in range(_WARM):
                play(number)
            before = _counted()
            for number in range(_WARM, _WARM + _MORE):
                play(number)
            grown = {kind: count - before[kind] for kind, count in _counted().items() if count > before[kind]}
    # A client that leaves something leaves at least one; the last one may be about to go.
    assert all(more < _CLIENTS * _MORE for more in grown.values()), grown
