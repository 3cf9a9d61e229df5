"""Columns of PostgreSQL: what they are called there, which types they are here, and how they are asked for and written.

What has an equal is read in binary. NUMERIC comes as text, because it may have more digits, NaN or infinity, which is then
an error that names the column. Everything else (UUID, JSON, ranges, enums, intervals, composites, ...) comes as PostgreSQL's
own text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from connectors.databases.fitting import may_be_read
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    STRING_LENGTH,
    DataType,
    TypeRoot,
    array,
    char,
    decimal,
    timestamp,
    timestamp_ltz,
    varchar,
)

__all__ = ["Column", "spelled", "staged_type"]

_R = TypeRoot
_PLAIN = {
    "int2": SMALLINT, "int4": INT, "int8": BIGINT, "float4": FLOAT, "float8": DOUBLE, "bool": BOOLEAN, "text": STRING,
    "bytea": BYTES, "date": DATE,
}  # fmt: skip
_READ_AS = {"oid": ("int8", BIGINT), "xid": ("text", STRING), "name": ("text", STRING)}
_LENGTH_HEAD = 4
"""Type modifiers of lengths count their own head."""
_MOST_DIGITS = 38
_LONGEST = 10_485_760
"""The most characters of VARCHAR."""
_MICROS, _MILLIS = 6, 3
_UNWRITABLE = frozenset({"bit", "varbit"})
"""Whose casts cut off."""
_STAGED = {
    _R.TINYINT: "int2", _R.SMALLINT: "int2", _R.INT: "int4", _R.BIGINT: "int8", _R.FLOAT: "float4", _R.DOUBLE: "float8",
    _R.BOOLEAN: "bool", _R.CHAR: "text", _R.VARCHAR: "text", _R.BINARY: "bytea", _R.VARBINARY: "bytea", _R.DATE: "date",
    _R.TIME: "time", _R.TIMESTAMP: "timestamp", _R.TIMESTAMP_LTZ: "timestamptz", _R.DECIMAL: "numeric",
}  # fmt: skip
_INTEGERS = ("int2", "int4", "int8")
_BITS = {_R.TINYINT: 8, _R.SMALLINT: 16, _R.INT: 32, _R.BIGINT: 64}
_FITTING: dict[TypeRoot, tuple[str, ...]] = {
    _R.TINYINT: (), _R.SMALLINT: ("int2",), _R.INT: ("int2", "int4"), _R.BIGINT: _INTEGERS,
}  # fmt: skip
"""Which types there have no others but the values of a type here."""
_TEXTS = ("text", "varchar", "bpchar")
_TAKES = {
    _R.TINYINT: (*_INTEGERS, "numeric"), _R.SMALLINT: (*_INTEGERS, "numeric"), _R.INT: (*_INTEGERS, "numeric"),
    _R.BIGINT: (*_INTEGERS, "numeric"), _R.DECIMAL: ("numeric",), _R.FLOAT: ("float4", "float8"), _R.DOUBLE: ("float8",),
    _R.BOOLEAN: ("bool",), _R.BINARY: ("bytea",), _R.VARBINARY: ("bytea",), _R.DATE: ("date",), _R.TIME: ("time",),
    _R.TIMESTAMP: ("timestamp",), _R.TIMESTAMP_LTZ: ("timestamptz",), _R.CHAR: _TEXTS, _R.VARCHAR: _TEXTS,
}  # fmt: skip
"""Which types there take all values of a type here, or refuse the row."""


def staged_type(type_: DataType) -> str | None:
    """The type there in which values of a type here are brought; None when there is none."""
    if type_.root is _R.ARRAY:
        inner = staged_type(type_.children[0])
        return None if inner is None or inner.endswith("[]") else f"{inner}[]"
    return _STAGED.get(type_.root)


def spelled(type_: DataType) -> str | None:
    """The type there that has the values of a type here, for CREATE TABLE; None when there is none."""
    plain = staged_type(type_)
    match type_.root:
        case _R.ARRAY:
            inner = spelled(type_.children[0])
            return None if plain is None or inner is None else f"{inner}[]"
        case _R.DECIMAL:
            return f"numeric({type_.precision}, {type_.scale})"
        case _R.CHAR:
            return f"char({type_.precision})"
        case _R.VARCHAR if type_.precision < STRING_LENGTH:
            return f"varchar({type_.precision})" if type_.precision <= _LONGEST else "text"
        case _R.TIME:
            return f"time({min(type_.precision, _MILLIS)})"
        case _R.TIMESTAMP | _R.TIMESTAMP_LTZ:
            return f"{plain}({type_.precision})" if type_.precision <= _MICROS else None
        case _:
            return plain


def _digits_of(type_: DataType) -> int:
    """How many digits of seconds a type keeps."""
    return type_.precision if type_.root in (_R.TIMESTAMP, _R.TIMESTAMP_LTZ) else _MICROS


@dataclass(frozen=True)
class Column:
    """A column of a table there.

    Attributes:
        type_name: of the type, below domains; of an array that of its elements.
        modifier: of the type, -1 without one.
        declared: as it is spelled, with its modifier, and as a domain.
        own: its type is PostgreSQL's own, not one of the same name in another schema.
    """

    name: str
    type_name: str
    modifier: int
    declared: str
    nullable: bool
    is_array: bool = False
    is_domain: bool = False
    own: bool = True
    comment: str | None = None

    @property
    def type(self) -> DataType:
        """The type here."""
        inner = self._element()
        return (array(inner) if self.is_array else inner).with_nullable(self.nullable)

    @property
    def _is_plain(self) -> bool:
        return self.own and (self.type_name in _PLAIN or self.type_name in _BY_MODIFIER)

    def _element(self) -> DataType:
        if not self.own:
            return STRING
        if self.type_name in _BY_MODIFIER:
            return _BY_MODIFIER[self.type_name](self.modifier)
        if self.type_name in _READ_AS and not self.is_array:
            return _READ_AS[self.type_name][1]
        return _PLAIN.get(self.type_name, STRING)

    def asked(self, source: str) -> str:
        """How it is asked for; `source` is its quoted name there."""
        if self._is_plain and self.type_name != "numeric":
            plain = self.type_name
            asked = f"{source}::{plain}" if self.is_domain and not self.is_array else source
        else:
            plain = (
                _READ_AS[self.type_name][0] if self.own and self.type_name in _READ_AS and not self.is_array else "text"
            )
            asked = f"{source}::{plain}{'[]' if self.is_array else ''}"
        if not self.is_array:
            return asked
        told = (
            "'\"column " + self.name.replace("'", "''").replace('"', "") + " has arrays of more than one dimension\"'"
        )
        return f"CASE WHEN array_ndims({source}) > 1 THEN ({told} || '')::{plain}[] ELSE {asked} END"

    def may_be(self, declared: DataType) -> bool:
        """Whether its values can be values of a type here."""
        return may_be_read(self.type, declared)

    def compared(self, source: str, declared: DataType) -> str:
        """The column in a form that compares as it does here."""
        digits = _digits_of(declared)
        if self.is_array:
            return source
        if not self._is_plain:
            return self.asked(source)
        if self.type_name in ("timestamp", "timestamptz") and digits < self.type.precision:
            origin = "TIMESTAMP '0001-01-01'" if self.type_name == "timestamp" else "TIMESTAMPTZ '0001-01-01Z'"
            return f"date_bin(INTERVAL '{10 ** (_MICROS - digits)} microseconds', {source}, {origin})"
        return source

    def grouped(self, source: str, declared: DataType) -> str:
        """The column in a form that is equal only where it is here: texts with their blanks."""
        if self.own and self.type_name == "bpchar" and not self.is_array:
            return f"({source}::text || repeat(' ', octet_length({source}) - octet_length({source}::text)))"
        return self.compared(source, declared)

    def check(self, source: str, declared: DataType) -> str | None:
        """Whether a value is one of the declared type, as a condition; None where all are. NULL is neither."""
        match declared.root:
            case root if root in _BITS and not (self._is_plain and self.type_name in _FITTING[root]):
                half = 1 << (_BITS[root] - 1)
                fits = f"{source} BETWEEN {-half} AND {half - 1} AND {source} = trunc({source}::numeric)"
            case _R.DECIMAL if self.type.root is not _R.DECIMAL or self.modifier < 0 or self.type != declared:
                digits = declared.precision - declared.scale
                fits = f"abs({source}) < 1e{digits} AND {source} = round({source}::numeric, {declared.scale})"
            case _R.DATE:
                fits = f"{source} BETWEEN '0001-01-01' AND '9999-12-31'"
            case _R.TIMESTAMP:
                fits = f"{source} >= '0001-01-01' AND {source} < '10000-01-01'"
            case _:
                fits = None
        if declared.nullable or not self.nullable:
            return fits
        return f"{source} IS NOT NULL" if fits is None else f"({source} IS NOT NULL AND {fits})"

    def keyed(self, key: str, source: str, declared: DataType) -> str:
        """The condition that it equals a text of the declared type, which an index can answer where that is right."""
        if self.is_array or not self.own:
            return f"{self.asked(source)} = {key}"
        match self.type_name:
            case "uuid":
                form = "'^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'"
                return f"{source} = CASE WHEN {key} ~ {form} THEN {key}::uuid END"
            case "text" | "varchar":
                return f'({source} = {key} AND {source}::text COLLATE "C" = {key})'
            case "bpchar" if self.modifier >= _LENGTH_HEAD:
                length = self.modifier - _LENGTH_HEAD
                return f"({source} = {key}::bpchar AND rpad({source}::text, {length}) = rpad({key}, {length}))"
            case "float4" | "float8":
                return f"{source} = {key}::{'float4' if declared.root is _R.FLOAT else 'float8'}"
            case "int2" | "int4" | "int8" if declared.root is _R.DECIMAL:
                return f"{source}::numeric = {key}::numeric"
            case "int2" | "int4" | "int8":
                return f"{source} = {key}::int8"
            case "bytea":
                return f"{source} = decode({key}, 'hex')"
            case _ if self._is_plain:
                return f"{self.compared(source, declared)} = {key}::{self.type_name}"
            case _:
                return f"{self.asked(source)} = {key}"

    def written(self, type_: DataType, staged: str) -> str | None:
        """How a staged value of a type here is put in; None when it cannot be, or might not be the same there."""
        if type_.root is _R.ARRAY or self.is_array:
            if type_.root is not _R.ARRAY or not self.is_array or not self.own:
                return None
            inner = Column(self.name, self.type_name, self.modifier, "", True)
            return staged if inner._takes(type_.children[0]) else None
        if self._takes(type_):
            return staged
        if type_.root in (_R.CHAR, _R.VARCHAR) and not (self.own and self.type_name in _PLAIN | _BY_MODIFIER):
            return None if self.type_name in _UNWRITABLE else f"{staged}::{self.declared}"
        return None

    def takes_directly(self, type_: DataType) -> bool:
        """Whether rows can be copied into the column as they are, without being cast."""
        return staged_type(type_) == self.type_name + ("[]" if self.is_array else "") and not self.is_domain

    def _takes(self, type_: DataType) -> bool:
        if not self.own or self.type_name not in _TAKES.get(type_.root, ()):
            return False
        if self.type_name == "numeric" and self.modifier >= 0:
            scale = _digits(self.modifier)[1]
            return scale >= (type_.scale if type_.root is _R.DECIMAL else 0)
        if self.type_name in ("time", "timestamp", "timestamptz") and self.modifier >= 0:
            return min(type_.precision, _MICROS) <= self.modifier
        return True


def _digits(modifier: int) -> tuple[int, int]:
    """Precision and scale of NUMERIC; the scale may be negative."""
    value = modifier - _LENGTH_HEAD
    return (value >> 16) & 0xFFFF, ((value & 0x7FF) ^ 1024) - 1024


def _numeric(modifier: int) -> DataType:
    if modifier < 0:
        return decimal(_MOST_DIGITS, 18)
    precision, scale = _digits(modifier)
    if scale < 0:
        return decimal(min(precision - scale, _MOST_DIGITS), 0)
    if scale > precision:
        precision = scale
    return decimal(min(precision, _MOST_DIGITS), min(scale, _MOST_DIGITS))


def _text(modifier: int) -> DataType:
    return varchar(modifier - _LENGTH_HEAD) if modifier > _LENGTH_HEAD else STRING


def _blanks(modifier: int) -> DataType:
    return char(modifier - _LENGTH_HEAD) if modifier > _LENGTH_HEAD else STRING


_BY_MODIFIER: dict[str, Any] = {
    "numeric": _numeric,
    "varchar": _text,
    "bpchar": _blanks,
    "time": lambda digits: DataType(_R.TIME, _MILLIS if digits < 0 else min(digits, _MILLIS)),
    "timestamp": lambda digits: timestamp(_MICROS if digits < 0 else digits),
    "timestamptz": lambda digits: timestamp_ltz(_MICROS if digits < 0 else digits),
}
