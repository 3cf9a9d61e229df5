"""Columns to fields of documents, and back.

The client makes an object of Python of each value; so these loops are over objects, and not over columns.
"""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from connectors.mongodb.address import bson
from runtime.core.errors import ConnectorError, UnsupportedError
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot

__all__ = ["ID", "as_columns", "as_values", "check_types", "constant", "id_of"]

ID = "_id"
_R = TypeRoot
_SHOWN = 120
_MILLIS = 3
_DIGITS = 34
_TEXTS = frozenset((_R.CHAR, _R.VARCHAR))
_INTEGERS = frozenset((_R.TINYINT, _R.SMALLINT, _R.INT, _R.BIGINT))
_TIMES = frozenset((_R.TIMESTAMP, _R.TIMESTAMP_LTZ))
_PLAIN = _TEXTS | _INTEGERS | _TIMES | {_R.BOOLEAN, _R.FLOAT, _R.DOUBLE, _R.DECIMAL, _R.DATE, _R.BINARY, _R.VARBINARY}
_Convert = Callable[[Any], Any]


def check_types(schema: Schema, name: str) -> None:
    """Raises UnsupportedError E1643 for columns that documents do not hold."""
    for field in schema:
        told = _unfit(field.type)
        if told:
            raise UnsupportedError(
                f'{name}: column "{field.name}" of type {field.type}: {told}', code="E1643", hint="declare another type"
            )


def _unfit(type_: DataType) -> str:
    if type_.words:
        return "documents have it as another type; use STRING"
    if type_.root in _TIMES and type_.precision > _MILLIS:
        return "times of MongoDB have three digits of a second"
    if type_.root is _R.DECIMAL and type_.precision > _DIGITS:
        return f"decimals of MongoDB have {_DIGITS} digits"
    match type_.root:
        case _R.ARRAY:
            return _unfit(type_.children[0])
        case _R.MAP:
            return _unfit(type_.children[1]) if type_.children[0].root in _TEXTS else "keys of a document are texts"
        case _R.ROW:
            return next(filter(None, (_unfit(f.type) for f in type_.fields)), "")
        case root:
            return "" if root in _PLAIN else "MongoDB has no such type"


# --- to documents


def as_values(column: pa.Array, type_: DataType) -> list[Any]:
    """What the client writes for each cell."""
    values = column.to_pylist()
    convert = _writing(type_)
    return values if convert is None else [None if v is None else convert(v) for v in values]


def constant(value: Any, type_: DataType) -> Any:
    """What the client writes for a value."""
    convert = _writing(type_)
    return value if convert is None or value is None else convert(value)


def id_of(value: Any) -> Any:
    """The `_id` of a key: a text that is one of an ObjectId is that, as in Flink."""
    types = bson().objectid.ObjectId
    return types(value) if isinstance(value, str) and types.is_valid(value) else value


def _writing(type_: DataType) -> _Convert | None:
    types = bson()
    match type_.root:
        case _R.BIGINT:
            return types.int64.Int64
        case _R.DECIMAL:
            return types.decimal128.Decimal128
        case _R.DATE:
            return lambda value: datetime.datetime(value.year, value.month, value.day)
        case _R.BINARY | _R.VARBINARY:
            return types.binary.Binary
        case _R.ARRAY:
            inner = _writing(type_.children[0])
            return None if inner is None else lambda value: [None if v is None else inner(v) for v in value]
        case _R.MAP:
            inside = _writing(type_.children[1]) or (lambda value: value)
            return lambda value: {k: None if v is None else inside(v) for k, v in value}
        case _R.ROW:
            fields = {f.name: _writing(f.type) or (lambda value: value) for f in type_.fields}
            return lambda value: {n: None if value[n] is None else convert(value[n]) for n, convert in fields.items()}
        case _:
            return None


# --- from documents


def as_columns(documents: Sequence[Mapping[str, Any]], schema: Schema, place: str) -> pa.RecordBatch:
    """The columns of documents; a field that is missing is NULL. Raises ConnectorError E3283 for one of another type."""
    columns: list[pa.Array] = []
    for field in schema:
        convert = _reading(field.type)
        values = [document.get(field.name) for document in documents]
        try:
            read = [None if v is None else convert(v) for v in values]
            columns.append(pa.array(read, field.type.arrow))
        except (_Other, pa.ArrowInvalid, OverflowError) as error:
            shown = error.value if isinstance(error, _Other) else error
            raise ConnectorError(
                f"{place}: the field {field.name} of a document is no {field.type}: {repr(shown)[:_SHOWN]}",
                code="E3283",
                hint="declare the column as the field is, or leave such documents out",
            ) from error
    return pa.RecordBatch.from_arrays(columns, names=list(schema.names))


class _Other(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def _reading(type_: DataType) -> _Convert:
    match type_.root:
        case _R.CHAR | _R.VARCHAR:
            return _text
        case _R.BOOLEAN:
            return lambda value: value if isinstance(value, bool) else _other(value)
        case root if root in _INTEGERS:
            return _whole
        case _R.FLOAT | _R.DOUBLE:
            return _floating
        case _R.DECIMAL:
            return lambda value: _decimal(value, type_.precision, type_.scale)
        case _R.DATE:
            return lambda value: value.date() if isinstance(value, datetime.datetime) else _other(value)
        case _R.TIMESTAMP | _R.TIMESTAMP_LTZ:
            return lambda value: value if isinstance(value, datetime.datetime) else _other(value)
        case _R.BINARY | _R.VARBINARY:
            return lambda value: bytes(value) if isinstance(value, bytes) else _other(value)
        case _R.ARRAY:
            inner = _reading(type_.children[0])
            return lambda value: [None if v is None else inner(v) for v in _are(value, list)]
        case _R.MAP:
            inside = _reading(type_.children[1])
            return lambda value: [(k, None if v is None else inside(v)) for k, v in _are(value, dict).items()]
        case _:
            fields = {f.name: _reading(f.type) for f in type_.fields}
            return lambda value: {
                n: None if (v := _are(value, dict).get(n)) is None else convert(v) for n, convert in fields.items()
            }


def _other(value: Any) -> Any:
    raise _Other(value)


def _are(value: Any, kind: type[Any]) -> Any:
    return value if isinstance(value, kind) else _other(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, bson().objectid.ObjectId | uuid.UUID) else _other(value)


def _whole(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else _other(value)


def _floating(value: Any) -> float:
    if isinstance(value, bson().decimal128.Decimal128):
        return float(value.to_decimal())
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else _other(value)


def _decimal(value: Any, precision: int, scale: int) -> decimal.Decimal:
    """Rounded to the digits of the column."""
    if isinstance(value, bson().decimal128.Decimal128):
        number = value.to_decimal()
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        number = decimal.Decimal(str(value))
    else:
        return _other(value)
    if not number.is_finite() or number.adjusted() >= precision - scale:
        return _other(value)
    return number.quantize(decimal.Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP, decimal.Context(prec=80))
