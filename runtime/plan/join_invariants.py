"""What every plan keeps of joins of several inputs on one key, and of ASOF joins; the rest is in `invariants.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from runtime.core.schema import Schema
from runtime.core.types import DataType
from runtime.plan import nodes as p
from runtime.plan.decoding import Wrong
from runtime.plan.parts import JoinKind
from runtime.plan.snapshot_nodes import table_side

__all__ = ["check_nearest", "check_tables", "joined_on_one_key"]

Columns = Callable[[str, Iterable[int], Schema], None]
"""Raises Wrong, with the field, where a position is none of a schema's columns."""


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


def check_tables(node: p.DeltaJoinExec) -> None:
    """A join that keeps nothing is INNER, and has keys; both its inputs are columns of tables."""
    if node.kind is not JoinKind.INNER:
        raise Wrong("such a join is INNER").within("kind")
    if not node.left_keys:
        raise Wrong("such a join has keys").within("left_keys")
    for field, side in (("left", node.left), ("right", node.right)):
        if table_side(side) is None:
            raise Wrong("it gives columns of a table").within(field)


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
