"""psycopg 3, whose ways with types, pipelines, cursors, COPY and transactions the server must know."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import psycopg
import pytest

from tests.server.conftest import Address, started, stop

EVERYTHING = """CREATE TABLE everything (
  id BIGINT PRIMARY KEY NOT ENFORCED, flag BOOLEAN, small SMALLINT, n INT, f FLOAT, d DOUBLE, amount DECIMAL(20, 4), name STRING,
  raw BYTES, day DATE, at TIMESTAMP(6), moment TIMESTAMP_LTZ(3), tags ARRAY<STRING>, numbers ARRAY<INT>, pairs MAP<STRING, INT>)"""
ROWS = [
    (
        1, True, -32768, 2147483647, 1.5, 1e-7, Decimal("-1234567890123456.7891"), 'a"b\\c\td', b"\x00\xff", dt.date(1969, 12, 31),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 7, 1, 12, 0, 0, 500000, dt.UTC),
        ["", "NULL", None, "x,y", 'q"'], [1, None, -3],
    ),
    (2, False, 0, -2147483648, float("inf"), float("-inf"), Decimal("0.0001"), "", b"", dt.date(9999, 12, 31),
     dt.datetime(1, 1, 1), dt.datetime(2000, 1, 1, tzinfo=dt.UTC), [], []),
    (9223372036854775807, *[None] * 13),
]  # fmt: skip
COLUMNS = "id, flag, small, n, f, d, amount, name, raw, day, at, moment, tags, numbers"


@pytest.mark.parametrize("binary", [False, True])
def test_every_type_goes_in_and_comes_out(client: psycopg.Connection, binary: bool) -> None:
    client.execute(EVERYTHING)
    marks = ", ".join(["%b" if binary else "%t"] * 14)
    for row in ROWS:
        assert client.execute(f"INSERT INTO everything ({COLUMNS}) VALUES ({marks})", row).rowcount == 1
    found = client.cursor(binary=binary).execute(f"SELECT {COLUMNS} FROM everything ORDER BY id").fetchall()
    assert found == ROWS


def test_nested_values_come_as_json(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE nested (m MAP<STRING, INT>, r ROW<a INT, b STRING>, a ARRAY<ROW<x INT>>)")
    client.execute("INSERT INTO nested VALUES (MAP['k', 1], ROW(1, 'x'), ARRAY[ROW(7)])")
    assert client.execute("SELECT m, r FROM nested").fetchone() == ({"k": 1}, {"a": 1, "b": "x"})
    assert client.execute("SELECT a FROM nested").fetchone() == ([{"x": 7}],)


def test_a_parameter_has_the_type_of_its_place(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE t (id BIGINT PRIMARY KEY NOT ENFORCED, at TIMESTAMP(3), amount DECIMAL(10, 2))")
    client.execute("INSERT INTO t VALUES (%s, %s, %s)", (1, "2024-01-01 00:00:00", "1.50"))
    # psycopg sends the smallest integer type that holds a number.
    assert client.execute("SELECT amount FROM t WHERE id = %s AND at > %s", (1, dt.date(2023, 1, 1))).fetchone() == (
        Decimal("1.50"),
    )
    assert client.execute("SELECT id FROM t WHERE amount = %s LIMIT %s", (Decimal("1.5"), 5)).fetchall() == [(1,)]


def test_prepared_statements_and_pipelines(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, name STRING)")
    client.cursor().executemany("INSERT INTO t VALUES (%s, %s)", [(i, f"n{i}") for i in range(20)])
    # From the sixth time on psycopg prepares it under a name.
    assert [client.execute("SELECT name FROM t WHERE id = %s", (i,)).fetchone() for i in range(8)] == [
        (f"n{i}",) for i in range(8)
    ]
    with client.pipeline():
        first, second = client.execute("SELECT COUNT(*) FROM t"), client.execute("SELECT 'b'")
        assert first.fetchone() == (20,)
        assert second.fetchone() == ("b",)
    client.execute("DEALLOCATE ALL")


def test_an_error_has_state_place_hint_and_code(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE orders (id INT, amount INT)")
    with pytest.raises(psycopg.errors.UndefinedColumn) as caught:
        client.execute("SELECT 1;\n  SELECT amuont FROM orders")
    told = caught.value.diag
    assert (told.statement_position, told.message_hint, told.message_detail) == (
        "20",
        'did you mean "amount"?',
        "Code E1201.",
    )


@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("SELEC 1", "42601"),
        ("SELECT * FROM nothing", "42P01"),
        ("SELECT nope(1)", "42883"),
        ("SELECT 1 / 0", "22012"),
        ("SELECT CAST('x' AS INT)", "22P02"),
        ("CREATE TABLE t (a INT)", "42P07"),
        ("INSERT INTO t VALUES (NULL)", "23502"),
        ("SELECT x.id FROM t x, t y WHERE id = 1", "42702"),
        ("USE nowhere", "3F000"),
        ("SET nonsense = 1", "42704"),
        ("FETCH 1 FROM c", "34000"),
        ("SAVEPOINT a", "25P01"),
        ("EXECUTE nothing", "26000"),
    ],
)
def test_states_of_errors(client: psycopg.Connection, statement: str, state: str) -> None:
    client.execute("CREATE TABLE t (id INT NOT NULL)")
    with pytest.raises(psycopg.Error) as caught:
        client.execute(statement)
    assert caught.value.sqlstate == state
    assert client.execute("SELECT 1").fetchone() == (1,)


def test_a_transaction_is_one_epoch(address: Address, client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED)")
    client.execute("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
    with address.connect(autocommit=False) as other:
        other.execute("INSERT INTO t VALUES (1)")
        other.execute("INSERT INTO t VALUES (2)")
        assert other.execute("SELECT COUNT(*) FROM t").fetchone() == (2,)
        assert client.execute("SELECT COUNT(*) FROM t").fetchone() == (0,)
        assert client.execute("SELECT * FROM v").fetchall() == [(0,)]
        other.commit()
        assert client.execute("SELECT * FROM v").fetchall() == [(2,)]
        other.execute("DELETE FROM t")
        other.rollback()
        assert client.execute("SELECT * FROM v").fetchall() == [(2,)]


def test_a_failed_transaction_waits_for_its_end(address: Address) -> None:
    with address.connect(autocommit=False) as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED)")
        connection.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(psycopg.errors.UndefinedColumn):
            connection.execute("SELECT nope FROM t")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        assert connection.execute("SELECT COUNT(*) FROM t").fetchone() == (0,)


def test_savepoints(address: Address) -> None:
    with address.connect(autocommit=False) as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED)")
        connection.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(ZeroDivisionError), connection.transaction():
            connection.execute("INSERT INTO t VALUES (2)")
            assert connection.execute("SELECT COUNT(*) FROM t").fetchone() == (2,)
            raise ZeroDivisionError
        connection.execute("INSERT INTO t VALUES (3)")
        # A failure within a savepoint is forgotten with it.
        with pytest.raises(psycopg.errors.UndefinedTable), connection.transaction():
            connection.execute("SELECT * FROM nothing")
        connection.commit()
        assert connection.execute("SELECT id FROM t ORDER BY id").fetchall() == [(1,), (3,)]


def test_several_statements_of_one_message_are_one_epoch(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED)")
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        client.execute("INSERT INTO t VALUES (1); INSERT INTO t SELECT CAST('x' AS INT)")
    assert client.execute("SELECT COUNT(*) FROM t").fetchone() == (0,)


def test_cursors_of_the_server(address: Address) -> None:
    with address.connect(autocommit=False) as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED)")
        connection.execute("INSERT INTO t SELECT CAST(n AS INT) FROM generate_series(1, 1000) AS s (n)")
        with connection.cursor(name="big") as cursor:
            cursor.itersize = 300
            cursor.execute("SELECT id FROM t ORDER BY id")
            assert cursor.fetchmany(3) == [(1,), (2,), (3,)]
            assert [row[0] for row in cursor] == list(range(4, 1001))


COPIED = [
    (1, 'tab\t"quote" \\N', Decimal("1.50"), True),
    (2, None, None, None),
    (3, "two\nlines", Decimal("-0.01"), False),
    (4, "", None, True),
]


def test_copy_as_rows(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, name STRING, amount DECIMAL(10, 2), ok BOOLEAN)")
    with client.cursor() as cursor:
        with cursor.copy("COPY t FROM STDIN") as copy:
            for row in COPIED:
                copy.write_row(row)
        assert cursor.rowcount == 4
        with cursor.copy("COPY t (id, name) FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int4", "text"])
            copy.write_row((5, "five"))
        with cursor.copy("COPY (SELECT * FROM t ORDER BY id) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["int4", "text", "numeric", "bool"])
            assert list(copy.rows()) == [*COPIED, (5, "five", None, None)]


@pytest.mark.parametrize(
    "options", ["", "(FORMAT csv, HEADER)", "(FORMAT csv, DELIMITER ';', NULL '-')", "(FORMAT binary)"]
)
def test_copy_out_and_in_again(client: psycopg.Connection, options: str) -> None:
    for name in ("t", "u"):
        client.execute(
            f"CREATE TABLE {name} (id INT PRIMARY KEY NOT ENFORCED, name STRING, amount DECIMAL(10, 2), ok BOOLEAN)"
        )
    client.cursor().executemany("INSERT INTO t VALUES (%s, %s, %s, %s)", COPIED)
    with client.cursor().copy(f"COPY t TO STDOUT {options}") as out:
        data = b"".join(bytes(piece) for piece in out)
    with client.cursor().copy(f"COPY u FROM STDIN {options}") as copy:
        for start in range(0, len(data), 7):
            copy.write(data[start : start + 7])
    assert client.execute("SELECT * FROM u ORDER BY id").fetchall() == COPIED


def test_what_was_copied_is_held_by_the_table_alone() -> None:
    """Rows on their way have a name of their own, which is gone with them: a client that copies for days keeps nothing."""
    process, host, port = started()
    try:
        with psycopg.connect(
            f"host={host} port={port} user=sqlengine dbname=default_catalog", autocommit=True
        ) as client:
            client.execute("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, name STRING)")
            with client.cursor().copy("COPY t FROM STDIN") as copy:
                copy.write_row((1, "one"))
            for number in range(1, 9):
                with pytest.raises(psycopg.errors.UndefinedTable):
                    client.execute(f'SELECT * FROM "$python".from_arrow_{number}')  # type: ignore[arg-type]
    finally:
        assert stop(process) == 0


def test_copy_of_what_is_no_row_writes_nothing(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, name STRING)")
    copy_in = "COPY t FROM STDIN"
    with (
        pytest.raises(psycopg.errors.BadCopyFileFormat, match="line 3: 3 values"),
        client.cursor().copy(copy_in) as copy,
    ):
        copy.write("1\ta\n2\tb\n3\tc\td\n")
    with pytest.raises(psycopg.errors.InvalidTextRepresentation), client.cursor().copy(copy_in) as copy:
        copy.write("1\ta\nx\tb\n")
    assert client.execute("SELECT COUNT(*) FROM t").fetchone() == (0,)


def test_statements_are_read_as_postgresql_does(client: psycopg.Connection) -> None:
    client.execute('CREATE TABLE Mixed (id int PRIMARY KEY, "Name" text, doc jsonb)')
    client.execute("""INSERT INTO MIXED VALUES (1, E'a\\nb', '{"k": [1, 2]}'::jsonb), (2, NULL, NULL)""")
    query = """SELECT "Name", doc -> 'k' ->> 0, 7 / 2, id::text || 'x', now() > '2000-01-01' FROM mixed ORDER BY "Name" DESC"""
    assert client.execute(query).fetchall() == [(None, None, 3, "2x", True), ("a\nb", "1", 3, "1x", True)]
    found = client.execute("SELECT count(*), avg(id), sum(id) AS s FROM mixed WHERE id > 5")
    assert [c.name for c in found.description or ()] == ["count", "avg", "s"]
    assert found.fetchall() == [(0, None, None)]
    client.execute("SET 'sqlengine.sql.dialect' = 'flink'")
    assert client.execute("SELECT AVG(`id`) FROM `mixed`").fetchone() == (1,)


def test_settings(client: psycopg.Connection) -> None:
    client.execute("SET TimeZone = 'Europe/Berlin'")
    assert client.info.parameter_status("TimeZone") == "Europe/Berlin"
    row = client.execute("SELECT CAST(TIMESTAMP '2024-07-01 12:00:00' AS TIMESTAMP_LTZ(3))").fetchone()
    assert row is not None and row[0].isoformat() == "2024-07-01T12:00:00+02:00"
    assert client.execute("SHOW TimeZone").fetchone() == ("Europe/Berlin",)
    assert client.execute("SELECT current_setting('TimeZone')").fetchone() == ("Europe/Berlin",)
    client.execute("RESET ALL")
    assert client.execute("SHOW TimeZone").fetchone() == ("UTC",)
    assert client.info.parameter_status(
        "server_version",
    ).startswith("15.0 (sqlengine")  # type: ignore[union-attr]


def test_call_gives_the_rows_of_a_procedure(client: psycopg.Connection) -> None:
    client.execute("CREATE PROCEDURE one AS 'tests.unit.environment.procedures_of_users.one' LANGUAGE PYTHON")
    found = client.execute("CALL one(%s, by => 3)", (2,))
    assert found.fetchall() == [(2, "two"), (6, "times")]
    assert [column.name for column in found.description or ()] == ["n", "word"]
    client.execute("CREATE TABLE rows_of (id INT)")
    with pytest.raises(psycopg.errors.Error, match="E1230"):
        client.execute("CALL sys.compact()")
    client.execute("CREATE PROCEDURE fill AS 'tests.unit.environment.procedures_of_users.Fill' LANGUAGE PYTHON")
    assert client.execute("CALL fill(2)").fetchone() == (2,)
    assert client.execute("SELECT COUNT(*) FROM rows_of").fetchone() == (2,)


@pytest.mark.parametrize("binary", [False, True])
def test_identifiers_and_lists(client: psycopg.Connection, binary: bool) -> None:
    one, two = uuid.uuid4(), uuid.uuid4()
    client.execute("CREATE TABLE marked (id uuid PRIMARY KEY, n int)")
    client.execute("INSERT INTO marked VALUES (%b, 1), (%t, 2)", (one, str(two).upper()))
    assert client.execute("SELECT id FROM marked WHERE id = %s", (two,), binary=binary).fetchall() == [(two,)]
    assert client.execute("SELECT n FROM marked WHERE id = ANY(%s)", ([one],), binary=binary).fetchall() == [(1,)]
    assert client.execute("SELECT id FROM marked WHERE n = ANY(%s)", ([2, 5],), binary=binary).fetchall() == [(two,)]
    assert client.execute("SELECT ARRAY[id, NULL] FROM marked WHERE n = 1", binary=binary).fetchall() == [
        ([one, None],)
    ]
    with client.cursor() as cursor, cursor.copy("COPY marked FROM STDIN") as copy:
        copy.write_row(("{" + one.hex.upper() + "}", 7))
    assert client.execute("SELECT n FROM marked WHERE id = %s", (one,)).fetchall() == [(7,)]
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        client.execute("INSERT INTO marked VALUES ('none', 1)")
    client.execute("DROP TABLE marked")


def test_what_postgresql_says_of_names_and_values(client: psycopg.Connection) -> None:
    """Columns of one name, jsonb with blanks, EXECUTE with rows, comments and objects by name."""
    found = client.execute("SELECT count(*), count(*), 1, 2 FROM (VALUES (1)) AS v (x)")
    assert [c.name for c in found.description or ()] == ["count", "count", "?column?", "?column?"]
    assert [c.name for c in client.execute("VALUES (1, 'a')").description or ()] == ["column1", "column2"]
    assert client.execute('SELECT \'{"bb":[1,2],"a":{}}\'::jsonb AS j', binary=False).fetchall() == [
        ({"a": {}, "bb": [1, 2]},)
    ]
    client.execute("CREATE TABLE said (id int, name text)")
    client.execute("INSERT INTO said VALUES (1), (2)")
    client.execute("PREPARE said_one(int) AS SELECT id, name FROM said WHERE id > $1")
    assert client.execute("EXECUTE said_one(1)").fetchall() == [(2, None)]
    client.execute("COMMENT ON TABLE said IS 'things'")
    client.execute("COMMENT ON COLUMN said.name IS 'of it'")
    asked = (
        "SELECT 'said'::regclass, obj_description('said'::regclass, 'pg_class'), col_description('said'::regclass, 2)"
    )
    assert client.execute(asked).fetchall() == [("said", "things", "of it")]
    assert client.execute("SELECT 'pg_class'::regclass::oid, 'said'::regclass::oid > 1259").fetchall() == [(1259, True)]
    asked = "SELECT count(*) FROM pg_class WHERE relname = 'pg_class' AND relnamespace = 'pg_catalog'::regnamespace"
    assert client.execute(asked).fetchall() == [(1,)]
    assert client.execute("SELECT pg_typeof(1), pg_typeof(ARRAY['a'])").fetchall() == [("integer", "text[]")]
    client.execute("DROP TABLE said")


def test_sequences_are_in_the_catalogue(client: psycopg.Connection) -> None:
    client.execute("CREATE SEQUENCE orders_no START 5 MAXVALUE 90 CYCLE")
    client.execute("CREATE TABLE numbered (id serial PRIMARY KEY, no bigint DEFAULT nextval('orders_no'::regclass))")
    client.execute("CREATE SEQUENCE owned OWNED BY numbered.no")
    assert client.execute("INSERT INTO numbered DEFAULT VALUES RETURNING id, no").fetchall() == [(1, 5)]
    assert client.execute("SELECT nextval('orders_no'::regclass), currval('orders_no'), lastval()").fetchall() == [
        (6, 6, 6)
    ]
    asked = "SELECT sequencename, data_type, start_value, max_value, cycle, last_value FROM pg_sequences "
    asked += "WHERE sequencename IN ('numbered_id_seq', 'orders_no', 'owned') ORDER BY 1"
    assert client.execute(asked).fetchall() == [
        ("numbered_id_seq", "int4", 1, 2147483647, False, 1),
        ("orders_no", "int8", 5, 90, True, 6),
        ("owned", "int8", 1, 9223372036854775807, False, None),
    ]
    asked = "SELECT sequence_name, data_type, maximum_value FROM information_schema.sequences "
    asked += "WHERE sequence_name IN ('orders_no', 'owned') ORDER BY 1"
    assert client.execute(asked).fetchall() == [
        ("orders_no", "bigint", "90"),
        ("owned", "bigint", "9223372036854775807"),
    ]
    asked = "SELECT column_name, is_identity FROM information_schema.columns WHERE table_name = 'numbered' ORDER BY 1"
    assert client.execute(asked).fetchall() == [("id", "YES"), ("no", "NO")]
    asked = "SELECT relname FROM pg_class WHERE relkind = 'S' AND oid = 'orders_no'::regclass"
    assert client.execute(asked).fetchall() == [("orders_no",)]
    # As Django sets the numbers of a table that was loaded.
    asked = 'SELECT setval(pg_get_serial_sequence(\'"numbered"\', \'id\'), coalesce(max("id"), 1), max("id") IS NOT null) FROM numbered'
    assert client.execute(asked).fetchall() == [(1,)]
    schema = client.execute("SELECT current_schema").fetchall()[0][0]
    asked = "SELECT pg_get_serial_sequence('numbered', 'no')"
    assert client.execute(asked).fetchall() == [(f"{schema}.owned",)]
    client.execute("DISCARD SEQUENCES")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        client.execute("SELECT lastval()")
    with pytest.raises(psycopg.errors.UndefinedTable):
        client.execute("SELECT nextval('nothing')")
    client.execute("ALTER SEQUENCE orders_no NO CYCLE RESTART WITH 90")
    client.execute("SELECT nextval('orders_no')")
    with pytest.raises(psycopg.errors.SequenceGeneratorLimitExceeded):
        client.execute("SELECT nextval('orders_no')")
    client.execute("DROP TABLE numbered")
    client.execute("DROP SEQUENCE orders_no")
