"""A server from its start to its end."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.core.errors import OptionError, SqlEngineError
from runtime.core.logs import Log, tell
from runtime.core.rooms import Room
from sqlengine.api.environment import TableEnvironment
from sqlengine.database.folder.folder import DatabaseFolder
from sqlengine.database.folder.lease import SharedLease
from sqlengine.roles.outside import Outside
from sqlengine.roles.roles import FIRST
from sqlengine.roles.verifier import Verifier
from sqlengine.server.access import Access, is_loopback
from sqlengine.server.audit import Audit
from sqlengine.server.feeds import Feeds
from sqlengine.server.postgres.listener import PostgresServer
from sqlengine.server.signals import on_signal
from sqlengine.server.standby import Port, begin_anew, listen, stand_by, wait_at
from sqlengine.server.tls import Tls
from sqlengine.statements.lasting import open_database, shared_at
from sqlengine.statements.lasting_jobs import restore_jobs

if TYPE_CHECKING:
    import sqlengine.server.gateway.listener as _listener
    import sqlengine.server.gateway.routes as _routes
    import sqlengine.server.openlineage as _openlineage
    import sqlengine.server.replication.following as _replica
    import sqlengine.server.state.serving as _state
    import sqlengine.server.telemetry as _telemetry
    import sqlengine.server.waiting as _waiting
    import sqlengine.server.web.listener as _web
    import sqlengine.server.web.problems as _problems
else:
    _listener = Room("sqlengine.server.gateway.listener")
    _routes = Room("sqlengine.server.gateway.routes")
    _openlineage = Room("sqlengine.server.openlineage")
    _replica = Room("sqlengine.server.replication.following")
    _telemetry = Room("sqlengine.server.telemetry")
    _state = Room("sqlengine.server.state.serving")
    _waiting = Room("sqlengine.server.waiting")
    _web = Room("sqlengine.server.web.listener")
    _problems = Room("sqlengine.server.web.problems")

__all__ = ["Serving", "serve", "users_of"]

_log = Log("server")
_COLLECTED = 5_000, 10, 50
"""When garbage is looked for. To look through all there is stops every thread for a tenth of a second where a thousand
clients are connected, and with Python's own numbers, which count what lives for an epoch, came every four seconds."""
_SWITCH_SECONDS = 0.001
"""So long a thread keeps the interpreter while another one waits: the loop has to answer while rows arrive."""


@dataclass(frozen=True)
class Serving:
    """What is served, where, and to whom. `database`: a folder; None for one that ends with the server."""

    database: str | None
    postgres: str
    init: str | None = None
    users: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_required: bool = False
    max_connections: int = 1000
    gateway: str | None = None
    web: str | None = None
    state: str | None = None
    state_threads: int = 4
    allow_paths: tuple[str, ...] | None = None
    allow_hosts: tuple[str, ...] | None = None
    openlineage: str | None = None
    otel: bool = False
    audit: str | None = None
    standby: bool = False
    replica_of: str | None = None


def serve(serving: Serving, options: Mapping[str, str]) -> int:
    """Serve until SIGINT or SIGTERM; gives the exit status.

    Raises OptionError for arguments that do not go together, DatabaseError when the database cannot be opened, and what
    the first file raises.
    """
    users = None if serving.users is None else users_of(serving.users)
    tls = _tls(serving)
    addresses = {at: _address(at) for at in (serving.postgres, serving.gateway, serving.web) if at is not None}
    state = None if serving.state is None else _state.ports_of(serving.state)
    hosts = [host for host, _ in addresses.values()] + ([] if state is None else [state[0]])
    reachable = [host for host in hosts if not is_loopback(host)]
    if serving.replica_of is not None:
        opened = _following(serving, serving.replica_of, options, addresses, tls)
    elif serving.standby:
        opened = _standing_by(serving, options, addresses, tls)
    else:
        opened = _opened(serving, options, None)
    if opened is None:
        return 0
    with opened as environment:
        audit = None if serving.audit is None else Audit(serving.audit)
        access = Access(environment.session.database, users, trusting=not reachable, audit=audit)
        if reachable and not access.is_guarded:
            raise OptionError(
                f"{reachable[0]} can be reached from other machines, and nobody would need a password",
                code="E1500",
                hint=f"give the first role one, ALTER ROLE {FIRST} PASSWORD '..', in the database or in the file of --init; "
                "or give --users FILE; or serve 127.0.0.1",
            )
        feeds = Feeds(environment.session.database)
        server = PostgresServer(
            environment,
            access=access,
            tls=tls,
            needs_tls=serving.tls_required,
            most=serving.max_connections,
            feeds=feeds,
        )
        ports = [Port("--postgres", server, *addresses[serving.postgres], _PSQL)]
        if serving.gateway is not None:
            _check_http("--gateway", addresses[serving.gateway][0], tls)
            gateway = _listener.GatewayServer(environment, _routes.add_routes, access=access, tls=tls)
            ports.append(Port("--gateway", gateway, *addresses[serving.gateway], _SQL_CLIENT))
        if serving.web is not None:
            _check_http("--web", addresses[serving.web][0], tls)
            page = _web.WebServer(environment, feeds, access=access, tls=tls)
            said = f"Browsers open http{'' if tls is None else 's'}://{{0}}:{{1}}"
            ports.append(Port("--web", page, *addresses[serving.web], said))
        if state is not None:
            _check_encrypted("--state", state[0], tls)
            reader = _state.state_server(environment, state[1], access, tls, serving.state_threads)
            ports.append(Port("--state", reader, state[0], state[1][0], _STATE_CLIENT))
        durable = environment.session.durable
        gc.set_threshold(*_COLLECTED)
        sys.setswitchinterval(_SWITCH_SECONDS)
        with _told(serving, environment):
            lost = asyncio.run(_until_stopped(ports, tls, None if durable is None else durable.folder))
        if lost and serving.standby:
            tell("another server has taken over the database: this one stands by")
            begin_anew()
    return 0


