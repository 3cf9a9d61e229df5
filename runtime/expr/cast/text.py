"""Any value as text, in the forms of Flink's CAST to STRING.

BOOLEAN `TRUE`; DECIMAL with all digits of its scale; FLOAT and DOUBLE as Java prints them; TIMESTAMP(p) with p digits
of fraction; TIMESTAMP_LTZ in the session's time zone; intervals `+1-02` and `+1 02:03:04.000`; ARRAY `[a, NULL]`, MAP
`{k=v}`, ROW `(a, b)`, a structured type `(x=a, y=b)`; RAW, which has no text in SQL, as `x'0a'`.
"""

from __future__ import annotations

import binascii
import secrets
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.rooms import Room
from runtime.core.types import INT, DataType, TypeRoot
from runtime.expr.cast.conversion import Converted, failing
from runtime.expr.cast.float_text import float_text
from runtime.expr.columns import from_numpy, integers_of, validity
from runtime.expr.zones import instant_to_local

if TYPE_CHECKING:
    import runtime.expr.bitmaps as _bitmaps
else:
    _bitmaps = Room("runtime.expr.bitmaps")

__all__ = ["bytes_as_text", "fit_binary", "fit_text", "to_text"]

_R = TypeRoot


def to_text(array: pa.Array, type_: DataType, time_zone: str) -> pa.Array:
    """The texts of a column; NULL stays NULL."""
    match type_.root:
        case _R.CHAR | _R.VARCHAR | _R.DESCRIPTOR | _R.VARIANT:
            return array
        case _R.RAW:
            return _hexadecimal(array)
        case _R.BINARY | _R.VARBINARY:
            return bytes_as_text(array)
        case _R.BITMAP:
            return _bitmaps.bitmaps_text(array)
        case _R.BOOLEAN:
            return pc.if_else(array, "TRUE", "FALSE")
        case _R.FLOAT | _R.DOUBLE:
            return float_text(array)
        case _R.DECIMAL:
            return _decimal_text(array, type_.scale)
        case _R.TIME:
            return _cut(pc.cast(array, pa.string()), 3, min(type_.precision, 3))
        case _R.TIMESTAMP:
            return _cut(pc.cast(array, pa.string()), 6 if type_.precision <= 6 else 9, type_.precision)
        case _R.TIMESTAMP_LTZ:
            return _local_text(array, type_.precision, time_zone)
        case _R.INTERVAL_MONTH:
            return _months_text(array)
        case _R.INTERVAL_SECOND:
            return _duration_text(array)
        case _R.ARRAY:
            return _enclosed("[", _joined(array, to_text(array.values, type_.children[0], time_zone)), "]")
        case _R.MAP | _R.MULTISET:
            value_type = type_.children[1] if type_.root is _R.MAP else INT
            keys = _shown(to_text(array.keys, type_.children[0], time_zone))
            items = _shown(to_text(array.items, value_type, time_zone))
            return _enclosed("{", _joined(array, pc.binary_join_element_wise(keys, items, "=")), "}")
        case _R.ROW:
            return _row_text(array, type_, time_zone)
        case _R.NULL:
            return pa.nulls(len(array), pa.string())
        case _:
            return pc.cast(array, pa.string())


def _hexadecimal(array: pa.Array) -> pa.Array:
    if not len(array):
        return pa.array([], pa.string())
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    data = array.buffers()[2]
    digits = binascii.hexlify(b"" if data is None else data[int(offsets[0]) : int(offsets[-1])])
    doubled = pa.py_buffer(((offsets - offsets[0]) * 2).astype(np.int32))
    texts = pa.StringArray.from_buffers(len(array), doubled, pa.py_buffer(digits))
    return _keep_nulls(_enclosed("x'", texts, "'"), array)


def _shown(texts: pa.Array) -> pa.Array:
    """Parts of a nested value: NULL is written out."""
    return pc.fill_null(texts, "NULL") if texts.null_count else texts


