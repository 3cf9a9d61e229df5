"""Rows and the number of their commit in one transaction.

The table `_sqlengine_epochs`, in the schema of the table that is written, has a row for each sink of a job: the number of its
newest commit, and who writes. A new run puts itself in the place of an older one; that waits until a transaction of the
older one is over, and from then on the older one finds that it is not the writer any more.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from connectors.databases.newest import newest_by_key
from connectors.postgres.bulk import BulkConnection
from connectors.postgres.columns import staged_type
from connectors.postgres.connection import connected, literal, quoted, run, telling
from connectors.postgres.described import Relation, described
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError
from runtime.core.schema import Schema

if TYPE_CHECKING:
    from connectors.postgres.table import PostgresTable

__all__ = ["EPOCHS", "PostgresCommits", "PostgresTransactions"]

EPOCHS = "_sqlengine_epochs"
_STAGE, _GONE = "_sqlengine_rows", "_sqlengine_gone"
_LOCK_SECONDS = 10
_IDLE_SECONDS = 60


class PostgresTransactions:
    """Writes rows in transactions of their own (`TransactionWriter`). Opens its connection with the first one, and anew
    after an error."""

    def __init__(self, table: PostgresTable) -> None:
        self._table = table
        self._place = table.place()
        self._open: BulkConnection | None = None
        self._relation: Relation | None = None

    def write(self, batches: Sequence[ChangelogBatch]) -> None:
        """In one transaction."""
        self._transaction(None, batches)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _transaction(self, first: str | None, batches: Iterable[ChangelogBatch]) -> None:
        """Run a statement, whose answer must not be empty, and put the rows in."""
        try:
            connection, relation = self._connected()
            connection.run("BEGIN")
            if first is not None and not connection.asked(first).num_rows:
                raise FencedError(
                    f"another run of the job that writes {self._place} has taken the place of this one",
                    hint="end one of them",
                )
            self._put(connection, relation, batches)
            connection.run("COMMIT")
        except BaseException:
            self.close()
            raise

    def _connected(self) -> tuple[BulkConnection, Relation]:
        table = self._table
        if self._open is None:
            with telling(table.address, self._place), connected(table.address) as asked:
                self._relation = described(asked, *table.names)
            check_writable(table, self._relation)
            self._open = BulkConnection(table.address, self._place)
            self._open.run(f"SET lock_timeout = '{_LOCK_SECONDS}s'")
            self._open.run(f"SET idle_in_transaction_session_timeout = '{_IDLE_SECONDS}s'")
            for name, fields in ((_STAGE, table.schema.names), (_GONE, table.primary_key)):
                staged = ", ".join(f"{quoted(n)} {staged_type(_type(table.schema, n))}" for n in fields)
                if fields and not self._goes_directly():
                    self._open.run(f"CREATE TEMPORARY TABLE {name} ({staged}) ON COMMIT DELETE ROWS")
        assert self._relation is not None
        return self._open, self._relation

    def _goes_directly(self) -> bool:
        assert self._relation is not None
        columns = [(self._relation.column(f.name), f.type) for f in self._table.schema]
        return not self._table.primary_key and all(c.takes_directly(t) for c, t in columns)

    def _put(self, connection: BulkConnection, relation: Relation, batches: Iterable[ChangelogBatch]) -> None:
        table = self._table
        if self._goes_directly():
            self._copy(connection, relation.name, (b.rows for b in batches), relation.schema)
            return
        if not table.primary_key:
            self._copy(connection, _STAGE, (b.rows for b in batches), None)
            connection.run(self._insert(relation))
            return
        changes = newest_by_key(batches, table.primary_key)
        if changes is None:
            return
        there, gone = changes
        if gone.num_rows:
            self._copy(connection, _GONE, (gone,), None)
            connection.run(self._delete(relation))
        if there.num_rows:
            self._copy(connection, _STAGE, (there,), None)
            connection.run(self._insert(relation) + self._on_conflict())

    def _copy(self, connection: BulkConnection, name: str, rows: Iterable[pa.RecordBatch], schema: str | None) -> None:
        arrow = _arrow(self._table.schema.names if name != _GONE else self._table.primary_key, self._table.schema)
        connection.copy(name, (_brought(r, arrow, self._place) for r in rows), arrow, schema)

    def _insert(self, relation: Relation) -> str:
        names = self._table.schema.names
        values = [relation.column(f.name).written(f.type, f"s.{quoted(f.name)}") for f in self._table.schema]
        asked = ", ".join(str(v) for v in values)
        return f"INSERT INTO {relation.sql} ({_listed(names)}) SELECT {asked} FROM pg_temp.{_STAGE} AS s"

    def _on_conflict(self) -> str:
        key = self._table.primary_key
        others = [n for n in self._table.schema.names if n not in key]
        sets = ", ".join(f"{quoted(n)} = excluded.{quoted(n)}" for n in others)
        return f" ON CONFLICT ({_listed(key)}) DO {'UPDATE SET ' + sets if others else 'NOTHING'}"

    def _delete(self, relation: Relation) -> str:
        same: list[str] = []
        for name in self._table.primary_key:
            value = relation.column(name).written(_type(self._table.schema, name), f"g.{quoted(name)}")
            same.append(f"t.{quoted(name)} = {value}")
        return f"DELETE FROM {relation.sql} AS t USING pg_temp.{_GONE} AS g WHERE {' AND '.join(same)}"


class PostgresCommits(PostgresTransactions):
    """`EpochCommits` of one sink of one job."""

    def __init__(self, table: PostgresTable, job: str) -> None:
        super().__init__(table)
        self._job = job
        self._me = uuid.uuid4().hex

    def last(self) -> int:
        table = self._table
        with telling(table.address, self._place), connected(table.address) as connection:
            relation = described(connection, *table.names)
            check_writable(table, relation)
            run(connection, f"SET lock_timeout = '{_LOCK_SECONDS}s'")
            epochs = f"{quoted(relation.schema)}.{quoted(EPOCHS)}"
            if run(connection, "SELECT to_regclass(%s)", [epochs]).fetchone()[0] is None:
                # Two may try it at the same time: the name of its type is taken a moment before the table is.
                run(
                    connection,
                    f"DO $$ BEGIN CREATE TABLE IF NOT EXISTS {epochs} (job text PRIMARY KEY, epoch int8 NOT NULL, "
                    "writer text NOT NULL); EXCEPTION WHEN unique_violation OR duplicate_table THEN NULL; END $$",
                )
            (number,) = run(
                connection,
                f"INSERT INTO {epochs} AS e VALUES (%s, 0, %s) "
                "ON CONFLICT (job) DO UPDATE SET writer = excluded.writer RETURNING epoch",
                [self._job, self._me],
            ).fetchone()
        return int(number)

    def commit(self, number: int, batches: Iterable[ChangelogBatch]) -> None:
        schema = quoted(self._table.names[0])
        self._transaction(
            f"UPDATE {schema}.{quoted(EPOCHS)} SET epoch = {int(number)} WHERE job = {literal(self._job)} "
            f"AND writer = '{self._me}' AND epoch < {int(number)} RETURNING epoch",
            batches,
        )


def check_writable(table: PostgresTable, relation: Relation) -> None:
    """Raises ConnectorError E3163 when a column is not there or cannot take what is written; E3164 for types of which
    PostgreSQL has none."""
    for field in table.schema:
        if staged_type(field.type) is None:
            raise ConnectorError(
                f"column {field.name} of {table.place()}: PostgreSQL has no {field.type}",
                code="E3164",
                hint="write a text of it, such as JSON_STRING(..)",
            )
        there = relation.column(field.name)
        if there.written(field.type, "x") is None:
            raise ConnectorError(
                f"column {field.name} of {table.place()} is {there.declared} there, which may not hold every {field.type}",
                code="E3163",
                hint=f"declare it as {there.type.with_nullable(True)}, and write a CAST",
            )


def _type(schema: Schema, name: str):
    return schema[schema.index_of(name)].type


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _arrow(names: Sequence[str], schema: Schema) -> pa.Schema:
    fields = [(n, _type(schema, n).arrow) for n in names]
    return pa.schema([pa.field(n, _micros(t)) for n, t in fields])


def _micros(type_: pa.DataType) -> pa.DataType:
    """PostgreSQL has microseconds."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    return pa.list_(_micros(type_.value_type)) if pa.types.is_list(type_) else type_


def _brought(rows: pa.RecordBatch, schema: pa.Schema, place: str) -> pa.RecordBatch:
    """Rows of the types in which they are copied. Raises ConnectorError E3164 for nanoseconds that would be lost."""
    arrays: list[pa.Array] = []
    for column, field in zip(rows.columns, schema, strict=True):
        try:
            arrays.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowInvalid as error:
            raise ConnectorError(
                f"column {field.name} of {place} would lose digits of a second: PostgreSQL has microseconds",
                code="E3164",
                hint="write CAST(.. AS TIMESTAMP(6))",
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
