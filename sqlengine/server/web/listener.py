"""The port of the web page and of the REST API for operations."""

from __future__ import annotations

from aiohttp import web

from sqlengine.api.environment import TableEnvironment
from sqlengine.server.access import Access
from sqlengine.server.feeds import Feeds
from sqlengine.server.http.access import HttpAccess
from sqlengine.server.http.listener import HttpListener
from sqlengine.server.http.sessions import Sessions
from sqlengine.server.lineage import Lineage
from sqlengine.server.tls import Tls
from sqlengine.server.web.assets import Assets
from sqlengine.server.web.catalogue import Catalogue
from sqlengine.server.web.control import Control
from sqlengine.server.web.events import Streams
from sqlengine.server.web.following import Following
from sqlengine.server.web.monitoring import HEALTH, Monitoring
from sqlengine.server.web.openapi import description_of
from sqlengine.server.web.problems import failure, refusal
from sqlengine.server.web.recent_log import RecentLog
from sqlengine.server.web.route import Route, answer
from sqlengine.server.web.statements import Statements

__all__ = ["WebServer"]

_MOST_BYTES = 4 * 1024 * 1024
"""Of a body: a file of SQL."""
_MISSING = 404
_MOST_SESSIONS = 200
_SAFE = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self';"
        " connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


class WebServer:
    """Serves a database to browsers, and to programs that operate it.

    Args:
        environment: a session of the database; each session of a client gets one of its own.
        feeds: those that all servers of the database share.
        access: who may connect.
        tls: how connections are encrypted; None: they are not.
    """

    def __init__(
        self,
        environment: TableEnvironment,
        feeds: Feeds,
        *,
        access: Access,
        tls: Tls | None = None,
    ) -> None:
        self._sessions = Sessions(environment, access, missing=_MISSING, port="web", most=_MOST_SESSIONS)
        self._log = RecentLog()
        streams = Streams()
        monitoring = Monitoring(environment, self._log)
        self.routes = [
            *monitoring.routes(),
            *Control(environment, monitoring.monitor).routes(),
            *Statements(self._sessions, streams).routes(),
            *Following(environment, feeds, streams).routes(),
            *Catalogue(environment, Lineage(environment)).routes(),
            Route("GET", "/api/v1/openapi.json", self._describe, "describe", "This description.", "Description"),
        ]
        self._listener = HttpListener(
            HttpAccess(access), refusal, failure, tls=tls, most_bytes=_MOST_BYTES, open_paths=HEALTH, port="web",
            operates="/api/v1/jobs",
        )  # fmt: skip
        application = self._listener.application
        for route in self.routes:
            application.router.add_route(route.method, route.path, route.handler)
        Assets().add_routes(application)
        application.on_response_prepare.append(_make_safe)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address, with the port that was chosen for 0. Raises OSError."""
        found = await self._listener.start(host, port)
        self._sessions.start()
        self._log.attach()
        return found

    async def stop(self) -> None:
        """Take no more requests, and close all sessions."""
        self._listener.refuse_more()
        self._log.detach()
        await self._sessions.stop()
        await self._listener.stop()

    async def _describe(self, request: web.Request) -> web.Response:
        return answer(description_of(self.routes))


async def _make_safe(request: web.Request, response: web.StreamResponse) -> None:
    """What browsers may do with an answer."""
    for name, value in _SAFE.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")
