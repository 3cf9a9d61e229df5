"""Joins of tables of the database read these tables, and keep nothing.

    HashJoin INNER on k = k0                 DeltaJoin INNER on k = k0, reads a (k), b (k)
      Calc [id, k] where y > 3                 Calc [id, k] where y > 3
        Source a (id, k, x, y)         →         Source a (id, k, x, y)
      Source b (k, n)                          Source b (k, n)

*Streaming:* state: none of its own; an index of each table by the columns of the join, which all who join it so share.
Changelog mode and watermark: as of the regular join.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.traits.context import DELTA_JOIN
from runtime.core.errors import UnsupportedError
from runtime.core.options import Options
from runtime.expr.analysis import is_deterministic, is_dynamic
from runtime.expr.function import FunctionRegistry
from runtime.plan.join_nodes import HashJoinExec, MultiJoinExec
from runtime.plan.nodes import PhysicalNode, SourceExec
from runtime.plan.parts import JoinKind
from runtime.plan.snapshot_nodes import DeltaJoinExec, TableSide, table_side
from runtime.plan.walk import map_inputs, walk
from runtime.state.arrangement import SupportsArrangements
from runtime.state.backend import STATE_BACKEND

__all__ = ["check_forced", "with_delta_joins"]


def with_delta_joins(root: PhysicalNode, options: Options, functions: FunctionRegistry, *, here: bool) -> PhysicalNode:
    """The plan of a materialized view, with joins that keep nothing where that can be.

    Args:
        here: whether its operators run in the process of the database.
    Raises:
        UnsupportedError: E1644 with FORCE, for the first join that cannot be one.
    """
    strategy = options.get(DELTA_JOIN).upper()
    spills = options.get(STATE_BACKEND).lower() == "rocksdb"
    if strategy == "NONE" or (strategy == "AUTO" and (spills or not here)):
        return root
    done: dict[PhysicalNode, PhysicalNode] = {}

    def change(node: PhysicalNode) -> PhysicalNode:
        if node not in done:
            made = map_inputs(node, change)
            if isinstance(made, HashJoinExec) and not any(_reasons(made, functions, here)):
                made = _delta(made)
            done[node] = made
        return done[node]

    changed = change(root)
    if strategy == "FORCE":
        _check(changed, functions, here)
    return changed


def check_forced(root: PhysicalNode) -> None:
    """Raise UnsupportedError E1644 for a join of a job that goes on without an end and is no materialized view."""
    if all(_ends(node) for node in walk(root)):
        return
    for node in walk(root):
        if isinstance(node, HashJoinExec | MultiJoinExec):
            raise _refused("only materialized views follow tables of the database")


def _ends(node: PhysicalNode) -> bool:
    return not isinstance(node, SourceExec) or node.table.bounded


def _check(root: PhysicalNode, functions: FunctionRegistry, here: bool) -> None:
    for node in walk(root):
        if isinstance(node, MultiJoinExec):
            raise _refused("several tables are joined on one key by one operator, which keeps their rows")
        for reason in _reasons(node, functions, here) if isinstance(node, HashJoinExec) else ():
            raise _refused(reason)


def _refused(reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"'{DELTA_JOIN.key}' = 'FORCE', and a join has to keep rows: {reason}",
        code="E1644",
        hint="with 'AUTO' such a join keeps the rows of both sides",
    )


def _delta(join: HashJoinExec) -> DeltaJoinExec:
    return DeltaJoinExec(
        join.left,
        join.right,
        join.kind,
        join.left_keys,
        join.right_keys,
        join.null_safe,
        join.condition,
        join.schema,
        join.mode,
    )


def _reasons(join: HashJoinExec, functions: FunctionRegistry, here: bool) -> Iterator[str]:
    """Why a join has to keep rows."""
    if join.kind is not JoinKind.INNER:
        yield f"it is a {join.kind.name} join, and only INNER joins keep none"
    if join.expires:
        yield "rows leave it after a time to live, but not the tables"
    if not join.left_keys:
        yield "no columns of both sides are compared with ="
    if not here:
        yield "it does not run in the process of the database ('execution.target')"
    sides = [table_side(join.left), table_side(join.right)]
    for name, side in zip(("left", "right"), sides, strict=True):
        if side is None:
            yield f"its {name} side is no table or view, but what a query gives, or has computed columns"
        else:
            yield from _side_reasons(side, functions)
    left, right = sides
    if left is not None and right is not None:
        for a, b in zip(join.left_keys, join.right_keys, strict=True):
            types = left.source.schema[left.columns[a]].type.arrow, right.source.schema[right.columns[b]].type.arrow
            if types[0] != types[1]:
                yield "the compared columns have different types"


def _side_reasons(side: TableSide, functions: FunctionRegistry) -> Iterator[str]:
    source, table = side.source, side.source.table
    if not isinstance(table, SupportsArrangements) or table.bounded:
        yield f"{source.name} is no table of the database"
        return
    names = table.schema.names
    for field in source.schema:
        if field.name not in names or table.schema[names.index(field.name)].type.arrow != field.type.arrow:
            yield f'"{field.name}" is no column that {source.name} keeps'
    condition = side.condition
    if condition is not None and (not is_deterministic(condition, functions) or is_dynamic(condition, functions)):
        yield f"the condition on {source.name} may have another value each time"
