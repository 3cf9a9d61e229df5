"""A path of the API with what answers it, and what its description says: one declaration for both."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from sqlengine.server.http.bodies import json_object
from sqlengine.server.http.refused import Refused

__all__ = ["JSON", "Parameter", "Route", "answer", "body_of", "flag", "flag_of", "number", "number_of", "text_or_none"]

JSON = "application/json"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a query string. `schema`: of JSON."""

    name: str
    schema: Mapping[str, Any]
    about: str


@dataclass(frozen=True, slots=True)
class Route:
    """A path.

    Args:
        path: with `{name}` for its parts that vary.
        name: of the operation, in the description.
        about: what it does, a sentence.
        answers: the name of the schema of its answer, or a media type that is none of JSON.
        body: the name of the schema of its body, where it has one.
        other_body: another media type that the body may have.
        refuses: statuses of errors beside those that every path may have.
    """

    method: str
    path: str
    handler: Handler
    name: str
    about: str
    answers: str
    status: int = 200
    body: str | None = None
    other_body: str | None = None
    parameters: tuple[Parameter, ...] = field(default=())
    refuses: tuple[int, ...] = field(default=())


def answer(value: Any, status: int = 200) -> web.Response:
    """A value as JSON."""
    return web.Response(text=json.dumps(value, ensure_ascii=False), status=status, content_type=JSON, charset="utf-8")


async def body_of(request: web.Request) -> dict[str, Any]:
    """The object in a body, which says that it is JSON: so no form of another page can send it. Raises Refused."""
    if request.content_type != JSON:
        raise Refused(415, f"the body is of the type {JSON}")
    return await json_object(request)


def number(name: str, default: int, least: int, most: int, about: str) -> Parameter:
    """A parameter that is a whole number."""
    return Parameter(name, {"type": "integer", "minimum": least, "maximum": most, "default": default}, about)


def number_of(request: web.Request, parameter: Parameter) -> int:
    """Its value, or what it is where it is not given. Raises Refused 400."""
    text, schema = request.query.get(parameter.name), parameter.schema
    if text is None:
        return int(schema["default"])
    least, most = int(schema["minimum"]), int(schema["maximum"])
    if not text.isascii() or not text.isdecimal() or len(text) > 18 or not least <= int(text) <= most:
        raise Refused(400, f"{parameter.name} is a whole number from {least} to {most}")
    return int(text)


def flag(name: str, about: str) -> Parameter:
    """A parameter that is true or false; false where it is not given."""
    return Parameter(name, {"type": "boolean", "default": False}, about)


def flag_of(body: Mapping[str, Any], name: str) -> bool:
    """A boolean of a body; false where it is not there. Raises Refused 400."""
    found = body.get(name, False)
    if type(found) is not bool:
        raise Refused(400, f"{name} is true or false")
    return found


def text_or_none(body: Mapping[str, Any], name: str) -> str | None:
    """A text of a body that need not be there. Raises Refused 400."""
    if name not in body:
        return None
    found = body[name]
    if not isinstance(found, str) or not found:
        raise Refused(400, f"{name} is a text")
    return found
