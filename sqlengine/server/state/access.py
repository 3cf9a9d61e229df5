"""Who may ask: each call of a client goes through `FlightAccess.start_call` before anything of it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyarrow import flight

from runtime.core.errors import DatabaseError
from sqlengine.roles.authority import Authority
from sqlengine.server.access import Access
from sqlengine.server.proofs import Proofs, user_of
from sqlengine.server.state.failures import NotAllowed

__all__ = ["Caller", "FlightAccess"]

NAME = "access"
"""The name of the middleware: a call finds its `Caller` by it (`context.get_middleware`)."""


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
        self.audit = access.audit
        self._proofs = Proofs(access)

    def start_call(self, info: Any, headers: Mapping[str, Sequence[str | bytes]]) -> Caller:
        """A call begins. Raises FlightUnauthenticatedError; FlightUnavailableError where another server has the database by
        now."""
        if self._access.is_doubtful:
            try:
                self._access.check_owner()
            except DatabaseError as error:
                raise flight.FlightUnavailableError(str(error)) from error
        given = next((values[0] for name, values in headers.items() if name.lower() == "authorization" and values), "")
        header = given.decode("latin-1") if isinstance(given, bytes) else given
        if header:
            found = self._proofs.known(header) or self._proofs.proved(header)
        else:
            found = self._access.by_nothing()
        if found is None:
            if self.audit is not None:
                self.audit.tell("refused", "state", "", user_of(header), reason="no right user, password or token")
            raise flight.FlightUnauthenticatedError(f"{NotAllowed.code} a user and a password, or a token, are needed")
        return Caller(found)
