"""A stand-in for a schema registry: Confluent's interface over HTTP, in memory. It checks no compatibility."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

__all__ = ["Registry", "registry"]


@dataclass
class Registry:
    """What it has, and how it behaves.

    Attributes:
        versions: of each subject the ids, in order.
        user: `name:password` that it wants.
        failures: so many of the next requests fail with this status.
        asked: the paths of all requests.
    """

    url: str = ""
    schemas: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    versions: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    user: str = ""
    failures: list[int] = field(default_factory=list[int])
    asked: list[str] = field(default_factory=list[str])
    answer: bytes | None = None
    redirect: str = ""

    def add(self, subject: str, schema: str, kind: str = "AVRO", references: list[Any] | None = None) -> int:
        """Register a schema; gives its id."""
        told = {"schema": schema, "schemaType": kind, "references": references or []}
        if told not in self.schemas:
            self.schemas.append(told)
        number = self.schemas.index(told) + 1
        ids = self.versions.setdefault(subject, [])
        if number not in ids:
            ids.append(number)
        return number

    def reply(self, path: str, body: Any) -> tuple[int, Any]:
        """The status and the answer to a request."""
        if path == "/subjects":
            return 200, sorted(self.versions)
        if found := re.fullmatch(r"/schemas/ids/(\d+)", path):
            number = int(found[1])
            if not 1 <= number <= len(self.schemas):
                return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
            return 200, self._shown(number)
        found = re.fullmatch(r"/subjects/([^/]+)(?:/versions(?:/(latest|\d+))?)?", path)
        if found is None:
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        subject = unquote(found[1])
        if body is not None and path.endswith("/versions"):
            return 200, {"id": self.add(subject, body["schema"], body.get("schemaType", "AVRO"))}
        ids = self.versions.get(subject)
        if not ids:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        if body is not None:
            known = [i for i in ids if self.schemas[i - 1]["schema"] == body["schema"]]
            return (200, {"id": known[0]}) if known else (404, {"error_code": 40403, "message": "Schema not found"})
        version = len(ids) if found[2] == "latest" else int(found[2])
        return 200, {"subject": subject, "id": ids[version - 1], "version": version, **self._shown(ids[version - 1])}

    def _shown(self, number: int) -> dict[str, Any]:
        told = dict(self.schemas[number - 1])
        if told["schemaType"] == "AVRO":
            del told["schemaType"]
        return told


@contextmanager
def registry() -> Iterator[Registry]:
    """One that answers while the block runs."""
    state = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Any) -> None:
            state.asked.append(self.path)
            wanted = "Basic " + base64.b64encode(state.user.encode()).decode()
            if state.failures:
                status, said = state.failures.pop(0), {"message": "busy"}
            elif state.redirect:
                status, said = 302, None
            elif state.user and self.headers.get("Authorization") != wanted:
                status, said = 401, {"message": "Unauthorized"}
            else:
                status, said = state.reply(self.path, body)
            raw = json.dumps(said).encode() if state.answer is None else state.answer
            self.send_response(status)
            if state.redirect:
                self.send_header("Location", state.redirect)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *told: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=lambda: server.serve_forever(0.01), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
