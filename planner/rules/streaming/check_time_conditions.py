"""Refuse the time that passes where it lets no rows in and out.

    Project MZ_NOW() AS t X                            →   PlanningError
    Join LEFT (c AND x.a + y.b > MZ_NOW()) X Y         →   PlanningError
    Filter SIN(a) > SIN(MZ_NOW()) X                    →   PlanningError

Streaming: changes nothing. MZ_NOW() is no value that a row could keep: only a filter takes a row back when its time has
come, and only if the row is in for one span of time.
"""

from __future__ import annotations

from planner.logical.expressions import node_expressions, walk_plan
from planner.logical.nodes import Filter, LogicalNode, Recursive, Shared
from planner.rule import Rule, RuleContext
from planner.traits.naming import place_of
from planner.traits.time_conditions import has_time_condition, parted
from runtime.core.errors import PlanningError
from runtime.expr.analysis import PASSING_TIME, follows_time
from runtime.expr.nodes import Call, walk

__all__ = ["RULE"]


def check_time_conditions(plan: LogicalNode, context: RuleContext) -> LogicalNode | None:
    for node in walk_plan(plan):
        if isinstance(node, Filter):
            parted(node.predicate, context.functions, context.time_zone)
            continue
        if isinstance(node, Shared):
            continue
        if isinstance(node, Recursive) and has_time_condition(node):
            raise PlanningError(
                "WITH RECURSIVE cannot follow the time that passes",
                code="E1707",
                span=place_of(node),
                hint="filter what it gives, or what it reads from a view",
            )
        for expr in node_expressions(node):
            if follows_time(expr):
                call = next(e for e in walk(expr) if isinstance(e, Call) and e.function == PASSING_TIME)
                raise PlanningError(
                    "the time that passes is no value: it stands in conditions of WHERE and HAVING, and of inner joins",
                    code="E1707",
                    span=call.span,
                    hint="NOW() is the time at which a row comes",
                )
    return None


RULE = Rule("check_time_conditions", LogicalNode, check_time_conditions, essential=True, whole_plan=True)
