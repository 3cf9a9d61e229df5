"""Reads a table: its rows as they are, then what the log says. `positions` tells how the two are one."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from connectors.databases.parts import named
from connectors.kit.prefetch import Fetched, PrefetchingReader
from connectors.mysql.cdc import setup
from connectors.mysql.cdc.gtids import Numbers
from connectors.mysql.cdc.log import LogStream, written
from connectors.mysql.cdc.positions import Place, Position, Range
from connectors.mysql.cdc.snapshot import KeyOrder, key_order, snapshot_rows
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


class MysqlCdcReader(PrefetchingReader):
    """Follows a table."""

    def __init__(self, source: MysqlCdcSource, context: ReadContext) -> None:
        self._following = _Following(source)
        super().__init__(source.name, self._following, context, bounded=source.bounded)

    def fetch_end_offset(self) -> None:
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
        with connected(options.address, source.place) as connection:
            if not source.bounded:
                setup.check_server(connection)
            relation = described(connection, options.address.database, options.table)
            at = Position.of(position) if position is not None else self._begun(connection, relation)
            at = self._checked(connection, relation, at)
            order = key_order(relation, source.physical)
            if position is None:
                yield self._at(at)
            if at.reading:
                at = yield from self._rows(connection, relation, at, order, stop)
        if not source.bounded and not at.reading and not stop.is_set():
            yield from self._changes(at, order, stop)

    def _at(self, position: Position) -> Fetched:
        return Fetched(ChangelogBatch.empty(self._source.schema), position.json())

    def _begun(self, connection: Connection, relation: Relation) -> Position:
        """Where a job begins."""
        options = self._options
        server = setup.server_of(connection)
        columns = tuple((c.name, c.declared, c.charset, c.nullable) for c in relation.columns)
        if options.start in ("snapshot", "initial"):
            return Position(server, Place("", 0), columns=columns, reading=True)
        place = options.begin
        if options.start == "latest-offset":
            place = setup.log_end(connection)
        elif options.start == "timestamp":
            place = setup.log_at(connection, (options.since or 0) // 1000, self._written)
        elif place is None:
            place = setup.log_begin(connection)
        return Position(server, place, columns=columns)

    def _written(self, place: Place) -> int:
        return written(self._options.address, self._source.place, place)

    def _checked(self, connection: Connection, relation: Relation, at: Position) -> Position:
        """Where reading goes on, on the server that is there now."""
        source = self._source
        if not source.bounded and relation.engine == "":
            raise ConnectorError(
                f"{source.place} is no table", code="E3171", hint="a view is not in the log: name a table"
            )
        here = setup.server_of(connection)
        at = self._moved(connection, relation, at, here) if at.ranges or not at.reading else replace(at, server=here)
        if at.reading:
            source.check_columns(lambda name: relation.column(name))
        else:
            columns = source.columns_at(at)
            source.check_columns(lambda name: named(columns, name, source.place))
        if source.options.upsert and not source.bounded and {*relation.key} != {*source.key}:
            raise ConnectorError(
                f"{source.place} has the key ({', '.join(relation.key)}), not ({', '.join(source.key)})",
                code="E3171",
                hint="declare PRIMARY KEY (..) NOT ENFORCED as it is there",
            )
        return at

    def _moved(self, connection: Connection, relation: Relation, at: Position, here: str) -> Position:
        """The same place in the log of this server."""
        if at.server != here:
            alone = at.within is not None and not relation.key
            if not at.movable or setup.same_number(at.server, here) or alone:
                raise ConnectorError(
                    f"{self._source.options.address} is another server than the one whose log was read: places in it are others",
                    code="E3170",
                    hint="begin anew with --fresh, or bring the server back; another one can go on from GTIDs, if it has a "
                    "server_id of its own"
                    + (", and not in the middle of a transaction of a table without a primary key" * alone),
                )
            at = replace(at, server=here, place=Place("", 0, at.place.gtids))
        setup.check_has(connection, [at.place, *(r.place for r in at.ranges)])
        return at

    # --- the rows as they are

    def _rows(
        self,
        connection: Connection,
        relation: Relation,
        position: Position,
        order: Sequence[KeyOrder],
        stop: threading.Event,
    ) -> Generator[Fetched, None, Position]:
        source, before = self._source, position.ranges
        if position.stuck or (before and not order):
            raise ConnectorError(
                f"{source.place} was not read to its end, and has no primary key by which to go on",
                code="E3173",
                hint="begin anew with --fresh; with a primary key of numbers or dates, all of whose columns are declared, "
                "the next run goes on",
            )
        schema = source.inner_schema([by.name for by in order])
        behind = before[-1].through if before else None
        rows = snapshot_rows(
            connection, relation, schema, order, behind, source.place, logged=not source.bounded, stop=stop
        )
        for some in rows:
            begun = replace(position, place=position.place if before else some.place)

            def within(count: int, some: Any = some, begun: Position = begun) -> tuple[Any, int]:
                if not order:
                    return replace(begun, stuck=True).json(), 0
                return replace(begun, ranges=(*before, Range(some.key(count - 1), some.place))).json(), 0

            if not some.columns:
                done = replace(begun, ranges=(*before, Range(None, some.place)), reading=False, stuck=False).matters()
                yield self._at(done)
                return done
            count = len(some.columns[0])
            columns = dict(zip(schema.names, some.columns, strict=True))
            yield Fetched(source.batch(columns, count, None, None), within(count)[0], within=within)
        return position

    # --- the changes

    def _changes(self, position: Position, order: Sequence[KeyOrder], stop: threading.Event) -> Iterator[Fetched]:
        options = self._options
        with connected(options.address, self._source.place) as connection:
            if position.place.gtids is None:
                position = replace(position, place=setup.numbered(connection, position.place))
            maria = setup.is_maria(position.server)
            stream = LogStream(options.address, self._source.place, position.place, options.server_id, maria=maria)

            def describe() -> tuple[Sequence[Column], bool]:
                relation = described(connection, options.address.database, options.table)
                return relation.columns, setup.tells_names(connection)

            numbers = Numbers(position.place.gtids, maria=maria, wanted=setup.has_gtids(connection, position.server))
            with closing(stream):
                transactions = Transactions(self._source, order, position, describe, stream.trailer, numbers)
                yield from self._followed(stream, transactions, connection, stop)

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
            if transactions.full or (transactions.waiting and not events):
                yield transactions.flush()
            if wanted is not None and transactions.has_reached(wanted):
                if transactions.waiting:
                    yield transactions.flush()
                wanted = None
                yield Fetched(None, transactions.position.json())
            elif not events and time.monotonic() - moved_at > _MOVE_SECONDS and transactions.position != told:
                yield transactions.flush()
            else:
                continue
            told, moved_at = transactions.position, time.monotonic()
