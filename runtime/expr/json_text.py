"""Values of columns as JSON text, as Flink writes them, whole columns at a time.

Numbers and booleans bare (DOUBLE and FLOAT as a Java BigDecimal of their digits: `1.0E+10`), texts quoted, bytes in
Base64, dates and times in ISO 8601 (`2024-01-01T00:00:00.5`, TIMESTAMP_LTZ in UTC with `Z`), ARRAY as array, MAP,
MULTISET and ROW as objects with their keys in order.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.types import INT, STRING, DataType, TypeRoot
from runtime.expr.cast.float_text import float_text
from runtime.expr.cast.text import to_text
from runtime.expr.distinct import map_distinct
from runtime.expr.json_path import json_string
from runtime.expr.lists import built, parts_of

__all__ = ["big_decimals", "json_text", "quoted", "serializable"]

_R = TypeRoot
_REFUSED = frozenset({_R.TIME, _R.INTERVAL_MONTH, _R.INTERVAL_SECOND, _R.DESCRIPTOR, _R.BITMAP, _R.RAW})
_Floats = Callable[[pa.Array], pa.Array]
_SPECIAL = r'[\x00-\x1f"\\]'


def serializable(type_: DataType) -> bool:
    """Whether Flink writes values of the type as JSON; keys of maps must be texts."""
    if type_.root is _R.ROW:
        return all(serializable(f.type) for f in type_.fields)
    if type_.root in (_R.MAP, _R.MULTISET) and not type_.children[0].is_character:
        return False
    return type_.root not in _REFUSED and all(serializable(c) for c in type_.children)


def quoted(texts: pa.Array) -> pa.Array:
    """Texts as JSON strings; NULL stays NULL."""
    plain = pc.binary_join_element_wise('"', texts, '"', "")
    special = pc.fill_null(pc.match_substring_regex(texts, _SPECIAL), False)
    if not pc.any(special).as_py():
        return plain
    return pc.replace_with_mask(
        plain, special, map_distinct(json_string, [texts.filter(special)], pa.string(), len(texts))
    )


def big_decimals(array: pa.Array) -> pa.Array:
    """Numbers of a float or double array as a Java BigDecimal writes them, and as texts those that are none."""
    return map_distinct(_big_decimal, [float_text(array)], pa.string(), len(array))


def json_text(array: pa.Array, type_: DataType, floats: _Floats = big_decimals) -> pa.Array:
    """The JSON of each value; NULL stays NULL at the top, and is `null` inside of others. `floats` writes FLOAT and
    DOUBLE."""
    match type_.root:
        case _R.NULL:
            return pa.nulls(len(array), pa.string())
        case _R.CHAR | _R.VARCHAR:
            return quoted(array)
        case _R.VARIANT:
            return array
        case _R.BOOLEAN:
            return pc.if_else(array, "true", "false")
        case _R.FLOAT | _R.DOUBLE:
            return floats(array)
        case _R.DECIMAL:
            return to_text(array, type_, "UTC")
        case _R.BINARY | _R.VARBINARY:
            return map_distinct(_base64, [array], pa.string(), len(array))
        case _R.DATE:
            return pc.binary_join_element_wise('"', pc.cast(array, pa.string()), '"', "")
        case _R.TIMESTAMP | _R.TIMESTAMP_LTZ:
            return _moment(array, type_)
        case _R.ARRAY:
            return _joined(array, _shown(array.values, type_.children[0], floats), "[", "]")
        case _R.MAP | _R.MULTISET:
            return _object(array, type_, floats)
        case _R.ROW:
            return _row(array, type_, floats)
        case _:
            return pc.cast(array, pa.string())


def _shown(array: pa.Array, type_: DataType, floats: _Floats) -> pa.Array:
    return pc.fill_null(json_text(array, type_, floats), "null")


def _big_decimal(digits: str) -> str:
    return str(Decimal(digits)) if digits[-1].isdigit() else f'"{digits}"'


def _base64(data: bytes) -> str:
    return f'"{base64.b64encode(data).decode()}"'


def _moment(array: pa.Array, type_: DataType) -> pa.Array:
    plain = array.cast(pa.timestamp(array.type.unit))
    texts = pc.replace_substring(pc.cast(plain, pa.string()), " ", "T")
    texts = pc.utf8_rtrim(pc.utf8_rtrim(texts, characters="0"), characters=".")
    # Trimmed zeros of whole seconds belong to the time: give them back.
    whole = pc.utf8_slice_codeunits(pc.replace_substring(pc.cast(plain, pa.string()), " ", "T"), 0, 19)
    texts = pc.if_else(pc.greater(pc.utf8_length(texts), 19), texts, whole)
    end = 'Z"' if type_.root is _R.TIMESTAMP_LTZ else '"'
    return pc.binary_join_element_wise('"', texts, end, "")


def _joined(array: pa.Array, texts: pa.Array, before: str, after: str) -> pa.Array:
    """The texts of the items of each row of a list or map array between brackets; NULL rows stay NULL."""
    parts = parts_of(array)
    lists = built(texts.take(pa.array(parts.rows)), parts.lengths, parts.valid, pa.list_(pa.string()))
    return pc.binary_join_element_wise(before, pc.binary_join(lists, ","), after, "")


def _object(array: pa.Array, type_: DataType, floats: _Floats) -> pa.Array:
    value_type = type_.children[1] if type_.root is _R.MAP else INT
    parts = parts_of(array)
    rows = pa.array(parts.rows)
    keys = array.keys.take(rows)
    pairs = pc.binary_join_element_wise(
        _shown(keys, STRING, floats), _shown(array.items.take(rows), value_type, floats), ":"
    )
    order = pc.sort_indices(
        pa.table({"row": parts.parents(), "key": keys}), sort_keys=[("row", "ascending"), ("key", "ascending")]
    )
    lists = built(pairs.take(order), parts.lengths, parts.valid, pa.list_(pa.string()))
    return pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")


def _row(array: pa.Array, type_: DataType, floats: _Floats) -> pa.Array:
    fields = sorted(range(len(type_.fields)), key=lambda i: type_.fields[i].name)
    shown = [_shown(array.field(i), type_.fields[i].type, floats) for i in fields]
    pieces = [
        pc.binary_join_element_wise(json_string(type_.fields[i].name), s, ":")
        for i, s in zip(fields, shown, strict=True)
    ]
    inside = pc.binary_join_element_wise(*pieces, ",") if pieces else pa.repeat(pa.scalar(""), len(array))
    texts = pc.binary_join_element_wise("{", inside, "}", "")
    return pc.if_else(array.is_valid(), texts, None) if array.null_count else texts
