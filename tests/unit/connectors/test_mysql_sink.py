"""Tables of MariaDB as sinks: exactly once whatever is killed, upserts, and rows that the database refuses."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from connectors.mysql.commits import MysqlCommits, MysqlTransactions
from runtime.core.changelog import DELETE, INSERT, ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from sqlengine.testing.connectors import end
from tests.servers.mariadb import MariaDatabase
from tests.unit.connectors.database_sinks import SCHEMA, SinkTests, UpsertContract, changes, inserts, shown
from tests.unit.connectors.mysql_tables import TYPES, created, table_of


@pytest.fixture
def database(mariadb: MariaDatabase) -> MariaDatabase:
    return mariadb


class TestUpserts(UpsertContract):
    connectors = ("mysql",)
    steps = ((MysqlTransactions, "_put"), (MysqlCommits, "commit"))
    seeds = 1
    created = created


class TestSink(SinkTests):
    created = created
    table_of = table_of
    types = TYPES
    violation = "`kind` failed"
    too_long = "[Tt]oo long"
    too_large = "[Oo]ut of range"


def test_tables_with_other_columns(mariadb: MariaDatabase) -> None:
    for place, (there, message) in enumerate(
        (
            ("id INT", "E3163 .* has no column name"),
            ("id SMALLINT, name INT", "E3163 column name of .* is int.11. there, which may not hold every STRING"),
            ("id TEXT, name TEXT", "E3163 column id of .* is text there, which may not hold every INT"),
        )
    ):
        mariadb.run(f"CREATE TABLE other{place} ({there})")
        with pytest.raises(ConnectorError, match=message):
            table_of(mariadb, f"other{place}", SCHEMA).open_writer("job").recover([])
    for place, (there, message) in enumerate(
        (
            (
                "id INT, name TEXT",
                "E3163 no unique index of .* has exactly the columns of the declared primary key .id.",
            ),
            ("id INT UNIQUE, name TEXT", "E3163 column id of the key of .* may be NULL there"),
            ("id INT PRIMARY KEY, name TEXT) ENGINE = (MyISAM", "E3163 .* MyISAM, which has no transactions"),
        )
    ):
        mariadb.run(f"CREATE TABLE keys{place} ({there})".replace("(MyISAM)", "MyISAM"))
        with pytest.raises(ConnectorError, match=message):
            table_of(mariadb, f"keys{place}", SCHEMA, primary_key=("id",)).open_writer("job").recover([])


def test_another_unique_index_replaces_nothing(mariadb: MariaDatabase) -> None:
    """Not the row with the same value of another column, and not one whose key is the same without case."""
    mariadb.run("CREATE TABLE mails (name VARCHAR(20) PRIMARY KEY, mail VARCHAR(20) UNIQUE)")
    schema = Schema.of(("name", STRING.not_null()), ("mail", STRING))
    table = table_of(mariadb, "mails", schema, primary_key=("name",))
    writer = table.open_writer("job")
    writer.recover([])

    def written(kind: int, name: str, mail: str) -> None:
        writer.write(ChangelogBatch.of([pa.array([name]), pa.array([mail])], schema, np.array([kind], np.int8)))
        end(writer)

    written(INSERT, "ann", "a@x")
    written(INSERT, "bob", "b@x")
    written(INSERT, "bob", "b@y")
    assert mariadb.rows("SELECT * FROM mails ORDER BY 1") == [("ann", "a@x"), ("bob", "b@y")]
    written(DELETE, "BOB", "b@y")
    assert mariadb.rows("SELECT COUNT(*) FROM mails") == [(2,)]
    for name, mail in (("eve", "a@x"), ("ANN", "a@y")):
        with pytest.raises(ConnectorError, match="E3162 .*cannot be null"):
            written(INSERT, name, mail)
        writer.abort()
        writer = table.open_writer("job")
        writer.recover([])
    written(DELETE, "bob", "b@y")
    assert mariadb.rows("SELECT * FROM mails ORDER BY 1") == [("ann", "a@x")]
    writer.close()


def test_texts_become_what_the_column_is(mariadb: MariaDatabase) -> None:
    mariadb.run("CREATE TABLE odd (id INT, a UUID, b JSON, c ENUM('sad', 'glad'), d SET('x', 'y'), e CHAR(3))")
    schema = Schema.of(("id", INT), *((n, STRING) for n in "abcde"))
    writer = table_of(mariadb, "odd", schema).open_writer("job")
    writer.recover([])
    cells = [
        [1, 2],
        ["00000000-0000-0000-0000-00000000000a", None],
        ['{"x": 1}', None],
        ["glad", None],
        ["y,x", None],
        ["z", None],
    ]
    writer.write(ChangelogBatch.of([pa.array(c, f.type.arrow) for c, f in zip(cells, schema, strict=True)], schema))
    end(writer)
    writer.close()
    assert mariadb.rows("SELECT a, JSON_VALUE(b, '$.x'), c, d, e FROM odd ORDER BY id") == [
        ("00000000-0000-0000-0000-00000000000a", "1", "glad", "x,y", "z"),
        (None, None, None, None, None),
    ]


def test_a_statement_is_never_longer_than_the_server_takes(
    mariadb: MariaDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many rows are many statements, in one transaction; texts may have every character."""
    monkeypatch.setattr("connectors.mysql.commits._STATEMENT_BYTES", 2000)
    table = created(mariadb, SCHEMA, ("id",))
    writer = table.open_writer("job")
    writer.recover([])
    texts = [chr(i) for i in range(1, 300)] + ["\\", "'", "''", "\0", "%s", "x" * 5000, "NULL", "\U0001f600"]
    writer.write(inserts(*enumerate(texts)))
    end(writer)
    assert [name for _, name in sorted(mariadb.rows(f"SELECT id, name FROM {table.name}"))] == texts
    writer.write(changes(*((DELETE, i, None) for i in range(len(texts)))))
    end(writer)
    assert shown(mariadb, table) == []
    writer.close()
