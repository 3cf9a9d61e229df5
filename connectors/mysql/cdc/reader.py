"""Reads a table: its rows as they are, then what the log says. `positions` tells how the two are one."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from connectors.databases.parts import named
from connectors.kit.prefetch import Fetched, PrefetchingReader
from connectors.mysql.cdc import setup
from connectors.mysql.cdc.gtids import Numbers
from connectors.mysql.cdc.log import LogStream, written
from connectors.mysql.cdc.positions import Described, Place, Position, Range, TablePosition
from connectors.mysql.cdc.snapshot import KeyOrder, SnapshotRows, key_order, snapshot_rows, snapshot_taken
from connectors.mysql.cdc.tables import LogTable
from connectors.mysql.cdc.transactions import Transactions
from connectors.mysql.columns import Column
from connectors.mysql.connection import Connection, connected
from connectors.mysql.described import Relation, described
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.spi.reader import ReadContext

if TYPE_CHECKING:
    from connectors.mysql.cdc.table import MysqlCdcSource

__all__ = ["MysqlCdcReader"]

_IDLE_SECONDS = 0.05
_BUSY_SECONDS = 0.002
_MOVE_SECONDS = 5.0
"""How often a position is told that only moves."""


_Name: TypeAlias = tuple[str, str]
"""A database, and a table of it."""


class MysqlCdcReader(PrefetchingReader):
    """Follows a table."""

    def __init__(self, source: MysqlCdcSource, context: ReadContext) -> None:
        self._following = _Following(source)
        super().__init__(source.name, self._following, context, bounded=source.bounded)

    def fetch_end_offset(self) -> None:
        # Twice: what is looked up from here on is an answer, and whoever has just looked looks again.
        self._following.asked.set()
        super().fetch_end_offset()
        self._following.asked.set()


class _Following:
    """See `Fetching`. `asked`: somebody waits for what is there now."""

    def __init__(self, source: MysqlCdcSource) -> None:
        self._source = source
        self._options = source.options
        self.asked = threading.Event()
        self.asked.set()

    def __call__(self, position: Any, stop: threading.Event) -> Iterator[Fetched]:
        source, options = self._source, self._options
        while not stop.is_set():
            with connected(options.address, source.place) as connection:
                if not source.bounded:
                    setup.check_server(connection)
                known = (
                    None if position is None else Position.of(position, (options.databases.text, options.tables.text))
                )
                relations = self._relations(connection, known)
                at = self._checked(connection, relations, known or self._begun(connection, relations))
                orders = {name: key_order(relation, source.physical) for name, relation in relations.items()}
                if known is None:
                    yield self._at(at)
                if at.reading:
                    at = yield from self._rows(connection, relations, at, orders, stop)
            if source.bounded or at.reading:
                return
            # It ends where another table has appeared.
            position = yield from self._changes(at, orders, stop)

    def _at(self, position: Position) -> Fetched:
        return Fetched(ChangelogBatch.empty(self._source.schema), position.json())

    def _relations(self, connection: Connection, at: Position | None) -> dict[_Name, Relation]:
        """All tables that are read, and those that are to be read from now on, as they are there."""
        options = self._options
        names = [(options.databases.text, options.tables.text)]
        if options.patterned:
            names = [t.name for t in at.tables] if at is not None else []
            names += [n for n in setup.matching(connection, options.databases, options.tables) if n not in names]
        if not names:
            raise ConnectorError(
                f"there is no table whose name matches {self._source.place}",
                code="E3163",
                hint="check the options 'database-name' and 'table-name': they are regular expressions for the whole name",
            )
        return {name: described(connection, *name) for name in names}

    def _begun(self, connection: Connection, relations: Mapping[_Name, Relation]) -> Position:
        """Where a job begins."""
        options = self._options
        reading = options.start in ("snapshot", "initial")
        tables = tuple(TablePosition(*name, _columns(r), reading=reading) for name, r in relations.items())
        if reading:
            return Position(setup.server_of(connection), Place("", 0), tables)
        place = options.begin
        if options.start == "latest-offset":
            place = setup.log_end(connection)
        elif options.start == "timestamp":
            place = setup.log_at(connection, (options.since or 0) // 1000, self._written)
        elif place is None:
            place = setup.log_begin(connection)
        return Position(setup.server_of(connection), place, tables)

    def _written(self, place: Place) -> int:
        return written(self._options.address, self._source.place, place)

    def _checked(self, connection: Connection, relations: Mapping[_Name, Relation], at: Position) -> Position:
        """Where reading goes on, on the server that is there now, with all tables that are there."""
        source = self._source
        here = setup.server_of(connection)
        at = self._moved(connection, relations, at, here) if at.begun else replace(at, server=here)
        known = {t.name: t for t in at.tables}
        for name, relation in relations.items():
            place = ".".join(name)
            if not source.bounded and relation.engine == "":
                raise ConnectorError(
                    f"{place} is no table", code="E3171", hint="a view is not in the log: name a table"
                )
            table = known.get(name) or TablePosition(*name, _columns(relation), reading=True)
            at = at.with_table(table)
            if table.reading:
                source.check_columns(place, relation.column)
            else:
                columns = [Column(n, type_, null, charset) for n, type_, charset, null in table.columns]
                source.check_columns(place, partial(named, columns, place=place))
            if source.options.upsert and not source.bounded and {*relation.key} != {*source.key}:
                raise ConnectorError(
                    f"{place} has the key ({', '.join(relation.key)}), not ({', '.join(source.key)})",
                    code="E3171",
                    hint="declare PRIMARY KEY (..) NOT ENFORCED as it is there",
                )
        return at

    def _moved(self, connection: Connection, relations: Mapping[_Name, Relation], at: Position, here: str) -> Position:
        """The same place in the log of this server."""
        if at.server != here:
            hint = "begin anew with --fresh, or bring the server back"
            if at.within is not None and not all(relation.key for relation in relations.values()):
                raise self._elsewhere(f"{hint}; rows of a table without a primary key have perhaps another order here")
            if not at.movable or setup.same_number(at.server, here):
                raise self._elsewhere(f"{hint}; another one goes on from GTIDs, if it has a server_id of its own")
            at = replace(at, server=here, place=Place("", 0, at.place.gtids))
        setup.check_has(connection, [at.place, *(r.place for t in at.tables for r in t.ranges)])
        return at

    def _elsewhere(self, hint: str) -> ConnectorError:
        return ConnectorError(
            f"{self._options.address} is another server than the one whose log was read: places in it are others",
            code="E3170",
            hint=hint,
        )

    # --- the rows as they are

    def _rows(
        self,
        connection: Connection,
        relations: Mapping[_Name, Relation],
        position: Position,
        orders: Mapping[_Name, Sequence[KeyOrder]],
        stop: threading.Event,
    ) -> Generator[Fetched, None, Position]:
        """All rows that were not read, of one moment."""
        source = self._source
        reading = [table for table in position.tables if table.reading]
        for table in reading:
            if table.stuck or (table.ranges and not orders[table.name]):
                raise ConnectorError(
                    f"{'.'.join(table.name)} was not read to its end, and has no primary key by which to go on",
                    code="E3173",
                    hint="begin anew with --fresh; with a primary key of numbers or dates, all of whose columns are declared, "
                    "the next run goes on",
                )
        there = [relations[table.name] for table in reading]
        place = snapshot_taken(connection, there, source.place, logged=not source.bounded)
        if not position.begun:
            position = replace(position, place=place)
        for table, relation in zip(reading, there, strict=True):
            position = yield from self._rows_of(connection, relation, position, table, place, orders[table.name], stop)
            if stop.is_set():
                return position
        return position.matters()

    def _rows_of(
        self,
        connection: Connection,
        relation: Relation,
        position: Position,
        table: TablePosition,
        place: Place,
        order: Sequence[KeyOrder],
        stop: threading.Event,
    ) -> Generator[Fetched, None, Position]:
        source, before = self._source, table.ranges
        schema = source.inner_schema([by.name for by in order])
        constants = source.constants_of(table.name)
        for some in snapshot_rows(connection, relation, schema, order, before[-1].through if before else None, stop):

            def within(count: int, some: SnapshotRows = some) -> tuple[Any, int]:
                read = replace(table, stuck=True)
                if order:
                    read = replace(table, ranges=(*before, Range(some.key(count - 1), place)))
                return position.with_table(read).json(), 0

            count = len(some.columns[0])
            columns = dict(zip(schema.names, some.columns, strict=True))
            yield Fetched(source.batch(columns, count, None, None, constants), within(count)[0], within=within)
        if stop.is_set():
            return position
        done = position.with_table(replace(table, ranges=(*before, Range(None, place)), reading=False, stuck=False))
        yield self._at(done.matters())
        return done

    # --- the changes

    def _changes(
        self, position: Position, orders: Mapping[_Name, Sequence[KeyOrder]], stop: threading.Event
    ) -> Generator[Fetched, None, Any]:
        options = self._options
        with connected(options.address, self._source.place) as connection:
            if position.place.gtids is None:
                position = replace(position, place=setup.numbered(connection, position.place))
            maria = setup.is_maria(position.server)
            stream = LogStream(options.address, self._source.place, position.place, options.server_id, maria=maria)

            def describe(name: _Name) -> tuple[Sequence[Column], bool]:
                return described(connection, *name).columns, setup.tells_names(connection)

            tables = [LogTable(self._source, orders[t.name], t, partial(describe, t.name)) for t in position.tables]
            numbers = Numbers(position.place.gtids, maria=maria, wanted=setup.has_gtids(connection, position.server))
            with closing(stream):
                transactions = Transactions(self._source, position, tables, stream.trailer, numbers)
                yield from self._followed(stream, transactions, connection, stop)
            if transactions.waiting:
                yield transactions.flush()
            return transactions.position.json()

    def _followed(
        self, stream: LogStream, transactions: Transactions, connection: Connection, stop: threading.Event
    ) -> Iterator[Fetched]:
        wanted: Place | None = None
        told, moved_at = transactions.position, time.monotonic()
        while not stop.is_set():
            if self.asked.is_set():
                self.asked.clear()
                yield transactions.flush()
                wanted = setup.log_end(connection)
            busy = transactions.waiting or wanted is not None
            events = stream.events(_BUSY_SECONDS if busy else _IDLE_SECONDS)
            yield from transactions.take(events)
            if transactions.appeared and transactions.between:
                there = setup.matching(connection, self._options.databases, self._options.tables)
                if transactions.appeared & {*there}:
                    self.asked.set()
                    return
                transactions.appeared.clear()
            if transactions.full or (transactions.waiting and not events):
                yield transactions.flush()
            if wanted is not None and not self.asked.is_set() and transactions.has_reached(wanted):
                if transactions.waiting:
                    yield transactions.flush()
                wanted = None
                yield Fetched(None, transactions.position.json())
            elif not events and time.monotonic() - moved_at > _MOVE_SECONDS and transactions.position != told:
                yield transactions.flush()
            else:
                continue
            told, moved_at = transactions.position, time.monotonic()


def _columns(relation: Relation) -> Described:
    return tuple((c.name, c.declared, c.charset, c.nullable) for c in relation.columns)
