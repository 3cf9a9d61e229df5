"""Tables of PostgreSQL as sources: the contract, types, snapshots, and servers that go away."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from connectors.databases.options import Partition
from connectors.kit.prefetch import Fetched
from connectors.postgres.table import PostgresTable
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING, decimal, timestamp
from sqlengine.testing.connectors import Context, SourceContract, changes_of, drain
from tests.servers.postgres import PostgresDatabase
from tests.unit.connectors.postgres_tables import TYPES, filled, table_of


class TestSource(SourceContract):
    connectors = ("postgres",)
    types = TYPES

    @pytest.fixture(params=["blocks", "ranges"])
    def table(self, postgres: PostgresDatabase, request: pytest.FixtureRequest) -> PostgresTable:
        ranges = request.param == "ranges"
        schema = (
            Schema.of(("id", INT), ("name", STRING))
            if ranges
            else Schema.of(("at", timestamp(3)), ("price", decimal(10, 2)))
        )
        rows: list[tuple[Any, ...]] = [(i, None if i % 3 == 0 else f"n{i}") for i in range(20)]
        if not ranges:
            moments = [datetime(1969, 12, 31, 23, 59, 50 + i % 10, 120000) for i in range(20)]
            rows = [(at, None if i % 4 == 0 else Decimal(i) / 4) for i, at in enumerate(moments)]
        partition = Partition("id", 3, 0, 100) if ranges else None
        return filled(postgres, schema, rows, partition=partition)

    @pytest.fixture
    def holding(self, postgres: PostgresDatabase) -> Callable[[Schema, list[tuple[Any, ...]]], PostgresTable]:
        return lambda schema, rows: filled(postgres, schema, rows)


WIDE = Schema.of(("id", INT), ("name", STRING))


@pytest.fixture
def wide(postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> PostgresTable:
    """A table that is read in many parts."""
    monkeypatch.setattr("connectors.postgres.parts._LEAST_BLOCKS", 4)
    postgres.run(
        "CREATE TABLE wide AS SELECT g AS id, repeat('x', 100) || g AS name FROM generate_series(1, 3000) AS g"
    )
    return table_of(postgres, "wide", WIDE)


def ids(batches: list[Fetched]) -> list[int]:
    return [i for b in batches if b.rows is not None for i in b.rows.column(0).to_pylist()]  # type: ignore[union-attr]


def begun(table: PostgresTable, rows: int) -> tuple[list[Fetched], Iterator[Fetched]]:
    """The first rows, and the rest."""
    rest = table.fetched(None, threading.Event())
    found: list[Fetched] = []
    while len(ids(found)) < rows:
        found.append(next(rest))
    return found, rest


def test_all_parts_are_of_one_snapshot(postgres: PostgresDatabase, wide: PostgresTable) -> None:
    found, rest = begun(wide, 100)
    postgres.run("UPDATE wide SET id = -id", "DELETE FROM wide WHERE id < -2000", "INSERT INTO wide VALUES (0, '')")
    assert ids([*found, *rest]) == list(range(1, 3001))


def test_it_goes_on_from_any_part(wide: PostgresTable) -> None:
    found = [*wide.fetched(None, threading.Event())]
    assert len(found) > 10
    for place in (0, 1, 5, len(found) - 1):
        position = json.loads(json.dumps(found[place].after))
        rest = [*wide.fetched(position, threading.Event())]
        assert ids([*found[: place + 1], *rest]) == list(range(1, 3001))


def test_it_does_not_go_on_when_rows_have_moved(postgres: PostgresDatabase, wide: PostgresTable) -> None:
    postgres.run("CREATE TABLE another (a INT)")
    for change in (
        "UPDATE wide SET name = 'y' WHERE id = 2900", "INSERT INTO wide VALUES (0, '')", "VACUUM FULL wide", "TRUNCATE wide",
    ):  # fmt: skip
        found, rest = begun(wide, 100)
        position = found[-1].after
        rest.close()  # type: ignore[attr-defined]
        # Others may write other tables.
        postgres.run("INSERT INTO another VALUES (1)")
        assert len(ids([*found, *wide.fetched(position, threading.Event())])) >= 3000
        postgres.run(change)
        with pytest.raises(ConnectorError, match="E3105 rows of .* were inserted or changed"):
            list(wide.fetched(position, threading.Event()))


def test_a_view_is_read_from_its_beginning(postgres: PostgresDatabase, wide: PostgresTable) -> None:
    postgres.run("CREATE VIEW seen AS SELECT * FROM wide")
    view = table_of(postgres, "seen", WIDE)
    found, rest = begun(view, 100)
    assert ids([*found, *rest]) == list(range(1, 3001))
    with pytest.raises(ConnectorError, match="E3105 .* is a view"):
        list(view.fetched(found[-1].after, threading.Event()))
    reader = view.open(view.splits()[0], Context())
    beginning = {"at": found[0].after, "rows": 0}
    reader.seek(json.loads(json.dumps(beginning)))
    assert len(drain(reader)) == 3000
    with pytest.raises(ConnectorError, match="E3105 .* is a view"):
        view.open(view.splits()[0], Context()).seek({**beginning, "rows": 5})


def test_the_server_goes_away(postgres: PostgresDatabase, wide: PostgresTable) -> None:
    """In the middle of reading: it is asked again, and every row comes once."""
    context = Context()
    reader = wide.open(wide.splits()[0], context)
    rows = []
    while not rows:
        batch = reader.poll(10)
        rows += [] if batch is None else changes_of(batch)
    with postgres.server.away():
        pass
    rows += drain(reader)
    assert [row[0] for _, row in rows] == list(range(1, 3001))
    reader.close()


def test_a_limit_is_one_of_all_parts(wide: PostgresTable) -> None:
    assert len(ids([*wide.with_limit(500).fetched(None, threading.Event())])) == 500