def _opened(serving: Serving, options: Mapping[str, str], lease: SharedLease | None) -> TableEnvironment:
    """The database, once the first file is run."""
    environment = TableEnvironment.create(options)
    try:
        if serving.allow_paths is not None or serving.allow_hosts is not None:
            environment.session.database.outside = Outside(serving.allow_paths, serving.allow_hosts)
        if serving.database is not None:
            open_database(environment.session, serving.database, lease)
            restore_jobs(environment.session)
        if serving.init is not None:
            _run_first(environment, serving.init)
    except BaseException:
        environment.close()
        raise
    return environment


def _standing_by(
    serving: Serving, options: Mapping[str, str], addresses: Mapping[str, tuple[str, int]], tls: Tls | None
) -> TableEnvironment | None:
    """The same, as soon as no other server has it; None when this one is to end before."""
    if serving.database is None:
        raise OptionError(
            "--standby needs the folder of a database", code="E1500", hint="sqlengine serve --standby shop/"
        )

    storage = shared_at(serving.database, options)
    return stand_by(
        storage,
        lambda lease: _opened(serving, options, lease),
        lambda why: _waiting_ports(serving, addresses, tls, why, _ELSEWHERE),
    )


def _following(
    serving: Serving, leader: str, options: Mapping[str, str], addresses: Mapping[str, tuple[str, int]], tls: Tls | None
) -> TableEnvironment | None:
    """A database in memory that follows another one, once it shows what that has."""
    if serving.database is not None or serving.standby:
        raise OptionError(
            "--replica-of is for a server that has no database of its own",
            code="E1500",
            hint="leave the folder and --standby out: what a replica shows is with the server that it follows",
        )
    name = _replica.leader_of(leader)

    def follow(goes_on: Callable[[float], bool]) -> TableEnvironment | None:
        environment = _opened(serving, options, None)
        replica = _replica.Replica(environment, leader)
        replica.begin()
        print(f"following {name}", flush=True)
        return environment if _replica.wait_until_ready(replica, goes_on) else None

    why = f"this replica has not yet read what {name} has"
    return wait_at(_waiting_ports(serving, addresses, tls, lambda: why, "try again in a moment"), follow)


def _waiting_ports(
    serving: Serving, addresses: Mapping[str, tuple[str, int]], tls: Tls | None, why: Callable[[], str], hint: str
) -> Iterator[Port]:
    """Those of a server that cannot serve yet."""
    waiting = _waiting.WaitingPostgres(why, hint, tls)
    yield Port("--postgres", waiting, *addresses[serving.postgres], "")
    if serving.gateway is not None:
        _check_http("--gateway", addresses[serving.gateway][0], tls)
        gateway = _waiting.WaitingHttp(why, _listener.refusal, _listener.failure, tls)
        yield Port("--gateway", gateway, *addresses[serving.gateway], "")
    if serving.web is not None:
        _check_http("--web", addresses[serving.web][0], tls)
        page = _waiting.WaitingHttp(why, _waiting.for_browsers(_problems.refusal), _problems.failure, tls)
        yield Port("--web", page, *addresses[serving.web], "")


@contextmanager
def _told(serving: Serving, environment: TableEnvironment) -> Iterator[None]:
    """While other systems are told of what runs, where that is asked for."""
    with ExitStack() as stack:
        if serving.openlineage is not None:
            stack.enter_context(_openlineage.emitting(environment, serving.openlineage))
        if serving.otel:
            if importlib.util.find_spec("opentelemetry") is None:
                raise OptionError(
                    "--otel needs opentelemetry, which is not installed",
                    code="E1500",
                    hint="pip install 'sqlengine[otel]'",
                )
            stack.enter_context(_telemetry.telling(environment.session.database.metrics))
        yield


