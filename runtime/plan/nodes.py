"""The physical plan: how a query runs. Data only: positional expressions, chosen algorithms, output schema and
changelog mode.

Every node knows its `inputs`, the `schema` of its output and the `mode` (row kinds) it emits. Expressions refer to the
input's columns with `InputRef`; two-input nodes refer to left columns first, then right columns. Two equal subtrees of
a plan are one shared operator.
Times are milliseconds since the epoch; lengths of time are milliseconds.
"""

from __future__ import annotations

from dataclasses import field

from runtime.core.changelog import ChangelogMode
from runtime.core.node import node
from runtime.core.schema import Schema
from runtime.expr.nodes import Expr, Frame
from runtime.plan.base import PhysicalNode
from runtime.plan.parts import AggregateSpec, Alignment, JoinKind, RankFunction, SortSpec, WindowProperty
from runtime.plan.window_nodes import WindowAggregateExec, WindowJoinExec, WindowTableExec, WindowTopNExec
from runtime.spi.lookup import LookupTable
from runtime.spi.sink import SinkTable
from runtime.spi.source import SourceTable

__all__ = [
    "AggregateSpec",
    "CalcExec",
    "ChangelogNormalizeExec",
    "DeduplicateExec",
    "DropUpdateBeforeExec",
    "ExpandExec",
    "FinalRowsExec",
    "GroupAggregateExec",
    "HashJoinExec",
    "IntervalJoinExec",
    "JoinKind",
    "LimitExec",
    "LookupJoinExec",
    "OverAggregateExec",
    "PhysicalNode",
    "RankFunction",
    "SetOperationExec",
    "SinkExec",
    "SinkMaterializeExec",
    "SortExec",
    "SortSpec",
    "SourceExec",
    "TemporalJoinExec",
    "TopNExec",
    "UnionExec",
    "UnnestExec",
    "ValuesExec",
    "WatermarkExec",
    "WindowAggregateExec",
    "WindowJoinExec",
    "WindowProperty",
    "WindowTableExec",
    "WindowTopNExec",
]


@node
class SourceExec(PhysicalNode):
    """Read a table. What was pushed down is inside `table`; `schema` is the schema of the rows that it gives.

    `idle_timeout`: milliseconds without rows after which a split no longer holds back the watermark; 0 never.
    `alignment`: with which other sources it keeps together. `splits_in_order`: its splits are in order of time, so that
    one which is not begun does not hold back the watermark.
    """

    table: SourceTable = field(compare=True)
    name: str
    schema: Schema
    mode: ChangelogMode
    idle_timeout: int = 0
    alignment: Alignment | None = None
    splits_in_order: bool = False


@node
class ValuesExec(PhysicalNode):
    """Constant rows, all in the first epoch. `rows` hold constant expressions."""

    rows: tuple[tuple[Expr, ...], ...]
    schema: Schema
    mode: ChangelogMode


@node
class CalcExec(PhysicalNode):
    """Filter, then project; row kinds pass unchanged. `condition` None passes all. An update of which only one half
    passes stays a half."""

    input: PhysicalNode
    condition: Expr | None
    projections: tuple[Expr, ...]
    schema: Schema
    mode: ChangelogMode


@node
class WatermarkExec(PhysicalNode):
    """Compute the watermark: `expr` per row (a timestamp), the greatest so far. Rows pass unchanged.

    `null_handling`: `FAIL`, `DROP` or `SKIP_WATERMARK` for rows whose `rowtime` is NULL (option
    table.exec.source.rowtime-null-handling).
    """

    input: PhysicalNode
    rowtime: int
    expr: Expr
    schema: Schema
    mode: ChangelogMode
    null_handling: str = "FAIL"


@node
class UnionExec(PhysicalNode):
    """All rows of all inputs; column types are equal."""

    parts: tuple[PhysicalNode, ...]
    schema: Schema
    mode: ChangelogMode


@node
class ExpandExec(PhysicalNode):
    """Each row once per projection list (grouping sets)."""

    input: PhysicalNode
    projections: tuple[tuple[Expr, ...], ...]
    schema: Schema
    mode: ChangelogMode


