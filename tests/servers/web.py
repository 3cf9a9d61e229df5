"""A server of HTTP in this process that remembers what it was asked, and answers as a test says."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

__all__ = ["Reply", "Request", "WebServer", "posted", "web_server"]


@dataclass(frozen=True)
class Request:
    """What came. `path`: without the query, as it was sent; `query`: names and values, decoded."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def name(self) -> str:
        """The last part of the path, decoded."""
        return unquote(self.path.rpartition("/")[2])


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    hang_up: bool = False
    """The connection ends after the answer, or, with status 0, without one."""


@dataclass
class WebServer:
    """`answer` says what a request is answered; a list of `first` answers comes before."""

    url: str = ""
    answer: Callable[[Request], Reply] = lambda request: Reply()
    first: list[Reply] = field(default_factory=list[Reply])
    asked: list[Request] = field(default_factory=list[Request])
    connections: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, request: Request) -> Reply:
        with self._lock:
            self.asked.append(request)
            if self.first:
                return self.first.pop(0)
        return self.answer(request)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextmanager
def web_server(answer: Callable[[Request], Reply] = lambda request: Reply()) -> Iterator[WebServer]:
    """A new server."""
    there = WebServer(answer=answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body in one piece: the second of two would wait for the first to be acknowledged.
        wbufsize = -1

        def setup(self) -> None:
            super().setup()
            there.connections += 1

        def _any(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            query = dict(parse_qsl(parts.query, keep_blank_values=True))
            reply = there.reply(Request(self.command, parts.path, query, dict(self.headers), body))
            if reply.status:
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)
            self.close_connection = self.close_connection or reply.hang_up or not reply.status

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _any

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    server = _Server(("127.0.0.1", 0), Handler)
    there.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield there
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def posted(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    """The status that a POST is answered with; sent again until somebody listens."""
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, dict(headers)), timeout=20) as answer:
                status: int = answer.status
                return status
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            threading.Event().wait(0.01)
