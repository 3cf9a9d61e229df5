"""SUBSCRIBE as clients of PostgreSQL send it.

SUBSCRIBE [TO] v [WITH SNAPSHOT | WITHOUT SNAPSHOT] [WITH PROGRESS] [AS OF epoch]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from connectors.memory import MemoryTable
from runtime.core.changelog import KIND_NAMES, ChangelogBatch
from runtime.core.errors import SqlEngineError, UnsupportedError
from runtime.core.schema import Schema
from runtime.core.wakeup import Wakeup
from sqlengine.api.environment import TableEnvironment
from sqlengine.catalog.objects import CatalogTable, MaterializedView
from sqlengine.database.acting import check_read
from sqlengine.database.session import Session
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.server.feeds import Behind, Feeds, Shared, Start
from sqlengine.server.postgres.engine import carried
from sqlengine.server.postgres.sqlstate import PgError
from sqlengine.server.postgres.statements import PIECE, Outcome, Piece, SharedPiece
from sqlengine.server.postgres.types import TYPES, Described, PgType, columns_of
from sqlengine.server.postgres.words import Reader, with_back_ticks

__all__ = ["SubscribeStatement", "Subscription", "too_slow"]

_EPOCH = Described("epoch", TYPES["int8"])
_OP = Described("op", TYPES["text"])
_PROGRESS_SECONDS = 1.0
_DESCRIBE = "DESCRIBE "


@dataclass(frozen=True)
class _Asked:
    """`at`: where the name stands in the text. `after`: the epoch of AS OF."""

    name: str
    at: int
    snapshot: bool
    progress: bool
    after: int | None


def _read(text: str) -> _Asked | None:
    """What a text asks for; None for another statement. Raises PgError 42601."""
    reader = Reader(text)
    if not reader.accept("subscribe"):
        return None
    reader.accept("to")
    if reader.accept("("):
        raise PgError(
            "0A000",
            "SUBSCRIBE follows a table or a materialized view, by its name",
            hint="CREATE MATERIALIZED VIEW v AS the query, then SUBSCRIBE TO v",
        )
    first = reader.peek()
    reader.name()
    last = reader.peek()
    while reader.accept("."):
        reader.name()
        last = reader.peek()
    assert first is not None
    snapshot: bool | None = None
    progress, after = False, None
    while not reader.ended:
        if reader.accept("with", "snapshot"):
            snapshot = True
        elif reader.accept("without", "snapshot"):
            snapshot = False
        elif reader.accept("with", "progress"):
            progress = True
        elif reader.accept("as", "of"):
            number = reader.value()
            if not number.isdecimal():
                raise PgError(
                    "22023", f"{number} is no number of an epoch", hint="AS OF takes what the column epoch had"
                )
            after = int(number)
        else:
            raise reader.unexpected("WITH SNAPSHOT, WITHOUT SNAPSHOT, WITH PROGRESS or AS OF")
    if after is not None and snapshot:
        raise PgError("42601", "AS OF goes on behind an epoch, without a snapshot", hint="leave one of the two out")
    end = len(text) if last is None else last.start
    return _Asked(
        text[first.start : end].strip(), first.start, snapshot is not False and after is None, progress, after
    )


class SubscribeStatement:
    """Raises what reading it, and looking up its name, raise."""

    in_failed_transaction = False
    parameters: Sequence[PgType | None] = ()

    def __init__(self, environment: TableEnvironment, feeds: Feeds, asked: _Asked) -> None:
        self._session = environment.session
        self._feeds = feeds
        self._asked = asked
        self._found = self._object()
        self._schema = self._session.at_a_version(lambda: self._session.memory_table(self._found).schema)
        self.columns: Sequence[Described] | None = (_EPOCH, _OP, *columns_of(self._schema))

    @staticmethod
    def read(environment: TableEnvironment, feeds: Feeds, text: str) -> SubscribeStatement | None:
        """None for another statement."""
        asked = _read(text)
        return None if asked is None else SubscribeStatement(environment, feeds, asked)

    def _object(self) -> CatalogTable | MaterializedView:
        try:
            named = parse_statement(_DESCRIBE + with_back_ticks(self._asked.name))
            assert isinstance(named, st.Describe) and isinstance(named.name, ddl.ObjectName)
            found = self._session.catalogs.get(named.name.parts, named.name.span)
            if self._session.authority is not None:
                check_read(self._session.authority, found, named.name.span)
            if isinstance(found, MaterializedView) or (isinstance(found, CatalogTable) and found.connector is None):
                return found
            raise UnsupportedError(
                f'"{found.path.name}" is not kept in memory',
                code="E1608",
                span=named.name.span,
                hint="SELECT from it, or CREATE MATERIALIZED VIEW over it and subscribe to that",
            )
        except SqlEngineError as error:
            if error.span is not None:
                error.span, error.text = error.span.shift(self._asked.at - len(_DESCRIBE)), None
            raise

    def run(self, values: Sequence[Any]) -> Outcome:
        """See `Statement`."""
        session, asked, storage = self._session, self._asked, self._found.storage
        if session.authority is not None:
            check_read(session.authority, self._found, None)
        try:
            table, start = self._feeds.subscribe(
                session, self._found, Wakeup(), snapshot=asked.snapshot, after=asked.after
            )
        except Behind as behind:
            raise PgError(
                "72000",
                f"the changes behind epoch {asked.after} are no longer kept, only those behind {behind.since}",
                hint="subscribe WITH SNAPSHOT, and go on from there",
            ) from None
        except ValueError as newest:
            raise PgError(
                "22023",
                f"epoch {asked.after} has not come yet: the newest one is {newest}",
                hint="give an epoch that a subscription of this server has told",
            ) from None
        subscription = Subscription(session, table, start, self._schema, progress=asked.progress, storage=storage)
        return Outcome(lambda count: f"SUBSCRIBE {count}", self.columns, subscription, (), subscription.stop)


class Subscription:
    """The rows that were there, as insertions; then the changes of each epoch as it ends.

    A row of progress has the kind `progress` and no values: all changes up to its epoch have been told.
    """

    def __init__(
        self, session: Session, table: MemoryTable, start: Start, schema: Schema, *, progress: bool, storage: Any
    ) -> None:
        self._session = session
        self._table = table
        self._start = start
        self._schema = schema
        self._progress = progress
        self._storage = storage
        self._stopped = False

    def stop(self) -> None:
        """It gives no more; from any thread."""
        self._stopped = True
        self._start.follower.wakeup.wake()

    def when_behind(self, call: Callable[[], object]) -> None:
        """`call` is called, by any thread, when whoever reads is too slow."""
        self._start.follower.on_behind = call

    def __iter__(self) -> Iterator[Piece]:
        start, session = self._start, self._session
        follower, durable, told = start.follower, session.durable, -1
        try:
            if start.rows is not None:
                for batch in start.rows.rows().to_batches(max_chunksize=PIECE):
                    yield _piece(start.epoch, ChangelogBatch(batch), self._schema)
                start.rows = None
            while not self._stopped and not session.closed.is_set():
                there = session.memory.get(self._storage) is self._table
                if there:
                    session.views.check(self._storage)
                try:
                    entries, complete = follower.take()
                except Behind:
                    raise too_slow() from None
                if entries and durable is not None:
                    durable.settle()
                for entry in entries:
                    yield from _shared(entry, self._schema)
                if self._progress and complete > told:
                    yield _progress(complete, self._schema)
                    told = complete
                if not there:
                    return
                if not entries:
                    follower.wakeup.wait(_PROGRESS_SECONDS if self._progress else None)
        finally:
            follower.close()


def too_slow() -> PgError:
    """What a client is told that reads less than changes."""
    return PgError(
        "53400",
        "the subscription was ended: its client has not read 64 MiB of changes",
        hint="subscribe anew, and read faster, or from a view that changes less",
    )


def _shared(entry: Shared, schema: Schema) -> Iterator[SharedPiece]:
    """The pieces of an epoch, the same ones for all subscribers."""

    def made() -> list[SharedPiece]:
        size = range(0, len(entry.batch), PIECE)
        return [SharedPiece(_piece(entry.epoch, _slice(entry.batch, at), schema)) for at in size]

    yield from entry.made("pieces", made)


def _slice(batch: ChangelogBatch, at: int) -> ChangelogBatch:
    kinds = None if batch.kinds is None else batch.kinds[at : at + PIECE]
    return ChangelogBatch(batch.rows.slice(at, PIECE), kinds)


_KINDS = pa.array(KIND_NAMES)


def _piece(epoch: int, batch: ChangelogBatch, schema: Schema) -> list[pa.Array]:
    operations = _KINDS.take(pa.array(batch.kinds_or_inserts()))
    columns = [carried(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return [pa.repeat(pa.scalar(epoch, pa.int64()), len(batch)), operations, *columns]


def _progress(epoch: int, schema: Schema) -> list[pa.Array]:
    values = [carried(pa.nulls(1, field.type.arrow), field.type) for field in schema]
    return [pa.array([epoch], pa.int64()), pa.array(["progress"]), *values]
