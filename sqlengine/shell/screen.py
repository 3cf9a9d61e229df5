"""Where the shell writes: results, messages, errors; with colours and box-drawing lines where they are understood."""

from __future__ import annotations

import os
import shutil
import sys
import traceback
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TextIO

import pyarrow as pa

from runtime.core.errors import SqlEngineError, code_and_text, display_width, render
from runtime.core.schema import Schema
from runtime.core.secrets import masked_text
from sqlengine.shell.grid import Frame, Line, frame_of, plain, shown_cell
from sqlengine.text.cells import cell_texts

__all__ = ["Screen", "texts_of"]

LINES_AT_ONCE = 1000
_SGR = {
    "header": "1",
    "rule": "2",
    "null": "2",
    "note": "2",
    "insert": "32",
    "delete": "31",
    "before": "33",
    "warning": "33",
    "error": "1;31",
    "bold": "1",
}


class Screen:
    """The streams of the shell.

    Args:
        out: results.
        err: messages and errors; the same stream at a terminal.
        interactive: somebody types at a terminal.
    """

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None, *, interactive: bool = False) -> None:
        self._out = out
        self._err = err
        self.interactive = interactive
        self.colour = interactive and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.frame: Frame = frame_of(getattr(self.out, "encoding", None) if interactive else None)

    # The streams of now, because a prompt puts its own in their place while it waits.

    @property
    def out(self) -> TextIO:
        return self._out or sys.stdout

    @property
    def err(self) -> TextIO:
        return self._err or (self.out if self.interactive else sys.stderr)

    @property
    def width(self) -> int:
        return shutil.get_terminal_size().columns if self.interactive else 1_000_000

    @property
    def height(self) -> int:
        return shutil.get_terminal_size().lines if self.interactive else 1_000_000

    def paint(self, text: str, style: str) -> str:
        code = _SGR.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code and text else text

    def lines(self, lines: Iterable[Line]) -> None:
        """Print lines of fragments."""
        painted = (
            ("".join(self.paint(text, style) for style, text in line) for line in lines)
            if self.colour
            else plain(lines)
        )
        while piece := list(islice(painted, LINES_AT_ONCE)):
            self.write("\n".join(piece) + "\n")

    def write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()

    def say(self, text: str, style: str = "") -> None:
        """A message of a line or more."""
        self.out.flush()
        self.err.write(self.paint(text, style) + "\n")
        self.err.flush()

    def complain(self, error: BaseException, *, verbose: bool = False) -> None:
        """An error, its first line in red; with the stack trace where that is asked for."""
        if verbose:
            self.say(masked_text("".join(traceback.format_exception(error)).rstrip()))
        if isinstance(error, SqlEngineError):
            text = render(error, self.width)
        else:
            code, message = code_and_text(error)
            text = (
                f"{code} internal error: {message}\n  hint: this is a bug of sqlengine; "
                "SET 'sql-client.verbose' = 'true' shows where"
            )
        first, newline, rest = text.partition("\n")
        self.say(self.paint(first, "error") + newline + self._with_red_carets(rest))

    def _with_red_carets(self, text: str) -> str:
        return "\n".join(
            self.paint(line, "error") if line.strip() and not line.strip(" ^") else line for line in text.split("\n")
        )

    def record_lines(self, number: int, names: Sequence[str], cells: Sequence[str | None]) -> list[Line]:
        """A row with a line for each column."""
        widest = max((display_width(n) for n in names), default=0)
        title = f"─[ row {number:,} ]" if self.frame.bar == "│" else f"-[ row {number:,} ]"
        lines: list[Line] = [[("rule", title + self.frame.dash * max(4, widest + 12 - len(title)))]]
        for name, cell in zip(names, cells, strict=True):
            space = " " * (widest - display_width(name))
            style = "null" if cell is None else ""
            lines.append([("header", name + space), ("rule", f" {self.frame.bar} "), (style, shown_cell(cell))])
        return lines


def texts_of(columns: Sequence[pa.Array], schema: Schema, time_zone: str) -> list[list[str | None]]:
    """The texts of each column."""
    return [cell_texts(column, f.type, time_zone) for column, f in zip(columns, schema, strict=True)]
