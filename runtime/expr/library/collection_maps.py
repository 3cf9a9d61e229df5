"""Functions of maps. Of entries with one key the last counts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from runtime.core.errors import ExpressionError
from runtime.core.rooms import Room
from runtime.core.types import STRING, DataType, RowField, TypeRoot, array, map_of
from runtime.expr.columns import combine_valid
from runtime.expr.distinct import map_distinct
from runtime.expr.function import CallTypes, EvalContext, Nulls, Value
from runtime.expr.library.declare import ARRAY_, CHARACTER, MAP_, Family, key_of, optional, value_of
from runtime.expr.lists import built, by_row, map_built, parts_of
from runtime.expr.nullability import cast_type
from runtime.expr.typing import common_type

if TYPE_CHECKING:
    import runtime.expr.java_regex as _java_regex
else:
    _java_regex = Room("runtime.expr.java_regex")

__all__ = ["FAMILY"]

FAMILY = Family("collection of maps")
_TEXT_MAP = map_of(STRING, STRING)


@FAMILY.scalar("MAP_KEYS", [MAP_], lambda t: array(key_of(0)(t)), "The keys.")
@by_row
def map_keys(context: EvalContext, length: int, value: pa.Array) -> pa.Array:
    parts = parts_of(value)
    return built(value.keys.take(pa.array(parts.rows)), parts.lengths, parts.valid, context.result_type.arrow)


@FAMILY.scalar("MAP_VALUES", [MAP_], lambda t: array(value_of(0)(t)), "The values.")
@by_row
def map_values(context: EvalContext, length: int, value: pa.Array) -> pa.Array:
    parts = parts_of(value)
    return built(value.items.take(pa.array(parts.rows)), parts.lengths, parts.valid, context.result_type.arrow)


def _entries(types: CallTypes) -> DataType:
    fields = (RowField("key", key_of(0)(types)), RowField("value", value_of(0)(types)))
    return array(DataType(TypeRoot.ROW, fields=fields))


@FAMILY.scalar("MAP_ENTRIES", [MAP_], _entries, "The entries as rows (key, value).")
@by_row
def map_entries(context: EvalContext, length: int, value: pa.Array) -> pa.Array:
    parts = parts_of(value)
    rows = pa.array(parts.rows)
    type_ = context.result_type.arrow
    fields = [type_.value_type.field(i) for i in range(2)]
    entries = pa.StructArray.from_arrays([value.keys.take(rows), value.items.take(rows)], fields=fields)
    return built(entries, parts.lengths, parts.valid, type_)


def _union_rule(types: CallTypes) -> tuple[tuple[DataType, ...], DataType] | None:
    common = common_type(types) if types else None
    if common is None or common.root is not TypeRoot.MAP:
        return None
    return tuple(cast_type(t, common) for t in types), common


@FAMILY.special(
    "MAP_UNION",
    _union_rule,
    "The entries of all maps, later ones before earlier ones; NULL when one is NULL.",
    form=("MAP", "MAP?"),
    nulls=Nulls.RULE,
)
@by_row
def map_union(context: EvalContext, length: int, *maps: pa.Array) -> pa.Array:
    parts = [parts_of(m) for m in maps]
    valid = combine_valid(*(p.valid for p in parts))
    keys = pa.concat_arrays([m.keys.take(pa.array(p.rows)) for m, p in zip(maps, parts, strict=True)])
    items = pa.concat_arrays([m.items.take(pa.array(p.rows)) for m, p in zip(maps, parts, strict=True)])
    parents = np.concatenate([p.parents() for p in parts])
    order = np.argsort(parents, kind="stable")
    lengths = sum(p.lengths for p in parts)
    if valid is not None:
        order, lengths = order[valid[parents[order]]], np.where(valid, lengths, 0)
    rows = pa.array(order)
    return map_built(keys.take(rows), items.take(rows), lengths, valid, context.result_type.arrow)


def _from_arrays(types: CallTypes) -> DataType:
    return map_of(types[0].children[0], types[1].children[0])


@FAMILY.scalar(
    "MAP_FROM_ARRAYS",
    [ARRAY_, ARRAY_],
    _from_arrays,
    "A map of an array of keys and one of values, of one length.",
    can_fail=True,
)
@by_row
def map_from_arrays(context: EvalContext, length: int, keys: pa.Array, values: pa.Array) -> pa.Array:
    left, right = parts_of(keys), parts_of(values)
    valid = combine_valid(left.valid, right.valid)
    known = np.ones(length, np.bool_) if valid is None else valid
    wrong = np.flatnonzero((left.lengths != right.lengths) & known)
    if len(wrong):
        counts = int(left.lengths[wrong[0]]), int(right.lengths[wrong[0]])
        raise ExpressionError(f"MAP_FROM_ARRAYS got {counts[0]} keys and {counts[1]} values", code="E2002")
    names = keys.values.take(pa.array(left.rows[known[left.parents()]]))
    if names.null_count:
        raise ExpressionError("a key of a map is NULL", code="E2002")
    items = values.values.take(pa.array(right.rows[known[right.parents()]]))
    return map_built(names, items, np.where(known, left.lengths, 0), valid, context.result_type.arrow)


@FAMILY.scalar(
    "STR_TO_MAP",
    [CHARACTER, optional(CHARACTER), optional(CHARACTER)],
    _TEXT_MAP,
    "A map read from a text: entries between `,`, keys before `=`; the two delimiters are regular expressions.",
    nulls=Nulls.MAYBE,
    can_fail=True,
)
def str_to_map(context: EvalContext, text: Value, *delimiters: Value) -> Value:
    return map_distinct(_read, [text, *delimiters], _TEXT_MAP.arrow, context.num_rows)


def _read(text: str, between: str = ",", inside: str = "=") -> list[tuple[str, str | None]]:
    entries, pair = _java_regex.java_regex(between), _java_regex.java_regex(inside)
    if entries is None or pair is None:
        raise ExpressionError(
            f"the delimiter '{inside if entries else between}' is a wrong regular expression", code="E2003"
        )
    found: dict[str, str | None] = {}
    if not text:
        return []
    pieces = _split(entries.python, text)
    while pieces and not pieces[-1]:
        # Java's split drops empty pieces at the end.
        pieces.pop()
    for piece in pieces:
        at = pair.python.search(piece)
        if at is None:
            found[piece] = None
        else:
            found[piece[: at.start()]] = piece[at.end() :]
    return list(found.items())


def _split(pattern: re.Pattern[str], text: str) -> list[str]:
    """The pieces between matches; `re.split` would give the groups of the pattern too."""
    ends = [(m.start(), m.end()) for m in pattern.finditer(text)]
    starts = [0, *(e for _, e in ends)]
    return [text[a:b] for a, b in zip(starts, [*(s for s, _ in ends), len(text)], strict=True)]
