"""The line of the program that has called the engine."""

from __future__ import annotations

import sys

__all__ = ["level_of_the_program"]


def level_of_the_program() -> int:
    """The `stacklevel` with which a warning of the caller shows the line of the program that has called the engine."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("sqlengine."):
        frame, level = frame.f_back, level + 1
    return level
