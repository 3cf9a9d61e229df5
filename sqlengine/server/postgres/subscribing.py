"""SUBSCRIBE as clients of PostgreSQL send it.

SUBSCRIBE [TO] {v | (query)} [WITH SNAPSHOT | WITHOUT SNAPSHOT] [WITH PROGRESS] [AS OF epoch]
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from connectors.memory import MemoryTable
from runtime.core.changelog import KIND_NAMES, ChangelogBatch
from runtime.core.errors import SqlEngineError, UnsupportedError
from runtime.core.schema import Schema
from runtime.core.wakeup import Wakeup, nobody
from sqlengine.api.environment import TableEnvironment
from sqlengine.catalog.objects import CatalogTable, MaterializedView
from sqlengine.database.acting import check_read
from sqlengine.database.session import Session
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.trees import Tree
from sqlengine.server.feeds import Behind, Feeds, Shared, Start
from sqlengine.server.postgres.engine import carried, dialect_of, spoken
from sqlengine.server.postgres.sqlstate import PgError
from sqlengine.server.postgres.statements import PIECE, Outcome, Piece, SharedPiece
from sqlengine.server.postgres.types import TYPES, Described, PgType, columns_of
from sqlengine.server.postgres.words import Reader, with_back_ticks
from sqlengine.statements.followed_queries import FollowedQuery, follow_query, followed_schema

__all__ = ["SubscribeStatement", "Subscription", "too_slow"]

T = TypeVar("T")

_EPOCH = Described("epoch", TYPES["int8"])
_OP = Described("op", TYPES["text"])
_PROGRESS_SECONDS = 1.0
_DESCRIBE = "DESCRIBE "


@dataclass(frozen=True)
class _Asked:
    """`at`: where the name, or the query, stands in the text. `after`: the epoch of AS OF."""

    name: str
    is_query: bool
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
    first = reader.peek()
    is_query = first is not None and first.kind == "other" and first.value == "("
    if is_query:
        reader.parenthesized()
    else:
        reader.name()
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
    named, begin = text[first.start : end].strip(), first.start
    if is_query:
        named, begin = named[1:-1], begin + 1
    return _Asked(named, is_query, begin, snapshot is not False and after is None, progress, after)


class SubscribeStatement:
    """Raises what reading it, and looking up its name, raise."""

    in_failed_transaction = False
    writes: str | None = None
    parameters: Sequence[PgType | None] = ()

    def __init__(self, environment: TableEnvironment, feeds: Feeds, asked: _Asked) -> None:
        self._session = environment.session
        self._feeds = feeds
        self._asked = asked
        if asked.is_query:
            self._query = self._read_query()
            self._schema = self._spoken(lambda: followed_schema(self._query, self._session))
        else:
            found = self._found = self._object()
            self._schema = self._session.at_a_version(lambda: self._session.memory_table(found).schema)
        self.columns: Sequence[Described] | None = (_EPOCH, _OP, *columns_of(self._schema))

    @staticmethod
    def read(environment: TableEnvironment, feeds: Feeds, text: str) -> SubscribeStatement | None:
        """None for another statement."""
        asked = _read(text)
        return None if asked is None else SubscribeStatement(environment, feeds, asked)

    def _read_query(self) -> Tree:
        def read() -> Tree:
            parsed = parse_statement(self._asked.name, dialect_of(self._session.options))
            if isinstance(parsed, st.QueryStatement):
                return parsed.query.query
            raise PgError("42601", "SUBSCRIBE (..) follows a query", hint="SUBSCRIBE TO v follows a table or view")

        return self._placed(read, 0)

    def _spoken(self, work: Callable[[], T]) -> T:
        return self._placed(lambda: spoken(self._session.options, work), 0)

    def _placed(self, work: Callable[[], T], before: int) -> T:
        """Places in errors count from the begin of the statement. `before`: how much stands before the text."""
        try:
            return work()
        except SqlEngineError as error:
            if error.span is not None:
                error.span, error.text = error.span.shift(self._asked.at - before), None
            raise

    def _object(self) -> CatalogTable | MaterializedView:
        def find() -> CatalogTable | MaterializedView:
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
                hint=f"SUBSCRIBE (SELECT * FROM {self._asked.name}), or CREATE MATERIALIZED VIEW over it",
            )

        return self._placed(find, len(_DESCRIBE))

    def run(self, values: Sequence[Any]) -> Outcome:
        """See `Statement`."""
        session, asked = self._session, self._asked
        query: FollowedQuery | None = None
        try:
            if asked.is_query:
                query, start = self._follow()
                table, storage = query.contents, query.path
            else:
                found, storage = self._found, self._found.storage
                if session.authority is not None:
                    check_read(session.authority, found, None)
                table, start = self._feeds.subscribe(
                    session, found, Wakeup(), snapshot=asked.snapshot, after=asked.after, by_history=True
                )
        except Behind as behind:
            raise PgError(
                "72000",
                f"the changes behind epoch {asked.after} are no longer kept, only those behind {behind.since}",
                hint="subscribe to a materialized view, which goes on behind an epoch"
                if asked.is_query
                else "subscribe WITH SNAPSHOT, and go on from there",
            ) from None
        except ValueError as newest:
            raise PgError(
                "22023",
                f"epoch {asked.after} has not come yet: the newest one is {newest}",
                hint="give an epoch that a subscription of this server has told",
            ) from None
        subscription = Subscription(session, table, start, self._schema, progress=asked.progress, storage=storage)
        if query is not None:
            end = partial(_end_beside, query, self._feeds)
            subscription.on_end = end
            # One that nobody has begun to read ends nothing by itself.
            weakref.finalize(subscription, end).atexit = False
        return Outcome(lambda count: f"SUBSCRIBE {count}", self.columns, subscription, (), subscription.stop)

    def _follow(self) -> tuple[FollowedQuery, Start]:
        session, asked, wakeup = self._session, self._asked, Wakeup()

        def begin(contents: MemoryTable) -> Start:
            session.views.tell_followers(wakeup)
            return self._feeds.start(contents, wakeup, snapshot=asked.snapshot, after=asked.after)

        session.views.let_time_pass()
        return self._spoken(lambda: follow_query(self._query, asked.name, session, begin))


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
        self.progress = progress
        self.patience = _PROGRESS_SECONDS if progress else None
        """So many seconds it is waited for changes before it is looked at again."""
        self._storage = storage
        self._stopped = False
        self.begun = False
        """Whether somebody reads it by pieces."""
        self.on_end: Callable[[], object] = nobody
        """Called when nobody reads it any more."""

    @property
    def wakeup(self) -> Wakeup:
        """Is woken when there may be more, or it is over."""
        return self._start.follower.wakeup

    @property
    def over(self) -> bool:
        """Whether it was stopped, or the session has ended."""
        return self._stopped or self._session.closed.is_set()

    def stop(self) -> None:
        """It gives no more; from any thread."""
        self._stopped = True
        self.wakeup.wake()

    def when_behind(self, call: Callable[[], object]) -> None:
        """`call` is called, by any thread, when whoever reads is too slow."""
        self._start.follower.on_behind = call

    def __iter__(self) -> Iterator[Piece]:
        self.begun = True
        try:
            yield from self.snapshot()
            told = -1
            while not self.over:
                there = self.look()
                entries, complete = self.take()
                for entry in entries:
                    yield from entry.made("pieces", partial(self.made, entry))
                if self.progress and complete > told:
                    yield self.progress_row(complete)
                    told = complete
                if not there:
                    return
                if not entries:
                    self.wakeup.wait(self.patience)
        finally:
            self.close()

    def close(self) -> None:
        """Nobody reads it any more."""
        self._start.follower.close()
        self.on_end()

    def snapshot(self) -> Iterator[Piece]:
        """The rows that were there, or what was missed."""
        start = self._start
        if start.rows is not None:
            for batch in start.rows.rows().to_batches(max_chunksize=PIECE):
                yield _piece(start.epoch, ChangelogBatch(batch), self._schema)
            start.rows = None
        if start.missed is not None:
            for at in range(0, len(start.missed), PIECE):
                yield _piece(start.epoch, _slice(start.missed, at), self._schema)
            start.missed = None

    def look(self) -> bool:
        """Whether what it follows is still there. Raises PlanningError E1713 when that has failed."""
        there = self._session.memory.get(self._storage) is self._table
        if there:
            self._session.views.check(self._storage)
        return there

    def take(self) -> tuple[list[Shared], int]:
        """What has come, and the epoch up to which that is all. Raises PgError 53400."""
        try:
            return self._start.follower.take()
        except Behind:
            raise too_slow() from None

    def changes(self) -> list[Shared]:
        """What has come. Waits for nobody. Raises PgError 53400."""
        try:
            return self._start.follower.changes()
        except Behind:
            raise too_slow() from None

    def made(self, entry: Shared) -> list[SharedPiece]:
        """The pieces of an epoch, the same ones for all subscribers, once nobody can lose it any more. Raises DatabaseError
        E3704."""
        if self._session.durable is not None:
            self._session.durable.settle()
        size = range(0, len(entry.batch), PIECE)
        return [SharedPiece(_piece(entry.epoch, _slice(entry.batch, at), self._schema)) for at in size]

    def progress_row(self, epoch: int) -> Piece:
        """All changes up to an epoch have been told."""
        values = [carried(pa.nulls(1, field.type.arrow), field.type) for field in self._schema]
        return [pa.array([epoch], pa.int64()), pa.array(["progress"]), *values]


def _end_beside(query: FollowedQuery, feeds: Feeds) -> None:
    """Keep the answer no longer: on a thread of its own, because the one at hand may collect garbage with any lock held."""

    def end() -> None:
        query.close()
        feeds.end(query.contents)

    threading.Thread(target=end, name=f"end of {query.path.name}", daemon=True).start()


def too_slow() -> PgError:
    """What a client is told that reads less than changes."""
    return PgError(
        "53400",
        "the subscription was ended: its client has not read 64 MiB of changes",
        hint="subscribe anew, and read faster, or from a view that changes less",
    )


def _slice(batch: ChangelogBatch, at: int) -> ChangelogBatch:
    kinds = None if batch.kinds is None else batch.kinds[at : at + PIECE]
    return ChangelogBatch(batch.rows.slice(at, PIECE), kinds)


_KINDS = pa.array(KIND_NAMES)


def _piece(epoch: int, batch: ChangelogBatch, schema: Schema) -> list[pa.Array]:
    operations = _KINDS.take(pa.array(batch.kinds_or_inserts()))
    columns = [carried(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return [pa.repeat(pa.scalar(epoch, pa.int64()), len(batch)), operations, *columns]
