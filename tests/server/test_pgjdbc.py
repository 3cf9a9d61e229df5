"""The JDBC driver of PostgreSQL: what it asks of the catalogue for each method of DatabaseMetaData, over names of all kinds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.server.conftest import Address
from tests.server.maven import copied

HERE = Path(__file__).parent / "pgjdbc"
JARS = Path(__file__).parents[2] / ".venv-pgjdbc"
SCHEMA = "odd \"schema's % name"
TABLES = ("plain", 'Mixed "Case"', "it's 100%_of\\all", "ünïcode 表")
VIEWS = {"select": "MATERIALIZED VIEW", "a view": "VIEW"}


def answers(address: Address) -> dict[str, str]:
    """What each method says, by its name and that of the table."""
    url = f"jdbc:postgresql://{address.host}:{address.port}/default_catalog?user=sqlengine"
    jars = copied(HERE / "pom.xml", JARS)
    command = ["java", "-cp", f"{jars}/*", str(HERE / "Metadata.java"), url, SCHEMA, *TABLES, *VIEWS]
    done = subprocess.run(command, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    lines = done.stdout.decode("utf-8").splitlines()
    # What the driver itself does not have.
    wrong = [line for line in lines if line.startswith("ERROR") and "SQLFeatureNotSupportedException" not in line]
    assert wrong == []
    return dict(line.split(" = ", 1) for line in lines if " = " in line)


@pytest.mark.long
def test_every_method_of_its_metadata(address: Address) -> None:
    schema = sql.Identifier(SCHEMA)
    columns = sql.SQL(
        '(id INT, "a b" VARCHAR(10) COMMENT \'it\'\'s\', "Select" DECIMAL(10, 2), "é" TIMESTAMP(3), tags ARRAY<STRING>, '
        "m MAP<STRING, INT>, PRIMARY KEY (id) NOT ENFORCED)"
    )
    with address.connect() as client:
        client.execute(sql.SQL("CREATE SCHEMA {}").format(schema))
        client.execute(sql.SQL("SET search_path = {}").format(schema))
        for name in TABLES:
            client.execute(sql.SQL("CREATE TABLE {} {} COMMENT 'a table'").format(sql.Identifier(name), columns))
        client.execute('CREATE MATERIALIZED VIEW "select" AS SELECT id, COUNT(*) AS "n n" FROM plain GROUP BY id')
        client.execute('CREATE VIEW "a view" AS SELECT id FROM plain')
    try:
        found = answers(address)
    finally:
        with address.connect() as client:
            client.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(schema))
    for name in TABLES:
        assert f"null|{SCHEMA}|{name}|TABLE|" in found[f"getTables {name}"]
        assert f"|{name}|id|1|{name}_pkey" in found[f"getPrimaryKeys {name}"]
        told = [tuple(row.split("|")[i] for i in (3, 5, 6, 8, 11)) for row in found[f"getColumns {name}"].split("; ")]
        assert told == [
            ("id", "int4", "10", "0", "null"),
            ("a b", "varchar", "10", "0", "it's"),
            ("Select", "numeric", "10", "2", "null"),
            ("é", "timestamp", "26", "3", "null"),
            ("tags", "_text", "2147483647", "0", "null"),
            ("m", "jsonb", "2147483647", "0", "null"),
        ]
    for name, kind in VIEWS.items():
        assert f"|{name}|{kind}|" in found[f"getTables {name}"]
        assert f"|{name}|id|4|int4|" in found[f"getColumns {name}"]
    assert "int4|4|" in found["getTypeInfo"] and "returning" in found["getSQLKeywords"].split(",")


def test_functions_that_read_types_are_known_by_name(client: psycopg.Connection) -> None:
    for name in ("array_in", "pg_catalog.array_in"):
        found = client.execute(f"SELECT COUNT(*) > 5 FROM pg_type WHERE typinput = '{name}'::regproc").fetchone()  # type: ignore[call-overload]
        assert found == (True,)
    with pytest.raises(psycopg.errors.UndefinedFunction, match='function "nope" does not exist'):
        client.execute("SELECT typname FROM pg_type WHERE typinput = 'nope'::regproc")
    words = 'SELECT word FROM pg_get_keywords() WHERE word = ANY (\'{select,"null","a,b"}\'::text[]) ORDER BY word'
    assert client.execute(words).fetchall() == [("null",), ("select",)]  # type: ignore[call-overload]
