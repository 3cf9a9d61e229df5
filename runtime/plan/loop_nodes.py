"""Physical nodes that have a plan of their own: the loop of WITH RECURSIVE, and what DuckDB answers of a batch plan. See
`nodes.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import reduce
from operator import or_

from runtime.core.changelog import ChangelogMode
from runtime.core.errors import InternalError
from runtime.core.node import node
from runtime.core.schema import Schema
from runtime.plan.base import SETTING, Division, Follows, PhysicalNode, RowNode
from runtime.plan.estimates.rows import RowFacts, times
from runtime.plan.state import NOTHING, StateSpec
from runtime.plan.text import columns_text
from runtime.plan.walk import walk

__all__ = ["DuckDBExec", "LoopInputExec", "RecursiveExec"]

_GROWTH = 10.0
"""How many rows a recursive query is taken to give for each row that it begins with."""


@node
class LoopInputExec(RowNode):
    """A leaf of an inner plan: the changes of one of the inputs, by its number, or (number 0, in a loop) the rows of the round
    before with the column of their round behind them."""

    number: int
    schema: Schema
    mode: ChangelogMode

    def text(self) -> str:
        columns = columns_text(range(len(self.schema)), self.schema)
        return f"the last round ({columns})" if self.number == 0 else f"{self.number} ({columns})"

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        raise InternalError("the rows of a round are estimated with the recursive query")


@node
class RecursiveExec(PhysicalNode):
    """A recursive query, kept up to date to its fixed point.

    The first of `parts` gives the rows of round 0; `body` is the plan of a round, whose leaves are `LoopInputExec`: it gives
    rows with the number of their round (BIGINT) as last column, and its other inputs are the other parts. `all`: rows are
    counted by round (UNION ALL); else each row is there once, in the first round that gives it (UNION).

    `name` is what the query is called, `most_rounds` how many rounds may give rows. Both are for people and for limits.
    """

    parts: tuple[PhysicalNode, ...]
    body: PhysicalNode
    all: bool
    schema: Schema
    mode: ChangelogMode
    name: str = field(default="", metadata=SETTING)
    most_rounds: int = field(default=0, metadata=SETTING)

    inner_fields = ("body",)
    advice = "bound the input: a recursive query keeps all rows that it may have to take back"

    def text(self) -> str:
        return f"{self.name} {'UNION ALL' if self.all else 'UNION'}, at most {self.most_rounds} rounds"

    def state(self) -> tuple[StateSpec, ...]:
        own = StateSpec(
            "rows", "distinct rows by the rounds that give them", NOTHING, self.schema, tuple(range(len(self.schema)))
        )
        found = [] if self.all else [own]
        for prefix, inner in self.rounds():
            for table in inner.state():
                owner = f"{prefix}{table.owner}" if table.owner else ""
                found.append(table._replace(name=f"{prefix}{table.name}", owner=owner))
        return tuple(found)

    def rounds(self) -> list[tuple[str, PhysicalNode]]:
        """The operators of a round in an order in which they can run, and before each what the names of its state tables
        begin with."""
        inner = walk(self.body)
        return [(f"{number}.{type(n).__name__.removesuffix('Exec')}.", n) for number, n in enumerate(inner)]

    def follows(self) -> Follows:
        return reduce(or_, (inner.follows() for _, inner in self.rounds()), Follows.NOTHING)

    def division(self) -> Division:
        # A round's rows may meet any others, so that each would go through all tasks in every round.
        return None

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return times(inputs[0], _GROWTH)

    def revises(self) -> bool:
        return True


@node
class DuckDBExec(PhysicalNode):
    """A part of a batch plan that DuckDB answers, when all of its inputs have ended.

    `body` is that part; its leaves are tables that DuckDB reads by itself, and `LoopInputExec`: the rows of one of
    `parts`, from number 1. What is kept are rows of the inputs, whatever is asked of them. A job makes such nodes of the plan
    that it was given; no stored plan has one.
    """

    parts: tuple[PhysicalNode, ...]
    body: PhysicalNode = field(metadata=SETTING)
    schema: Schema = field()
    mode: ChangelogMode = field()

    inner_fields = ("body",)
    advice = "rows that do not fit memory wait on disk"

    def text(self) -> str:
        return f"{sum(bool(inner.inputs) for inner in walk(self.body))} operators"

    def state(self) -> tuple[StateSpec, ...]:
        return tuple(
            StateSpec(f"rows {number}", "all rows until the end", NOTHING, source.schema)
            for number, source in enumerate(self.parts, 1)
        )

    def follows(self) -> Follows:
        return Follows.END

    def division(self) -> Division:
        return None

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        raise InternalError("a job that runs is not estimated: its plan was")

    def revises(self) -> bool:
        return True
