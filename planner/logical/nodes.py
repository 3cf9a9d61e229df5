"""The logical plan: what a query asks, without how. Frozen nodes, columns by unique id.

Every node knows its `columns` (ids, names, types) and `inputs`; `with_inputs` rebuilds it on other inputs that give the
same ids.
The binder makes the nodes of the first part. The nodes of the second part are streaming forms: rules make them from the
first, they are never flags on a general node. Expressions refer to the columns of the node's inputs by `ColumnRef`.
"""

from __future__ import annotations

from dataclasses import field

from planner.logical.base import Binary, LogicalNode, Several, Unary, joined_columns, with_nullable_columns
from planner.logical.function_nodes import FromChangelog, ProcessTables, ToChangelog, VectorSearch
from planner.logical.join_nodes import (
    AsofJoin,
    CurrentJoin,
    IntervalJoin,
    LookupJoin,
    MultiJoin,
    TemporalJoin,
    WindowJoin,
)
from planner.logical.match import Match
from planner.logical.recursive import LastRound, Recursive
from runtime.core.errors import Span
from runtime.core.node import node
from runtime.core.types import BOOLEAN, DataType
from runtime.expr.nodes import AggregateCall, Call, Column, ColumnRef, Expr, SortKey, WindowCall
from runtime.expr.rewrite import conjunction
from runtime.plan.nodes import JoinKind, RankFunction, WindowProperty
from runtime.plan.parts import Alignment
from runtime.plan.windows import WindowEmit, WindowSpec
from runtime.spi.lookup import LookupTable
from runtime.spi.sink import SinkTable
from runtime.spi.source import SourceTable
from runtime.spi.statistics import TableStatistics

__all__ = [
    "Aggregate",
    "AsofJoin",
    "AssignWatermark",
    "CurrentJoin",
    "Deduplicate",
    "DependentJoin",
    "Except",
    "Expand",
    "Filter",
    "Intersect",
    "IntervalJoin",
    "Join",
    "JoinKind",
    "LastRound",
    "Limit",
    "LogicalNode",
    "LookupJoin",
    "Match",
    "MultiJoin",
    "Over",
    "Project",
    "RankFunction",
    "Recursive",
    "Remember",
    "Scan",
    "Shared",
    "Sink",
    "Sort",
    "TemporalJoin",
    "TopN",
    "Union",
    "Unnest",
    "Values",
    "WindowAggregate",
    "WindowJoin",
    "WindowProperty",
    "WindowTable",
    "WindowTopN",
    "chain",
    "with_nullable_columns",
]


# --- made by the binder
# -------------------------------------------------------------------------------------------------


