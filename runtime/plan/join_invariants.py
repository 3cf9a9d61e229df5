"""What every plan keeps of joins of several inputs on one key, and of ASOF joins; the rest is in `invariants.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from runtime.core.schema import Schema
from runtime.core.types import DataType
from runtime.plan import nodes as p
from runtime.plan.decoding import Wrong
from runtime.plan.parts import JoinKind
from runtime.plan.snapshot_nodes import table_side

__all__ = ["check_nearest", "joined_on_one_key", "joined_tables"]

Columns = Callable[[str, Iterable[int], Schema], None]
"""Raises Wrong, with the field, where a position is none of a schema's columns."""
Condition = Callable[..., None]
"""Raises Wrong, with the place, where an expression is no condition over columns of these types."""


def check_nearest(node: p.AsofJoinExec, columns: Columns) -> None:
    """Unique keys and times of an ASOF join."""
    left, right = node.left.schema, node.right.schema
    columns("left_unique", node.left_unique or (), left)
    columns("right_unique", node.right_unique or (), right)
    columns("left_time", (node.left_time,), left)
    columns("right_time", (node.right_time,), right)
    if not left[node.left_time].type.is_carried_as(right[node.right_time].type):
        raise Wrong("both times have one type").within("right_time")
    if node.kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise Wrong("an ASOF join is INNER or LEFT").within("kind")


def joined_on_one_key(node: p.MultiJoinExec, columns: Columns) -> Sequence[DataType]:
    """The types that a join of several inputs gives."""
    for field in ("kinds", "keys", "unique"):
        if len(getattr(node, field)) != len(node.parts):
            raise Wrong("there is one for each input").within(field)
    if not node.parts or node.kinds[0] is not JoinKind.INNER:
        raise Wrong("the first is INNER").within("kinds")
    if not set(node.kinds) <= {JoinKind.INNER, JoinKind.LEFT}:
        raise Wrong("each is INNER or LEFT").within("kinds")
    columns("keys", node.keys[0], node.parts[0].schema)
    first = [node.parts[0].schema[k].type for k in node.keys[0]]
    for number, (part, keys, unique) in enumerate(zip(node.parts, node.keys, node.unique, strict=True)):
        columns("keys", keys, part.schema)
        columns("unique", unique or (), part.schema)
        types = [part.schema[k].type for k in keys]
        if len(types) != len(first) or not all(a.is_carried_as(b) for a, b in zip(first, types, strict=True)):
            raise Wrong("all inputs have the same keys").within(number).within("keys")
    return [t for part in node.parts for t in part.schema.types]


def joined_tables(node: p.DeltaJoinExec, columns: Columns, condition: Condition) -> Sequence[DataType]:
    """The types that joins which keep nothing give: inputs are columns of tables, and each is used by one step."""
    for number, part in enumerate(node.parts):
        if table_side(part) is None:
            raise Wrong("it gives columns of a table").within(number).within("parts")
    for field in ("conditions", "filters"):
        if len(getattr(node, field)) != len(node.steps):
            raise Wrong("there is one for each step").within(field)
    unused = set(range(len(node.parts)))
    for number, step in enumerate(node.steps):
        try:
            if step.left == step.right or not {step.left, step.right} <= unused:
                raise Wrong("it joins two inputs or results that no other step joins")
            _check_step(node, number, columns, condition)
        except Wrong as wrong:
            raise wrong.within(number).within("steps") from None
        unused = unused - {step.left, step.right} | {len(node.parts) + number}
    if len(node.steps) != len(node.parts) - 1 or not node.steps:
        raise Wrong("there is one step less than inputs").within("steps")
    return node.steps[-1].schema.types


def _check_step(node: p.DeltaJoinExec, number: int, columns: Columns, condition: Condition) -> None:
    step = node.steps[number]
    left, right = node.schema_of(step.left), node.schema_of(step.right)
    columns("left_keys", step.left_keys, left)
    columns("right_keys", step.right_keys, right)
    if not step.left_keys or len(step.left_keys) != len(step.right_keys):
        raise Wrong("both sides have keys, as many")
    if len(step.null_safe) not in (0, len(step.left_keys)):
        raise Wrong("there is one for each key, or none").within("null_safe")
    for a, b in zip(step.left_keys, step.right_keys, strict=True):
        if left[a].type.arrow != right[b].type.arrow:
            raise Wrong(f"keys of {left[a].type} and {right[b].type} are compared").within("right_keys")
    both = Schema((*left.fields, *right.fields))
    shown = left if step.kind.left_only else both
    if node.conditions[number] is not None:
        if step.kind is not JoinKind.INNER:
            raise Wrong("only an INNER one has a condition").within("kind")
        condition(node.conditions[number], both.types, "conditions", number)
    if node.filters[number] is not None:
        condition(node.filters[number], shown.types, "filters", number)
    columns("columns", step.columns, shown)
    given = [shown[c].type.arrow for c in step.columns]
    if given != [t.arrow for t in step.schema.types]:
        raise Wrong("its columns are of other types").within("schema")
