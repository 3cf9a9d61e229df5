"""The description of the API, from the declarations of its paths: it says what there is, because nothing else is there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from sqlengine.server.web.problems import PROBLEM
from sqlengine.server.web.route import JSON, Route
from sqlengine.server.web.schemas import SCHEMAS

__all__ = ["description_of"]

_EVERYWHERE = {
    400: "What was asked is wrong: a parameter, the body, or the SQL in it.",
    401: "A user and a password are needed.",
    403: "The host, or the page that asks, is not one of this server.",
    408: "The request has not arrived in time.",
    413: "The body, or what was asked for, is too large.",
    500: "It has failed.",
}
_OTHERS = {
    404: "What the path names is not there.",
    409: "It cannot be done in the state that it is in.",
    415: "The body has another type.",
    503: "The server cannot do that now.",
}
_DIGITS = frozenset(("page",))


def description_of(routes: Sequence[Route]) -> dict[str, Any]:
    """The description in OpenAPI 3.1."""
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sqlengine",
            "version": version("sqlengine"),
            "description": "Operate a server of sqlengine: jobs, views, catalog, statements, figures.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": dict(SCHEMAS),
            "securitySchemes": {"password": {"type": "http", "scheme": "basic"}},
        },
        "security": [{}, {"password": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    named = re.findall(r"\{(\w+)\}", route.path)
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.about,
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": _part(name)} for name in named),
            *(
                {"name": p.name, "in": "query", "required": False, "schema": dict(p.schema), "description": p.about}
                for p in route.parameters
            ),
        ],
        "responses": {
            str(route.status): {"description": "What was asked for.", "content": _content(route.answers)},
            **{
                str(status): {"description": text, "content": {PROBLEM: {"schema": _ref("Problem")}}}
                for status, text in sorted(
                    (_EVERYWHERE | {s: _OTHERS.get(s, "") or _EVERYWHERE[s] for s in route.refuses}).items()
                )
            },
        },
    }
    if route.body is not None:
        content = {JSON: {"schema": _ref(route.body)}}
        if route.other_body is not None:
            content[route.other_body] = {"schema": {"type": "string"}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _part(name: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0} if name in _DIGITS else {"type": "string"}


def _content(answers: str) -> dict[str, Any]:
    if "/" in answers:
        return {answers: {"schema": {"type": "string"}}}
    return {JSON: {"schema": _ref(answers)}}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}
