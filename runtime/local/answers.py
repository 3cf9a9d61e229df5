"""The answer of an operator so far, from its saved state alone: what it has given, added up, as insertions.

Operators that keep the rows of their inputs (joins, top-n, ...) give it when a new one takes these rows; an aggregate tells
the results of its groups. Where state is forgotten with time, or follows it, nobody can tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Schema
from runtime.expr.analysis import is_deterministic, is_dynamic
from runtime.expr.function import FunctionRegistry
from runtime.operators.build import build_operator
from runtime.operators.group_aggregate import GroupAggregateOperator
from runtime.operators.operator import EpochTime, Operator, OperatorContext
from runtime.plan.base import Follows, PhysicalNode, RowNode
from runtime.plan.nodes import (
    ChangelogNormalizeExec,
    DeduplicateExec,
    GroupAggregateExec,
    HashJoinExec,
    MultiJoinExec,
    SetOperationExec,
    TopNExec,
    ValuesExec,
)
from runtime.plan.parts import JoinKind
from runtime.plan.walk import expressions_of
from runtime.state.snapshot import SavedState

__all__ = ["IN_TIME", "answer", "answers", "passes_on", "row_answer"]

IN_TIME = Follows.EVENT_TIME | Follows.CLOCK | Follows.ARRIVAL | Follows.OUTSIDE | Follows.END
"""What makes it matter when, and in what order, rows come."""


def passes_on(node: PhysicalNode, functions: FunctionRegistry) -> bool:
    """Whether a node keeps nothing, and gives for the answers of its inputs its own."""
    steady = all(is_deterministic(e, functions) and not is_dynamic(e, functions) for e in expressions_of(node))
    return isinstance(node, RowNode | ValuesExec) and steady


def answers(node: PhysicalNode) -> bool:
    """Whether the state of a node tells its answer."""
    if node.expires or node.emits_at_end or node.follows() & (IN_TIME & ~Follows.ARRIVAL):
        return False
    match node:
        case HashJoinExec():
            # Rows with NULL in a key match nothing, and are not kept: who gives rows without a match misses them.
            lone = node.kind.keeps_left or node.kind is JoinKind.ANTI, node.kind.keeps_right
            sides = ((node.left.schema, node.left_keys), (node.right.schema, node.right_keys))
            return not any(
                kept and not safe and schema[keys[number]].type.nullable
                for kept, (schema, keys) in zip(lone, sides, strict=True)
                for number, safe in enumerate(node.null_safe)
            )
        case MultiJoinExec(parts=parts, kinds=kinds, keys=keys):
            alone = all(kind is JoinKind.LEFT for kind in kinds[1:])
            return not (alone and any(parts[0].schema[k].type.nullable for k in keys[0]))
        case DeduplicateExec():
            return any(table.name == "rows" for table in node.state())
        case _:
            return isinstance(node, GroupAggregateExec | TopNExec | ChangelogNormalizeExec | SetOperationExec)


def answer(node: PhysicalNode, state: SavedState, context: OperatorContext, time: EpochTime) -> ChangelogBatch | None:
    """The answer of a node whose state tells it."""
    operator = build_operator(node, context)
    try:
        if isinstance(operator, GroupAggregateOperator):
            operator.load(state)
            return operator.answer()
        return _whole(operator, _inputs(node, state), time)
    finally:
        operator.close()


def row_answer(
    node: PhysicalNode, inputs: Sequence[ChangelogBatch | None], context: OperatorContext, time: EpochTime
) -> ChangelogBatch | None:
    """The answer of a node that keeps nothing, from those of its inputs."""
    operator = build_operator(node, context)
    try:
        return _whole(operator, inputs, time)
    finally:
        operator.close()


def _whole(operator: Operator, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
    given = [b if b is None or operator.takes_codes else b.decoded() for b in inputs]
    pieces = [piece for piece in operator.pieces(given, time) if len(piece)]
    return ChangelogBatch.concat(pieces) if pieces else None


def _inputs(node: PhysicalNode, state: SavedState) -> list[ChangelogBatch | None]:
    """Rows for each input from which the answer comes."""
    match node:
        case HashJoinExec():
            return [_rows(state, "left", node.left.schema), _rows(state, "right", node.right.schema)]
        case MultiJoinExec(parts=parts):
            return [_rows(state, f"input{number}", part.schema) for number, part in enumerate(parts, 1)]
        case SetOperationExec():
            schema = node.left.schema
            return [_rows(state, "rows", schema, "$left"), _rows(state, "rows", schema, "$right")]
        case _:
            return [_rows(state, "rows", node.inputs[0].schema)]


def _rows(state: SavedState, table: str, schema: Schema, count: str = "$count") -> ChangelogBatch | None:
    """The rows of a table of state, each as often as `count` says, in the order in which they came where that is kept."""
    parts = [rows for rows in (task.get(table) for task in state.tasks) if rows is not None and rows.num_rows]
    found = list(_batches(parts, schema, count))
    return ChangelogBatch.concat(found) if found else None


def _batches(parts: Sequence[pa.RecordBatch], schema: Schema, count: str) -> Iterator[ChangelogBatch]:
    for rows in parts:
        names = rows.schema.names
        taken = np.arange(rows.num_rows)
        if "$arrival" in names:
            taken = np.argsort(rows.column("$arrival").to_numpy(zero_copy_only=False), kind="stable")
        if count in names:
            often = rows.column(count).fill_null(1).to_numpy(zero_copy_only=False)
            taken = np.repeat(taken, np.maximum(often[taken], 0))
        # Before the columns of the rows stands their slot.
        columns = [
            column.take(pa.array(taken)).cast(field.type.arrow)
            for column, field in zip(rows.columns[1 : 1 + len(schema)], schema, strict=True)
        ]
        if len(taken):
            yield ChangelogBatch.of(columns, schema)
