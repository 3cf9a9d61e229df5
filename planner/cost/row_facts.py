"""What is known of the rows on each edge of a physical plan: how many, how many in an epoch, and of each column how many
values, how long they are and how far they reach. From the statistics of the tables (`TableStatistics`), through the
operators; where nothing is known, from their form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow.types as pt

from planner.cost.distinct import distinct_of, drawn
from planner.cost.positions import position_of
from planner.cost.selectivity import Known, selectivity
from runtime.core.types import DataType, TypeRoot
from runtime.expr.analysis import input_refs
from runtime.expr.nodes import Call, Cast, ColumnRef, Expr, InputRef, Literal
from runtime.expr.rewrite import transform
from runtime.plan import nodes as p
from runtime.plan.nodes import JoinKind, PhysicalNode
from runtime.plan.windows import CumulateWindow, HopWindow, SessionWindow, TumbleWindow, WindowSpec
from runtime.spi.statistics import TableStatistics

__all__ = [
    "ColumnFacts",
    "RowFacts",
    "Tables",
    "combinations",
    "combinations_within",
    "row_facts",
    "windows_of_a_row",
]

Tables = Mapping[str, TableStatistics]
"""What is known of the tables that sources read, by the source's name."""

_ROWS = 1e6
"""Of a table of unknown size: what is said of it is said of one row, so it has many."""
_TEXT = 16.0
_ELEMENTS = 4.0
_DAY = 86_400.0
_SELECTED_PAIRS = 0.1
_DEPENDENCE = 0.75
"""Columns are rarely independent: of the way from the values of one column to the product, on a logarithmic scale."""


class ColumnFacts(NamedTuple):
    """distinct: how many values. length: average bytes of a text or collection. low, high: ends of the values
    (`position_of`: times in seconds), None where they are not known. nulls: their share, None unknown. lifetime: the
    share of the rows, in order of time, between the first and the last of a value."""

    distinct: float
    length: float = _TEXT
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


def row_facts(node: PhysicalNode, tables: Tables, epoch_rows: int, done: dict[PhysicalNode, RowFacts]) -> RowFacts:
    """The rows that a node gives.

    Args:
        epoch_rows: the most rows that a source gives to one epoch.
        done: what was found before, added to.
    """
    found = done.get(node)
    if found is None:
        inputs = [row_facts(source, tables, epoch_rows, done) for source in node.inputs]
        if isinstance(node, p.SourceExec):
            found = _source(node, tables, epoch_rows)
        else:
            derive = _RULES.get(type(node), _passed)
            found = derive(node, inputs)
        width = len(node.schema)
        columns = (*found.columns, *(ColumnFacts(max(1.0, found.rows)) for _ in range(width)))[:width]
        found = found._replace(columns=columns)
        done[node] = found
    return found


def combinations(facts: RowFacts, columns: Sequence[int], rows: float | None = None) -> float:
    """How many combinations of values the columns have among the rows, or among so many of them."""
    rows = facts.rows if rows is None else min(rows, facts.rows)
    if not columns:
        return min(1.0, rows)
    each = [min(_left(facts.columns[c].distinct, facts.rows, rows), rows) for c in set(columns)]
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


def _left(distinct: float, before: float, after: float) -> float:
    """The values of a column that are left when of `before` rows `after` are."""
    if after >= before or distinct >= 0.9 * before:
        return min(distinct, after)
    return drawn(distinct, after)


def _filtered(facts: RowFacts, share: float) -> RowFacts:
    rows = facts.rows * share
    columns = tuple(c._replace(distinct=_left(c.distinct, facts.rows, rows)) for c in facts.columns)
    return RowFacts(rows, facts.epoch * share, columns, facts.known)


def _source(node: p.SourceExec, tables: Tables, epoch_rows: int) -> RowFacts:
    stated = tables.get(node.name)
    if stated is None:
        stated = node.table.statistics()
    rows = _ROWS if stated.rows is None else stated.rows
    keys = node.table.primary_key if hasattr(node.table, "primary_key") else ()
    columns = []
    for field in node.schema:
        known = stated.column(field.name)
        distinct = rows if keys == (field.name,) else distinct_of(known, field.type, rows)
        nulls = known.nulls / rows if known.nulls is not None and rows else None
        length = _TEXT if known.average_length is None else known.average_length
        lifetime = 1.0 if known.lifetime is None else known.lifetime
        columns.append(ColumnFacts(distinct, length, position_of(known.low), position_of(known.high), nulls, lifetime))
    return RowFacts(rows, min(rows, epoch_rows), tuple(columns), stated.rows is not None)


def _share(condition: Expr, facts: RowFacts) -> float:
    """The share of rows for which a condition holds."""

    def named(expr: Expr) -> Expr:
        return ColumnRef(expr.index, "", expr.type) if isinstance(expr, InputRef) else expr

    def known(column: int) -> Known:
        found = facts.columns[column]
        return Known(found.nulls, found.low, found.high)

    return selectivity(transform(condition, named), lambda column: facts.columns[column].distinct, known)


