"""Requests of HTTP to all paths that a port has, whole and spoilt."""

from __future__ import annotations

import gzip
import http.client
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.server.hostile.changes import hostile_json, spoilt

__all__ = ["GATEWAY", "HttpAttacker", "Request", "web_requests"]

_SQL = (
    "SELECT 1", "SELECT * FROM v", "SHOW TABLES", "INSERT INTO t VALUES (1, 'x')", "SET 'a' = 'b'", "EXPLAIN SELECT * FROM t", "",
    "SELECT n FROM generate_series(1, 9) AS s (n)",
)  # fmt: skip
_HANDLE = re.compile(rb'"(?:sessionHandle|session)": ?"([0-9a-f-]{36})"')
_OPERATION = re.compile(rb'"(?:operationHandle|statement)": ?"([0-9a-f-]{36})"')


@dataclass(frozen=True)
class Request:
    """`path`: with `{session}` and `{operation}` in the places of handles. `body`: an object of JSON; None: there is none."""

    method: str
    path: str
    body: dict[str, object] | None = None


_SESSION = "/v4/sessions/{session}"
GATEWAY = (
    Request("GET", "/v1/info"),
    Request("GET", "/api_versions"),
    Request("GET", _SESSION),
    Request("POST", f"{_SESSION}/heartbeat", {}),
    Request("POST", f"{_SESSION}/configure-session", {"statement": "SET 'k' = 'v'", "executionTimeout": 1000}),
    Request(
        "POST", f"{_SESSION}/statements", {"statement": "sql", "executionConfig": {"a": "b"}, "executionTimeout": 5000}
    ),
    Request("GET", f"{_SESSION}/complete-statement", {"statement": "SELECT ", "position": 7}),
    Request("GET", _SESSION + "/operations/{operation}/status"),
    Request("GET", _SESSION + "/operations/{operation}/result/0?rowFormat=JSON"),
    Request("POST", _SESSION + "/operations/{operation}/cancel", {}),
    Request("DELETE", _SESSION + "/operations/{operation}/close"),
    Request(
        "POST", f"{_SESSION}/materialized-tables/v/refresh", {"staticPartitions": {"a": "b"}, "executionConfig": {}}
    ),
    Request("POST", f"{_SESSION}/scripts", {"script": "SELECT 1", "executionConfig": {}}),
    Request("DELETE", _SESSION),
)


def web_requests(host: str, port: int) -> list[Request]:
    """One to each path that the API describes, and some to those of the page."""
    connection = http.client.HTTPConnection(host, port, timeout=60)
    connection.request("GET", "/api/v1/openapi.json")
    described = json.loads(connection.getresponse().read())
    connection.close()
    found = [Request("GET", path) for path in ("/", "/app.js", "/no%2fthing", "/../../etc/passwd", "/vendor/%2e%2e/x")]
    bodies = {"sql": "sql", "text": "SELECT 1; SELECT 2", "position": 3, "tasks": 2, "savepoint": False, "live": True}
    for path, methods in described["paths"].items():
        if path == "/api/v1/sessions":
            continue
        named = path.replace("{statement}", "{operation}")
        for name, value in (
            ("job", "j"),
            ("catalog", "default_catalog"),
            ("database", "default_database"),
            ("page", "0"),
        ):
            named = named.replace(f"{{{name}}}", value)
        named = re.sub(r"\{(?!session|operation)\w+\}", "v", named)
        for method in methods:
            if method in ("get", "post", "delete", "put"):
                found.append(Request(method.upper(), named, bodies if method == "post" else None))
    return found


