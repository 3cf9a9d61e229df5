"""Modules that are loaded when something of them is first asked for, so that a process starts with what it needs.

    if TYPE_CHECKING:
        import runtime.spark.cluster as _cluster
    else:
        _cluster = Room("runtime.spark.cluster")
    ...
    _cluster.Cluster(session)       # here runtime.spark.cluster is loaded

So type checkers and import-linter see an import like any other and find a name that the module does not have;
tests/architecture checks that both branches name the same modules.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

__all__ = ["Room", "load"]


class Room:
    """The names of a module. Asking for one loads the module; what is found is kept."""

    __slots__ = ("__dict__", "_module")

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(load(self), name)
        setattr(self, name, found)
        return found

    def __reduce__(self) -> tuple[type[Room], tuple[str]]:
        # A function that is sent to another process by value takes along what its module calls by name.
        return Room, (self._module,)

    def __bool__(self) -> bool:
        """Whether the module is loaded: what it defines can only be met where it is."""
        return self._module in sys.modules


def load(room: Room | ModuleType) -> ModuleType:
    """The module of a room, now."""
    if isinstance(room, ModuleType):
        return room
    return importlib.import_module(room._module)  # pyright: ignore[reportPrivateUsage]
