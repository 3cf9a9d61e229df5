"""Remove a filter that lets everything pass, and replace one that lets nothing pass by no rows.

    Filter TRUE X          → X
    Filter FALSE X         → Values none
    Filter NULL X          → Values none
    Filter (p AND NULL) X  → Values none

Streaming: the sources below a filter that is never true are not read at all.
"""

from __future__ import annotations

from planner.logical.nodes import Filter, LogicalNode, Values
from planner.rule import Rule, RuleContext
from runtime.expr.analysis import conjuncts, is_false, is_null_literal

__all__ = ["RULE"]


def remove_trivial_filter(node: Filter, context: RuleContext) -> LogicalNode | None:
    parts = conjuncts(node.predicate)
    if not parts:
        return node.input
    return Values((), node.columns) if any(is_false(p) or is_null_literal(p) for p in parts) else None


RULE = Rule("remove_trivial_filter", Filter, remove_trivial_filter, after=("simplify_boolean", "fold_constants"))
