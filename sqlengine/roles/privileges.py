"""What may be done with what: the things of a database by their names, and who has which privilege on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["OWNERSHIP", "PRIVILEGES", "PUBLIC", "Granted", "Target", "covers"]

PUBLIC = "public"
"""Everybody."""
OWNERSHIP = "OWNERSHIP"
_ROWS = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE")
PRIVILEGES: dict[str, tuple[str, ...]] = {
    "table": (*_ROWS, OWNERSHIP),
    "database": (*_ROWS, "CREATE", "USAGE", OWNERSHIP),
    "catalog": (*_ROWS, "CREATE", "USAGE"),
    "function": ("EXECUTE", OWNERSHIP),
    "procedure": ("EXECUTE", OWNERSHIP),
    "model": ("USAGE", OWNERSHIP),
    "connection": ("USAGE", OWNERSHIP),
    "sequence": ("USAGE", OWNERSHIP),
    "connector": ("USAGE",),
    "path": ("READ", "WRITE"),
    "secret": ("USAGE",),
    "system": ("JOBS", "MONITOR", "PYTHON"),
}
"""By kind. Those of tables are those of views, too; of a database or catalog they hold for all tables in it."""


class Target(NamedTuple):
    """Something that privileges are on: its kind, and its whole name."""

    kind: str
    path: tuple[str, ...]

    @property
    def containers(self) -> tuple[Target, ...]:
        """What it is in."""
        if self.kind in ("table", "procedure", "model", "connection", "sequence"):
            return (Target("database", self.path[:2]), Target("catalog", self.path[:1]))
        return (Target("catalog", self.path[:1]),) if self.kind == "database" else ()

    def __str__(self) -> str:
        return self.kind if not self.path else f'{self.kind} "{".".join(self.path)}"'


Granted = Mapping[tuple[str, Target], frozenset[str]]
"""By role and thing."""


def covers(folder: str, path: str) -> bool:
    """Whether a path is a folder or in it; both are whole, without `..`."""
    return path == folder or path.startswith(folder if folder.endswith("/") else f"{folder}/")
