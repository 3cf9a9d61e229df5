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
import queue
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.databases.fitting import fitted_rows
from connectors.kit.aggregates import check_fits
from connectors.kit.prefetch import Fetched, PrefetchingReader
from connectors.postgres.bulk import BulkConnection
from connectors.postgres.connection import connected, run, telling
from connectors.postgres.described import Relation, described
from connectors.postgres.kept import lent
from connectors.postgres.parts import Part, check_columns, checks_of, has_places, parts_of, without_places
from runtime.core.errors import ConnectorError

if TYPE_CHECKING:
    from connectors.postgres.table import PostgresTable

__all__ = ["TableReader", "fetch"]

_WAITING = 2
"""How many batches of a part may wait."""
_LOOK_SECONDS = 0.2
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
        check_columns(table, relation)
        parts = list(parts_of(table, relation, position["part"]))
        position = {**position, "seen": now, "places": has_places(table, relation)}
        yield Fetched(None, position)
        with _Workers(table, snapshot, parts) as workers:
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


class _Stopped(Exception):
    """Nobody wants the rest: the connection is in the middle of an answer."""


class _Workers:
    """Connections that share a snapshot and answer parts side by side.

    A worker takes the next part that nobody has taken; so the one whose rows are given now is always at work, and others
    wait when as many of their batches wait as may.
    """

    def __init__(self, table: PostgresTable, snapshot: str, parts: Sequence[Part]) -> None:
        self._table = table
        self._snapshot = snapshot
        self._answers: dict[str, queue.Queue[Any]] = {part.sql: queue.Queue(_WAITING) for part in parts}
        self._open = deque(parts)
        self._stop = threading.Event()
        self._connections: list[BulkConnection] = []
        number = min(len(parts), table.parallel if table.limit is None else 1)
        self._threads = [
            threading.Thread(target=self._work, name=f"fetch {table.name} {i}", daemon=True) for i in range(number)
        ]

    def __enter__(self) -> _Workers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for connection in list(self._connections):
            with contextlib.suppress(Exception):
                connection.cancel()
        for thread in self._threads:
            thread.join()

    def rows_of(self, part: Part, after: int, stop: threading.Event) -> Iterator[pa.RecordBatch]:
        """The rows of a part behind its first ones; raises what its worker did. Ends early when somebody stops it."""
        answers = self._answers[part.sql]
        while not stop.is_set():
            try:
                found = answers.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            if found is None:
                return
            if isinstance(found, BaseException):
                raise found
            if found.num_rows > after:
                yield found.slice(after)
            after = max(0, after - found.num_rows)

    def _work(self) -> None:
        part: Part | None = None
        try:
            with lent(self._table.address, self._table.place()) as connection:
                self._connections.append(connection)
                connection.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                connection.run(f"SET TRANSACTION SNAPSHOT '{self._snapshot}'")
                for setting in (*_IN_ORDER, *(() if self._table.partition else _BY_BLOCKS)):
                    connection.run(setting)
                while not self._stop.is_set():
                    try:
                        part = self._open.popleft()
                    except IndexError:
                        break
                    for batch in connection.rows(part.sql):
                        if not self._put(part, batch):
                            raise _Stopped
                    self._put(part, None)
                self._connections.remove(connection)
                connection.run("COMMIT")
        except _Stopped:
            return
        except BaseException as error:
            # A worker that had no part yet fails those that nobody has taken.
            for failed in [part] if part is not None else [*self._open]:
                self._put(failed, error)

    def _put(self, part: Part, answer: Any) -> bool:
        while not self._stop.is_set():
            try:
                self._answers[part.sql].put(answer, timeout=_LOOK_SECONDS)
                return True
            except queue.Full:
                continue
        return False
