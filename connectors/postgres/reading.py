"""A table read in one snapshot, by several connections, in one order.

A table is read by ranges of its blocks (`ctid`), in the order in which its rows lie, which is the same as long as nobody
changes them; what is read by ranges of a column is sorted by it. A part is asked for as a COPY; several are under way at
the same time, and given one after another.

    position   part, rows given of it and of all, snapshot that they are of

The snapshot is lost with the connections that share it. Whoever goes on from a position takes a new one, and looks whether a
row was inserted or changed since the old one, or the table written anew: then places of rows mean nothing any more (E3105).
Rows that were deleted since are missing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.databases.fitting import fitted_rows
from connectors.databases.parts import check_columns
from connectors.databases.workers import Workers
from connectors.kit.aggregates import check_fits
from connectors.kit.prefetch import Fetched, PrefetchingReader
from connectors.postgres.bulk import BulkConnection
from connectors.postgres.connection import connected, run, telling
from connectors.postgres.described import Relation, described
from connectors.postgres.kept import lent
from connectors.postgres.parts import checks_of, has_places, parts_of, without_places
from runtime.core.errors import ConnectorError

if TYPE_CHECKING:
    from connectors.postgres.table import PostgresTable

__all__ = ["TableReader", "fetch"]

_IN_ORDER = (
    "SET LOCAL max_parallel_workers_per_gather = 0",
    "SET LOCAL synchronize_seqscans = off",
)
_BY_BLOCKS = ("SET LOCAL enable_indexscan = off", "SET LOCAL enable_indexonlyscan = off")


class TableReader(PrefetchingReader):
    """Reads what `fetch` gives."""

    def seek(self, position: Any) -> None:
        """Raises ConnectorError E3105 in the middle of what has no places."""
        super().seek(position)
        at = position["at"]
        if at is not None and not at["places"] and (at["part"] or position["rows"]):
            raise without_places(self._name)


def fetch(table: PostgresTable, position: Any, stop: threading.Event) -> Iterator[Fetched]:
    """As `Fetching` says."""
    place = table.place()
    with telling(table.address, place), contextlib.closing(connected(table.address)) as holder:
        run(holder, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        relation = described(holder, *table.names, leaves=True)
        snapshot, seen = run(holder, "SELECT pg_export_snapshot(), pg_current_snapshot()::text").fetchone()
        now = {"snapshot": seen, "files": [[leaf.schema, leaf.name, leaf.file] for leaf in relation.leaves]}
        if position is None:
            position = {"part": [], "rows": 0, "all": 0}
        else:
            _check_unchanged(holder, relation, position["seen"], place)
        check_columns(table, relation.column)
        parts = list(parts_of(table, relation, position["part"]))
        position = {**position, "seen": now, "places": has_places(table, relation)}
        yield Fetched(None, position)
        number = table.parallel if table.limit is None else 1
        with Workers(table.name, parts, number, lambda: _sharing(table, snapshot)) as workers:
            for part in parts:
                given = position["rows"] if part.at == position["part"] else 0
                for batch in workers.rows_of(part, given, stop):
                    rows = batch if table.limit is None else batch.slice(0, table.limit - position["all"])
                    if not rows.num_rows:
                        return
                    given += rows.num_rows
                    position = {**position, "part": part.at, "rows": given, "all": position["all"] + rows.num_rows}
                    yield Fetched(_fitted(table, relation, rows), position)
                if stop.is_set():
                    return


def _fitted(table: PostgresTable, relation: Relation, rows: pa.RecordBatch) -> pa.RecordBatch:
    width = len(table.schema)
    if table.aggregation is not None:
        checks = checks_of(table.aggregation, relation)
        check_fits(rows.columns[width:], table.aggregation, checks, table.place())
    return fitted_rows(rows.columns[:width], list(table.schema), table.place()) if width else rows.select([])


def _check_unchanged(holder: Any, relation: Relation, seen: Any, place: str) -> None:
    """Raises ConnectorError E3105 when rows may lie elsewhere than they did."""
    files = [[leaf.schema, leaf.name, leaf.file] for leaf in relation.leaves]
    if files == seen["files"]:
        for leaf in relation.leaves if relation.lies_in_blocks else ():
            (changed,) = run(
                holder,
                "WITH old AS MATERIALIZED (SELECT pg_snapshot_xmin(s)::text::int8 AS low, s, "
                "age(mod(pg_snapshot_xmin(s)::text::int8, 4294967296)::text::xid) AS years FROM (SELECT %s::pg_snapshot) AS x(s)) "
                f"SELECT EXISTS (SELECT FROM ONLY {leaf.sql} AS t, old WHERE age(t.xmin) <= old.years "
                "AND NOT pg_visible_in_snapshot((old.low + old.years - age(t.xmin))::text::xid8, old.s))",
                [seen["snapshot"]],
            ).fetchone()
            if changed:
                break
        else:
            return
    raise ConnectorError(
        f"rows of {place} were inserted or changed since a part of it was read",
        code="E3105",
        hint="begin anew: a table that others write to cannot be gone on with in the middle",
    )


@contextlib.contextmanager
def _sharing(table: PostgresTable, snapshot: str) -> Generator[BulkConnection]:
    """A connection that sees a snapshot."""
    with lent(table.address, table.place()) as connection:
        connection.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.run(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
        for setting in (*_IN_ORDER, *(() if table.partition else _BY_BLOCKS)):
            connection.run(setting)
        yield connection
        connection.run("COMMIT")
