"""A difference as a person reads it: the place, the SQL, and the rows in columns, those missing and those too much."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

from runtime.core.errors import display_width
from sqlengine.testing.compare import Difference

__all__ = ["difference_lines", "plain"]

_NEAR = 3
"""So many equal rows are shown on both sides of a difference."""
_MISSING, _TOO_MUCH, _SAME = "-", "+", " "


def plain(text: str, colour: str) -> str:
    """A painter without colours."""
    return text


def difference_lines(difference: Difference, paint: Callable[[str, str], str] = plain) -> Iterator[str]:
    """The lines for one difference; `paint` colours a text ("red", "green", "bold")."""
    yield f"  {difference.path}:{difference.line} ({difference.cut}): {paint(difference.problem, 'bold')}"
    for line in difference.sql.splitlines():
        yield f"    {line}"
    if not difference.expected and not difference.actual:
        return
    marked = list(_marked(difference.expected, difference.actual))
    missing, much = (sum(mark == wanted for mark, _ in marked) for wanted in (_MISSING, _TOO_MUCH))
    yield f"    {paint(f'- missing: {missing}', 'red')}  {paint(f'+ too much: {much}', 'green')}"
    for mark, text in _aligned(_shortened(marked)):
        colour = {_MISSING: "red", _TOO_MUCH: "green"}.get(mark)
        line = f"    {mark} {text}".rstrip()
        yield paint(line, colour) if colour else line


def _marked(expected: Sequence[str], actual: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every line with its mark; a line that is missing stands before the one that came in its place."""
    matcher = difflib.SequenceMatcher(None, expected, actual, autojunk=False)
    for what, a, b, c, d in matcher.get_opcodes():
        if what == "equal":
            yield from ((_SAME, line) for line in expected[a:b])
            continue
        for old, new in zip_longest(expected[a:b], actual[c:d]):
            if old is not None:
                yield _MISSING, old
            if new is not None:
                yield _TOO_MUCH, new


def _shortened(lines: list[tuple[str, str]]) -> list[tuple[str, str] | None]:
    """The lines near a difference; None where others were left out."""
    places = [i for i, (mark, _) in enumerate(lines) if mark != _SAME]
    kept = sorted({j for i in places for j in range(max(0, i - _NEAR), min(len(lines), i + _NEAR + 1))})
    found: list[tuple[str, str] | None] = []
    for before, at in zip([-1, *kept], kept, strict=False):
        found += ([None] if at > before + 1 else []) + [lines[at]]
    return found + ([None] if kept and kept[-1] < len(lines) - 1 else [])


def _aligned(lines: Sequence[tuple[str, str] | None]) -> Iterator[tuple[str, str]]:
    """Cells below each other, where all lines have as many."""
    cells = [None if line is None else line[1].split(" | ") for line in lines]
    counts = {len(row) for row in cells if row is not None}
    widths = None
    if len(counts) == 1 and counts != {1}:
        columns = zip(*(row for row in cells if row is not None), strict=True)
        widths = [max(map(display_width, column)) for column in columns]
    for line, row in zip(lines, cells, strict=True):
        if line is None or row is None:
            yield _SAME, "..."
        elif widths is None:
            yield line
        else:
            padded = (cell + " " * (width - display_width(cell)) for cell, width in zip(row, widths, strict=True))
            yield line[0], " | ".join(padded).rstrip()
