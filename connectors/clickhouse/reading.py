"""A table read by one query, in the order of its sorting key, and rows of given keys.

    position   the last values of the sorting key, as hexadecimal texts, how many rows with these were given, and how many at all

Of columns that are not such keys (NULL, floating numbers, expressions) a position has nothing, and rows are counted. Rows of the same
key come in the order of what is read of them. One query sees one moment. Whoever goes on from a position sees what is behind it then.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.clickhouse.columns import Column, quoted
from connectors.clickhouse.described import Relation, described
from connectors.clickhouse.values import literals
from connectors.databases.asking import Asking
from connectors.databases.fitting import fitted
from connectors.databases.parts import check_columns
from connectors.kit.aggregates import Aggregation, check_fits, question
from connectors.kit.predicates import where
from connectors.kit.prefetch import Fetched
from runtime.core.errors import ConnectorError
from runtime.core.types import DataType, TypeRoot
from runtime.kernels.row_index import RowIndex

if TYPE_CHECKING:
    from connectors.clickhouse.table import ClickHouseTable

__all__ = ["asking", "fetch"]

_R = TypeRoot
_KEYS = 1000
_NOTHING = '1 AS "#"'
_BITS = {_R.TINYINT: 8, _R.SMALLINT: 16, _R.INT: 32, _R.BIGINT: 64}
_BYTES = frozenset({_R.BINARY, _R.VARBINARY})


def fetch(table: ClickHouseTable, position: Any, stop: threading.Event) -> Iterator[Fetched]:
    """As `Fetching` says."""
    relation = described(table.server, *table.names)
    check_columns(table, relation.column)
    order = [] if table.aggregation is not None else relation.order
    keys, behind, given = ([], 0, 0) if position is None else position
    if given and len(keys) != len(order):
        raise ConnectorError(f"the sorting key of {table.place()} is another one now", code="E3105", hint="begin anew")
    if table.limit is not None and given >= table.limit:
        return
    if table.aggregation is not None:
        query = _groups(table, relation, table.aggregation) + f" OFFSET {given}"
    else:
        query = _query(table, relation, order, keys, behind, given)
    place = _Place(keys, behind, given)
    width = len(table.schema)
    for batch in table.server.rows(query, table.place()):
        if stop.is_set():
            return
        if not len(batch):
            continue
        rows = _typed(table, batch)
        place.move(batch.columns[width:] if table.aggregation is None else [], len(batch))
        yield Fetched(rows, place.position)


class _Place:
    """Where reading is."""

    def __init__(self, keys: Sequence[str], behind: int, given: int) -> None:
        self._keys, self._behind, self._given = list(keys), behind, given

    @property
    def position(self) -> Any:
        return [self._keys, self._behind, self._given]

    def move(self, columns: Sequence[pa.Array], count: int) -> None:
        """Behind so many rows, whose keys are these, as bytes."""
        last = [column[-1].as_py().hex() for column in columns]
        same = np.ones(count, bool)
        for column in columns:
            same &= np.asarray(pc.equal(column, column[-1]))
        others = np.flatnonzero(~same)
        alike = count if not len(others) else count - 1 - int(others[-1])
        self._behind = alike + (self._behind if alike == count and last == self._keys else 0)
        self._keys = last
        self._given += count


def _query(
    table: ClickHouseTable, relation: Relation, order: Sequence[Column], keys: Sequence[str], behind: int, given: int
) -> str:
    compared: dict[str, DataType] = {}
    for condition in table.conditions:
        compared |= condition.columns
    names = table.schema.names
    inner = [f"{quoted(name)} AS {quoted(f'#{i}')}" for i, name in enumerate(names)]
    inner += [f"{quoted(column.name)} AS {quoted(f'#by{i}')}" for i, column in enumerate(order)]
    inner += [f"{relation.column(n).compared(quoted(n), t)} AS {quoted(n)}" for n, t in compared.items()]
    asked = [f"{relation.column(n).asked(quoted(f'#{i}'))} AS {quoted(f'c{i}')}" for i, n in enumerate(names)]
    by = [quoted(f"#by{i}") for i in range(len(order))]
    asked += [f"{c.as_text(name)} AS {quoted(f'by{i}')}" for i, (c, name) in enumerate(zip(order, by, strict=True))]
    rows = f"SELECT {', '.join(inner) or _NOTHING} FROM {relation.sql}{relation.final if table.merged else ''}"
    tests = where(table.conditions)
    if keys:
        values = ", ".join(c.of_text(f"unhex('{k}')") for k, c in zip(keys, order, strict=True))
        tests += f"{' AND' if tests else ' WHERE'} ({', '.join(by)}) >= ({values})"
    # Rows that are the same in all that is read of them may come in any order.
    tail = [*by, *(quoted(f"c{i}") for i in range(len(names)))]
    limit = "" if table.limit is None else f" LIMIT {table.limit - given}"
    skipped = f" OFFSET {behind}" if behind else ""
    ordered = f" ORDER BY {', '.join(tail)}" if tail else ""
    return f"SELECT {', '.join(asked) or '1'} FROM ({rows}) AS r{tests}{ordered}{limit}{skipped}"


def _groups(table: ClickHouseTable, relation: Relation, aggregation: Aggregation) -> str:
    compared = {f.name: f.type for f in aggregation.rows}
    for condition in table.conditions:
        compared |= condition.columns
    inner = [f"{relation.column(n).compared(quoted(n), t)} AS {quoted(n)}" for n, t in compared.items()]
    source = f"{relation.sql}{relation.final if table.merged else ''}"
    rows = f"SELECT {', '.join(inner) or _NOTHING} FROM {source}"
    return question(
        aggregation, "clickhouse", f"SELECT * FROM ({rows}) AS q{where(table.conditions)}", _checks(aggregation)
    )


def _checks(aggregation: Aggregation) -> dict[str, str | None]:
    """Whether values fit, where numbers may be larger there."""
    found: dict[str, str | None] = {}
    for field in aggregation.checked:
        found[field.name] = None
        if field.type.root in _BITS:
            half = 1 << (_BITS[field.type.root] - 1)
            name = quoted(field.name)
            found[field.name] = f"({name} IS NULL OR {name} BETWEEN {-half} AND {half - 1})"
    return found


def _typed(table: ClickHouseTable, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The first columns of an answer, as they are declared."""
    schema, place = table.schema, table.place()
    if table.aggregation is not None:
        check_fits(batch.columns[len(schema) :], table.aggregation, _checks(table.aggregation), place)
    if not len(schema):
        return pa.RecordBatch.from_arrays([pa.nulls(len(batch))], names=["none"]).select([])
    arrays: list[pa.Array] = []
    for field, column in zip(schema, batch.columns, strict=False):
        arrays.append(fitted(_plain(column, field.type), field, place))
    return pa.RecordBatch.from_arrays(arrays, names=list(schema.names))


