"""One client: its messages in their order, and what is answered to each.

Source: PostgreSQL 15, 55.2 "Message Flow". Sockets are asyncio's; statements run on the connection's own thread.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from runtime.core.errors import DatabaseError, SqlEngineError
from runtime.core.logs import Log
from runtime.core.wakeup import nobody
from sqlengine.server.postgres import messages as m
from sqlengine.server.postgres.copy_in import take_copy
from sqlengine.server.postgres.copying import BINARY_END, BINARY_SIGNATURE
from sqlengine.server.postgres.encoding import formats_for
from sqlengine.server.postgres.engine import EngineStatement
from sqlengine.server.postgres.notices import Notice, is_wanted, notice_fields
from sqlengine.server.postgres.notifying import deaf
from sqlengine.server.postgres.own_thread import OwnThread
from sqlengine.server.postgres.parameter_values import from_wire, type_by_oid
from sqlengine.server.postgres.portal import Portal
from sqlengine.server.postgres.quick import QuickLookups
from sqlengine.server.postgres.sending import Form, begin_copy, follow
from sqlengine.server.postgres.session import ClientSession, Named
from sqlengine.server.postgres.sqlstate import PgError, error_fields
from sqlengine.server.postgres.statements import Outcome, Piece, Statement
from sqlengine.server.postgres.subscribing import Subscription, too_slow
from sqlengine.server.postgres.types import TYPES, Described
from sqlengine.server.postgres.wire import Wire
from sqlengine.server.postgres.words import changes_rows, split

if TYPE_CHECKING:
    from sqlengine.server.postgres.listener import PostgresServer

__all__ = ["Connection"]

T = TypeVar("T")
_log = Log("server")
_NOTHING = object()
_LAST_WORDS_SECONDS = 10.0
"""A client that is dropped has so long to read why."""


class Connection:
    """A client that has said who it is.

    Args:
        number, secret: by which a CancelRequest names it.
    """

    def __init__(self, server: PostgresServer, wire: Wire, session_of: Callable[[Connection], ClientSession]) -> None:
        self._server = server
        self._wire = wire
        self.number = server.next_number()
        self.secret = secrets.randbits(32)
        self._thread = OwnThread(f"client {self.number}")
        self._bound: dict[str, tuple[Named, list[Any]]] = {}
        """What portals are of: a statement and its values."""
        self._formats: dict[str, Sequence[int]] = {}
        """The formats that a client has asked for, by portal."""
        self.session = session_of(self)
        self._quick = QuickLookups(self.session, wire, server.lookups, self._bound, self._tell_error)
        self._loop = asyncio.get_running_loop()
        self._text, self._began = "", 0.0
        self._waits = False
        """Whether the client has all its answers, and no transaction open."""
        self.session.listener.on_heard = partial(server.calls.add, self._tell_heard)
        self.session.listener.on_deaf = partial(server.calls.add, partial(self._drop, deaf()))
        wire.on_room = self._tell_heard
        wire.on_lost = self._lost
        if wire.ended:
            # It has sent all that it wants, and was gone before anybody looked.
            self._lost()

    # --- its life

    async def run(self) -> None:
        """Answer messages until the client leaves."""
        self._ready()
        try:
            while (read := await self._next()) is not None:
                type_, payload = read
                if type_ == b"X":
                    return
                if self._server.access.is_doubtful:
                    await self._in_thread(self._server.access.check_owner)
                await self._answer(type_, payload)
                if not self._wire.has_more:
                    await self._wire.drain()
        except m.Malformed as error:
            self._tell_error(PgError("08P01", f"protocol violation: {error}"), severity="FATAL")
        except DatabaseError as error:
            self._tell_error(PgError("57P01", error.message, hint="connect again"), severity="FATAL")
        finally:
            await self._in_thread(self.session.close)
            self._thread.end()

    async def _next(self) -> tuple[bytes, m.Payload] | None:
        """The next message that is no lookup."""
        wire = self._wire
        while wire.has_more and self._quick.take():
            await asyncio.sleep(0)
        wire.quick = self._quick.take
        try:
            return await wire.read()
        finally:
            wire.quick = None

    def _lost(self) -> None:
        self.session.leave()

    def cancel(self, why: str = "canceling statement due to user request") -> None:
        """Stop the statement at hand; from any thread."""
        self.session.cancel(why)

    def terminate(self, why: str) -> None:
        """End it; from any thread."""
        self._loop.call_soon_threadsafe(self.end, why)

    def end(self, why: str) -> None:
        """The server stops, or somebody ends the connection."""
        self._tell_error(PgError("57P01", why), severity="FATAL")
        self.session.cancel(why)
        self._wire.close()

    def _drop(self, why: PgError) -> None:
        """The client does not read."""
        self._tell_error(why, severity="FATAL")
        self.session.cancel("the client does not read")
        self._wire.close()
        self._loop.call_later(_LAST_WORDS_SECONDS, self._wire.abort)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await self._thread.do(work)

    async def _in_session(self, work: Callable[[], T]) -> T:
        """A piece of the statement at hand."""
        return await self._in_thread(lambda: self.session.run(work))

    # --- telling

    def tell_setting(self, name: str, value: str) -> None:
        """A setting has changed; from the connection's thread."""
        self._loop.call_soon_threadsafe(self._wire.send, m.parameter_status(name, value))

    def _ready(self) -> None:
        state = self.session.transaction.state
        self._waits = state == b"I"
        self._tell_heard()
        self._wire.send(m.ready(state))

    def _tell_heard(self) -> None:
        """Notifications go to a client that waits for nothing else."""
        if self._waits and not self._wire.is_behind:
            for notification in self.session.listener.take():
                self._wire.send(notification.wire())

    def _tell_error(self, error: BaseException, offset: int = 0, severity: str = "ERROR") -> None:
        if not isinstance(error, PgError | SqlEngineError):
            _log.failure(f"connection {self.number}", error)
        self._wire.send(m.error_or_notice(b"E", error_fields(error, offset, severity=severity)))

    def _tell_notices(self, notices: Sequence[str | Notice]) -> None:
        least = self.session.settings.get("client_min_messages") if notices else ""
        for told in notices:
            notice = told if isinstance(told, Notice) else Notice(told)
            if is_wanted(notice, least):
                self._wire.send(m.error_or_notice(b"N", notice_fields(notice)))

    # --- messages

    async def _answer(self, type_: bytes, payload: m.Payload) -> None:
        self._waits = False
        match type_:
            case b"Q":
                text = payload.text()
                payload.end()
                await self._simple(text)
                self._ready()
            case b"S":
                payload.end()
                self.session.skips = False
                self._ready()
            case b"H":
                await self._wire.drain()
            case b"P" | b"B" | b"D" | b"E" | b"C":
                if not self.session.skips:
                    await self._extended(type_, payload)
            case b"d" | b"c" | b"f":
                pass  # What is left of a COPY that has failed.
            case b"F":
                self._tell_error(PgError("0A000", "function calls of the protocol are not supported; use SELECT"))
                self._ready()
            case _:
                raise m.Malformed(f"a message of type {type_!r}")

    async def _simple(self, text: str) -> None:
        parts = split(text)
        if not parts:
            self._wire.send(m.message(b"I"))
            return
        together = (
            len(parts) > 1 and self.session.transaction.state == b"I" and all(changes_rows(part) for _, part in parts)
        )
        if together:
            await self._in_thread(self.session.transaction.begin)
        for offset, part in parts:
            if not await self._whole(part, offset):
                if together:
                    await self._in_thread(self.session.transaction.roll_back)
                return
        if together:
            try:
                await self._in_thread(self.session.transaction.commit)
            except Exception as error:
                self._tell_error(error)

    async def _whole(self, text: str, offset: int) -> bool:
        """A statement of a Query message from its text to its tag; whether it has succeeded."""
        session = self.session
        timer = self._begin(text)
        portal = None
        try:
            portal = Portal(await self._in_thread(lambda: session.run(lambda: self._read_and_run(text))))
            await self._deliver(portal, None, (), offset, described=False)
        except m.Malformed:
            raise
        except Exception as error:
            session.transaction.fail()
            self._write_down(text, portal, error)
            self._tell_error(error, offset)
            return False
        finally:
            self._end(timer)
        self._write_down(text, portal)
        return True

    def _read_and_run(self, text: str) -> Outcome:
        statement = self.session.read(text)
        self.session.check(statement)
        if statement.parameters:
            raise PgError("42P02", "there is no parameter $1", hint="parameters are values of the extended protocol")
        return statement.run(())

    def _begin(self, text: str | None = None) -> asyncio.TimerHandle | None:
        """`text`: of the statement at hand, where it is known already."""
        self.session.begin_statement()
        if text is not None:
            self.session.activity.begin(text)
        self._began = time.perf_counter()
        timeout = self.session.timeout
        return None if timeout is None else self._loop.call_later(timeout[0], self.cancel, timeout[1])

    def _write_down(self, text: str, portal: Portal | None, error: Exception | None = None) -> None:
        """In the audit, where there is one. `portal`: how many rows were sent, as far as it has begun to give some."""
        session = self.session
        if session.trail is not None:
            rows = None if portal is None or portal.outcome.columns is None else portal.count
            seconds, canceled = time.perf_counter() - self._began, session.cancelled is not None
            session.trail.statement(text, seconds, rows=rows, error=error, canceled=canceled)

    def _end(self, timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()
        self.session.stops_by(None)
        self.session.activity.end(in_transaction=self.session.transaction.state != b"I")

    async def _extended(self, type_: bytes, payload: m.Payload) -> None:
        offset = 0
        timer = self._begin() if type_ in b"PE" else None
        try:
            match type_:
                case b"P":
                    await self._parse(payload)
                case b"B":
                    await self._bind(payload)
                case b"D":
                    self._describe(payload)
                case b"E":
                    await self._execute(payload)
                case _:
                    self._close(payload)
        except m.Malformed:
            raise
        except Exception as error:
            self.session.transaction.fail()
            self.session.skips = True
            if type_ in b"PE":
                self._write_down(self._text, None, error)
            self._tell_error(error, offset)
        finally:
            if type_ in b"PE":
                self._end(timer)

    async def _parse(self, payload: m.Payload) -> None:
        name, text = payload.text(), payload.text()
        self._text = text
        self.session.activity.begin(text)
        given = [type_by_oid(payload.int32() & 0xFFFFFFFF) for _ in range(payload.count())]
        payload.end()
        if name and name in self.session.statements:
            raise PgError("42P05", f'prepared statement "{name}" already exists')
        parts = split(text)
        if len(parts) > 1:
            raise PgError("42601", "cannot insert multiple commands into a prepared statement")
        session = self.session
        known = session.recent.get((text, *given))
        if known is not None and self._quick.holds(known):
            session.statements[name] = known
            self._wire.send(m.message(b"1"))
            return
        statement = None
        if parts:
            offset, part = parts[0]
            try:
                statement = await self._in_thread(lambda: session.run(lambda: session.read(part, given)))
            except SqlEngineError as error:
                error.span = error.span if error.span is None else error.span.shift(offset)
                raise
        named = session.statements[name] = Named(text, statement, given)
        if isinstance(statement, EngineStatement) and statement.is_query:
            session.remember((text, *given), named)
        self._wire.send(m.message(b"1"))

    def _statement(self, name: str) -> Named:
        found = self.session.statements.get(name)
        if found is None:
            raise PgError("26000", f'prepared statement "{name}" does not exist')
        return found

    async def _bind(self, payload: m.Payload) -> None:
        portal, name = payload.text(), payload.text()
        formats = [payload.int16() for _ in range(payload.count())]
        raw: list[bytes | None] = []
        for _ in range(payload.count()):
            size = payload.int32()
            raw.append(None if size < 0 else payload.take(size))
        results = [payload.int16() for _ in range(payload.count())]
        payload.end()
        named = self._statement(name)
        if len(raw) != len(named.types):
            raise PgError(
                "08P01",
                f'bind message supplies {len(raw)} parameters, but prepared statement "{name}" requires {len(named.types)}',
            )
        binary = formats_for(len(raw), formats)
        values = [
            from_wire(i, data, bool(format_), type_)
            for i, (data, format_, type_) in enumerate(zip(raw, binary, named.types, strict=True), 1)
        ]
        if portal and portal in self.session.portals:
            raise PgError("42P03", f'portal "{portal}" already exists')
        old = self.session.portals.pop(portal, None)
        if old is not None and not old.ended:
            await self._in_thread(old.close)
        self._bound[portal] = named, values
        self._formats[portal] = results
        self._wire.send(m.message(b"2"))

    def _describe(self, payload: m.Payload) -> None:
        kind, name = payload.byte(), payload.text()
        payload.end()
        if kind == b"S":
            named = self._statement(name)
            oids = [(t or TYPES["text"]).oid for t in named.types]
            self._wire.send(m.parameter_description(oids))
            formats: Sequence[int] = ()
            columns = None if named.statement is None else named.statement.columns
        elif kind == b"P":
            columns, formats = self._columns_of_portal(name), self._formats.get(name, ())
        else:
            raise m.Malformed(f"Describe of {kind!r}")
        if columns is None:
            self._wire.send(m.message(b"n"))
        else:
            self._wire.send(m.row_description(columns, formats_for(len(columns), formats)))

    def _columns_of_portal(self, name: str) -> Sequence[Described] | None:
        """Cursors are portals, too."""
        if name not in self._bound and self.session.has_cursor(name):
            return self.session.cursor(name).outcome.columns
        statement = self._portal_statement(name).statement
        return None if statement is None else statement.columns

    def _portal_statement(self, name: str) -> Named:
        found = self._bound.get(name)
        if found is None:
            raise PgError("34000", f'portal "{name}" does not exist')
        return found[0]

    async def _execute(self, payload: m.Payload) -> None:
        name, most = payload.text(), payload.int32()
        payload.end()
        session, self._text = self.session, ""
        portal = session.portals.get(name)
        begins = portal is None
        if portal is None:
            named = self._portal_statement(name)
            self._text = named.text
            session.activity.begin(named.text)
            values, statement = self._bound[name][1], named.statement
            if statement is None:
                self._wire.send(m.message(b"I"))
                return
            session.check(statement)
            outcome = await self._in_thread(lambda: session.run(lambda: self._run_and_learn(named, statement, values)))
            portal = session.portals[name] = Portal(outcome)
        await self._deliver(portal, most if most > 0 else None, self._formats.get(name, ()), 0, described=True)
        if begins:
            self._write_down(self._text, portal)

    def _run_and_learn(self, named: Named, statement: Statement, values: Sequence[Any]) -> Outcome:
        outcome = statement.run(values)
        if self.session.looks_up_quickly:
            self._quick.learn(named)
        return outcome

    def _close(self, payload: m.Payload) -> None:
        kind, name = payload.byte(), payload.text()
        payload.end()
        if kind == b"S":
            self.session.statements.pop(name, None)
        else:
            self._bound.pop(name, None)
            portal = self.session.portals.pop(name, None)
            if portal is not None:
                portal.close()
        self._wire.send(m.message(b"3"))

    # --- rows

    async def _deliver(
        self, portal: Portal, most: int | None, asked: Sequence[int], offset: int, *, described: bool
    ) -> None:
        """Send the rows of a portal, at most so many, and its tag."""
        outcome = portal.outcome
        self._tell_notices(outcome.notices)
        outcome.notices = ()
        self.session.stops_by(outcome.stop)
        if isinstance(outcome.pieces, Subscription):
            outcome.pieces.when_behind(lambda: self._loop.call_soon_threadsafe(self._drop, too_slow()))
        if outcome.copy_in is not None:
            await take_copy(outcome, self._wire, self._in_session, self._in_thread)
        elif outcome.columns is not None:
            if outcome.copy_out is not None:
                self._wire.send(begin_copy(outcome))
            elif not described:
                self._wire.send(m.row_description(outcome.columns, [0] * len(outcome.columns)))
            if await self._send_rows(portal, most, asked):
                self._wire.send(m.message(b"s"))
                return
            if outcome.copy_out is not None:
                if outcome.copy_out.format == "binary":
                    self._wire.send(m.message(b"d", BINARY_END if portal.count else BINARY_SIGNATURE + BINARY_END))
                self._wire.send(m.message(b"c"))
        self._wire.send(m.command_complete(outcome.tag(portal.count)))

    async def _send_rows(self, portal: Portal, most: int | None, asked: Sequence[int]) -> bool:
        """Whether there are more rows than were asked for."""
        session, outcome = self.session, portal.outcome
        assert outcome.columns is not None
        form = Form(outcome.columns, asked, outcome.copy_out, session.environment.session.time_zone)
        if most is None and isinstance(outcome.pieces, Subscription) and not outcome.pieces.begun:
            await self._send_changes(portal, outcome.pieces, form)
            return False
        await self._send_pieces(portal, portal.take(most), form)
        if most is None or portal.ended:
            return False
        return await self._in_thread(lambda: session.run(portal.peek))

    async def _send_pieces(self, portal: Portal, pieces: Iterator[Piece], form: Form) -> None:
        def next_bytes() -> Any:
            piece = next(pieces, None)
            return _NOTHING if piece is None else form.made(piece, portal)

        def begin() -> asyncio.Future[Any]:
            return self._thread.do(lambda: self.session.run(next_bytes))

        made = begin()
        while (data := await made) is not _NOTHING:
            self._wire.send(data)
            # The next piece is made while the client reads this one.
            made = begin()
            await self._wire.drain()

    async def _send_changes(self, portal: Portal, subscription: Subscription, form: Form) -> None:
        portal.ended = True
        try:
            await self._send_pieces(portal, portal.counted(subscription.snapshot()), form)
            await follow(subscription, portal, form, self._wire, self._server.calls, self._in_thread)
        finally:
            subscription.close()
        # It may have ended because it was cancelled.
        self.session.run(nobody)
