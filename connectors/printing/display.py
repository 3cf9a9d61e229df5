"""Values as Flink's `print` connector shows them: Java's text forms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.value_text import value_text
from runtime.core.changelog import KIND_NAMES, ChangelogBatch
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot

__all__ = ["change_lines"]


def change_lines(batch: ChangelogBatch, schema: Schema) -> pa.Array:
    """A line such as `+I[1, a]` for each change."""
    cells = [_shown(c, f.type) for c, f in zip(batch.columns, schema, strict=True)]
    kinds = pa.array(np.array(KIND_NAMES)[batch.kinds_or_inserts()], pa.string())
    return pc.binary_join_element_wise(kinds, pa.scalar("["), _joined(cells), pa.scalar("]"), "")


def _joined(cells: Sequence[pa.Array]) -> pa.Array:
    return cells[0] if len(cells) == 1 else pc.binary_join_element_wise(*cells, ", ")


def _shown(values: pa.Array, type_: DataType) -> pa.Array:
    return pc.fill_null(_text(values, type_), "null")


def _text(values: pa.Array, type_: DataType) -> pa.Array:
    """Text of each value, NULL or anything for NULL ones."""
    match type_.root:
        case TypeRoot.ARRAY:
            return _listed(values, _shown(values.flatten(), type_.children[0]), "[", "]")
        case TypeRoot.MAP | TypeRoot.MULTISET:
            lists = values.cast(pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])))
            keys, items = lists.flatten().flatten()
            item_type = type_.children[1] if type_.root is TypeRoot.MAP else DataType(TypeRoot.INT)
            pairs = pc.binary_join_element_wise(_shown(keys, type_.children[0]), _shown(items, item_type), "=")
            return _listed(lists, pairs, "{", "}")
        case TypeRoot.ROW:
            fields = [_shown(c, f.type) for c, f in zip(values.flatten(), type_.fields, strict=True)]
            text = pc.binary_join_element_wise(pa.scalar("+I["), _joined(fields), pa.scalar("]"), "")
            return pc.if_else(pc.is_valid(values), text, pa.scalar(None, pa.string()))
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return _octets(values)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ | TypeRoot.TIME:
            return _java_time(value_text(values, type_, separator="T"), type_)
        case _:
            return value_text(values, type_, separator="T")


def _listed(lists: pa.Array, elements: pa.Array, opening: str, closing: str) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]).astype(np.int32))
    inside = pc.binary_join(pa.ListArray.from_arrays(offsets, elements), ", ")
    text = pc.binary_join_element_wise(pa.scalar(opening), inside, pa.scalar(closing), "")
    return pc.if_else(pc.is_valid(lists), text, pa.scalar(None, pa.string()))


def _octets(values: pa.Array) -> pa.Array:
    """Bytes as signed numbers, `[1, -1]`."""
    whole = pc.fill_null(values, b"").cast(pa.large_binary())
    _, offsets, data = whole.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[whole.offset : whole.offset + len(whole) + 1]
    octets = (
        np.frombuffer(data, dtype=np.int8)[ends[0] : ends[-1]]
        if data is not None and ends[-1] > ends[0]
        else np.zeros(0, np.int8)
    )
    lists = pa.ListArray.from_arrays(pa.array((ends - ends[0]).astype(np.int32)), pa.array(octets))
    text = _listed(lists, lists.flatten().cast(pa.string()), "[", "]")
    return pc.if_else(pc.is_valid(values), text, pa.scalar(None, pa.string()))


def _java_time(text: pa.Array, type_: DataType) -> pa.Array:
    """As `java.time` writes it: fractions in groups of three digits, no seconds when they are zero (an instant keeps
    them)."""
    for digits, zeros in ((1, "00"), (2, "0"), (4, "00"), (5, "0")):
        text = pc.replace_substring_regex(text, r"(\.[0-9]{" + str(digits) + r"})(Z?)$", r"\1" + zeros + r"\2")
    if type_.root is TypeRoot.TIMESTAMP_LTZ:
        return text
    return pc.replace_substring_regex(text, r"([0-9]{2}:[0-9]{2}):00$", r"\1")
