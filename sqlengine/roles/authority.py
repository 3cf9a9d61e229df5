"""On whose behalf a session acts."""

from __future__ import annotations

from sqlengine.roles.roles import FIRST, Role, Roles

__all__ = ["Authority"]


class Authority:
    """The role of a session. What it may do is asked anew each time: somebody may have changed it meanwhile.

    Args:
        user: as whom the client has connected.
        acts_as: the role by whose rights it acts; another one than `user` where nobody has to say who he is.
    """

    def __init__(self, roles: Roles, user: str, acts_as: str | None = None) -> None:
        self.roles = roles
        self.user = user
        self._name = user if acts_as is None else acts_as

    @staticmethod
    def first(roles: Roles, user: str = FIRST) -> Authority:
        """One that may do everything, by the name of whoever it is."""
        return Authority(roles, user, FIRST)

    @property
    def role(self) -> Role:
        """The role as it is now; one that may nothing where it is gone."""
        return self.roles.roles.get(self._name) or Role(self._name)

    @property
    def name(self) -> str:
        """Of the role by whose rights it acts."""
        return self._name

    @property
    def is_superuser(self) -> bool:
        return self.role.superuser
