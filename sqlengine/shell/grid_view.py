"""A window on a table that is larger than the screen: which rows and columns are seen, how they are sorted, what keys do.

Knows nothing of terminals: `lines` gives what to draw in a width and a height.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlengine.shell.grid import (
    KIND_STYLES,
    Frame,
    GridColumn,
    Line,
    body_line,
    bottom_rule,
    cut,
    header_lines,
    measured,
    shown_cell,
    total_width,
)
from sqlengine.shell.live_rows import Row, sort_rows

__all__ = ["GridView"]

HEADER_LINES, FOOTER_LINES = 3, 1


class GridView:
    """The place in a table. Rows and columns count from 0; `row` and `column` are where the cursor is."""

    def __init__(self, columns: Sequence[GridColumn], most: int, *, with_kinds: bool = False) -> None:
        self._most = most
        self._columns = list(columns)
        self._with_kinds = with_kinds
        self._seen = [0] * len(columns)
        self.row = 0
        self.column = 0
        self.top = 0
        self.left = 0
        self.follow = with_kinds
        """Whether the end is shown, also when more rows come."""
        self.sorted_by: tuple[int, bool] | None = None
        """(column, descending)."""
        self.opened = False
        """Whether the row at the cursor is shown whole, a line a column."""
        self._page = 1
        self._order: list[int] | None = None
        self._rows: Sequence[Row] = ()
        self._kinds: Sequence[str] | None = None
        self._fresh: Collection[int] = ()

    def take(self, rows: Sequence[Row], kinds: Sequence[str] | None = None, fresh: Collection[int] = ()) -> None:
        """The rows as they are now."""
        self._rows, self._kinds, self._fresh = rows, kinds, fresh
        self._sort()

    def _sort(self) -> None:
        if self.sorted_by is None:
            self._order = None
            return
        column, descending = self.sorted_by
        numeric = self._columns[column].right
        self._order = sort_rows(self._rows, column, numeric=numeric, descending=descending)

    def ordered(self) -> list[Row]:
        """All rows in the order in which they are shown."""
        return list(self._rows) if self._order is None else [self._rows[i] for i in self._order]

    # --- moving
    # ----------------------------------------------------------------------------------------------------------

    def move(self, key: str) -> None:
        """Carry out a key: up, down, pageup, pagedown, home, end, left, right, s (sort), enter (a row in whole)."""
        last = max(0, len(self._rows) - 1)
        match key:
            case "up":
                self.row = max(0, self.row - 1)
            case "down":
                self.row = min(last, self.row + 1)
            case "pageup":
                self.row = max(0, self.row - self._page)
            case "pagedown":
                self.row = min(last, self.row + self._page)
            case "home":
                self.row = 0
            case "end":
                self.row = last
            case "left":
                self.column = max(0, self.column - 1)
            case "right":
                self.column = min(len(self._columns) - 1, self.column + 1)
            case "s":
                self._next_sort()
            case "enter":
                self.opened = not self.opened and bool(self._rows)
        if key in ("up", "pageup", "home"):
            self.follow = False
        elif key == "end":
            self.follow = self._with_kinds or self.follow

    def _next_sort(self) -> None:
        """Upward, downward, as they came."""
        if self._with_kinds or not self._columns:
            return  # a changelog has one order
        if self.sorted_by is None or self.sorted_by[0] != self.column:
            self.sorted_by = (self.column, False)
        else:
            self.sorted_by = (self.column, True) if not self.sorted_by[1] else None
        self._sort()

    # --- drawing
    # ---------------------------------------------------------------------------------------------------------

    def lines(self, width: int, height: int, frame: Frame) -> list[Line]:
        """What is seen: a header, rows, a rule below; as many lines as there are, at most `height`."""
        if self.opened and self._rows:
            return self._whole_row(width, height, frame)
        room = max(1, height - HEADER_LINES - FOOTER_LINES)
        self._page = max(1, room - 1)
        count = len(self._rows)
        if self.follow:
            self.row = max(0, count - 1)
        self.row = min(self.row, max(0, count - 1))
        self.top = min(max(self.top, self.row - room + 1), self.row)
        self.top = max(0, min(self.top, max(0, count - room)))
        positions = range(self.top, min(count, self.top + room))
        places = [p if self._order is None else self._order[p] for p in positions]
        shown = [self._rows[p] for p in places]
        columns = self._widths(shown)
        first, last, grid = self._window(columns, width)
        lines = header_lines(grid, frame)
        kinds = self._kinds
        for position, place, row in zip(positions, places, shown, strict=True):
            cells = list(row[first:last])
            style = "fresh" if place in self._fresh else ""
            if kinds is not None:
                cells.insert(0, kinds[place])
                style = KIND_STYLES[kinds[place]]
            if position == self.row:
                style = "cursor"
            lines.append(body_line(grid, cells, frame, style))
        lines.append(bottom_rule(grid, frame))
        return lines[:height]

    def _widths(self, shown: Sequence[Row]) -> list[GridColumn]:
        """Columns as wide as what was seen so far, so that they do not jump while rows change."""
        columns = measured(self._columns, shown, self._most)
        self._seen = [max(a, c.width) for a, c in zip(self._seen, columns, strict=True)]
        marked = []
        for i, (column, seen) in enumerate(zip(columns, self._seen, strict=True)):
            name = column.name
            if self.sorted_by is not None and self.sorted_by[0] == i:
                name += " ▼" if self.sorted_by[1] else " ▲"
            if i == self.column and len(columns) > 1:
                name = f"[{name}]"
            marked.append(GridColumn(name, column.right, column.flexible, max(seen, len(name))))
        return marked

    def _window(self, columns: list[GridColumn], width: int) -> tuple[int, int, list[GridColumn]]:
        """The columns that are seen, from one that makes the cursor's visible."""
        extra = [GridColumn("op", width=2, flexible=False)] if self._kinds is not None else []
        self.left = min(self.left, self.column)
        while True:
            last = self.left
            while last < len(columns) and total_width([*extra, *columns[self.left : last + 1]]) <= width:
                last += 1
            if last > self.column or self.left >= self.column:
                break
            self.left += 1
        if last == self.left and columns:  # one column wider than the screen
            room = max(1, width - 1 - total_width(extra) - 2)
            return self.left, self.left + 1, [*extra, columns[self.left].wide(room)]
        return self.left, last, [*extra, *columns[self.left : last]]

    def place(self) -> str:
        """Where the cursor is, for people."""
        if not self._rows:
            return "no rows"
        text = f"row {self.row + 1:,} of {len(self._rows):,}"
        return text + (f", column {self.column + 1} of {len(self._columns)}" if len(self._columns) > 1 else "")

    def _whole_row(self, width: int, height: int, frame: Frame) -> list[Line]:
        self.row = min(self.row, len(self._rows) - 1)
        row = self._rows[self.row if self._order is None else self._order[self.row]]
        names = [shown_cell(c.name) for c in self._columns]
        widest = max(len(n) for n in names)
        room = max(10, width - widest - 3)
        lines: list[Line] = []
        for name, cell in zip(names, row, strict=True):
            rest = shown_cell(cell)
            style = "null" if cell is None else ""
            pieces: list[str] = []
            while rest or not pieces:
                piece = cut(rest, room)
                if piece != rest and piece.endswith("…"):
                    piece = piece[:-1]
                pieces.append(piece)
                rest = rest[len(piece) :]
            for i, piece in enumerate(pieces):
                head = name if i == 0 else ""
                lines.append([("header", head.ljust(widest)), ("rule", f" {frame.bar} "), (style, piece)])
        return lines[:height]
