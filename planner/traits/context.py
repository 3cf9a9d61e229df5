"""What all traits share: the functions and options of a planning run, and a memory of what was derived.

A trait is a fact about a plan that follows from the plan alone: its keys, the kinds of change it gives, its time
columns. Each trait is a function `trait(plan, context)`; the context remembers its answers, so that asking is cheap
however often rules and lowering do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from planner.logical.nodes import LogicalNode
from runtime.core.options import Options, duration_option, text_option
from runtime.expr.function import FunctionRegistry

__all__ = ["DELTA_JOIN", "STATE_TTL", "TraitContext"]

T = TypeVar("T")

STATE_TTL = duration_option(
    "table.exec.state.ttl", 0, "how long an idle key is kept, for example '1 h'; 0 keeps it for ever"
)

DELTA_JOIN = text_option(
    "table.optimizer.delta-join.strategy",
    "AUTO",
    "whether joins of materialized views read the tables of the database instead of keeping their rows: AUTO where they "
    "can, FORCE or not at all, NONE never",
    ("AUTO", "FORCE", "NONE"),
)


class TraitContext:
    """The surroundings of one planning run. Plans are immutable, so an answer stays true as long as the context
    lives.

    `batch`: the input ends, and only the answer over all of it is wanted: every node gives insertions alone, what could
    still change at the end of the input.
    """

    __slots__ = ("_answers", "batch", "functions", "options")

    def __init__(self, functions: FunctionRegistry, options: Options | None = None, *, batch: bool = False) -> None:
        self.batch = batch
        self.functions = functions
        self.options = options or Options()
        self._answers: dict[tuple[object, LogicalNode], Any] = {}

    def derive(self, rule: Callable[[LogicalNode, TraitContext], T], plan: LogicalNode) -> T:
        """The answer of `rule` for this plan, computed once."""
        key = (rule, plan)
        if key not in self._answers:
            self._answers[key] = rule(plan, self)
        found: T = self._answers[key]
        return found
