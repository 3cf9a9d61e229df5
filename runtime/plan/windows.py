"""Windows of event or processing time: what TUMBLE, HOP, CUMULATE and SESSION mean, as data.

All lengths are milliseconds. A window is [start, end). Alignment, as in Flink: start = ts - floorMod(ts - offset,
size).
"""

from __future__ import annotations

from runtime.core.node import Node, node

__all__ = ["AttachedWindow", "CumulateWindow", "HopWindow", "SessionWindow", "TumbleWindow", "WindowSpec"]


class WindowSpec(Node):
    """Base of the window assigners."""

    __slots__ = ()

    @property
    def length(self) -> int:
        """How long a row's windows may be open; 0 where only the rows know."""
        return 0


@node
class TumbleWindow(WindowSpec):
    size: int
    offset: int = 0

    @property
    def length(self) -> int:
        return self.size


@node
class HopWindow(WindowSpec):
    slide: int
    size: int
    offset: int = 0

    @property
    def length(self) -> int:
        return self.size


@node
class CumulateWindow(WindowSpec):
    step: int
    size: int
    offset: int = 0

    @property
    def length(self) -> int:
        return self.size


@node
class SessionWindow(WindowSpec):
    gap: int

    @property
    def length(self) -> int:
        return self.gap


@node
class AttachedWindow(WindowSpec):
    """The rows already carry window_start and window_end (they come from a window operator)."""
