"""What a plan costs: rows, changes and state, estimated from statistics and from its form.

In a stream the lasting costs are the rows kept in state and the changes that flow; rows of the final answer come third.
Where a table's size is not known it counts as 10,000 rows with as many values in a key column; the estimate is then
good for comparing forms, not sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from typing import NamedTuple

from planner.cost.column_facts import known_of, statistics_of
from planner.logical import nodes as n
from planner.logical.nodes import LogicalNode
from planner.traits.conditions import EquiPair, split_equalities
from planner.traits.context import TraitContext
from planner.traits.keys import unique_keys
from runtime.expr.nodes import ColumnRef, Expr
from runtime.plan.estimates.distinct import distinct_of
from runtime.plan.estimates.rows import ELEMENTS, combined, rows_of_join, windows_of_a_row
from runtime.plan.estimates.selectivity import Known, selectivity

__all__ = ["DEFAULT_ROWS", "Estimate", "distinct_values", "estimate", "has_statistics", "total_cost"]

DEFAULT_ROWS = 10_000.0


class Estimate(NamedTuple):
    """Estimates for one node.

    rows: live rows at the end of the input. changes: row changes that it sends in all. state: rows that it keeps
    itself.
    """

    rows: float
    changes: float
    state: float


def estimate(plan: LogicalNode, context: TraitContext) -> Estimate:
    """The estimate of one node (its inputs' state not included)."""
    return context.derive(_derive, plan)


def total_cost(plan: LogicalNode, context: TraitContext) -> float:
    """State rows and changes of the whole plan, the measure by which plans are compared."""
    own = estimate(plan, context)
    return own.state + own.changes + sum(total_cost(source, context) for source in plan.inputs)


def has_statistics(plan: LogicalNode, context: TraitContext) -> bool:
    """Whether the size of every table in the plan is known."""
    if isinstance(plan, n.Scan):
        return plan.table is not None and statistics_of(plan).rows is not None
    if isinstance(plan, n.Shared):
        return has_statistics(plan.plan, context)
    return all(has_statistics(source, context) for source in plan.inputs)


def distinct_values(plan: LogicalNode, column: int, context: TraitContext) -> float:
    """How many values a column has among the plan's rows, at least one."""
    rows = max(estimate(plan, context).rows, 1.0)
    if any(key == frozenset((column,)) for key in unique_keys(plan, context)):
        return rows
    return max(1.0, min(rows, _distinct(plan, column, context)))


def _distinct(plan: LogicalNode, column: int, context: TraitContext) -> float:
    match plan:
        case n.Scan(table=table, scanned=scanned):
            found = next((c for c in scanned if c.id == column), None)
            if table is None or found is None:
                return DEFAULT_ROWS
            return distinct_of(statistics_of(plan).column(found.name), found.type, estimate(plan, context).rows)
        case n.Shared(plan=inner, produced=produced):
            ids = [c.id for c in produced]
            return distinct_values(inner, inner.columns[ids.index(column)].id, context)
        case n.Project(items=items):
            for produced, expr in items:
                if produced.id == column:
                    return _distinct_expr(plan.input, expr, context)
            return DEFAULT_ROWS
        case _:
            for source in plan.inputs:
                if any(c.id == column for c in source.columns):
                    return distinct_values(source, column, context)
            return estimate(plan, context).rows / 10


def _distinct_expr(source: LogicalNode, expr: Expr, context: TraitContext) -> float:
    if isinstance(expr, ColumnRef):
        return distinct_values(source, expr.id, context)
    return estimate(source, context).rows / 10


def _groups(plan: LogicalNode, columns: Iterable[int], context: TraitContext) -> float:
    """How many combinations of values the columns have."""
    rows = max(estimate(plan, context).rows, 1.0)
    return combined([distinct_values(plan, column, context) for column in set(columns)], rows)


def _derive(plan: LogicalNode, context: TraitContext) -> Estimate:
    return _estimate(plan, context)


def _input(plan: n.Unary, context: TraitContext) -> Estimate:
    return estimate(plan.input, context)


@singledispatch
def _estimate(plan: LogicalNode, context: TraitContext) -> Estimate:
    sources = [estimate(source, context) for source in plan.inputs]
    return Estimate(sum(s.rows for s in sources), sum(s.changes for s in sources), 0.0)


@_estimate.register
def _(plan: n.Scan, context: TraitContext) -> Estimate:
    rows = statistics_of(plan).rows
    known = DEFAULT_ROWS if rows is None else rows
    return Estimate(known, known, 0.0)


@_estimate.register
def _(plan: n.Shared, context: TraitContext) -> Estimate:
    # What is kept inside is kept once for all places.
    return estimate(plan.plan, context)._replace(state=0.0)


@_estimate.register
def _(plan: n.LastRound, context: TraitContext) -> Estimate:
    return Estimate(DEFAULT_ROWS, DEFAULT_ROWS, 0.0)


@_estimate.register
def _(plan: n.Values, context: TraitContext) -> Estimate:
    return Estimate(len(plan.rows), len(plan.rows), 0.0)


@_estimate.register
def _(plan: n.Filter, context: TraitContext) -> Estimate:
    given = _input(plan, context)
    share = selectivity(
        plan.predicate, lambda column: distinct_values(plan.input, column, context), lambda c: known_of(plan.input, c)
    )
    return Estimate(given.rows * share, given.changes * share, 0.0)


@_estimate.register
def _(plan: n.Aggregate, context: TraitContext) -> Estimate:
    given = _input(plan, context)
    groups = _groups(plan.input, (g.id for g in plan.group), context) if plan.group else 1.0
    # A change of a group sends its old and its new row; a change of an epoch counts once for a group, so this is an
    # upper bound.
    return Estimate(groups, 2 * given.changes, groups)


@_estimate.register
def _(plan: n.Remember, context: TraitContext) -> Estimate:
    given = _input(plan, context)
    return Estimate(given.rows, given.changes, given.rows)


@_estimate.register
def _(plan: n.Expand, context: TraitContext) -> Estimate:
    given = _input(plan, context)
    times = len(plan.projections)
    return Estimate(given.rows * times, given.changes * times, 0.0)


@_estimate.register
def _(plan: n.ProcessTables, context: TraitContext) -> Estimate:
    given = [estimate(part, context) for part in plan.parts]
    rows, changes = sum(g.rows for g in given), sum(g.changes for g in given)
    return Estimate(rows, changes, 0.0 if plan.each else rows)


@_estimate.register
def _(plan: n.FromChangelog, context: TraitContext) -> Estimate:
    given = _input(plan, context)
    return Estimate(given.rows, given.changes, 0.0)


@_estimate.register
def _(plan: n.ToChangelog, context: TraitContext) -> Estimate:
    given = _input(plan, context)
    return Estimate(given.changes, given.changes, 0.0)


@_estimate.register
def _(plan: n.WindowTable, context: TraitContext) -> Estimate:
    given = _input(plan, context)
    times = windows_of_a_row(plan.window)
    return Estimate(given.rows * times, given.changes * times, 0.0)


@_estimate.register
def _(plan: n.WindowAggregate, context: TraitContext) -> Estimate:
    given = _input(plan, context)
    groups = _groups(plan.input, (g.id for g in plan.group), context) if plan.group else 1.0
    rows = min(max(given.rows, 1.0), groups * 10)
    return Estimate(rows, rows, groups)


@_estimate.register
def _(plan: n.Join, context: TraitContext) -> Estimate:
    left, right = estimate(plan.left, context), estimate(plan.right, context)
    rows = join_rows(plan, context)
    # Each change of one side meets its matches on the other.
    changes = left.changes * _ratio(rows, left.rows) + right.changes * _ratio(rows, right.rows)
    return Estimate(rows, changes / 2, left.rows + right.rows)


def join_rows(plan: n.Join | n.WindowJoin | n.IntervalJoin, context: TraitContext) -> float:
    """Rows of a join: pairs by key, |L| |R| / max of the distinct values of the keys, times the other conditions'
    share."""
    left, right = estimate(plan.left, context), estimate(plan.right, context)
    pairs, rest = split_equalities(plan.condition, plan.left, plan.right)
    rows = left.rows * right.rows / _keys_values(plan, pairs, context)
    for part in rest:
        rows *= selectivity(part, lambda column: 10.0, lambda column: Known())
    return rows_of_join(plan.kind, rows, left.rows, right.rows)


def _keys_values(
    plan: n.Join | n.WindowJoin | n.IntervalJoin, pairs: Sequence[EquiPair], context: TraitContext
) -> float:
    """How many values the keys of a join have together. Columns of one table that are compared with columns of one other
    have no more than the smaller of the two has rows: they are the parts of a key."""
    product = 1.0
    together: dict[tuple[int, ...], tuple[float, float, float]] = {}
    for pair in pairs:
        ends = [(s, e.id) for s, e in ((plan.left, pair.left), (plan.right, pair.right)) if isinstance(e, ColumnRef)]
        values = max(_key_values(ends, context), 1.0) if ends else 10.0
        tables = [table for table in (_table_of(*end) for end in ends) if table is not None]
        if len(tables) < 2:
            product *= values
            continue
        most = min(estimate(table, context).rows for table in tables)
        before, largest, _ = together.get(key := tuple(map(id, tables)), (1.0, 1.0, most))
        together[key] = before * values, max(largest, values), most
    for values, largest, most in together.values():
        product *= min(values, max(largest, most))
    return product


def _key_values(ends: Sequence[tuple[LogicalNode, int]], context: TraitContext) -> float:
    """How many values the columns have that a join compares: the most of both sides, of a key all those of its table, and
    of a column whose values were guessed no more than the other side's table has rows, since others match nothing."""
    tables = [_table_of(side, column) for side, column in ends]
    found: list[float] = []
    for number, ((side, column), table) in enumerate(zip(ends, tables, strict=True)):
        values = distinct_values(side, column, context)
        if table is not None:
            rows = estimate(table, context).rows
            if any(key == frozenset((column,)) for key in unique_keys(table, context)):
                values = max(values, rows)
            elif _stated(table, column) is None:
                others = [estimate(t, context).rows for t in (*tables[:number], *tables[number + 1 :]) if t is not None]
                values = min([values, *others])
        found.append(values)
    return max(found)


def _table_of(plan: LogicalNode, column: int) -> n.Scan | None:
    """The table of known size that a column comes from, through filters, projections and joins."""
    match plan:
        case n.Scan(table=table):
            return plan if table is not None and statistics_of(plan).rows is not None else None
        case n.Filter() | n.Join():
            source = next((s for s in plan.inputs if any(c.id == column for c in s.columns)), None)
            return None if source is None else _table_of(source, column)
        case n.Project(items=items) if (column, column) in ((p.id, getattr(e, "id", None)) for p, e in items):
            return _table_of(plan.input, column)
        case _:
            return None


def _stated(table: n.Scan, column: int) -> float | None:
    name = next((c.name for c in table.scanned if c.id == column), None)
    return None if name is None else statistics_of(table).column(name).distinct


def _ratio(rows: float, of: float) -> float:
    return rows / of if of else 0.0


@_estimate.register
def _(plan: n.MultiJoin, context: TraitContext) -> Estimate:
    given = estimate(n.chain(plan), context)
    return Estimate(given.rows, given.changes, sum(estimate(part, context).rows for part in plan.parts))


@_estimate.register(n.IntervalJoin)
@_estimate.register(n.WindowJoin)
def _(plan: n.IntervalJoin | n.WindowJoin, context: TraitContext) -> Estimate:
    left, right = estimate(plan.left, context), estimate(plan.right, context)
    rows = join_rows(plan, context) * 0.1
    return Estimate(rows, rows, (left.rows + right.rows) * 0.01)


@_estimate.register
def _(plan: n.TemporalJoin, context: TraitContext) -> Estimate:
    left, right = estimate(plan.left, context), estimate(plan.right, context)
    return Estimate(left.rows, left.changes, left.rows * 0.01 + right.rows)


@_estimate.register
def _(plan: n.AsofJoin, context: TraitContext) -> Estimate:
    left, right = estimate(plan.left, context), estimate(plan.right, context)
    return Estimate(left.rows, left.changes + right.changes, left.rows + right.rows)


@_estimate.register
def _(plan: n.CurrentJoin, context: TraitContext) -> Estimate:
    left, right = estimate(plan.left, context), estimate(plan.right, context)
    return Estimate(left.rows, left.changes, right.rows)


@_estimate.register
def _(plan: n.VectorSearch, context: TraitContext) -> Estimate:
    left, right = estimate(plan.left, context), estimate(plan.right, context)
    return Estimate(left.rows * plan.top_k, left.changes * plan.top_k, right.rows)


@_estimate.register
def _(plan: n.LookupJoin, context: TraitContext) -> Estimate:
    return _input(plan, context)


@_estimate.register(n.TopN)
@_estimate.register(n.WindowTopN)
def _(plan: n.TopN | n.WindowTopN, context: TraitContext) -> Estimate:
    given = _input(plan, context)
    groups = _groups(plan.input, (p.id for p in plan.partition), context) if plan.partition else 1.0
    rows = given.rows if plan.end is None else min(given.rows, groups * plan.end)
    return Estimate(rows, min(given.changes * 2, given.changes + rows), rows)


@_estimate.register
def _(plan: n.Deduplicate, context: TraitContext) -> Estimate:
    given = _input(plan, context)
    rows = _groups(plan.input, (k.id for k in plan.keys), context)
    return Estimate(rows, given.changes * 2 if plan.keep_last else rows, rows)


@_estimate.register(n.Sort)
@_estimate.register(n.Limit)
def _(plan: n.Sort | n.Limit, context: TraitContext) -> Estimate:
    given = _input(plan, context)
    rows = given.rows if plan.limit is None else min(given.rows, plan.limit)
    return Estimate(rows, min(given.changes, rows * 2), rows)


@_estimate.register(n.Intersect)
@_estimate.register(n.Except)
def _(plan: n.Intersect | n.Except, context: TraitContext) -> Estimate:
    left, right = estimate(plan.left, context), estimate(plan.right, context)
    rows = min(left.rows, right.rows) if isinstance(plan, n.Intersect) else left.rows
    return Estimate(rows, left.changes + right.changes, left.rows + right.rows)


@_estimate.register
def _(plan: n.Unnest, context: TraitContext) -> Estimate:
    given = _input(plan, context)
    return Estimate(given.rows * ELEMENTS, given.changes * ELEMENTS, 0.0)
