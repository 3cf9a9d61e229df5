"""Who may ask: each call of a client goes through `FlightAccess.start_call` before anything of it is read."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from pyarrow import flight

from sqlengine.roles.authority import Authority
from sqlengine.server.access import Access
from sqlengine.state.failures import NotAllowed

__all__ = ["Caller", "FlightAccess"]

NAME = "access"
"""The name of the middleware: a call finds its `Caller` by it (`context.get_middleware`)."""
_MOST_KNOWN = 1000


class Caller(flight.ServerMiddleware):
    """On whose behalf a call comes."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority


class FlightAccess(flight.ServerMiddlewareFactory):
    """The one place where calls are authenticated: those with a user and a password (`authorization: Basic ..`), or a
    token (`Bearer ..`).

    Args:
        access: who may connect.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._known: dict[bytes, Authority] = {}
        """Who has proved by a header who he is; the header is kept as a hash with a key of this process."""
        self._as_of = access.version
        self._key = secrets.token_bytes(32)

    def start_call(self, info: Any, headers: Mapping[str, Sequence[str | bytes]]) -> Caller:
        """A call begins. Raises FlightUnauthenticatedError."""
        given = next((values[0] for name, values in headers.items() if name.lower() == "authorization" and values), "")
        header = given.decode("latin-1") if isinstance(given, bytes) else given
        found = self._proved(header) if header else self._access.by_nothing()
        if found is None:
            raise flight.FlightUnauthenticatedError(f"{NotAllowed.code} a user and a password, or a token, are needed")
        return Caller(found)

    def _proved(self, header: str) -> Authority | None:
        kind, _, said = header.partition(" ")
        if kind.lower() == "bearer":
            return self._access.by_token(said.strip())
        if self._as_of != self._access.version:
            self._known, self._as_of = {}, self._access.version
        proof = hmac.digest(self._key, header.encode(), hashlib.sha256)
        found = self._known.get(proof)
        if found is not None and self._access.verifier(found.user) is not None:
            return found
        as_of = self._as_of
        name, password = _basic(kind, said)
        found = self._access.by_password(name, password)
        if found is not None and as_of == self._access.version:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[proof] = found
        return found


def _basic(kind: str, encoded: str) -> tuple[str, str]:
    if kind.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password
