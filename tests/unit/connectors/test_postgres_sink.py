"""Tables of PostgreSQL as sinks: exactly once whatever is killed, upserts, and rows that the database refuses."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from connectors.postgres.commits import PostgresCommits, PostgresTransactions
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from sqlengine.testing.connectors import SinkCase, SinkContract, end, some_epochs
from tests.servers.postgres import PostgresDatabase
from tests.unit.connectors.database_sinks import SCHEMA, SinkTests, UpsertContract, shown
from tests.unit.connectors.postgres_tables import TYPES, created, table_of


class TestInserts(SinkContract):
    connectors = ("postgres",)
    steps = ((PostgresCommits, "commit"),)
    seeds = 2

    @pytest.fixture
    def make(self, postgres: PostgresDatabase) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            table = created(postgres, SCHEMA)
            return SinkCase(table, lambda: shown(postgres, table), *some_epochs(rng, SCHEMA, 3))

        return case


@pytest.fixture
def database(postgres: PostgresDatabase) -> PostgresDatabase:
    return postgres


class TestUpserts(UpsertContract):
    connectors = ("postgres",)
    steps = ((PostgresTransactions, "_put"),)
    seeds = 2
    created = created


class TestSink(SinkTests):
    created = created
    table_of = table_of
    types = TYPES
    violation = r"violates check constraint.*\(Failing row contains \(2, bad\)"
    too_long = "too long"
    too_large = "out of range"


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