def _passed(node: PhysicalNode, inputs: Sequence[RowFacts]) -> RowFacts:
    """All rows of the first input (constants: a few)."""
    return inputs[0] if inputs else RowFacts(10.0, 10.0, (), True)


def _calc(node: p.CalcExec, inputs: Sequence[RowFacts]) -> RowFacts:
    (given,) = inputs
    if node.condition is not None:
        given = _filtered(given, _share(node.condition, given))
    return given._replace(columns=tuple(_expression(e, given) for e in node.projections))


def _expression(expr: Expr, facts: RowFacts) -> ColumnFacts:
    match expr:
        case InputRef(index=index):
            return facts.columns[index]
        case Literal(value=value):
            return ColumnFacts(1.0, float(len(value)) if isinstance(value, str) else _TEXT)
        case Cast(value=value) if expr.type.root is not TypeRoot.DATE:
            return _expression(value, facts)
        case _:
            pass
    read = sorted(input_refs(expr))
    length = max((facts.columns[c].length for c in read), default=_TEXT)
    if len(read) == 1:
        column = facts.columns[read[0]]
        days = None if column.span is None else column.span / _DAY
        return ColumnFacts(min(column.distinct, _units(expr, days)), _made_length(expr, length))
    return ColumnFacts(combinations(facts, read) if read else 1.0, length)


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


def _union(node: p.UnionExec, inputs: Sequence[RowFacts]) -> RowFacts:
    rows = sum(i.rows for i in inputs)
    columns = []
    for each in zip(*(i.columns for i in inputs), strict=True):
        ends = [c.low for c in each if c.low is not None], [c.high for c in each if c.high is not None]
        low, high = (min(ends[0]), max(ends[1])) if len(ends[0]) == len(ends[1]) == len(each) else (None, None)
        distinct = max(c.distinct for c in each)
        columns.append(ColumnFacts(distinct, max(c.length for c in each), low, high))
    return RowFacts(rows, sum(i.epoch for i in inputs), tuple(columns), all(i.known for i in inputs))


def _times(factor: Callable[[Any], float]) -> Callable[[Any, Sequence[RowFacts]], RowFacts]:
    def derive(node: Any, inputs: Sequence[RowFacts]) -> RowFacts:
        (given,) = inputs
        times = factor(node)
        return given._replace(rows=given.rows * times, epoch=given.epoch * times)

    return derive


def _window_table(node: p.WindowTableExec, inputs: Sequence[RowFacts]) -> RowFacts:
    (given,) = inputs
    times = windows_of_a_row(node.window)
    time = given.columns[node.time]
    ends = time._replace(distinct=_windows(node.window, time.span, given.rows))
    return RowFacts(given.rows * times, given.epoch * times, (*given.columns, ends, ends, ends), given.known)


def _windows(window: WindowSpec, span: float | None, rows: float) -> float:
    """How many windows there are in all."""
    match window:
        case TumbleWindow(size=step) | HopWindow(slide=step) | CumulateWindow(step=step):
            pass
        case _:
            step = None
    if span is None or step is None:
        return max(1.0, min(rows, 10.0))
    return max(1.0, span * 1000 / step + windows_of_a_row(window))


def _grouped(facts: RowFacts, keys: Sequence[int], calls: Sequence[p.AggregateSpec], rows: float) -> RowFacts:
    """A row for each combination of keys, with the results of calls."""
    columns = [facts.columns[k]._replace(distinct=min(facts.columns[k].distinct, rows)) for k in keys]
    for call in calls:
        read = facts.columns[call.args[0]] if call.args else ColumnFacts(rows)
        columns.append(read._replace(distinct=max(1.0, min(rows, read.distinct))))
    return RowFacts(rows, min(rows, facts.epoch), tuple(columns), facts.known)


def _group(node: p.GroupAggregateExec, inputs: Sequence[RowFacts]) -> RowFacts:
    (given,) = inputs
    return _grouped(given, node.keys, node.calls, combinations(given, node.keys) if node.keys else 1.0)


def _window_aggregate(node: p.WindowAggregateExec, inputs: Sequence[RowFacts]) -> RowFacts:
    (given,) = inputs
    time = given.columns[node.time]
    times = windows_of_a_row(node.window)
    if isinstance(node.window, SessionWindow):
        rows = combinations(given, node.keys) * max(
            1.0, min(10.0, given.rows / max(combinations(given, node.keys), 1.0))
        )
        windows = rows
    else:
        windows = _windows(node.window, time.span, given.rows) if not node.proctime else 1.0
        each = min(given.rows, given.rows * times / windows)
        rows = windows * combinations_within(given, node.keys, each)
    rows = max(1.0, min(rows, given.rows * times))
    found = _grouped(given, node.keys, node.calls, rows)
    ends = time._replace(distinct=min(windows, rows))
    share = min(1.0, given.epoch / max(given.rows, 1.0))
    return found._replace(columns=(*found.columns, *(ends for _ in node.properties)), epoch=max(1.0, rows * share))