@node
class Scan(LogicalNode):
    """Read a table. `scanned` are fresh columns, one per field of `table.schema`, in order.

    `keys`: unique keys of the table (declared PRIMARY KEY first), as column ids. `lookup` is the same table as a lookup
    table when its connector can be asked by key, else None; a table that can only be looked up has `table` None.
    `measured`: what ANALYZE TABLE found. `idle_timeout`, `alignment`, `splits_in_order` and `rate_limit` are those of `SourceExec`.
    `known_keys`: further upsert keys, of a kept answer, that follow from its query. Its changes are not in the order of such
    a key.
    """

    table: SourceTable | None
    name: str
    scanned: tuple[Column, ...]
    keys: tuple[tuple[int, ...], ...] = ()
    lookup: LookupTable | None = None
    idle_timeout: int = 0
    alignment: Alignment | None = None
    splits_in_order: bool = False
    rate_limit: int = 0
    span: Span | None = field(default=None, compare=False)
    measured: TableStatistics | None = field(default=None, compare=False)
    known_keys: tuple[tuple[int, ...], ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.scanned

    @property
    def known_names(self) -> tuple[tuple[str, ...], ...]:
        """The `known_keys` by the names of columns."""
        names = {column.id: column.name for column in self.scanned}
        return tuple(tuple(names[column] for column in key) for key in self.known_keys)


@node
class Shared(LogicalNode):
    """A query that stands in several places, as a leaf: rules see its columns (`produced`, fresh in each place), not what
    is inside. `plan` is optimized and run once, whatever the number of places; `name` is what the text calls it."""

    produced: tuple[Column, ...]
    plan: LogicalNode
    name: str = field(default="", compare=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.produced


@node
class Values(LogicalNode):
    """Constant rows; expressions without columns. `SELECT 1` is a projection over one row of no columns."""

    rows: tuple[tuple[Expr, ...], ...]
    produced: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.produced


@node
class Project(Unary):
    """Compute columns. A column that is passed through keeps its id: its item is (column, its own ref)."""

    input: LogicalNode
    items: tuple[tuple[Column, Expr], ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(c for c, _ in self.items)


@node
class Filter(Unary):
    """Keep the rows for which the predicate is true (not unknown)."""

    input: LogicalNode
    predicate: Expr


@node
class Join(Binary):
    """Regular join. `condition` is over the columns of both sides; `TRUE` when there is none. SEMI and ANTI give left
    columns."""

    left: LogicalNode
    right: LogicalNode
    kind: JoinKind
    condition: Expr
    hints: tuple[tuple[str, str], ...] = field(default=())

    @property
    def columns(self) -> tuple[Column, ...]:
        return joined_columns(self.kind, self.left.columns, self.right.columns)


@node
class DependentJoin(Binary):
    """For each left row, the rows of `right` evaluated with it: LATERAL and correlated subqueries. `right` refers to
    left columns by `OuterRef`.

    Rules remove it. Kinds: INNER, LEFT, SEMI, ANTI.
    """

    left: LogicalNode
    right: LogicalNode
    kind: JoinKind
    condition: Expr

    @property
    def columns(self) -> tuple[Column, ...]:
        return joined_columns(self.kind, self.left.columns, self.right.columns)


@node
class Aggregate(Unary):
    """GROUP BY `group` (columns of the input). Output: the group columns under the same ids, then one column per call.

    No group columns and `scalar` false: streaming's global aggregate, which has no row before the first input row.
    `scalar` true: exactly one row even over no rows (a scalar subquery asks for that). `ttl`: from a STATE_TTL hint,
    milliseconds.
    """

    input: LogicalNode
    group: tuple[ColumnRef, ...]
    calls: tuple[tuple[Column, AggregateCall], ...]
    scalar: bool = False
    ttl: int | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        by_id = {c.id: c for c in self.input.columns}
        return tuple(by_id[g.id] for g in self.group) + tuple(c for c, _ in self.calls)


@node
class Expand(Unary):
    """Each row once per projection list (grouping sets); `produced` names the columns of every list."""

    input: LogicalNode
    projections: tuple[tuple[Expr, ...], ...]
    produced: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.produced


@node
class WindowTable(Unary):
    """TUMBLE, HOP, CUMULATE or SESSION as a table function: the input's columns (rows pass at once, so its time
    attribute stays one), then start, end and time of a window; a row per window. `partition` belongs to SESSION, `emit`
    to a window in GROUP BY."""

    input: LogicalNode
    window: WindowSpec
    time: ColumnRef
    partition: tuple[ColumnRef, ...]
    start: Column
    end: Column
    window_time: Column
    span: Span | None = field(default=None, compare=False)
    emit: WindowEmit | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.input.columns, self.start, self.end, self.window_time)


@node
class Over(Unary):
    """Window functions over the same or different OVER windows: input columns, then one column per call. Partition and
    order expressions and arguments are columns of the input. `ttl`: from a STATE_TTL hint, milliseconds."""

    input: LogicalNode
    calls: tuple[tuple[Column, WindowCall], ...]
    ttl: int | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns + tuple(c for c, _ in self.calls)


@node
class Sort(Unary):
    """ORDER BY. Keys are columns of the input. `limit` and `offset` belong to it when they stand in the same query."""

    input: LogicalNode
    keys: tuple[SortKey, ...]
    offset: int = 0
    limit: int | None = None
    span: Span | None = field(default=None, compare=False)


@node
class Limit(Unary):
    """LIMIT and OFFSET without ORDER BY."""

    input: LogicalNode
    offset: int
    limit: int | None


@node
class Union(Several):
    """UNION ALL of any number of inputs: output column i is column i of every part, which all have its type (UNION
    without ALL is an Aggregate over it)."""

    parts: tuple[LogicalNode, ...]
    produced: tuple[Column, ...]


@node
class Intersect(Binary):
    """INTERSECT [ALL]: columns compared by position, NULL equal to NULL."""

    left: LogicalNode
    right: LogicalNode
    all: bool
    produced: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.produced


@node
class Except(Binary):
    """EXCEPT [ALL]."""

    left: LogicalNode
    right: LogicalNode
    all: bool
    produced: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.produced


@node
class Unnest(Unary):
    """A row per element of `collection` (over the input's columns): input columns, then `produced` (elements, then the
    ordinality column)."""

    input: LogicalNode
    collection: Expr
    produced: tuple[Column, ...]
    ordinality: bool
    outer: bool

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns + (with_nullable_columns(self.produced) if self.outer else self.produced)


@node
class AssignWatermark(Unary):
    """The watermark of the input is the greatest `expr` so far; `time` becomes (stays) its rowtime column."""

    input: LogicalNode
    time: ColumnRef
    expr: Expr


@node
class Sink(Unary):
    """Write the input to a table: input columns in the table's order and types. `on_conflict`: `ERROR`, `NOTHING`,
    `DEDUPLICATE` or None. `span`: where the table is named."""

    input: LogicalNode
    table: SinkTable = field(compare=True)
    name: str
    overwrite: bool = False
    on_conflict: str | None = None
    span: Span | None = field(default=None, compare=False)


# --- streaming forms, made by rules
# --------------------------------------------------------------------------------------


@node
class WindowAggregate(Unary):
    """GROUP BY window columns and `group`: final results, once per window, or with `emit` results that change.
    `window` `AttachedWindow`: the window columns of the input are `start` and `end`; else `time` is the time attribute.
    Output: group columns (same ids), calls, then `properties` (column per window property)."""

    input: LogicalNode
    window: WindowSpec
    time: ColumnRef | None
    start: ColumnRef | None
    end: ColumnRef | None
    group: tuple[ColumnRef, ...]
    calls: tuple[tuple[Column, AggregateCall], ...]
    properties: tuple[tuple[Column, WindowProperty], ...]
    emit: WindowEmit | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        by_id = {c.id: c for c in self.input.columns}
        return (*(by_id[g.id] for g in self.group), *(c for c, _ in self.calls), *(c for c, _ in self.properties))


@node
class Remember(Unary):
    """Input columns, then `values` that would be others if they were computed again: a row is taken back with those that
    it was given. Only over inputs whose rows may be updated or removed."""

    input: LogicalNode
    values: tuple[tuple[Column, Expr], ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns + tuple(c for c, _ in self.values)


@node
class TopN(Unary):
    """Rows whose rank in their partition is in [start, end]. `rank` is the rank's output column, None when nobody reads
    it. `ttl`: from a STATE_TTL hint, milliseconds."""

    input: LogicalNode
    function: RankFunction
    partition: tuple[ColumnRef, ...]
    order: tuple[SortKey, ...]
    start: int
    end: int | None
    rank: Column | None
    ttl: int | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns + ((self.rank,) if self.rank is not None else ())


@node
class Deduplicate(Unary):
    """One row per `keys`: first or last by the time attribute `time`. `ttl`: from a STATE_TTL hint, milliseconds."""

    input: LogicalNode
    keys: tuple[ColumnRef, ...]
    time: ColumnRef
    keep_last: bool
    ttl: int | None = None


@node
class WindowTopN(Unary):
    """Top-n per window (start, end columns) and partition, final at the window's end."""

    input: LogicalNode
    function: RankFunction
    partition: tuple[ColumnRef, ...]
    window: tuple[ColumnRef, ColumnRef]
    order: tuple[SortKey, ...]
    start: int
    end: int
    rank: Column | None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns + ((self.rank,) if self.rank is not None else ())


def data_types(plan: LogicalNode) -> tuple[DataType, ...]:
    """The types of a node's columns."""
    return tuple(c.type for c in plan.columns)


__all__ += ["Binary", "FromChangelog", "ProcessTables", "Several", "ToChangelog", "Unary", "VectorSearch", "data_types"]


def chain(plan: MultiJoin) -> LogicalNode:
    """A join of several tables as the joins of two that it stands for, from left to right: they have its traits."""
    made = plan.parts[0]
    for part, kind, keys in zip(plan.parts[1:], plan.kinds[1:], plan.keys[1:], strict=True):
        equal = [Call("=", (a, b), BOOLEAN) for a, b in zip(plan.keys[0], keys, strict=True)]
        made = Join(made, part, kind, conjunction(equal))
    return made
