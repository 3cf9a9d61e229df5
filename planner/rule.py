"""What a rule is: a name, the node class it looks at, and one function from a node to a better node or None.

    RULE = Rule("merge_filters", Filter, merge_filters)

A rule gives a plan with the same output columns (ids and types; a type may become NOT NULL) and the same meaning. It
does not walk, log or read configuration beyond the context, and it does not call another rule: the driver
(`planner/optimizer.py`) does the walking, the checks and the trace.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from planner.logical.nodes import LogicalNode
from planner.traits.context import TraitContext
from runtime.core.options import Options
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import Expr

__all__ = ["Direction", "Rule", "RuleContext", "Stage", "expression_rule"]


@dataclass(slots=True)
class RuleContext:
    """What rules may know besides the node: the declared functions, the session's options and time zone.

    `displayed`: the plan answers a query whose rows are shown to a person (who may ask for any order) instead of
    written to a table. `batch`: see `TraitContext`. `memory`: facts that a rule wants to keep for the length of one run,
    by the rule's name.
    `traits`: what was derived of plans so far.
    """

    functions: FunctionRegistry
    options: Options = field(default_factory=Options)
    time_zone: str = "UTC"
    displayed: bool = True
    batch: bool = False
    memory: dict[str, Any] = field(default_factory=dict)
    traits: TraitContext = field(init=False)

    def __post_init__(self) -> None:
        self.traits = TraitContext(self.functions, self.options, batch=self.batch)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rewrite.

    `matches`: the class of node the function is called with. `after`: names of rules that must stand earlier in the
    list of stages (checked by a test). `essential`: without it there are plans that cannot be run, so it cannot be
    switched off. `whole_plan`: called once with the root of the plan instead of with each node.
    """

    name: str
    matches: type[LogicalNode] | tuple[type[LogicalNode], ...]
    apply: Callable[[Any, RuleContext], LogicalNode | None]
    after: tuple[str, ...] = ()
    essential: bool = False
    whole_plan: bool = False


class Direction(enum.Enum):
    """The order of a walk: TOP_DOWN sees a node before its inputs, BOTTOM_UP after them."""

    TOP_DOWN = "top down"
    BOTTOM_UP = "bottom up"


@dataclass(frozen=True, slots=True)
class Stage:
    """A named group of rules that are applied together. `fixpoint`: walk again until no rule fires, else walk once.

    `reason`: why the stage stands where it stands.
    """

    name: str
    rules: tuple[Rule, ...]
    direction: Direction
    reason: str
    fixpoint: bool = True


def expression_rule(
    name: str,
    matches: type[LogicalNode] | tuple[type[LogicalNode], ...],
    change: Callable[[Expr, RuleContext], Expr],
    map_node: Callable[[LogicalNode, Callable[[Expr], Expr]], LogicalNode],
    *,
    after: tuple[str, ...] = (),
) -> Rule:
    """A rule that rewrites the expressions of a node one by one, with `map_node` saying which; `change` gives the
    same object for no change, and is not asked again about an object that it has not changed."""

    def apply(node: LogicalNode, context: RuleContext) -> LogicalNode | None:
        unchanged: dict[int, Expr] = context.memory.setdefault(name, {})

        def changed(expr: Expr) -> Expr:
            if id(expr) in unchanged:
                return expr
            new = change(expr, context)
            if new is expr:
                # Held, so that no other expression gets its id.
                unchanged[id(expr)] = expr
            return new

        made = map_node(node, changed)
        return None if made is node else made

    apply.__doc__ = change.__doc__
    return Rule(name, matches, apply, after=after)
