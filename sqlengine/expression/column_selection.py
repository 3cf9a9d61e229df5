"""Several columns at once: `with_columns(range_("b", "d"))`, `without_columns("secret")`.

What they name is known when a table uses them, wherever it takes columns (`select`, `group_by`, `drop_columns`, ...).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runtime.core.errors import BindError, did_you_mean
from sqlengine.expression.expression import Expression, column

__all__ = ["ColumnRange", "ColumnSelection", "Columns", "expanded", "range_", "with_columns", "without_columns"]


@dataclass(frozen=True)
class ColumnRange:
    """The columns from one to another, both included: names, or positions counted from 1."""

    first: str | int
    last: str | int


@dataclass(frozen=True)
class ColumnSelection:
    """Columns of whatever table: those that are named, or all but those."""

    parts: tuple[Expression | str | int | ColumnRange, ...]
    leave_out: bool
    instead_of_a_value = (
        "with_columns and without_columns name several columns, where columns are listed: select, group_by, drop_columns; "
        'a condition or value takes col("name")'
    )

    def names(self, known: Sequence[str]) -> list[str]:
        """The columns among those of a table, in its order where they are left out, else as they were named. Raises
        BindError E1201 for one that is none."""
        named: list[str] = []
        for part in self.parts:
            if isinstance(part, ColumnRange):
                named += known[_place(part.first, known) : _place(part.last, known) + 1]
            else:
                named.append(known[_place(part, known)])
        return [n for n in known if n not in named] if self.leave_out else named


Columns = Expression | str | ColumnSelection
"""What stands where columns are listed."""


def range_(first: str | int, last: str | int) -> ColumnRange:
    """The columns from one to another, by name or by position from 1: for `with_columns` and `without_columns`."""
    return ColumnRange(first, last)


def with_columns(*columns: Expression | str | int | ColumnRange) -> ColumnSelection:
    """Columns by name, position or range: `t.select(with_columns(range_("b", "d")))`."""
    return ColumnSelection(columns, False)


def without_columns(*columns: Expression | str | int | ColumnRange) -> ColumnSelection:
    """All columns but these: `t.select(without_columns("secret"))`."""
    return ColumnSelection(columns, True)


def expanded(columns: Iterable[Columns], known: Sequence[str]) -> list[Expression | str]:
    """The columns one by one. Raises BindError E1201 for one that the table has not."""
    found: list[Expression | str] = []
    for given in columns:
        found += [column(n) for n in given.names(known)] if isinstance(given, ColumnSelection) else [given]
    return found


def _place(part: Expression | str | int, known: Sequence[str]) -> int:
    if isinstance(part, int):
        if not 1 <= part <= len(known):
            raise BindError(f"there is no column {part}", code="E1201", hint=f"the table has {len(known)} columns")
        return part - 1
    names = [n for n in known if part == n] if isinstance(part, str) else []
    if isinstance(part, Expression):
        names = [n for n in known if column(n).code.sql == part.code.sql]
    if not names:
        text = part if isinstance(part, str) else part.code.python
        raise BindError(f'unknown column "{text}"', code="E1201", hint=did_you_mean(text, known))
    return known.index(names[0])
