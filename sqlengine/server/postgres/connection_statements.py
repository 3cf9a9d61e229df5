"""What statements about the connection do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from runtime.core.types import TypeRoot
from sqlengine.catalog.objects import CatalogTable, ComputedColumn
from sqlengine.database.number_functions import numbers_of
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.server.postgres import commands as c
from sqlengine.server.postgres.copy_commands import CopyFrom, CopyTo
from sqlengine.server.postgres.copying import CopyReader, checked_columns
from sqlengine.server.postgres.cursor_commands import Close, Declare, Fetch
from sqlengine.server.postgres.cursors import Cursor
from sqlengine.server.postgres.notices import Notice
from sqlengine.server.postgres.parameter_values import from_wire
from sqlengine.server.postgres.portal import Portal, Pump
from sqlengine.server.postgres.settings import milliseconds
from sqlengine.server.postgres.sqlstate import PgError
from sqlengine.server.postgres.statements import Outcome, Statement, rows_outcome
from sqlengine.server.postgres.subscribing import Subscription
from sqlengine.server.postgres.types import TYPES, Described, PgType, columns_of
from sqlengine.server.postgres.words import with_back_ticks
from sqlengine.statements.planning import object_schema

if TYPE_CHECKING:
    from sqlengine.server.postgres.session import ClientSession

__all__ = ["ConnectionStatement"]

_READ_ONE_BY_ONE = frozenset(("bool", "bytea", "timestamptz"))


class ConnectionStatement:
    """A statement that the connection answers itself.

    Raises PgError, and what reading a query inside it raises.
    """

    parameters: Sequence[PgType | None] = ()

    def __init__(self, session: ClientSession, command: c.Command, given: Sequence[PgType | None] = ()) -> None:
        self._session = session
        self._command = command
        self._inner: Statement | None = None
        self.columns: Sequence[Described] | None = None
        match command:
            case c.Show(name=None):
                self.columns = [Described(n, TYPES["text"]) for n in ("name", "setting", "description")]
            case c.Show(name=str() as name):
                self.columns = [Described(session.settings.shown_name(name), TYPES["text"])]
            case Fetch(name=name, moves=False) if session.transaction.state != b"E":
                known = None if session.has_cursor(name) else session.portals.get(name)
                self.columns = (known or session.cursor(name)).outcome.columns
            case CopyTo(query=query, offset=offset) if session.transaction.state != b"E":
                self._inner = session.read_inner(query, offset, given)
            case Declare(query=query, offset=offset) if session.transaction.state != b"E":
                self._inner = session.read_inner(query, offset, given)
            case _:
                pass
        if self._inner is not None:
            self.parameters = self._inner.parameters

    @property
    def writes(self) -> str | None:
        """See `Statement`."""
        return "COPY FROM" if isinstance(self._command, CopyFrom) else None

    @property
    def in_failed_transaction(self) -> bool:
        """See `Statement`."""
        return isinstance(self._command, c.Commit | c.Rollback | c.RollbackTo)

    def run(self, values: Sequence[Any]) -> Outcome:
        """See `Statement`."""
        session, transaction = self._session, self._session.transaction
        match self._command:
            case c.Begin(tag=tag, reads_only=reads_only):
                warning = transaction.begin()
                if warning is None:
                    session.say_reads_only(reads_only)
                return _done(tag, warning)
            case c.SetModes(session=of_session, reads_only=reads_only):
                return _done("SET", session.set_modes(of_session, reads_only))
            case c.Commit():
                session.close_cursors()
                return _done(*transaction.commit())
            case c.Rollback():
                session.close_cursors()
                return _done("ROLLBACK", transaction.roll_back())
            case c.Savepoint(name=name):
                transaction.savepoint(name)
                return _done("SAVEPOINT")
            case c.Release(name=name):
                transaction.release(name)
                return _done("RELEASE")
            case c.RollbackTo(name=name):
                transaction.back_to(name)
                return _done("ROLLBACK")
            case c.Set(name=name, value=value):
                session.set(name, value)
                return _done("SET")
            case c.Reset(name=name):
                session.reset(name)
                return _done("RESET")
            case c.Show(name=name):
                return self._show(name)
            case c.Discard(everything=everything, numbers=numbers):
                if numbers:
                    numbers_of(session.environment.session).forget()
                if everything:
                    session.discard()
                return _done("DISCARD ALL" if everything else "DISCARD")
            case c.Deallocate(name=name):
                session.deallocate(name)
                return _done("DEALLOCATE ALL" if name is None else "DEALLOCATE")
            case Declare() as command:
                return self._declare(command, values)
            case Fetch() as command:
                return self._fetch(command)
            case Close(name=name):
                session.close_cursor(name)
                return _done("CLOSE CURSOR ALL" if name is None else "CLOSE CURSOR")
            case CopyTo(copying=copying):
                assert self._inner is not None
                outcome = self._inner.run(values)
                if outcome.columns is None:
                    raise PgError("0A000", "COPY writes the rows of a query")
                checked_columns(copying.force_quote, [column.name for column in outcome.columns])
                outcome.copy_out, outcome.tag = copying, lambda count: f"COPY {count}"
                return outcome
            case CopyFrom() as command:
                return _copy_in(session, command)
            case c.Index(path=path):
                session.environment.session.catalogs.get(path)
                told = "the index is not kept: rows are found by indexes that are made when queries need them"
                return _done("CREATE INDEX", Notice(told, "NOTICE", "00000"))
            case c.Ignored(tag=tag, notice=notice):
                return _done(tag, notice)
            case c.Listen(channel=channel):
                session.tell("LISTEN", lambda listener: listener.listen(channel))
                return _done("LISTEN")
            case c.Unlisten(channel=channel):
                session.tell("UNLISTEN", lambda listener: listener.unlisten(channel))
                return _done("UNLISTEN")
            case c.Notify(channel=channel, payload=payload):
                session.tell("NOTIFY", lambda listener: listener.tell(channel, payload))
                return _done("NOTIFY")

    def _show(self, name: str | None) -> Outcome:
        assert self.columns is not None
        settings = self._session.settings
        rows = [[n, v, ""] for n, v in settings.everything()] if name is None else [[settings.get(name)]]
        return rows_outcome("SHOW", self.columns, rows)

    def _declare(self, command: c.Declare, values: Sequence[Any]) -> Outcome:
        if self._session.transaction.state == b"I" and not command.hold:
            raise PgError(
                "25P01", "DECLARE CURSOR can only be used in transaction blocks", hint="BEGIN first, or say WITH HOLD"
            )
        assert self._inner is not None
        outcome = self._inner.run(values)
        if outcome.columns is None:
            raise PgError("42P11", "a cursor is for a query")
        if isinstance(outcome.pieces, Subscription):
            if command.scrolls:
                raise PgError("0A000", "a cursor of a subscription goes forward", hint="leave SCROLL out")
            outcome.pieces = Pump(iter(outcome.pieces))
        self._session.keep_cursor(command.name, Cursor(outcome, scrolls=command.scrolls))
        return _done("DECLARE CURSOR")

    def _fetch(self, command: Fetch) -> Outcome:
        portal = self._session.portals.get(command.name)
        if portal is not None and not self._session.has_cursor(command.name):
            return self._of_portal(portal, command)
        cursor = self._session.cursor(command.name)
        pump = cursor.outcome.pieces
        if isinstance(pump, Pump):
            pump.wait_until(None if command.timeout is None else _seconds(command.timeout))
        pieces = cursor.fetch(command.direction, command.count)
        if command.moves:
            count = sum(len(piece[0]) for piece in pieces)
            return _done(f"MOVE {count}")
        return Outcome(lambda count: f"FETCH {count}", cursor.outcome.columns, pieces)

    @staticmethod
    def _of_portal(portal: Portal, command: Fetch) -> Outcome:
        """A portal of the protocol is a cursor, too, that goes forward (asyncpg moves such)."""
        if command.direction != "forward" or (command.count is not None and command.count < 1):
            raise PgError("55000", "cursor can only scan forward")
        pieces = portal.take(command.count)
        if command.moves:
            count = sum(len(piece[0]) for piece in pieces)
            return _done(f"MOVE {count}")
        return Outcome(lambda count: f"FETCH {count}", portal.outcome.columns, pieces)


def _seconds(timeout: str) -> float:
    return milliseconds(timeout) / 1000


def _done(tag: str, warning: str | Notice | None = None) -> Outcome:
    return Outcome(lambda _: tag, notices=() if warning is None else (warning,))


def _copy_in(session: ClientSession, command: CopyFrom) -> Outcome:
    """Rows from the client into a table: all of them, or none."""
    environment = session.environment
    table = with_back_ticks(command.table)
    named = parse_statement(f"DESCRIBE {table}")
    assert isinstance(named, st.Describe) and isinstance(named.name, ddl.ObjectName)
    found = environment.session.catalogs.get(named.name.parts, named.name.span)
    if not isinstance(found, CatalogTable):
        raise PgError("42809", f'"{named.name.parts[-1]}" is not a table')
    schema = object_schema(environment.session, found)
    names = command.columns or tuple(
        field.name
        for field, column in zip(schema, found.columns, strict=True)
        if not isinstance(column, ComputedColumn)
    )
    for name in names:
        if name not in schema.names:
            raise PgError("42703", f'column "{name}" of relation "{found.path.name}" does not exist')
    for forced in (command.copying.force_not_null, command.copying.force_null):
        checked_columns(forced, names)
    chosen = [schema[schema.index_of(name)] for name in names]
    columns = columns_of(type(schema)(tuple(chosen)))
    reader = CopyReader(columns, command.copying)
    own = session.transaction.state == b"I"
    copied = 0
    began = False

    def write(batch: list[pa.Array]) -> int:
        casts = ", ".join(
            f"PARSE_JSON(`{i}`)"
            if field.type.root is TypeRoot.VARIANT
            else f"CAST(`{i}` AS {field.type.materialized().with_nullable(True)})"
            for i, field in enumerate(chosen)
        )
        rows = [
            array if command.copying.format == "binary" else _as_values(array, column, i)
            for i, (array, column) in enumerate(zip(batch, columns, strict=True), 1)
        ]
        copied_rows = pa.Table.from_arrays(rows, names=[str(i) for i in range(len(rows))])
        # Held by nothing but this call: a temporary view would keep the rows for as long as the client is there.
        given = environment.from_arrow(copied_rows)
        targets = ", ".join(f"`{name}`" for name in names)
        query = f"SELECT {casts} FROM ({given.query.code.sql}) AS copied"
        environment.execute_sql(f"INSERT INTO {table} ({targets}) {query}").wait()
        return len(rows[0])

    def take(data: bytes | None) -> int:
        nonlocal copied, began
        try:
            if own and not began:
                environment.execute_sql("BEGIN EPOCH")
                began = True
            batch = reader.feed(data)
            if batch is not None and len(batch[0]):
                copied += write(batch)
            if data is None and own:
                began = False
                environment.execute_sql("END EPOCH")
        except BaseException:
            if began and environment.session.in_epoch:
                began = False
                environment.execute_sql("ROLLBACK EPOCH")
            raise
        return copied

    def stop() -> None:
        if began and environment.session.in_epoch:
            environment.execute_sql("ROLLBACK EPOCH")

    return Outcome(
        lambda _: f"COPY {copied}",
        copy_in=take,
        copy_in_columns=len(columns),
        copy_out=command.copying,
        stop=stop,
    )


def _as_values(texts: pa.Array, column: Described, number: int) -> pa.Array:
    """Texts of types whose form in PostgreSQL the engine's CAST does not read, as values."""
    if column.type.name not in _READ_ONE_BY_ONE and column.type.element is None:
        return texts
    encoded = (None if text is None else text.encode() for text in texts.to_pylist())
    return pa.array([from_wire(number, text, False, column.type) for text in encoded])
