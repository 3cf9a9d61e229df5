"""Columns of values as literals of MySQL, for sessions of `connection`."""

from __future__ import annotations

import binascii
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ConnectorError
from runtime.core.schema import Field
from runtime.core.types import TypeRoot

__all__ = ["literals", "rows_of_literals", "text"]

_R = TypeRoot
_FLOATS = frozenset({_R.FLOAT, _R.DOUBLE})
_BYTES = frozenset({_R.BINARY, _R.VARBINARY})
_QUOTED = frozenset({_R.CHAR, _R.VARCHAR, _R.DATE, _R.TIME, _R.TIMESTAMP, _R.TIMESTAMP_LTZ})


def literals(column: pa.Array, field: Field, place: str) -> pa.Array:
    """Values as texts that MySQL reads as the same values. `place`: the table, for messages.

    Raises ConnectorError E3164 for a type of which there is none, NaN, infinity and nanoseconds that would be lost.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    root = field.type.root
    if root in _FLOATS:
        texts = _floats(column, field, place)
    elif root in _BYTES:
        texts = _hexadecimal(column.cast(pa.large_binary()))
    elif root in _QUOTED:
        texts = _texts(column, field, place)
    elif root is _R.BOOLEAN:
        texts = column.cast(pa.int8()).cast(pa.string())
    elif pa.types.is_integer(column.type) or root is _R.DECIMAL:
        texts = column.cast(pa.string())
    else:
        raise ConnectorError(
            f"column {field.name} of {place}: MySQL has no {field.type}",
            code="E3164",
            hint="write a text of it, such as JSON_STRING(..)",
        )
    return pc.fill_null(texts.cast(pa.large_string()), "NULL")


def _texts(column: pa.Array, field: Field, place: str) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        try:
            column = column.cast(pa.timestamp("us"))
        except pa.ArrowInvalid as error:
            raise ConnectorError(
                f"column {field.name} of {place} would lose digits of a second: MySQL has microseconds",
                code="E3164",
                hint="write CAST(.. AS TIMESTAMP(6))",
            ) from error
    texts = column.cast(pa.string())
    if field.type.root in (_R.CHAR, _R.VARCHAR):
        texts = pc.replace_substring(texts, "'", "''")
    return pc.binary_join_element_wise("'", texts, "'", "")


def _floats(column: pa.Array, field: Field, place: str) -> pa.Array:
    wide = column.cast(pa.float64())
    if pc.any(pc.invert(pc.is_finite(wide))).as_py():
        raise ConnectorError(
            f"column {field.name} of {place}: MySQL has no NaN and no infinity", code="E3164", hint="write NULL"
        )
    texts = wide.cast(pa.string())
    # Without an exponent it would be a number of decimal digits.
    has = pc.match_substring(texts, "e")
    return pc.if_else(has, texts, pc.binary_join_element_wise(texts, "e0", ""))


def _hexadecimal(column: pa.Array) -> pa.Array:
    _, offsets, data = column.buffers()
    places = np.frombuffer(offsets, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    octets = b"" if data is None else memoryview(data)[int(places[0]) : int(places[-1])]
    digits = pa.py_buffer(binascii.hexlify(octets))
    moved = pa.py_buffer(np.ascontiguousarray((places - places[0]) * 2))
    texts = pa.LargeStringArray.from_buffers(len(column), moved, digits)
    quoted = pc.binary_join_element_wise(text("x'"), texts, text("'"), text(""))
    return pc.if_else(column.is_valid(), quoted, pa.scalar(None, pa.large_string()))


def text(value: str) -> pa.Scalar:
    """A text beside those of `literals`."""
    return pa.scalar(value, pa.large_string())


def rows_of_literals(columns: Sequence[pa.Array]) -> pa.Array:
    """Literals as rows in parentheses."""
    joined = columns[0]
    if len(columns) > 1:
        joined = pc.binary_join_element_wise(*columns, text(","))
    return pc.binary_join_element_wise(text("("), joined, text(")"), text(""))
