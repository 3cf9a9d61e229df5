"""What is known of the rows on an edge of a physical plan: how many, how many in an epoch, and of each column how many
values, how long they are and how far they reach; and what operators make of it. Nodes say with these which rows they give
(`PhysicalNode.estimate`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow.types as pt

from runtime.core.types import DataType, TypeRoot
from runtime.expr.analysis import input_refs
from runtime.expr.nodes import Call, Cast, ColumnRef, Expr, InputRef, Literal
from runtime.expr.rewrite import transform
from runtime.plan.estimates.distinct import drawn
from runtime.plan.estimates.selectivity import Known, selectivity
from runtime.plan.parts import AggregateSpec, JoinKind
from runtime.plan.windows import CumulateWindow, HopWindow, TumbleWindow, WindowSpec

__all__ = [
    "ELEMENTS",
    "FEW_ROWS",
    "SELECTED_PAIRS",
    "TEXT",
    "ColumnFacts",
    "RowFacts",
    "beside",
    "column_of",
    "combinations",
    "combinations_within",
    "combined",
    "filtered",
    "grouped",
    "is_text",
    "joined",
    "keyed",
    "rows_of_join",
    "share_of",
    "times",
    "united",
    "windows_in_all",
    "windows_of_a_row",
]

ELEMENTS = 4.0
"""Of a collection."""
TEXT = 16.0
_DAY = 86_400.0
SELECTED_PAIRS = 0.1
"""The share of pairs that are near in time, when nobody knows how long the time is."""
_DEPENDENCE = 0.75
"""Columns are rarely independent: of the way from the values of one column to the product, on a logarithmic scale."""


class ColumnFacts(NamedTuple):
    """distinct: how many values. length: average bytes of a text or collection. low, high: ends of the values
    (`position_of`: times in seconds), None where they are not known. nulls: their share, None unknown. lifetime: the
    share of the rows, in order of time, between the first and the last of a value."""

    distinct: float
    length: float = TEXT
    low: float | None = None
    high: float | None = None
    nulls: float | None = None
    lifetime: float = 1.0

    @property
    def span(self) -> float | None:
        """The length of the range of values."""
        return None if self.low is None or self.high is None else self.high - self.low


class RowFacts(NamedTuple):
    """rows: live rows at the end of the input. epoch: how many of them come in one epoch. known: whether the sizes of all
    tables below are known, and not guessed."""

    rows: float
    epoch: float
    columns: tuple[ColumnFacts, ...]
    known: bool

    def span(self, column: int) -> float | None:
        """How many seconds a column of times reaches over."""
        return self.columns[column].span


FEW_ROWS = RowFacts(10.0, 10.0, (), True)
"""Of constants."""


def combinations(facts: RowFacts, columns: Sequence[int], rows: float | None = None) -> float:
    """How many combinations of values the columns have among the rows, or among so many of them."""
    rows = facts.rows if rows is None else min(rows, facts.rows)
    return combined([_left(facts.columns[c].distinct, facts.rows, rows) for c in set(columns)], rows)


def combined(distinct: Sequence[float], rows: float) -> float:
    """How many combinations of values columns have among so many rows. `distinct`: the values of each column."""
    if not distinct:
        return min(1.0, rows)
    each = [min(values, rows) for values in distinct]
    most = min(rows, math.prod(each))
    least = max(each)
    return max(min(1.0, rows), min(rows, least * max(most / max(least, 1.0), 1.0) ** _DEPENDENCE))


def combinations_within(facts: RowFacts, columns: Sequence[int], rows: float) -> float:
    """How many combinations the columns have among so many rows that follow each other in time."""
    share = min(1.0, rows / max(facts.rows, 1.0))
    near = tuple(c._replace(distinct=c.distinct * min(1.0, share + c.lifetime)) for c in facts.columns)
    return combinations(RowFacts(rows, facts.epoch, near, facts.known), columns) if columns else min(1.0, rows)


def windows_of_a_row(window: WindowSpec) -> float:
    """In how many windows a row is."""
    match window:
        case HopWindow(slide=slide, size=size):
            return size / slide
        case CumulateWindow(step=step, size=size):
            return (size / step + 1) / 2
        case _:
            return 1.0


def windows_in_all(window: WindowSpec, span: float | None, rows: float) -> float:
    """How many windows there are in all."""
    match window:
        case TumbleWindow(size=step) | HopWindow(slide=step) | CumulateWindow(step=step):
            pass
        case _:
            step = None
    if span is None or step is None:
        return max(1.0, min(rows, 10.0))
    return max(1.0, span * 1000 / step + windows_of_a_row(window))


def filtered(facts: RowFacts, share: float) -> RowFacts:
    """A share of the rows."""
    rows = facts.rows * share
    columns = tuple(c._replace(distinct=_left(c.distinct, facts.rows, rows)) for c in facts.columns)
    return RowFacts(rows, facts.epoch * share, columns, facts.known)


def keyed(facts: RowFacts, keys: Sequence[int]) -> RowFacts:
    """One row for each combination of keys."""
    return filtered(facts, combinations(facts, keys) / max(facts.rows, 1.0))


def times(facts: RowFacts, factor: float) -> RowFacts:
    """Each row so many times."""
    return facts._replace(rows=facts.rows * factor, epoch=facts.epoch * factor)


def share_of(condition: Expr, facts: RowFacts) -> float:
    """The share of rows for which a condition holds."""

    def named(expr: Expr) -> Expr:
        return ColumnRef(expr.index, "", expr.type) if isinstance(expr, InputRef) else expr

    def known(column: int) -> Known:
        found = facts.columns[column]
        return Known(found.nulls, found.low, found.high)

    return selectivity(transform(condition, named), lambda column: facts.columns[column].distinct, known)


def column_of(expr: Expr, facts: RowFacts) -> ColumnFacts:
    """What is known of the values of an expression."""
    match expr:
        case InputRef(index=index):
            return facts.columns[index]
        case Literal(value=value):
            return ColumnFacts(1.0, float(len(value)) if isinstance(value, str) else TEXT)
        case Cast(value=value) if expr.type.root is not TypeRoot.DATE:
            return column_of(value, facts)
        case _:
            pass
    read = sorted(input_refs(expr))
    length = max((facts.columns[c].length for c in read), default=TEXT)
    if len(read) == 1:
        column = facts.columns[read[0]]
        days = None if column.span is None else column.span / _DAY
        return ColumnFacts(min(column.distinct, _units(expr, days)), _made_length(expr, length))
    return ColumnFacts(combinations(facts, read) if read else 1.0, length)


def united(inputs: Sequence[RowFacts]) -> RowFacts:
    """All rows of all inputs."""
    rows = sum(i.rows for i in inputs)
    columns = []
    for each in zip(*(i.columns for i in inputs), strict=True):
        ends = [c.low for c in each if c.low is not None], [c.high for c in each if c.high is not None]
        low, high = (min(ends[0]), max(ends[1])) if len(ends[0]) == len(ends[1]) == len(each) else (None, None)
        distinct = max(c.distinct for c in each)
        columns.append(ColumnFacts(distinct, max(c.length for c in each), low, high))
    return RowFacts(rows, sum(i.epoch for i in inputs), tuple(columns), all(i.known for i in inputs))


def grouped(facts: RowFacts, keys: Sequence[int], calls: Sequence[AggregateSpec], rows: float) -> RowFacts:
    """A row for each combination of keys, with the results of calls."""
    columns = [facts.columns[k]._replace(distinct=min(facts.columns[k].distinct, rows)) for k in keys]
    for call in calls:
        read = facts.columns[call.args[0]] if call.args else ColumnFacts(rows)
        columns.append(read._replace(distinct=max(1.0, min(rows, read.distinct))))
    return RowFacts(rows, min(rows, facts.epoch), tuple(columns), facts.known)


def rows_of_join(kind: JoinKind, pairs: float, left: float, right: float) -> float:
    """The rows of a join, from the number of its pairs and of the rows of both sides."""
    match kind:
        case JoinKind.SEMI:
            return min(left, pairs)
        case JoinKind.ANTI:
            return max(left - pairs, left * 0.1)
        case JoinKind.LEFT:
            return max(pairs, left)
        case JoinKind.RIGHT:
            return max(pairs, right)
        case JoinKind.FULL:
            return max(pairs, left + right)
        case _:
            return pairs


def joined(
    kind: JoinKind,
    left_keys: Sequence[int],
    right_keys: Sequence[int],
    condition: Expr | None,
    inputs: Sequence[RowFacts],
    share: float,
) -> RowFacts:
    """The rows of a join; `share`: of the pairs of equal keys those that are near enough in time."""
    left, right = inputs
    values = max(1.0, combinations(left, left_keys), combinations(right, right_keys)) if left_keys else 1.0
    both = RowFacts(left.rows * right.rows, 0.0, (*left.columns, *right.columns), left.known and right.known)
    pairs = left.rows * right.rows / values * share
    if condition is not None:
        pairs *= share_of(condition, both)
    rows = rows_of_join(kind, pairs, left.rows, right.rows)
    columns = left.columns if kind.left_only else both.columns
    found = tuple(c._replace(distinct=min(c.distinct, max(1.0, _left(c.distinct, rows * 2, rows)))) for c in columns)
    share_of_epoch = min(1.0, max(i.epoch / max(i.rows, 1.0) for i in inputs))
    return RowFacts(rows, rows * share_of_epoch, found, both.known)


def beside(inputs: Sequence[RowFacts]) -> RowFacts:
    """All rows of the first input with the columns of the second."""
    columns = tuple(c for i in inputs for c in i.columns)
    return inputs[0]._replace(columns=columns, known=all(i.known for i in inputs))


def is_text(type_: DataType) -> bool:
    """Whether values of the type have a length."""
    arrow = type_.arrow
    return not (
        pt.is_primitive(arrow) or pt.is_decimal(arrow) or pt.is_fixed_size_binary(arrow) or pt.is_interval(arrow)
    )


def _left(distinct: float, before: float, after: float) -> float:
    """The values of a column that are left when of `before` rows `after` are."""
    if after >= before or distinct >= 0.9 * before:
        return min(distinct, after)
    return drawn(distinct, after)


def _units(expr: Expr, days: float | None) -> float:
    """The most values of a function of a time over so many days."""
    per_day: float | None = None
    match expr:
        case Cast(type=DataType(root=TypeRoot.DATE)):
            per_day = 1.0
        case Call(function="DATE_FORMAT", args=(_, Literal(value=str(pattern)))):
            per_day = (
                1.0 if "H" not in pattern else 24.0 if "m" not in pattern else 1440.0 if "s" not in pattern else None
            )
        case Call(function="HOUR"):
            return 24.0
        case _:
            pass
    return math.inf if days is None or per_day is None else days * per_day + 1


def _made_length(expr: Expr, length: float) -> float:
    match expr:
        case Call(function="DATE_FORMAT", args=(_, Literal(value=str(pattern)))):
            return float(len(pattern))
        case _:
            return length
