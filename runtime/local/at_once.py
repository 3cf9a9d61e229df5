"""Which parts of a batch plan DuckDB answers: all input is there at once, so nothing need be kept up to date.

    Calc                                    Calc
      GroupAggregate                          DuckDB  (GroupAggregate (HashJoin orders, 1))
        HashJoin                       →        Match
          Source orders (Parquet)
          Match

A part is as large as it can be: an operator and what is below it, as long as DuckDB means the same by it
(`runtime/eval/duckdb_plans`). What is below such a part is computed here, and handed over when it has ended. DuckDB reads
files of columns itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.eval.duckdb_plans.relations import ACTING, fits_one_operator, stored_columns
from runtime.expr.function import FunctionRegistry
from runtime.plan import nodes as p
from runtime.plan.base import PhysicalNode
from runtime.plan.walk import map_inputs, walk, walk_all

__all__ = ["with_parts_at_once"]


def with_parts_at_once(roots: Sequence[PhysicalNode], functions: FunctionRegistry) -> tuple[PhysicalNode, ...]:
    """The plans with what DuckDB answers of them as `DuckDBExec`; as they are, when some input has no end."""
    roots = tuple(roots)
    nodes = walk_all(roots)
    if any(isinstance(n, p.SourceExec) and not n.table.bounded for n in nodes):
        return roots
    cut = _Cut({n for n in nodes if _fits(n, functions)})
    return tuple(cut.above(root) for root in roots)


def _fits(node: PhysicalNode, functions: FunctionRegistry) -> bool:
    return bool(node.inputs or isinstance(node, p.ValuesExec)) and fits_one_operator(node, functions)


class _Cut:
    """Cuts plans above and below operators that fit."""

    def __init__(self, fitting: set[PhysicalNode]) -> None:
        self._fitting = fitting
        self._above: dict[PhysicalNode, PhysicalNode] = {}

    def above(self, node: PhysicalNode) -> PhysicalNode:
        """A node that no part has taken in."""
        known = self._above.get(node)
        if known is None:
            part = self._part(node) if node in self._fitting else None
            known = self._above[node] = map_inputs(node, self.above) if part is None else part
        return known

    def _part(self, root: PhysicalNode) -> PhysicalNode | None:
        """The part with this root; None where there is too little in it."""
        parts: list[PhysicalNode] = []
        leaves: dict[PhysicalNode, PhysicalNode] = {}
        done: dict[PhysicalNode, PhysicalNode] = {}

        def below(node: PhysicalNode) -> PhysicalNode:
            if node in self._fitting:
                if node not in done:
                    done[node] = map_inputs(node, below)
                return done[node]
            if stored_columns(node) is not None:
                return node
            if node not in leaves:
                parts.append(self.above(node))
                leaves[node] = p.LoopInputExec(len(parts), node.schema, node.mode)
            return leaves[node]

        body = below(root)
        if not any(isinstance(inner, ACTING) for inner in walk(body)):
            return None
        return p.DuckDBExec(tuple(parts), body, root.schema, root.mode)
