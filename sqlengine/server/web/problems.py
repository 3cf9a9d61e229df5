"""Errors as problem details: the code of the engine, the place in the text, and what to do."""

from __future__ import annotations

import http
import json
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from runtime.core.errors import AccessError, SqlEngineError, UserError, position
from runtime.core.logs import Log
from sqlengine.server.http.refused import Refused

__all__ = ["PROBLEM", "failure", "problem_of", "refusal", "status_of"]

_log = Log("server")
PROBLEM = "application/problem+json"
_UNKNOWN_JOB = "E1406"


def refusal(request: web.Request, status: int, errors: Sequence[str]) -> web.Response:
    """What answers a request that is refused."""
    return _response({"status": status, "title": _title(status), "detail": errors[0]})


def failure(request: web.Request, error: BaseException) -> web.Response:
    """What answers a request that has failed."""
    return _response(problem_of(error))


def status_of(error: BaseException) -> int:
    """The status of HTTP for an error."""
    if isinstance(error, Refused):
        return error.status
    if isinstance(error, SqlEngineError) and error.code == _UNKNOWN_JOB:
        return 404
    if isinstance(error, AccessError):
        return 403
    return 400 if isinstance(error, UserError) else 500


def problem_of(error: BaseException) -> dict[str, Any]:
    """An error as an object; of one that is none of SQL nothing but that there was one."""
    status = status_of(error)
    found: dict[str, Any] = {"status": status, "title": _title(status)}
    if isinstance(error, Refused):
        return {**found, "detail": error.errors[0]}
    if not isinstance(error, SqlEngineError):
        _log.failure("web", error)
        return {**found, "detail": "internal error; the log of the server says more", "code": "E9100"}
    found |= {"detail": error.message, "code": error.code}
    if error.hint:
        found["hint"] = error.hint
    if error.span is not None and error.text is not None:
        line, column = position(error.text, error.span.start)
        found["position"] = {"line": line, "column": column, "start": error.span.start, "end": error.span.end}
    return found


def _title(status: int) -> str:
    return http.HTTPStatus(status).phrase


def _response(problem: dict[str, Any]) -> web.Response:
    return web.Response(
        text=json.dumps(problem, ensure_ascii=False), status=problem["status"], content_type=PROBLEM, charset="utf-8"
    )
