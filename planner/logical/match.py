"""The logical node of MATCH_RECOGNIZE."""

from __future__ import annotations

from planner.logical.base import LogicalNode, Unary
from runtime.core.node import Node, node
from runtime.expr.nodes import AggregateCall, Column, ColumnRef, Expr, SortKey
from runtime.plan.pattern import MatchRows, Pattern, ValueSide

__all__ = ["Match", "MatchItem"]


@node
class MatchItem(Node):
    """A column, and what of the rows of a variable is in it: see `runtime.plan.pattern.MatchValue`. The call is over the
    columns of the input."""

    column: Column
    variable: int
    call: AggregateCall
    offset: int | None = None
    names: bool = False
    side: ValueSide = ValueSide.RUNNING


@node
class Match(Unary):
    """MATCH_RECOGNIZE with one row per match, or as `rows` says: the `partition` columns, then those of `found`.

    `order` begins with an ascending time attribute. DEFINE says of a variable, by its number, what holds for a row: `alone`
    over its own columns, `asked` over these and those of `tested`, which are of the match so far. Both must be true.
    """

    input: LogicalNode
    partition: tuple[tuple[Column, ColumnRef], ...]
    order: tuple[SortKey, ...]
    pattern: Pattern
    alone: tuple[tuple[int, Expr], ...]
    asked: tuple[tuple[int, Expr], ...]
    tested: tuple[MatchItem, ...]
    found: tuple[MatchItem, ...]
    rows: MatchRows = MatchRows.ONE

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(c for c, _ in self.partition) + tuple(item.column for item in self.found)
