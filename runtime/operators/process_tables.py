"""The operator of a process table function, which the function makes itself: it calls Python objects of a user."""

from __future__ import annotations

from runtime.core.errors import InternalError
from runtime.operators.operator import Operator, OperatorContext
from runtime.plan.nodes import ProcessTablesExec

__all__ = ["process_operator"]


def process_operator(node: ProcessTablesExec, context: OperatorContext) -> Operator:
    """The operator of a node."""
    made = context.functions.process(node.function).operator(node, context)
    if not isinstance(made, Operator):
        raise InternalError(f"the function {node.function} makes no operator")
    return made
