"""Questions over the catalogue and over tables of users at once."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import psycopg
import pytest
from psycopg import errors

from tests.server.conftest import Address

TABLES = """
CREATE TABLE joined (id INT PRIMARY KEY, tab VARCHAR(20), d DECIMAL(10, 2), "Odd" INT);
INSERT INTO joined VALUES (1, 'joined', 1.5, 7), (2, 'none', 2.5, NULL);
CREATE VIEW v AS SELECT id, tab FROM joined;
CREATE MATERIALIZED VIEW counted AS SELECT tab, COUNT(*) AS n FROM joined GROUP BY tab;
CREATE TABLE pairs (k INT, relname STRING);
INSERT INTO pairs VALUES (1, 'joined'), (1, 'joined');
"""


@pytest.fixture(scope="module")
def mine(server: tuple[str, int]) -> Address:
    """A schema with tables whose names no other has."""
    with Address(*server, "default_database").connect() as client:
        client.execute("CREATE SCHEMA joins")
    address = Address(*server, "joins")
    with address.connect() as client:
        for statement in TABLES.strip().split("\n"):
            client.execute(statement)
    return address


@pytest.fixture
def tables(mine: Address) -> Iterator[psycopg.Connection]:
    with mine.connect() as client:
        yield client


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT c.relname, t.id, t.d FROM pg_class c JOIN joined t ON t.tab = c.relname", [("joined", 1, Decimal("1.50"))]),
        ('SELECT "Odd" / 2 FROM joined t JOIN pg_class ON relname = tab', [(3,)]),
        ("SELECT relname, (SELECT count(*) FROM joined) FROM pg_class WHERE relname IN (SELECT tab FROM v)", [("joined", 2)]),
        ("WITH w AS (SELECT tab FROM joined) SELECT relname FROM pg_class JOIN w ON w.tab = relname", [("joined",)]),
        ("SELECT t.id FROM joined t WHERE NOT EXISTS (SELECT 1 FROM pg_class c WHERE c.relname = t.tab)", [(2,)]),
        ("SELECT data_type, n FROM information_schema.columns c JOIN counted ON n = 1 AND c.column_name = 'Odd' "
         "WHERE c.table_name = tab", [("integer", 1)]),
        ("SELECT DISTINCT k, relkind FROM pairs JOIN pg_class USING (relname)", [(1, "r")]),
        ("SELECT DISTINCT k FROM pairs NATURAL JOIN pg_class", [(1,)]),
        ("SELECT v.* FROM v, pg_namespace WHERE nspname = 'pg_catalog' ORDER BY id DESC", [(2, "none"), (1, "joined")]),
        ("SELECT pg_sleep(0), id FROM joined ORDER BY id", [("", 1), ("", 2)]),
        ("SELECT current_database(), max(id) FROM joined", [("default_catalog", 2)]),
    ],
)  # fmt: skip
def test_rows_of_both(tables: psycopg.Connection, query: str, rows: list[tuple[object, ...]]) -> None:
    assert tables.execute(query).fetchall() == rows


def test_values_of_parameters_and_types(tables: psycopg.Connection) -> None:
    query = "SELECT t.* FROM joined t JOIN pg_class c ON c.relname = t.tab WHERE t.id = %s AND c.relname = %s"
    for _ in range(3):
        cursor = tables.execute(query, (1, "joined"), prepare=True)
        assert cursor.fetchall() == [(1, "joined", Decimal("1.50"), 7)]
    assert [(c.name, c.type_code) for c in cursor.description or ()] == [
        ("id", 23),
        ("tab", 25),
        ("d", 1700),
        ("Odd", 23),
    ]


def test_rows_are_those_that_the_session_sees(tables: psycopg.Connection, mine: Address) -> None:
    query = "SELECT count(*) FROM joined, pg_namespace WHERE nspname = 'pg_catalog'"
    with mine.connect() as other:
        with tables.transaction(force_rollback=True):
            tables.execute("INSERT INTO joined VALUES (3, 'x', 1, 1)")
            assert tables.execute(query).fetchone() == (3,)
            assert other.execute(query).fetchone() == (2,)
        assert tables.execute(query).fetchone() == (2,)


def test_what_is_wrong_with_tables_is_told_as_ever(tables: psycopg.Connection) -> None:
    with pytest.raises(errors.UndefinedTable, match='unknown table "nothing"'):
        tables.execute("SELECT n.x FROM pg_class JOIN nothing n ON n.x = relname")
    with pytest.raises(errors.UndefinedColumn):
        tables.execute("SELECT t.nothing FROM pg_class, joined t")
    with pytest.raises(errors.UndefinedColumn, match="mbiguous"):
        tables.execute("SELECT relname FROM pairs JOIN pg_class c ON c.relname = pairs.relname")
    tables.execute("CREATE TABLE endless (i BIGINT) WITH ('connector' = 'datagen')")
    with pytest.raises(psycopg.Error, match="E1621|no end"):
        tables.execute("SELECT i FROM endless, pg_class")


def test_a_question_that_takes_long_is_stopped(tables: psycopg.Connection) -> None:
    tables.execute("SET statement_timeout = '50 ms'")
    parts = ", ".join(f"pg_attribute a{i}" for i in range(6))
    with pytest.raises(errors.QueryCanceled):
        tables.execute(f"SELECT count(*) FROM {parts} WHERE a0.attnum + a1.attnum + a2.attnum > a5.attnum")
