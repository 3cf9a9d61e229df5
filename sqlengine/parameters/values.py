"""Values of Python as columns of SQL types: which type a value has by itself, and whether it is one of another type.

All is done by column, for one value as for thousands. A value is one of a type where a literal of it would be the same
value there: 5 is a BIGINT, a DOUBLE and a DECIMAL(10, 2), 2.5 is no INT, a text is no number.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.errors import TypeMismatchError
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    INTERVAL_SECOND,
    NULL,
    STRING,
    TIME,
    DataType,
    TypeRoot,
    array,
    decimal,
    map_of,
    row,
    timestamp,
    timestamp_ltz,
)
from runtime.expr.typing import common_type
from sqlengine.values.rows import Row

__all__ = ["as_column", "plain_values", "type_of"]

_NONE = type(None)
_PLAIN_BASES: tuple[Any, ...] = (bool, int, float, Decimal, str, bytes)

_PLAIN = frozenset(
    (_NONE, bool, int, float, Decimal, str, bytes, dt.date, dt.time, dt.datetime, dt.timedelta, list, tuple, dict, Row)
)


def plain_values(values: Sequence[Any]) -> list[Any]:
    """The values as ones of Python's own types: scalars of numpy and Arrow, subclasses and byte buffers become those.

    Raises TypeMismatchError E1321 for a value of another type; its text does not show the value.
    """
    if _PLAIN.issuperset(map(type, values)) and not any(type(v) in _NESTED for v in values):
        return list(values)
    return [_plain(v) for v in values]


_NESTED = frozenset((list, tuple, dict, Row))


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind is Row:
        return Row.of([_plain(v) for v in value], names=value.names)
    if kind is list:
        return [_plain(v) for v in value]
    if kind is tuple:
        return Row.of([_plain(v) for v in value])
    if kind is dict:
        return {_plain(k): _plain(v) for k, v in value.items()}
    if kind in _PLAIN:
        return value
    if isinstance(value, pa.Scalar):
        return _plain(value.as_py())
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.datetime64 | np.timedelta64):
        return _plain(value.astype("datetime64[us]" if isinstance(value, np.datetime64) else "timedelta64[us]").item())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    for known in _PLAIN_BASES:
        if isinstance(value, known):
            return known(value)
    if isinstance(value, dt.datetime):
        if value != value:  # NaT
            return None
        return dt.datetime.combine(value.date(), value.timetz())
    if isinstance(value, dt.date):
        return dt.date(value.year, value.month, value.day)
    if isinstance(value, dt.timedelta):
        return None if value != value else dt.timedelta(value.days, value.seconds, value.microseconds)
    raise TypeMismatchError(
        f"a value of the Python type {kind.__name__} has no SQL type",
        code="E1321",
        hint="None, bool, int, float, Decimal, str, bytes, date, time, datetime, timedelta, list, dict and Row have",
    )


# --- the type that values have by themselves


def type_of(values: Sequence[Any]) -> DataType:
    """The type of a column of plain values, nullable; NULL when there is none but None.

    Raises TypeMismatchError E1330 for values of different kinds, and E1307 for an int of more than 38 digits.
    """
    kinds = set(map(type, values)) - {_NONE}
    if not kinds:
        return NULL
    known = [v for v in values if v is not None] if None in values else values
    if len(kinds) > 1:
        common = common_type([type_of([v for v in known if type(v) is kind]) for kind in kinds])
        if common is None:
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise TypeMismatchError(
                f"values of the Python types {names} have no common SQL type",
                code="E1330",
                hint="give values of one type",
            )
        return common
    return _TYPES[kinds.pop()](known).with_nullable(True)


def _whole(values: Sequence[int]) -> DataType:
    low, high = min(values), max(values)
    if low >= -_INT_MAX - 1 and high <= _INT_MAX:
        return INT
    if low >= -_BIGINT_MAX - 1 and high <= _BIGINT_MAX:
        return BIGINT
    digits = len(str(max(abs(low), abs(high))))
    if digits > 38:
        raise TypeMismatchError(
            f"a whole number of {digits} digits is out of range", code="E1307", hint="DECIMAL holds up to 38 digits"
        )
    return decimal(digits, 0)


_INT_MAX, _BIGINT_MAX = (1 << 31) - 1, (1 << 63) - 1


def _exact(values: Sequence[Decimal]) -> DataType:
    whole = scale = 0
    for value in values:
        _, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int):
            raise TypeMismatchError(
                "a Decimal that is no number has no SQL type", code="E1307", hint="NULL is None; DOUBLE has NaN: float"
            )
        scale = max(scale, -exponent)
        whole = max(whole, len(digits) + exponent)
    precision = max(whole, 0) + scale
    if precision > 38:
        raise TypeMismatchError(
            f"a Decimal of {precision} digits is out of range", code="E1307", hint="DECIMAL holds up to 38 digits"
        )
    return decimal(max(precision, 1), scale)


def _moments(values: Sequence[dt.datetime]) -> DataType:
    zoned = {v.tzinfo is not None for v in values}
    if len(zoned) > 1:
        raise TypeMismatchError(
            "datetime values with and without a time zone have no common SQL type",
            code="E1330",
            hint="give all of them a zone, or none",
        )
    return timestamp_ltz(6) if zoned.pop() else timestamp(6)


def _times(values: Sequence[dt.time]) -> DataType:
    if any(v.tzinfo is not None for v in values):
        raise TypeMismatchError(
            "a time with a time zone has no SQL type", code="E1321", hint="TIME is without: value.replace(tzinfo=None)"
        )
    return TIME.with_(precision=6 if any(v.microsecond % 1000 for v in values) else 3)


def _lists(values: Sequence[list[Any]]) -> DataType:
    return array(type_of([item for value in values for item in value]))


def _maps(values: Sequence[Mapping[Any, Any]]) -> DataType:
    keys = type_of([key for value in values for key in value])
    return map_of(keys.with_nullable(False), type_of([item for value in values for item in value.values()]))


def _rows(values: Sequence[Row]) -> DataType:
    widths = {len(value) for value in values}
    names = values[0].names or tuple(f"EXPR${i}" for i in range(len(values[0])))
    if len(widths) > 1 or any(v.names and v.names != names for v in values):
        raise TypeMismatchError(
            "rows of different fields have no common SQL type", code="E1330", hint="name all fields"
        )
    return row(*((name, type_of(column)) for name, column in zip(names, zip(*values, strict=True), strict=True)))


_TYPES: dict[type, Callable[[Any], DataType]] = {
    bool: lambda _: BOOLEAN,
    int: _whole,
    float: lambda _: DOUBLE,
    Decimal: _exact,
    str: lambda _: STRING,
    bytes: lambda _: BYTES,
    dt.date: lambda _: DATE,
    dt.time: _times,
    dt.datetime: _moments,
    dt.timedelta: lambda _: INTERVAL_SECOND,
    list: _lists,
    dict: _maps,
    Row: _rows,
}


# --- values as those of a type


def as_column(values: Sequence[Any], type_: DataType) -> pa.Array | None:
    """Plain values as a column of a type; None when one of them is no value of it."""
    try:
        return pa.array(_carried(values, type_), type_.arrow)
    except (_Misfit, pa.ArrowException, OverflowError, UnicodeEncodeError):
        return None


class _Misfit(Exception):
    """A value is none of the type."""


def _carried(values: Sequence[Any], type_: DataType) -> list[Any]:
    """The values as Arrow takes them; raises _Misfit for one that it would change."""
    kinds = set(map(type, values)) - {_NONE}
    root = type_.root
    if not kinds <= (_TAKEN[TypeRoot.VARCHAR] if type_.is_uuid else _TAKEN.get(root, frozenset())):
        raise _Misfit
    known = [v for v in values if v is not None] if None in values else values
    check = _CHECKS.get(root)
    if check is not None and not check(known, type_):
        raise _Misfit
    match root:
        case TypeRoot.DOUBLE if Decimal in kinds:
            return [None if v is None else float(v) for v in values]
        case TypeRoot.INTERVAL_SECOND:
            return [None if v is None else v // _MILLISECOND for v in values]
        case TypeRoot.ARRAY:
            return _nested(values, lambda part: _carried(part, type_.children[0]))
        case TypeRoot.MAP:
            return _map_items(values, type_)
        case TypeRoot.ROW:
            return _row_items(values, type_)
        case _:
            return list(values)


def _nested(values: Sequence[Any], change: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """Lists with their items changed, all items at once."""
    items = iter(change([item for value in values if value is not None for item in value]))
    return [None if value is None else [next(items) for _ in value] for value in values]


def _map_items(values: Sequence[Any], type_: DataType) -> list[Any]:
    keys = _nested([None if v is None else list(v) for v in values], lambda k: _carried(k, type_.children[0]))
    items = _nested([None if v is None else list(v.values()) for v in values], lambda i: _carried(i, type_.children[1]))
    return [None if k is None else list(zip(k, i, strict=True)) for k, i in zip(keys, items, strict=True)]


def _row_items(values: Sequence[Any], type_: DataType) -> list[Any]:
    names = [f.name for f in type_.fields]
    given: list[Sequence[Any] | None] = []
    for value in values:
        if isinstance(value, dict):
            if set(value) != set(names):
                raise _Misfit
            given.append([value[name] for name in names])
        else:
            if value is not None and len(value) != len(names):
                raise _Misfit
            given.append(value)
    there = [v for v in given if v is not None]
    if not there:
        return list(given)
    columns = [_carried(column, f.type) for column, f in zip(zip(*there, strict=True), type_.fields, strict=True)]
    rows = iter(zip(*columns, strict=True))
    return [None if v is None else dict(zip(names, next(rows), strict=True)) for v in given]


_MILLISECOND = dt.timedelta(milliseconds=1)
_ONE_WORD = 1 << 53

_TAKEN: dict[TypeRoot, frozenset[type]] = {
    TypeRoot.BOOLEAN: frozenset((bool,)),
    **dict.fromkeys((TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT), frozenset((int,))),
    TypeRoot.DECIMAL: frozenset((int, Decimal)),
    TypeRoot.FLOAT: frozenset((int, float)),
    TypeRoot.DOUBLE: frozenset((int, float, Decimal)),
    TypeRoot.VARCHAR: frozenset((str,)),
    TypeRoot.VARBINARY: frozenset((bytes,)),
    TypeRoot.DATE: frozenset((dt.date,)),
    TypeRoot.TIME: frozenset((dt.time,)),
    TypeRoot.TIMESTAMP: frozenset((dt.datetime,)),
    TypeRoot.TIMESTAMP_LTZ: frozenset((dt.datetime,)),
    TypeRoot.INTERVAL_SECOND: frozenset((dt.timedelta,)),
    TypeRoot.ARRAY: frozenset((list,)),
    TypeRoot.MAP: frozenset((dict,)),
    TypeRoot.ROW: frozenset((Row, dict)),
}
"""Values of which Python types may be of a type; those of others (CHAR, INTERVAL MONTH) get theirs by a cast."""


def _short(values: Sequence[Any], type_: DataType) -> bool:
    return all(len(v) <= type_.precision for v in values)


_IDENTIFIER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _identifiers(values: Sequence[Any], type_: DataType) -> bool:
    return type_.is_uuid and all(map(_IDENTIFIER.fullmatch, values))


def _float32(values: Sequence[Any], _: DataType) -> bool:
    if any(type(v) is int and abs(v) > 1 << 24 for v in values):
        return False
    wide = np.array(values, dtype=np.float64)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32).astype(np.float64)
    return bool(np.all((narrow == wide) | np.isnan(wide)))


def _finite(values: Sequence[Any], type_: DataType) -> bool:
    return all(type(v) is int or v.is_finite() for v in values)


def _digits(values: Sequence[Any], type_: DataType) -> bool:
    unit = 10 ** (6 - min(type_.precision, 6))
    zoned = type_.root is TypeRoot.TIMESTAMP_LTZ
    return all(v.microsecond % unit == 0 and (v.tzinfo is not None) == zoned for v in values)


_CHECKS: dict[TypeRoot, Callable[[Sequence[Any], DataType], bool]] = {
    TypeRoot.CHAR: _identifiers,
    TypeRoot.VARCHAR: _short,
    TypeRoot.VARBINARY: _short,
    TypeRoot.FLOAT: _float32,
    TypeRoot.DOUBLE: lambda values, _: all(type(v) is not int or abs(v) <= _ONE_WORD for v in values),
    TypeRoot.DECIMAL: _finite,
    TypeRoot.TIME: _digits,
    TypeRoot.TIMESTAMP: _digits,
    TypeRoot.TIMESTAMP_LTZ: _digits,
    TypeRoot.INTERVAL_SECOND: lambda values, _: all(not v % _MILLISECOND for v in values),
}
