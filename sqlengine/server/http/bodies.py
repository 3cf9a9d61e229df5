"""What stands in the bodies of requests, each thing checked for what it has to be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from sqlengine.server.http.refused import Refused

__all__ = ["json_object", "read_body", "text_of"]

_BODY_SECONDS = 30.0


async def read_body(request: web.Request) -> bytes:
    """Raises TimeoutError for one that does not come, Refused for one that cannot be read, and what aiohttp raises for one
    that is too large."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Refused(415, "bodies are not compressed here")
    try:
        return await asyncio.wait_for(request.read(), _BODY_SECONDS)
    except web.RequestPayloadError:
        raise Refused(400, "the body cannot be read") from None


async def json_object(request: web.Request) -> dict[str, Any]:
    """The body as an object; none is an empty one. Raises Refused for anything else."""
    data = await read_body(request)
    if not data.strip():
        return {}
    try:
        found = json.loads(data.decode())
        if b"\\u" in data:
            # An escape can be half of a character, which no text here may have.
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise Refused(400, "the body is no JSON") from None
    if not isinstance(found, dict):
        raise Refused(400, "the body is no JSON object")
    return found


def text_of(body: Mapping[str, Any], name: str) -> str:
    """Raises Refused for what is no text."""
    found = body.get(name)
    if not isinstance(found, str):
        raise Refused(400, f"{name} is a text")
    return found
