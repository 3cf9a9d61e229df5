"""The rows of a table as they are in one snapshot, in the order of its key, so that a later one can go on behind a key."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, LiteralString, cast

import pyarrow as pa

from connectors.postgres.address import Address
from connectors.postgres.cdc.cells import texts_of, typed
from connectors.postgres.cdc.copied import copied, wait
from connectors.postgres.cdc.pgoutput import copied_cells
from connectors.postgres.cdc.positions import Seen
from connectors.postgres.cdc.setup import Followed, KeyColumn, log_end
from connectors.postgres.connection import connected, quoted, run
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot

__all__ = ["KeyOrder", "Rows", "key_order", "limits_of", "snapshot_rows"]

_MOST_ROWS, _MOST_BYTES = 8192, 4 << 20
_WAIT_SECONDS = 0.1
_HEAD = 19
"""Bytes that COPY writes before the first row, with its rows in binary form."""
_END = b"\xff\xff"
_TEXTS, _UUID = frozenset({25, 1043}), 2950
_PLAIN = frozenset(
    {TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE, TypeRoot.BOOLEAN, TypeRoot.VARBINARY}
)
_FINE = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_MICROS = 6


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """A column of the key, as PostgreSQL and we order it alike.

    Attributes:
        sql: what it is ordered by there.
        cast: the type that a text of it is cast to.
    """

    name: str
    type: DataType
    sql: str
    cast: str


def key_order(followed: Followed, schema: Schema) -> tuple[KeyOrder, ...]:
    """The order of a table's key; empty when it has none, or one whose order is not the same here, or whose columns are not in
    the schema."""
    found: list[KeyOrder] = []
    for column in followed.key:
        at = schema.index_of(column.name)
        if at < 0 or not _alike(column, schema[at].type):
            return ()
        sql = quoted(column.name) + (' COLLATE "C"' if column.type in _TEXTS else "")
        found.append(KeyOrder(column.name, schema[at].type, sql, column.written))
    return tuple(found)


def _alike(column: KeyColumn, type_: DataType) -> bool:
    if type_.root is TypeRoot.VARCHAR:
        return column.type in _TEXTS or column.type == _UUID
    return type_.root in _PLAIN or (type_.root in _FINE and type_.precision >= _MICROS)


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a snapshot: columns, and the key of each as texts, if it has an order."""

    columns: list[pa.Array]
    keys: list[pa.Array]
    seen: Seen

    def key(self, number: int) -> tuple[str, ...]:
        """The key of a row."""
        return tuple(column[number].as_py() for column in self.keys)


def snapshot_rows(
    address: Address,
    place: str,
    schema: Schema,
    order: Sequence[KeyOrder],
    behind: tuple[str, ...] | None,
    stop: threading.Event,
) -> Iterator[Rows]:
    """The rows behind a key, or all. Given up at `stop`; the caller translates errors (`telling`).

    Args:
        place: the table as PostgreSQL reads it.
        schema: the columns.
    """
    from psycopg import errors, pq

    with closing(connected(address)) as connection:
        run(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        (text,) = run(connection, "SELECT pg_current_snapshot()::text").fetchall()[0]
        seen = Seen.of(text, log_end(connection))
        libpq = connection.pgconn
        answer = libpq.exec_(_query(place, schema, order, behind).as_bytes(connection))
        if answer.status != pq.ExecStatus.COPY_OUT:
            raise errors.error_from_result(answer)
        libpq.nonblocking = 1
        rows, size, head, ended = list[memoryview](), 0, _HEAD, False
        while not ended and not stop.is_set():
            found, ended = copied(libpq, _MOST_BYTES)
            if found and head:
                found[0], head = found[0][head:], 0
            if found and found[-1] == memoryview(_END):
                found.pop()
            rows += found
            size += sum(map(len, found))
            if not found and not ended:
                wait(libpq, _WAIT_SECONDS)
            if ended or len(rows) >= _MOST_ROWS or size >= _MOST_BYTES:
                for at in range(0, len(rows), _MOST_ROWS):
                    yield _rows(rows[at : at + _MOST_ROWS], schema, order, seen)
                rows, size = [], 0
        if ended:
            answer = libpq.get_result()
            if answer.status != pq.ExecStatus.COMMAND_OK:
                raise errors.error_from_result(answer)
            yield _rows(rows, schema, order, seen)


def _query(place: str, schema: Schema, order: Sequence[KeyOrder], behind: tuple[str, ...] | None) -> Any:
    from psycopg import sql

    # As text by the function that writes the type, as changes are written, too: a cast may write it otherwise.
    columns = ", ".join(f"CASE num_nulls({n}) WHEN 0 THEN format('%s', {n}) END" for n in map(quoted, schema.names))
    keys = ", ".join(column.sql for column in order)
    parts = [_sql(f"COPY (SELECT {columns} FROM {place}")]
    if behind is not None:
        values = [
            _sql("CAST({} AS " + column.cast + ")").format(sql.Literal(text))
            for column, text in zip(order, behind, strict=True)
        ]
        parts += [_sql(f" WHERE ({keys}) > ("), sql.SQL(", ").join(values), _sql(")")]
    parts.append(_sql(f"{f' ORDER BY {keys}' if order else ''}) TO STDOUT (FORMAT BINARY)"))
    return sql.SQL("").join(parts)


def _sql(text: str) -> Any:
    """Text of SQL, whose names are quoted."""
    from psycopg import sql

    return sql.SQL(cast(LiteralString, text))


def _rows(rows: list[Any], schema: Schema, order: Sequence[KeyOrder], seen: Seen) -> Rows:
    data, cells = copied_cells(rows, len(schema))
    texts = [texts_of(data, one) for one in cells]
    columns = [typed(text, f.type, f.name) for text, f in zip(texts, schema, strict=True)]
    return Rows(columns, [texts[schema.index_of(column.name)] for column in order], seen)


def limits_of(order: Sequence[KeyOrder], through: tuple[str, ...]) -> list[pa.Scalar]:
    """A key as values."""
    return [typed(pa.array([text], pa.string()), by.type, by.name)[0] for by, text in zip(order, through, strict=True)]
