"""Reads a table: its rows as they are, then what its slot says. `positions` tells how the two are one."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from connectors.kit.prefetch import Fetched, PrefetchingReader
from connectors.postgres.cdc import setup
from connectors.postgres.cdc.positions import Position
from connectors.postgres.cdc.snapshot import KeyOrder, Rows, key_order, snapshot_rows
from connectors.postgres.cdc.stream import SlotStream
from connectors.postgres.cdc.transactions import Transactions
from connectors.postgres.connection import connected, quoted, telling
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.spi.reader import ReadContext

if TYPE_CHECKING:
    from connectors.postgres.cdc.table import PostgresCdcSource

__all__ = ["PostgresCdcReader"]

_FRAMES = 2 << 20
_IDLE_SECONDS = 0.1
_BUSY_SECONDS = 0.002
_MOVE_SECONDS = 5.0
"""How often a position is told that only moves."""
_ASYNCHRONOUS_SECONDS = 1.0
"""So long at most until what was committed with `synchronous_commit = off` is in the log on disk, and is sent."""
_LONGEST_SECONDS = 10.0


class PostgresCdcReader(PrefetchingReader):
    """Tells the slot what is safe when a checkpoint is: only that moves it."""

    def __init__(self, source: PostgresCdcSource, context: ReadContext) -> None:
        self._following = _Following(source)
        super().__init__(source.name, self._following, context, bounded=source.bounded)

    def fetch_end_offset(self) -> None:
        # Twice: what is looked up from here on is an answer, and whoever has just looked looks again.
        self._following.asked.set()
        super().fetch_end_offset()
        self._following.asked.set()

    def checkpoint_complete(self, position: Any) -> None:
        """A checkpoint holds a position."""
        if position is not None and position["at"] is not None:
            found = Position.of(position["at"])
            if not found.reading:
                self._following.durable = found.lsn


class _Following:
    """See `Fetching`. `asked`: somebody waits for what is there now; `durable`: so much of the log is needed no more."""

    def __init__(self, source: PostgresCdcSource) -> None:
        self._source = source
        self._options = source.options
        self.asked = threading.Event()
        self.asked.set()
        self.durable = 0

    def __call__(self, position: Any, stop: threading.Event) -> Iterator[Fetched]:
        source, options = self._source, self._options
        known = None if position is None else Position.of(position)
        with telling(options.address, source.place):
            changes = not source.bounded
            with connected(options.address) as connection:
                found = setup.found_table(
                    connection, options.schema, options.table, upsert=options.upsert, changes=changes
                )
                source.check_columns(found)
                if changes:
                    setup.made_publication(
                        connection, options.published, options.schema, options.table, may_make=not options.publication
                    )
                at = self._begun(connection) if known is None else known
                if changes and known is not None:
                    setup.check_goes_on(connection, options.slot, options.address.database, known.lsn)
            order = key_order(found, source.physical)
            if found.identity is not None and not {column.name for column in order} <= {*found.identity}:
                order = ()
            if known is None:
                yield self._at(at)
            if at.reading:
                at = yield from self._rows(at, order, stop)
            if changes and not stop.is_set():
                yield from self._changes(at, found.number, order, stop)

    def _at(self, position: Position) -> Fetched:
        return Fetched(ChangelogBatch.empty(self._source.schema), position.json())

    def _begun(self, connection: Any) -> Position:
        """Where a job begins."""
        options, database = self._options, self._options.address.database
        if options.start == "snapshot":
            return Position(0, reading=True)
        if options.start == "committed-offset" and setup.usable_slot(connection, options.slot, database) is None:
            raise ConnectorError(
                f"there is no slot {options.slot}",
                code="E3170",
                hint="'scan.startup.mode' = 'committed-offset' goes on with a slot that is there; 'initial' makes one",
            )
        lsn = setup.made_slot(connection, options.slot, database)
        if options.start == "latest-offset":
            lsn = max(lsn, setup.log_end(connection))
        return Position(lsn, reading=options.start == "initial")

    # --- the rows as they are

    def _rows(
        self, position: Position, order: Sequence[KeyOrder], stop: threading.Event
    ) -> Generator[Fetched, None, Position]:
        source, before = self._source, position.seen
        if position.stuck or (before and not order):
            raise ConnectorError(
                f"{source.place} was not read to its end, and has no primary key by which to go on",
                code="E3173",
                hint="begin anew with --fresh; with a primary key of numbers, times, texts or UUIDs, all of whose columns are "
                "declared, the next run goes on",
            )
        schema = source.inner_schema([column.name for column in order])
        place = f"{quoted(self._options.schema)}.{quoted(self._options.table)}"
        behind = before[-1].through if before else None
        last = None
        for rows in snapshot_rows(self._options.address, place, schema, order, behind, stop):
            last = rows.seen

            def within(count: int, rows: Rows = rows) -> tuple[Any, int]:
                if not order:
                    return replace(position, stuck=True).json(), 0
                return replace(position, seen=(*before, replace(rows.seen, through=rows.key(count - 1)))).json(), 0

            count = len(rows.columns[0])
            if count:
                columns = dict(zip(schema.names, rows.columns, strict=True))
                yield Fetched(
                    source.batch(columns, count, None, None, source.constants), within(count)[0], within=within
                )
        if last is None:
            return position
        done = replace(position, seen=(*before, last), reading=False, stuck=False)
        yield self._at(done)
        return done

    # --- the changes

    def _changes(
        self, position: Position, number: int, order: Sequence[KeyOrder], stop: threading.Event
    ) -> Iterator[Fetched]:
        options = self._options
        stream = SlotStream(options.address, options.slot, options.published, position.lsn)
        try:
            with connected(options.address) as connection:
                yield from self._followed(stream, Transactions(self._source, number, order, position), connection, stop)
        finally:
            # Where the connection is gone, what has ended it is told, not this.
            with suppress(Exception):
                stream.tell(self.durable, self.durable)
            stream.close()

    def _followed(
        self, stream: SlotStream, transactions: Transactions, connection: Any, stop: threading.Event
    ) -> Iterator[Fetched]:
        wanted: _Wanted | None = None
        told, moved_at = transactions.position, time.monotonic()
        while not stop.is_set():
            if self.asked.is_set():
                self.asked.clear()
                yield self._at(transactions.position) if not transactions.waiting else transactions.flush()
                wanted = _Wanted(connection)
            frames = stream.frames(_FRAMES)
            yield from transactions.take(frames)
            if transactions.full:
                yield transactions.flush()
            stream.tell(self.durable, transactions.position.lsn, ask=wanted is not None and not frames)
            if frames:
                continue
            stream.wait(_BUSY_SECONDS if transactions.waiting or wanted is not None else _IDLE_SECONDS)
            frames = stream.frames(_FRAMES)
            yield from transactions.take(frames)
            if frames:
                continue
            if transactions.waiting:
                yield transactions.flush()
            transactions.reach(stream.sent)
            if wanted is not None and not self.asked.is_set() and wanted.reached(transactions.position.lsn):
                wanted = None
                yield Fetched(None, transactions.position.json())
            elif transactions.position != told and time.monotonic() - moved_at > _MOVE_SECONDS:
                yield transactions.flush()
            else:
                continue
            told, moved_at = transactions.position, time.monotonic()


class _Wanted:
    """What is committed now. `reached`: whether it has come."""

    def __init__(self, connection: Any) -> None:
        self._flushed, self._written = setup.log_ends(connection)
        self._since = time.monotonic()

    def reached(self, lsn: int) -> bool:
        passed = time.monotonic() - self._since
        return (
            lsn >= self._written
            or (lsn >= self._flushed and passed > _ASYNCHRONOUS_SECONDS)
            or passed > _LONGEST_SECONDS
        )
