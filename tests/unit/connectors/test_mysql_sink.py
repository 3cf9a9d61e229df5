"""Tables of MariaDB as sinks: exactly once whatever is killed, upserts, and rows that the database refuses."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from connectors.databases.options import Delivering
from connectors.mysql.commits import MysqlCommits, MysqlTransactions
from connectors.mysql.table import MysqlTable
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from sqlengine.testing.connectors import SinkCase, SinkContract, end, every_value
from tests.servers.mariadb import MariaDatabase
from tests.unit.connectors.mysql_tables import created, table_of

SCHEMA = Schema.of(("id", INT), ("name", STRING))


def changes(*rows: tuple[int, int, str | None]) -> ChangelogBatch:
    kinds = np.array([kind for kind, _, _ in rows], np.int8)
    columns = [pa.array([r[1] for r in rows], pa.int32()), pa.array([r[2] for r in rows], pa.string())]
    return ChangelogBatch.of(columns, SCHEMA, kinds)


def inserts(*rows: tuple[int, str | None]) -> ChangelogBatch:
    return changes(*((INSERT, *row) for row in rows))


def shown(database: MariaDatabase, table: MysqlTable) -> list[Any]:
    """What readers see."""
    return sorted(database.rows(f"SELECT id, name FROM {table.name}"), key=repr)


class TestUpserts(SinkContract):
    """Keys come again, change and go."""

    connectors = ("mysql",)
    steps = ((MysqlTransactions, "_put"), (MysqlCommits, "commit"))
    seeds = 1

    @pytest.fixture
    def make(self, mariadb: MariaDatabase, monkeypatch: pytest.MonkeyPatch) -> Callable[[random.Random], SinkCase]:
        monkeypatch.setattr("time.sleep", lambda seconds: None)

        def case(rng: random.Random) -> SinkCase:
            table = created(mariadb, SCHEMA, ("id",))
            rows: dict[int, str] = {}
            epochs: list[ChangelogBatch] = []
            states: list[dict[int, str]] = [{}]
            for epoch in range(3):
                found: list[tuple[int, int, str | None]] = []
                for change in range((8, 3, 20)[epoch]):
                    key, value = rng.randrange(6), f"{epoch} {change}"
                    if key not in rows:
                        found.append((INSERT, key, value))
                    elif rng.random() < 0.5:
                        found += [(UPDATE_BEFORE, key, rows[key]), (UPDATE_AFTER, key, value)]
                    else:
                        found.append((DELETE, key, None))
                        del rows[key]
                        continue
                    rows[key] = value
                epochs.append(changes(*found))
                states.append(dict(rows))
            return SinkCase(table, lambda: shown(mariadb, table), epochs, lambda n: sorted(states[n].items(), key=repr))

        return case


def test_every_type(mariadb: MariaDatabase) -> None:
    """What is written is read again."""
    from sqlengine.testing.connectors import rows_of
    from tests.unit.connectors.test_mysql_source import TestSource

    schema, rows = every_value(TestSource.types)
    for key in ((), ("id",)):
        table = created(mariadb, schema, key)
        writer = table.open_writer("job")
        writer.recover([])
        columns = [pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(schema)]
        writer.write(ChangelogBatch.of(columns, schema))
        end(writer)
        writer.close()
        assert sorted(rows_of(table)) == sorted(rows)


def test_another_run_takes_over(mariadb: MariaDatabase) -> None:
    table = created(mariadb, SCHEMA)
    old, new = table.open_writer("job"), table.open_writer("job")
    old.recover([])
    old.write(inserts((1, "old")))
    prepared = old.prepare()
    new.recover([])
    new.write(inserts((2, "new")))
    end(new)
    with pytest.raises(FencedError, match="E3413 another run"):
        old.publish(prepared)
    assert shown(mariadb, table) == [(2, "new")]
    old.close()
    new.close()


def test_a_row_that_violates_a_constraint(mariadb: MariaDatabase) -> None:
    """Nothing of its commit is there, and nothing is lost: when the table is mended the job goes on."""
    table = created(mariadb, SCHEMA)
    mariadb.run(f"ALTER TABLE {table.name} ADD CONSTRAINT kind CHECK (name <> 'bad')")
    writer = table.open_writer("job")
    writer.recover([])
    writer.write(inserts((1, "good"), (2, "bad")))
    prepared = writer.prepare()
    with pytest.raises(ConnectorError, match="E3162 .*`kind` failed"):
        writer.publish(prepared)
    assert shown(mariadb, table) == []
    mariadb.run(f"ALTER TABLE {table.name} DROP CONSTRAINT kind")
    again = table.open_writer("job")
    again.recover([prepared])
    assert shown(mariadb, table) == [(1, "good"), (2, "bad")]
    again.close()


def test_the_server_goes_away(mariadb: MariaDatabase) -> None:
    """Between two commits, and while one is being written: it is written once."""
    table = created(mariadb, SCHEMA, ("id",))
    writer = table.open_writer("job")
    writer.recover([])
    writer.write(inserts((1, "a")))
    end(writer)
    with mariadb.server.away():
        pass
    writer.write(inserts((2, "b")))
    end(writer)
    assert shown(mariadb, table) == [(1, "a"), (2, "b")]
    assert writer.tries > 0
    writer.close()


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


def test_values_that_do_not_fit(mariadb: MariaDatabase) -> None:
    """Nothing is cut off or rounded."""
    mariadb.run("CREATE TABLE short (id SMALLINT, name VARCHAR(3))")
    table = table_of(mariadb, "short", SCHEMA, delivering=Delivering(False, 0))
    for row, message in (((1, "four"), "E3162 .*[Tt]oo long"), ((100_000, "x"), "E3162 .*[Oo]ut of range")):
        writer = table.open_writer("job")
        with pytest.raises(ConnectorError, match=message):
            writer.write(inserts(row))
            writer.flush(1)
        writer.close()
    assert mariadb.rows("SELECT * FROM short") == []


def test_at_least_once(mariadb: MariaDatabase) -> None:
    """Rows are there at the end of the epoch; by key they replace each other."""
    table = created(mariadb, SCHEMA, ("id",), delivering=Delivering(False, 0))
    assert table.delivery == "at-least-once"
    writer = table.open_writer("job")
    writer.recover([])
    writer.write(inserts((1, "a"), (2, "b")))
    writer.flush(1)
    assert shown(mariadb, table) == [(1, "a"), (2, "b")]
    writer.write(changes((DELETE, 1, None), (INSERT, 2, "c")))
    writer.flush(2)
    assert shown(mariadb, table) == [(2, "c")]
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
