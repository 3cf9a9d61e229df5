"""Arrays of PostgreSQL: what Flink's functions of arrays have not.

Source: PostgreSQL 15, "Array Functions and Operators".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError
from runtime.core.types import INT, DataType, RowField, TypeRoot, array
from runtime.expr.columns import combine_valid, from_numpy, numbers, validity
from runtime.expr.function import CallTypes, EvalContext, Nulls
from runtime.expr.library.declare import ARRAY_, BOOLEAN_, INTEGER, Family, same
from runtime.expr.lists import built, by_row, item_codes, kept, parts_of
from runtime.expr.typing import common_type, implicit_cast

__all__ = ["FAMILY"]

FAMILY = Family("postgres_arrays")
_R = TypeRoot
_Typed = tuple[tuple[DataType, ...], DataType]


def _elements(types: CallTypes, values: int) -> DataType | None:
    """The array's type, where further values can be its elements."""
    if len(types) != 1 + values or types[0].root is not _R.ARRAY:
        return None
    element = types[0].children[0]
    for value in types[1:]:
        met = element if value.root is _R.NULL else common_type([element, value])
        if met is None or not implicit_cast(element, met):
            return None
        element = met.with_nullable(True)
    return array(element).with_nullable(types[0].nullable)


def _replaced(types: CallTypes) -> _Typed | None:
    whole = _elements(types, 2)
    return None if whole is None else ((whole, whole.children[0], whole.children[0]), whole)


@FAMILY.special(
    "PG_ARRAY_REPLACE",
    _replaced,
    "The array with another value in the place of each element that equals one; NULL equals NULL.",
    form=("ARRAY", "ANY", "ANY"),
    nulls=Nulls.RULE,
    syntax="PG_ARRAY_REPLACE(array, from, to)",
)
@by_row
def array_replace(context: EvalContext, length: int, given: pa.Array, old: pa.Array, new: pa.Array) -> pa.Array:
    parts = parts_of(given)
    items = given.values.take(pa.array(parts.rows))
    codes, wanted = item_codes([items, old])
    parents = parts.parents()
    place = np.where(codes == wanted[parents], len(items) + parents, np.arange(len(items)))
    together = pa.concat_arrays([items, new.cast(items.type)]).take(pa.array(place))
    return built(together, parts.lengths, parts.valid, context.result_type.arrow)


def _positions(types: CallTypes) -> _Typed | None:
    whole = _elements(types, 1)
    if whole is None:
        return None
    return (whole, whole.children[0]), array(INT.not_null()).with_nullable(types[0].nullable)


@FAMILY.special(
    "PG_ARRAY_POSITIONS",
    _positions,
    "Where a value stands in the array, from 1.",
    form=("ARRAY", "ANY"),
    nulls=Nulls.RULE,
    syntax="PG_ARRAY_POSITIONS(array, value)",
)
@by_row
def array_positions(context: EvalContext, length: int, given: pa.Array, value: pa.Array) -> pa.Array:
    parts = parts_of(given)
    codes, wanted = item_codes([given.values.take(pa.array(parts.rows)), value])
    places = pa.array((parts.within() + 1).astype(np.int32))
    return kept(parts, places, codes == wanted[parts.parents()], context.result_type.arrow)


@FAMILY.scalar("PG_TRIM_ARRAY", [ARRAY_, INTEGER], same(0), "The array without its last elements.", can_fail=True)
@by_row
def trim_array(context: EvalContext, length: int, given: pa.Array, count: pa.Array) -> pa.Array:
    parts = parts_of(given)
    less, valid = numbers(count, length)
    less = np.broadcast_to(np.asarray(less, np.int64), (length,))
    known = combine_valid(parts.valid, valid, validity(count))
    wrong = (less < 0) | (less > parts.lengths)
    if known is not None:
        wrong = wrong & known
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ExpressionError(
            f"an array of {int(parts.lengths[row])} cannot lose {int(less[row])} elements",
            code="E2001",
            hint="from 0 to the number of elements",
        )
    parents = parts.parents()
    keep = parts.within() < (parts.lengths - less)[parents]
    if known is not None:
        keep &= known[parents]
    found = kept(parts, given.values.take(pa.array(parts.rows)), keep, context.result_type.arrow)
    return found if known is None else built(found.values, np.diff(found.offsets.to_numpy()), known, found.type)


def _rows_of_fields(types: CallTypes) -> _Typed | None:
    if not types or any(t.root is not _R.ARRAY for t in types):
        return None
    fields = tuple(RowField(f"f{i}", t.children[0].with_nullable(True)) for i, t in enumerate(types))
    return tuple(types), array(DataType(_R.ROW, fields=fields, nullable=False)).not_null()


