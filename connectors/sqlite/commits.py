"""Rows and the number of their commit in one transaction of SQLite.

The table `_sqlengine_epochs` has the number of each sink's newest commit, and who writes: a new run puts itself in the place
of an older one, which finds out at its next commit.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from connectors.databases.newest import newest_by_key
from connectors.sqlite.columns import bound, may_write, quoted
from connectors.sqlite.database import EPOCHS, connected, described, telling
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError

if TYPE_CHECKING:
    from connectors.sqlite.table import SqliteTable

__all__ = ["SqliteCommits", "SqliteTransactions"]


class SqliteTransactions:
    """Writes rows in transactions of their own (`TransactionWriter`). It keeps no connection: to open a file is quick."""

    def __init__(self, table: SqliteTable) -> None:
        self._table = table
        self._place = table.place()

    def write(self, batches: Sequence[ChangelogBatch]) -> None:
        self._transaction(lambda connection: None, batches)

    def close(self) -> None:
        """Nothing is open."""

    def _transaction(self, first: Callable[[sqlite3.Connection], None], batches: Iterable[ChangelogBatch]) -> None:
        with telling(self._table.path, self._place), connected(self._table.path, "rw") as connection:
            self._check(connection)
            # A connection that is closed in it rolls a transaction back.
            connection.execute("BEGIN IMMEDIATE")
            first(connection)
            self._put(connection, batches)
            connection.execute("COMMIT")

    def _check(self, connection: sqlite3.Connection) -> None:
        """Raises ConnectorError E3163 when a column is not there, or would not keep what is written as it is."""
        relation = described(connection, self._table.table)
        for field in self._table.schema:
            there = relation.column(field.name)
            if not may_write(there, field.type):
                raise ConnectorError(
                    f"column {field.name} of {self._place} is {there.declared or 'of no type'} there, "
                    f"which does not keep every {field.type} as it is",
                    code="E3163",
                    hint=f"declare it as {there.type.with_nullable(True)} and write a CAST, or make it a column of TEXT there",
                )

    def _put(self, connection: sqlite3.Connection, batches: Iterable[ChangelogBatch]) -> None:
        key, name = self._table.primary_key, quoted(self._table.table)
        names = self._table.schema.names
        marks = ", ".join("?" * len(names))
        insert = f"INSERT INTO {name} ({', '.join(map(quoted, names))}) VALUES ({marks})"
        if not key:
            for batch in batches:
                self._many(connection, insert, batch.rows)
            return
        changes = newest_by_key(batches, key)
        if changes is None:
            return
        there, gone = changes
        self._many(connection, f"DELETE FROM {name} WHERE {' AND '.join(f'{quoted(k)} = ?' for k in key)}", gone)
        sets = ", ".join(f"{quoted(n)} = excluded.{quoted(n)}" for n in names if n not in key)
        conflict = f" ON CONFLICT ({', '.join(map(quoted, key))}) DO {'UPDATE SET ' + sets if sets else 'NOTHING'}"
        self._many(connection, insert + conflict, there)

    def _many(self, connection: sqlite3.Connection, statement: str, rows: pa.RecordBatch) -> None:
        schema = self._table.schema
        columns = [bound(rows.column(n), schema[schema.index_of(n)], self._place) for n in rows.schema.names]
        connection.executemany(statement, zip(*columns, strict=True))


class SqliteCommits(SqliteTransactions):
    """`EpochCommits` of one sink of one job."""

    def __init__(self, table: SqliteTable, job: str) -> None:
        super().__init__(table)
        self._job = job
        self._me = uuid.uuid4().hex

    def last(self) -> int:
        with telling(self._table.path, self._place), connected(self._table.path, "rw") as connection:
            self._check(connection)
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {EPOCHS} (job TEXT PRIMARY KEY, epoch INTEGER NOT NULL, writer TEXT NOT NULL)"
            )
            (number,) = connection.execute(
                f"INSERT INTO {EPOCHS} VALUES (?, 0, ?) ON CONFLICT (job) DO UPDATE SET writer = excluded.writer "
                "RETURNING epoch",
                (self._job, self._me),
            ).fetchone()
        return int(number)

    def commit(self, number: int, batches: Iterable[ChangelogBatch]) -> None:
        def taken(connection: sqlite3.Connection) -> None:
            found = connection.execute(
                f"UPDATE {EPOCHS} SET epoch = ? WHERE job = ? AND writer = ? AND epoch < ?",
                (number, self._job, self._me, number),
            )
            if found.rowcount != 1:
                raise FencedError(
                    f"another run of the job that writes {self._place} has taken the place of this one",
                    hint="end one of them",
                )

        self._transaction(taken, batches)
