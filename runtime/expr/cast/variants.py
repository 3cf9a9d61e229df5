"""VARIANT as other types, and others as VARIANT, as in Flink 2.4 (FLINK-37925, FLINK-37926, FLINK-40826).

A number becomes a number of any type, if it is within its range; a text becomes a text, without quotes, and so does any
other value: TRUE, FALSE, a number, the JSON of an object or array. Nothing else changes its kind: a text is never read
as a number. JSON's null is NULL. An array becomes an ARRAY, and an object a MAP or a ROW (fields that it has not are
NULL), part by part; a part that cannot be NULL and would be fails the value.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.types import DOUBLE, STRING, DataType, TypeRoot
from runtime.expr.cast.conversion import Converted, failing
from runtime.expr.cast.float_text import float_text
from runtime.expr.cast.parse_numbers import text_to_number
from runtime.expr.cast.text import fit_text
from runtime.expr.distinct import map_distinct
from runtime.expr.json_text import json_text, quoted
from runtime.expr.lists import built, map_built
from runtime.kernels.variants import LEFT, MADE, SKIPPED, members, parse, parts

__all__ = ["from_variant", "to_variant"]

_R = TypeRoot
_NUMBER = pa.array([*"-0123456789"])
"""What a number begins with."""


def from_variant(array: pa.Array, target: DataType) -> Converted:
    """Values of VARIANT as another type; the rows that are not of a kind that fits, or not within its range, failed."""
    if target.root is _R.VARIANT:
        return Converted(array)
    null = pc.equal(array, "null")
    given = pc.if_else(null, None, array) if _any(null) else array
    if target.is_character:
        return Converted(fit_text(_texts(given), target))
    there = given.is_valid().to_numpy(zero_copy_only=False)
    match target.root:
        case _R.ARRAY:
            return _array(given, there, target)
        case _R.MAP:
            return _map(given, there, target)
        case _R.ROW:
            return _row(given, there, target)
        case _R.BOOLEAN:
            right = pc.is_in(given, pa.array(["true", "false"]))
            return failing(pc.equal(given, "true"), there & ~_flags(right))
        case _:
            right = pc.is_in(pc.utf8_slice_codeunits(given, 0, 1), _NUMBER)
            wrong = there & ~_flags(right)
            made = _numbers(pc.if_else(right, given, None) if wrong.any() else given, target)
            return failing(made.values, wrong if made.failed is None else wrong | made.failed)


def to_variant(array: pa.Array, source: DataType) -> Converted:
    """Values of a type as VARIANT; NaN and infinity failed, because JSON has neither."""
    texts = json_text(array, source, floats=_doubles)
    values, state = parse(texts, np.ones(len(texts), np.bool_))
    return failing(values, (state != MADE) & (state != SKIPPED))


def _doubles(array: pa.Array) -> pa.Array:
    """Numbers written with an exponent, so that they stay DOUBLE."""
    texts = float_text(array)
    return pc.if_else(pc.match_substring(texts, "E"), texts, pc.binary_join_element_wise(texts, "E0", ""))


def _any(mask: pa.Array) -> bool:
    return bool(pc.any(mask).as_py())


def _flags(mask: pa.Array) -> Any:
    return pc.fill_null(mask, False).to_numpy(zero_copy_only=False)


def _texts(array: pa.Array) -> pa.Array:
    """Texts without their quotes, and other values as CAST writes them."""
    text = pc.starts_with(array, '"')
    shown = pc.if_else(pc.is_in(array, pa.array(["true", "false"])), pc.utf8_upper(array), array)
    return pc.if_else(text, _unquoted(pc.if_else(text, array, None)), shown) if _any(text) else shown


def _unquoted(texts: pa.Array) -> pa.Array:
    plain = pc.utf8_slice_codeunits(texts, 1, -1)
    escaped = pc.fill_null(pc.match_substring(texts, "\\"), False)
    if not _any(escaped):
        return plain
    read = map_distinct(json.loads, [texts.filter(escaped)], pa.string(), len(texts))
    return pc.replace_with_mask(plain, escaped, read)


def _numbers(texts: pa.Array, target: DataType) -> Converted:
    if not target.is_integer:
        return text_to_number(texts, STRING, target, "UTC")
    double = pc.match_substring(texts, "E")
    if not _any(double):
        return text_to_number(texts, STRING, target, "UTC")
    plain = text_to_number(pc.if_else(double, None, texts), STRING, target, "UTC")
    wide = text_to_number(pc.if_else(double, texts, None), STRING, DOUBLE, "UTC").values
    numbers = np.trunc(wide.fill_null(0).to_numpy(zero_copy_only=False))
    # 2**63 is the least DOUBLE that is too large for BIGINT.
    bound = 2.0 ** (target.arrow.bit_width - 1)
    good = (numbers >= -bound) & (numbers < bound)
    whole = pa.array(np.where(good, numbers, 0).astype(np.int64)).cast(target.arrow)
    failed = _flags(double) & ~good
    values = pc.if_else(pc.fill_null(double, False), whole, plain.values)
    return failing(values, failed if plain.failed is None else failed | plain.failed)


def _array(array: pa.Array, there: Any, target: DataType) -> Converted:
    element = target.children[0]
    values, _, counts = parts(array, "[")
    made = from_variant(values, element)
    failed = (there & (counts < 0)) | _holds(counts, _missing(made, element))
    lengths = np.maximum(counts, 0)
    return failing(built(made.values, lengths, there & (counts >= 0), target.arrow), failed)


def _map(array: pa.Array, there: Any, target: DataType) -> Converted:
    key, value = target.children
    values, names, counts = parts(array, "{")
    made = from_variant(values, value)
    failed = (there & (counts < 0)) | _holds(counts, _missing(made, value))
    keys = fit_text(_unquoted(names), key)
    lengths = np.maximum(counts, 0)
    return failing(map_built(keys, made.values, lengths, there & (counts >= 0), target.arrow), failed)


def _row(array: pa.Array, there: Any, target: DataType) -> Converted:
    fields: list[pa.Array] = []
    failed = np.zeros(len(array), np.bool_)
    for field in target.fields:
        values, state = members(array, quoted(pa.array([field.name])))
        made = from_variant(values, field.type)
        failed |= (state == LEFT) | (there & _missing(made, field.type))
        fields.append(made.values)
    if not fields:
        failed = there & ~_flags(pc.starts_with(array, "{"))
    mask = None if there.all() else pa.array(~there)
    return failing(pa.StructArray.from_arrays(fields, fields=list(target.arrow), mask=mask), failed)


def _missing(made: Converted, type_: DataType) -> Any:
    """Which parts fail their value: those that failed, and those that are NULL where the type has none."""
    if not type_.nullable:
        return made.values.is_null().to_numpy(zero_copy_only=False)
    return np.zeros(len(made.values), np.bool_) if made.failed is None else made.failed


def _holds(counts: Any, flags: Any) -> Any:
    """Which rows have a part with a flag."""
    before = np.concatenate([[0], np.cumsum(flags)])
    ends = np.cumsum(np.maximum(counts, 0))
    return before[ends] > before[ends - np.maximum(counts, 0)]
