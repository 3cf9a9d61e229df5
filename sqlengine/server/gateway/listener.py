"""The port of the gateway."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiohttp import web

from sqlengine.api.environment import TableEnvironment
from sqlengine.server.access import Access
from sqlengine.server.gateway.failures import error_list
from sqlengine.server.http.access import HttpAccess
from sqlengine.server.http.listener import HttpListener
from sqlengine.server.http.sessions import IDLE_SECONDS, Sessions
from sqlengine.server.tls import Tls

__all__ = ["GatewayServer", "failure", "refusal"]

_MISSING = 500
"""The status for what is not there."""


class GatewayServer:
    """Serves a database to clients of Flink's SQL Gateway.

    Args:
        environment: a session of the database; each session of a client gets one of its own.
        routes: adds the paths, with what answers them.
        access: who may connect.
        tls: how connections are encrypted; None: they are not.
        idle_seconds: a session that nobody uses for so long is closed.
    """

    def __init__(
        self,
        environment: TableEnvironment,
        routes: Callable[[web.Application, GatewayServer], None],
        *,
        access: Access,
        tls: Tls | None = None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self.sessions = Sessions(environment, access, missing=_MISSING, port="gateway", idle_seconds=idle_seconds)
        self._listener = HttpListener(HttpAccess(access), refusal, failure, tls=tls, port="gateway")
        routes(self._listener.application, self)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address, with the port that was chosen for 0. Raises OSError."""
        found = await self._listener.start(host, port)
        self.sessions.start()
        return found

    async def stop(self) -> None:
        """Take no more requests, and close all sessions."""
        self._listener.refuse_more()
        await self.sessions.stop()
        await self._listener.stop()


def refusal(request: web.Request, status: int, errors: Sequence[str]) -> web.Response:
    """What answers a request that is refused."""
    return web.json_response({"errors": list(errors)}, status=status)


def failure(request: web.Request, error: BaseException) -> web.Response:
    """What answers a request that has failed."""
    return refusal(request, 500, error_list(error))
