"""Table functions that see changes: FROM_CHANGELOG and TO_CHANGELOG."""

from __future__ import annotations

from dataclasses import field

from planner.logical.base import LogicalNode, Unary
from runtime.core.errors import Span
from runtime.core.node import node
from runtime.expr.nodes import Column, ColumnRef

__all__ = ["FromChangelog", "ToChangelog"]


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
