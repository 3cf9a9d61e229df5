"""Ports of a server that stands by: whoever connects is told that the database is served elsewhere, and may try again."""

from __future__ import annotations

import asyncio
import html
import ssl
from collections.abc import Callable, Sequence

from aiohttp import web

from runtime.core.logs import Log
from sqlengine.roles.authority import Authority
from sqlengine.server.audit import Audit
from sqlengine.server.http.listener import HttpListener
from sqlengine.server.http.refused import Refused
from sqlengine.server.postgres import messages as m
from sqlengine.server.postgres.sqlstate import PgError, error_fields
from sqlengine.server.postgres.startup import Hello, greet
from sqlengine.server.postgres.wire import Wire
from sqlengine.server.tls import Tls

__all__ = ["WaitingHttp", "WaitingPostgres", "for_browsers"]

_Errors = Callable[[web.Request, int, Sequence[str]], web.StreamResponse]
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>sqlengine</title>
<h1>sqlengine</h1><p>{0}.</p><p>This page asks again every two seconds.</p></html>
"""
_log = Log("server")
_HELLO_SECONDS = 10.0
_MOST = 200
"""So many clients are told at once; more are sent away without a word."""


class WaitingPostgres:
    """Tells clients of PostgreSQL that it cannot be connected to now (57P03), so that libpq tries the next host.

    Args:
        why: what is going on.
        hint: what to do.
    """

    def __init__(self, why: Callable[[], str], hint: str, tls: Tls | None) -> None:
        self._why = why
        self._hint = hint
        self._tls = tls
        self._told = 0
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address, with the port that was chosen for 0. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Wire(self._serve), host, port, backlog=512)
        found = self._server.sockets[0].getsockname()
        return found[0], found[1]

    async def stop(self) -> None:
        """Take no more connections."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, wire: Wire) -> None:
        self._told += 1
        try:
            if self._told <= _MOST:
                hello = await asyncio.wait_for(greet(wire, self._tls, needs_tls=False), _HELLO_SECONDS)
                if isinstance(hello, Hello):
                    raise PgError("57P03", self._why(), hint=self._hint)
        except PgError as error:
            wire.send(m.error_or_notice(b"E", error_fields(error, severity="FATAL")))
        except (m.Malformed, TimeoutError, ConnectionError, ssl.SSLError) as error:
            _log.info("connection from %s has ended: %s", wire.peer, error or "it said nothing")
        finally:
            self._told -= 1
            wire.close()


def for_browsers(errors: _Errors) -> _Errors:
    """What answers a request with an error: a page to who looks with a browser while the server waits, which asks again."""

    def answered(request: web.Request, status: int, reasons: Sequence[str]) -> web.StreamResponse:
        if status != 503 or "text/html" not in request.headers.get("Accept", ""):
            return errors(request, status, reasons)
        safe = {"Refresh": "2", "Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'"}
        text = _PAGE.format(html.escape("; ".join(reasons)))
        return web.Response(status=503, text=text, content_type="text/html", charset="utf-8", headers=safe)

    return answered


class WaitingHttp:
    """Answers every request with 503, but that whether the server is there.

    Args:
        why: what is going on.
        errors: what answers a request with this status for these reasons.
        failure: what answers a request that has failed.
    """

    def __init__(
        self,
        why: Callable[[], str],
        errors: _Errors,
        failure: Callable[[web.Request, BaseException], web.StreamResponse],
        tls: Tls | None,
    ) -> None:
        self._why = why
        self.audit: Audit | None = None
        self._listener = HttpListener(self, errors, failure, tls=tls, open_paths=("/healthz",), port="waiting")
        self._listener.application.router.add_get("/healthz", self._health)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address, with the port that was chosen for 0. Raises OSError."""
        return await self._listener.start(host, port)

    async def stop(self) -> None:
        """Take no more requests."""
        await self._listener.stop()

    async def check(self, request: web.Request) -> Authority:
        """Nobody is let in."""
        raise Refused(503, self._why())

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})
