"""`value IN (items)` with SQL's three values."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from runtime.expr.columns import as_array
from runtime.expr.compare import equal
from runtime.expr.function import Value

__all__ = ["in_list"]


def in_list(value: Value, items: Sequence[Value], length: int) -> Value:
    """TRUE when an item equals the value; else UNKNOWN when the value or an item is NULL; else FALSE. No items:
    FALSE."""
    if not items:
        return pa.scalar(False)
    simple = not pa.types.is_nested(value.type) and not pa.types.is_floating(value.type)
    if simple and all(isinstance(i, pa.Scalar) for i in items) and not isinstance(value, pa.Scalar):
        return _in_constants(value, items, length)
    result = equal(value, items[0], length)
    for item in items[1:]:
        result = pc.or_kleene(result, equal(value, item, length))
    return result


def _in_constants(value: pa.Array, items: Sequence[pa.Scalar], length: int) -> pa.Array:
    known = [i for i in items if i.is_valid]
    candidates = (
        pa.concat_arrays([pa.repeat(i, 1).cast(value.type) for i in known]) if known else pa.array([], value.type)
    )
    found = pc.is_in(value, value_set=candidates)
    unknown = pa.scalar(None, pa.bool_())
    if len(known) < len(items):
        return pc.if_else(found, pa.scalar(True), as_array(unknown, length))
    return pc.if_else(pc.is_valid(value), found, unknown) if value.null_count else found
