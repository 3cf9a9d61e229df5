"""Columns that a database gave, as the types that a table declares. What does not fit is an error that names the column."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import FormatError
from runtime.core.schema import Field
from runtime.core.types import STRING_LENGTH, DataType, TypeRoot
from runtime.expr.time_range import OUT_OF_YEARS, has_times_outside

__all__ = ["fitted", "fitted_rows", "may_be_read"]

_R = TypeRoot
_INTEGERS = frozenset({_R.TINYINT, _R.SMALLINT, _R.INT, _R.BIGINT})
_TEXTS = frozenset({_R.CHAR, _R.VARCHAR})
_BYTES = frozenset({_R.BINARY, _R.VARBINARY})
_TIMES = frozenset({_R.TIMESTAMP, _R.TIMESTAMP_LTZ})
_MILLIS, _MICROS = 3, 6
_MOST_DIGITS = 38


def may_be_read(there: DataType, declared: DataType) -> bool:
    """Whether values of a column of the database can be values of a declared type: all of them, or those that fit."""
    a, b = there.root, declared.root
    if a is _R.ARRAY and b is _R.ARRAY:
        return may_be_read(there.children[0], declared.children[0])
    if a in _INTEGERS:
        return b in _INTEGERS or b is _R.DECIMAL
    if a is _R.FLOAT:
        return b in (_R.FLOAT, _R.DOUBLE)
    if a is _R.DECIMAL:
        return b is _R.DECIMAL or b in _INTEGERS
    if a in _TEXTS:
        return b in _TEXTS
    return b in _BYTES if a in _BYTES else a is b


def fitted_rows(columns: Sequence[pa.Array], fields: Sequence[Field], place: str) -> pa.RecordBatch:
    """Columns as a batch of the declared types. `place`: the table, for messages."""
    arrays = [fitted(c, f, place) for c, f in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[f.name for f in fields])


def fitted(column: pa.Array, field: Field, place: str) -> pa.Array:
    """A column as the declared type. DECIMAL comes as text, or as a number.

    Raises FormatError E3164 for a value that the type does not have: NaN, infinity, other years than 1 to 9999, one that is
    too large or has too many digits; and for NULL in a column that is NOT NULL.
    """
    try:
        found = _fitted(column, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
        said = str(error).splitlines()[0]
        raise _no_twin(field, place, f"a value that is no {field.type}: {said}") from error
    if has_times_outside(found):
        raise _no_twin(field, place, OUT_OF_YEARS)
    if not field.type.nullable and found.null_count:
        raise _no_twin(field, place, "NULL, and is declared NOT NULL")
    return found


def _no_twin(field: Field, place: str, what: str) -> FormatError:
    return FormatError(
        f"column {field.name} of {place} has {what}",
        code="E3164",
        hint="declare the column with a type that has it, or read a view that gives something else",
    )


def _fitted(column: pa.Array, type_: DataType) -> pa.Array:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    wanted = type_.arrow
    if type_.root is _R.ARRAY:
        inner = _fitted(column.flatten(), type_.children[0])
        # Its own offsets may be those of a part of a longer array, and have room behind NULL.
        lengths = pc.fill_null(pc.list_value_length(column), 0)
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
        nulls = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(offsets, inner, type=wanted, mask=nulls)
    if type_.root in _TIMES and type_.precision < _MICROS and pa.types.is_timestamp(column.type):
        column = pc.floor_temporal(column, multiple=10 ** (_MICROS - type_.precision), unit="microsecond")
    if type_.root is _R.TIME and pa.types.is_time64(column.type):
        step = 10 ** (_MICROS - min(type_.precision, _MILLIS))
        micros = column.cast(pa.time64("us")).cast(pa.int64())
        column = pc.multiply(pc.divide(micros, step), step).cast(pa.time64("us"))
    if type_.root is _R.DECIMAL and pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    if type_.root in _INTEGERS and pa.types.is_string(column.type):
        column = _decimals(column, _MOST_DIGITS, 0)
    if type_.root is _R.DECIMAL and pa.types.is_string(column.type):
        return _decimals(column, type_.precision, type_.scale)
    if type_.root is _R.VARCHAR and type_.precision < STRING_LENGTH:
        longest = pc.max(pc.utf8_length(column)).as_py() or 0
        if longest > type_.precision:
            raise pa.ArrowInvalid(f"it has {longest} characters")
    return column if column.type == wanted else column.cast(wanted)


def _decimals(texts: pa.Array, precision: int, scale: int) -> pa.Array:
    """Texts as DECIMAL. Arrow looks whether digits behind the point are lost, not whether the number is too large for its
    bits: 39 digits become other ones."""
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest + scale <= _MOST_DIGITS:
        return texts.cast(pa.decimal128(precision, scale))
    greatest = pc.max(pc.abs(texts.cast(pa.float64()))).as_py()
    if greatest is not None and not greatest < 10.0**_MOST_DIGITS:
        raise pa.ArrowInvalid(f"{greatest:g} is too large")
    return texts.cast(pa.decimal256(2 * _MOST_DIGITS, scale)).cast(pa.decimal128(precision, scale))
