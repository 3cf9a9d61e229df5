"""SUBSCRIBE: as COPY, as a cursor, as rows without end; cancelled, and left by clients that go."""

from __future__ import annotations

import threading

import psycopg
import pytest

from tests.server.conftest import Address
from tests.server.wire_client import WireClient, message


@pytest.fixture
def view(client: psycopg.Connection) -> psycopg.Connection:
    client.execute("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, name STRING)")
    client.execute("CREATE MATERIALIZED VIEW v AS SELECT name, COUNT(*) AS n FROM t GROUP BY name")
    client.execute("INSERT INTO t VALUES (1, 'a')")
    return client


def test_as_rows_without_end(address: Address, view: psycopg.Connection) -> None:
    with address.connect() as reader:
        rows = reader.cursor().stream("SUBSCRIBE TO v")
        began, *first = next(rows)
        assert first == ["+I", "a", 1]
        view.execute("INSERT INTO t VALUES (2, 'a')")
        (epoch, *before), (same, *after) = next(rows), next(rows)
        assert (before, after) == (["-U", "a", 1], ["+U", "a", 2])
        assert began < epoch == same
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
        assert bytes(next(lines)).partition(b"\t")[2] == b"+I\ta\t1\n"
        reader.cancel()
        list(lines)


def test_as_a_cursor_that_waits_only_so_long(address: Address, view: psycopg.Connection) -> None:
    with address.connect(autocommit=False) as reader:
        reader.execute("DECLARE s CURSOR FOR SUBSCRIBE TO v")
        assert [row[1:] for row in reader.execute("FETCH 10 FROM s")] == [("+I", "a", 1)]
        assert reader.execute("FETCH 10 FROM s WITH (timeout = '10ms')").fetchall() == []
        view.execute("DELETE FROM t")
        assert [row[1:] for row in reader.execute("FETCH ALL FROM s")] == [("-D", "a", 1)]


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


def _lines(connection: psycopg.Connection, statement: str, count: int) -> list[list[str]]:
    """The first rows of a subscription, which is cancelled then."""
    found: list[list[str]] = []
    with (
        pytest.raises(psycopg.errors.QueryCanceled),
        connection.cursor().copy(f"COPY ({statement}) TO STDOUT") as copy,
    ):
        for line in copy:
            found.append(bytes(line).decode().rstrip("\n").split("\t"))
            if len(found) == count:
                connection.cancel()
                list(copy)
    return found


def test_goes_on_behind_an_epoch(address: Address, view: psycopg.Connection) -> None:
    with address.connect() as reader:
        ((first, *row),) = _lines(reader, "SUBSCRIBE TO v", 1)
        assert row == ["+I", "a", "1"]
        for i in range(2, 6):
            view.execute("INSERT INTO t VALUES (%s, 'b')", (i,))
        missed = _lines(reader, f"SUBSCRIBE v AS OF {first}", 7)
        assert [row[1:] for row in missed[:3]] == [["+I", "b", "1"], ["-U", "b", "1"], ["+U", "b", "2"]]
        epochs = [int(row[0]) for row in missed]
        assert epochs == sorted(epochs) and epochs[0] > int(first) and len(set(epochs)) == 4
        again = _lines(reader, f"SUBSCRIBE v AS OF {epochs[2]}", 4)
        assert again == missed[3:]


def test_without_a_snapshot_and_with_progress(address: Address, view: psycopg.Connection) -> None:
    with address.connect() as reader:
        rows = reader.cursor().stream("SUBSCRIBE TO v WITHOUT SNAPSHOT WITH PROGRESS")
        began, *told = next(rows)
        assert told == ["progress", None, None]
        view.execute("INSERT INTO t VALUES (9, 'z')")
        changed, *row = next(rows)
        assert row == ["+I", "z", 1] and changed > began
        done, *told = next(rows)
        assert told == ["progress", None, None] and done >= changed
        reader.cancel()
        with pytest.raises(psycopg.errors.QueryCanceled):
            list(rows)


@pytest.mark.parametrize(
    ("clause", "state"),
    [
        ("AS OF 5", "72000"),
        ("AS OF 99999999999999", "22023"),
        ("AS OF x", "22023"),
        ("WITH SNAPSHOT AS OF 5", "42601"),
        ("WITH ROWS", "42601"),
    ],
)
def test_what_it_cannot_begin_with(address: Address, view: psycopg.Connection, clause: str, state: str) -> None:
    with pytest.raises(psycopg.Error) as raised:
        view.execute(f"SUBSCRIBE TO v {clause}")
    assert raised.value.sqlstate == state


def test_names_that_are_not_there(view: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable) as raised:
        view.execute("SUBSCRIBE TO nope AS OF 5")
    assert raised.value.diag.statement_position == "14"


