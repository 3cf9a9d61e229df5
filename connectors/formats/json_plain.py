"""Plain objects of JSON over flat columns, in C; all others are left for `json_decoder`, which knows all rules."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from connectors.formats.json_convert import convert
from connectors.formats.records import BadMask, either
from connectors.formats.text_values import TextRules
from runtime.core.schema import Schema
from runtime.core.types import TypeRoot
from runtime.kernels.json_read import Member, Value, is_in_c, object_plan, read_objects

__all__ = ["read_plain"]

_INTEGERS = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.INTERVAL_MONTH})


def read_plain(
    schema: Schema, rules: TextRules, data: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[pa.RecordBatch, np.ndarray] | None:
    """The rows of plain objects that each stand from a start to an end, and which were left alone, bool (n,). None where it is
    of no use: without the kernel, for columns that are not flat, and where most objects are not plain.

    Args:
        data: uint8. starts, ends: int64 (n,).
    """
    members = _members(schema) if is_in_c() else None
    if members is None:
        return None
    read, left = read_objects(object_plan(members), data, starts, ends)
    if 2 * int(left.sum()) > len(left):
        return None
    cells: list[pa.Array] = []
    wrong: BadMask | None = None
    for column, field in zip(read, schema, strict=True):
        converted, bad = convert(column, field.type, rules)
        cells.append(converted)
        wrong = either(wrong, bad)
    batch = pa.RecordBatch.from_arrays(cells, names=list(schema.names))
    if wrong is not None:
        # They have a reason, which who goes cell by cell knows.
        left[np.flatnonzero(~left)[wrong]] = True
        batch = batch.filter(pa.array(~wrong))
    return batch, left


def _members(schema: Schema) -> list[Member] | None:
    """How plain objects are read into the columns, each under the type of which `convert` makes the column's; None where one
    is not flat."""
    found: list[Member] = []
    for field in schema:
        match field.type.root:
            case TypeRoot.ROW | TypeRoot.ARRAY | TypeRoot.MAP | TypeRoot.MULTISET:
                return None
            case TypeRoot.BOOLEAN:
                value, type_ = Value.BOOLEAN, field.type.arrow
            case TypeRoot.DECIMAL:
                value, type_ = Value.DECIMAL, field.type.arrow
            case TypeRoot.FLOAT | TypeRoot.DOUBLE:
                value, type_ = Value.REAL, field.type.arrow
            case TypeRoot.INTERVAL_SECOND:
                value, type_ = Value.INTEGER, pa.int64()
            case root if root in _INTEGERS:
                value, type_ = Value.INTEGER, field.type.arrow
            case _:
                value, type_ = Value.TEXT, pa.string()
        found.append(Member(field.name, value, type_))
    return found or None
