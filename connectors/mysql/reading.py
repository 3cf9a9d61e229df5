"""A table read in one snapshot, by several connections, in one order.

Snapshots of several connections are of one moment because nobody may write the table while they are made (`LOCK TABLES .. READ`,
some milliseconds). Whoever may not lock reads by one connection. A table is read by ranges of its primary key when that begins
with a whole number, and always in the order of the key.

    position   how many rows were given, and a digest of them

The snapshot is lost with its connections. Whoever goes on from a position takes a new one and reads it from its beginning: if
the rows that were given are the same there, the rest of it belongs to them, and they are a table as it is in the new snapshot.
Otherwise it cannot be gone on with (E3105).
"""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.databases.options import Partition
from connectors.databases.parts import Part, check_columns, selected
from connectors.databases.workers import Workers
from connectors.kit.predicates import where
from connectors.kit.prefetch import Fetched
from connectors.mysql.columns import INTEGERS, typed
from connectors.mysql.connection import Connection, connected, quoted
from connectors.mysql.described import Relation, described
from connectors.mysql.grouped import aggregates_sql, typed_groups
from runtime.core.errors import ConnectorError, UnavailableError
from runtime.core.types import TypeRoot

if TYPE_CHECKING:
    from connectors.mysql.table import MysqlTable

__all__ = ["fetch", "typed_rows"]

_ROWS_OF_PART = 50_000
_MOST_PARTS = 64
_SNAPSHOT = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
_NUMBERS = INTEGERS | {TypeRoot.DECIMAL}


def fetch(table: MysqlTable, position: Any, stop: threading.Event) -> Iterator[Fetched]:
    """As `Fetching` says."""
    given = _Given(table.place(), position)
    with ExitStack() as opened:
        relation, connections, parts = _begun(table, opened)
        with Workers(table.name, parts, len(connections), lambda: _one_of(connections)) as workers:
            for part in parts:
                for batch in workers.rows_of(part, 0, stop):
                    rows = given.fresh(batch if table.limit is None else batch.slice(0, table.limit - given.rows))
                    if rows.num_rows:
                        yield Fetched(typed_rows(table, relation, rows), given.position)
                    if table.limit is not None and given.rows >= table.limit:
                        return
                if stop.is_set():
                    return
        given.all_seen()


