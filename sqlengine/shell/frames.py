"""Output of prompts and full screens in whole frames."""

from __future__ import annotations

import sys
from typing import TextIO, cast

from prompt_toolkit.output import Output
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.utils import is_dumb_terminal

__all__ = ["BEGIN_FRAME", "END_FRAME", "frame_output"]

BEGIN_FRAME, END_FRAME = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronized output: a terminal that knows it shows nothing of a frame before its end; others ignore it.
https://gist.github.com/christianparpart/d8a62cc1ab659194337d73e399004036"""


def frame_output() -> Output:
    """What prompt_toolkit draws on: each of its frames comes between `BEGIN_FRAME` and `END_FRAME`."""
    if sys.platform == "win32" or is_dumb_terminal() or not sys.stdout.isatty():
        return create_output()
    return create_output(cast(TextIO, _Frames(sys.stdout)))


class _Frames:
    """A terminal to which each `write` is a frame. prompt_toolkit writes once for each frame that it draws."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal

    @property
    def encoding(self) -> str:
        return self._terminal.encoding

    def write(self, text: str) -> int:
        frame = f"{BEGIN_FRAME}{text}{END_FRAME}"
        self._terminal.buffer.write(frame.encode(self.encoding or "utf-8", "replace"))
        return len(text)

    def flush(self) -> None:
        self._terminal.flush()

    def fileno(self) -> int:
        return self._terminal.fileno()

    def isatty(self) -> bool:
        return self._terminal.isatty()
