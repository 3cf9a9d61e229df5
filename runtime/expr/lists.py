"""Rows of items in numpy: the items of an ARRAY or MAP column beside each other, and how many each row has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.expr.columns import as_array, validity
from runtime.expr.distinct import all_constant
from runtime.expr.function import EvalContext, Value

__all__ = ["Parts", "built", "by_row", "item_codes", "join_known", "kept", "lengths_of", "map_built", "parts_of"]


@dataclass(frozen=True, slots=True)
class Parts:
    """Of each row its number of items (0 where NULL); `rows` are the places of all items in the array's values, row by
    row; `valid` which rows are not NULL (None: all)."""

    rows: Any
    lengths: Any
    valid: Any | None

    def parents(self) -> Any:
        """The row of each item."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def starts(self) -> Any:
        """Where each row's items begin."""
        return np.cumsum(self.lengths) - self.lengths

    def within(self) -> Any:
        """The place of each item in its row, from 0."""
        return np.arange(len(self.rows)) - np.repeat(self.starts(), self.lengths)


def lengths_of(array: pa.Array) -> Any:
    """The number of items of each row of a list or map array, 0 where NULL."""
    return parts_of(array).lengths


def parts_of(array: pa.Array) -> Parts:
    if len(array) == 0:
        return Parts(np.zeros(0, np.int64), np.zeros(0, np.int64), None)
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    valid = validity(array)
    lengths = np.diff(offsets).astype(np.int64)
    starts = offsets[:-1].astype(np.int64)
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    total = np.cumsum(lengths)
    rows = np.arange(int(total[-1]) if len(total) else 0) + np.repeat(starts - (total - lengths), lengths)
    return Parts(rows, lengths, valid)


def _offsets(lengths: Any) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def built(values: pa.Array, lengths: Any, valid: Any | None, type_: pa.DataType) -> pa.Array:
    """A list array of items in row order and how many each row has; NULL where not `valid`."""
    mask = None if valid is None or valid.all() else pa.array(~valid)
    return pa.ListArray.from_arrays(_offsets(lengths), values, type=type_, mask=mask)


def map_built(keys: pa.Array, items: pa.Array, lengths: Any, valid: Any | None, type_: pa.DataType) -> pa.Array:
    """A map array of entries in row order; of entries with one key in a row, the last one counts."""
    codes = item_codes([keys])[0]
    parents = np.repeat(np.arange(len(lengths)), lengths)
    together = parents * (int(codes.max(initial=0)) + 1) + codes
    if len(np.unique(together)) < len(together):
        _, first = np.unique(together, return_index=True)
        _, last = np.unique(together[::-1], return_index=True)
        # Each key stays where it first stood, with the value that it got last.
        order = np.argsort(first)
        keys = keys.take(pa.array(first[order]))
        items = items.take(pa.array((len(together) - 1 - last)[order]))
        lengths = np.bincount(parents[first], minlength=len(lengths))
    mask = None if valid is None or valid.all() else pa.array(~valid)
    return pa.MapArray.from_arrays(_offsets(lengths), keys, items, type=type_, mask=mask)


def kept(parts: Parts, values: pa.Array, keep: Any, type_: pa.DataType) -> pa.Array:
    """The list array with only the items that `keep` says, `values` being all items in row order."""
    lengths = np.bincount(parts.parents()[keep], minlength=len(parts.lengths))
    return built(values.filter(pa.array(keep)), lengths, parts.valid, type_)


def join_known(texts: list[pa.Array], separator: Value, length: int) -> pa.Array:
    """The texts of each row that are not NULL, with a separator between; '' when all are.

    Arrow's own `binary_join_element_wise(null_handling="skip")` loses the rows in which all are NULL.
    """
    whole = pa.concat_arrays(texts) if texts else pa.nulls(0, pa.string())
    woven = whole.take(pa.array((np.arange(length)[:, None] + np.arange(len(texts)) * length).ravel()))
    known = woven.is_valid().to_numpy(zero_copy_only=False)
    lengths = known.reshape(length, len(texts)).sum(axis=1)
    return pc.binary_join(built(woven.filter(pa.array(known)), lengths, None, pa.list_(pa.string())), separator)


def item_codes(columns: list[pa.Array]) -> list[Any]:
    """Numbers for the values of several columns of one type, equal where the values are equal (NULL equals NULL)."""
    sizes = [len(c) for c in columns]
    whole = pa.concat_arrays(columns)
    codes = _codes(whole)
    return np.split(codes, np.cumsum(sizes)[:-1])


def _codes(array: pa.Array) -> Any:
    """Rows by their fields; lists by their items, one place after the other; maps by their sorted entries."""
    if pa.types.is_struct(array.type):
        codes = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.int64)
        for index in range(array.type.num_fields):
            codes = _paired(codes, _codes(pc.struct_field(array, [index])))
        return codes
    if pa.types.is_list(array.type) or pa.types.is_map(array.type):
        parts = parts_of(array)
        places = pa.array(parts.rows)
        if pa.types.is_map(array.type):
            items = _paired(_codes(array.keys.take(places)), _codes(array.items.take(places)))
            items = items[np.lexsort((items, parts.parents()))]
        else:
            items = _codes(array.values.take(places))
        valid = np.ones(len(array), np.int64) if parts.valid is None else parts.valid.astype(np.int64)
        codes, starts = _paired(valid, parts.lengths), parts.starts()
        for place in range(int(parts.lengths.max(initial=0))):
            item = np.full(len(array), -1, np.int64)
            has = parts.lengths > place
            item[has] = items[starts[has] + place]
            codes = _paired(codes, item + 1)
        return codes
    encoded = array.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _paired(a: Any, b: Any) -> Any:
    return np.unique(a * (int(b.max(initial=0)) + 1) + b, return_inverse=True)[1]


def by_row(compute: Callable[..., pa.Array]) -> Callable[..., Value]:
    """An evaluation `compute(context, length, *arrays)` that sees all arguments as arrays; constants are computed
    once."""

    def evaluate(context: EvalContext, *values: Value) -> Value:
        constant = bool(values) and all_constant(values)
        length = 1 if constant else context.num_rows
        result = compute(
            context, length, *(as_array(v, length, t.arrow) for v, t in zip(values, context.arg_types, strict=True))
        )
        return result[0] if constant else result

    return evaluate
