"""What one connection has: its session of the engine, settings, prepared statements, portals, cursors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from runtime.core.cancellation import Cancellation
from sqlengine.api.environment import TableEnvironment
from sqlengine.database.session import TIME_ZONE
from sqlengine.roles.limits import NO_LIMITS, Limits
from sqlengine.server.audit import Trail
from sqlengine.server.feeds import Feeds
from sqlengine.server.postgres.activity import Activity
from sqlengine.server.postgres.catalogue import Catalogues
from sqlengine.server.postgres.commands import read as read_command
from sqlengine.server.postgres.connection_statements import ConnectionStatement
from sqlengine.server.postgres.cursors import Cursor
from sqlengine.server.postgres.definitions import read_definition
from sqlengine.server.postgres.engine import EngineStatement
from sqlengine.server.postgres.notifying import Listener, Notifications
from sqlengine.server.postgres.portal import Portal
from sqlengine.server.postgres.replicating import ReplicateStatement
from sqlengine.server.postgres.settings import Settings, milliseconds
from sqlengine.server.postgres.sqlstate import PgError
from sqlengine.server.postgres.statements import Statement
from sqlengine.server.postgres.subscribing import SubscribeStatement
from sqlengine.server.postgres.transactions import Transaction
from sqlengine.server.postgres.types import PgType
from sqlengine.statements.point_lookup import PointLookup

__all__ = ["ClientSession", "Named"]

_MOST_RECENT = 100


class Named:
    """A statement of Parse: by name, with its text for errors, and the types that the client says its parameters have."""

    def __init__(self, text: str, statement: Statement | None, given: list[PgType | None]) -> None:
        self.text = text
        self.statement = statement
        """None for a text without a statement."""
        known = [] if statement is None else list(statement.parameters)
        size = max(len(known), len(given))
        known += [None] * (size - len(known))
        self.types = [told or found for told, found in zip(given + [None] * (size - len(given)), known, strict=True)]
        self.lookup: PointLookup | None = None
        """What it looks up, once that is known."""


class ClientSession:
    """Used from the connection's thread, but for `cancel`.

    Args:
        environment: its own.
        catalogues: what answers questions about the catalogue, shared by all connections.
        feeds: what subscriptions read, shared, too.
        number: of the connection.
        changed: called with each setting that the client must be told of.
        terminate: ends the connection, from any thread: called with why.
        notifications: what sessions tell each other.
        trail: where its statements are written down, if they are.
    """

    def __init__(
        self,
        environment: TableEnvironment,
        catalogues: Catalogues,
        feeds: Feeds,
        number: int,
        changed: Callable[[str, str], object],
        terminate: Callable[[str], object],
        notifications: Notifications,
        trail: Trail | None = None,
    ) -> None:
        self.number = number
        self.client = ""
        """Where the client is, for those who operate the server."""
        self.activity = Activity()
        self.terminate = terminate
        self.trail = trail
        self.environment = environment
        self.settings = Settings(changed)
        self.listener = Listener(notifications, number)
        self.transaction = Transaction(environment, self.listener)
        self.statements: dict[str, Named] = {}
        self.recent: dict[Any, Named] = {}
        """Queries without a name that were lookups, by their text and the types of their parameters."""
        self.portals: dict[str, Portal] = {}
        self.skips = False
        """Whether an error was told and messages are passed over until Sync."""
        self._catalogues = catalogues
        self._feeds = feeds
        self._cursors: dict[str, Cursor] = {}
        self._running = threading.Lock()
        self._cancellation: Cancellation | None = None
        self._stop: Callable[[], object] | None = None
        self._gone = False
        self.cancelled: str | None = None
        """Why the statement at hand was cancelled."""

    # --- statements

    def read(self, text: str, given: Sequence[PgType | None] = ()) -> Statement:
        """A statement, by whoever answers it. `given`: the types that the client says its parameters have. Raises what
        reading it raises."""
        command = read_command(text, self.settings.knows)
        if command is not None:
            return ConnectionStatement(self, command, given)
        self.transaction.check()
        following = ReplicateStatement.read(
            self.environment, self._feeds, text, self.client
        ) or SubscribeStatement.read(self.environment, self._feeds, text)
        if following is not None:
            return following
        catalogue = self._catalogues.statement(text, self)
        if catalogue is not None:
            return catalogue
        statement = read_definition(self.environment, text) or EngineStatement(self.environment, text, given)
        if statement.defines:
            self.transaction.defined = True
        return statement

    def read_inner(self, text: str, offset: int, given: Sequence[PgType | None] = ()) -> Statement:
        """A statement inside another one; places in errors count from the outer one."""
        try:
            return self.read(text, given)
        except Exception as error:
            span = getattr(error, "span", None)
            if span is not None:
                error.span = span.shift(offset)  # type: ignore[attr-defined]
            raise

    def check(self, statement: Statement) -> None:
        """Raise PgError 25P02 or 25006 for one that the transaction cannot have."""
        if not statement.in_failed_transaction:
            self.transaction.check()
        if statement.writes is not None and self._reads_only:
            raise PgError("25006", f"cannot execute {statement.writes} in a read-only transaction")

    def remember(self, text: Any, named: Named) -> None:
        """A query was read: it may come again."""
        if len(self.recent) >= _MOST_RECENT:
            self.recent.clear()
        self.recent[text] = named

    # --- settings

    @property
    def _reads_only(self) -> bool:
        """A replica refuses by itself, and names its leader."""
        if self._is_replica:
            return False
        of_session = self.transaction.state == b"I"
        name = "default_transaction_read_only" if of_session else "transaction_read_only"
        return self.settings.get(name).lower() in ("on", "true", "yes", "1")

    @property
    def _is_replica(self) -> bool:
        return self.environment.session.database.replica is not None

    def say_reads_only(self, value: bool | None) -> None:
        """Whether the transaction at hand only reads; None: as the session says. Raises PgError 25001 at a replica."""
        if self._is_replica:
            if value is False:
                raise PgError("25001", "cannot set transaction read-write mode during recovery")
            return
        default = self.settings.get("default_transaction_read_only")
        self.settings.set("transaction_read_only", default if value is None else "on" if value else "off")

    def set_modes(self, of_session: bool, reads_only: bool | None) -> str | None:
        """SET TRANSACTION, or what all transactions of the session are; a warning."""
        if of_session:
            if reads_only is not None and not self._is_replica:
                self.settings.set("default_transaction_read_only", "on" if reads_only else "off")
            return None
        if self.transaction.state == b"I":
            return "SET TRANSACTION can only be used in transaction blocks"
        if reads_only is not None:
            self.say_reads_only(reads_only)
        return None

    def start(self, name: str, value: str) -> None:
        """A value of the startup message: RESET comes back to it."""
        self.settings.start(name, self._in_the_engine(name, value) or value)
        self._follow(name)

    def set(self, name: str, value: str | None) -> None:
        """SET, and what it changes in the session of the engine; None is DEFAULT."""
        self.settings.set(name, self._in_the_engine(name, value))
        self._follow(name)

    def _in_the_engine(self, name: str, value: str | None) -> str | None:
        """The value as the engine spells it. Raises OptionError for a time zone that it does not know."""
        if name.lower() != "timezone" or value is None:
            return value
        self.environment.get_config().set(TIME_ZONE.key, value.strip("'"))
        return self.environment.session.time_zone

    def _follow(self, name: str) -> None:
        """The engine's session takes the value that a setting has."""
        if name.lower() == "timezone":
            self.environment.get_config().set(TIME_ZONE.key, self.settings.get(name))
        elif name.lower() == "search_path":
            self._use_first(self.settings.get(name))

    def _use_first(self, path: str) -> None:
        """The first schema of the path that there is becomes the current one; names of PostgreSQL's own are passed
        over."""
        catalogs = self.environment.session.catalogs
        there = catalogs.catalog(catalogs.current_catalog).databases
        for part in path.split(","):
            name = part.strip().strip("'\"")
            if name in there:
                self.environment.execute_sql(f"USE `{name.replace('`', '``')}`")
                return

    def reset(self, name: str | None) -> None:
        """RESET; None is ALL."""
        if name is None:
            self.settings.reset_all()
            self.set("timezone", None)
        else:
            self.set(name, None)

    @property
    def timeout(self) -> tuple[float, str] | None:
        """Seconds that a statement may take, and why it ends then; None for ever."""
        found = milliseconds(self.settings.get("statement_timeout"))
        limit = self._limits.milliseconds
        if limit is not None and (not found or limit <= found):
            return limit / 1000, f"canceling statement due to the statement limit of the role, {limit / 1000:g} s"
        return (found / 1000, "canceling statement due to statement timeout") if found else None

    @property
    def _limits(self) -> Limits:
        authority = self.environment.session.authority
        return NO_LIMITS if authority is None else authority.role.limits

    @property
    def looks_up_quickly(self) -> bool:
        """Whether lookups by key may pass by all that counts and tells statements."""
        return self.trail is None and self._limits.rows is None

    # --- prepared statements and cursors

    def deallocate(self, name: str | None) -> None:
        """Raises PgError 26000 for an unknown name."""
        if name is None:
            self.statements = {k: v for k, v in self.statements.items() if not k}
            self.environment.session.prepared.clear()
        elif self.statements.pop(name, None) is None and self.environment.session.prepared.pop(name, None) is None:
            raise PgError("26000", f'prepared statement "{name}" does not exist')

    def keep_cursor(self, name: str, portal: Cursor) -> None:
        if name in self._cursors:
            portal.close()
            raise PgError("42P03", f'cursor "{name}" already exists')
        self._cursors[name] = portal

    def has_cursor(self, name: str) -> bool:
        return name in self._cursors

    def cursor(self, name: str) -> Cursor:
        found = self._cursors.get(name)
        if found is None:
            raise PgError("34000", f'cursor "{name}" does not exist')
        return found

    def close_cursor(self, name: str | None) -> None:
        if name is None:
            self.close_cursors()
        else:
            self.cursor(name).close()
            del self._cursors[name]

    def close_cursors(self) -> None:
        """The transaction ends, and cursors and portals with it."""
        for portal in (*self._cursors.values(), *self.portals.values()):
            portal.close()
        self._cursors.clear()
        self.portals.clear()

    def discard(self) -> None:
        """DISCARD ALL."""
        if self.transaction.state != b"I":
            raise PgError("25001", "DISCARD ALL cannot run inside a transaction block")
        self.close_cursors()
        self.deallocate(None)
        self.reset(None)
        self.tell("UNLISTEN", lambda listener: listener.unlisten(None))

    # --- other sessions

    def tell(self, command: str, work: Callable[[Listener], object]) -> None:
        """Listen, or tell others something, when the transaction commits; at once where none is open. Raises PgError 25006 at a
        replica, and what the work raises."""
        if command != "UNLISTEN":
            self.check_not_replica(command)
        work(self.listener)
        if self.transaction.state == b"I":
            self.listener.commit()

    def check_not_replica(self, command: str) -> None:
        """Raises PgError 25006."""
        if self._is_replica:
            raise PgError("25006", f"cannot execute {command} during recovery", hint="connect to the leader")

    # --- running

    def run(self, work: Callable[[], Any]) -> Any:
        """Do a piece of the statement at hand, so that `cancel` stops it. Raises PgError 57014 when it was."""
        cancellation = Cancellation()
        with self._running:
            if self.cancelled is not None:
                raise PgError("57014", self.cancelled)
            self._cancellation = cancellation
        try:
            with cancellation.governing():
                found = work()
        except BaseException as error:
            if self.cancelled is not None:
                raise PgError("57014", self.cancelled) from error
            raise
        finally:
            with self._running:
                self._cancellation = None
        if self.cancelled is not None:
            raise PgError("57014", self.cancelled)
        return found

    def stops_by(self, stop: Callable[[], object] | None) -> None:
        """What else stops the statement at hand; when the client has gone before it began, it is stopped at once."""
        with self._running:
            self._stop = stop
            gone = self._gone
        if gone and stop is not None:
            stop()

    def cancel(self, why: str) -> None:
        """Stop the statement at hand; from any thread."""
        with self._running:
            self.cancelled = why
            cancellation, stop = self._cancellation, self._stop
        if cancellation is not None:
            cancellation.request()
        if stop is not None:
            stop()

    def leave(self) -> None:
        """The client has gone: nobody waits for what may still be carried out."""
        with self._running:
            self._gone = True
        self.cancel("the client has gone")

    def begin_statement(self) -> None:
        """The next statement is at hand: what has cancelled the one before is over."""
        with self._running:
            self.cancelled = None
            self._stop = None

    def close(self) -> None:
        """The connection ends: its transaction is rolled back, and its temporary objects go."""
        self.close_cursors()
        self.transaction.roll_back()
        self.listener.close()
        self.environment.close()
