"""Tables of PostgreSQL whose changes are read, and what readers give."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from connector_tables import Context, changes_of, source

from connectors.postgres.cdc.table import PostgresCdcSource
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, INT, STRING
from runtime.spi.reader import SourceReader
from tests.servers.postgres import PASSWORD, PostgresDatabase

__all__ = [
    "PATIENCE",
    "SCHEMA",
    "Contents",
    "all_there_is",
    "begun",
    "error_of",
    "made",
    "opened",
    "rows_until",
    "sql_rows",
    "table",
    "upserts",
]

SCHEMA = Schema.of(("id", INT), ("name", STRING), ("n", BIGINT), ("large", STRING))
PATIENCE = 30.0


def table(
    postgres: PostgresDatabase, schema: Schema = SCHEMA, key: tuple[str, ...] = ("id",), **more: Any
) -> PostgresCdcSource:
    metadata = more.pop("metadata", ())
    options = {
        "hostname": postgres.server.host,
        "port": str(postgres.server.port),
        "username": "postgres",
        "password": PASSWORD,
        "database-name": postgres.name,
        "schema-name": "public",
        "table-name": "t",
        "slot.name": f"{postgres.name}_slot",
        **{k.replace("_", "-"): v for k, v in more.items()},
    }
    made = source("postgres-cdc", schema, options, primary_key=key, metadata=metadata)
    assert isinstance(made, PostgresCdcSource)
    return made


def upserts(postgres: PostgresDatabase, **more: Any) -> PostgresCdcSource:
    return table(postgres, changelog_mode="upsert", **more)


class _Waking(Context):
    """Tells who waits for rows."""

    def __init__(self) -> None:
        super().__init__()
        self.event = threading.Event()

    def wake(self) -> None:
        super().wake()
        self.event.set()


_woken: WeakKeyDictionary[SourceReader, threading.Event] = WeakKeyDictionary()


def opened(made: PostgresCdcSource, position: Any = None) -> SourceReader:
    (split,) = made.splits()
    context = _Waking()
    reader = made.open(split, context)
    _woken[reader] = context.event
    if position is not None:
        reader.seek(json.loads(json.dumps(position)))
    return reader


def rows_until(reader: SourceReader, wanted: Callable[[list[Any]], bool]) -> list[Any]:
    """Changes until they are what is wanted."""
    found: list[Any] = []
    until = time.monotonic() + PATIENCE
    while not wanted(found):
        assert time.monotonic() < until, found[-20:]
        batch = reader.poll(1000)
        if batch is None:
            _woken[reader].wait(0.5)
            _woken[reader].clear()
        else:
            found += changes_of(batch)
    return found


def all_there_is(reader: Any) -> list[Any]:
    """What FLUSH would bring."""
    reader.fetch_end_offset()
    found: list[Any] = []
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        batch = reader.poll(1000)
        if batch is not None:
            found += changes_of(batch)
        elif reader._answered >= reader._asked:
            return found
    raise AssertionError("it does not come")


def error_of(made: PostgresCdcSource, position: Any = None) -> ConnectorError:
    reader = opened(made, position)
    with pytest.raises(ConnectorError) as raised:
        rows_until(reader, lambda found: False)
    reader.close()
    return raised.value


class Contents:
    """A table to which changes are applied; that no change is of a row that is not there is checked."""

    def __init__(self, upsert: bool) -> None:
        self.upsert = upsert
        self.rows: Counter[tuple[Any, ...]] = Counter()
        self.by_key: dict[Any, tuple[Any, ...]] = {}

    def apply(self, changes: list[Any]) -> None:
        for kind, values in changes:
            if self.upsert:
                if kind == DELETE:
                    assert self.by_key.pop(values[0], None) is not None
                else:
                    assert kind in (INSERT, UPDATE_AFTER)
                    self.by_key[values[0]] = values
            elif kind in (INSERT, UPDATE_AFTER):
                self.rows[values] += 1
            else:
                assert self.rows[values] > 0, (kind, values)
                self.rows[values] -= 1

    def sorted(self) -> list[Any]:
        return sorted(self.by_key.values() if self.upsert else self.rows.elements())


def sql_rows(postgres: PostgresDatabase) -> list[Any]:
    return sorted(postgres.rows('SELECT id, name, n, "large" FROM t'))


@pytest.fixture
def made(postgres: PostgresDatabase) -> PostgresDatabase:
    postgres.run(
        'CREATE TABLE t (id INT PRIMARY KEY, name TEXT, n BIGINT, "large" TEXT)', "ALTER TABLE t REPLICA IDENTITY FULL"
    )
    return postgres


def begun(postgres: PostgresDatabase, made: PostgresCdcSource) -> Any:
    """The position of a reader that has read all."""
    reader = opened(made)
    all_there_is(reader)
    reader.close()
    return reader.position()
