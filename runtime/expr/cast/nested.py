"""Casts of ARRAY, MAP, MULTISET and ROW: part by part; a row fails where one of its parts does. Keys that become equal
are one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.types import INT, DataType, TypeRoot
from runtime.expr.cast.conversion import Convert, Converted, failing
from runtime.expr.columns import combine_valid, integers_of, validity
from runtime.expr.lists import item_codes, map_built, parts_of

__all__ = ["convert_nested"]


def convert_nested(array: pa.Array, source: DataType, target: DataType, time_zone: str, convert: Convert) -> Converted:
    """A nested value of one type as another of the same kind; `convert` casts the parts."""
    if source.root is TypeRoot.ROW:
        return _row(array, source, target, time_zone, convert)
    if source.root is TypeRoot.ARRAY:
        items = convert(array.values, source.children[0], target.children[0], time_zone)
        lists = pa.ListArray.from_arrays(_offsets(array), items.values)
        return _finish(lists, array, target, _failed_rows(array, items.failed))
    keys = convert(array.keys, source.children[0], target.children[0], time_zone)
    if source.root is TypeRoot.MULTISET:
        items = Converted(array.items.cast(INT.arrow))
    else:
        items = convert(array.items, source.children[1], target.children[1], time_zone)
    failed = _either(_failed_rows(array, keys.failed), _failed_rows(array, items.failed))
    safe_keys = keys.values if keys.failed is None else _without_nulls(keys.values)
    if not source.children[0].same_ignoring_nullability(target.children[0]):
        maps = _met(array, safe_keys, items.values, target)
    else:
        maps = pa.MapArray.from_arrays(_offsets(array), safe_keys, items.values, type=target.arrow)
    return _finish(maps, array, target, failed)


def _met(array: pa.Array, keys: pa.Array, items: pa.Array, target: DataType) -> pa.Array:
    """Maps whose keys were cast and may be equal now: of a MAP the last one counts, a MULTISET has the elements of all."""
    parts = parts_of(array)
    rows = pa.array(parts.rows)
    keys, items = keys.take(rows), items.take(rows)
    if target.root is TypeRoot.MULTISET:
        codes = item_codes([keys])[0]
        together = parts.parents() * (int(codes.max(initial=0)) + 1) + codes
        _, place = np.unique(together, return_inverse=True)
        counts = np.zeros(len(together), np.int64)
        np.add.at(counts, place, integers_of(items))
        items = pa.array(counts[place]).cast(INT.arrow)
    return map_built(keys, items, parts.lengths, parts.valid, target.arrow)


def _without_nulls(keys: pa.Array) -> pa.Array:
    """Keys of rows that failed, which no one will see; Arrow does not take NULL keys."""
    known = keys.drop_null()
    fill = known[0] if len(known) else None
    if fill is None:
        return (
            pa.array(np.zeros(len(keys), np.int64)).cast(keys.type)
            if pa.types.is_primitive(keys.type)
            else pa.array([b""] * len(keys)).cast(keys.type)
        )
    positions = np.where(keys.is_valid().to_numpy(zero_copy_only=False), np.arange(len(keys)), len(keys))
    return pa.concat_arrays([keys, pa.repeat(fill, 1)]).take(pa.array(positions))


def _offsets(array: pa.Array) -> pa.Array:
    return array.offsets


def _either(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return a | b


def _failed_rows(array: pa.Array, failed: Any) -> Any:
    """From failed items (of the flat array) to the rows that hold them."""
    if failed is None:
        return None
    offsets = np.asarray(array.offsets).astype(np.int64)
    before = np.concatenate([[0], np.cumsum(failed)])
    return before[offsets[1:]] > before[offsets[:-1]]


def _row(array: pa.Array, source: DataType, target: DataType, time_zone: str, convert: Convert) -> Converted:
    parts: list[pa.Array] = []
    failed: Any = None
    for index, (old, new) in enumerate(zip(source.fields, target.fields, strict=True)):
        converted = convert(array.field(index), old.type, new.type, time_zone)
        parts.append(converted.values)
        failed = _either(failed, converted.failed)
    valid = validity(array)
    if not parts:
        return Converted(array)
    made = pa.StructArray.from_arrays(
        parts, fields=list(target.arrow), mask=None if valid is None else pa.array(~valid)
    )
    if failed is None:
        return Converted(made)
    return failing(made, failed if valid is None else failed & valid)


def _finish(made: pa.Array, array: pa.Array, target: DataType, failed: Any) -> Converted:
    valid = validity(array)
    if valid is not None:
        rows = np.arange(len(array), dtype=np.int64)
        made = made.take(pa.array(rows, mask=~valid))
    if made.type != target.arrow:
        made = made.cast(target.arrow)
    if failed is None:
        return Converted(made)
    return failing(made, failed if combine_valid(valid) is None else failed & valid)
