"""SUBSCRIBE: as COPY, as a cursor, as rows without end; cancelled, and left by clients that go."""

from __future__ import annotations

import threading

import psycopg
import pytest

from tests.server.conftest import Address


@pytest.fixture
def view(client: psycopg.Connection) -> psycopg.Connection:
    client.execute("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, name STRING)")
    client.execute("CREATE MATERIALIZED VIEW v AS SELECT name, COUNT(*) AS n FROM t GROUP BY name")
    client.execute("INSERT INTO t VALUES (1, 'a')")
    return client


def test_as_rows_without_end(address: Address, view: psycopg.Connection) -> None:
    with address.connect() as reader:
        rows = reader.cursor().stream("SUBSCRIBE TO v")
        assert next(rows) == (1, "+I", "a", 1)
        view.execute("INSERT INTO t VALUES (2, 'a')")
        assert [next(rows), next(rows)] == [(2, "-U", "a", 1), (2, "+U", "a", 2)]
        reader.cancel()
        with pytest.raises(psycopg.errors.QueryCanceled):
            next(rows)
        assert reader.execute("SELECT 1").fetchone() == (1,)


def test_as_copy(address: Address, view: psycopg.Connection) -> None:
    copy_out = "COPY (SUBSCRIBE TO v) TO STDOUT"
    with (
        address.connect() as reader,
        pytest.raises(psycopg.errors.QueryCanceled),
        reader.cursor().copy(copy_out) as copy,
    ):
        lines = iter(copy)
        assert bytes(next(lines)) == b"1\t+I\ta\t1\n"
        reader.cancel()
        list(lines)


def test_as_a_cursor_that_waits_only_so_long(address: Address, view: psycopg.Connection) -> None:
    with address.connect(autocommit=False) as reader:
        reader.execute("DECLARE s CURSOR FOR SUBSCRIBE TO v")
        assert reader.execute("FETCH 10 FROM s").fetchall() == [(1, "+I", "a", 1)]
        assert reader.execute("FETCH 10 FROM s WITH (timeout = '10ms')").fetchall() == []
        view.execute("DELETE FROM t")
        assert reader.execute("FETCH ALL FROM s").fetchall() == [(2, "-D", "a", 1)]


def test_a_client_that_goes_ends_its_subscription(address: Address, view: psycopg.Connection) -> None:
    reader = address.connect()
    rows = reader.cursor().stream("SUBSCRIBE TO v")
    next(rows)
    reader.pgconn.finish()
    view.execute("INSERT INTO t VALUES (3, 'b')")
    assert view.execute("SELECT SUM(n) FROM v").fetchone() == (2,)


def test_cancel_and_time_limit(address: Address) -> None:
    slow = "SELECT COUNT(*) FROM t AS a, t AS b, t AS c WHERE a.id * b.id * c.id = 77"
    with address.connect() as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED)")
        connection.execute("INSERT INTO t SELECT CAST(n AS INT) FROM generate_series(1, 3000) AS s (n)")
        raised: list[BaseException] = []

        def run() -> None:
            try:
                connection.execute(slow)
            except psycopg.Error as error:
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        while thread.is_alive():
            connection.cancel()
            thread.join(0.05)
        assert [str(error).partition("\n")[0] for error in raised] == ["canceling statement due to user request"]
        connection.execute("SET statement_timeout = '100ms'")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            connection.execute(slow)
        assert connection.execute("SELECT 1").fetchone() == (1,)
