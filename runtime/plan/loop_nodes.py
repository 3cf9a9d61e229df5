"""Physical nodes of WITH RECURSIVE: the loop, and what stands for its inputs within a round. See `nodes.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import reduce
from operator import or_

from runtime.core.changelog import ChangelogMode
from runtime.core.node import node
from runtime.core.schema import Schema
from runtime.plan.base import SETTING, Division, Follows, PhysicalNode, RowNode
from runtime.plan.estimates.rows import RowFacts, times
from runtime.plan.state import NOTHING, StateSpec
from runtime.plan.text import columns_text
from runtime.plan.walk import walk

__all__ = ["LoopInputExec", "RecursiveExec"]

_GROWTH = 10.0
"""How many rows a recursive query is taken to give for each row that it begins with."""


@node
class LoopInputExec(RowNode):
    """A leaf of the plan of a round: the changes of one of the loop's inputs, by its number, or (number 0) the rows of the
    round before with the column of their round behind them."""

    number: int
    schema: Schema
    mode: ChangelogMode

    def text(self) -> str:
        columns = columns_text(range(len(self.schema)), self.schema)
        return f"the last round ({columns})" if self.number == 0 else f"{self.number} ({columns})"

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        raise NotImplementedError


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
