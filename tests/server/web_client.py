"""A client of the REST API for operations, and a server with something in it."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["Web", "web_address"]


def web_address(line: str) -> tuple[str, int]:
    """Of the line that a server prints."""
    match = re.match(r"Browsers open http://([\d.]+):(\d+)", line)
    assert match is not None, line
    return match[1], int(match[2])


@dataclass(frozen=True)
class Web:
    host: str
    port: int

    def raw(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any, bytes]:
        """The status, the headers and the body of an answer."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        connection.request(method, path, body, {"Connection": "close", **named})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, answer.headers, data

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status and the object of an answer; `body` is sent as JSON."""
        data = None if body is None else json.dumps(body).encode()
        named = {"Content_Type": "application/json", **headers}
        status, _, text = self.raw(method, f"/api/v1{path}", data, **named)
        return status, json.loads(text)

    def get(self, path: str) -> Any:
        status, found = self.ask("GET", path)
        assert status == 200, found
        return found

    def post(self, path: str, **body: Any) -> Any:
        status, found = self.ask("POST", path, body)
        assert status in (200, 201), found
        return found

    def rows(self, session: str, sql: str) -> list[list[str | None]]:
        """All rows of a statement that ends."""
        statement = self.post(f"/sessions/{session}/statements", sql=sql)["statement"]
        found: list[list[str | None]] = []
        page: dict[str, Any] = {"next": 0}
        while page["next"] is not None:
            page = self.get(f"/sessions/{session}/statements/{statement}/pages/{page['next']}?wait=30")
            found += page["rows"]
        return found

    @contextmanager
    def events(self, path: str, **headers: str) -> Iterator[Iterator[tuple[str, str, Any]]]:
        """The events of a stream: kind, id, value."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        connection.request("GET", f"/api/v1{path}", headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()

        def read() -> Iterator[tuple[str, str, Any]]:
            found: dict[str, str] = {}
            while raw := answer.readline():
                line = raw.decode().rstrip("\n")
                if line:
                    key, _, value = line.partition(": ")
                    found[key] = value
                elif "event" in found:
                    yield found["event"], found.get("id", ""), json.loads(found["data"])
                    found = {}

        try:
            yield read()
        finally:
            connection.close()
