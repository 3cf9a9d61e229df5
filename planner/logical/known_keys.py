"""Keys of kept answers that follow from their queries (`Scan.known_keys`), taken out of a plan again."""

from __future__ import annotations

from collections.abc import Mapping

from planner.logical.expressions import map_expressions
from planner.logical.nodes import LogicalNode, Scan, Shared
from runtime.expr.nodes import Expr, SubqueryExpr, transform

__all__ = ["without_known_keys"]


def without_known_keys(plan: LogicalNode) -> tuple[LogicalNode, Mapping[str, tuple[tuple[str, ...], ...]]]:
    """The plan of one who does not know them, in subqueries too, and those that were known, by the names of scans."""
    stripping = _Stripping()
    return stripping.plan(plan), stripping.found


class _Stripping:
    """What stands in several places is changed once."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[tuple[str, ...], ...]] = {}
        self._shared: dict[LogicalNode, LogicalNode] = {}

    def plan(self, plan: LogicalNode) -> LogicalNode:
        if isinstance(plan, Scan):
            if not plan.known_keys:
                return plan
            self.found[plan.name] = plan.known_names
            return plan.with_(known_keys=())
        if isinstance(plan, Shared):
            known = self._shared.get(plan.plan)
            if known is None:
                known = self._shared[plan.plan] = self.plan(plan.plan)
            return plan.with_(plan=known)
        inputs = plan.with_inputs(*(self.plan(source) for source in plan.inputs))
        return map_expressions(inputs, lambda e: transform(e, self._expression))

    def _expression(self, e: Expr) -> Expr:
        if isinstance(e, SubqueryExpr) and isinstance(e.plan, LogicalNode):
            return e.with_(plan=self.plan(e.plan))
        return e