def test_many_subscribers_read_the_same(address: Address, view: psycopg.Connection) -> None:
    readers = [address.connect() for _ in range(10)]
    streams = [reader.cursor().stream("SUBSCRIBE TO v") for reader in readers]
    firsts = {next(stream) for stream in streams}
    assert {row[1:] for row in firsts} == {("+I", "a", 1)}
    view.execute("INSERT INTO t SELECT CAST(n AS INT), 'm' FROM generate_series(10, 29) AS s (n)")
    assert len({next(stream) for stream in streams}) == 1
    for reader in readers:
        reader.pgconn.finish()


def test_who_does_not_read_is_dropped(address: Address, view: psycopg.Connection) -> None:
    view.execute("CREATE TABLE wide (id INT PRIMARY KEY NOT ENFORCED, text STRING)")
    wire = WireClient(address.host, address.port, start=False)
    wire.start(database="default_catalog", options=f"-c search_path={address.schema}")
    wire.send(message(b"Q", b"SUBSCRIBE TO wide\0"))
    wire.until(b"T")
    with address.connect() as reader:
        rows = reader.cursor().stream("SUBSCRIBE TO wide WITHOUT SNAPSHOT WITH PROGRESS")
        assert next(rows)[1] == "progress"
        for i in range(22):
            text = f"{i}{'x' * 3_000_000}"
            view.execute("INSERT INTO wide VALUES (1, %s)", (text,))
            # Who reads goes on: the new row comes last.
            while (row := next(rows))[1] in ("-U", "progress"):
                pass
            assert row[3] == text
        reader.cancel()
        with pytest.raises(psycopg.errors.QueryCanceled):
            list(rows)
    wire.socket.settimeout(30)
    found = wire.ended()
    assert found[-1] == b"E" and b"Z" not in found
    assert view.execute("SELECT COUNT(*) FROM wide").fetchone() == (1,)


def test_a_query_is_followed_as_a_view_is(address: Address, view: psycopg.Connection) -> None:
    query = "SUBSCRIBE (SELECT n, max(name) AS most FROM v WHERE name <> ')' GROUP BY n) WITH PROGRESS"
    with address.connect() as reader:
        rows = reader.cursor().stream(query)
        began, *first = next(rows)
        assert first == ["+I", 1, "a"]
        view.execute("INSERT INTO t VALUES (2, 'b'), (3, 'c'), (4, 'c')")
        told = []
        while len(told) < 3:
            epoch, op, *row = next(rows)
            if op != "progress":
                assert epoch > began
                told.append((op, *row))
        assert told == [("-U", 1, "a"), ("+U", 1, "b"), ("+I", 2, "c")]
        # What it reads stays meanwhile.
        with pytest.raises(psycopg.Error, match='is read by the materialized view "subscription'):
            view.execute("DROP MATERIALIZED VIEW v")
        reader.cancel()
        with pytest.raises(psycopg.errors.QueryCanceled):
            list(rows)
    _dropped(view)


def _dropped(client: psycopg.Connection) -> None:
    """A subscription ends a moment after its client."""
    while True:
        try:
            client.execute("DROP MATERIALIZED VIEW v")
            return
        except psycopg.errors.DependentObjectsStillExist as error:
            assert "subscription" in str(error)


def test_a_client_that_goes_ends_its_query(address: Address, view: psycopg.Connection) -> None:
    readers = [address.connect() for _ in range(3)]
    begun = [
        reader.cursor().stream("SUBSCRIBE TO (SELECT v.n FROM v) WITHOUT SNAPSHOT WITH PROGRESS") for reader in readers
    ]
    for rows in begun:
        assert next(rows)[1] == "progress"
    for reader in readers:
        reader.close()
    never = address.connect(autocommit=False)
    never.execute("DECLARE c CURSOR FOR SUBSCRIBE (SELECT * FROM v)")
    never.close()
    _dropped(view)


def test_a_query_has_no_past(address: Address, view: psycopg.Connection) -> None:
    with address.connect() as reader:
        newest = next(reader.cursor().stream("SUBSCRIBE TO v"))[0]
    with address.connect() as reader, pytest.raises(psycopg.Error, match="are no longer kept"):
        reader.execute(f"SUBSCRIBE (SELECT * FROM v) AS OF {newest - 1}")
    with address.connect() as reader, pytest.raises(psycopg.Error) as raised:
        reader.execute("SUBSCRIBE (SELECT nothing FROM v)")
    assert raised.value.diag.statement_position == "19"
    with address.connect() as reader, pytest.raises(psycopg.Error, match="follows a query"):
        reader.execute("SUBSCRIBE (DELETE FROM t)")
    _dropped(view)
