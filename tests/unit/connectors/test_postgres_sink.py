"""Tables of PostgreSQL as sinks: exactly once whatever is killed, upserts, and rows that the database refuses."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from connectors.databases.options import Delivering
from connectors.postgres.commits import PostgresCommits, PostgresTransactions
from connectors.postgres.table import PostgresTable
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from sqlengine.testing.connectors import SinkCase, SinkContract, end, every_value, some_epochs
from tests.servers.postgres import PostgresDatabase
from tests.unit.connectors.postgres_tables import created, table_of

SCHEMA = Schema.of(("id", INT), ("name", STRING))


def changes(*rows: tuple[int, int, str | None]) -> ChangelogBatch:
    kinds = np.array([kind for kind, _, _ in rows], np.int8)
    columns = [pa.array([r[1] for r in rows], pa.int32()), pa.array([r[2] for r in rows], pa.string())]
    return ChangelogBatch.of(columns, SCHEMA, kinds)


def inserts(*rows: tuple[int, str | None]) -> ChangelogBatch:
    return changes(*((INSERT, *row) for row in rows))


def shown(database: PostgresDatabase, table: PostgresTable) -> list[Any]:
    """What readers see."""
    return sorted(database.rows(f"SELECT id, name FROM {table.name}"), key=repr)


class TestInserts(SinkContract):
    connectors = ("postgres",)
    steps = ((PostgresCommits, "commit"),)
    seeds = 2

    @pytest.fixture
    def make(self, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> Callable[[random.Random], SinkCase]:
        monkeypatch.setattr("time.sleep", lambda seconds: None)

        def case(rng: random.Random) -> SinkCase:
            table = created(postgres, SCHEMA)
            return SinkCase(table, lambda: shown(postgres, table), *some_epochs(rng, SCHEMA, 3))

        return case


class TestUpserts(SinkContract):
    """Keys come again, change and go."""

    connectors = ("postgres",)
    steps = ((PostgresTransactions, "_put"),)
    seeds = 2

    @pytest.fixture
    def make(self, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> Callable[[random.Random], SinkCase]:
        monkeypatch.setattr("time.sleep", lambda seconds: None)

        def case(rng: random.Random) -> SinkCase:
            table = created(postgres, SCHEMA, ("id",))
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
            return SinkCase(
                table, lambda: shown(postgres, table), epochs, lambda n: sorted(states[n].items(), key=repr)
            )

        return case


def test_every_type(postgres: PostgresDatabase) -> None:
    """What is written is read again."""
    from sqlengine.testing.connectors import rows_of
    from tests.unit.connectors.test_postgres_source import TestSource

    schema, rows = every_value(TestSource.types)
    for key in ((), ("id",)):
        table = created(postgres, schema, key)
        writer = table.open_writer("job")
        writer.recover([])
        columns = [pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(schema)]
        writer.write(ChangelogBatch.of(columns, schema))
        end(writer)
        writer.close()
        assert sorted(rows_of(table)) == sorted(rows)


def test_another_run_takes_over(postgres: PostgresDatabase) -> None:
    table = created(postgres, SCHEMA)
    old, new = table.open_writer("job"), table.open_writer("job")
    old.recover([])
    old.write(inserts((1, "old")))
    prepared = old.prepare()
    new.recover([])
    new.write(inserts((2, "new")))
    end(new)
    with pytest.raises(FencedError, match="E3413 another run"):
        old.publish(prepared)
    assert shown(postgres, table) == [(2, "new")]
    old.close()
    new.close()


def test_a_row_that_violates_a_constraint(postgres: PostgresDatabase) -> None:
    """Nothing of its commit is there, and nothing is lost: when the table is mended the job goes on."""
    table = created(postgres, SCHEMA)
    postgres.run(f"ALTER TABLE {table.name} ADD CHECK (name <> 'bad')")
    writer = table.open_writer("job")
    writer.recover([])
    writer.write(inserts((1, "good"), (2, "bad")))
    prepared = writer.prepare()
    with pytest.raises(ConnectorError, match=r"E3162 .*violates check constraint.*\(Failing row contains \(2, bad\)"):
        writer.publish(prepared)
    assert shown(postgres, table) == []
    postgres.run(f"ALTER TABLE {table.name} DROP CONSTRAINT {table.name}_name_check")
    again = table.open_writer("job")
    again.recover([prepared])
    assert shown(postgres, table) == [(1, "good"), (2, "bad")]
    again.close()


def test_the_server_goes_away(postgres: PostgresDatabase) -> None:
    """Between two commits, and while one is being written: it is written once."""
    table = created(postgres, SCHEMA, ("id",))
    writer = table.open_writer("job")
    writer.recover([])
    writer.write(inserts((1, "a")))
    end(writer)
    with postgres.server.away():
        pass
    writer.write(inserts((2, "b")))
    end(writer)
    assert shown(postgres, table) == [(1, "a"), (2, "b")]
    assert writer.tries > 0
    writer.close()


def test_tables_with_other_columns(postgres: PostgresDatabase) -> None:
    for place, (there, message) in enumerate(
        (
            ("id INT", "E3163 .* has no column name"),
            ("id SMALLINT, name INT", "E3163 column name of .* is integer there, which may not hold every STRING"),
            ("id TEXT, name TEXT", "E3163 column id of .* is text there, which may not hold every INT"),
        )
    ):
        postgres.run(f"CREATE TABLE other{place} ({there})")
        with pytest.raises(ConnectorError, match=message):
            table_of(postgres, f"other{place}", SCHEMA).open_writer("job").recover([])


def test_values_that_do_not_fit(postgres: PostgresDatabase) -> None:
    """Nothing is cut off or rounded."""
    postgres.run("CREATE TABLE short (id INT2, name VARCHAR(3))")
    table = table_of(postgres, "short", SCHEMA, delivering=Delivering(False, 0))
    for row, message in (((1, "four"), "E3162 .*too long"), ((100_000, "x"), "E3162 .*out of range")):
        writer = table.open_writer("job")
        with pytest.raises(ConnectorError, match=message):
            writer.write(inserts(row))
            writer.flush(1)
        writer.close()
    assert postgres.rows("SELECT * FROM short") == []


def test_at_least_once(postgres: PostgresDatabase) -> None:
    """Rows are there at the end of the epoch; by key they replace each other."""
    table = created(postgres, SCHEMA, ("id",), delivering=Delivering(False, 0))
    assert table.delivery == "at-least-once"
    writer = table.open_writer("job")
    writer.recover([])
    writer.write(inserts((1, "a"), (2, "b")))
    writer.flush(1)
    assert shown(postgres, table) == [(1, "a"), (2, "b")]
    writer.write(changes((DELETE, 1, None), (INSERT, 2, "c")))
    writer.flush(2)
    assert shown(postgres, table) == [(2, "c")]
    writer.close()


def test_texts_become_what_the_column_is(postgres: PostgresDatabase) -> None:
    postgres.run(
        "CREATE TYPE mood AS ENUM ('sad', 'glad')", "CREATE TABLE odd (id INT, a UUID, b JSONB, c mood, d INTERVAL)"
    )
    schema = Schema.of(("id", INT), *((n, STRING) for n in "abcd"))
    writer = table_of(postgres, "odd", schema).open_writer("job")
    writer.recover([])
    cells = [[1, 2], ["00000000-0000-0000-0000-00000000000a", None], ['{"x": 1}', None], ["glad", None], ["P1D", None]]
    writer.write(ChangelogBatch.of([pa.array(c, f.type.arrow) for c, f in zip(cells, schema, strict=True)], schema))
    end(writer)
    writer.close()
    assert postgres.rows("SELECT a::text, b ->> 'x', c::text, d::text FROM odd ORDER BY id") == [
        ("00000000-0000-0000-0000-00000000000a", "1", "glad", "1 day"),
        (None, None, None, None),
    ]
