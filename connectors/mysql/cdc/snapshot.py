"""The rows of a table as they are at a place in the log, in the order of the key, so that a later snapshot can go on behind a
key."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from connectors.mysql.cdc.positions import Place
from connectors.mysql.cdc.setup import kept_still, log_end
from connectors.mysql.columns import Column, typed
from connectors.mysql.connection import Connection, connected, literal, quoted
from connectors.mysql.described import Relation
from runtime.core.schema import Field, Schema
from runtime.core.types import TypeRoot

__all__ = ["KeyOrder", "SnapshotRows", "key_order", "limits_of", "snapshot_rows", "snapshot_taken"]

_ALIKE = frozenset(
    {TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE, TypeRoot.DECIMAL}
)
_SNAPSHOT = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """A column of the key, as MySQL and we order it alike."""

    name: str
    field: Field


def key_order(relation: Relation, schema: Schema) -> tuple[KeyOrder, ...]:
    """The order of a table's key; empty when it has none, or one whose order is not the same here, or whose columns are not in
    the schema."""
    found: list[KeyOrder] = []
    for name in relation.key:
        at = schema.index_of(name)
        if at < 0 or schema[at].type.root not in _ALIKE or relation.column(name).type.root not in _ALIKE:
            return ()
        found.append(KeyOrder(name, schema[at]))
    return tuple(found)


def limits_of(order: Sequence[KeyOrder], through: Sequence[str], place: str) -> list[pa.Scalar]:
    """A key as values."""
    return [typed(_bytes([t]), by.field, place, "decimal")[0] for by, t in zip(order, through, strict=True)]


def _bytes(texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.string()).cast(pa.large_binary())


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """Some rows: columns, and the key of each as texts, if it has an order."""

    columns: list[pa.Array]
    keys: list[pa.Array]

    def key(self, number: int) -> tuple[str, ...]:
        """The key of a row."""
        return tuple(column[number].as_py().decode() for column in self.keys)


def snapshot_taken(connection: Connection, relations: Sequence[Relation], name: str, *, logged: bool) -> Place:
    """Take a snapshot of some tables, which are of one moment; its place in the log.

    Args:
        connection: on which it is taken.
        name: the tables, for messages.
        logged: whether its place in the log is wanted.
    """
    if not logged:
        connection.run(_SNAPSHOT)
        return Place("", 0)
    with connected(connection.address, name) as holder, kept_still(holder, relations):
        connection.run(_SNAPSHOT)
        return log_end(connection)


def snapshot_rows(
    connection: Connection,
    relation: Relation,
    schema: Schema,
    order: Sequence[KeyOrder],
    behind: Sequence[str] | None,
    stop: threading.Event,
) -> Iterator[SnapshotRows]:
    """The rows of a table behind a key, or all. Given up at `stop`."""
    name = f"{relation.database}.{relation.name}"
    columns: list[Column] = [relation.column(f.name) for f in schema]
    asked = ", ".join(c.asked(quoted(c.name)) for c in columns)
    query = f"SELECT {asked} FROM {relation.sql}"
    if behind is not None:
        query += f" WHERE {_behind(order, behind)}"
    if relation.key:
        query += f" ORDER BY {', '.join(map(quoted, relation.key))}"
    at = [schema.index_of(by.name) for by in order]
    for rows in connection.rows(query):
        if stop.is_set():
            return
        values = [
            typed(rows.column(i), field, name, column.word)
            for i, (field, column) in enumerate(zip(schema, columns, strict=True))
        ]
        yield SnapshotRows(values, [rows.column(i) for i in at])


def _behind(order: Sequence[KeyOrder], behind: Sequence[str]) -> str:
    """Greater keys, in a form for which an index serves."""
    tests: list[str] = []
    for number, by in enumerate(order):
        same = [f"{quoted(o.name)} = {literal(t)}" for o, t in zip(order[:number], behind, strict=False)]
        tests.append(" AND ".join([*same, f"{quoted(by.name)} > {literal(behind[number])}"]))
    return "(" + ") OR (".join(tests) + ")"
