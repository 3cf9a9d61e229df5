"""The page: one folder of files, all of which are known from the start. No path of a client is looked up on disk."""

from __future__ import annotations

import hashlib
from importlib import resources
from importlib.resources.abc import Traversable

from aiohttp import web

from sqlengine.server.http.refused import Refused

__all__ = ["Assets"]

_TYPES = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "mjs": "text/javascript",
    "svg": "image/svg+xml",
    "txt": "text/plain",
}
_INDEX = "index.html"


class Assets:
    """The files, in memory: some 200 kB."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, str, str]] = {}
        self._read(resources.files("sqlengine.server.web") / "page", "")

    def _read(self, folder: Traversable, before: str) -> None:
        for entry in folder.iterdir():
            if entry.is_dir():
                self._read(entry, f"{before}{entry.name}/")
            elif (kind := _TYPES.get(entry.name.rpartition(".")[2])) is not None:
                data = entry.read_bytes()
                self._files[before + entry.name] = data, kind, f'"{hashlib.sha256(data).hexdigest()[:32]}"'

    def add_routes(self, application: web.Application) -> None:
        """Add the paths of the page."""
        application.router.add_get("/", self._index)
        application.router.add_get("/page/{file:[a-z_./]+}", self._file)

    async def _index(self, request: web.Request) -> web.Response:
        return self._answer(request, _INDEX)

    async def _file(self, request: web.Request) -> web.Response:
        return self._answer(request, request.match_info["file"])

    def _answer(self, request: web.Request, name: str) -> web.Response:
        if name not in self._files:
            raise Refused(404, f"there is no file {name}")
        data, kind, tag = self._files[name]
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=data, content_type=kind, charset="utf-8", headers=headers)