def typed_rows(table: MysqlTable, relation: Relation, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Cells as rows of the declared types."""
    if table.aggregation is not None:
        return typed_groups(table, relation, table.aggregation, rows)
    if not len(table.schema):
        return rows.select([])
    place = table.place()
    arrays = [
        typed(rows.column(i), field, place, relation.column(field.name).word) for i, field in enumerate(table.schema)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(table.schema.names))


class _Given:
    """What was given of a table, and whether what was given before is there again."""

    def __init__(self, place: str, position: Any) -> None:
        self.rows = 0
        self._place = place
        self._before = 0 if position is None else int(position["rows"])
        self._digest = "" if position is None else str(position["digest"])
        self._hashes: list[Any] = []

    @property
    def position(self) -> dict[str, Any]:
        whole = hashlib.blake2b(digest_size=16)
        for one in self._hashes:
            whole.update(one.copy().digest())
        return {"rows": self.rows, "digest": whole.hexdigest()}

    def fresh(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that were not given before. Raises ConnectorError E3105 when those that were are others now."""
        known = min(rows.num_rows, max(0, self._before - self.rows))
        if known:
            self._add(rows.slice(0, known))
            if self.rows == self._before and self.position["digest"] != self._digest:
                raise self._changed()
        fresh = rows.slice(known)
        if fresh.num_rows:
            self._add(fresh)
        return fresh

    def all_seen(self) -> None:
        """Raises ConnectorError E3105 when more rows were given than are there."""
        if self.rows < self._before:
            raise self._changed()

    def _add(self, rows: pa.RecordBatch) -> None:
        """Neither how rows are cut into batches nor which range they come from matters."""
        self.rows += rows.num_rows
        for place, column in enumerate(rows.columns):
            if len(self._hashes) <= 2 * place:
                self._hashes += [hashlib.blake2b(), hashlib.blake2b()]
            self._hashes[2 * place].update(pc.fill_null(pc.binary_length(column), -1).to_numpy().tobytes())
            self._hashes[2 * place + 1].update(_octets(column))

    def _changed(self) -> ConnectorError:
        return ConnectorError(
            f"rows of {self._place} that were read before are others now",
            code="E3105",
            hint="begin anew: a table whose first rows others write to cannot be gone on with in the middle",
        )


def _octets(column: pa.Array) -> memoryview:
    """The bytes of all cells, one behind the other."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return memoryview(b"")
    places = np.frombuffer(offsets, dtype=np.int64)
    return memoryview(data)[int(places[column.offset]) : int(places[column.offset + len(column)])]


@contextmanager
def _one_of(connections: list[Connection]) -> Generator[Connection]:
    yield connections.pop()


def _begun(table: MysqlTable, opened: ExitStack) -> tuple[Relation, list[Connection], list[Part]]:
    """Connections that see the same rows, and what they are asked."""
    first = opened.enter_context(connected(table.address, table.place()))
    relation = described(first, *table.names)
    check_columns(table, relation.column)
    parallel = table.parallel if table.limit is None and _has_ranges(table, relation) else 1
    if parallel > 1 and _locked(first, relation):
        connections = [opened.enter_context(connected(table.address, table.place())) for _ in range(parallel)]
        for connection in connections:
            connection.run(_SNAPSHOT)
        first.run("UNLOCK TABLES")
    else:
        connections = [first]
        first.run(_SNAPSHOT)
    return relation, connections, _parts(table, relation, connections)


def _locked(connection: Connection, relation: Relation) -> bool:
    """Keep others from writing a table; False when that is not allowed, or takes too long."""
    try:
        connection.run(f"LOCK TABLES {relation.sql} READ")
    except UnavailableError:
        return False
    except ConnectorError as error:
        if error.code != "E3161":
            raise
        return False
    return True


def _has_ranges(table: MysqlTable, relation: Relation) -> bool:
    if table.aggregation is not None:
        return False
    if table.partition is not None:
        return True
    return relation.counts_by is not None and (relation.rows or 0) > _ROWS_OF_PART


def _parts(table: MysqlTable, relation: Relation, connections: Sequence[Connection]) -> list[Part]:
    if table.aggregation is not None:
        return [Part([0], aggregates_sql(table, relation, table.aggregation))]
    tests = [""]
    order = [*relation.key]
    if table.partition is not None:
        tests = _given_ranges(table, relation, table.partition)
        order = [table.partition.column, *(k for k in relation.key if k != table.partition.column)]
    elif len(connections) > 1 and relation.counts_by is not None:
        tests = _ranges(connections[0], relation, relation.counts_by)
    hidden = [f"{quoted(name)} AS {quoted(f'#by{i}')}" for i, name in enumerate(order)]
    names = {n for c in table.conditions for n in c.columns} | set(table.schema.names)
    columns = {n: relation.column(n) for n in names}
    asked, source = selected(table, columns, quoted, relation.sql, hidden)
    by = [quoted(f"#by{i}") if table.conditions else quoted(n) for i, n in enumerate(order)]
    tail = (f" ORDER BY {', '.join(by)}" if by else "") + ("" if table.limit is None else f" LIMIT {table.limit}")
    filtered = where(table.conditions) or " WHERE true"
    parts: list[Part] = []
    for place, test in enumerate(tests):
        limits = f" AND {test.format(by=by[0])}" if test else ""
        parts.append(Part([place], f"SELECT {asked} FROM {source}{filtered}{limits}{tail}"))
    return parts


def _ranges(connection: Connection, relation: Relation, name: str) -> list[str]:
    """Ranges that hold all values."""
    low, high = connection.asked(f"SELECT MIN({quoted(name)}), MAX({quoted(name)}) FROM {relation.sql}")[0]
    if low is None:
        return [""]
    number = min(_MOST_PARTS, max(1, int((relation.rows or 0) // _ROWS_OF_PART) + 1))
    bounds = sorted({low + (high - low + 1) * i // number for i in range(1, number)})
    if not bounds:
        return [""]
    inner = [f"{{by}} >= {a} AND {{by}} < {b}" for a, b in itertools.pairwise(bounds)]
    return [f"{{by}} < {bounds[0]}", *inner, f"{{by}} >= {bounds[-1]}"]


def _given_ranges(table: MysqlTable, relation: Relation, partition: Partition) -> list[str]:
    column = relation.column(partition.column)
    if column.type.root not in _NUMBERS:
        raise ConnectorError(
            f"column {column.name} of {table.place()} is {column.declared}: only numbers have ranges here",
            code="E3163",
            hint="leave 'scan.partition.column' out: a table is read in parallel by its primary key",
        )
    found = partition.ranges()
    tests: list[str] = []
    for low, high in found:
        # Numbers with a fraction between two ranges belong to the first of them.
        upper = f"<= {high}" if (low, high) == found[-1] else f"< {high + 1}"
        tests.append(f"{{by}} >= {low} AND {{by}} {upper}")
    return tests
