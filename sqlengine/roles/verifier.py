"""What is kept of a password: it tells whether somebody knows it, and does not tell what it is.

Source: RFC 5802 and RFC 7677; its text is what PostgreSQL keeps in `pg_authid.rolpassword`:
`SCRAM-SHA-256$4096:salt$stored:server`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import stringprep
import unicodedata
from dataclasses import dataclass

__all__ = ["Verifier", "keyed"]

_ITERATIONS = 4096
_SECRET = secrets.token_bytes(32)
_MOST_ITERATIONS = 1_000_000
"""A verifier from elsewhere may ask for so much work."""


def keyed(key: bytes, message: bytes) -> bytes:
    """HMAC with SHA-256."""
    return hmac.digest(key, message, hashlib.sha256)


@dataclass(frozen=True, slots=True)
class Verifier:
    """The keys of a password, after RFC 5802."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @staticmethod
    def of_password(password: str) -> Verifier:
        """With a salt of its own."""
        salt = secrets.token_bytes(16)
        salted = hashlib.pbkdf2_hmac("sha256", _prepared(password), salt, _ITERATIONS)
        stored = hashlib.sha256(keyed(salted, b"Client Key")).digest()
        return Verifier(_ITERATIONS, salt, stored, keyed(salted, b"Server Key"))

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
        if len(stored) != 32 or len(server) != 32 or not salt or not 1 <= int(match[1]) <= _MOST_ITERATIONS:
            return None
        return Verifier(int(match[1]), salt, stored, server)

    @staticmethod
    def of_nobody(user: str) -> Verifier:
        """Of an unknown user: no password fits, and its salt is the same each time, so that nobody learns which users there
        are."""
        salt = keyed(_SECRET, user.encode())[:16]
        return Verifier(_ITERATIONS, salt, secrets.token_bytes(32), secrets.token_bytes(32))

    def accepts(self, password: str) -> bool:
        """Whether it is that of a password. Takes milliseconds."""
        salted = hashlib.pbkdf2_hmac("sha256", _prepared(password), self.salt, self.iterations)
        stored = hashlib.sha256(keyed(salted, b"Client Key")).digest()
        return hmac.compare_digest(stored, self.stored_key)

    def __str__(self) -> str:
        salt, stored, server = (base64.b64encode(b).decode() for b in (self.salt, self.stored_key, self.server_key))
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored}:{server}"

    def __repr__(self) -> str:
        return "Verifier(***)"


def _prepared(password: str) -> bytes:
    """A password in the form in which clients take it (RFC 4013); one that has no such form as it is, as PostgreSQL does."""
    if password.isascii():
        return password.encode()
    mapped = "".join(
        " " if stringprep.in_table_c12(c) else c for c in password if not stringprep.in_table_b1(c)
    )  # Spaces of all kinds are one, and some characters mean nothing.
    text = unicodedata.normalize("NFKC", mapped)
    wrong = (
        stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4, stringprep.in_table_c5,
        stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8, stringprep.in_table_c9, stringprep.in_table_a1,
    )  # fmt: skip
    if not text or any(table(c) for c in text for table in wrong) or not _one_direction(text):
        return password.encode()
    return text.encode()


def _one_direction(text: str) -> bool:
    if not any(stringprep.in_table_d1(c) for c in text):
        return True
    both_ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    return both_ends and not any(stringprep.in_table_d2(c) for c in text)
