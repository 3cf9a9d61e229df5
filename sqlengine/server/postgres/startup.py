"""How a connection begins: encryption, who the client is, and what it is told first.

Source: PostgreSQL 15, 55.2.1 "Start-up".
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass

from sqlengine.server.access import Access
from sqlengine.server.postgres import messages as m
from sqlengine.server.postgres.scram import Exchange, Refused, mechanisms
from sqlengine.server.postgres.sqlstate import PgError
from sqlengine.server.postgres.wire import ALPN, Wire
from sqlengine.server.tls import Tls

__all__ = ["Cancelled", "Hello", "authenticate", "greet"]

_VERSION = 3 << 16


@dataclass(frozen=True)
class Hello:
    """What a client says of itself."""

    user: str
    database: str
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Cancelled:
    """The connection was made to cancel the statement of another one."""

    number: int
    secret: int


async def greet(wire: Wire, tls: Tls | None, *, needs_tls: bool) -> Hello | Cancelled | None:
    """The start of a connection up to the name of its user; None when it ended.

    Raises Malformed, PgError.
    """
    if tls is not None and await wire.begins_encrypted():
        await wire.encrypt(tls.certificate(ALPN), begun=True)
    while True:
        payload = await wire.first()
        if payload is None:
            return None
        version = payload.int32()
        if version == m.SSL:
            payload.end()
            if tls is None or wire.is_encrypted:
                wire.send(b"N")
            else:
                wire.send(b"S")
                await wire.encrypt(tls.certificate(ALPN))
        elif version == m.GSS:
            wire.send(b"N")
        elif version == m.CANCEL:
            return Cancelled(payload.int32(), payload.int32() & 0xFFFFFFFF)
        else:
            break
    if version >> 16 != 3:
        raise PgError("0A000", f"protocol {version >> 16}.{version & 0xFFFF} is not supported; it is 3.0")
    given: dict[str, str] = {}
    while payload.left > 1:
        name = payload.text()
        given[name] = payload.text()
    unknown = [name for name in given if name.startswith("_pq_.")]
    if version != _VERSION or unknown:
        wire.send(m.negotiate_version(unknown))
    if needs_tls and not wire.is_encrypted:
        raise PgError("28000", "this server takes encrypted connections only", hint="sslmode=require")
    user = given.pop("user", "")
    if not user:
        raise PgError("28000", "no PostgreSQL user name specified in startup packet")
    if given.pop("replication", "off").lower() not in ("off", "false", "no", "0"):
        raise PgError(
            "0A000", "replication connections are not supported", hint="SUBSCRIBE TO a view tells its changes"
        )
    database = given.pop("database", "")
    settings = {k: v for k, v in given.items() if not k.startswith("_pq_.") and k != "options"}
    return Hello(user, database, {**settings, **_options(given.get("options", ""))})


def _options(text: str) -> dict[str, str]:
    """`-c name=value --name=value`, with backslashes before spaces."""
    found: dict[str, str] = {}
    words = [re.sub(r"\\(.)", r"\1", w) for w in re.findall(r"(?:[^\s\\]|\\.)+", text)]
    for at, word in enumerate(words):
        pair = word[2:] if word.startswith("--") else words[at + 1] if word == "-c" and at + 1 < len(words) else ""
        if word.startswith("-c") and word != "-c":
            pair = word[2:]
        name, mark, value = pair.partition("=")
        if mark:
            found[name.replace("-", "_")] = value
    return found


async def authenticate(wire: Wire, user: str, access: Access) -> None:
    """Have the client prove that it is the user, where it must.

    Raises:
        PgError: 28P01 where it does not.
    """
    if not access.needs_password(user):
        wire.send(m.authentication(0))
        return
    offered = mechanisms(wire.binding)
    wire.send(m.authentication(10, b"".join(name.encode() + b"\0" for name in offered) + b"\0"))
    try:
        payload = await _sasl(wire)
        exchange = Exchange(access.verifier(user), user, payload.text(), wire.binding)
        size = payload.int32()
        wire.send(m.authentication(11, exchange.first(payload.take(max(size, 0)))))
        payload = await _sasl(wire)
        wire.send(m.authentication(12, exchange.final(payload.take(payload.left))))
    except Refused:
        await asyncio.sleep(0)
        raise PgError("28P01", f'password authentication failed for user "{user}"') from None
    wire.send(m.authentication(0))


async def _sasl(wire: Wire) -> m.Payload:
    read = await wire.read(m.MAX_STARTUP)
    if read is None:
        raise PgError("08006", "the client has gone")
    type_, payload = read
    if type_ != b"p":
        raise m.Malformed(f"a message of type {type_!r} in the place of a password")
    return payload
