"""Requests over HTTP, on connections that are kept open.

Nothing is followed to another address: a server that says which hosts may be reached has looked at this one only. A request
that a kept connection has lost is sent once more on a new one, so whatever is sent must bear to come twice.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import urlsplit

from runtime.core.errors import ConnectorError, UnavailableError
from runtime.core.retries import Retries, retried
from runtime.core.secrets import MASK, Secret, masked_text

__all__ = ["PASSING", "Answer", "Client", "TryLater", "Way", "client_of", "patiently"]

T = TypeVar("T")
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""What a server may answer differently a moment later."""
_LOST = (http.client.RemoteDisconnected, http.client.BadStatusLine, ConnectionResetError, BrokenPipeError)
_MOST_IDLE = 32
_LONGEST = 300.0
_TOLD = 200


@dataclass(frozen=True)
class Way:
    """How servers are asked.

    Attributes:
        headers: of each request.
        trusted: a file of certificates (PEM) that are trusted instead of those of the system.
        timeout: seconds that a connection, and each part of an answer, may take.
        most: bytes of an answer.
        thinking: seconds that a part of an answer may take, where that is not `timeout`.
    """

    headers: tuple[tuple[str, Secret], ...] = ()
    trusted: str = ""
    timeout: float = 30.0
    most: int = 64 << 20
    thinking: float = 0.0


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Message
    body: bytes


class TryLater(UnavailableError):
    """The server says that it may work later, and perhaps when: `seconds`, 0 where it does not."""

    seconds: float = 0.0


class Client:
    """May be used by several threads. Raises UnavailableError E3150 where nothing answers, ConnectorError E3250 for a
    certificate that is not trusted and an answer that is too long."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._idle: dict[tuple[str, str], list[http.client.HTTPConnection]] = {}
        self._lock = threading.Lock()

    def ask(self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        """The answer, whatever its status is. `url`: with a host, and as it is to be sent."""
        there, target, sent = self._request(url, headers)
        with _telling(there[1]):
            kept = self._kept(there)
            if kept is not None:
                with contextlib.suppress(*_LOST):
                    return self._asked(there, kept, method, target, body, sent)
            return self._asked(there, self._opened(there), method, target, body, sent)

    @contextmanager
    def opened(
        self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Generator[http.client.HTTPResponse]:
        """An answer that is read as it comes, of any length, on a connection of its own. Errors while it is read are those
        of `ask`."""
        there, target, sent = self._request(url, headers)
        with _telling(there[1]), contextlib.closing(self._opened(there)) as connection:
            connection.request(method, target, body, sent)
            with connection.getresponse() as answer:
                yield answer

    def _request(self, url: str, headers: Mapping[str, str] | None) -> tuple[tuple[str, str], str, dict[str, str]]:
        """The place that is asked, for what, with which headers."""
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        sent = {**{name: value.reveal() for name, value in self._way.headers}, **(headers or {})}
        return (parts.scheme, parts.netloc), target, sent

    def accepted(self, answer: Answer, what: str, hint: str = "check the address, and who may ask") -> Answer:
        """The answer, of a server that has done what it was asked. `what`: for messages.

        Raises TryLater E3150 for a status that may pass, ConnectorError E3250 for any other.
        """
        if 200 <= answer.status < 300:
            return answer
        told = " ".join(answer.body[: 4 * _TOLD].decode("utf-8", "replace").split())
        for _, value in self._way.headers:
            # Some servers tell what they were sent.
            told = told.replace(value.reveal(), MASK)
        told = masked_text(told[:_TOLD])
        message = f"{what}: HTTP {answer.status}{' ' + told if told else ''}"
        if answer.status in PASSING:
            later = TryLater(message, hint="the server may answer later")
            later.seconds = _wanted_pause(answer.headers.get("Retry-After", ""))
            raise later
        if 300 <= answer.status < 400:
            hint = "nothing is followed to another address: give that one, if it may be asked"
        raise ConnectorError(message, code="E3250", hint=hint)

    def close(self) -> None:
        with self._lock:
            idle = [connection for kept in self._idle.values() for connection in kept]
            self._idle.clear()
        for connection in idle:
            connection.close()

    def _kept(self, there: tuple[str, str]) -> http.client.HTTPConnection | None:
        with self._lock:
            kept = self._idle.get(there)
            return kept.pop() if kept else None

    def _opened(self, there: tuple[str, str]) -> http.client.HTTPConnection:
        scheme, place = there
        timeout = self._way.timeout
        if scheme == "http":
            opened = http.client.HTTPConnection(place, timeout=timeout)
        else:
            opened = http.client.HTTPSConnection(place, timeout=timeout, context=_context(self._way.trusted))
        if self._way.thinking:
            opened.connect()
            opened.sock.settimeout(self._way.thinking)
        return opened

    def _asked(
        self,
        there: tuple[str, str],
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> Answer:
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            read = answer.read(self._way.most + 1)
        except BaseException:
            connection.close()
            raise
        if len(read) > self._way.most:
            connection.close()
            raise ConnectorError(
                f"{there[1]} answers with more than {self._way.most} bytes",
                code="E3250",
                hint="raise 'source.max-record-size', or ask for less",
            )
        if answer.will_close or not answer.isclosed():
            connection.close()
        else:
            with self._lock:
                kept = self._idle.setdefault(there, [])
                if len(kept) < _MOST_IDLE:
                    kept.append(connection)
                    return Answer(answer.status, answer.headers, read)
            connection.close()
        return Answer(answer.status, answer.headers, read)


@contextmanager
def _telling(place: str) -> Generator[None]:
    """Errors of a connection to a host as `Client` says."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise ConnectorError(
            f"the certificate of {place} is not trusted: {error.verify_message}",
            code="E3250",
            hint="set 'ssl-root-cert-path' to the file of the certificates that it is signed by (PEM)",
        ) from error
    except (OSError, http.client.HTTPException) as error:
        host = urlsplit(f"//{place}").hostname
        what = f"no such host: {host}" if isinstance(error, socket.gaierror) else masked_text(str(error))
        raise UnavailableError(
            f"{place} does not answer: {what or type(error).__name__}",
            hint="is it there, and reachable from here?",
        ) from error


@functools.lru_cache(maxsize=16)
def _context(trusted: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=trusted or None)
    except (OSError, ssl.SSLError) as error:
        raise ConnectorError(
            f"the file of certificates '{trusted}' cannot be used: {error}",
            code="E3250",
            hint="'ssl-root-cert-path' names a file of certificates (PEM)",
        ) from error


def client_of(way: Way) -> Client:
    """The client of this process."""
    return _client_of(way, os.getpid())


@functools.lru_cache(maxsize=64)
def _client_of(way: Way, process: int) -> Client:
    # A process that was forked must not share connections.
    del process
    return Client(way)


def _wanted_pause(text: str) -> float:
    """Seconds that `Retry-After` names, or the time until it; 0 for what is neither."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), _LONGEST)
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return 0.0
    left = (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return min(max(left, 0.0), _LONGEST)


def patiently(
    call: Callable[[], T],
    retries: Retries,
    told: Callable[[Exception, float], object] | None = None,
    pause: Callable[[float], object] = time.sleep,
) -> T:
    """`retried` for what may pass, with pauses at least as long as the server asks for."""
    least = [0.0]

    def tried(error: Exception, seconds: float) -> None:
        least[0] = error.seconds if isinstance(error, TryLater) else 0.0
        if told is not None:
            told(error, max(seconds, least[0]))

    return retried(call, retries, UnavailableError, lambda seconds: pause(max(seconds, least[0])), tried)
