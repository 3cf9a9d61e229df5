"""What clients were used to from PostgreSQL, and met here otherwise: each answer is that of PostgreSQL 15."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

from tests.server.conftest import Address
from tests.server.test_psql import psql, run

__all__ = ["psql"]

INT2, TEXT, NUMERIC = 21, 25, 1700


def copied_out(client: psycopg.Connection, how: str) -> str:
    with client.cursor().copy(f"COPY (SELECT id, s FROM t ORDER BY id) TO STDOUT {how}") as copy:
        return b"".join(bytes(part) for part in copy).decode()


def copied_in(client: psycopg.Connection, how: str, data: str) -> list[tuple[Any, ...]]:
    with client.cursor().copy(f"COPY t FROM STDIN {how}") as copy:
        copy.write(data)
    rows = client.execute("SELECT id, s FROM t ORDER BY id").fetchall()
    client.execute("DELETE FROM t")
    return rows


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(
    "value",
    [
        1, 2**40, 10**20, 1.5, True, Decimal("1.50"), b"\x00\xff", dt.date(2024, 1, 1), dt.time(1, 2, 3), dt.timedelta(1, 2),
        dt.datetime(2024, 1, 1, 2, 3, 4, 5), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), uuid.UUID(int=5), "x", [1, None],
        [Decimal("1.10")], [True],
    ],
)  # fmt: skip
def test_a_value_comes_back_as_what_it_was(client: psycopg.Connection, value: Any, binary: bool) -> None:
    client.execute("SET TimeZone = 'UTC'")
    assert client.cursor(binary=binary).execute("SELECT %s AS v", [value]).fetchone() == (value,)


def test_types_that_a_client_says_decide_where_places_do_not(client: psycopg.Connection) -> None:
    found = client.execute(
        "SELECT %s::date + %s, %s, coalesce(%s, 'x')", [dt.date(2024, 1, 1), 3, Decimal("1.5"), None]
    )
    assert [c.type_code for c in found.description or ()][1:] == [NUMERIC, TEXT]
    assert found.fetchall() == [(dt.date(2024, 1, 4), Decimal("1.5"), "x")]
    assert client.execute("SELECT now() - %s < now()", [dt.timedelta(1)]).fetchall() == [(True,)]
    with pytest.raises(psycopg.Error) as told:
        psycopg.RawCursor(client).execute("SELECT DATE '2024-01-01' + $1", ["3 days"])
    assert told.value.sqlstate == "42883"


def test_columns_without_a_type_are_texts(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE made AS SELECT NULL AS a, 'x' AS b, CASE WHEN TRUE THEN 'yes' ELSE 'no' END AS c")
    client.execute("INSERT INTO made VALUES ('long', 'longer', 'longest')")
    assert client.execute("SELECT * FROM made WHERE a IS NOT NULL").fetchall() == [("long", "longer", "longest")]
    assert client.execute("SELECT NULL UNION ALL SELECT 1").fetchall() == [(None,), (1,)]
    literals = sql.SQL(", ").join(map(sql.Literal, [None, "a\\b", 1e20, 10**20]))
    found = client.execute(sql.SQL("SELECT {}").format(literals)).fetchall()
    assert found == [(None, "a\\b", 10**20, 10**20)]


def test_scrolling(client: psycopg.Connection) -> None:
    with client.transaction(), client.cursor("c 1", scrollable=True) as cursor:
        cursor.execute("SELECT i FROM generate_series(1, 10) AS g (i)")
        assert cursor.fetchmany(3) == [(1,), (2,), (3,)]
        cursor.scroll(-2)
        assert cursor.fetchone() == (2,)
        cursor.scroll(0, mode="absolute")
        assert cursor.fetchone() == (1,)


def steps(client: psycopg.Connection, fetch: Callable[[str], str]) -> list[list[int]]:
    words = ["2", "BACKWARD 2", "ABSOLUTE 4", "RELATIVE -1", "0", "LAST", "NEXT", "PRIOR", "FIRST", "PRIOR", "-1", "NEXT",
             "ABSOLUTE -2", "BACKWARD ALL", "ALL", "ABSOLUTE 9", "BACKWARD 1"]  # fmt: skip
    return [[n for (n,) in client.execute(fetch(word)).fetchall()] for word in words]


def test_every_way_to_fetch(client: psycopg.Connection) -> None:
    with client.transaction():
        client.execute("DECLARE c SCROLL CURSOR FOR SELECT i FROM generate_series(1, 5) AS g (i)")
        assert steps(client, lambda word: f"FETCH {word} FROM c") == [
            [1, 2], [1], [4], [3], [3], [5], [], [5], [1], [], [], [1], [4], [3, 2, 1], [1, 2, 3, 4, 5], [], [5],
        ]  # fmt: skip
        assert client.execute("MOVE BACKWARD ALL IN c").statusmessage == "MOVE 4"
        client.execute("DECLARE d NO SCROLL CURSOR FOR SELECT i FROM generate_series(1, 5) AS g (i)")
        assert client.execute("FETCH ABSOLUTE 2 FROM d").fetchall() == [(2,)]
        with pytest.raises(errors.ObjectNotInPrerequisiteState):
            client.execute("FETCH PRIOR FROM d")


def test_options_of_copy(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE t (id INT, s STRING)")
    client.execute("INSERT INTO t VALUES (1, 'a\"b'), (2, NULL)")
    assert copied_out(client, "(FORMAT csv, FORCE_QUOTE *)") == '"1","a""b"\n"2",\n'
    assert copied_out(client, "(FORMAT csv, FORCE_QUOTE (s), HEADER)") == 'id,s\n1,"a""b"\n2,\n'
    assert copied_out(client, "CSV ESCAPE '\\' FORCE QUOTE id") == '"1","a\\"b"\n"2",\n'
    client.execute("DELETE FROM t")
    assert copied_in(client, "(FORMAT csv)", '1,"a\r\n\\.\r\nb"\r\n2,""\r\n\\.\r\nno row') == [
        (1, "a\r\n\\.\r\nb"),
        (2, ""),
    ]
    assert copied_in(client, "(FORMAT csv, FORCE_NOT_NULL (s))", "1,\n") == [(1, "")]
    assert copied_in(client, "(FORMAT csv, FORCE_NULL (s))", '1,""\n') == [(1, None)]
    assert copied_in(client, "(FORMAT csv, ESCAPE '\\')", '1,"a\\"b"\n') == [(1, 'a"b')]
    assert copied_in(client, "(FORMAT csv, HEADER match)", "id,s\n1,x\n") == [(1, "x")]
    with pytest.raises(errors.BadCopyFileFormat, match='field 2: got "z", expected "s"'):
        copied_in(client, "(HEADER match)", "id\tz\n1\tx\n")
    for refused in ("(FORCE_QUOTE *)", "(FORMAT csv, FORCE_NULL (s))", "(HEADER match)"):
        with pytest.raises(errors.FeatureNotSupported):
            copied_out(client, refused)
    with pytest.raises(errors.InvalidColumnReference):
        copied_in(client, "(FORMAT csv, FORCE_NULL (nope))", "1,x\n")


def test_notices_of_if_exists(client: psycopg.Connection) -> None:
    told: list[tuple[str | None, str | None]] = []
    client.add_notice_handler(lambda notice: told.append((notice.severity, notice.sqlstate)))
    client.execute("CREATE TABLE t (a INT)")
    for statement in (
        "DROP TABLE IF EXISTS nope", "DROP VIEW IF EXISTS nope", "DROP SCHEMA IF EXISTS nope CASCADE",
        "CREATE TABLE IF NOT EXISTS t (a INT)", "CREATE INDEX ON t (a)", "DROP INDEX IF EXISTS nope",
    ):  # fmt: skip
        client.execute(statement)
    assert told == [("NOTICE", "00000")] * 3 + [("NOTICE", "42P07")] + [("NOTICE", "00000")] * 2
    client.execute("SET client_min_messages = warning")
    client.execute("DROP TABLE IF EXISTS nope")
    assert len(told) == 6


def test_a_schema_that_is_not_empty_needs_cascade(client: psycopg.Connection, address: Address) -> None:
    client.execute("CREATE TABLE t (a INT)")
    with pytest.raises(psycopg.Error):
        client.execute(f"DROP SCHEMA {address.schema} RESTRICT")
    assert client.execute("SELECT * FROM t").fetchall() == []


def test_transactions_that_only_read(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE t (a INT)")
    client.execute("BEGIN READ ONLY")
    assert client.execute("SHOW transaction_read_only").fetchall() == [("on",)]
    with pytest.raises(errors.ReadOnlySqlTransaction, match="cannot execute INSERT in a read-only transaction"):
        client.execute("INSERT INTO t VALUES (1)")
    client.execute("ROLLBACK")
    client.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    for statement in ("DROP TABLE t", "TRUNCATE t", "DELETE FROM t WHERE a = %s", "CREATE VIEW v AS SELECT 1 AS a"):
        with pytest.raises(errors.ReadOnlySqlTransaction):
            client.execute(statement, [1] if "%s" in statement else None)
    client.execute("BEGIN READ WRITE")
    assert client.execute("INSERT INTO t VALUES (1)").rowcount == 1
    client.execute("COMMIT")


def test_sleep_ends_by_a_timeout(client: psycopg.Connection) -> None:
    assert client.execute("SELECT pg_sleep(0), 1 AS x").fetchall() == [("", 1)]
    client.execute("SET statement_timeout = 50")
    with pytest.raises(errors.QueryCanceled):
        client.execute("SELECT pg_sleep(600)")


def test_words_of_answers(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE t (a INT)")
    assert client.execute("TRUNCATE t").statusmessage == "TRUNCATE TABLE"
    plan = client.execute("EXPLAIN SELECT a FROM t")
    assert ([c.name for c in plan.description or ()], plan.statusmessage) == (["QUERY PLAN"], "EXPLAIN")
    assert plan.fetchone() == ("== Abstract Syntax Tree ==",)
    client.execute("SET my.own = 7")
    assert client.execute("SELECT current_setting('my.own')").fetchall() == [("7",)]
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match="prepared transactions are disabled"):
        client.execute("PREPARE TRANSACTION 'x'")


def test_psql_with_odd_names(psql: str, address: Address) -> None:
    made = 'CREATE TABLE "Odd ""Name" ("a b" INT PRIMARY KEY, "select" INT)'
    ended = run(psql, address, made, r'\d "Odd ""Name"', "COPY (SELECT 1) TO STDOUT", stdin="")
    assert '    "Odd "Name_pkey" PRIMARY KEY, btree ("a b")' in ended.stdout.splitlines()
    asked = (
        'SELECT 1 AS a, \'x\' AS b, 2.5 AS c, now() AS d, TRUE \\gdesc\n\\copy "Odd ""Name" FROM STDIN CSV\n1,2\n\\.\n'
    )
    ended = run(
        psql, address, stdin=asked + "SELECT quote_ident('select'), quote_ident('a b'), pg_catalog.quote_ident('a');\n"
    )
    assert ended.stderr == ""
    rows = [[cell.strip() for cell in line.split("|")] for line in ended.stdout.splitlines()]
    assert [row[0] for row in rows[2:7]] == ["a", "b", "c", "d", "?column?"]
    assert ["COPY 1"] in rows and ['"select"', '"a b"', "a"] in rows
