"""The port: takes connections, knows who is connected, and ends them."""

from __future__ import annotations

import asyncio
import hmac
import itertools
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runtime.core.errors import SqlEngineError, did_you_mean
from runtime.core.logs import Log
from sqlengine.api.environment import TableEnvironment
from sqlengine.database.acting import act_for
from sqlengine.roles.authority import Authority
from sqlengine.server.access import Access, TooMany
from sqlengine.server.audit import Trail
from sqlengine.server.feeds import Feeds
from sqlengine.server.lookups import Indices
from sqlengine.server.postgres import messages as m
from sqlengine.server.postgres.catalogue import Catalogues
from sqlengine.server.postgres.connection import Connection
from sqlengine.server.postgres.notifying import Notifications
from sqlengine.server.postgres.quick import Together
from sqlengine.server.postgres.sending import Calls
from sqlengine.server.postgres.session import ClientSession
from sqlengine.server.postgres.sqlstate import PgError, error_fields
from sqlengine.server.postgres.startup import Cancelled, Hello, authenticate, greet
from sqlengine.server.postgres.wire import Wire
from sqlengine.server.tls import Tls

__all__ = ["PostgresServer"]

_log = Log("server")
_HELLO_SECONDS = 30.0
"""A client that has not said who it is by then is sent away."""


