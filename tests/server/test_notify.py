"""LISTEN, NOTIFY, and what sessions do to each other, with psycopg and asyncpg."""

from __future__ import annotations

import asyncio

import asyncpg
import psycopg
import pytest
from psycopg import errors

from sqlengine.server.postgres.notifying import Listener, Notifications
from tests.server.conftest import Address


def heard(client: psycopg.Connection, count: int) -> list[tuple[str, str]]:
    return [(n.channel, n.payload) for n in client.notifies(timeout=30, stop_after=count)]


def test_notifications_come_with_the_commit_and_in_order(client: psycopg.Connection, address: Address) -> None:
    with address.connect() as other:
        client.execute('LISTEN news; LISTEN "Späte"; LISTEN gone; UNLISTEN gone')
        channels = client.execute("SELECT * FROM pg_listening_channels() ORDER BY 1").fetchall()
        assert channels == [("Späte",), ("news",)]
        client.execute("NOTIFY news")
        assert [(n.payload, n.pid) for n in client.notifies(timeout=30, stop_after=1)] == [
            ("", client.info.backend_pid)
        ]
        with other.transaction():
            other.execute("NOTIFY news, 'a'; NOTIFY gone, 'x'; NOTIFY \"Späte\", 'ü'")
            other.execute("SELECT pg_notify('news', %s)", ("b",))
            other.execute("NOTIFY news, 'a'")
            with pytest.raises(ZeroDivisionError), other.transaction():
                other.execute("NOTIFY news, 'taken back'")
                raise ZeroDivisionError
            client.execute("NOTIFY news, 'before'")
        with pytest.raises(ZeroDivisionError), other.transaction():
            other.execute("NOTIFY news, 'never'")
            raise ZeroDivisionError
        other.execute("SELECT pg_notify('news', 'c')")
        wanted = [("news", "before"), ("news", "a"), ("Späte", "ü"), ("news", "b"), ("news", "c")]
        assert heard(client, 5) == wanted


def test_a_transaction_hears_nothing_until_it_ends(client: psycopg.Connection, address: Address) -> None:
    client.execute("LISTEN news")
    with address.connect() as other:
        client.execute("BEGIN")
        client.execute("LISTEN more")
        other.execute("NOTIFY news, '1'; NOTIFY more, 'too early'")
        assert client.execute("SELECT 1").fetchone() == (1,)
        assert list(client.notifies(timeout=0)) == []
        client.execute("COMMIT")
        other.execute("NOTIFY more, '2'")
        assert heard(client, 2) == [("news", "1"), ("more", "2")]
        client.execute("DISCARD ALL")
        assert client.execute("SELECT pg_listening_channels()").fetchall() == []


def test_what_is_wrong_with_a_notification(client: psycopg.Connection) -> None:
    for statement in ("LISTEN", "NOTIFY", "NOTIFY a, b", "NOTIFY a 'b'", "UNLISTEN 'a'"):
        with pytest.raises(errors.SyntaxError):
            client.execute(statement)
    for statement in ("NOTIFY a, '" + "x" * 8000 + "'", "SELECT pg_notify('', 'x')", "SELECT pg_notify(NULL, 'x')"):
        with pytest.raises(errors.InvalidParameterValue):
            client.execute(statement)


def test_sessions_are_cancelled_and_ended(address: Address, client: psycopg.Connection) -> None:
    async def run() -> None:
        database = {"host": address.host, "port": address.port, "user": "sqlengine", "database": "default_catalog"}
        one, two = await asyncpg.connect(**database), await asyncpg.connect(**database)
        pid, got, ended = one.get_server_pid(), asyncio.Queue[tuple[str, str]](), asyncio.Event()
        one.add_termination_listener(lambda _: ended.set())
        await one.add_listener("news", lambda _, sender, channel, payload: got.put_nowait((channel, payload)))
        await two.execute("SELECT pg_notify($1,$2)", "news", "hello")
        assert await got.get() == ("news", "hello")
        sleeping = asyncio.create_task(one.execute("SELECT pg_sleep($1)", 600.0))
        active = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND query LIKE '%pg_sleep%'"
        while not await two.fetchval(active.replace("$1", str(pid))):
            await asyncio.sleep(0)
        with pytest.raises(asyncpg.QueryCanceledError, match="due to user request"):
            await sleeping
        assert await one.fetchval("SELECT 1") == 1
        assert await two.fetchval("SELECT pg_terminate_backend($1, 30000)", pid) is True
        await ended.wait()
        await two.close()

    asyncio.run(run())
    notices: list[str | None] = []
    client.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    assert client.execute("SELECT pg_terminate_backend(0), pg_cancel_backend(NULL)").fetchone() == (False, None)
    assert notices == ["PID 0 is not a PostgreSQL server process"]
    client.execute("SELECT pg_sleep_for('0 s'), pg_sleep_until(now())")
    with pytest.raises(errors.AdminShutdown):
        client.execute("SELECT pg_terminate_backend(pg_backend_pid())")


def test_who_does_not_take_what_it_hears_is_ended() -> None:
    hub, ends = Notifications(), list[int]()
    speaker, slow, other = (Listener(hub, number) for number in range(3))
    slow.on_deaf = lambda: ends.append(1)
    for listener in (slow, other):
        listener.listen("news")
        listener.commit()
    for number in range(2000):
        speaker.tell("news", f"{number:07999}")
        speaker.commit()
        assert len(other.take()) == 1
    assert ends == [1] and len(slow.take()) == (8 << 20) // (7999 + 4 + 64)
