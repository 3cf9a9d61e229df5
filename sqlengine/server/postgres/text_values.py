"""Values in PostgreSQL's text format, a column at a time.

Source: PostgreSQL 15, chapter 8, "Data Types". A column is an Arrow array as the engine or DuckDB gives it; what comes
out are bytes. Only texts of intervals, of very large or small floating-point numbers, and of arrays of them are made one by
one.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.types import decimal
from runtime.expr.cast.text import to_text
from sqlengine.server.postgres.types import PgType

__all__ = ["in_text"]


def in_text(column: pa.Array, type_: PgType, time_zone: str) -> pa.Array:
    """The texts of a column as bytes (Arrow's `binary`); NULL stays NULL.

    Args:
        time_zone: of the session: that of `timestamptz`.
    """
    return _text(column, type_, time_zone).cast(pa.binary())


def _text(column: pa.Array, type_: PgType, time_zone: str) -> pa.Array:
    if type_.element is not None:
        return _array(column, type_.element, time_zone)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    make = _TEXTS.get(type_.name)
    return column.cast(pa.string()) if make is None else make(column, time_zone)


def _boolean(column: pa.Array, time_zone: str) -> pa.Array:
    return pc.if_else(column, "t", "f")


def _float(column: pa.Array, time_zone: str) -> pa.Array:
    """The shortest digits that give the number again; exponents below -4 and from 15 on, in two digits."""
    texts = column.cast(pa.string())
    size = pc.abs(column)
    odd = pc.or_(pc.invert(pc.is_finite(column)), pc.or_(pc.greater_equal(size, 1e15), pc.less(size, 1e-4)))
    odd = pc.fill_null(pc.and_(odd, pc.not_equal(column, 0.0)), False)
    if not pc.any(odd).as_py():
        return texts
    digits = 6 if pa.types.is_float32(column.type) else 15
    made = [_odd_float(text, digits) for text in texts.filter(odd).to_pylist()]
    return pc.replace_with_mask(texts, odd, pa.array(made, pa.string()))


def _odd_float(text: str, digits: int) -> str:
    if text in ("nan", "-nan"):
        return "NaN"
    if text.endswith("inf"):
        return "-Infinity" if text[0] == "-" else "Infinity"
    mantissa, _, exponent = f"{np.format_float_scientific(float(text), trim='-')}".partition("e")
    power = int(exponent)
    if -5 < power < digits:
        return np.format_float_positional(float(text), trim="-")
    return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _numeric(column: pa.Array, time_zone: str) -> pa.Array:
    if pa.types.is_decimal(column.type):
        return to_text(column, decimal(column.type.precision, column.type.scale), time_zone)
    return column.cast(pa.string())


def _bytes(column: pa.Array, time_zone: str) -> pa.Array:
    """`\\x0aff`."""
    column = column.cast(pa.binary())
    if column.offset:
        column = pa.concat_arrays([column, pa.nulls(0, pa.binary())])
    valid, offsets, data = column.buffers()
    hexed = binascii.hexlify(b"" if data is None else bytes(data))
    ends = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1] * 2
    if column.offset and valid is not None:
        valid = pa.array(np.asarray(column.is_valid())).buffers()[1]
    digits = pa.StringArray.from_buffers(len(column), pa.py_buffer(ends), pa.py_buffer(hexed), valid)
    return pc.binary_join_element_wise("\\x", digits, "")


def _without_zeros(texts: pa.Array) -> pa.Array:
    """Texts that have a fraction, without zeros at its end."""
    return pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")


def _time(column: pa.Array, time_zone: str) -> pa.Array:
    return _without_zeros(pc.cast(column, pa.time64("us"), safe=False).cast(pa.string()))


def _timestamp(column: pa.Array, time_zone: str) -> pa.Array:
    moments = pc.cast(column, pa.timestamp("us"), safe=False)
    seconds = pc.cast(moments, pa.timestamp("s"), safe=False)
    if pc.all(pc.equal(pc.cast(seconds, pa.timestamp("us")), moments)).as_py():
        return seconds.cast(pa.string())
    return _without_zeros(moments.cast(pa.string()))


def _timestamptz(column: pa.Array, time_zone: str) -> pa.Array:
    """Local time and its distance from UTC: `2024-01-01 12:00:00.5+05:30`."""
    moments = column.cast(pa.timestamp("us", "UTC"), safe=False)
    local = pc.local_timestamp(moments.cast(pa.timestamp("us", time_zone)))
    texts = _timestamp(local, time_zone)
    if time_zone == "UTC":
        return pc.binary_join_element_wise(texts, "+00", "")
    seconds = pc.divide(pc.subtract(local.cast(pa.int64()), moments.cast(pa.int64())), 1_000_000)
    known = seconds.dictionary_encode()
    zones = pa.array([_offset(s) for s in known.dictionary.to_pylist()], pa.string())
    return pc.binary_join_element_wise(texts, zones.take(known.indices), "")


def _offset(seconds: int | None) -> str | None:
    if seconds is None:
        return None
    hours, rest = divmod(abs(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    tail = f":{minutes:02d}" + (f":{rest:02d}" if rest else "") if minutes or rest else ""
    return f"{'-' if seconds < 0 else '+'}{hours:02d}{tail}"


def _interval(column: pa.Array, time_zone: str) -> pa.Array:
    """`1 year 2 mons 3 days -04:05:06.5`."""
    if pa.types.is_integer(column.type):
        return pa.array([None if m is None else _interval_text(m, 0, 0) for m in column.to_pylist()], pa.string())
    if pa.types.is_duration(column.type):
        micros = column.cast(pa.duration("us")).cast(pa.int64()).to_pylist()
        return pa.array([None if m is None else _from_micros(m) for m in micros], pa.string())
    parts = column.to_pylist()
    return pa.array(
        [None if p is None else _interval_text(p.months, p.days, p.nanoseconds // 1000) for p in parts], pa.string()
    )


def _from_micros(micros: int) -> str:
    """Days are those of 24 hours, as PostgreSQL reads an interval of a DAY TO SECOND."""
    days = int(micros / 86_400_000_000)
    return _interval_text(0, days, micros - days * 86_400_000_000)


def _interval_text(months: int, days: int, micros: int) -> str:
    years = int(months / 12)
    months -= years * 12
    words = [
        f"{number} {name if number == 1 else name + 's'}"
        for number, name in ((years, "year"), (months, "mon"), (days, "day"))
        if number
    ]
    if micros or not words:
        seconds, fraction = divmod(abs(micros), 1_000_000)
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        tail = f".{fraction:06d}".rstrip("0") if fraction else ""
        words.append(f"{'-' if micros < 0 else ''}{hours:02d}:{minutes:02d}:{seconds:02d}{tail}")
    return " ".join(words)


def _array(column: pa.Array, element: PgType, time_zone: str) -> pa.Array:
    """`{1,NULL,"a b"}`: texts in quotes where they are empty, NULL, or have characters of the syntax."""
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    column = column.cast(pa.list_(column.type.value_type)) if not pa.types.is_list(column.type) else column
    values = _text(column.values, element, time_zone)
    if element.category in "SUZT" or element.name in ("timestamp", "timestamptz", "interval", "bytea"):
        plain = pc.fill_null(pc.match_substring_regex(values, r'^[^\s{}",\\]+$'), True)
        plain = pc.and_(plain, pc.invert(pc.fill_null(pc.match_substring_regex(values, "(?i)^null$"), False)))
        escaped = pc.replace_substring_regex(values, r'(["\\])', r"\\\1")
        values = pc.if_else(plain, values, pc.binary_join_element_wise('"', escaped, '"', ""))
    values = pc.fill_null(values, "NULL")
    lists = pa.ListArray.from_arrays(column.offsets, values)
    joined = pc.binary_join(lists, ",")
    enclosed = pc.binary_join_element_wise("{", joined, "}", "")
    return pc.if_else(column.is_valid(), enclosed, pa.scalar(None, pa.string()))


def _vector(column: pa.Array, time_zone: str) -> pa.Array:
    """`1 2`: numbers of int2vector and oidvector."""
    column = column.cast(pa.list_(column.type.value_type))
    return pc.binary_join(pa.ListArray.from_arrays(column.offsets, column.values.cast(pa.string())), " ")


_TEXTS: dict[str, Callable[[pa.Array, str], pa.Array]] = {
    "int2vector": _vector,
    "oidvector": _vector,
    "bool": _boolean,
    "float4": _float,
    "float8": _float,
    "numeric": _numeric,
    "bytea": _bytes,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "interval": _interval,
}
