"""Windows of event or processing time: what TUMBLE, HOP, CUMULATE and SESSION mean, as data.

All lengths are milliseconds. A window is [start, end). Alignment, as in Flink: start = ts - floorMod(ts - offset,
size).
"""

from __future__ import annotations

from runtime.core.node import Node, node

__all__ = [
    "AttachedWindow",
    "CumulateWindow",
    "HopWindow",
    "SessionWindow",
    "TumbleWindow",
    "WindowEmit",
    "WindowSpec",
]


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


@node
class WindowEmit(Node):
    """When a window gives results besides the one at its end; all are milliseconds.

    `early`: before the end, so long after a change of processing time, 0 with every epoch, None never. `late`: the same
    for rows that come after the end, None as 0. `lateness`: for how long after its end, of event time, a window takes
    rows. Source: Flink 2.3, `WindowEmitStrategy` and `EventTimeTriggers`.
    """

    early: int | None
    late: int | None
    lateness: int
