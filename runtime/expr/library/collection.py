"""Functions of arrays. Elements are equal when their values are, NULL equals NULL, nested values too.

Everything works on the items of all rows at once: numbers for equal items, sorts within rows, gathers. Where a new
element meets an array, it is cast to the element type when that is implicit; texts of different lengths meet in the
longer one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError
from runtime.core.types import BOOLEAN, INT, STRING, DataType, TypeRoot
from runtime.expr.columns import combine_valid, from_numpy, numbers, validity
from runtime.expr.function import ArgumentType, CallRule, CallTypes, EvalContext, Nulls
from runtime.expr.library.declare import ARRAY_, BOOLEAN_, CHARACTER, WHOLE_, Family, element_of, optional, same
from runtime.expr.lists import Parts, built, by_row, item_codes, kept, lengths_of, parts_of
from runtime.expr.nullability import cast_type
from runtime.expr.typing import common_type, implicit_cast

__all__ = ["FAMILY"]

FAMILY = Family("collection")
_R = TypeRoot
_Typed = tuple[tuple[DataType, ...], DataType]


def _element_type(array: DataType, value: DataType) -> DataType | None:
    """The type in which an array's elements and a further value meet."""
    element = array.children[0]
    nullable = element.nullable or value.nullable
    if value.root is _R.NULL:
        return element.with_nullable(True)
    if element.root is _R.NULL:
        return value.with_nullable(nullable)
    if (element.is_character and value.is_character) or (element.is_binary and value.is_binary):
        common = common_type((element, value))
        return None if common is None else common.with_nullable(nullable)
    if element.same_ignoring_nullability(value) or implicit_cast(value, element):
        return element.with_nullable(nullable)
    return None


def _with_element(grows: bool, result: Callable[[DataType, CallTypes], DataType]) -> CallRule:
    """A rule over (array, value): the value in the element type; `grows` when the value becomes an element."""

    def rule(types: CallTypes) -> _Typed | None:
        if len(types) != 2 or types[0].root is not _R.ARRAY:
            return None
        element = _element_type(types[0], types[1])
        if element is None:
            return None
        if not grows:
            element = element.with_nullable(types[0].children[0].nullable)
        array = types[0].with_(children=(element,))
        return (array, element.with_nullable(types[1].nullable or types[1].root is _R.NULL)), result(array, types)

    return rule


def _extended(array: DataType, types: CallTypes) -> DataType:
    # An untyped or nullable value makes the whole result nullable, as in Flink.
    return array.with_nullable(any(t.nullable for t in types))


def _of_array(array: DataType, types: CallTypes) -> DataType:
    return types[0]


# Adding and removing


def _attached(context: EvalContext, length: int, array: pa.Array, value: pa.Array, front: bool) -> pa.Array:
    parts = parts_of(array)
    values = pa.concat_arrays([array.values.take(pa.array(parts.rows)), value])
    lengths = parts.lengths + 1
    ends = np.cumsum(lengths)
    order = np.empty(int(ends[-1]) if length else 0, np.int64)
    new = ends - lengths if front else ends - 1
    mask = np.ones(len(order), np.bool_)
    mask[new] = False
    order[mask] = np.arange(len(parts.rows))
    order[new] = len(parts.rows) + np.arange(length)
    return built(values.take(pa.array(order)), lengths, parts.valid, context.result_type.arrow)


@FAMILY.special(
    "ARRAY_APPEND",
    _with_element(True, _extended),
    "The array with one more element at its end.",
    form=("ARRAY", "ANY"),
    nulls=Nulls.RULE,
)
@by_row
def array_append(context: EvalContext, length: int, array: pa.Array, value: pa.Array) -> pa.Array:
    return _attached(context, length, array, value, front=False)


@FAMILY.special(
    "ARRAY_PREPEND",
    _with_element(True, _extended),
    "The array with one more element at its start.",
    form=("ARRAY", "ANY"),
    nulls=Nulls.RULE,
)
@by_row
def array_prepend(context: EvalContext, length: int, array: pa.Array, value: pa.Array) -> pa.Array:
    return _attached(context, length, array, value, front=True)


def _matches(array: pa.Array, value: pa.Array) -> tuple[Parts, Any]:
    """Which items are the value of their row."""
    parts = parts_of(array)
    items, wanted = item_codes([array.values.take(pa.array(parts.rows)), value])
    return parts, items == wanted[parts.parents()]


