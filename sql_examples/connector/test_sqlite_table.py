"""The contract suite over `sqlite_table.py`: `pytest sql_examples/connector`."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlite_table import SqliteCommits, SqliteTable, quoted

from sqlengine.spi import INT, STRING, Schema
from sqlengine.testing.connectors import SinkCase, SinkContract, SourceContract, some_epochs

SCHEMA = Schema.of(("id", INT), ("name", STRING))


def made(folder: Path, schema: Schema, rows: list[tuple[Any, ...]]) -> SqliteTable:
    path = str(folder / f"{len(list(folder.iterdir()))}.db")
    marks = ", ".join("?" * len(schema))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE t ({', '.join(map(quoted, schema.names))})")
        connection.executemany(f"INSERT INTO t VALUES ({marks})", rows)
        connection.commit()
    return SqliteTable(schema, (), path, "t", 0)


class TestSource(SourceContract):
    types = ("tinyint", "smallint", "int", "bigint", "double", "string", "bytes")

    @pytest.fixture
    def table(self, tmp_path: Path) -> SqliteTable:
        return made(tmp_path, SCHEMA, [(i, None if i % 3 == 0 else f"n{i}") for i in range(20)])

    @pytest.fixture
    def holding(self, tmp_path: Path) -> Callable[[Schema, list[tuple[Any, ...]]], SqliteTable]:
        return lambda schema, rows: made(tmp_path, schema, rows)

    @pytest.fixture
    def away(self, tmp_path: Path) -> Callable[[], AbstractContextManager[SqliteTable]]:
        @contextmanager
        def locked() -> Any:
            table = made(tmp_path, SCHEMA, [(1, "a")])
            with closing(sqlite3.connect(table.path)) as connection:
                connection.execute("BEGIN EXCLUSIVE")
                yield table

        return locked


class TestSink(SinkContract):
    steps = ((SqliteCommits, "last"), (SqliteCommits, "commit"))

    @pytest.fixture
    def make(self, tmp_path: Path) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            table = made(tmp_path, SCHEMA, [])

            def visible() -> list[Any]:
                with closing(sqlite3.connect(table.path)) as connection:
                    return sorted(connection.execute("SELECT id, name FROM t").fetchall(), key=repr)

            return SinkCase(table, visible, *some_epochs(rng, SCHEMA))

        return case