_LAST_SECONDS = 2.0
_ELSEWHERE = "connect to the other server, or to all of them: host=a,b target_session_attrs=read-write"
_PSQL = "PostgreSQL clients connect to {0}:{1}: psql -h {0} -p {1} -U sqlengine"
_STATE_CLIENT = "state is read at {0}:{1}: sqlengine.state.StateClient('{0}:{1}')"
_SQL_CLIENT = "Flink's clients connect to {0}:{1}: sql-client.sh gateway -e {0}:{1}"


def _check_http(argument: str, host: str, tls: Tls | None) -> None:
    """Raises OptionError where what serves HTTP is not installed."""
    if importlib.util.find_spec("aiohttp") is None:
        raise OptionError(
            f"{argument} needs aiohttp, which is not installed", code="E1500", hint="pip install 'sqlengine[server]'"
        )
    _check_encrypted(argument, host, tls)


def _check_encrypted(argument: str, host: str, tls: Tls | None) -> None:
    """Tell whoever lets others in without."""
    if tls is None and not is_loopback(host):
        tell(f"passwords and tokens reach {argument} without encryption; --tls-cert encrypts them")


async def _until_stopped(ports: Sequence[Port], tls: Tls | None, folder: DatabaseFolder | None) -> bool:
    """Serve until somebody stops the server; whether another one has taken over the database."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    lost = False

    def lose() -> None:
        nonlocal lost
        lost = True
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        on_signal(loop, number, stopped.set)
    following = None if tls is None else loop.create_task(tls.follow())
    if tls is not None:
        on_signal(loop, signal.SIGHUP, tls.refresh)
    if folder is not None:
        folder.when_taken_over(lambda: loop.call_soon_threadsafe(lose))
    try:
        for port in ports:
            at, chosen = await listen(port)
            print(port.message.format(at, chosen), flush=True)
            _log.info("serving %s at %s:%d", port.argument, at, chosen)
        await stopped.wait()
    finally:
        if following is not None:
            following.cancel()
        for port in ports:
            with suppress(TimeoutError):
                # A statement of a server that was followed may wait for what does not come.
                await asyncio.wait_for(port.server.stop(), _LAST_SECONDS if lost else None)
    return lost


def _run_first(environment: TableEnvironment, file: str) -> None:
    try:
        with open(file, encoding="utf-8") as opened:
            script = opened.read()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"--init {file} cannot be read: {error}", code="E1500", hint="give a file of SQL") from error
    try:
        for result in environment.run_script(script):
            if result.bounded and result.is_query:
                result.wait()
    except SqlEngineError as error:
        error.source = file
        raise


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise OptionError(f"'{text}' is no address", code="E1500", hint="write it HOST:PORT, such as 127.0.0.1:5433")
    return host.strip("[]"), int(port)


def users_of(file: str) -> dict[str, Verifier]:
    """The users of a file, with what is kept of their passwords.

    Raises OptionError for a file that others may read, and for a line that is none; no password stands in the message.
    """
    try:
        with open(file, encoding="utf-8") as opened:
            status = os.fstat(opened.fileno())
            lines = opened.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"--users {file} cannot be read: {error}", code="E1500", hint="give a file") from error
    # As PostgreSQL has it for keys: what root gives a group to read, it has given to this server.
    given = status.st_uid == 0 != os.geteuid()
    if status.st_mode & ((stat.S_IWGRP | stat.S_IXGRP if given else stat.S_IRWXG) | stat.S_IRWXO):
        raise OptionError(
            f"--users {file} may be read by others than its owner", code="E1500", hint=f"chmod 600 {file}"
        )
    found: dict[str, Verifier] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not colon or not name or not password:
            raise OptionError(
                f"--users {file}, line {number}: there is no name and password",
                code="E1500",
                hint="write NAME:PASSWORD, or NAME:SCRAM-SHA-256$...",
            )
        verifier = Verifier.read(password)
        if verifier is None and password.startswith("SCRAM-SHA-256$"):
            raise OptionError(
                f"--users {file}, line {number}: the verifier is damaged",
                code="E1500",
                hint="copy it from pg_authid.rolpassword, or give the password",
            )
        found[name] = verifier or Verifier.of_password(password)
    if not found:
        raise OptionError(f"--users {file} has no users", code="E1500", hint="write NAME:PASSWORD in a line")
    return found


def _tls(serving: Serving) -> Tls | None:
    if serving.tls_cert is not None:
        return Tls(serving.tls_cert, serving.tls_key)
    if serving.tls_required or serving.tls_key is not None:
        raise OptionError("there is no certificate", code="E1500", hint="give --tls-cert FILE")
    return None
