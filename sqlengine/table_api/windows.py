"""Windows of the Table API, written as in Flink:

    Tumble.over(lit(10).minutes).on(col("ts")).alias("w")
    Slide.over(lit(10).minutes).every(lit(5).minutes).on(col("ts")).alias("w")
    Cumulate.over(lit(1).days).every(lit(1).hours).on(col("ts")).alias("w")
    Session.with_gap(lit(5).minutes).on(col("ts")).alias("w")
    Tumble.over(lit(10).rows).on(col("ts")).alias("w")
    Over.partition_by(col("a")).order_by(col("ts")).preceding(lit(1).hours).alias("w")

The first four are the window functions TUMBLE, HOP, CUMULATE and SESSION; windows that count rows are in
`row_windows.py`; `Over` is a window of the WINDOW clause.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from runtime.core.errors import BindError
from sqlengine.expression.expression import Expression, as_code, column
from sqlengine.expression.frame_bounds import (
    CURRENT_RANGE,
    CURRENT_ROW,
    UNBOUNDED_RANGE,
    UNBOUNDED_ROW,
    FrameBound,
    row_interval,
)
from sqlengine.values.code import Code, compose, name_sql

__all__ = [
    "CURRENT_RANGE",
    "CURRENT_ROW",
    "UNBOUNDED_RANGE",
    "UNBOUNDED_ROW",
    "Cumulate",
    "FrameBound",
    "GroupWindow",
    "Over",
    "OverWindow",
    "Session",
    "Slide",
    "Tumble",
    "row_interval",
]


Length: TypeAlias = "Expression | dt.timedelta | FrameBound"
"""How long a window is: an interval, `lit(10).minutes`, or a number of rows, `lit(10).rows`."""


@dataclass(frozen=True)
class GroupWindow:
    """A window function with its lengths, its time column and its name, as `Table.window` takes it."""

    function: str
    shown: str
    lengths: tuple[Code, ...]
    time: Code | None = None
    name: str | None = None
    counts: tuple[int, ...] = ()
    """The lengths where they are numbers of rows."""

    def on(self, time: Expression | str) -> GroupWindow:
        """The time attribute that cuts the windows: a rowtime or proctime column."""
        return replace(self, time=(column(time) if isinstance(time, str) else time).code)

    def every(self, step: Length) -> GroupWindow:
        """How far one window of HOP stands from the next; by how much one of CUMULATE grows. Rows go with a size in
        rows (BindError E1230)."""
        if self.function not in ("HOP", "CUMULATE") or len(self.lengths) > 1:
            raise BindError(
                f"{self.shown}(..) takes no every"
                if len(self.lengths) == 1
                else "a window has one step, and every is there twice",
                code="E1230",
                hint="Slide.over(size).every(step) and Cumulate.over(size).every(step) do",
            )
        added = _window(self.function, self.shown, step)
        if bool(added.counts) != bool(self.counts):
            raise BindError(
                "the size and the step of a window are of one kind: both lengths of time, or both numbers of rows",
                code="E1230",
                hint=f"for example {self.shown}(lit(10).rows).every(lit(5).rows)",
            )
        return replace(self, lengths=(*added.lengths, *self.lengths), counts=(*added.counts, *self.counts))

    def alias(self, name: str) -> GroupWindow:
        """The name that `group_by` and `col(name).start` know it by."""
        return replace(self, name=name)

    @property
    def python(self) -> Code:
        """The arguments of the window function behind its table, beside the window as it was written."""
        parts: list[str | Code] = [self.shown, "("]
        size = self.lengths[-1]
        parts += [size, ")"]
        if len(self.lengths) > 1:
            parts += [".every(", self.lengths[0], ")"]
        if self.time is not None:
            parts += [".on(", self.time, ")"]
        if self.name is not None:
            parts.append(f'.alias("{self.name}")')
        sql: list[str | Code] = [] if self.time is None else ["DESCRIPTOR(", self.time, ")"]
        for length in self.lengths:
            sql += [", ", length]
        return compose(sql, parts)


def _window(function: str, shown: str, length: Length) -> GroupWindow:
    if not isinstance(length, FrameBound):
        return GroupWindow(function, shown, (as_code(length),))
    rows = int(length.sql) if length.rows and length.sql.isdigit() else 0
    if rows < 1 or function not in ("TUMBLE", "HOP"):
        raise BindError(
            f"{shown} takes no {length.python}",
            code="E1230",
            hint="Tumble and Slide count rows: row_interval(n) with n of at least 1"
            if function in ("TUMBLE", "HOP")
            else "it takes a length of time, such as lit(10).minutes",
        )
    return GroupWindow(function, shown, (Code(length.sql, length.python),), counts=(rows,))


class Tumble:
    """Windows of one size without overlap (TUMBLE)."""

    @staticmethod
    def over(size: Length) -> GroupWindow:
        """Windows of this size: `lit(10).minutes`, or `lit(10).rows`."""
        return _window("TUMBLE", "Tumble.over", size)


class Slide:
    """Windows of one size that start at each `every` (HOP); they may overlap."""

    @staticmethod
    def over(size: Length) -> GroupWindow:
        """Windows of this size, in time or rows; say `every` next."""
        return _window("HOP", "Slide.over", size)


class Cumulate:
    """Windows that grow by `every` until they reach their size (CUMULATE)."""

    @staticmethod
    def over(size: Length) -> GroupWindow:
        """Windows up to this size; say `every` next."""
        return _window("CUMULATE", "Cumulate.over", size)


class Session:
    """Windows that end after a gap without rows."""

    @staticmethod
    def with_gap(gap: Length) -> GroupWindow:
        """Windows between gaps of at least this length."""
        return _window("SESSION", "Session.with_gap", gap)


@dataclass(frozen=True)
class OverWindow:
    """Rows around a row: a partition, an order, and from where to where."""

    partition: tuple[Code, ...] = ()
    order: tuple[Code, ...] = ()
    start: Any = None
    stop: Any = None
    name: str | None = None

    def order_by(self, *keys: Expression | str) -> OverWindow:
        """The order of the rows: of a stream, a time attribute."""
        return replace(self, order=tuple((column(k) if isinstance(k, str) else k).code for k in keys))

    def preceding(self, bound: Any) -> OverWindow:
        """How far the rows go back: `UNBOUNDED_RANGE`, `UNBOUNDED_ROW`, `row_interval(n)`, or a length of time."""
        return replace(self, start=_bound(bound))

    def following(self, bound: Any) -> OverWindow:
        """How far they go on: `CURRENT_RANGE` (the default), `CURRENT_ROW`, or as for `preceding`."""
        return replace(self, stop=_bound(bound))

    def alias(self, name: str) -> OverWindow:
        """The name that `.over(col(name))` knows it by."""
        return replace(self, name=name)

    @property
    def definition(self) -> Code:
        """What stands between the parentheses of OVER or WINDOW, beside how it was written."""
        sql: list[str | Code] = []
        python: list[str | Code] = ["Over"]
        if self.partition:
            sql.append("PARTITION BY ")
            python.append(".partition_by(")
            _listed(self.partition, sql, python)
        if self.order:
            sql.append(" ORDER BY " if sql else "ORDER BY ")
            python.append(".order_by(")
            _listed(self.order, sql, python)
        if self.start is not None:
            rows = self.start.rows
            if self.stop is not None and self.stop.rows is not rows:
                raise BindError(
                    "preceding and following are not of one kind: one counts rows, the other compares values",
                    code="E1214",
                    hint="CURRENT_ROW and UNBOUNDED_ROW go with row_interval, CURRENT_RANGE and UNBOUNDED_RANGE with "
                    "lengths of time",
                )
            stop = self.stop or (CURRENT_ROW if rows else CURRENT_RANGE)
            sql.append(f" {'ROWS' if rows else 'RANGE'} BETWEEN {_side(self.start, 'PRECEDING')} AND ")
            sql.append(_side(stop, "FOLLOWING"))
            python.append(f".preceding({self.start.python})")
            if self.stop is not None:
                python.append(f".following({self.stop.python})")
        if self.name is not None:
            python.append(f'.alias("{self.name}")')
        return compose(sql, python)

    @property
    def declaration(self) -> Code:
        """`name AS (definition)` of the WINDOW clause. Raises BindError E1215 for a window without a name."""
        if self.name is None:
            raise BindError("an Over window needs a name here", code="E1215", hint='add .alias("w")')
        definition = self.definition
        return compose([f"{name_sql(self.name)} AS (", definition, ")"], [definition])


class Over:
    """Starts the definition of an OVER window."""

    @staticmethod
    def partition_by(*keys: Expression | str) -> OverWindow:
        """Rows with equal keys."""
        return OverWindow(tuple((column(k) if isinstance(k, str) else k).code for k in keys))

    @staticmethod
    def order_by(*keys: Expression | str) -> OverWindow:
        """All rows, in this order."""
        return OverWindow().order_by(*keys)


def _listed(codes: tuple[Code, ...], sql: list[str | Code], python: list[str | Code]) -> None:
    for index, code in enumerate(codes):
        sql += [", ", code] if index else [code]
        python += [", ", code] if index else [code]
    python.append(")")


def _bound(bound: Any) -> FrameBound:
    if isinstance(bound, FrameBound):
        return bound
    if isinstance(bound, int):
        return row_interval(bound)
    code = as_code(bound)
    return FrameBound(code.sql, False, code.python)


def _side(bound: FrameBound, side: str) -> str:
    return bound.sql if bound.sql == "CURRENT ROW" else f"{bound.sql} {side}"