class HttpAttacker:
    """Args: `requests` that are sent, the path that `opens` a session, and one that `asks` for what is always there."""

    patience = 0.03

    def __init__(self, host: str, port: int, requests: Sequence[Request], opens: str, asks: str) -> None:
        self._where = host, port
        self._requests = requests
        self._opens = opens
        self._asks = asks
        self._session = b"none"
        self._operation = b"0" * 36

    def heard(self, answer: bytes) -> None:
        for found in _OPERATION.findall(answer):
            self._operation = found

    def well(self) -> None:
        """A session that somebody has closed is made anew; what a port has to say is said."""
        if self._ask("GET", self._asks)[0] != 200:
            raise AssertionError(f"{self._asks} is not answered")
        _, made = self._ask("POST", self._opens, b"{}")
        found = _HANDLE.search(made)
        assert found is not None, made
        self._ask("DELETE", f"{self._opens}/{self._session.decode()}")
        self._session = found[1]

    def end(self) -> None:
        """Close the session."""
        self._ask("DELETE", f"{self._opens}/{self._session.decode()}")

    def conversation(self, chance: random.Random) -> list[bytes]:
        count = chance.choice((1, 1, 1, 2, 5, 12))
        return [self._request(chance, last=at == count) for at in range(1, count + 1)]

    def _ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(*self._where, timeout=60)
        connection.request(method, path, body, {"Content-Type": "application/json", "Connection": "close"})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, data

    def _request(self, chance: random.Random, *, last: bool) -> bytes:
        asked = chance.choice(self._requests)
        method = (
            asked.method
            if chance.random() < 0.9
            else chance.choice(("GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE", "X"))
        )
        path = asked.path.encode().replace(b"{session}", self._session).replace(b"{operation}", self._operation)
        if chance.random() < 0.1:
            path = b"/" + spoilt(chance, path[1:]).replace(b"\r\n\r\n", b"%0d")
        body = self._body(chance, asked)
        headers = [b"Host: 127.0.0.1", b"Content-Type: application/json"]
        if last and chance.random() < 0.9:
            headers.append(b"Connection: close")
        length = b"Content-Length: %d" % len(body)
        match chance.randrange(30):
            case 0:
                length = b"Content-Length: " + chance.choice(
                    (b"-1", b"99999999999999999999", b"1e3", b"0x10", b"", b"5, 5")
                )
            case 1:
                length = b"Content-Length: %d" % max(0, len(body) + chance.choice((-3, 1, 100)))
            case 2:
                length, body = b"Transfer-Encoding: chunked", self._chunks(chance, body)
            case 3:
                length += b"\r\nTransfer-Encoding: chunked"
            case 4:
                body = gzip.compress(chance.choice((body, b" " * 20_000_000)), 1)
                length = b"Content-Encoding: gzip\r\nContent-Length: %d" % len(body)
            case 5:
                headers.append(b"X: " + b"y" * chance.choice((8000, 9000, 70_000)))
            case 6:
                headers += [b"X-%d: y" % i for i in range(chance.choice((50, 500)))]
            case 7:
                headers[0] = chance.choice(
                    (b"Host: evil.example", b"Host:", b"X-No: host", b"Host: 127.0.0.1\r\nHost: b")
                )
            case 8:
                headers.append(b"Origin: http://evil.example")
            case 9:
                headers.append(
                    b"Authorization: " + chance.choice((b"Basic !!!", b"Basic YTpi", b"Bearer x", b"\xff", b"Basic"))
                )
            case 10:
                headers.append(b"Expect: 100-continue")
            case 11:
                headers += [b"Connection: Upgrade", b"Upgrade: " + chance.choice((b"websocket", b"h2c"))]
            case 12:
                headers[1] = b"Content-Type: " + chance.choice(
                    (b"text/plain", b"application/sql", b"", b"a/b; charset=\xff", b"x" * 300)
                )
            case 13:
                headers.append(b"Last-Event-ID: " + chance.choice((b"-1", b"x", b"9" * 50)))
        whole = b"%s %s HTTP/1.1\r\n%s\r\n\r\n%s" % (method.encode(), path, b"\r\n".join([*headers, length]), body)
        return spoilt(chance, whole) if chance.random() < 0.15 else whole

    @staticmethod
    def _body(chance: random.Random, asked: Request) -> bytes:
        if asked.body is None and chance.random() < 0.9:
            return b""
        sql = chance.choice(_SQL)
        if chance.random() < 0.3:
            sql = spoilt(chance, sql.encode()).decode("utf-8", "replace")
        given = {key: sql if value == "sql" else value for key, value in (asked.body or {"a": 1}).items()}
        whole = json.dumps(given).encode()
        if given and chance.random() < 0.3:
            name = chance.choice(tuple(given))
            rest = {key: value for key, value in given.items() if key != name}
            whole = b'{"%s": %s, %s' % (name.encode(), hostile_json(chance), json.dumps(rest).encode()[1:])
        kind = chance.random()
        return hostile_json(chance) if kind < 0.08 else spoilt(chance, whole) if kind < 0.2 else whole

    @staticmethod
    def _chunks(chance: random.Random, body: bytes) -> bytes:
        size = chance.choice(
            (b"%x" % len(body), b"%x" % (len(body) + 9), b"-1", b"ffffffffffffffff", b"zz", b"1;" + b"x" * 9000)
        )
        return size + b"\r\n" + body + chance.choice((b"\r\n0\r\n\r\n", b"0\r\n\r\n", b"", b"\r\n0\r\nT: x\r\n\r\n"))
