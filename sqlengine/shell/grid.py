"""Rows as a grid on the screen: columns that fit, values that are cut, wide characters that line up.

A line is a list of fragments (style, text), so that the same grid is printed in colour, without, and drawn on a full
screen. The styles: `header`, `rule`, `null`, `insert`, `delete`, `before` (the row before an update), `note`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from runtime.core.errors import display_width
from runtime.core.schema import Schema
from runtime.core.types import TypeRoot

__all__ = [
    "Fragment", "Frame", "GridColumn", "KIND_STYLES", "Line", "body_line", "bottom_rule", "columns_of", "cut", "fit", "frame_of",
    "header_lines", "measured", "plain", "shown_cell",
]  # fmt: skip

Fragment = tuple[str, str]
Line = list[Fragment]

KIND_STYLES = {"+I": "insert", "-U": "before", "+U": "insert", "-D": "delete"}
LEAST_WIDTH = 8
_NUMBERS = frozenset(
    (
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
        TypeRoot.DECIMAL,
    )
)
_TEXTS = frozenset(
    (
        TypeRoot.CHAR,
        TypeRoot.VARCHAR,
        TypeRoot.BINARY,
        TypeRoot.VARBINARY,
        TypeRoot.ARRAY,
        TypeRoot.MAP,
        TypeRoot.MULTISET,
        TypeRoot.ROW,
        TypeRoot.BITMAP,
        TypeRoot.VARIANT,
        TypeRoot.RAW,
    )
)


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A column to draw: `right` aligned, `flexible` where its values may be cut, `width` in columns of the screen."""

    name: str
    right: bool = False
    flexible: bool = True
    width: int = 0

    def wide(self, width: int) -> GridColumn:
        return GridColumn(self.name, self.right, self.flexible, width)


@dataclass(frozen=True, slots=True)
class Frame:
    """The characters of the lines around cells."""

    bar: str
    dash: str
    top: tuple[str, str, str]
    middle: tuple[str, str, str]
    bottom: tuple[str, str, str]


_BOX = Frame("│", "─", ("┌", "┬", "┐"), ("├", "┼", "┤"), ("└", "┴", "┘"))
_ASCII = Frame("|", "-", ("+", "+", "+"), ("+", "+", "+"), ("+", "+", "+"))


def frame_of(encoding: str | None) -> Frame:
    """Box-drawing lines where the encoding of a stream has them."""
    try:
        "".join((_BOX.bar, _BOX.dash, *_BOX.top, *_BOX.middle, *_BOX.bottom)).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return _ASCII
    return _BOX


def columns_of(schema: Schema) -> list[GridColumn]:
    """The columns of a result, not measured yet."""
    return [GridColumn(f.name, f.type.root in _NUMBERS, f.type.root in _TEXTS) for f in schema]


def shown_cell(text: str | None) -> str:
    """A value on one line: what cannot be printed is escaped."""
    if text is None:
        return "NULL"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def cut(text: str, width: int) -> str:
    """At most `width` columns of a text, the last an ellipsis where something is missing."""
    if len(text) * 2 <= width or display_width(text) <= width:
        return text
    used = 0
    for taken, character in enumerate(text):
        used += _width(character)
        if used > width - 1:
            return text[:taken] + "…"
    return text


@functools.lru_cache(4096)
def _width(character: str) -> int:
    return display_width(character)


def measured(columns: Sequence[GridColumn], rows: Iterable[Sequence[str | None]], most: int) -> list[GridColumn]:
    """The columns as wide as their names and values, flexible ones at most `most`."""
    widths = [display_width(shown_cell(c.name)) for c in columns]
    for row in rows:
        for i, cell in enumerate(row):
            width = 4 if cell is None else display_width(shown_cell(cell))
            if width > widths[i]:
                widths[i] = width
    return [
        c.wide(max(1, min(w, max(most, display_width(c.name))) if c.flexible else w))
        for c, w in zip(columns, widths, strict=True)
    ]


def total_width(columns: Sequence[GridColumn]) -> int:
    """Columns of the screen that a grid takes."""
    return sum(c.width + 3 for c in columns) + 1


def fit(columns: Sequence[GridColumn], room: int) -> list[GridColumn] | None:
    """The columns narrowed to a screen, the widest flexible ones first; None when they cannot be."""
    found = list(columns)
    over = total_width(found) - room
    while over > 0:
        flexible = sorted((c.width, i) for i, c in enumerate(found) if c.flexible and c.width > LEAST_WIDTH)
        if not flexible:
            return None
        widest = flexible[-1][0]
        group = [i for w, i in flexible if w == widest]
        below = max([w for w, _ in flexible if w < widest], default=LEAST_WIDTH)
        step = min(widest - max(below, LEAST_WIDTH), -(-over // len(group)))
        for i in group:
            take = min(max(step, 1), over)
            found[i] = found[i].wide(found[i].width - take)
            over -= take
            if over <= 0:
                break
    return found


def header_lines(columns: Sequence[GridColumn], frame: Frame) -> list[Line]:
    """The line above, the names, the line below them."""
    names: Line = []
    for column in columns:
        names += [("rule", frame.bar), ("header", f" {_pad(cut(shown_cell(column.name), column.width), column)} ")]
    return [_rule(columns, frame, frame.top), [*names, ("rule", frame.bar)], _rule(columns, frame, frame.middle)]


def bottom_rule(columns: Sequence[GridColumn], frame: Frame) -> Line:
    return _rule(columns, frame, frame.bottom)


def _rule(columns: Sequence[GridColumn], frame: Frame, ends: tuple[str, str, str]) -> Line:
    left, cross, right = ends
    return [("rule", left + cross.join(frame.dash * (c.width + 2) for c in columns) + right)]


def body_line(columns: Sequence[GridColumn], cells: Sequence[str | None], frame: Frame, style: str = "") -> Line:
    """The cells of a row. NULL has a style of its own; values that do not fit are cut."""
    line: Line = []
    for column, cell in zip(columns, cells, strict=True):
        text = _pad(cut(shown_cell(cell), column.width), column)
        line += [("rule", frame.bar), ("null" if cell is None and not style else style, f" {text} ")]
    return [*line, ("rule", frame.bar)]


def _pad(text: str, column: GridColumn) -> str:
    space = " " * (column.width - display_width(text))
    return space + text if column.right else text + space


def plain(lines: Iterable[Line]) -> Iterator[str]:
    """The lines without their styles."""
    for line in lines:
        yield "".join(text for _, text in line)
