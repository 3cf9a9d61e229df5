"""Rows of given keys: one question for many of them, which the table's index answers.

The server may find more than is equal here (letters without case, blanks at the end); what it gives is joined with the keys
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.databases.asking import Asking
from connectors.databases.kept import Kept
from connectors.databases.parts import check_columns
from connectors.mysql.columns import Column
from connectors.mysql.connection import Connection, connected, quoted
from connectors.mysql.described import Relation, described
from connectors.mysql.reading import typed_rows
from connectors.mysql.values import literals, text
from runtime.core.errors import ConnectorError
from runtime.core.schema import Field
from runtime.core.types import TypeRoot

if TYPE_CHECKING:
    from connectors.mysql.table import MysqlTable

__all__ = ["asking", "conditions_of"]

_KEYS = 1000
"""Of one question."""
_TIMES = frozenset({TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_kept: Kept[Connection] = Kept()


def asking() -> Asking:
    """How a table is asked."""
    return Asking(_relation_of, _asked)


def _relation_of(table: MysqlTable) -> Relation:
    with connected(table.address, table.place()) as connection:
        relation = described(connection, *table.names)
    check_columns(table, relation.column)
    return relation


def _asked(
    table: MysqlTable, relation: Relation, key_columns: Sequence[str], keys: pa.RecordBatch
) -> tuple[pa.Array, pa.RecordBatch]:
    fields = [table.schema[table.schema.index_of(n)] for n in key_columns]
    names = [f"k{i}" for i in range(len(fields))]
    plain = [_plain(keys.column(i), f) for i, f in enumerate(fields)]
    places = np.flatnonzero(np.logical_and.reduce([c.is_valid().to_numpy(zero_copy_only=False) for c in plain]))
    taken = [c.take(pa.array(places)) for c in plain]
    wanted = pa.table([*taken, pa.array(places, pa.int64())], names=[*names, "place"])
    once = wanted.group_by(names).aggregate([])
    sources = [_compared(table, relation.column(f.name), f) for f in fields]
    tests = conditions_of(sources, [once.column(n).combine_chunks() for n in names], fields, table.place())
    asked = ", ".join(relation.column(n).asked(quoted(n)) for n in table.schema.names)
    found: list[pa.RecordBatch] = []
    with _kept.lent(table.address, lambda: Connection(table.address)) as connection:
        connection.what = table.place()
        for test in tests:
            rows = connection.rows(f"SELECT {asked} FROM {relation.sql} WHERE {test}")
            found += [typed_rows(table, relation, batch) for batch in rows]
    arrow = pa.schema([pa.field(f.name, f.type.arrow) for f in table.schema])
    rows = pa.Table.from_batches([b.cast(arrow) for b in found], arrow).combine_chunks()
    here = pa.table(
        [*(rows.column(n) for n in key_columns), pa.array(np.arange(len(rows)), pa.int64())], names=[*names, "row"]
    )
    met = wanted.join(here, names, join_type="inner").sort_by([("place", "ascending"), ("row", "ascending")])
    given = rows.take(met.column("row")).combine_chunks()
    batch = given.to_batches()[0] if len(given) else pa.RecordBatch.from_pylist([], schema=arrow)
    return met.column("place").combine_chunks().cast(pa.int64()), batch


def _plain(column: pa.Array, field: Field) -> pa.Array:
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return column if column.type == field.type.arrow else column.cast(field.type.arrow)


def _compared(table: MysqlTable, column: Column, field: Field) -> str:
    """The column as it is compared. Raises ConnectorError E3164 when values that are equal here may not be there."""
    there = column.type
    if (field.type.root in _TIMES and field.type.precision < there.precision) or column.word in ("bit", "set"):
        raise ConnectorError(
            f"{table.place()} cannot be asked by column {field.name} of type {field.type}: it is {column.declared} there",
            code="E3164",
            hint="'lookup.cache' = 'FULL' reads the whole table",
        )
    source = quoted(field.name)
    if column.word in ("float", "float unsigned"):
        return column.asked(source)
    return column.compared(source, field.type)


def conditions_of(sources: Sequence[str], keys: Sequence[pa.Array], fields: Sequence[Field], place: str) -> list[str]:
    """Conditions that rows of keys meet, each of so many keys that the server looks at them by an index.

    Args:
        sources: the columns of the key there.
        keys: their values, none of them NULL.
    """
    texts: list[pa.Array] = []
    for column, field in zip(keys, fields, strict=True):
        if field.type.root is TypeRoot.CHAR:
            column = pc.utf8_rtrim(column, " ")
        texts.append(literals(column, field, place))
    found: list[str] = []
    for begin in range(0, len(texts[0]), _KEYS):
        parts = [t.slice(begin, _KEYS) for t in texts]
        if len(parts) == 1:
            found.append(f"{sources[0]} IN ({','.join(parts[0].to_pylist())})")
            continue
        tests: list[pa.Array] = []
        for source, part in zip(sources, parts, strict=True):
            tests.append(pc.binary_join_element_wise(text(source), part, text(" = ")))
        each = pc.binary_join_element_wise(*tests, text(" AND "))
        found.append("(" + ") OR (".join(each.to_pylist()) + ")")
    return found
