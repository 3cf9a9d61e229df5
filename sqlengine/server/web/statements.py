"""Paths of an SQL editor: sessions, statements, their results in pages or as events, completion."""

from __future__ import annotations

import uuid
from typing import Any

from aiohttp import web

from runtime.core.errors import SqlEngineError
from sqlengine.parse import statement_spans
from sqlengine.server.http.bodies import text_of
from sqlengine.server.http.operation import Operation
from sqlengine.server.http.refused import Refused
from sqlengine.server.http.session import HttpSession
from sqlengine.server.http.sessions import Sessions, in_thread
from sqlengine.server.web.events import ALIVE_SECONDS, EVENTS, EventStream, Streams, after_of
from sqlengine.server.web.pages import page_of
from sqlengine.server.web.problems import problem_of
from sqlengine.server.web.route import Route, answer, body_of, flag_of, number, number_of

__all__ = ["Statements"]

_WAIT = number("wait", 0, 0, 30, "wait at most so many seconds for the page")
_MOST_SECONDS = 86_400


class Statements:
    """What the paths answer."""

    def __init__(self, sessions: Sessions, streams: Streams) -> None:
        self._sessions = sessions
        self._streams = streams

    def routes(self) -> list[Route]:
        """The paths."""
        session = "/api/v1/sessions/{session}"
        statement = f"{session}/statements/{{statement}}"
        return [
            Route(
                "POST", "/api/v1/sessions", self.open, "open_session",
                "Begin a session: settings, temporary objects and the current database are its own. It ends when nobody"
                " uses it for ten minutes.",
                "Session", 201, refuses=(503,),
            ),
            Route("DELETE", session, self.close, "close_session", "End a session.", "Done", refuses=(404,)),
            Route(
                "POST", f"{session}/statements", self.send, "send_statement",
                "Have a statement carried out. With `live` a query follows tables in memory and views, and never ends; else"
                " it reads what they are now.",
                "Statement", 201, body="NewStatement", refuses=(404, 415),
            ),
            Route(
                "GET", f"{statement}/pages/{{page}}", self.page, "get_page",
                "A page of the result, from 0 on: the next one, or the one before again.", "Page", parameters=(_WAIT,),
                refuses=(404,),
            ),
            Route(
                "GET", f"{statement}/events", self.events, "follow_statement",
                "All pages as events (`page`), from the one behind Last-Event-ID on, and the error, if any (`problem`).", EVENTS,
                refuses=(404, 503),
            ),
            Route("DELETE", statement, self.end, "end_statement", "Stop a statement, and forget it.", "Done", refuses=(404,)),
            Route(
                "POST", f"{session}/completions", self.complete, "complete", "What may be typed at a place of a text.",
                "Completions", body="Place", refuses=(404, 415),
            ),
            Route(
                "POST", "/api/v1/statement-spans", self.spans, "find_statements",
                "Where the statements of a text begin and end.", "Spans", body="Text", refuses=(415,),
            ),
        ]  # fmt: skip

    async def open(self, request: web.Request) -> web.Response:
        session = self._sessions.open({}, None, request.remote or "")
        return answer({"session": session.handle}, 201)

    async def close(self, request: web.Request) -> web.Response:
        await self._sessions.close(_handle(request, "session"))
        return answer({"done": True})

    async def send(self, request: web.Request) -> web.Response:
        session, body = self._session(request), await body_of(request)
        text, seconds = text_of(body, "sql"), body.get("seconds", 0)
        if type(seconds) not in (int, float) or not 0 <= seconds <= _MOST_SECONDS:
            raise Refused(400, f"seconds is a number up to {_MOST_SECONDS}")
        operation = session.send(text, float(seconds), {}, follow=flag_of(body, "live"))
        return answer({"statement": operation.handle}, 201)

    async def page(self, request: web.Request) -> web.Response:
        operation, token = self._operation(request), request.match_info["page"]
        if not token.isascii() or not token.isdecimal() or len(token) > 15:
            raise Refused(404, f"{token!r} is no number of a page")
        found = await operation.fetch(int(token), float(number_of(request, _WAIT)))
        zone = self._session(request).time_zone
        return answer({**await in_thread(lambda: page_of(found, int(token), zone)), "seconds": operation.seconds})

    async def events(self, request: web.Request) -> web.StreamResponse:
        session, operation = self._session(request), self._operation(request)
        before = after_of(request)
        stream = EventStream(request)
        with self._streams:
            await stream.begin()
            token, last = 0 if before is None else before + 1, False
            while not last:
                session.touch()
                try:
                    page = await operation.fetch(token, ALIVE_SECONDS)
                except (SqlEngineError, Refused) as error:
                    await stream.send("problem", problem_of(error))
                    break
                if page is None:
                    await stream.alive()
                    continue
                shown = await in_thread(lambda page=page, token=token: page_of(page, token, session.time_zone))
                await stream.send("page", {**shown, "seconds": operation.seconds}, token)
                token, last = token + 1, shown["last"]
        return stream.response

    async def end(self, request: web.Request) -> web.Response:
        self._session(request).close_operation(_handle(request, "statement"))
        return answer({"done": True})

    async def complete(self, request: web.Request) -> web.Response:
        session, body = self._session(request), await body_of(request)
        text, position = text_of(body, "sql"), body.get("position")
        if type(position) is not int or not 0 <= position <= len(text):
            raise Refused(400, "position is a place in the text")
        found = await in_thread(lambda: session.suggestions(text, position))
        return answer(
            {
                "completions": [
                    {
                        "text": s.text,
                        "replaces": s.replaces,
                        "kind": s.kind,
                        "about": s.about,
                        "shown": s.shown or s.text,
                    }
                    for s in found[:100]
                ]
            }
        )

    async def spans(self, request: web.Request) -> web.Response:
        text = text_of(await body_of(request), "sql")
        found: list[dict[str, Any]] = [
            {"start": s.start, "end": s.end} for s, _ in await in_thread(lambda: statement_spans(text))
        ]
        return answer({"statements": found})

    def _session(self, request: web.Request) -> HttpSession:
        return self._sessions.get(_handle(request, "session"))

    def _operation(self, request: web.Request) -> Operation:
        return self._session(request).operation(_handle(request, "statement"))


def _handle(request: web.Request, what: str) -> str:
    text = request.match_info[what]
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise Refused(404, f"there is no {what} {text!r}") from None