@FAMILY.special(
    "ARRAY_REMOVE",
    _with_element(False, _of_array),
    "The array without the elements that equal a value.",
    form=("ARRAY", "ANY"),
    nulls=Nulls.RULE,
)
@by_row
def array_remove(context: EvalContext, length: int, array: pa.Array, value: pa.Array) -> pa.Array:
    parts, hit = _matches(array, value)
    return kept(parts, array.values.take(pa.array(parts.rows)), ~hit, context.result_type.arrow)


@FAMILY.special(
    "ARRAY_CONTAINS",
    _with_element(False, lambda a, t: BOOLEAN.with_nullable(t[0].nullable)),
    "Whether a value, NULL too, is an element.",
    form=("ARRAY", "ANY"),
    nulls=Nulls.RULE,
)
@by_row
def array_contains(context: EvalContext, length: int, array: pa.Array, value: pa.Array) -> pa.Array:
    parts, hit = _matches(array, value)
    return from_numpy(np.bincount(parts.parents()[hit], minlength=length) > 0, parts.valid, pa.bool_())


@FAMILY.special(
    "ARRAY_POSITION",
    _with_element(False, lambda a, t: INT.with_nullable(t[0].nullable or t[1].nullable)),
    "Where a value first stands in the array, from 1; 0 when it does not.",
    form=("ARRAY", "ANY"),
    nulls=Nulls.RULE,
)
@by_row
def array_position(context: EvalContext, length: int, array: pa.Array, value: pa.Array) -> pa.Array:
    parts, hit = _matches(array, value)
    places = np.zeros(length, np.int64)
    found = np.flatnonzero(hit)[::-1]
    places[parts.parents()[found]] = parts.within()[found] + 1
    return from_numpy(places, combine_valid(parts.valid, validity(value)), pa.int32())


# One array


@FAMILY.scalar(
    "CARDINALITY",
    [ArgumentType("ARRAY or MAP", lambda t: t.root in (_R.ARRAY, _R.MAP, _R.MULTISET), lambda t: None)],
    INT,
    "The number of elements, or of entries.",
)
@by_row
def cardinality(context: EvalContext, length: int, collection: pa.Array) -> pa.Array:
    if context.arg_types[0].root is _R.MULTISET:
        parts = parts_of(collection)
        counts = collection.items.take(pa.array(parts.rows)).to_numpy(zero_copy_only=False)
        return from_numpy(np.bincount(parts.parents(), weights=counts, minlength=length), parts.valid, pa.int32())
    return from_numpy(lengths_of(collection), validity(collection), pa.int32())


@FAMILY.scalar(
    "ELEMENT",
    [ARRAY_],
    element_of(0),
    "The only element; NULL of an empty array, an error when there are more.",
    nulls=Nulls.MAYBE,
    can_fail=True,
)
@by_row
def element(context: EvalContext, length: int, array: pa.Array) -> pa.Array:
    parts = parts_of(array)
    if (parts.lengths > 1).any():
        raise ExpressionError(
            f"ELEMENT of an array with {int(parts.lengths.max())} elements",
            code="E2002",
            hint="array[1] is the first of them",
        )
    at = np.full(length, -1, np.int64)
    at[parts.lengths == 1] = parts.rows
    return array.values.take(pa.array(at, mask=at < 0))


@FAMILY.scalar(
    "ARRAY_DISTINCT", [ARRAY_], same(0), "The array without repeated elements, in the order of the first ones."
)
@by_row
def array_distinct(context: EvalContext, length: int, array: pa.Array) -> pa.Array:
    parts = parts_of(array)
    values = array.values.take(pa.array(parts.rows))
    return kept(parts, values, _first_of_each(parts.parents(), item_codes([values])[0]), context.result_type.arrow)


def _together(parents: Any, codes: Any, count: int) -> Any:
    return parents * count + codes


def _first_of_each(parents: Any, codes: Any) -> Any:
    """Which items are the first of their value in their row."""
    first = np.zeros(len(codes), np.bool_)
    first[np.unique(_together(parents, codes, int(codes.max(initial=0)) + 1), return_index=True)[1]] = True
    return first


@FAMILY.scalar("ARRAY_REVERSE", [ARRAY_], same(0), "The array back to front.")
@by_row
def array_reverse(context: EvalContext, length: int, array: pa.Array) -> pa.Array:
    parts = parts_of(array)
    ends = np.repeat(parts.starts() + parts.lengths - 1, parts.lengths)
    return built(
        array.values.take(pa.array(parts.rows[ends - parts.within()])),
        parts.lengths,
        parts.valid,
        context.result_type.arrow,
    )


