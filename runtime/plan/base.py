"""What all physical nodes are."""

from __future__ import annotations

from runtime.core.changelog import ChangelogMode
from runtime.core.node import Node
from runtime.core.schema import Schema

__all__ = ["PhysicalNode"]


class PhysicalNode(Node):
    """Base of all physical nodes."""

    __slots__ = ()
    schema: Schema
    mode: ChangelogMode

    @property
    def inputs(self) -> tuple[PhysicalNode, ...]:
        names = ("input", "left", "right")
        found = tuple(getattr(self, name) for name in names if hasattr(self, name))
        return found or tuple(getattr(self, "parts", ()))
