"""Plans that stand in several places of a query and are one: changed once, for all places."""

from __future__ import annotations

from collections.abc import Callable

from planner.logical.expressions import map_expressions, node_expressions, walk_plan
from planner.logical.nodes import LogicalNode, Shared
from runtime.expr.nodes import Expr, SubqueryExpr, transform, walk

__all__ = ["holds_shared", "map_shared"]


def holds_shared(plan: LogicalNode) -> bool:
    """Whether a `Shared` node is part of the plan, in subqueries too."""
    for node in walk_plan(plan):
        if isinstance(node, Shared):
            return True
        for expression in node_expressions(node):
            for part in walk(expression):
                if isinstance(part, SubqueryExpr) and isinstance(part.plan, LogicalNode) and holds_shared(part.plan):
                    return True
    return False


def map_shared(
    plan: LogicalNode, change: Callable[[LogicalNode], LogicalNode], done: dict[LogicalNode, LogicalNode]
) -> LogicalNode:
    """The plan with `change` applied to what its `Shared` nodes stand for, once to each; `done` remembers. `change` keeps
    the columns, and sees to what is shared further inside."""
    if isinstance(plan, Shared):
        found = done.get(plan.plan)
        if found is None:
            found = done[plan.plan] = change(plan.plan)
        return plan if found is plan.plan else plan.with_(plan=found)

    def inner(e: Expr) -> Expr:
        if not isinstance(e, SubqueryExpr) or not isinstance(e.plan, LogicalNode):
            return e
        new = map_shared(e.plan, change, done)
        return e if new is e.plan else e.with_(plan=new)

    node = plan.with_inputs(*(map_shared(source, change, done) for source in plan.inputs))
    return map_expressions(node, lambda e: transform(e, inner))
