"""Colours on a terminal, and only there."""

from __future__ import annotations

import os
from typing import TextIO

__all__ = ["Paint"]

_CODES = {"red": "31", "green": "32", "yellow": "33", "bold": "1", "dim": "2", "error": "1;31"}


class Paint:
    """Paints text when a stream is a terminal and NO_COLOR is not set (https://no-color.org)."""

    def __init__(self, stream: TextIO | None) -> None:
        self.on = (
            stream is not None
            and stream.isatty()
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
        )

    def __call__(self, text: str, colour: str) -> str:
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self.on else text
