"""The roles of a database, and the tokens that stand for them.

Any thread may read at any time; who changes something holds the database's lock of definitions.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field, replace

from sqlengine.roles.verifier import Verifier

__all__ = ["FIRST", "Role", "Roles", "Token", "new_token", "token_hash"]

FIRST = "sqlengine"
"""The role that is always there, and may do everything."""


@dataclass(frozen=True, slots=True)
class Role:
    """Somebody, or a group.

    Args:
        login: whether one may connect as it.
        superuser: whether it may do everything.
        create_role: whether it may make and change roles that are no superusers.
        verifier: what is kept of its password; None where it has none.
        valid_until: when its password stops counting, milliseconds since 1970; None for never.
        connections: so many at once; None for any number.
    """

    name: str
    login: bool = False
    superuser: bool = False
    create_role: bool = False
    verifier: Verifier | None = None
    valid_until: int | None = None
    connections: int | None = None

    def counts_at(self, now: int) -> bool:
        """Whether its password counts at a time."""
        return self.valid_until is None or now < self.valid_until


@dataclass(frozen=True, slots=True)
class Token:
    """A text by which a program says that it acts for a role. `hash`: what is kept of it, hexadecimal."""

    name: str
    role: str
    hash: str = field(repr=False)
    valid_until: int | None = None


def new_token() -> str:
    """A text of 256 random bits: no guessing, so that its hash needs no salt and no work."""
    return f"sqe_{secrets.token_urlsafe(32)}"


def token_hash(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


class Roles:
    """What is known of roles and tokens. `version` is another one after every change."""

    def __init__(self) -> None:
        self.version = 0
        self.roles: dict[str, Role] = {FIRST: Role(FIRST, login=True, superuser=True)}
        self.tokens: dict[str, Token] = {}

    @property
    def is_untouched(self) -> bool:
        """Whether there is nothing but what every database begins with."""
        return not self.version

    @property
    def have_passwords(self) -> bool:
        """Whether anybody may connect with a password, or a token."""
        return bool(self.tokens) or any(role.login and role.verifier is not None for role in self.roles.values())

    def put(self, role: Role) -> None:
        """Make a role, or put a changed one in the place of the one of its name."""
        self.roles = {**self.roles, role.name: role}
        self.version += 1

    def remove(self, name: str) -> None:
        """A role is gone, and its tokens."""
        self.roles = {n: role for n, role in self.roles.items() if n != name}
        self.tokens = {n: token for n, token in self.tokens.items() if token.role != name}
        self.version += 1

    def rename(self, name: str, to: str) -> None:
        """A role has another name from now on."""
        role = replace(self.roles[name], name=to)
        self.roles = {to if n == name else n: role if n == name else r for n, r in self.roles.items()}
        self.tokens = {n: replace(t, role=to) if t.role == name else t for n, t in self.tokens.items()}
        self.version += 1

    def put_token(self, token: Token) -> None:
        self.tokens = {**self.tokens, token.name: token}
        self.version += 1

    def remove_token(self, name: str) -> None:
        self.tokens = {n: token for n, token in self.tokens.items() if n != name}
        self.version += 1

    def by_token(self, text: str, now: int) -> Role | None:
        """The role that a token stands for at a time; None for one that is unknown or over. Takes the same time for all
        that are wrong."""
        digest = token_hash(text)
        found: Token | None = None
        for token in self.tokens.values():
            if hmac.compare_digest(token.hash, digest):
                found = token
        if found is None or (found.valid_until is not None and now >= found.valid_until):
            return None
        role = self.roles.get(found.role)
        return role if role is not None and role.login else None
