"""Plain objects of JSON to flat columns, in one pass over their bytes.

What is plain: an object without escapes, control characters or bytes that are no UTF-8; each wanted member once and of the
kind that its column wants: a text, `true` or `false`, an integer within the column's range, a number that is exact in few
steps. A column that an object lacks, or that is `null`, is NULL. Every other object is left alone, for who knows all rules: so
this is only ever faster, never another answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from runtime.kernels import json_read_twin as twin
from runtime.kernels.column_filling import STRINGS, ColumnFilling, Slot
from runtime.kernels.native import kernel

__all__ = ["Member", "ObjectPlan", "Value", "is_in_c", "object_plan", "read_objects"]

_json_read = kernel("json_read", "xiixiiIXIIIB")


class Value(IntEnum):
    """What a column wants."""

    INTEGER = 0
    REAL = 1
    BOOLEAN = 2
    TEXT = 3
    DECIMAL = 4


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object that is wanted, and the Arrow type of its column: of the width that its values have."""

    name: str
    value: Value
    type: pa.DataType


@dataclass(frozen=True)
class ObjectPlan:
    """Which members of objects are wanted."""

    names: np.ndarray
    name_ends: np.ndarray
    nodes: np.ndarray
    slots: tuple[Slot, ...]


def is_in_c() -> bool:
    """Whether reading is fast: without the kernel, others are faster."""
    return _json_read is not None


def object_plan(members: Sequence[Member]) -> ObjectPlan:
    """What is read for these members, in this order."""
    names = [m.name.encode("utf-8", "surrogatepass") for m in members]
    nodes: list[int] = []
    slots: list[Slot] = []
    for number, member in enumerate(members):
        type_ = member.type
        text = member.value is Value.TEXT
        slots.append(Slot(STRINGS if text else 1 if pt.is_boolean(type_) else type_.bit_width // 8, type_))
        scale = (type_.scale, type_.precision) if member.value is Value.DECIMAL else (0, 0)
        nodes += [int(member.value), number, *scale]
    return ObjectPlan(
        np.frombuffer(b"".join(names), np.uint8),
        np.cumsum([len(n) for n in names], dtype=np.int64),
        np.array(nodes, np.int64),
        tuple(slots),
    )


def read_objects(
    plan: ObjectPlan, data: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[list[pa.Array], np.ndarray]:
    """The columns of the plain ones among objects that each stand from a start to an end; and which were left alone.

    Args:
        data: uint8. starts, ends: int64 (n,).

    Returns:
        The columns, and bool (n,): true for an object that has no row in them.
    """
    filling = ColumnFilling(plan.slots, len(starts), len(data))
    saved = np.empty(3 * len(plan.slots), np.int64)
    seen, order = np.empty(len(plan.slots), np.int64), np.full(twin.MOST_KEYS, -1, np.int64)
    left = np.empty(len(starts), np.bool_)
    call = _json_read or twin.read
    table = filling.table.reshape(-1)
    call(data, starts, ends, plan.names, plan.name_ends, plan.nodes, table, filling.arena, saved, seen, order, left)
    return [filling.column(i) for i in range(len(plan.slots))], left
