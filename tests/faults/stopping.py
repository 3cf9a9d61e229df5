"""A request to stop at a moment that a test chooses."""

from __future__ import annotations

from runtime.core.cancellation import Cancellation, Stopped

__all__ = ["StopAtLook"]


class StopAtLook(Cancellation):
    """Stops the work at its nth look."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._left = at

    def look(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise Stopped