@FAMILY.scalar(
    "ARRAY_SLICE",
    [ARRAY_, WHOLE_, optional(WHOLE_)],
    same(0),
    "The elements from a place to another, both included, from 1; negative places count from the end.",
)
@by_row
def array_slice(context: EvalContext, length: int, array: pa.Array, start: pa.Array, *end: pa.Array) -> pa.Array:
    parts = parts_of(array)
    size = parts.lengths
    low, valid = numbers(start, length)
    high, valid_end = numbers(end[0], length) if end else (size, None)
    low, high = low.astype(np.int64), high.astype(np.int64)
    low = np.maximum(low + np.where(low < 0, size + 1, 0), 1)
    high = high + np.where(high < 0, size + 1, 0)
    high = np.where(high == 0, 1, np.minimum(high, size))
    valid = combine_valid(parts.valid, valid, valid_end)
    place = parts.within() + 1
    parents = parts.parents()
    keep = (place >= low[parents]) & (place <= high[parents])
    lengths = np.bincount(parents[keep], minlength=length)
    return built(array.values.take(pa.array(parts.rows[keep])), lengths, valid, context.result_type.arrow)


def _sorted_order(parents: Any, values: pa.Array, descending: Any, nulls_first: Any) -> Any:
    """The places of items sorted within their rows; `descending` and `nulls_first` are per item."""
    ranks = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    ranks = np.where(descending, -ranks, ranks)
    null = values.is_null().to_numpy(zero_copy_only=False)
    edge = np.where(null, np.where(nulls_first, -1, 1), 0)
    return np.lexsort((ranks, edge, parents))


_SORTABLE = ArgumentType(
    "ARRAY<COMPARABLE>",
    lambda t: t.root is _R.ARRAY and not t.children[0].is_unordered,
    lambda t: ARRAY_.coerce(t) if t.root is _R.NULL else None,
)


@FAMILY.scalar(
    "ARRAY_SORT",
    [_SORTABLE, optional(BOOLEAN_), optional(BOOLEAN_)],
    same(0),
    "The array in order: ascending unless FALSE is given; NULLs first when ascending, unless a third argument says.",
)
@by_row
def array_sort(context: EvalContext, length: int, array: pa.Array, *options: pa.Array) -> pa.Array:
    parts = parts_of(array)
    given = [numbers(o, length) for o in options]
    ascending = given[0][0] if given else np.ones(length, np.bool_)
    nulls_first = given[1][0] if len(given) > 1 else ascending
    parents = parts.parents()
    values = array.values.take(pa.array(parts.rows))
    order = _sorted_order(parents, values, ~ascending[parents], nulls_first[parents])
    valid = combine_valid(parts.valid, *(v for _, v in given))
    lengths = parts.lengths if valid is None else np.where(valid, parts.lengths, 0)
    chosen = order if valid is None else order[valid[parents[order]]]
    return built(values.take(pa.array(chosen)), lengths, valid, context.result_type.arrow)


def _extreme(array: pa.Array, greatest: bool) -> pa.Array:
    parts = parts_of(array)
    values = array.values.take(pa.array(parts.rows))
    known = values.is_valid().to_numpy(zero_copy_only=False)
    parents = parts.parents()[known]
    order = _sorted_order(
        parents, values.filter(pa.array(known)), np.full(len(parents), greatest), np.zeros(len(parents), np.bool_)
    )
    at = np.full(len(array), -1, np.int64)
    rows, first = np.unique(parents[order], return_index=True)
    at[rows] = np.flatnonzero(known)[order[first]]
    return values.take(pa.array(at, mask=at < 0))


@FAMILY.scalar("ARRAY_MAX", [_SORTABLE], element_of(0), "The greatest element that is not NULL.", nulls=Nulls.MAYBE)
@by_row
def array_max(context: EvalContext, length: int, array: pa.Array) -> pa.Array:
    return _extreme(array, greatest=True)


@FAMILY.scalar("ARRAY_MIN", [_SORTABLE], element_of(0), "The least element that is not NULL.", nulls=Nulls.MAYBE)
@by_row
def array_min(context: EvalContext, length: int, array: pa.Array) -> pa.Array:
    return _extreme(array, greatest=False)


_TEXTS = ArgumentType(
    "ARRAY<CHARACTER>",
    lambda t: t.root is _R.ARRAY and (t.children[0].is_character or t.children[0].root is _R.NULL),
    lambda t: DataType(_R.ARRAY, children=(STRING,)) if t.root is _R.NULL else None,
)