@node
class GroupAggregateExec(PhysicalNode):
    """Unwindowed aggregation: key columns, then one column per call. No keys: one global group, which appears with its
    first row.

    `mode.update_before` says whether old images are sent. With `retract` inputs a group whose last row is taken back
    gives `-D`.
    `ttl`: idle milliseconds after which a group is forgotten; 0 never.
    """

    input: PhysicalNode
    keys: tuple[int, ...]
    calls: tuple[AggregateSpec, ...]
    schema: Schema
    mode: ChangelogMode
    ttl: int = 0


@node
class HashJoinExec(PhysicalNode):
    """Regular join: both inputs kept as long as they live. Keys are compared pairwise with `=`, or null-safe where
    `null_safe` is true; `condition` (over left then right columns) must hold besides. No keys: every pair is a
    candidate.

    `left_unique`, `right_unique`: positions of a unique key of that input, None when rows may repeat.
    """

    left: PhysicalNode
    right: PhysicalNode
    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    null_safe: tuple[bool, ...]
    condition: Expr | None
    left_unique: tuple[int, ...] | None
    right_unique: tuple[int, ...] | None
    schema: Schema
    mode: ChangelogMode
    left_ttl: int = 0
    right_ttl: int = 0


@node
class IntervalJoinExec(PhysicalNode):
    """Join rows whose times lie close: lower <= left time - right time <= upper (milliseconds), keys equal, `condition`
    true.

    Append-only inputs; unmatched rows of the kept side come out when no match can come any more. Rows are dropped when
    the other side's watermark passes their bound. `proctime`: the times are the clock's.
    """

    left: PhysicalNode
    right: PhysicalNode
    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_time: int
    right_time: int
    lower: int
    upper: int
    condition: Expr | None
    schema: Schema
    mode: ChangelogMode
    proctime: bool = False


@node
class TemporalJoinExec(PhysicalNode):
    """Event-time temporal join: each left row with the newest right version of its key at the left row's time (INNER or
    LEFT).

    The right input is versioned: an upsert or retract changelog with `right_keys` as its key and `right_time` as its
    event time. A version that is a delete matches nothing. Left rows wait for the watermark of both sides; late left
    rows are rejected. `ttl`: milliseconds after which a key that no row of either side has come for is forgotten; 0
    never.
    """

    left: PhysicalNode
    right: PhysicalNode
    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_time: int
    right_time: int
    condition: Expr | None
    schema: Schema
    mode: ChangelogMode
    ttl: int = 0


@node
class LookupJoinExec(PhysicalNode):
    """Join each row with the rows that an outside table holds now. INNER or LEFT.

    `keys`: (expression over the left columns or a constant, position of the column of the looked-up table). Output:
    left columns, then the table's columns; `condition` over both must hold. `ttl`: milliseconds after which the answer
    of a row of an updating input is forgotten; 0 never.
    """

    input: PhysicalNode
    table: LookupTable = field(compare=True)
    name: str
    kind: JoinKind
    keys: tuple[tuple[Expr, int], ...]
    condition: Expr | None
    schema: Schema
    mode: ChangelogMode
    ttl: int = 0


@node
class TopNExec(PhysicalNode):
    """The rows of each partition whose rank is within [start, end] (1-based, inclusive; `end` None has no bound). No
    partition columns: one global partition (ORDER BY ... LIMIT). Ties rank by arrival.

    With `rank_column` the rank is appended as a BIGINT column. `unique`: positions of a unique key of the input, None
    when rows may repeat.
    """

    input: PhysicalNode
    function: RankFunction
    partition: tuple[int, ...]
    order: tuple[SortSpec, ...]
    start: int
    end: int | None
    rank_column: bool
    unique: tuple[int, ...] | None
    schema: Schema
    mode: ChangelogMode
    ttl: int = 0


@node
class DeduplicateExec(PhysicalNode):
    """One row per key: the first or the last by event time (`time` is its position), or by arrival (`time` None)."""

    input: PhysicalNode
    keys: tuple[int, ...]
    time: int | None
    keep_last: bool
    schema: Schema
    mode: ChangelogMode
    ttl: int = 0


@node
class OverAggregateExec(PhysicalNode):
    """Aggregates and window functions with OVER: input columns, then one column per call.

    `rowtime`: the order column is event time: append-only, rows come out in time order when the watermark passes them,
    late ones are rejected.
    `proctime`: arrival order, at once. Neither: any order columns, updating: rows whose value changes are sent again.
    `calls` use AggregateSpec; `function` may also be ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, NTILE, PERCENT_RANK,
    CUME_DIST, FIRST_VALUE, LAST_VALUE.
    """

    input: PhysicalNode
    partition: tuple[int, ...]
    order: tuple[SortSpec, ...]
    frame: Frame | None
    calls: tuple[AggregateSpec, ...]
    rowtime: bool
    proctime: bool
    schema: Schema
    mode: ChangelogMode
    ttl: int = 0


