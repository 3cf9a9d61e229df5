"""Who may ask: the one place where a request over HTTP is let in or refused.

Where the first role needs no password, everybody may ask who says an address of this machine as the host: a page in a browser
that has given its name our address says its name. Whoever asks, a page from elsewhere may not: a browser says where a page is from.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
from contextvars import ContextVar
from urllib.parse import urlsplit

from aiohttp import web

from runtime.core.errors import DatabaseError
from sqlengine.roles.authority import Authority
from sqlengine.server.access import Access
from sqlengine.server.http.refused import Refused
from sqlengine.server.proofs import Proofs

__all__ = ["WHO", "HttpAccess", "is_local"]

WHO: ContextVar[Authority] = ContextVar("who")
"""On whose behalf the request at hand comes: set before it is answered."""


class HttpAccess:
    """Lets requests in: those with a user and a password (HTTP's basic authentication), or a token.

    Args:
        access: who may connect.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self.audit = access.audit
        self._proofs = Proofs(access)

    async def check(self, request: web.Request) -> Authority:
        """On whose behalf a request comes. Raises Refused 401 for somebody unknown, 403 for a host, or a page, that is not
        ours, 503 where another server has the database by now."""
        self._check_origin(request)
        if self._access.is_doubtful:
            await asyncio.get_running_loop().run_in_executor(None, self._check_owner)
        header = request.headers.get("Authorization", "")
        if header:
            found = self._proofs.known(header)
            if found is None:
                found = await asyncio.get_running_loop().run_in_executor(None, self._proofs.proved, header)
        else:
            found = self._access.by_nothing()
            if found is not None and not is_local(request.host):
                raise Refused(403, "without a user and a password, the host has to be an address of this machine")
        if found is None:
            raise Refused(401, "a user and a password, or a token, are needed: Authorization: Basic .. or Bearer ..")
        return found

    def _check_owner(self) -> None:
        try:
            self._access.check_owner()
        except DatabaseError as error:
            raise Refused(503, error.message) from error

    @staticmethod
    def _check_origin(request: web.Request) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and _place(origin) != request.host.lower():
            raise Refused(403, "requests of pages from elsewhere are not answered")


def _place(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


@functools.lru_cache(maxsize=1024)
def is_local(host: str) -> bool:
    """Whether a host, with or without a port, is an address of this machine."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and not host.endswith("]") else host
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return name == "localhost"
