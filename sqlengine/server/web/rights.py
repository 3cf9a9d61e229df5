"""What whoever asks may know of: the web port answers from the whole database, so each path says who may ask."""

from __future__ import annotations

from aiohttp import web

from sqlengine.catalog.objects import ObjectPath
from sqlengine.roles.privileges import Target
from sqlengine.server.http.access import WHO
from sqlengine.server.web.route import Handler

__all__ = ["monitored", "sees", "sees_table"]


def monitored(handler: Handler) -> Handler:
    """A path for those who may know of everything that runs. Raises AccessError."""

    async def checked(request: web.Request) -> web.StreamResponse:
        WHO.get().require("MONITOR", Target("system", ()))
        return await handler(request)

    return checked


def sees(kind: str, *path: str) -> bool:
    """Whether whoever asks may know of something."""
    return WHO.get().sees(Target(kind, path))


def sees_table(path: ObjectPath) -> bool:
    """The same of a table or view."""
    return sees("table", *path.parts)
