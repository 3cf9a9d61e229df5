"""Columns that were read from JSON as text or wide numbers, cast to their types, through rows, arrays and maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.records import BadMask, either, rows_of_elements
from connectors.formats.text_values import TextRules, fit_decimal, parse_text
from runtime.core.types import DataType, TypeRoot

__all__ = ["convert"]


def convert(values: pa.Array, type_: DataType, rules: TextRules) -> tuple[pa.Array, BadMask | None]:
    """A column as it was read (text, wide decimal, or already of its type) in its final type, and the mask of rows with
    a bad cell."""
    if values.type == type_.arrow:
        return values, None
    if type_.root is TypeRoot.ARRAY:
        elements, bad = convert(values.flatten(), type_.children[0], rules)
        offsets = _offsets(values)
        return pa.ListArray.from_arrays(offsets, elements, type=type_.arrow, mask=_nulls(values)), rows_of_elements(
            values, bad
        )
    if type_.root in (TypeRoot.MAP, TypeRoot.MULTISET):
        return _convert_map(values, type_, rules)
    if type_.root is TypeRoot.ROW:
        return _convert_row(values, type_, rules)
    if pa.types.is_decimal(values.type):
        return fit_decimal(values, type_.arrow)
    if pa.types.is_string(values.type):
        return parse_text(values, type_, rules)
    return values.cast(type_.arrow), None


def _convert_row(values: pa.Array, type_: DataType, rules: TextRules) -> tuple[pa.Array, BadMask | None]:
    children: list[pa.Array] = []
    bad: BadMask | None = None
    for index, field in enumerate(type_.fields):
        cells, wrong = convert(values.field(index), field.type, rules)
        children.append(cells)
        bad = either(bad, wrong)
    fields: Sequence[pa.Field] = [pa.field(f.name, f.type.arrow) for f in type_.fields]
    return pa.StructArray.from_arrays(children, fields=list(fields), mask=_nulls(values)), bad


def _nulls(values: pa.Array) -> pa.Array | None:
    return pc.is_null(values) if values.null_count else None


def _offsets(lists: pa.Array) -> pa.Array:
    """Offsets into `flatten()`, which leaves out what NULL lists point at."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]).astype(np.int32))


def _convert_map(values: pa.Array, type_: DataType, rules: TextRules) -> tuple[pa.Array, BadMask | None]:
    item_type = type_.children[1] if type_.root is TypeRoot.MAP else DataType(TypeRoot.INT)
    lists = values.cast(pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])))
    entries = lists.flatten()
    keys, bad_keys = convert(entries.field(0), type_.children[0], rules)
    items, bad_items = convert(entries.field(1), item_type, rules)
    built = pa.MapArray.from_arrays(_offsets(lists), keys, items, type=type_.arrow, mask=_nulls(lists))
    return built, rows_of_elements(lists, either(bad_keys, bad_items))
