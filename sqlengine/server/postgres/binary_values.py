"""Values in PostgreSQL's binary format, a column at a time.

Source: PostgreSQL 15, the `send` functions of `src/backend/utils/adt`. Whole columns are turned into big-endian numbers at
once; only arrays of wide DECIMALs are made value by value.
"""

from __future__ import annotations

import binascii
import decimal as python_decimal
import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.kernels.framing import with_length
from sqlengine.server.postgres.types import TYPES, PgType

__all__ = ["EPOCH_DAYS", "EPOCH_MICROS", "in_binary"]

EPOCH_DAYS = 10_957
"""2000-01-01, from which PostgreSQL counts, in days since 1970."""
EPOCH_MICROS = EPOCH_DAYS * 86_400_000_000


def in_binary(column: pa.Array, type_: PgType) -> pa.Array:
    """The values of a column as bytes (Arrow's `binary`); NULL stays NULL."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return column.cast(pa.binary())
    if type_.element is not None:
        return _array(column, type_.element)
    return _BINARIES.get(type_.name, _as_it_is)(column)


def _as_it_is(column: pa.Array) -> pa.Array:
    return column.cast(pa.string() if not pa.types.is_binary(column.type) else pa.binary()).cast(pa.binary())


def _packed(column: pa.Array, numbers: np.ndarray) -> pa.Array:
    """Each number as its bytes, where the column has a value."""
    packed = np.ascontiguousarray(numbers)
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(packed.dtype.itemsize), len(packed), [None, pa.py_buffer(packed.tobytes())]
    )
    return pc.if_else(column.is_valid(), fixed.cast(pa.binary()), pa.scalar(None, pa.binary()))


def _numbers(column: pa.Array, type_: pa.DataType) -> np.ndarray:
    return pc.fill_null(column.cast(type_, safe=False), 0).to_numpy(zero_copy_only=False)


def _integers(kind: str, type_: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    return lambda column: _packed(column, _numbers(column, type_).astype(kind))


def _boolean(column: pa.Array) -> pa.Array:
    return _packed(column, _numbers(column, pa.uint8()).astype(np.uint8))


def _date(column: pa.Array) -> pa.Array:
    return _packed(column, (_numbers(column.cast(pa.int32()), pa.int32()) - EPOCH_DAYS).astype(">i4"))


def _time(column: pa.Array) -> pa.Array:
    return _packed(column, _numbers(column.cast(pa.time64("us")).cast(pa.int64()), pa.int64()).astype(">i8"))


def _timestamp(column: pa.Array) -> pa.Array:
    zone = column.type.tz
    moments = column.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    return _packed(column, (_numbers(moments, pa.int64()) - EPOCH_MICROS).astype(">i8"))


def _interval(column: pa.Array) -> pa.Array:
    parts = np.zeros(len(column), dtype=[("micros", ">i8"), ("days", ">i4"), ("months", ">i4")])
    if pa.types.is_integer(column.type):
        parts["months"] = _numbers(column, pa.int32())
    elif pa.types.is_duration(column.type):
        micros = _numbers(column.cast(pa.duration("us")).cast(pa.int64()), pa.int64())
        days = np.trunc(micros / 86_400_000_000).astype(np.int64)
        parts["days"], parts["micros"] = days, micros - days * 86_400_000_000
    else:
        values = [v or (0, 0, 0) for v in column.to_pylist()]
        parts["months"], parts["days"] = [v[0] for v in values], [v[1] for v in values]
        parts["micros"] = [v[2] // 1000 for v in values]
    return _packed(column, parts)


def _numeric(column: pa.Array) -> pa.Array:
    return pa.array([None if v is None else numeric_bytes(v) for v in column.to_pylist()], pa.binary())


def numeric_bytes(value: python_decimal.Decimal | int | float) -> bytes:
    """A number in digits of base 10,000: how many, the weight of the first, sign, digits behind the point, the digits."""
    number = python_decimal.Decimal(value)
    if not number.is_finite():
        kind = 0xC000 if number.is_nan() else (0xF000 if number < 0 else 0xD000)
        return struct.pack("!hhHh", 0, 0, kind, 0)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    text = "".join(map(str, digits)) + "0" * max(exponent, 0)
    text += "0" * (-scale % 4)
    text = text.rjust(-(-len(text) // 4) * 4, "0")
    groups = [int(text[i : i + 4]) for i in range(0, len(text), 4)]
    weight = len(groups) - 1 - -(-scale // 4)
    while groups and groups[-1] == 0:
        groups.pop()
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    if not groups:
        weight = 0
    return struct.pack(f"!hhHh{len(groups)}h", len(groups), weight, 0x4000 if sign else 0, scale, *groups)


def _jsonb(column: pa.Array) -> pa.Array:
    """The version of the format, and the text."""
    return pc.binary_join_element_wise(pa.scalar(b"\x01", pa.binary()), _as_it_is(column), pa.scalar(b"", pa.binary()))


def _uuid(column: pa.Array) -> pa.Array:
    """The 16 bytes that the digits write."""
    digits = pc.replace_substring(pc.fill_null(column, "0" * 32), "-", "")
    data = binascii.unhexlify("".join(digits.to_pylist()))
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(column), [None, pa.py_buffer(data)])
    return pc.if_else(column.is_valid(), fixed.cast(pa.binary()), pa.scalar(None, pa.binary()))


def _array(column: pa.Array, element: PgType, lower: int = 1) -> pa.Array:
    """One dimension from `lower` on; an empty array has none. Elements stand behind their lengths."""
    column = column.cast(pa.list_(column.type.value_type)) if not pa.types.is_list(column.type) else column
    flat = column.flatten()
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    ends = np.r_[0, np.cumsum(counts)]
    items = with_length(in_binary(flat, element))
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items)
    bodies = pc.binary_join(lists, pa.scalar(b"", pa.binary()))
    nulls = np.r_[0, np.cumsum(np.asarray(flat.is_null()).astype(np.int64))]
    heads = np.zeros(
        len(column), dtype=[("dims", ">i4"), ("nulls", ">i4"), ("oid", ">u4"), ("size", ">i4"), ("lower", ">i4")]
    )
    heads["dims"], heads["oid"], heads["size"], heads["lower"] = 1, element.oid, counts, lower
    heads["nulls"] = nulls[ends[1:]] > nulls[ends[:-1]]
    full = pc.binary_join_element_wise(_packed(column, heads), bodies, pa.scalar(b"", pa.binary()))
    empty = pa.scalar(struct.pack("!iiI", 0, 0, element.oid), pa.binary())
    return pc.if_else(pa.array(counts > 0), full, pc.if_else(column.is_valid(), empty, pa.scalar(None, pa.binary())))


_BINARIES: dict[str, Callable[[pa.Array], pa.Array]] = {
    "int2vector": lambda column: _array(column, TYPES["int2"], 0),
    "oidvector": lambda column: _array(column, TYPES["oid"], 0),
    "bool": _boolean,
    "int2": _integers(">i2", pa.int16()),
    "int4": _integers(">i4", pa.int32()),
    "int8": _integers(">i8", pa.int64()),
    "oid": _integers(">u4", pa.uint32()),
    "regclass": _integers(">u4", pa.uint32()),
    "regtype": _integers(">u4", pa.uint32()),
    "float4": _integers(">f4", pa.float32()),
    "float8": _integers(">f8", pa.float64()),
    "numeric": _numeric,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamp,
    "interval": _interval,
    "jsonb": _jsonb,
    "uuid": _uuid,
}