def _cut(texts: pa.Array, digits: int, precision: int) -> pa.Array:
    """A time's text, which has so many digits of fraction, with `precision` of them."""
    if precision == digits:
        return texts
    return pc.utf8_slice_codeunits(texts, 0, -digits - 1 if precision == 0 else precision - digits)


def _local_text(array: pa.Array, precision: int, time_zone: str) -> pa.Array:
    """Instants as the clock of the zone shows them."""
    values, valid = integers_of(array), validity(array)
    if precision <= 6:
        local = instant_to_local(values, time_zone, "us")
        return _cut(pc.cast(from_numpy(local, valid, pa.timestamp("us")), pa.string()), 6, precision)
    # The clock may show what nanoseconds do not reach.
    micros, rest = np.divmod(values, 1000)
    whole = pc.cast(from_numpy(instant_to_local(micros, time_zone, "us"), valid, pa.timestamp("us")), pa.string())
    return _cut(pc.binary_join_element_wise(whole, _padded(rest, 3), ""), 9, precision)


_PLAIN_SCALE = 6
"""Up to so many digits behind the point Arrow writes all of them; beyond it may write an exponent."""


def _decimal_text(array: pa.Array, scale: int) -> pa.Array:
    if scale <= _PLAIN_SCALE and array.type.scale == scale:
        return pc.cast(array, pa.string())
    plain = pa.Array.from_buffers(pa.decimal128(38, 0), len(array), array.buffers(), offset=array.offset)
    texts = pc.cast(plain, pa.string())
    if scale == 0:
        return texts
    sign = pc.if_else(pc.starts_with(texts, "-"), "-", "")
    digits = pc.utf8_lpad(pc.utf8_ltrim(texts, characters="-"), scale + 1, "0")
    whole = pc.utf8_slice_codeunits(digits, 0, -scale)
    return pc.binary_join_element_wise(sign, whole, ".", pc.utf8_slice_codeunits(digits, -scale, None), "")


def _padded(values: np.ndarray, width: int) -> pa.Array:
    return pc.utf8_lpad(pc.cast(pa.array(values), pa.string()), width, "0")


def _months_text(array: pa.Array) -> pa.Array:
    months = integers_of(array).astype(np.int64)
    sign = pc.if_else(pa.array(months < 0), "-", "+")
    years, rest = np.divmod(np.abs(months), 12)
    texts = pc.binary_join_element_wise(sign, pc.cast(pa.array(years), pa.string()), "-", _padded(rest, 2), "")
    return _keep_nulls(texts, array)


def _duration_text(array: pa.Array) -> pa.Array:
    milliseconds = integers_of(array)
    sign = pc.if_else(pa.array(milliseconds < 0), "-", "+")
    rest = np.abs(milliseconds)
    days, rest = np.divmod(rest, 86_400_000)
    hours, rest = np.divmod(rest, 3_600_000)
    minutes, rest = np.divmod(rest, 60_000)
    seconds, rest = np.divmod(rest, 1000)
    texts = pc.binary_join_element_wise(
        sign,
        pc.cast(pa.array(days), pa.string()),
        " ",
        _padded(hours, 2),
        ":",
        _padded(minutes, 2),
        ":",
        _padded(seconds, 2),
        ".",
        _padded(rest, 3),
        "",
    )
    return _keep_nulls(texts, array)


def _keep_nulls(texts: pa.Array, array: pa.Array) -> pa.Array:
    return pc.if_else(array.is_valid(), texts, None) if array.null_count else texts


def _joined(array: pa.Array, texts: pa.Array) -> pa.Array:
    """The texts of the items of each row of a list or map array, joined by commas."""
    offsets = array.offsets
    lists = pa.ListArray.from_arrays(offsets, _shown(texts))
    joined = pc.binary_join(lists, ", ")
    return _keep_nulls(joined, array)


