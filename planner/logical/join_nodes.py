"""Joins other than the regular one: by time, by window, of several tables on one key, with a table that is looked up."""

from __future__ import annotations

from dataclasses import field

from planner.logical.base import Binary, LogicalNode, Unary, joined_columns, with_nullable_columns
from runtime.core.errors import Span
from runtime.core.node import node
from runtime.expr.nodes import Column, ColumnRef, Expr
from runtime.plan.nodes import JoinKind
from runtime.plan.parts import LookupRequests, LookupRetry, SnapshotLoad
from runtime.spi.lookup import LookupTable

__all__ = ["AsofJoin", "CurrentJoin", "IntervalJoin", "LookupJoin", "MultiJoin", "TemporalJoin", "WindowJoin"]


@node
class TemporalJoin(Binary):
    """`left JOIN right FOR SYSTEM_TIME AS OF time`: each left row with the version of the right row that was valid at
    `time` (a rowtime column of the left side). INNER or LEFT. With a proctime `time` a rule makes it a LookupJoin. With
    `snapshot` each left row meets the right rows of now, and `time` is TRUE. `retry` and `requests` are for a lookup."""

    left: LogicalNode
    right: LogicalNode
    kind: JoinKind
    time: Expr
    condition: Expr
    span: Span | None = field(default=None, compare=False)
    snapshot: SnapshotLoad | None = None
    retry: LookupRetry | None = None
    requests: LookupRequests | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return joined_columns(self.kind, self.left.columns, self.right.columns)


@node
class AsofJoin(Binary):
    """`left ASOF JOIN right ON equal AND left_time comparison right_time`: each left row with the right row whose time is
    nearest. INNER or LEFT. `equal` is a conjunction of equalities of both sides; TRUE when there is none."""

    left: LogicalNode
    right: LogicalNode
    kind: JoinKind
    left_time: Expr
    comparison: str
    right_time: Expr
    equal: Expr
    span: Span | None = field(default=None, compare=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        return joined_columns(self.kind, self.left.columns, self.right.columns)


@node
class IntervalJoin(Binary):
    """Join with lower <= left_time - right_time <= upper (milliseconds); `condition` holds all other conjuncts
    (equalities too)."""

    left: LogicalNode
    right: LogicalNode
    kind: JoinKind
    left_time: ColumnRef
    right_time: ColumnRef
    lower: int
    upper: int
    condition: Expr

    @property
    def columns(self) -> tuple[Column, ...]:
        return joined_columns(self.kind, self.left.columns, self.right.columns)


@node
class MultiJoin(LogicalNode):
    """Regular joins on one common key, of `parts` from left to right: `kinds` of each, the first INNER, others INNER or
    LEFT; `keys` of each, compared with `=` position by position with those of the first."""

    parts: tuple[LogicalNode, ...]
    kinds: tuple[JoinKind, ...]
    keys: tuple[tuple[Expr, ...], ...]

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        return self.parts

    @property
    def columns(self) -> tuple[Column, ...]:
        given = zip(self.kinds, self.parts, strict=True)
        return tuple(
            c for kind, p in given for c in (with_nullable_columns(p.columns) if kind.keeps_left else p.columns)
        )

    def with_inputs(self, *inputs: LogicalNode) -> MultiJoin:
        return self if all(a is b for a, b in zip(inputs, self.parts, strict=True)) else self.with_(parts=inputs)


@node
class WindowJoin(Binary):
    """Join of two windowed inputs on equal windows: (start, end) columns of each side; `condition` holds the other
    conjuncts."""

    left: LogicalNode
    right: LogicalNode
    kind: JoinKind
    left_window: tuple[ColumnRef, ColumnRef]
    right_window: tuple[ColumnRef, ColumnRef]
    condition: Expr

    @property
    def columns(self) -> tuple[Column, ...]:
        return joined_columns(self.kind, self.left.columns, self.right.columns)


@node
class CurrentJoin(Binary):
    """`left JOIN right FOR SYSTEM_TIME AS OF processing time` where `right` cannot be asked by key: each left row with the
    rows that `right` holds when it comes. INNER or LEFT."""

    left: LogicalNode
    right: LogicalNode
    kind: JoinKind
    condition: Expr

    @property
    def columns(self) -> tuple[Column, ...]:
        return joined_columns(self.kind, self.left.columns, self.right.columns)


@node
class LookupJoin(Unary):
    """Join with a table that is asked by key now: `keys` are (expression over the input, field name of the table);
    `produced` its columns. `retry`, `requests`: what the hint LOOKUP says."""

    input: LogicalNode
    table: LookupTable = field(compare=True)
    name: str
    kind: JoinKind
    keys: tuple[tuple[Expr, str], ...]
    produced: tuple[Column, ...]
    condition: Expr
    retry: LookupRetry | None = None
    requests: LookupRequests | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns + (with_nullable_columns(self.produced) if self.kind.keeps_left else self.produced)
