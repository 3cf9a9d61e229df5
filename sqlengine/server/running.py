"""A server from its start to its end."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import ssl
import stat
from collections.abc import Mapping
from dataclasses import dataclass

from runtime.core.errors import OptionError, SqlEngineError
from runtime.core.logs import Log
from sqlengine.api.environment import TableEnvironment
from sqlengine.server.postgres.listener import PostgresServer
from sqlengine.server.postgres.scram import Verifier

__all__ = ["Serving", "serve", "users_of"]

_log = Log("server")


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


def serve(serving: Serving, options: Mapping[str, str]) -> int:
    """Serve until SIGINT or SIGTERM; gives the exit status.

    Raises OptionError for arguments that do not go together, DatabaseError when the database cannot be opened, and what
    the first file raises.
    """
    host, port = _address(serving.postgres)
    users = None if serving.users is None else users_of(serving.users)
    if users is None and not _is_loopback(host):
        raise OptionError(
            f"{host} can be reached from other machines, and nobody would need a password",
            code="E1500",
            hint="give --users FILE, or serve 127.0.0.1",
        )
    tls = _tls(serving)
    with TableEnvironment.create(options, path=serving.database) as environment:
        if serving.init is not None:
            _run_first(environment, serving.init)
        server = PostgresServer(
            environment, users=users, tls=tls, needs_tls=serving.tls_required, most=serving.max_connections
        )
        asyncio.run(_until_stopped(server, host, port))
    return 0


async def _until_stopped(server: PostgresServer, host: str, port: int) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    try:
        at, chosen = await server.start(host, port)
    except OSError as error:
        raise OptionError(
            f"cannot listen at {host}:{port}: {error.strerror or error}",
            code="E1500",
            hint="another program may have the port: give --postgres HOST:PORT",
        ) from error
    print(f"PostgreSQL clients connect to {at}:{chosen}: psql -h {at} -p {chosen} -U sqlengine", flush=True)
    _log.info("serving clients of PostgreSQL at %s:%d", at, chosen)
    await stopped.wait()
    await server.stop()


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


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def users_of(file: str) -> dict[str, Verifier]:
    """The users of a file, with what is kept of their passwords.

    Raises OptionError for a file that others may read, and for a line that is none; no password stands in the message.
    """
    try:
        with open(file, encoding="utf-8") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            lines = opened.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"--users {file} cannot be read: {error}", code="E1500", hint="give a file") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
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


def _tls(serving: Serving) -> ssl.SSLContext | None:
    if serving.tls_cert is None:
        if serving.tls_required or serving.tls_key is not None:
            raise OptionError("there is no certificate", code="E1500", hint="give --tls-cert FILE")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(serving.tls_cert, serving.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise OptionError(
            f"the certificate {serving.tls_cert} cannot be used: {error.strerror or type(error).__name__}",
            code="E1500",
            hint="--tls-cert and --tls-key are PEM files of a certificate and its key, without a password",
        ) from error
    return context