class PostgresServer:
    """Serves a database to clients of PostgreSQL.

    Args:
        environment: a session of the database; each connection gets one of its own.
        access: who may connect.
        tls: how connections are encrypted; None: they are not.
        needs_tls: whether others are refused.
        most: so many connections at once.
        feeds: those that it shares with other servers of the database.
    """

    def __init__(
        self,
        environment: TableEnvironment,
        *,
        access: Access,
        tls: Tls | None = None,
        needs_tls: bool = False,
        most: int = 1000,
        feeds: Feeds | None = None,
    ) -> None:
        self._environment = environment
        self.access = access
        self._tls = tls
        self._needs_tls = needs_tls
        self._most = most
        self._numbers = itertools.count(1)
        self._connections: dict[int, Connection] = {}
        self._catalogues = Catalogues(environment, lambda: [c.session for c in tuple(self._connections.values())])
        self._feeds = feeds or Feeds(environment.session.database)
        self._notifications = Notifications()
        self.lookups = Together(Indices.of(environment.session.database), access)
        self._server: asyncio.Server | None = None
        self._served = 0

    def next_number(self) -> int:
        return next(self._numbers)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address, with the port that was chosen for 0. Raises OSError."""
        loop = asyncio.get_running_loop()
        self.calls = Calls()
        self._server = await loop.create_server(lambda: Wire(self._serve), host, port, backlog=512)
        found = self._server.sockets[0].getsockname()
        return found[0], found[1]

    async def stop(self) -> None:
        """Take no more connections, and end those that there are."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections.values()):
            connection.end("terminating connection due to administrator command")
        while self._served:
            await asyncio.sleep(0.01)

    async def _serve(self, wire: Wire) -> None:
        self._served += 1
        try:
            hello = await asyncio.wait_for(self._greeted(wire), _HELLO_SECONDS)
            if isinstance(hello, Cancelled):
                self._cancel(hello)
            elif hello is not None:
                await self._connected(wire, hello)
        except m.Malformed as error:
            _log.warning("connection from %s: %s", wire.peer, error)
            self._refuse(wire, PgError("08P01", f"protocol violation: {error}"))
        except (PgError, SqlEngineError) as error:
            _log.warning("connection from %s was refused: %s", wire.peer, error)
            self._refuse(wire, error)
        except (TimeoutError, ConnectionError, ssl.SSLError) as error:
            _log.info("connection from %s has ended: %s", wire.peer, error or "it said nothing")
        finally:
            self._served -= 1
            wire.close()

    @staticmethod
    def _refuse(wire: Wire, error: BaseException) -> None:
        wire.send(m.error_or_notice(b"E", error_fields(error, severity="FATAL")))

    async def _greeted(self, wire: Wire) -> Hello | Cancelled | None:
        hello = await greet(wire, self._tls, needs_tls=self._needs_tls)
        if isinstance(hello, Hello):
            with self._told_if_refused(wire, hello.user):
                await authenticate(wire, hello.user, self.access)
        return hello

    def _trail(self, wire: Wire, user: str) -> Trail | None:
        audit = self.access.audit
        return None if audit is None else audit.of("postgres", wire.peer, user)

    @contextmanager
    def _told_if_refused(self, wire: Wire, user: str) -> Iterator[None]:
        """Who is sent away stands in the audit."""
        try:
            yield
        except (PgError, SqlEngineError) as error:
            trail = self._trail(wire, user)
            if trail is not None:
                trail.tell("refused", reason=str(error))
            raise

    def _cancel(self, asked: Cancelled) -> None:
        """A wrong secret is not answered, as nothing is."""
        found = self._connections.get(asked.number)
        if found is not None and hmac.compare_digest(found.secret.to_bytes(4, "big"), asked.secret.to_bytes(4, "big")):
            found.cancel()

    def _database_of(self, hello: Hello) -> str:
        """The catalog that is meant: the current one where a client only repeats its user. Raises PgError 3D000."""
        catalogs = self._environment.session.catalogs
        names = sorted(catalog.name for catalog in catalogs.catalogs())
        if hello.database in names:
            return hello.database
        if hello.database in ("", hello.user):
            return catalogs.current_catalog
        raise PgError(
            "3D000",
            f'database "{hello.database}" does not exist',
            hint=did_you_mean(hello.database, names) or f"the catalogs are: {', '.join(names)}",
        )

    async def _connected(self, wire: Wire, hello: Hello) -> None:
        authority = self.access.authority(hello.user)
        with self._told_if_refused(wire, hello.user):
            database = self._database_of(hello)
            release = self._let_in(hello, authority)
        trail = self._trail(wire, hello.user)
        try:
            if trail is not None:
                trail.tell("connected")
            await self._connection(wire, hello, database, authority, trail)
        finally:
            release()
            if trail is not None:
                trail.tell("disconnected")

    def _let_in(self, hello: Hello, authority: Authority) -> Callable[[], None]:
        """Count a connection; gives what counts it no more. Raises PgError 53300."""
        if len(self._connections) >= self._most:
            raise PgError("53300", "sorry, too many clients already", hint=f"at most {self._most} may be connected")
        try:
            return self.access.connect(authority)
        except TooMany as error:
            raise PgError(
                "53300",
                f'too many connections for role "{hello.user}"',
                hint=f"at most {error} may be connected: ALTER ROLE .. CONNECTION LIMIT",
            ) from None

    async def _connection(
        self, wire: Wire, hello: Hello, database: str, authority: Authority, trail: Trail | None
    ) -> None:
        def session_of(connection: Connection) -> ClientSession:
            environment = self._environment.new_session()
            act_for(environment.session, authority)
            session = ClientSession(
                environment,
                self._catalogues,
                self._feeds,
                connection.number,
                connection.tell_setting,
                connection.terminate,
                self._notifications,
                trail,
            )
            session.client = wire.peer
            if database != environment.session.catalogs.current_catalog:
                environment.execute_sql(f"USE CATALOG `{database.replace('`', '``')}`")
            session.settings.fix("session_authorization", hello.user)
            session.settings.fix("is_superuser", "on" if authority.is_superuser else "off")
            if environment.session.database.replica is not None:
                session.settings.fix("in_hot_standby", "on")
                session.settings.fix("transaction_read_only", "on")
                session.settings.fix("default_transaction_read_only", "on")
            for name, value in hello.settings.items():
                session.start(name, value)
            return session

        connection = Connection(self, wire, session_of)
        self._connections[connection.number] = connection
        try:
            for name, value in connection.session.settings.reported():
                wire.send(m.parameter_status(name, value))
            wire.send(m.backend_key(connection.number, connection.secret))
            await connection.run()
        finally:
            del self._connections[connection.number]