@FAMILY.special(
    "PG_LOCKSTEP",
    _rows_of_fields,
    "The elements of arrays side by side, as rows; those of shorter arrays are NULL at the end, and NULL has none.",
    form=("ARRAY", "ARRAY?"),
    nulls=Nulls.RULE,
    syntax="PG_LOCKSTEP(array, ...)",
)
@by_row
def lockstep(context: EvalContext, length: int, *arrays: pa.Array) -> pa.Array:
    every = [parts_of(a) for a in arrays]
    lengths = np.max([parts.lengths for parts in every], axis=0)
    rows = np.repeat(np.arange(length), lengths)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    columns = []
    for given, parts in zip(arrays, every, strict=True):
        missing = place >= parts.lengths[rows]
        first = parts.starts()[rows] + place
        at = parts.rows[np.where(missing, 0, first)] if len(parts.rows) else np.zeros(len(rows), np.int64)
        columns.append(given.values.take(pa.array(at, mask=missing)))
    element = context.result_type.children[0].arrow
    fields = [c.cast(element.field(i).type) for i, c in enumerate(columns)]
    return built(pa.StructArray.from_arrays(fields, fields=list(element)), lengths, None, context.result_type.arrow)


@FAMILY.scalar(
    "PG_SUBSCRIPTS",
    [ARRAY_, INTEGER, BOOLEAN_],
    array(INT),
    "The places of the elements of an array, from the last one where TRUE says so; none beyond its one dimension.",
)
@by_row
def subscripts(context: EvalContext, length: int, given: pa.Array, dimension: pa.Array, back: pa.Array) -> pa.Array:
    parts = parts_of(given)
    wanted, valid = numbers(dimension, length)
    lengths = np.where(np.broadcast_to(wanted, length) == 1, parts.lengths, 0)
    rows = np.repeat(np.arange(length), lengths)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + 1
    turned = pc.fill_null(back, False).to_numpy(zero_copy_only=False)[rows]
    places = np.where(turned, lengths[rows] + 1 - place, place).astype(np.int32)
    known = combine_valid(parts.valid, valid, validity(back))
    if known is not None:
        places, lengths = places[known[rows]], np.where(known, lengths, 0)
    return built(pa.array(places), lengths, known, context.result_type.arrow)


_MOST, _MOST_BYTES = 10_000_000, 1 << 28
"""How many elements, and of how many bytes, ARRAY_FILL makes for all rows at once."""


def _filled(types: CallTypes) -> _Typed | None:
    if len(types) != 2 or types[1].root is not _R.ARRAY or not types[1].children[0].is_integer:
        return None
    element = types[0].materialized().with_nullable(True)
    return tuple(types), array(element).with_nullable(types[1].nullable)


@FAMILY.special(
    "PG_ARRAY_FILL",
    _filled,
    "An array with a value as often as the one element of the second array says.",
    form=("ANY", "ARRAY<INT>"),
    nulls=Nulls.RULE,
    can_fail=True,
    syntax="PG_ARRAY_FILL(value, ARRAY[count])",
)
@by_row
def array_fill(context: EvalContext, length: int, value: pa.Array, sizes: pa.Array) -> pa.Array:
    parts = parts_of(sizes)
    known = np.ones(length, np.bool_) if parts.valid is None else parts.valid
    if (known & (parts.lengths != 1)).any():
        raise ExpressionError(
            "an array has one dimension here", code="E2029", hint="ARRAY_FILL(value, ARRAY[count]) has one"
        )
    counts = np.zeros(length, np.int64)
    counts[parts.parents()] = sizes.values.take(pa.array(parts.rows)).fill_null(-1).to_numpy(zero_copy_only=False)
    if (counts < 0).any():
        raise ExpressionError("a size of an array is NULL or negative", code="E2029", hint="from 0 on")
    total = int(np.minimum(counts, _MOST + 1).sum())
    if total > _MOST or total * max(value.nbytes // max(len(value), 1), 1) > _MOST_BYTES:
        raise ExpressionError(
            f"ARRAY_FILL would make {max(int(counts.max()), total):,} elements, and {_MOST:,} of {_MOST_BYTES >> 20} MB are the most",
            code="E2029",
            hint="give a smaller size",
        )
    items = value.take(pa.array(np.repeat(np.arange(length), counts)))
    return built(items.cast(context.result_type.children[0].arrow), counts, parts.valid, context.result_type.arrow)


def _sorted_places(types: CallTypes) -> _Typed | None:
    if len(types) != 2 or types[1].root is not _R.ARRAY:
        return None
    met = common_type([types[0], types[1].children[0]])
    if met is None or met.is_unordered:
        return None
    wanted = (met.with_nullable(types[0].nullable), array(met.with_nullable(True)).with_nullable(types[1].nullable))
    return wanted, INT.with_nullable(types[0].nullable or types[1].nullable)


@FAMILY.special(
    "PG_WIDTH_BUCKET",
    _sorted_places,
    "How many of the bounds in an array, which are in order, are not greater than a value.",
    form=("ANY", "ARRAY"),
    nulls=Nulls.RULE,
    syntax="PG_WIDTH_BUCKET(value, bounds)",
)
@by_row
def width_bucket(context: EvalContext, length: int, value: pa.Array, bounds: pa.Array) -> pa.Array:
    parts = parts_of(bounds)
    parents = parts.parents()
    below = pc.less_equal(bounds.values.take(pa.array(parts.rows)), value.take(pa.array(parents)))
    chosen = pc.fill_null(below, False).to_numpy(zero_copy_only=False)
    counts = np.bincount(parents[chosen], minlength=length).astype(np.int32)
    return from_numpy(counts, combine_valid(parts.valid, validity(value)), pa.int32())
