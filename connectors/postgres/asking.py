"""Rows of given keys: one question for all of them, which the table's index answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from connectors.databases.asking import Asking
from connectors.databases.fitting import fitted_rows
from connectors.databases.parts import check_columns
from connectors.postgres.connection import connected, quoted, telling
from connectors.postgres.described import Relation, described
from connectors.postgres.kept import lent
from runtime.core.errors import ConnectorError
from runtime.core.types import TypeRoot

if TYPE_CHECKING:
    from connectors.postgres.table import PostgresTable

__all__ = ["asking", "key_texts"]

_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})


def asking() -> Asking:
    """How a table is asked."""
    return Asking(_relation_of, _asked)


def _relation_of(table: PostgresTable) -> Relation:
    with telling(table.address, table.place()), connected(table.address) as asked:
        relation = described(asked, *table.names)
    check_columns(table, relation.column)
    return relation


def _asked(
    table: PostgresTable, relation: Relation, key_columns: Sequence[str], keys: pa.RecordBatch
) -> tuple[pa.Array, pa.RecordBatch]:
    texts = key_texts(table, key_columns, keys)
    numbers = [f"${i + 1}::text[]" for i in range(len(texts))]
    names = [f"k{i}" for i in range(len(texts))]
    tests: list[str] = []
    for column, name in zip(key_columns, names, strict=True):
        there, declared = relation.column(column), table.schema[table.schema.index_of(column)].type
        tests.append(there.keyed(f"k.{name}", f"r.{quoted(column)}", declared))
    asked = ", ".join(relation.column(n).asked(f"r.{quoted(n)}") for n in table.schema.names)
    question = (
        f"SELECT k.place{', ' if asked else ''}{asked} "
        f"FROM unnest({', '.join(numbers)}) WITH ORDINALITY AS k({', '.join(names)}, place) "
        f"JOIN {relation.sql} AS r ON {' AND '.join(tests)} ORDER BY k.place"
    )
    lists = pa.RecordBatch.from_arrays([pa.ListArray.from_arrays([0, len(t)], t) for t in texts], names=names)
    with lent(table.address, table.place()) as connection:
        found = connection.asked(question, lists).combine_chunks()
    columns = [c.chunk(0) if c.num_chunks else pa.array([], c.type) for c in found.columns]
    rows = fitted_rows(columns[1:], list(table.schema), table.place())
    return _minus_one(columns[0]), rows


def _minus_one(places: pa.Array) -> pa.Array:
    return pa.array(places.to_numpy(zero_copy_only=False) - 1, pa.int64())


def key_texts(table: PostgresTable, key_columns: Sequence[str], keys: pa.RecordBatch) -> list[pa.Array]:
    """Keys as the texts that PostgreSQL reads; raises ConnectorError E3164 for a type of which there is none."""
    found: list[pa.Array] = []
    for place, name in enumerate(key_columns):
        column, type_ = keys.column(place), table.schema[table.schema.index_of(name)].type
        if type_.root in _BYTES:
            column = pa.array([None if v is None else v.hex() for v in column.to_pylist()], pa.string())
        elif pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_nested(column.type):
            raise ConnectorError(
                f"{table.place()} cannot be asked by column {name} of type {type_}",
                code="E3164",
                hint="join as a whole",
            )
        texts = column.cast(pa.string())
        # No text there has this sign, so that such a key matches nothing.
        found.append(pc.if_else(pc.match_substring(texts, "\0"), None, texts))
    return found
