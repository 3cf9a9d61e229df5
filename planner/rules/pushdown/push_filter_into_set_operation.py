"""Filter the parts of a set operation.

    Filter p(u) (Union u X Y)       →   Union u (Filter p(x) X) (Filter p(y) Y)
    Filter p(u) (Intersect u X Y)   →   Intersect u (Filter p(x) X) (Filter p(y) Y)      Except too

Streaming: less state in INTERSECT and EXCEPT; UNION ALL has none. Rows are compared whole, so a row that `p` removes
has no equal that `p` keeps. A condition that may fail stays above INTERSECT and EXCEPT: below, it would see rows that
they remove.
"""

from __future__ import annotations

from planner.logical.build import filtered
from planner.logical.nodes import Except, Filter, Intersect, LogicalNode, Union
from planner.rule import Rule, RuleContext
from planner.rules.pushdown.parting import part
from runtime.expr.rewrite import substitute

__all__ = ["RULE"]


def push_filter_into_set_operation(node: Filter, context: RuleContext) -> LogicalNode | None:
    operation = node.input
    if not isinstance(operation, Union | Intersect | Except):
        return None
    # INTERSECT and EXCEPT drop rows on which a condition could fail.
    every_row = isinstance(operation, Union)
    moved, kept = part(node.predicate, [c.id for c in operation.produced], context, may_fail=every_row)
    if not moved:
        return None

    def below(source: LogicalNode) -> LogicalNode:
        values = {c.id: own.ref() for c, own in zip(operation.produced, source.columns, strict=True)}
        return filtered(source, (substitute(c, values) for c in moved))

    return filtered(operation.with_inputs(*(below(source) for source in operation.inputs)), kept)


RULE = Rule("push_filter_into_set_operation", Filter, push_filter_into_set_operation)
