"""`value IN (items)` with SQL's three values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from runtime.eval.literal import literal_array
from runtime.expr.columns import as_array
from runtime.expr.compare import equal
from runtime.expr.function import Value
from runtime.expr.nodes import Constants

__all__ = ["ConstantSet", "in_list"]


@dataclass(frozen=True, slots=True)
class ConstantSet:
    """Distinct values that are not NULL, and whether there was a NULL among them, too."""

    values: pa.Array
    has_null: bool

    @staticmethod
    def of(constants: Constants) -> ConstantSet:
        values = literal_array(constants.values, constants.type)
        return ConstantSet(pc.drop_null(pc.unique(values)), values.null_count > 0)


def in_list(value: Value, items: Sequence[Value | ConstantSet], length: int) -> Value:
    """TRUE when an item equals the value; else UNKNOWN when the value or an item is NULL; else FALSE. No items:
    FALSE."""
    sets = [i for i in items if isinstance(i, ConstantSet)]
    single = [i for i in items if not isinstance(i, ConstantSet)]
    simple = not pa.types.is_nested(value.type) and not pa.types.is_floating(value.type)
    if simple and single and all(isinstance(i, pa.Scalar) for i in single) and not isinstance(value, pa.Scalar):
        sets.append(_set_of(value, single))
        single = []
    found: list[Value] = [_in_set(as_array(value, length), known) for known in sets]
    found += [equal(value, item, length) for item in single]
    if not found:
        return pa.scalar(False)
    result = found[0]
    for other in found[1:]:
        result = pc.or_kleene(result, other)
    return result


def _set_of(value: Value, items: Sequence[pa.Scalar]) -> ConstantSet:
    known = [i for i in items if i.is_valid]
    values = pa.concat_arrays([pa.repeat(i, 1).cast(value.type) for i in known]) if known else pa.array([], value.type)
    return ConstantSet(values, len(known) < len(items))


def _in_set(value: pa.Array, known: ConstantSet) -> pa.Array:
    # Adding zero makes one zero of the two that floats have.
    floats = pa.types.is_floating(value.type)
    candidates = pc.add(known.values, pa.scalar(0, known.values.type)) if floats else known.values
    found = pc.is_in(pc.add(value, pa.scalar(0, value.type)) if floats else value, value_set=candidates)
    unknown = pa.scalar(None, pa.bool_())
    if known.has_null:
        return pc.if_else(found, pa.scalar(True), as_array(unknown, len(value)))
    return pc.if_else(pc.is_valid(value), found, unknown) if value.null_count else found
