"""The physical node of filters whose rows come in and leave when time passes. See `nodes.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runtime.core.changelog import ChangelogMode
from runtime.core.node import Node, node
from runtime.core.schema import Field, Schema
from runtime.core.types import BIGINT, timestamp_ltz
from runtime.expr.analysis import input_refs
from runtime.expr.display import show
from runtime.expr.nodes import Expr, InputRef
from runtime.plan.base import Division, Follows, PhysicalNode, by_keys
from runtime.plan.estimates.rows import RowFacts, times
from runtime.plan.estimates.sizes import Sizes, timed
from runtime.plan.state import CLOCK, StateSpec, figure
from runtime.plan.text import shown

__all__ = ["NOW", "TimeBound", "TimeFilterExec"]

NOW: Final = timestamp_ltz(3).not_null()
"""The type of the time that passes, the only column that a moment reads."""


@node
class TimeBound(Node):
    """Rows are in while `moment` is less than `value` (`upper`), or from when it is greater; `strict`: not when both are
    equal. Rows of which `unless` is true are not bound.

    `value` and `unless` are over the input, `moment` is over a column of type `NOW`; `shift`: it is so many milliseconds
    behind now, if that is always the same.
    """

    value: Expr
    moment: Expr
    shift: int | None
    upper: bool
    strict: bool
    unless: Expr | None = None


@node
class TimeFilterExec(PhysicalNode):
    """The rows whose bounds hold now. They come in and leave when their time has come, without a change of the input."""

    input: PhysicalNode
    bounds: tuple[TimeBound, ...]
    schema: Schema
    mode: ChangelogMode

    knows_timers = True

    def text(self) -> str:
        return " AND ".join(self._shown(b) for b in self.bounds)

    def _shown(self, bound: TimeBound) -> str:
        operator = (">" if bound.upper else "<") + ("" if bound.strict else "=")
        moment = show(bound.moment, lambda e: "MZ_NOW()" if isinstance(e, InputRef) else None)
        text = f"{shown(bound.value, self.input.schema)} {operator} {moment}"
        return text if bound.unless is None else f"({shown(bound.unless, self.input.schema)} OR {text})"

    @property
    def enters(self) -> bool:
        """Whether a row may have to wait for its time."""
        return any(not b.upper for b in self.bounds)

    @property
    def leaves(self) -> bool:
        return any(b.upper for b in self.bounds)

    @property
    def keys(self) -> tuple[int, ...]:
        """The columns that tell when a row comes in and leaves."""
        return tuple(sorted(input_refs([e for b in self.bounds for e in (b.value, b.unless) if e is not None])))

    def state(self) -> tuple[StateSpec, ...]:
        kept = Schema((*self.input.schema.fields, Field("$from", BIGINT), Field("$until", BIGINT)))
        tables: list[StateSpec] = []
        if self.enters:
            tables.append(StateSpec("entering", "rows until they come in", CLOCK, kept, self.keys))
        if self.leaves:
            tables.append(StateSpec("leaving", "rows until they leave", CLOCK, kept, self.keys))
        return (*tables, figure("now"))

    def follows(self) -> Follows:
        return Follows.CLOCK

    def division(self) -> Division:
        return by_keys((self.input, self.keys))

    def revises(self) -> bool:
        return True

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return times(inputs[0], 1.0)

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        (facts,) = inputs
        kept = timed(self.input.schema, facts, facts.rows, self.keys)
        return {table.name: kept for table in self.state() if not table.figure}
