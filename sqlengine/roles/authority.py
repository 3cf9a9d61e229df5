"""On whose behalf a session acts, and what that may do."""

from __future__ import annotations

from runtime.core.errors import AccessError, Span
from sqlengine.roles.privileges import OWNERSHIP, Target, covers
from sqlengine.roles.roles import FIRST, Role, Roles

__all__ = ["Authority"]

_MOST_KNOWN = 10_000


class Authority:
    """The role of a session. What it may do is asked anew each time: somebody may have changed it meanwhile.

    Args:
        user: as whom the client has connected.
        acts_as: the role by whose rights it acts; another one than `user` where nobody has to say who he is.
    """

    def __init__(self, roles: Roles, user: str, acts_as: str | None = None) -> None:
        self.roles = roles
        self.user = user
        self.name = user if acts_as is None else acts_as
        self._as_of = -1
        self._all: frozenset[str] = frozenset()
        self._known: dict[tuple[str, Target], bool] = {}

    @staticmethod
    def first(roles: Roles, user: str = FIRST) -> Authority:
        """One that may do everything, by the name of whoever it is."""
        return Authority(roles, user, FIRST)

    @property
    def role(self) -> Role:
        """The role as it is now; one that may nothing where it is gone."""
        return self.roles.roles.get(self.name) or Role(self.name)

    @property
    def is_superuser(self) -> bool:
        return self.role.superuser

    def _catch_up(self) -> None:
        version = self.roles.version
        if version != self._as_of or len(self._known) > _MOST_KNOWN:
            self._known = {}
            # A role that was dropped is nobody, not even one of everybody.
            self._all = self.roles.all_of(self.name) if self.name in self.roles.roles else frozenset()
            self._as_of = version

    def may(self, privilege: str, target: Target) -> bool:
        """Whether it has a privilege on something: itself, by a group, as its owner, or on all that is where it is."""
        if self.is_superuser:
            return True
        self._catch_up()
        known = self._known.get((privilege, target))
        if known is None:
            granted = self.roles.granted
            known = self._known[privilege, target] = any(
                not {privilege, OWNERSHIP}.isdisjoint(granted.get((role, target), ()))
                or any(privilege in granted.get((role, outer), ()) for outer in target.containers)
                for role in self._all
            )
        return known

    def owns(self, target: Target) -> bool:
        """Whether something is its own."""
        if self.is_superuser:
            return True
        self._catch_up()
        return any(OWNERSHIP in self.roles.granted.get((role, target), ()) for role in self._all)

    def sees(self, target: Target) -> bool:
        """Whether it may know of something: it has a privilege on it, on what it is in, or on what is in it."""
        if self.is_superuser:
            return True
        self._catch_up()
        key = "see", target
        known = self._known.get(key)
        if known is None:
            around = {target, *target.containers}
            known = self._known[key] = any(
                role in self._all and (thing in around or target in thing.containers)
                for role, thing in self.roles.granted
            )
        return known

    def may_path(self, privilege: str, path: str) -> bool:
        """Whether it may read, or write, at a path that is whole."""
        if self.is_superuser:
            return True
        self._catch_up()
        return any(
            target.kind == "path" and role in self._all and privilege in found and covers(target.path[0], path)
            for (role, target), found in self.roles.granted.items()
        )

    def require(self, privilege: str, target: Target, span: Span | None = None) -> None:
        """Raises AccessError E1800 where it has not a privilege."""
        if not self.may(privilege, target):
            raise self.denied(str(target), span, f"that needs {privilege}: GRANT {privilege} ON .. TO {self.name}")

    def require_own(self, target: Target, span: Span | None = None, *, drops: bool = False) -> None:
        """Raises AccessError E1800 for what is another's. `drops`: who owns where it is may drop it."""
        if not self.owns(target) and not (drops and any(self.owns(outer) for outer in target.containers)):
            raise self.denied(str(target), span, "only its owner may do that")

    def denied(self, what: str, span: Span | None = None, hint: str | None = None) -> AccessError:
        """The error for what it may not do."""
        return AccessError(f"permission denied for {what}", span=span, hint=hint)