@node
class SortExec(PhysicalNode):
    """ORDER BY an ascending event-time column first: rows come out in order when the watermark passes them.
    Append-only."""

    input: PhysicalNode
    order: tuple[SortSpec, ...]
    schema: Schema
    mode: ChangelogMode


@node
class LimitExec(PhysicalNode):
    """OFFSET and LIMIT without ORDER BY: the first rows to arrive; when one of them is taken back another takes its
    place. `ttl`: idle milliseconds after which rows kept for that are forgotten; 0 never."""

    input: PhysicalNode
    offset: int
    limit: int | None
    schema: Schema
    mode: ChangelogMode
    ttl: int = 0


@node
class SetOperationExec(PhysicalNode):
    """INTERSECT and EXCEPT, with and without ALL: rows compared with NULL equal to NULL. `kind` is `INTERSECT` or
    `EXCEPT`.

    Multiplicities: INTERSECT ALL min(l, r), EXCEPT ALL max(l - r, 0); without ALL the same of min(l, 1), and EXCEPT
    gives 1 where l > 0 and r = 0. `ttl`: idle milliseconds after which a row is forgotten; 0 never.
    """

    left: PhysicalNode
    right: PhysicalNode
    kind: str
    all: bool
    schema: Schema
    mode: ChangelogMode
    ttl: int = 0


@node
class UnnestExec(PhysicalNode):
    """A row per element of the collection: input columns, then the element's columns (array: 1, or the fields of a row
    element; map: 2), then the 1-based ordinal when `ordinality`. `outer`: rows with a NULL or empty collection come out
    once, padded with NULL."""

    input: PhysicalNode
    collection: Expr
    ordinality: bool
    outer: bool
    schema: Schema
    mode: ChangelogMode


@node
class ChangelogNormalizeExec(PhysicalNode):
    """Turn an upsert stream by key (deletes may carry only the key) into full images; `mode` says whether `-U` is
    sent."""

    input: PhysicalNode
    keys: tuple[int, ...]
    schema: Schema
    mode: ChangelogMode
    ttl: int = 0


@node
class FinalRowsExec(PhysicalNode):
    """The rows that are there when the input has ended, as insertions: a changelog as a batch query reads it.

    `keys`: positions of the unique key by which changes are told, None where they carry whole rows.
    """

    input: PhysicalNode
    keys: tuple[int, ...] | None
    schema: Schema
    mode: ChangelogMode


@node
class DropUpdateBeforeExec(PhysicalNode):
    """Pass all but `-U`: nobody downstream needs old images.

    With `keys` (positions of a key that downstream goes by, at most one live row each) the changes of an epoch become
    after-images by that key: a key that has lost its row and got none gets `-D`, one with a new row gets that alone.
    """

    input: PhysicalNode
    schema: Schema
    mode: ChangelogMode
    keys: tuple[int, ...] | None = None


@node
class SinkMaterializeExec(PhysicalNode):
    """Per sink key one row of those that share it: repairs streams whose upsert key is not the sink's key.

    `on_conflict`: `DEDUPLICATE` keeps all live rows in order of arrival and shows the last, `NOTHING` keeps the one that
    came first, `ERROR` fails. `unique`: what tells the rows of the input apart, the whole row when None. `waits`:
    changes are held back until the watermark moves.
    """

    input: PhysicalNode
    keys: tuple[int, ...]
    schema: Schema
    mode: ChangelogMode
    ttl: int = 0
    on_conflict: str = "DEDUPLICATE"
    unique: tuple[int, ...] | None = None
    waits: bool = False


@node
class SinkExec(PhysicalNode):
    """Write to a table. `columns`: target columns by position of the input (already in the table's order and types).

    `not_null`: positions that must not be NULL; `not_null_enforcer` is `ERROR` or `DROP` (dropped rows are rejected,
    not lost).
    """

    input: PhysicalNode
    table: SinkTable = field(compare=True)
    name: str
    not_null: tuple[int, ...]
    not_null_enforcer: str
    schema: Schema
    mode: ChangelogMode
