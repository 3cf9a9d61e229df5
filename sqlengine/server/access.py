"""Who may connect, and as whom: one place for all ports."""

from __future__ import annotations

import ipaddress
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from sqlengine.database.database import Database
from sqlengine.roles.authority import Authority
from sqlengine.roles.roles import FIRST, Role
from sqlengine.roles.verifier import Verifier
from sqlengine.server.audit import Audit

__all__ = ["Access", "TooMany", "is_loopback"]


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can connect to a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class TooMany(Exception):
    """A role has as many connections as it may have."""


class Access:
    """The roles of a database, and the users of a file, as those who connect.

    Args:
        users: of the file, who may do everything, but for those of whom the database has a role; None: there is none.
        trusting: whether a role without a password needs none, and anybody is the first role as long as nobody has made
            others: where only this machine can connect.
        audit: writes down who connects, and what is asked; None: nobody does.
        now: milliseconds since 1970.
    """

    def __init__(
        self,
        database: Database,
        users: Mapping[str, Verifier] | None = None,
        *,
        trusting: bool,
        audit: Audit | None = None,
        now: Callable[[], float] = lambda: time.time() * 1000,
    ) -> None:
        self._database = database
        self._roles = database.roles
        self._users = users or {}
        self._trusting = trusting and users is None
        self._now = now
        self.audit = audit
        self._connected: Counter[str] = Counter()

    @property
    def is_doubtful(self) -> bool:
        """Whether this process has stood still for so long that another one may own the database: what it would answer may
        be old. `check_owner` finds out."""
        durable = self._database.durable
        return durable is not None and durable.folder.is_doubtful

    def check_owner(self) -> None:
        """Raises DatabaseError E3707 where another process owns the database, E3704 where that cannot be known. May ask an
        object store."""
        if self._database.durable is not None:
            self._database.durable.check()

    @property
    def version(self) -> int:
        """Another one whenever somebody may be known by something else."""
        return self._roles.version

    @property
    def is_guarded(self) -> bool:
        """Whether anybody who connects has to say a password, or a token."""
        return bool(self._users) or self._roles.have_passwords

    def needs_password(self, user: str) -> bool:
        """Whether who says that he is a user must prove it."""
        if not self._trusting:
            return True
        role = self._roles.roles.get(user)
        if role is None:
            return not self._roles.is_untouched
        return role.verifier is not None or not role.login

    def verifier(self, user: str) -> Verifier | None:
        """What is kept of a user's password; None where no password counts."""
        if user in self._users:
            return self._users[user]
        role = self._roles.roles.get(user)
        if role is None or not role.login or not role.counts_at(int(self._now())):
            return None
        return role.verifier

    def authority(self, user: str) -> Authority:
        """What a user may do who has proved who he is, or needs not."""
        if user in self._roles.roles:
            return Authority(self._roles, user)
        if user in self._users or (self._trusting and self._roles.is_untouched):
            return Authority.first(self._roles, user)
        return Authority(self._roles, user)

    def by_password(self, user: str, password: str) -> Authority | None:
        """Who has a password; None where it is wrong. Takes milliseconds, as many for unknown users."""
        verifier = self.verifier(user)
        accepted = (verifier or Verifier.of_nobody(user)).accepts(password)
        return self.authority(user) if accepted and verifier is not None else None

    def by_token(self, text: str) -> Authority | None:
        """Whose token a text is; None where it is none, or does not count any more."""
        role = self._roles.by_token(text, int(self._now()))
        return None if role is None else Authority(self._roles, role.name)

    def by_nothing(self) -> Authority | None:
        """Who says nothing of himself: the first role, where that needs no password."""
        return None if self.needs_password(FIRST) else self.authority(FIRST)

    @contextmanager
    def connected(self, authority: Authority) -> Iterator[None]:
        """While somebody is connected. Raises TooMany."""
        release = self.connect(authority)
        try:
            yield
        finally:
            release()

    def connect(self, authority: Authority) -> Callable[[], None]:
        """Somebody is connected until what is given is called. Raises TooMany."""
        role: Role = authority.role
        most = role.limits.connections
        if most is not None and not role.superuser and self._connected[role.name] >= most:
            raise TooMany(most)
        self._connected[role.name] += 1

        def release() -> None:
            self._connected[role.name] -= 1

        return release
