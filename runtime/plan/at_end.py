"""Which operators send their rows once, at the end of the input: those of batch plans whose rows could still change
before it."""

from __future__ import annotations

from runtime.plan import nodes as p
from runtime.plan.nodes import JoinKind, PhysicalNode

__all__ = ["emits_at_end"]


def emits_at_end(node: PhysicalNode) -> bool:
    """Whether the rows of a node wait for the end of its input.

    The planner says so with the changelog mode: insertions alone, of a node that in a stream would update or remove
    rows. What is final as soon as it is there (the pairs of an inner join, a closed window) does not wait.
    """
    if not node.mode.is_append_only:
        return False
    match node:
        case p.GroupAggregateExec() | p.TopNExec() | p.SetOperationExec() | p.FinalRowsExec():
            return True
        case p.DeduplicateExec():
            return node.keep_last
        case p.HashJoinExec():
            return node.kind not in (JoinKind.INNER, JoinKind.SEMI)
        case p.OverAggregateExec():
            return not (node.rowtime or node.proctime)
        case _:
            return False
