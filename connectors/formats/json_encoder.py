"""Columns to JSON lines, built column by column as text."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.lines_out import block_of_lines
from connectors.formats.row_kinds import require_append
from connectors.formats.value_text import value_text
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import FormatError
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot

__all__ = ["JsonEncoder", "JsonSpelling", "object_text"]

_CONTROL = [(chr(c), f"\\u{c:04x}") for c in range(32) if chr(c) not in "\n\r\t\b\f"]
_ESCAPES = [
    ("\\", "\\\\"),
    ('"', '\\"'),
    ("\n", "\\n"),
    ("\r", "\\r"),
    ("\t", "\\t"),
    ("\b", "\\b"),
    ("\f", "\\f"),
    *_CONTROL,
]


@dataclass(frozen=True, slots=True)
class JsonSpelling:
    """`separator` between date and time; `null_keys` FAIL, DROP or LITERAL (`null_key`); `leave_nulls_out`: no field
    for a NULL column."""

    separator: str = " "
    null_keys: str = "FAIL"
    null_key: str = "null"
    leave_nulls_out: bool = False


class JsonEncoder:
    """One object a line, fields in the order of the columns."""

    def __init__(self, schema: Schema, spelling: JsonSpelling) -> None:
        self._schema = schema
        self._spelling = spelling

    def encode(self, batch: ChangelogBatch) -> bytes:
        require_append(batch, "json")
        return block_of_lines(object_text(batch.columns, self._schema.names, self._schema.types, self._spelling))

    def finish(self) -> bytes:
        return b""


def object_text(
    columns: list[pa.Array], names: tuple[str, ...], types: tuple[DataType, ...], spelling: JsonSpelling
) -> pa.Array:
    """One JSON object for each row."""
    parts: list[pa.Array | pa.Scalar] = []
    for index, (column, name, type_) in enumerate(zip(columns, names, types, strict=True)):
        label = json.dumps(name, ensure_ascii=False) + ":"
        if spelling.leave_nulls_out:
            field = pc.binary_join_element_wise(pa.scalar("," + label), _value(column, type_, spelling), "")
            parts.append(pc.if_else(pc.is_valid(column), field, ""))
        else:
            parts.append(pa.scalar(("," if index else "{") + label))
            parts.append(_value(column, type_, spelling))
    joined = pc.binary_join_element_wise(*parts, pa.scalar("}"), "")
    if not spelling.leave_nulls_out:
        return joined
    return pc.binary_join_element_wise(pa.scalar("{"), pc.replace_substring_regex(joined, "^,", ""), "")


def _value(values: pa.Array, type_: DataType, spelling: JsonSpelling) -> pa.Array:
    """JSON text of each value, `null` for NULL."""
    match type_.root:
        case TypeRoot.ARRAY:
            text = _joined(values, _value(values.flatten(), type_.children[0], spelling), "[", "]")
        case TypeRoot.MAP | TypeRoot.MULTISET:
            text = _map(values, type_, spelling)
        case TypeRoot.ROW:
            fields = [_child(values, i) for i in range(len(type_.fields))]
            text = object_text(
                fields, tuple(f.name for f in type_.fields), tuple(f.type for f in type_.fields), spelling
            )
            text = pc.if_else(pc.is_valid(values), text, pa.scalar(None, pa.string()))
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            text = _quoted(values)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            written = value_text(values, type_, separator=spelling.separator)
            finite = pc.is_finite(values)
            text = pc.if_else(finite, written, pc.binary_join_element_wise(pa.scalar('"'), written, pa.scalar('"'), ""))
        case (
            TypeRoot.BOOLEAN
            | TypeRoot.TINYINT
            | TypeRoot.SMALLINT
            | TypeRoot.INT
            | TypeRoot.BIGINT
            | TypeRoot.DECIMAL
            | TypeRoot.INTERVAL_MONTH
            | TypeRoot.INTERVAL_SECOND
            | TypeRoot.NULL
        ):
            text = value_text(values, type_, separator=spelling.separator)
        case _:
            written = value_text(values, type_, separator=spelling.separator)
            text = pc.binary_join_element_wise(pa.scalar('"'), written, pa.scalar('"'), "")
    return pc.fill_null(text, "null")


def _child(values: pa.Array, index: int) -> pa.Array:
    """A field of a row, NULL where the row is."""
    return values.flatten()[index]


def _quoted(values: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(values, '[\\\\"\\x00-\\x1f]')).as_py():
        for plain, escaped in _ESCAPES:
            values = pc.replace_substring(values, plain, escaped)
    return pc.binary_join_element_wise(pa.scalar('"'), values, pa.scalar('"'), "")


def _joined(lists: pa.Array, elements: pa.Array, opening: str, closing: str) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]).astype(np.int32))
    inside = pc.binary_join(pa.ListArray.from_arrays(offsets, elements), ",")
    text = pc.binary_join_element_wise(pa.scalar(opening), inside, pa.scalar(closing), "")
    return pc.if_else(pc.is_valid(lists), text, pa.scalar(None, pa.string())) if lists.null_count else text


def _map(values: pa.Array, type_: DataType, spelling: JsonSpelling) -> pa.Array:
    """A map as an object; keys that are not text are written as text."""
    lists = values.cast(pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])))
    entries = lists.flatten()
    key_type = type_.children[0]
    item_type = type_.children[1] if type_.root is TypeRoot.MAP else DataType(TypeRoot.INT)
    keys = value_text(entries.field(0), key_type, separator=spelling.separator)
    missing = pc.is_null(keys)
    if pc.any(missing).as_py():
        if spelling.null_keys == "FAIL":
            raise FormatError(
                "a map has a NULL key, which JSON cannot hold",
                code="E3203",
                hint="set 'json.map-null-key.mode' = 'DROP' or 'LITERAL'",
            )
        keys = pc.fill_null(keys, spelling.null_key)
    pairs = pc.binary_join_element_wise(_quoted(keys), _value(entries.field(1), item_type, spelling), ":")
    if spelling.null_keys == "DROP" and pc.any(missing).as_py():
        kept = pc.invert(missing)
        parents = pc.list_parent_indices(lists).filter(kept).to_numpy(zero_copy_only=False)
        counts = np.bincount(parents, minlength=len(lists))
        offsets = pa.array(np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]).astype(np.int32))
        lists = pa.ListArray.from_arrays(
            offsets, pairs.filter(kept), mask=pc.is_null(values) if values.null_count else None
        )
        return _joined(lists, lists.flatten(), "{", "}")
    return _joined(lists, pairs, "{", "}")
