"""Joins of tables of the database read these tables, and keep nothing; joins of what such joins give are of the same operator.

    HashJoin LEFT on m = m0                    DeltaJoin INNER on k = k0, then LEFT on m = m0,
      Calc [id, m]                                 reads a (k), b (k), b (m), c (m)
        HashJoin INNER on k = k0                 Calc [id, k] where y > 3
          Calc [id, k] where y > 3      →          Source a (id, k, x, y)
            Source a (id, k, x, y)               Source b (k, m)
          Source b (k, m)                        Source c (m, z)
      Source c (m, z)

*Streaming:* state: none of its own; indices of each table by the columns of the joins, which all who join it so share.
Changelog mode and watermark: as of the regular joins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from planner.traits.context import DELTA_JOIN
from runtime.core.errors import UnsupportedError
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.expr.analysis import is_deterministic, is_dynamic
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import Expr, InputRef
from runtime.plan.join_nodes import HashJoinExec, MultiJoinExec
from runtime.plan.nodes import CalcExec, PhysicalNode, SourceExec
from runtime.plan.parts import JoinKind, JoinStep
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
            if isinstance(made, HashJoinExec | MultiJoinExec):
                made = _joined(made, functions, here) or made
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
        for step in _steps_of(node):
            for reason in _reasons(step, functions, here):
                raise _refused(reason)


def _refused(reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"'{DELTA_JOIN.key}' = 'FORCE', and a join has to keep rows: {reason}",
        code="E1644",
        hint="with 'AUTO' such a join keeps the rows of both sides",
    )


class _Operand(NamedTuple):
    """What such a join may join: an input of it, or what others have joined. `filters` is as in the node."""

    parts: tuple[PhysicalNode, ...]
    steps: tuple[JoinStep, ...]
    conditions: tuple[Expr | None, ...]
    filters: tuple[Expr | None, ...]
    schema: Schema


class _Step(NamedTuple):
    """A join of two inputs."""

    left: PhysicalNode | _Operand
    right: PhysicalNode
    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    null_safe: tuple[bool, ...]
    condition: Expr | None
    schema: Schema
    expires: bool


def _steps_of(node: PhysicalNode) -> Iterator[_Step]:
    """The joins of a node, one after another; the left input of each but the first is what the ones before have joined."""
    match node:
        case HashJoinExec(left=left, right=right):
            keys = node.left_keys, node.right_keys, node.null_safe
            yield _Step(left, right, node.kind, *keys, node.condition, node.schema, node.expires)
        case MultiJoinExec(parts=parts, kinds=kinds, keys=keys):
            left, width = parts[0], len(parts[0].schema)
            for part, kind, columns in zip(parts[1:], kinds[1:], keys[1:], strict=True):
                width += len(part.schema)
                schema = Schema(node.schema.fields[:width])
                step = _Step(left, part, kind, keys[0], columns, (), None, schema, node.expires)
                yield step
                joined = _together(step)
                if joined is None:
                    return
                left = joined
        case _:
            return


def _joined(node: PhysicalNode, functions: FunctionRegistry, here: bool) -> DeltaJoinExec | None:
    """The joins of a node as ones that keep nothing; None where one of them cannot be."""
    made: _Operand | None = None
    for step in _steps_of(node):
        made = None if any(_reasons(step, functions, here)) else _together(step)
        if made is None:
            return None
    if made is None:
        return None
    return DeltaJoinExec(made.parts, made.steps, made.conditions, made.filters, node.schema, node.mode)


def _operand(node: PhysicalNode | _Operand) -> _Operand | None:
    """What a node gives as an input, or as what joins of this kind have joined: columns and a filter of it."""
    if isinstance(node, _Operand):
        return node
    if table_side(node) is not None:
        return _Operand((node,), (), (), (), node.schema)
    match node:
        case DeltaJoinExec():
            return _Operand(node.parts, node.steps, node.conditions, node.filters, node.schema)
        case CalcExec(input=DeltaJoinExec() as join, condition=condition, projections=projections):
            chosen = [e.index for e in projections if isinstance(e, InputRef)]
            if len(chosen) != len(projections):
                return None
            # The last step of a node shows all its columns, so that the filter's are those before they are chosen.
            last = join.steps[-1].with_(columns=tuple(chosen), schema=node.schema)
            filters = (*join.filters[:-1], condition)
            return _Operand(join.parts, (*join.steps[:-1], last), join.conditions, filters, node.schema)
        case _:
            return None


def _together(step: _Step) -> _Operand | None:
    """What both sides have joined, and a step that joins these."""
    left, right = _operand(step.left), _operand(step.right)
    if left is None or right is None:
        return None
    before, behind, first = len(left.parts), len(right.parts), len(left.steps)

    def of_left(number: int) -> int:
        return number if number < before else number + behind

    def of_right(number: int) -> int:
        return number + before if number < behind else number + before + first

    steps = [s.with_(left=of_left(s.left), right=of_left(s.right)) for s in left.steps]
    steps += [s.with_(left=of_right(s.left), right=of_right(s.right)) for s in right.steps]
    own = JoinStep(
        of_left(before + first - 1 if first else 0),
        of_right(behind + len(right.steps) - 1 if right.steps else 0),
        step.kind,
        step.left_keys,
        step.right_keys,
        step.null_safe,
        tuple(range(len(step.schema))),
        step.schema,
    )
    return _Operand(
        (*left.parts, *right.parts),
        (*steps, own),
        (*left.conditions, *right.conditions, step.condition),
        (*left.filters, *right.filters, None),
        step.schema,
    )


def _reasons(step: _Step, functions: FunctionRegistry, here: bool) -> Iterator[str]:
    """Why a join has to keep rows."""
    if step.condition is not None and step.kind is not JoinKind.INNER:
        yield f"it is a {step.kind.name} join with a condition beside =, so that it counts for each row what it matches"
    if step.expires:
        yield "rows leave it after a time to live, but not the tables"
    if not step.left_keys:
        yield "no columns of both sides are compared with ="
    if not here:
        yield "it does not run in the process of the database ('execution.target')"
    if step.condition is not None and not _steady(step.condition, functions):
        yield "its condition may have another value each time"
    for name, node in (("left", step.left), ("right", step.right)):
        operand = _operand(node)
        if operand is None:
            yield f"its {name} side is no table or view, but what a query gives, or has computed columns"
            continue
        for part in operand.parts:
            side = table_side(part)
            if side is not None:
                yield from _side_reasons(side, functions)
        if not all(f is None or _steady(f, functions) for f in operand.filters):
            yield f"a condition on its {name} side may have another value each time"
        if any(step.null_safe) and any(s.kind.keeps_left or s.kind.keeps_right for s in operand.steps):
            yield f"IS NOT DISTINCT FROM would match the NULLs of an outer join on its {name} side"
    left, right = step.left.schema, step.right.schema
    for a, b in zip(step.left_keys, step.right_keys, strict=True):
        if left[a].type.arrow != right[b].type.arrow:
            yield "the compared columns have different types"


def _steady(condition: Expr, functions: FunctionRegistry) -> bool:
    return is_deterministic(condition, functions) and not is_dynamic(condition, functions)


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
    if condition is not None and not _steady(condition, functions):
        yield f"the condition on {source.name} may have another value each time"
