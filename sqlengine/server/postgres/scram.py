"""SCRAM-SHA-256: a client proves that it knows a password, and the server that it knew it, without either telling it.

Source: RFC 5802, RFC 7677; PostgreSQL 15, 55.3 "SASL Authentication". What is kept of a password is what PostgreSQL keeps
in `pg_authid.rolpassword`: `SCRAM-SHA-256$4096:salt$stored:server`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

__all__ = ["MECHANISM", "Exchange", "Refused", "Verifier"]

MECHANISM = "SCRAM-SHA-256"
_ITERATIONS = 4096


class Refused(Exception):
    """The client has not proved that it knows the password."""


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()


@dataclass(frozen=True, slots=True)
class Verifier:
    """What is kept of a password. It tells whether a client knows it, and does not tell what it is."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @staticmethod
    def of_password(password: str) -> Verifier:
        """With a salt of its own."""
        salt = secrets.token_bytes(16)
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
        stored = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
        return Verifier(_ITERATIONS, salt, stored, _hmac(salted, b"Server Key"))

    @staticmethod
    def read(text: str) -> Verifier | None:
        """A verifier as PostgreSQL writes it; None for another text."""
        match = re.fullmatch(r"SCRAM-SHA-256\$(\d{1,9}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)", text)
        if match is None:
            return None
        try:
            salt, stored, server = (base64.b64decode(part, validate=True) for part in match.groups()[1:])
        except binascii.Error:
            return None
        if len(stored) != 32 or len(server) != 32 or not salt or int(match[1]) < 1:
            return None
        return Verifier(int(match[1]), salt, stored, server)

    def accepts(self, password: str) -> bool:
        """Whether it is that of a password."""
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), self.salt, self.iterations)
        stored = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
        return hmac.compare_digest(stored, self.stored_key)

    def __str__(self) -> str:
        salt, stored, server = (base64.b64encode(b).decode() for b in (self.salt, self.stored_key, self.server_key))
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored}:{server}"

    def __repr__(self) -> str:
        return "Verifier(***)"


_NOBODY = Verifier.of_password(secrets.token_urlsafe())
"""Unknown users go through the same steps, so that nobody learns which there are."""


class Exchange:
    """The two messages of a client and what is answered. Raises Refused at what is wrong, without saying what."""

    def __init__(self, verifier: Verifier | None) -> None:
        self._known = verifier is not None
        self._verifier = verifier or _NOBODY
        self._nonce = ""
        self._header = ""
        self._messages = ""

    def first(self, message: bytes) -> bytes:
        """The answer to the client's first message: salt and nonce."""
        text = _ascii(message)
        match = re.fullmatch(r"([ny],(?:a=[^,]*)?,)(n=[^,]*,r=([\x21-\x2b\x2d-\x7e]{8,256}))", text)
        if match is None:
            raise Refused
        self._header = match[1]
        self._nonce = match[3] + secrets.token_urlsafe(18)
        salt = base64.b64encode(self._verifier.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        self._messages = f"{match[2]},{answer}"
        return answer.encode()

    def final(self, message: bytes) -> bytes:
        """The answer to its proof: the server's own."""
        text = _ascii(message)
        match = re.fullmatch(r"(c=([A-Za-z0-9+/=]+),r=([^,]+)),p=([A-Za-z0-9+/=]+)", text)
        if match is None or not hmac.compare_digest(match[3], self._nonce):
            raise Refused
        try:
            header, proof = base64.b64decode(match[2]).decode("ascii"), base64.b64decode(match[4])
        except (binascii.Error, UnicodeDecodeError):
            raise Refused from None
        whole = f"{self._messages},{match[1]}".encode()
        signature = _hmac(self._verifier.stored_key, whole)
        key = bytes(a ^ b for a, b in zip(proof, signature))
        known = hmac.compare_digest(hashlib.sha256(key).digest(), self._verifier.stored_key)
        if not (known and self._known and len(proof) == 32 and header == self._header):
            raise Refused
        return b"v=" + base64.b64encode(_hmac(self._verifier.server_key, whole))


def _ascii(message: bytes) -> str:
    try:
        return message.decode("ascii")
    except UnicodeDecodeError:
        raise Refused from None
