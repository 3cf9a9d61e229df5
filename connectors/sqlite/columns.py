"""Columns of SQLite: which types they are here, how they are asked for, and values as SQLite keeps them.

SQLite has five kinds of values, and a column may hold any of them; what a column is declared as says what it should hold.
Dates and times are ISO's texts; numbers of DECIMAL have 15 digits at most, because SQLite makes floating numbers of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connectors.databases.fitting import fitted, may_be_read
from connectors.databases.texts import moments, times
from runtime.core.errors import ConnectorError, FormatError
from runtime.core.schema import Field, Schema
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    SMALLINT,
    STRING,
    STRING_LENGTH,
    TINYINT,
    DataType,
    TypeRoot,
    decimal,
    timestamp,
    timestamp_ltz,
    varchar,
)

__all__ = ["Column", "bound", "check", "may_read", "may_write", "quoted", "spelled", "typed"]

_R = TypeRoot
_DECLARED = re.compile(r"\s*([A-Za-z_ ]*?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*")
_EXACT_DIGITS = 15
_PLAIN = {
    "BOOLEAN": BOOLEAN, "BOOL": BOOLEAN, "TINYINT": TINYINT, "SMALLINT": SMALLINT, "INT2": SMALLINT, "INT": INT, "INT4": INT,
    "MEDIUMINT": INT, "DATE": DATE, "DATETIME": timestamp(6), "TIMESTAMP": timestamp(6), "TIMESTAMPTZ": timestamp_ltz(6),
    "TIMESTAMP WITH TIME ZONE": timestamp_ltz(6), "TIME": DataType(_R.TIME, 3),
}  # fmt: skip
_OF_TEXTS = frozenset({_R.DECIMAL, _R.DATE, _R.TIME, _R.TIMESTAMP, _R.TIMESTAMP_LTZ})
"""Types that a column of texts may hold."""
_WORDS = frozenset({_R.CHAR, _R.VARCHAR})
_BITS = {_R.TINYINT: 8, _R.SMALLINT: 16, _R.INT: 32, _R.BIGINT: 64}
_INTEGERS = frozenset(_BITS)
_FLOATS = frozenset({_R.FLOAT, _R.DOUBLE})


def quoted(name: str) -> str:
    """A name as SQLite reads it."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Column:
    """A column there. `declared`: its type as it was written, which may be anything or nothing."""

    name: str
    declared: str
    nullable: bool

    @property
    def type(self) -> DataType:
        """The type here."""
        return self._type().with_nullable(self.nullable)

    def _type(self) -> DataType:
        found = _DECLARED.fullmatch(self.declared)
        word = " ".join((found[1] if found else self.declared).upper().split())
        size = int(found[2]) if found and found[2] else 0
        if word in _PLAIN:
            return _PLAIN[word]
        # From here on as SQLite itself reads types ("Determination Of Column Affinity").
        if "INT" in word:
            return BIGINT
        if any(part in word for part in ("CHAR", "CLOB", "TEXT")):
            return varchar(size) if size and "VARCHAR" in word else STRING
        if "BLOB" in word:
            return BYTES
        if any(part in word for part in ("REAL", "FLOA", "DOUB")):
            return DOUBLE
        if word in ("DECIMAL", "NUMERIC") and 0 < size <= 38:
            return decimal(size, min(int(found[3] or 0), size) if found else 0)
        return STRING

    @property
    def holds_texts(self) -> bool:
        """Whether SQLite makes texts of numbers that are put in."""
        return any(part in self.declared.upper() for part in ("CHAR", "CLOB", "TEXT"))

    def asked(self, source: str, wanted: DataType) -> str:
        """How it is asked for."""
        if wanted.root in _WORDS and not self.holds_texts:
            return f"CAST({source} AS TEXT)"
        return f"CAST({source} AS TEXT)" if wanted.root is _R.DECIMAL else source

    def compared(self, source: str, wanted: DataType) -> str:
        """In a form that compares as the engine does."""
        return self.asked(source, wanted) if wanted.root in _WORDS else source


def spelled(type_: DataType) -> str | None:
    """The type there that keeps the values of a type here, for CREATE TABLE; None when there is none."""
    match type_.root:
        case _R.DECIMAL:
            return f"DECIMAL({type_.precision}, {type_.scale})" if type_.precision <= _EXACT_DIGITS else None
        case _R.CHAR | _R.VARCHAR:
            return f"VARCHAR({type_.precision})" if type_.precision < STRING_LENGTH else "TEXT"
        case _R.BINARY | _R.VARBINARY:
            return "BLOB"
        case _R.TIMESTAMP | _R.TIMESTAMP_LTZ if type_.precision > 6:
            return None
        case _R.TIMESTAMP_LTZ:
            return "TIMESTAMPTZ"
        case _R.DOUBLE | _R.FLOAT:
            return "DOUBLE"
        case _ if type_.root in _INTEGERS | {_R.BOOLEAN, _R.DATE, _R.TIME, _R.TIMESTAMP}:
            return type_.root.value
        case _:
            return None


