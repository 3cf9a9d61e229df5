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

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import NotInDuckDB, PlanningError
from runtime.core.options import Options, bool_option
from runtime.core.rooms import Room
from runtime.expr.function import FunctionRegistry
from runtime.local.dataflow import Dataflow, SourceInput
from runtime.local.job_settings import JobSettings
from runtime.plan import nodes as p
from runtime.plan.base import PhysicalNode
from runtime.plan.nodes import SourceExec
from runtime.plan.walk import map_inputs, walk, walk_all

if TYPE_CHECKING:
    import runtime.eval.duckdb_plans.relations as _relations
else:
    _relations = Room("runtime.eval.duckdb_plans.relations")

__all__ = ["BY_DUCKDB", "AtOnce", "with_parts_at_once"]

BY_DUCKDB = bool_option(
    "sqlengine.batch.duckdb",
    True,
    "whether DuckDB answers those parts of a batch query in which it means the same as Flink",
)


class AtOnce:
    """What a job hands to DuckDB: nothing any more, once DuckDB has failed; nothing in a job that saves its state, and may
    go on without DuckDB from there, or that others carry out. Args: `whole`: the job goes from beginning to end."""

    def __init__(self, settings: JobSettings, *, whole: bool) -> None:
        self._settings = settings
        self._asks = whole and settings.dataflow is Dataflow
        self._used = False

    def roots(self, roots: Sequence[PhysicalNode]) -> tuple[PhysicalNode, ...]:
        """The plans as they run."""
        if not self._asks:
            return tuple(roots)
        found = with_parts_at_once(roots, self._settings.options, self._settings.functions)
        self._used = any(isinstance(n, p.DuckDBExec) for n in walk_all(found))
        return found

    def step(
        self, dataflow: Dataflow, given: Mapping[SourceExec, SourceInput], now: int
    ) -> list[ChangelogBatch | None] | None:
        """The epoch; None when DuckDB has failed, nobody has seen a row, and the job is to begin anew without it."""
        try:
            return dataflow.step(given, now)
        except NotInDuckDB:
            roots = [dataflow.vertices[n] for n in dataflow.roots]
            if (
                any(v.rows_in if isinstance(v.node, p.SinkExec) else v.rows_out for v in roots)
                or dataflow.has_half_epoch
            ):
                raise
            dataflow.abort()
            self._asks = self._used = False
            return None

    def check_savepoint(self, job: str) -> None:
        """Raises PlanningError E1419 when a job has no state to go on from."""
        if self._used:
            raise PlanningError(
                f"{job} runs in batch mode, and no savepoint can be made of it",
                code="E1419",
                hint="start it again, or SET 'sqlengine.batch.duckdb' = 'false' before it starts",
            )


def with_parts_at_once(
    roots: Sequence[PhysicalNode], options: Options, functions: FunctionRegistry
) -> tuple[PhysicalNode, ...]:
    """The plans with what DuckDB answers of them as `DuckDBExec`; as they are, unless they are plans of batch mode."""
    roots = tuple(roots)
    if options.text("execution.runtime-mode") != "batch" or not options.get(BY_DUCKDB):
        return roots
    nodes = walk_all(roots)
    if any(isinstance(n, p.SourceExec) and not n.table.bounded for n in nodes):
        return roots
    cut = _Cut({n for n in nodes if _fits(n, functions)})
    return tuple(cut.above(root) for root in roots)


def _fits(node: PhysicalNode, functions: FunctionRegistry) -> bool:
    return bool(node.inputs or isinstance(node, p.ValuesExec)) and _relations.fits_one_operator(node, functions)


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
            if _relations.stored_columns(node) is not None:
                return node
            if node not in leaves:
                parts.append(self.above(node))
                leaves[node] = p.LoopInputExec(len(parts), node.schema, node.mode)
            return leaves[node]

        body = below(root)
        if not any(isinstance(inner, _relations.ACTING) for inner in walk(body)):
            return None
        return p.DuckDBExec(tuple(parts), body, root.schema, root.mode)
