"""Who may ask: the one place where a request over HTTP is let in or refused.

Where there are no users, everybody may ask who says an address of this machine as the host: a page in a browser that has
given its name our address says its name. Whoever asks, a page from elsewhere may not: a browser says where a page is from.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Mapping
from urllib.parse import urlsplit

from aiohttp import web

from sqlengine.server.http.refused import Refused
from sqlengine.server.postgres.scram import Verifier

__all__ = ["Access", "is_local"]


class Access:
    """Lets requests in.

    Args:
        users: what is kept of their passwords, which come by HTTP's basic authentication; None: everybody may connect
            who says an address of this machine.
    """

    def __init__(self, users: Mapping[str, Verifier] | None) -> None:
        self._users = users
        self._known: set[bytes] = set()
        """Of users who have proved who they are, with a key of this process."""
        self._key = secrets.token_bytes(32)

    def check(self, request: web.Request) -> None:
        """Raises Refused 401 for somebody unknown, 403 for a host, or a page, that is not ours."""
        self._check_origin(request)
        if self._users is None:
            if not is_local(request.host):
                raise Refused(403, "give --users FILE to be reached by this name")
            return
        header = request.headers.get("Authorization", "")
        proof = hmac.digest(self._key, header.encode(), hashlib.sha256)
        if proof in self._known:
            return
        name, password = _basic(header)
        verifier = self._users.get(name)
        if verifier is None or not verifier.accepts(password):
            raise Refused(401, "a user and a password are needed: Authorization: Basic ...")
        self._known.add(proof)

    @staticmethod
    def _check_origin(request: web.Request) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and _place(origin) != request.host.lower():
            raise Refused(403, "requests of pages from elsewhere are not answered")


def _place(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


@functools.lru_cache(maxsize=1024)
def is_local(host: str) -> bool:
    """Whether a host, with or without a port, is an address of this machine."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and not host.endswith("]") else host
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return name == "localhost"


def _basic(header: str) -> tuple[str, str]:
    kind, _, encoded = header.partition(" ")
    if kind.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password
