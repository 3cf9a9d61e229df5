"""A client of the gateway's REST API that sends what a test says."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Gateway", "Session", "gateway_address"]


def gateway_address(line: str) -> tuple[str, int]:
    """Of the line that a server prints."""
    match = re.match(r"Flink's clients connect to ([\d.]+):(\d+)", line)
    assert match is not None, line
    return match[1], int(match[2])


@dataclass(frozen=True)
class Gateway:
    host: str
    port: int

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status and the answer. As Flink's clients do, GET and DELETE have a body, and each request a connection."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        data = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
        connection.request(method, path, data, {"Content-Type": "application/json", "Connection": "close", **headers})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, json.loads(text)

    def open(self, version: int = 4, **properties: str) -> Session:
        given = {key.replace("_", "."): value for key, value in properties.items()}
        status, answer = self.ask("POST", f"/v{version}/sessions", {"properties": given})
        assert status == 200
        return Session(self, version, answer["sessionHandle"])


@dataclass(frozen=True)
class Session:
    gateway: Gateway
    version: int
    handle: str

    @property
    def path(self) -> str:
        return f"/v{self.version}/sessions/{self.handle}"

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return self.gateway.ask(method, self.path + path, body)

    def send(self, statement: str, **more: Any) -> str:
        """The path of the operation."""
        status, answer = self.ask("POST", "/statements", {"statement": statement, **more})
        assert status == 200, answer
        return f"/operations/{answer['operationHandle']}"

    def pages(self, operation: str, form: str = "JSON") -> Iterator[dict[str, Any]]:
        """All pages that are there, as long as somebody reads on."""
        uri = f"{self.path}{operation}/result/0?rowFormat={form}"
        while uri:
            status, page = self.gateway.ask("GET", uri)
            assert status == 200, page
            if page["resultType"] != "NOT_READY":
                yield page
            uri = page.get("nextResultUri")

    def rows(self, statement: str, form: str = "JSON") -> list[list[Any]]:
        """The fields of all rows."""
        pages = list(self.pages(self.send(statement), form))
        assert pages[-1]["resultType"] == "EOS"
        return [row["fields"] for page in pages for row in page["results"]["data"]]

    def failure(self, statement: str) -> str:
        """What the SQL client would show."""
        operation = self.send(statement)
        uri = f"{operation}/result/0?rowFormat=JSON"
        while True:
            status, answer = self.ask("GET", uri)
            if status != 200:
                break
            assert answer["resultType"] == "NOT_READY", answer
        assert status == 500 and answer["errors"][0] == "Internal server error."
        assert self.ask("GET", f"{operation}/status") == (200, {"status": "ERROR"})
        return answer["errors"][1].rpartition("Caused by: ")[2].partition("\n\tat ")[0]
