"""Logical nodes of WITH RECURSIVE."""

from __future__ import annotations

from dataclasses import field

from planner.logical.base import Binary, LogicalNode
from runtime.core.node import node
from runtime.expr.nodes import Column

__all__ = ["LastRound", "Recursive"]


@node
class LastRound(LogicalNode):
    """Within a recursive query: the rows of the round before, as a leaf.

    `loop` tells which `Recursive` it belongs to. `round` is the number of the round in which the row is (BIGINT NOT NULL),
    behind the columns `produced`; None until the binder has seen the whole query. `revised`: rows may be taken back; the
    rules look at what the query does with rows that only come.
    """

    produced: tuple[Column, ...]
    loop: int
    round: Column | None = None
    name: str = field(default="", compare=False)
    revised: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.produced if self.round is None else (*self.produced, self.round)


@node
class Recursive(Binary):
    """A recursive query: the rows of `left`, and of `right` over the rows of the round before (`LastRound`), round after
    round until none is new. `right` gives the columns of `left`, and behind them the number of the round of each row.

    `all`: UNION ALL, rows are new in each round; else UNION, a row is new when no round before has it. `produced` are the
    columns of the result, by position.
    """

    left: LogicalNode
    right: LogicalNode
    produced: tuple[Column, ...]
    all: bool
    loop: int
    name: str = field(default="", compare=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.produced
