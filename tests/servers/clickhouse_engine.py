"""ClickHouse's own engine behind its interface of HTTP: what `CLICKHOUSE_URL` may name for the tests of the connector.

    pip install chdb; python tests/servers/clickhouse_engine.py PORT FOLDER

The package is large, so that it is no package of the tests, which use `tests/servers/clickhouse.py` without it.
"""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

_FORMAT = re.compile(r"\sFORMAT (\w+)\s*$")


class _Engine:
    """One session, which is asked by one thread at a time."""

    def __init__(self, folder: str) -> None:
        self._session: Any = importlib.import_module("chdb.session").Session(folder)
        self._lock = threading.Lock()
        # Versions of the package raise one or the other.
        self.errors = (RuntimeError, getattr(importlib.import_module("chdb"), "ChdbError", RuntimeError))

    def answer(self, query: dict[str, str], body: bytes) -> bytes:
        settings = {k: v for k, v in query.items() if k not in ("database", "query")}
        statement = query.get("query") or body.decode()
        with self._lock:
            self._session.query(f'USE "{query["database"]}"')
            for name, value in settings.items():
                self._session.query(f"SET {name} = '{value}'")
            try:
                if "query" not in query:
                    found = _FORMAT.search(statement)
                    return self._session.query(
                        statement[: found.start()] if found else statement, found[1] if found else "TSV"
                    ).bytes()
                with tempfile.NamedTemporaryFile(suffix=".arrows") as rows:
                    rows.write(body)
                    rows.flush()
                    head = statement.removesuffix(" FORMAT ArrowStream")
                    return self._session.query(f"{head} FROM INFILE '{rows.name}' FORMAT ArrowStream").bytes()
            finally:
                for name in settings:
                    self._session.query(f"SET {name} = DEFAULT")


def serve(port: int, folder: str) -> None:
    """Until somebody ends the process."""
    engine = _Engine(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                status, answer = 200, engine.answer(dict(parse_qsl(urlsplit(self.path).query)), body)
            except engine.errors as error:
                status, answer = 500, str(error).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
