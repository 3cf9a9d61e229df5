"""Table functions over whole tables: FROM_CHANGELOG, TO_CHANGELOG, VECTOR_SEARCH, and process functions of users."""

from __future__ import annotations

from dataclasses import field

from planner.logical.base import Binary, LogicalNode, Several, Unary, joined_columns, with_nullable_columns
from runtime.core.errors import Span
from runtime.core.node import node
from runtime.expr.nodes import Column, ColumnRef, Expr, Literal, SortKey
from runtime.plan.parts import JoinKind, VectorIndexSpec

__all__ = ["FromChangelog", "ProcessTables", "ToChangelog", "VectorSearch"]


@node
class FromChangelog(Unary):
    """Each row of the input is a change, of the kind that its column `op` says: the input's columns without `op`.

    `codes`: values of `op` with the row kind that each means. Rows of other values fail, or are rejected when `skip`;
    NULL fails.
    """

    input: LogicalNode
    op: ColumnRef
    codes: tuple[tuple[str, int], ...]
    skip: bool = False
    span: Span | None = field(default=None, compare=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(c for c in self.input.columns if c.id != self.op.id)


@node
class ToChangelog(Unary):
    """Each change of the input is a row: the column `op` with the code of its kind, then the input's columns.

    `codes`: row kinds with their codes; changes of other kinds are left out.
    """

    input: LogicalNode
    op: Column
    codes: tuple[tuple[int, str], ...]
    span: Span | None = field(default=None, compare=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (self.op, *self.input.columns)


@node
class ProcessTables(Several):
    """The rows that a process function of a user makes of the rows of its tables.

    Args:
        function: its name.
        keys: for each table the columns of PARTITION BY.
        times: for each table the column that `on_time` names, if it is given.
        names: those of the columns of each table, as the function sees them.
        arguments: those that are no tables, by parameter.
        produced: the keys of all tables (or all columns of the table that is passed through), the function's, and the time
            of the row when `on_time` is given.
        order: for each table how its rows are ordered, by its time first; empty: they come as they arrive.
        each: each row is seen by itself.
        passes: the function passes the columns of its table on.
        takes_updates: for each table whether its rows may be changes of all kinds.
        updates: whether that is so of the function's rows.
    """

    parts: tuple[LogicalNode, ...]
    function: str
    keys: tuple[tuple[ColumnRef, ...], ...]
    times: tuple[ColumnRef, ...]
    names: tuple[tuple[str, ...], ...]
    arguments: tuple[tuple[str, Literal], ...]
    produced: tuple[Column, ...]
    order: tuple[tuple[SortKey, ...], ...] = ()
    each: bool = False
    passes: bool = False
    takes_updates: tuple[bool, ...] = ()
    updates: bool = False
    span: Span | None = field(default=None, compare=False)


@node
class VectorSearch(Binary):
    """Each left row with those rows of the right side whose vectors are nearest to its own. INNER or LEFT.

    Args:
        query: the vector of a left row.
        column: the vectors of the right side.
        top_k: how many rows are found for each.
        index: how they are found, and what near is.
        score: how near each of them is.
    """

    left: LogicalNode
    right: LogicalNode
    kind: JoinKind
    query: Expr
    column: ColumnRef
    top_k: int
    index: VectorIndexSpec
    score: Column
    span: Span | None = field(default=None, compare=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        score = with_nullable_columns((self.score,)) if self.kind.keeps_left else (self.score,)
        return joined_columns(self.kind, self.left.columns, self.right.columns) + score