def _hash_join(node: p.HashJoinExec, inputs: Sequence[RowFacts]) -> RowFacts:
    return _joined(node.kind, node.left_keys, node.right_keys, node.condition, inputs, 1.0)


def _window_join(node: p.WindowJoinExec, inputs: Sequence[RowFacts]) -> RowFacts:
    left, right = (*node.left_keys, node.left_window[1]), (*node.right_keys, node.right_window[1])
    return _joined(node.kind, left, right, node.condition, inputs, 1.0)


def _interval_join(node: p.IntervalJoinExec, inputs: Sequence[RowFacts]) -> RowFacts:
    span = inputs[0].span(node.left_time)
    share = _SELECTED_PAIRS if not span else min(1.0, (node.upper - node.lower) / 1000 / span)
    return _joined(node.kind, node.left_keys, node.right_keys, node.condition, inputs, share)


def _joined(
    kind: JoinKind,
    left_keys: Sequence[int],
    right_keys: Sequence[int],
    condition: Expr | None,
    inputs: Sequence[RowFacts],
    share: float,
) -> RowFacts:
    left, right = inputs
    values = max(1.0, combinations(left, left_keys), combinations(right, right_keys)) if left_keys else 1.0
    both = RowFacts(left.rows * right.rows, 0.0, (*left.columns, *right.columns), left.known and right.known)
    pairs = left.rows * right.rows / values * share
    if condition is not None:
        pairs *= _share(condition, both)
    rows = {
        JoinKind.SEMI: min(left.rows, pairs),
        JoinKind.ANTI: max(left.rows - pairs, left.rows * 0.1),
        JoinKind.LEFT: max(pairs, left.rows),
        JoinKind.RIGHT: max(pairs, right.rows),
        JoinKind.FULL: max(pairs, left.rows + right.rows),
    }.get(kind, pairs)
    columns = left.columns if kind.left_only else both.columns
    found = tuple(c._replace(distinct=min(c.distinct, max(1.0, _left(c.distinct, rows * 2, rows)))) for c in columns)
    share_of_epoch = min(1.0, max(i.epoch / max(i.rows, 1.0) for i in inputs))
    return RowFacts(rows, rows * share_of_epoch, found, both.known)


def _top_n(node: p.TopNExec | p.WindowTopNExec, inputs: Sequence[RowFacts]) -> RowFacts:
    (given,) = inputs
    keys = node.partition if isinstance(node, p.TopNExec) else (*node.partition, node.window[1])
    if node.end is None:
        return given
    rows = min(given.rows, max(1.0, combinations(given, keys)) * (node.end - node.start + 1))
    return _filtered(given, rows / max(given.rows, 1.0))


def _deduplicated(node: p.DeduplicateExec, inputs: Sequence[RowFacts]) -> RowFacts:
    (given,) = inputs
    return _filtered(given, combinations(given, node.keys) / max(given.rows, 1.0))


def _by_key(node: p.ChangelogNormalizeExec | p.SinkMaterializeExec, inputs: Sequence[RowFacts]) -> RowFacts:
    (given,) = inputs
    return _filtered(given, combinations(given, node.keys) / max(given.rows, 1.0))


def _limit(node: p.LimitExec, inputs: Sequence[RowFacts]) -> RowFacts:
    (given,) = inputs
    return given if node.limit is None else _filtered(given, min(1.0, node.limit / max(given.rows, 1.0)))


def _beside(node: PhysicalNode, inputs: Sequence[RowFacts]) -> RowFacts:
    """All rows of the first input with the columns of the second."""
    columns = tuple(c for i in inputs for c in i.columns)
    return inputs[0]._replace(columns=columns, known=all(i.known for i in inputs))


def is_text(type_: DataType) -> bool:
    """Whether values of the type have a length."""
    arrow = type_.arrow
    return not (
        pt.is_primitive(arrow) or pt.is_decimal(arrow) or pt.is_fixed_size_binary(arrow) or pt.is_interval(arrow)
    )


_RULES: dict[type[PhysicalNode], Callable[[Any, Sequence[RowFacts]], RowFacts]] = {
    p.CalcExec: _calc,
    p.UnionExec: _union,
    p.ExpandExec: _times(lambda node: len(node.projections)),
    p.UnnestExec: _times(lambda node: _ELEMENTS),
    p.WindowTableExec: _window_table,
    p.GroupAggregateExec: _group,
    p.WindowAggregateExec: _window_aggregate,
    p.HashJoinExec: _hash_join,
    p.WindowJoinExec: _window_join,
    p.IntervalJoinExec: _interval_join,
    p.TemporalJoinExec: _beside,
    p.TopNExec: _top_n,
    p.WindowTopNExec: _top_n,
    p.DeduplicateExec: _deduplicated,
    p.ChangelogNormalizeExec: _by_key,
    p.SinkMaterializeExec: _by_key,
    p.LimitExec: _limit,
}
__all__ += ["is_text"]
