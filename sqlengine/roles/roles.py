"""The roles of a database, the tokens that stand for them, and what they may do.

Any thread may read at any time; who changes something holds the database's lock of definitions.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlengine.roles.limits import NO_LIMITS, Limits
from sqlengine.roles.privileges import OWNERSHIP, PUBLIC, Granted, Target
from sqlengine.roles.verifier import Verifier

if TYPE_CHECKING:
    from sqlengine.roles.secret import Secret

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
        limits: how much it may take.
    """

    name: str
    login: bool = False
    superuser: bool = False
    create_role: bool = False
    verifier: Verifier | None = None
    valid_until: int | None = None
    limits: Limits = NO_LIMITS

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
    """What is known of roles. `version` is another one after every change."""

    def __init__(self) -> None:
        self.version = 0
        self.roles: dict[str, Role] = {FIRST: Role(FIRST, login=True, superuser=True)}
        self.tokens: dict[str, Token] = {}
        self.granted: Granted = {}
        self.groups: Mapping[str, frozenset[str]] = {}
        """The roles that a role is in."""
        self.secrets: Mapping[str, Secret] = {}
        self.jobs: dict[str, str] = {}
        """Who has started a job, by its name, as long as the process runs."""

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
        self.granted = {key: found for key, found in self.granted.items() if key[0] != name}
        self.groups = {n: groups - {name} for n, groups in self.groups.items() if n != name}
        self.version += 1

    def rename(self, name: str, to: str) -> None:
        """A role has another name from now on."""
        role = replace(self.roles[name], name=to)
        self.roles = {to if n == name else n: role if n == name else r for n, r in self.roles.items()}
        self.tokens = {n: replace(t, role=to) if t.role == name else t for n, t in self.tokens.items()}
        self.granted = {(to if n == name else n, target): found for (n, target), found in self.granted.items()}
        self.groups = {
            to if n == name else n: frozenset(to if g == name else g for g in groups)
            for n, groups in self.groups.items()
        }
        self.version += 1

    def put_token(self, token: Token) -> None:
        self.tokens = {**self.tokens, token.name: token}
        self.version += 1

    def remove_token(self, name: str) -> None:
        self.tokens = {n: token for n, token in self.tokens.items() if n != name}
        self.version += 1

    def put_secret(self, secret: Secret) -> None:
        self.secrets = {**self.secrets, secret.name: secret}
        self.version += 1

    def remove_secret(self, name: str) -> None:
        self.secrets = {n: secret for n, secret in self.secrets.items() if n != name}
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

    # --- what they may do

    def grant(self, role: str, target: Target, privileges: Iterable[str]) -> None:
        """A role may do more. OWNERSHIP is one role's alone."""
        more = frozenset(privileges)
        granted = dict(self.granted)
        if OWNERSHIP in more:
            granted = {k: found - {OWNERSHIP} if k[1] == target else found for k, found in granted.items()}
        granted[role, target] = granted.get((role, target), frozenset()) | more
        self._put(granted)

    def revoke(self, role: str, target: Target, privileges: Iterable[str]) -> None:
        """A role may do less."""
        granted = dict(self.granted)
        granted[role, target] = granted.get((role, target), frozenset()) - frozenset(privileges)
        self._put(granted)

    def _put(self, granted: Granted) -> None:
        self.granted = {key: found for key, found in granted.items() if found}
        self.version += 1

    def forget_grants(self, name: str) -> None:
        """A role may do nothing by itself, and is in no group."""
        self.groups = {n: groups for n, groups in self.groups.items() if n != name}
        self._put({key: found for key, found in self.granted.items() if key[0] != name})

    def keep_only(self, there: Callable[[Target], bool]) -> None:
        """Forget privileges on what is not there any more."""
        gone = {target for _, target in self.granted if not there(target)}
        if gone:
            self._put({key: found for key, found in self.granted.items() if key[1] not in gone})

    def move(self, target: Target, to: Target) -> None:
        """A thing has another name."""
        if any(key[1] == target for key in self.granted):
            self._put({(r, to if t == target else t): found for (r, t), found in self.granted.items()})

    def join(self, role: str, group: str) -> None:
        """A role may do what a group may."""
        self.groups = {**self.groups, role: self.groups.get(role, frozenset()) | {group}}
        self.version += 1

    def leave(self, role: str, group: str) -> None:
        self.groups = {**self.groups, role: self.groups.get(role, frozenset()) - {group}}
        self.version += 1

    def all_of(self, role: str) -> frozenset[str]:
        """A role with the groups that it is in, directly or not, and everybody."""
        found, open_ = {role, PUBLIC}, [role]
        while open_:
            for group in self.groups.get(open_.pop(), ()):
                if group not in found:
                    found.add(group)
                    open_.append(group)
        return frozenset(found)

    def owner(self, target: Target) -> str:
        """Whose something is; what nobody else has is the first role's."""
        return next((r for (r, t), found in self.granted.items() if t == target and OWNERSHIP in found), FIRST)

    def owned_by(self, role: str) -> list[Target]:
        """What is a role's."""
        return [t for (r, t), found in self.granted.items() if r == role and OWNERSHIP in found]
