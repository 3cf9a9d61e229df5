"""The paths of the REST API, and what answers them."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Any

from aiohttp import web

from sqlengine.server.gateway.listener import GatewayServer
from sqlengine.server.gateway.pages import not_ready, page_text
from sqlengine.server.gateway.rows import FORMATS
from sqlengine.server.http.bodies import json_object, text_of
from sqlengine.server.http.operation import Operation
from sqlengine.server.http.refused import Refused
from sqlengine.server.http.session import HttpSession
from sqlengine.server.http.sessions import in_thread

__all__ = ["add_routes"]

_VERSIONS = (1, 2, 3, 4)
_POLL_SECONDS = 0.3
"""A client that asks for a page that is not there waits so long for it."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_routes(application: web.Application, server: GatewayServer) -> None:
    """Add all paths, each for the versions that have it."""
    gateway = _Gateway(server)
    session = "/sessions/{session}"
    operation = f"{session}/operations/{{operation}}"
    table = f"{session}/materialized-tables/{{table}}/refresh"
    paths: list[tuple[str, str, Handler, int]] = [
        ("GET", "/info", gateway.info, 1),
        ("GET", "/api_versions", gateway.versions, 1),
        ("POST", "/sessions", gateway.open_session, 1),
        ("GET", session, gateway.session_settings, 1),
        ("DELETE", session, gateway.close_session, 1),
        ("POST", f"{session}/heartbeat", gateway.heartbeat, 1),
        ("POST", f"{session}/configure-session", gateway.configure, 2),
        ("POST", f"{session}/statements", gateway.statement, 1),
        ("GET", f"{session}/complete-statement", gateway.complete, 2),
        ("GET", f"{operation}/status", gateway.status, 1),
        ("GET", f"{operation}/result/{{token}}", gateway.result, 1),
        ("POST", f"{operation}/cancel", gateway.cancel, 1),
        ("DELETE", f"{operation}/close", gateway.close_operation, 1),
        ("POST", table, gateway.refresh, 3),
        ("POST", f"{session}/scripts", gateway.script, 4),
    ]
    for number in _VERSIONS:
        for method, path, handler, since in paths:
            if since <= number:
                application.router.add_route(method, f"/v{number}{path}", handler)
    application.router.add_route("GET", "/info", gateway.info)
    application.router.add_route("GET", "/api_versions", gateway.versions)


