"""Modules that are loaded when something of them is first asked for, so that a process starts with what it needs.

    spark = Room("runtime.spark.cluster")
    ...
    spark.Cluster(session)          # here runtime.spark.cluster is loaded

A room is declared at the top of a module, where its imports stand, and the module is also imported there under
`TYPE_CHECKING`: so type checkers and import-linter see it like any other import, and tests/architecture checks that
what is named is there.
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

    def __bool__(self) -> bool:
        """Whether the module is loaded: what it defines can only be met where it is."""
        return self._module in sys.modules


def load(room: Room) -> ModuleType:
    """The module of a room, now."""
    return importlib.import_module(room._module)  # pyright: ignore[reportPrivateUsage]
