"""SCRAM-SHA-256: a client proves that it knows a password, and the server that it knew it, without either telling it.

Source: RFC 5802, RFC 7677; PostgreSQL 15, 55.3 "SASL Authentication". With SCRAM-SHA-256-PLUS the proof is bound to the
certificate of the connection (RFC 5929, `tls-server-end-point`), so that it is worth nothing to who stands between.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets

from sqlengine.roles.verifier import Verifier, keyed

__all__ = ["Exchange", "Refused", "mechanisms"]

_PLAIN = "SCRAM-SHA-256"
_BOUND = "SCRAM-SHA-256-PLUS"


class Refused(Exception):
    """The client has not proved that it knows the password."""


def mechanisms(binding: bytes | None) -> tuple[str, ...]:
    """What a client may choose from. `binding`: of the certificate of its connection; None where there is none."""
    return (_PLAIN,) if binding is None else (_BOUND, _PLAIN)


class Exchange:
    """The two messages of a client and what is answered. Raises Refused at what is wrong, without saying what.

    Args:
        verifier: of the user; None for one that is unknown, who goes through the same steps.
        user: its name.
        mechanism: what the client has chosen.
        binding: of the certificate of its connection.
    """

    def __init__(
        self, verifier: Verifier | None, user: str = "", mechanism: str = _PLAIN, binding: bytes | None = None
    ) -> None:
        if mechanism not in mechanisms(binding):
            raise Refused
        self._known = verifier is not None
        self._verifier = verifier or Verifier.of_nobody(user)
        self._binding = binding
        self._is_bound = mechanism == _BOUND
        self._nonce = ""
        self._header = ""
        self._messages = ""

    def first(self, message: bytes) -> bytes:
        """The answer to the client's first message: salt and nonce."""
        text = _ascii(message)
        match = re.fullmatch(
            r"((n|y|p=tls-server-end-point),(?:a=[^,]*)?,)(n=[^,]*,r=([\x21-\x2b\x2d-\x7e]{8,256}))", text
        )
        # With "y" it says that it would bind, and has not been told that the server does: somebody has taken that out.
        if match is None or (match[2][0] == "p") != self._is_bound or (match[2] == "y" and self._binding is not None):
            raise Refused
        self._header = match[1]
        self._nonce = match[4] + secrets.token_urlsafe(18)
        salt = base64.b64encode(self._verifier.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        self._messages = f"{match[3]},{answer}"
        return answer.encode()

    def final(self, message: bytes) -> bytes:
        """The answer to its proof: the server's own."""
        text = _ascii(message)
        match = re.fullmatch(r"(c=([A-Za-z0-9+/=]+),r=([^,]+)),p=([A-Za-z0-9+/=]+)", text)
        if match is None or not hmac.compare_digest(match[3], self._nonce):
            raise Refused
        try:
            header, proof = base64.b64decode(match[2]), base64.b64decode(match[4])
        except binascii.Error:
            raise Refused from None
        expected = self._header.encode() + ((self._binding or b"") if self._is_bound else b"")
        whole = f"{self._messages},{match[1]}".encode()
        signature = keyed(self._verifier.stored_key, whole)
        key = bytes(a ^ b for a, b in zip(proof, signature))
        known = hmac.compare_digest(hashlib.sha256(key).digest(), self._verifier.stored_key)
        if not (known and self._known and len(proof) == 32 and hmac.compare_digest(header, expected)):
            raise Refused
        return b"v=" + base64.b64encode(keyed(self._verifier.server_key, whole))


def _ascii(message: bytes) -> str:
    try:
        return message.decode("ascii")
    except UnicodeDecodeError:
        raise Refused from None