class _Gateway:
    """Requests as what they ask of sessions and operations."""

    def __init__(self, server: GatewayServer) -> None:
        self._sessions = server.sessions

    async def info(self, request: web.Request) -> web.Response:
        return _answer({"productName": "sqlengine", "version": version("sqlengine")})

    async def versions(self, request: web.Request) -> web.Response:
        return _answer({"versions": [f"V{number}" for number in _VERSIONS]})

    # --- sessions

    async def open_session(self, request: web.Request) -> web.Response:
        body = await json_object(request)
        name = body.get("sessionName")
        session = self._sessions.open(
            _texts(body, "properties"), None if name is None else str(name), request.remote or ""
        )
        return _answer({"sessionHandle": session.handle})

    async def session_settings(self, request: web.Request) -> web.Response:
        return _answer({"properties": self._session(request).properties})

    async def heartbeat(self, request: web.Request) -> web.Response:
        self._session(request)
        return _answer({})

    async def close_session(self, request: web.Request) -> web.Response:
        await self._sessions.close(_handle(request, "session"))
        return _answer({"status": "CLOSED"})

    async def configure(self, request: web.Request) -> web.Response:
        session, body = self._session(request), await json_object(request)
        text, seconds = text_of(body, "statement"), _seconds(body)
        await in_thread(lambda: session.configure(text, seconds))
        return _answer({})

    async def complete(self, request: web.Request) -> web.Response:
        session, body = self._session(request), await json_object(request)
        text, position = text_of(body, "statement"), body.get("position", 0)
        if type(position) is not int or not 0 <= position <= len(text):
            raise Refused(400, "position is a place in the statement")
        return _answer({"candidates": await in_thread(lambda: session.complete(text, position))})

    # --- statements

    async def statement(self, request: web.Request) -> web.Response:
        session, body = self._session(request), await json_object(request)
        operation = session.send(text_of(body, "statement"), _seconds(body), _texts(body, "executionConfig"))
        return _answer({"operationHandle": operation.handle})

    async def refresh(self, request: web.Request) -> web.Response:
        """The rows of a materialized table are computed again, all or those of a partition."""
        session, body = self._session(request), await json_object(request)
        parts = request.match_info["table"].split(".")
        name = ".".join("`" + part.strip("`").replace("`", "``") + "`" for part in parts)
        partitions = ", ".join(
            "`{}` = '{}'".format(key.replace("`", "``"), value.replace("'", "''"))
            for key, value in _texts(body, "staticPartitions").items()
        )
        text = f"ALTER MATERIALIZED TABLE {name} REFRESH" + (f" PARTITION ({partitions})" if partitions else "")
        operation = session.send(text, 0.0, _texts(body, "executionConfig"))
        return _answer({"operationHandle": operation.handle})

    async def script(self, request: web.Request) -> web.Response:
        self._session(request)
        raise Refused(
            500, "scripts are not deployed to clusters here; send their statements, or run them with `sqlengine run`"
        )

    async def status(self, request: web.Request) -> web.Response:
        return _answer({"status": self._operation(request).status})

    async def result(self, request: web.Request) -> web.Response:
        operation = self._operation(request)
        token = request.match_info["token"]
        if re.fullmatch(r"\d{1,18}", token, re.ASCII) is None:
            raise Refused(400, f"{token!r} is no number of a page")
        prefix, _, _ = request.path.rpartition("/")
        asked = request.query.get("rowFormat")
        form = "JSON" if asked is None or prefix.startswith("/v1/") else asked
        tail = "" if prefix.startswith("/v1/") else f"?rowFormat={form}"
        if form not in FORMATS:
            raise Refused(400, f"rowFormat {form!r} is none of {', '.join(FORMATS)}")
        page = await operation.fetch(int(token), _POLL_SECONDS)
        if page is None:
            text = not_ready(f"{prefix}/{int(token)}{tail}")
        else:
            text = page_text(page, form, self._session(request).time_zone, f"{prefix}/{int(token) + 1}{tail}")
        return web.Response(text=text, content_type="application/json", charset="UTF-8")

    async def cancel(self, request: web.Request) -> web.Response:
        self._operation(request).cancel()
        return _answer({"status": "CANCELED"})

    async def close_operation(self, request: web.Request) -> web.Response:
        self._session(request).close_operation(_handle(request, "operation"))
        return _answer({"status": "CLOSED"})

    # --- what paths name

    def _session(self, request: web.Request) -> HttpSession:
        return self._sessions.get(_handle(request, "session"))

    def _operation(self, request: web.Request) -> Operation:
        return self._session(request).operation(_handle(request, "operation"))


def _answer(value: Mapping[str, Any]) -> web.Response:
    return web.Response(text=json.dumps(value, ensure_ascii=False), content_type="application/json", charset="UTF-8")


def _handle(request: web.Request, what: str) -> str:
    text = request.match_info[what]
    try:
        return str(uuid.UUID(text)) if len(text) == 36 else str(uuid.UUID("none"))
    except ValueError:
        raise Refused(400, f"{text!r} is no handle of a{'n' if what == 'operation' else ''} {what}") from None


def _texts(body: Mapping[str, Any], name: str) -> dict[str, str]:
    found = body.get(name) or {}
    if not isinstance(found, dict) or not all(isinstance(v, str | int | float) for v in found.values()):
        raise Refused(400, f"{name} is an object of texts")
    return {str(key): str(value) for key, value in found.items()}


def _seconds(body: Mapping[str, Any]) -> float:
    found = body.get("executionTimeout") or 0
    if type(found) is not int or not 0 <= found < 1 << 63:
        raise Refused(400, "executionTimeout is a number of milliseconds")
    return found / 1000