def _enclosed(before: str, texts: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, texts, after, "")


def _row_text(array: pa.Array, type_: DataType, time_zone: str) -> pa.Array:
    fields = [_shown(to_text(array.field(i), f.type, time_zone)) for i, f in enumerate(type_.fields)]
    if type_.is_structured:
        names = (f"{f.name}=" for f in type_.fields)
        fields = [pc.binary_join_element_wise(name, text, "") for name, text in zip(names, fields, strict=True)]
    if not fields:
        return _keep_nulls(pa.repeat("()", len(array)), array)
    joined = fields[0] if len(fields) == 1 else pc.binary_join_element_wise(*fields, ", ")
    return _keep_nulls(_enclosed("(", joined, ")"), array)


def bytes_as_text(array: pa.Array) -> pa.Array:
    """Bytes read as UTF-8; what is not UTF-8 becomes U+FFFD, as Java reads it."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        pass
    whole = pc.binary_join(
        pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), pc.fill_null(array, b"")), b""
    )[0].as_py()
    separator = secrets.token_bytes(12).hex().encode()
    while separator in whole:
        separator = secrets.token_bytes(12).hex().encode()
    joined = pc.binary_join(
        pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), pc.fill_null(array, b"")), separator
    )
    texts = joined[0].as_py().decode("utf-8", "replace").split(separator.decode())
    valid = validity(array)
    return pa.array(texts, pa.string(), mask=None if valid is None else ~valid)


def fit_text(texts: pa.Array, target: DataType) -> pa.Array:
    """Texts cut to the length of a CHAR or VARCHAR, and padded with spaces to that of a CHAR. Lengths count
    characters."""
    length = target.precision
    if target.root is _R.VARCHAR:
        return texts if length >= 1 << 30 else pc.utf8_slice_codeunits(texts, 0, length)
    if length == 0:
        return pc.utf8_slice_codeunits(texts, 0, 0)
    return pc.utf8_rpad(pc.utf8_slice_codeunits(texts, 0, length), length, " ")


_DIGITS = r"^(?:[0-9a-f]{4}-?){7}[0-9a-f]{4}$"
_CANONICAL = r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$"


def to_uuid(texts: pa.Array) -> Converted:
    """Identifiers in their canonical form: lower case, with four hyphens. As in PostgreSQL they may be in capitals, stand in
    braces, and have a hyphen behind any four digits, or none."""
    canonical = pc.fill_null(pc.match_substring_regex(texts, _CANONICAL), True)
    if pc.all(canonical).as_py():
        return Converted(texts)
    written = pc.replace_substring_regex(pc.utf8_lower(pc.utf8_trim_whitespace(texts)), r"^\{(.*)\}$", r"\1")
    good = pc.fill_null(pc.match_substring_regex(written, _DIGITS), True)
    digits = pc.replace_substring(written, "-", "")
    found = pc.replace_substring_regex(digits, r"^(.{8})(.{4})(.{4})(.{4})(.{12})$", r"\1-\2-\3-\4-\5")
    if pc.all(good).as_py():
        return Converted(found)
    return failing(found, ~good.to_numpy(zero_copy_only=False))


def fit_binary(array: pa.Array, target: DataType) -> pa.Array:
    """Bytes cut to the length of a BINARY or VARBINARY, and padded with zeros to that of a BINARY."""
    length = target.precision
    if length >= 1 << 30:
        return array
    cut = pc.binary_slice(array, 0, length)
    if target.root is _R.VARBINARY:
        return cut
    missing = length - pc.fill_null(pc.binary_length(cut), length).to_numpy(zero_copy_only=False)
    if not missing.any():
        return cut
    zeros = pc.binary_repeat(pa.scalar(b"\0", pa.binary()), from_numpy(missing, None, pa.int32()))
    return pc.binary_join_element_wise(cut, zeros, pa.scalar(b"", pa.binary()))
