"""What is tested of the sinks of every SQL database; a test file of one makes subclasses of what is here."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from connectors.databases.options import Delivering
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from sqlengine.testing.connectors import SinkCase, SinkContract, end, every_value, rows_of

__all__ = ["SCHEMA", "SinkTests", "UpsertContract", "changes", "inserts", "shown", "some_upserts"]

SCHEMA = Schema.of(("id", INT), ("name", STRING))


def changes(*rows: tuple[int, int, str | None]) -> ChangelogBatch:
    kinds = np.array([kind for kind, _, _ in rows], np.int8)
    columns = [pa.array([r[1] for r in rows], pa.int32()), pa.array([r[2] for r in rows], pa.string())]
    return ChangelogBatch.of(columns, SCHEMA, kinds)


def inserts(*rows: tuple[int, str | None]) -> ChangelogBatch:
    return changes(*((INSERT, *row) for row in rows))


def shown(database: Any, table: Any) -> list[Any]:
    """What readers see."""
    return sorted(database.rows(f"SELECT id, name FROM {table.name}"), key=repr)


def some_upserts(
    rng: random.Random, values: Sequence[str | None] = ()
) -> tuple[list[ChangelogBatch], Callable[[int], list[Any]]]:
    """Three epochs in which keys come, change and go, and what is there after so many of them. `values`: come up, too."""
    rows: dict[int, str | None] = {}
    epochs: list[ChangelogBatch] = []
    states: list[dict[int, str | None]] = [{}]
    for epoch in range(3):
        found: list[tuple[int, int, str | None]] = []
        for change in range((8, 3, 20)[epoch]):
            key, value = rng.randrange(6), rng.choice([*values, f"{epoch} {change}"])
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
    return epochs, lambda n: sorted(states[n].items(), key=repr)


class UpsertContract(SinkContract):
    """Keys come again, change and go. A subclass has a fixture `database`."""

    created: ClassVar[Callable[..., Any]]

    @pytest.fixture
    def make(self, database: Any) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            table = type(self).created(database, SCHEMA, ("id",))
            return SinkCase(table, lambda: shown(database, table), *some_upserts(rng))

        return case


class SinkTests:
    """A subclass has a fixture `database`.

    Attributes:
        created, table_of: make an empty table; give one that is there.
        types: those that a column may have.
        violation: what the database says of the row (2, 'bad') where CHECK has forbidden it.
        too_long, too_large: what it says of values that a column cannot hold.
    """

    created: ClassVar[Callable[..., Any]]
    table_of: ClassVar[Callable[..., Any]]
    types: ClassVar[tuple[str, ...]]
    violation: ClassVar[str]
    too_long: ClassVar[str]
    too_large: ClassVar[str]

    def test_every_type(self, database: Any) -> None:
        """What is written is read again."""
        schema, rows = every_value(self.types)
        for key in ((), ("id",)):
            table = type(self).created(database, schema, key)
            writer = table.open_writer("job")
            writer.recover([])
            columns = [pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(schema)]
            writer.write(ChangelogBatch.of(columns, schema))
            end(writer)
            writer.close()
            assert sorted(rows_of(table)) == sorted(rows)

    def test_another_run_takes_over(self, database: Any) -> None:
        table = type(self).created(database, SCHEMA)
        old, new = table.open_writer("job"), table.open_writer("job")
        old.recover([])
        old.write(inserts((1, "old")))
        prepared = old.prepare()
        new.recover([])
        new.write(inserts((2, "new")))
        end(new)
        with pytest.raises(FencedError, match="E3413 another run"):
            old.publish(prepared)
        assert shown(database, table) == [(2, "new")]
        old.close()
        new.close()

    def test_a_row_that_violates_a_constraint(self, database: Any) -> None:
        """Nothing of its commit is there, and nothing is lost: when the table is mended the job goes on."""
        table = type(self).created(database, SCHEMA)
        database.run(f"ALTER TABLE {table.name} ADD CONSTRAINT kind CHECK (name <> 'bad')")
        writer = table.open_writer("job")
        writer.recover([])
        writer.write(inserts((1, "good"), (2, "bad")))
        prepared = writer.prepare()
        with pytest.raises(ConnectorError, match=f"E3162 .*{self.violation}"):
            writer.publish(prepared)
        assert shown(database, table) == []
        database.run(f"ALTER TABLE {table.name} DROP CONSTRAINT kind")
        again = table.open_writer("job")
        again.recover([prepared])
        assert shown(database, table) == [(1, "good"), (2, "bad")]
        again.close()

    def test_the_server_goes_away(self, database: Any) -> None:
        """Between two commits, and while one is being written: it is written once."""
        table = type(self).created(database, SCHEMA, ("id",))
        writer = table.open_writer("job")
        writer.recover([])
        writer.write(inserts((1, "a")))
        end(writer)
        with database.server.away():
            pass
        writer.write(inserts((2, "b")))
        end(writer)
        assert shown(database, table) == [(1, "a"), (2, "b")]
        assert writer.tries > 0
        writer.close()

    def test_values_that_do_not_fit(self, database: Any) -> None:
        """Nothing is cut off or rounded."""
        database.run("CREATE TABLE short (id SMALLINT, name VARCHAR(3))")
        table = type(self).table_of(database, "short", SCHEMA, delivering=Delivering(False, 0))
        for row, message in (((1, "four"), self.too_long), ((100_000, "x"), self.too_large)):
            writer = table.open_writer("job")
            with pytest.raises(ConnectorError, match=f"E3162 .*{message}"):
                writer.write(inserts(row))
                writer.flush(1)
            writer.close()
        assert database.rows("SELECT * FROM short") == []

    def test_at_least_once(self, database: Any) -> None:
        """Rows are there at the end of the epoch; by key they replace each other."""
        table = type(self).created(database, SCHEMA, ("id",), delivering=Delivering(False, 0))
        assert table.delivery == "at-least-once"
        writer = table.open_writer("job")
        writer.recover([])
        writer.write(inserts((1, "a"), (2, "b")))
        writer.flush(1)
        assert shown(database, table) == [(1, "a"), (2, "b")]
        writer.write(changes((DELETE, 1, None), (INSERT, 2, "c")))
        writer.flush(2)
        assert shown(database, table) == [(2, "c")]
        writer.close()