def may_read(there: Column, wanted: DataType) -> bool:
    """Whether values of a column can be values of a type here."""
    root = there.type.root
    return (
        may_be_read(there.type, wanted)
        or (root in _WORDS and wanted.root in _OF_TEXTS)
        or (root in _FLOATS and wanted.root in _FLOATS)
    )


def may_write(there: Column, type_: DataType) -> bool:
    """Whether a column keeps values of a type here as they are."""
    a, b = type_.root, there.type.root
    if a is _R.DECIMAL and b is _R.DECIMAL:
        return type_.precision <= _EXACT_DIGITS and type_.scale <= there.type.scale
    if a in _INTEGERS:
        return b in _INTEGERS
    if a in _FLOATS:
        return b in _FLOATS
    if a in _WORDS or (a in _OF_TEXTS and b in _WORDS):
        return b in _WORDS and (a in _WORDS or there.holds_texts or a is not _R.DECIMAL)
    return (a is b and a is not _R.ARRAY) or (a in (_R.BINARY, _R.VARBINARY) and b is _R.VARBINARY)


def check(source: str, type_: DataType) -> str | None:
    """Whether a value is one of a type of whole numbers, as a condition; None for a type whose values all come out. NULL fits
    where it may be."""
    if type_.root not in _BITS:
        return None
    half = 1 << (_BITS[type_.root] - 1)
    null = f"{source} IS NULL OR " if type_.nullable else ""
    return f"({null}(typeof({source}) = 'integer' AND {source} BETWEEN {-half} AND {half - 1}))"


def typed(rows: Sequence[Sequence[Any]], schema: Schema, place: str) -> pa.RecordBatch:
    """Rows of SQLite as columns. Raises FormatError E3164 for a value of another kind than its column says."""
    cells = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [_typed(values, field, place) for values, field in zip(cells, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(schema.names))


def _typed(values: Sequence[Any], field: Field, place: str) -> pa.Array:
    root = field.type.root
    try:
        match root:
            case _R.BOOLEAN:
                numbers = _of_kind(values, pa.int64())
                if pc.any(pc.greater(pc.abs(pc.subtract(pc.multiply(numbers, 2), 1)), 1)).as_py():
                    raise pa.ArrowInvalid("it is neither 0 nor 1")
                column = numbers.cast(pa.bool_())
            case _R.TIMESTAMP | _R.TIMESTAMP_LTZ:
                column = moments(_of_kind(values, pa.string()), zoned=root is _R.TIMESTAMP_LTZ)
            case _R.DATE:
                column = _of_kind(values, pa.string()).cast(pa.date32())
            case _R.TIME:
                column = times(_of_kind(values, pa.string()))
            case _ if root in _INTEGERS:
                column = _of_kind(values, pa.int64())
            case _ if root in _FLOATS:
                column = pa.array(values, pa.float64()).cast(field.type.arrow, safe=False)
            case _R.BINARY | _R.VARBINARY:
                column = _of_kind(values, pa.binary())
            case _:
                column = _of_kind(values, pa.string())
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise FormatError(
            f"column {field.name} of {place} has a value that is no {field.type}: {str(error).splitlines()[0]}",
            code="E3164",
            hint="SQLite keeps values of any kind in any column: correct the row, or declare the column as STRING",
        ) from error
    return fitted(column, field, place)


def _of_kind(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values as Arrow takes them for itself: told a type, it would make text of bytes, and whole numbers of others."""
    found = pa.array(values)
    if found.type != kind and not pa.types.is_null(found.type):
        raise pa.ArrowInvalid(f"it is kept as {found.type}")
    return found.cast(kind)


def bound(column: pa.Array, field: Field, place: str) -> list[Any]:
    """Values of a column as SQLite keeps them. Raises ConnectorError E3164 for NaN, of which SQLite makes NULL."""
    root = field.type.root
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if root in _FLOATS:
        if pc.any(pc.is_nan(column)).as_py():
            raise ConnectorError(
                f"column {field.name} of {place}: SQLite has no NaN", code="E3164", hint="write NULL, or a text"
            )
    elif root is _R.BOOLEAN:
        column = column.cast(pa.int8())
    elif root in _OF_TEXTS:
        column = column.cast(pa.string())
    return column.to_pylist()