@FAMILY.scalar(
    "ARRAY_JOIN",
    [_TEXTS, CHARACTER, optional(CHARACTER)],
    STRING,
    "The elements with a separator between; NULLs are left out, or written as the third argument.",
)
@by_row
def array_join(context: EvalContext, length: int, array: pa.Array, separator: pa.Array, *instead: pa.Array) -> pa.Array:
    parts = parts_of(array)
    values = array.values.take(pa.array(parts.rows)).cast(pa.string())
    known = values.is_valid().to_numpy(zero_copy_only=False)
    lists = pa.list_(pa.string())
    valid = combine_valid(parts.valid, *(validity(i) for i in instead))
    if instead:
        values = pc.coalesce(values, instead[0].take(pa.array(parts.parents())))
        texts = built(pc.fill_null(values, ""), parts.lengths, valid, lists)
    else:
        texts = kept(parts, values, known, lists)
    return pc.binary_join(texts, separator)


# Several arrays


def _common_arrays(types: CallTypes) -> _Typed | None:
    common = common_type(types) if types else None
    if common is None or common.root is not _R.ARRAY:
        return None
    return tuple(cast_type(t, common) for t in types), common


def _two_arrays(types: CallTypes) -> _Typed | None:
    return _common_arrays(types) if len(types) == 2 else None


@FAMILY.special(
    "ARRAY_CONCAT",
    _common_arrays,
    "The arrays one after the other; NULL when one is NULL.",
    form=("ARRAY", "ARRAY?"),
    nulls=Nulls.RULE,
)
@by_row
def array_concat(context: EvalContext, length: int, *arrays: pa.Array) -> pa.Array:
    return _concatenated(arrays, context.result_type.arrow)


def _concatenated(arrays: tuple[pa.Array, ...], type_: pa.DataType) -> pa.Array:
    parts = [parts_of(a) for a in arrays]
    valid = combine_valid(*(p.valid for p in parts))
    values = pa.concat_arrays([a.values.take(pa.array(p.rows)) for a, p in zip(arrays, parts, strict=True)])
    order = np.argsort(np.concatenate([p.parents() for p in parts]), kind="stable")
    lengths = sum(p.lengths for p in parts)
    if valid is not None:
        parents = np.concatenate([p.parents() for p in parts])[order]
        order, lengths = order[valid[parents]], np.where(valid, lengths, 0)
    return built(values.take(pa.array(order)), lengths, valid, type_)


@FAMILY.special(
    "ARRAY_UNION", _two_arrays, "The distinct elements of both arrays.", form=("ARRAY", "ARRAY"), nulls=Nulls.RULE
)
@by_row
def array_union(context: EvalContext, length: int, *arrays: pa.Array) -> pa.Array:
    both = _concatenated(arrays, context.result_type.arrow)
    parts = parts_of(both)
    values = both.values.take(pa.array(parts.rows))
    return kept(parts, values, _first_of_each(parts.parents(), item_codes([values])[0]), context.result_type.arrow)


def _compared(context: EvalContext, a: pa.Array, b: pa.Array, inside: bool) -> pa.Array:
    """The distinct elements of the first array that are (or are not) in the second."""
    left, right = parts_of(a), parts_of(b)
    values = a.values.take(pa.array(left.rows))
    codes, others = item_codes([values, b.values.take(pa.array(right.rows))])
    count = int(max(codes.max(initial=0), others.max(initial=0))) + 1
    found = np.isin(_together(left.parents(), codes, count), _together(right.parents(), others, count))
    valid = combine_valid(left.valid, right.valid)
    keep = _first_of_each(left.parents(), codes) & (found if inside else ~found)
    if valid is not None:
        keep &= valid[left.parents()]
    return kept(Parts(left.rows, left.lengths, valid), values, keep, context.result_type.arrow)


@FAMILY.special(
    "ARRAY_EXCEPT",
    _two_arrays,
    "The distinct elements of the first array that are not in the second.",
    form=("ARRAY", "ARRAY"),
    nulls=Nulls.RULE,
)
@by_row
def array_except(context: EvalContext, length: int, a: pa.Array, b: pa.Array) -> pa.Array:
    return _compared(context, a, b, inside=False)


@FAMILY.special(
    "ARRAY_INTERSECT",
    _two_arrays,
    "The distinct elements that are in both arrays.",
    form=("ARRAY", "ARRAY"),
    nulls=Nulls.RULE,
)
@by_row
def array_intersect(context: EvalContext, length: int, a: pa.Array, b: pa.Array) -> pa.Array:
    return _compared(context, a, b, inside=True)