def _plain(column: pa.Array, type_: DataType) -> pa.Array:
    """Bytes as texts where texts are declared, or numbers; numbers that come with more bits as texts, which are looked at."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_list(column.type):
        items = _plain(column.flatten(), type_.children[0])
        lengths = pc.list_value_length(column).cast(pa.int32())
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
        return pa.ListArray.from_arrays(offsets, items)
    if pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    if pa.types.is_binary(column.type) and type_.root not in _BYTES:
        return column.cast(pa.string())
    if pa.types.is_timestamp(column.type) and type_.root is _R.TIMESTAMP:
        return column.cast(pa.timestamp(column.type.unit))
    return column


def asking() -> Asking:
    """How a table is asked by key."""
    return Asking(_relation_of, _asked)


def _relation_of(table: ClickHouseTable) -> Relation:
    relation = described(table.server, *table.names)
    check_columns(table, relation.column)
    return relation


def _asked(
    table: ClickHouseTable, relation: Relation, key_columns: Sequence[str], keys: pa.RecordBatch
) -> tuple[pa.Array, pa.RecordBatch]:
    schema = table.schema
    fields = [schema[schema.index_of(name)] for name in key_columns]
    valid = np.ones(len(keys), bool)
    for column in keys.columns:
        valid &= np.asarray(column.is_valid())
    places = np.flatnonzero(valid)
    wanted = [column.cast(f.type.arrow) for column, f in zip(keys.take(pa.array(places)).columns, fields, strict=True)]
    texts = [literals(column, f, table.place()) for column, f in zip(wanted, fields, strict=True)]
    sources = [relation.column(f.name).compared(quoted(f.name), f.type) for f in fields]
    asked = ", ".join(f"{relation.column(n).asked(quoted(n))} AS {quoted(f'c{i}')}" for i, n in enumerate(schema.names))
    source = f"{relation.sql}{relation.final if table.merged else ''}"
    once = list(dict.fromkeys(zip(*texts, strict=True)))
    found: list[pa.RecordBatch] = []
    for at in range(0, len(once), _KEYS):
        each = ", ".join(f"({', '.join(key)})" for key in once[at : at + _KEYS])
        query = f"SELECT {asked} FROM {source} WHERE ({', '.join(sources)}) IN ({each})"
        found += [_typed(table, batch) for batch in table.server.rows(query, table.place())]
    arrow = pa.schema([pa.field(f.name, f.type.arrow) for f in schema])
    rows = pa.Table.from_batches(found, arrow).combine_chunks()
    one = rows.to_batches()[0] if len(rows) else pa.RecordBatch.from_pylist([], schema=arrow)
    of_key, of_row = RowIndex([one.column(name) for name in key_columns]).find(wanted)
    order = np.argsort(of_key, kind="stable")
    return pa.array(places[of_key[order]], pa.int64()), one.take(pa.array(of_row[order]))
