"""Who comes with an `Authorization` header, over HTTP or Flight: a user and a password (`Basic ..`), or a token (`Bearer ..`).

A password takes milliseconds to be checked, so one that was right is known again: its header is kept as a hash with a key of
this process, until anything changes by which somebody is known.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

from sqlengine.roles.authority import Authority
from sqlengine.server.access import Access

__all__ = ["Proofs", "user_of"]

_MOST_KNOWN = 1000
_MOST_NAME = 256


class Proofs:
    """See the module. Any thread may ask.

    Args:
        access: who may connect.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._known: dict[bytes, Authority] = {}
        self._as_of = access.version
        self._key = secrets.token_bytes(32)

    def known(self, header: str) -> Authority | None:
        """Whose token it is, or whose password that was right before; None where it takes time to tell, or is wrong."""
        kind, _, said = header.partition(" ")
        if not header.isascii():
            return None
        if kind.lower() == "bearer":
            return self._access.by_token(said.strip())
        if self._as_of != self._access.version:
            self._known, self._as_of = {}, self._access.version
        found = self._known.get(self._hash(header))
        return found if found is not None and self._access.verifier(found.user) is not None else None

    def proved(self, header: str) -> Authority | None:
        """Whose password it is; None where it is wrong. Takes milliseconds, as many for unknown users."""
        as_of = self._access.version
        found = self._access.by_password(*_basic(header))
        if found is not None and as_of == self._access.version == self._as_of:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[self._hash(header)] = found
        return found

    def _hash(self, header: str) -> bytes:
        return hmac.digest(self._key, header.encode(), hashlib.sha256)


def user_of(header: str) -> str:
    """Who a header says that it is, which nobody has checked; an empty text for a token, and for none."""
    return _basic(header)[0][:_MOST_NAME]


def _basic(header: str) -> tuple[str, str]:
    """The name and the password; two empty texts for what says neither."""
    kind, _, encoded = header.partition(" ")
    if kind.lower() != "basic" or not header.isascii():
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password
