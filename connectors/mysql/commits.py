"""Rows and the number of their commit in one transaction.

The table `_sqlengine_epochs`, in the database of the table that is written, has a row for each sink of a job: the number of its
newest commit, and who writes. A new run puts itself in the place of an older one; that waits until a transaction of the
older one is over, and from then on the older one finds that it is not the writer any more.

Rows are inserted with all of their values as literals, which are made by column. `ON DUPLICATE KEY UPDATE` takes a row of any
unique index for the one that is replaced. So it first looks whether that row has the key of the new one, byte by byte; if not
it makes the key NULL, which no key may be, and the server refuses.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.databases.newest import newest_by_key
from connectors.mysql.asking import conditions_of
from connectors.mysql.columns import TEXTS
from connectors.mysql.connection import Connection, connected, listed, literal, quoted
from connectors.mysql.described import EPOCHS, Relation, described
from connectors.mysql.values import literals, rows_of_literals
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError
from runtime.core.schema import Field
from runtime.core.types import BYTES, TypeRoot

if TYPE_CHECKING:
    from connectors.mysql.table import MysqlTable

__all__ = ["MysqlCommits", "MysqlTransactions"]

_STATEMENT_BYTES = 1 << 20
_IDLE_SECONDS = 30.0
_MOST_JOB = 700
"""Bytes of a key."""


class MysqlTransactions:
    """Writes rows in transactions of their own (`TransactionWriter`). Opens its connection with the first one, and anew
    after an error or when nobody has used it for a while."""

    def __init__(self, table: MysqlTable) -> None:
        self._table = table
        self._place = table.place()
        self._open: Connection | None = None
        self._relation: Relation | None = None
        self._used = 0.0
        self._most = _STATEMENT_BYTES

    def write(self, batches: Sequence[ChangelogBatch]) -> None:
        """In one transaction."""
        self._transaction(None, batches)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _transaction(self, first: str | None, batches: Iterable[ChangelogBatch]) -> None:
        """Run a statement, which must change a row, and put the rows in."""
        try:
            connection, relation = self._connected()
            connection.run("START TRANSACTION")
            if first is not None and connection.run(first) != 1:
                raise FencedError(
                    f"another run of the job that writes {self._place} has taken the place of this one",
                    hint="end one of them",
                )
            self._put(connection, relation, batches)
            connection.run("COMMIT")
            self._used = time.monotonic()
        except BaseException:
            self.close()
            raise

    def _connected(self) -> tuple[Connection, Relation]:
        table = self._table
        if self._open is not None and time.monotonic() - self._used > _IDLE_SECONDS:
            self.close()
        if self._open is None:
            connection = Connection(table.address, self._place)
            try:
                self._relation = described(connection, *table.names)
                check_writable(table, self._relation)
                ((most,),) = connection.asked("SELECT @@max_allowed_packet")
                self._most = max(1024, min(_STATEMENT_BYTES, int(most) // 2))
            except BaseException:
                connection.close()
                raise
            self._open = connection
        assert self._relation is not None
        return self._open, self._relation

    def _put(self, connection: Connection, relation: Relation, batches: Iterable[ChangelogBatch]) -> None:
        key = self._table.primary_key
        if not key:
            for batch in batches:
                self._insert(connection, relation, batch.rows, "")
            return
        changes = newest_by_key(batches, key)
        if changes is None:
            return
        there, gone = changes
        self._delete(connection, relation, gone)
        self._insert(connection, relation, there, self._on_duplicate(relation))

    def _insert(self, connection: Connection, relation: Relation, rows: pa.RecordBatch, tail: str) -> None:
        if not rows.num_rows:
            return
        schema = self._table.schema
        texts = rows_of_literals([literals(rows.column(i), field, self._place) for i, field in enumerate(schema)])
        head = f"INSERT INTO {relation.sql} ({listed(schema.names)}) VALUES "
        for part in _portions(texts, self._most):
            connection.run(head + ",".join(part.to_pylist()) + tail)

    def _on_duplicate(self, relation: Relation) -> str:
        table = self._table
        key = table.primary_key
        same = " AND ".join(
            f"{_exact(table, relation, n, quoted(n))} = {_exact(table, relation, n, f'VALUES({quoted(n)})')}"
            for n in key
        )
        guard = f"{quoted(key[0])} = IF({same}, {quoted(key[0])}, NULL)"
        others = [f"{quoted(n)} = VALUES({quoted(n)})" for n in table.schema.names if n not in key]
        return " ON DUPLICATE KEY UPDATE " + ", ".join([guard, *others])

    def _delete(self, connection: Connection, relation: Relation, rows: pa.RecordBatch) -> None:
        """Delete rows by key; a text is compared byte by byte, too."""
        if not rows.num_rows:
            return
        table = self._table
        fields = [_field(table, n) for n in table.primary_key]
        keys = [rows.column(i) for i in range(len(fields))]
        sources = [quoted(f.name) for f in fields]
        texts = [f for f in fields if f.type.root in TEXTS]
        found = conditions_of(sources, keys, fields, self._place)
        exact = [""] * len(found)
        if texts:
            same = [_exact(table, relation, f.name, quoted(f.name)) if f in texts else quoted(f.name) for f in fields]
            octets = [_octets(k, f) if f in texts else k for k, f in zip(keys, fields, strict=True)]
            as_bytes = [Field(f.name, BYTES) if f in texts else f for f in fields]
            exact = [f" AND ({c})" for c in conditions_of(same, octets, as_bytes, self._place)]
        for condition, more in zip(found, exact, strict=True):
            connection.run(f"DELETE FROM {relation.sql} WHERE ({condition}){more}")


class MysqlCommits(MysqlTransactions):
    """`EpochCommits` of one sink of one job."""

    def __init__(self, table: MysqlTable, job: str) -> None:
        super().__init__(table)
        self._job = literal(job)
        self._me = uuid.uuid4().hex
        if len(job.encode()) > _MOST_JOB:
            raise ConnectorError(
                f"the name of the job is longer than {_MOST_JOB} bytes", code="E3163", hint="call it otherwise"
            )

    def last(self) -> int:
        table = self._table
        with connected(table.address, self._place) as connection:
            relation = described(connection, *table.names)
            check_writable(table, relation)
            if not relation.transactional:
                raise ConnectorError(
                    f"{self._place} is a table of {relation.engine or 'a view'}, which has no transactions",
                    code="E3163",
                    hint="ALTER TABLE .. ENGINE = InnoDB there, or set 'sink.delivery-guarantee' = 'at-least-once'",
                )
            epochs = f"{quoted(relation.database)}.{quoted(EPOCHS)}"
            there = connection.asked(
                f"SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = {literal(relation.database)} AND TABLE_NAME = '{EPOCHS}'"
            )
            if not there:
                connection.run(
                    f"CREATE TABLE IF NOT EXISTS {epochs} (job VARBINARY({_MOST_JOB}) PRIMARY KEY, epoch BIGINT NOT NULL, "
                    "writer VARCHAR(32) NOT NULL) ENGINE = InnoDB"
                )
            connection.run("START TRANSACTION")
            connection.run(
                f"INSERT INTO {epochs} VALUES ({self._job}, 0, '{self._me}') ON DUPLICATE KEY UPDATE writer = VALUES(writer)"
            )
            ((number,),) = connection.asked(f"SELECT epoch FROM {epochs} WHERE job = {self._job} FOR UPDATE")
            connection.run("COMMIT")
        return int(number)

    def commit(self, number: int, batches: Iterable[ChangelogBatch]) -> None:
        epochs = f"{quoted(self._table.names[0])}.{quoted(EPOCHS)}"
        self._transaction(
            f"UPDATE {epochs} SET epoch = {int(number)} WHERE job = {self._job} AND writer = '{self._me}' "
            f"AND epoch < {int(number)}",
            batches,
        )


def check_writable(table: MysqlTable, relation: Relation) -> None:
    """Raises ConnectorError E3163 when a column is not there or may not keep what is written, or no unique index has the
    columns of the key."""
    for field in table.schema:
        there = relation.column(field.name)
        if not there.takes(field.type):
            raise ConnectorError(
                f"column {field.name} of {table.place()} is {there.declared} there, which may not hold every {field.type}",
                code="E3163",
                hint="declare it as the type that it has there, and write a CAST",
            )
    key = table.primary_key
    if key and not any({*key} == {*columns} for columns in relation.unique):
        raise ConnectorError(
            f"no unique index of {table.place()} has exactly the columns of the declared primary key ({', '.join(key)})",
            code="E3163",
            hint="add one there, or declare the key that the table has",
        )
    nullable = next((n for n in key if relation.column(n).nullable), None)
    if nullable is not None:
        raise ConnectorError(
            f"column {nullable} of the key of {table.place()} may be NULL there, where no two NULLs are one key",
            code="E3163",
            hint="make it NOT NULL there",
        )


def _exact(table: MysqlTable, relation: Relation, name: str, source: str) -> str:
    """A column of the key in a form in which values are equal there only if they are here."""
    root = _field(table, name).type.root
    if root not in TEXTS or relation.column(name).word == "json":
        return source
    unicode = f"CONVERT({source} USING utf8mb4)"
    return f"CAST({f'RTRIM({unicode})' if root is TypeRoot.CHAR else unicode} AS BINARY)"


def _octets(key: pa.Array, field: Field) -> pa.Array:
    """The same of values."""
    return (pc.utf8_rtrim(key, " ") if field.type.root is TypeRoot.CHAR else key).cast(pa.binary())


def _field(table: MysqlTable, name: str) -> Field:
    return table.schema[table.schema.index_of(name)]


def _portions(texts: pa.Array, most: int) -> Iterator[pa.Array]:
    """Rows for statements of about so many bytes, each with a row at least."""
    ends = np.cumsum(pc.binary_length(texts).to_numpy(zero_copy_only=False).astype(np.int64) + 1)
    begin = 0
    while begin < len(texts):
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + most, "right")))
        yield texts.slice(begin, end - begin)
        begin = end
