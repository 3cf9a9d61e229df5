"""Columns of ClickHouse: which types they are here, how they are asked for and compared, and what is sent of them.

ClickHouse converts what it is sent without a word where it does not fit: numbers wrap, times are cut to its years, NULL becomes 0.
So columns are sent as the types that they have there, and looked at before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from connectors.databases.fitting import may_be_read
from runtime.core.errors import ConnectorError
from runtime.core.schema import Field
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    DataType,
    TypeRoot,
    array,
    decimal,
    timestamp_ltz,
)

__all__ = ["Column", "parts_of", "quoted", "spelled", "text_literal", "wired"]

_R = TypeRoot
_TEXTS = frozenset({_R.CHAR, _R.VARCHAR})
_STRINGS = _TEXTS | {_R.BINARY, _R.VARBINARY}
_TIMES = frozenset({_R.TIMESTAMP, _R.TIMESTAMP_LTZ})
_PLAIN: dict[str, tuple[DataType, pa.DataType]] = {
    "Bool": (BOOLEAN, pa.bool_()), "Int8": (TINYINT, pa.int8()), "Int16": (SMALLINT, pa.int16()), "Int32": (INT, pa.int32()),
    "Int64": (BIGINT, pa.int64()), "UInt8": (SMALLINT, pa.uint8()), "UInt16": (INT, pa.uint16()), "UInt32": (BIGINT, pa.uint32()),
    "UInt64": (decimal(20, 0), pa.uint64()), "Float32": (FLOAT, pa.float32()), "Float64": (DOUBLE, pa.float64()),
    "String": (STRING, pa.binary()), "FixedString": (STRING, pa.binary()), "UUID": (STRING, pa.string()),
    "Enum8": (STRING, pa.string()), "Enum16": (STRING, pa.string()), "Date": (DATE, pa.date32()), "Date32": (DATE, pa.date32()),
}  # fmt: skip
"""Types that are written: what they are here, and how they are sent."""
_READ: dict[str, DataType] = {
    "BFloat16": FLOAT, "Int128": decimal(38, 0), "UInt128": decimal(38, 0), "Int256": decimal(38, 0), "UInt256": decimal(38, 0),
    "IPv4": STRING, "IPv6": STRING,
}  # fmt: skip
_AS_TEXT = frozenset(["UInt64", "Int128", "UInt128", "Int256", "UInt256", "UUID", "Enum8", "Enum16", "IPv4", "IPv6"])
"""Types that are asked for as texts."""
_IN_ORDER = frozenset(
    [
        "Int8",
        "Int16",
        "Int32",
        "Int64",
        "UInt8",
        "UInt16",
        "UInt32",
        "UInt64",
        "String",
        "Date",
        "Date32",
        "DateTime",
        "DateTime64",
        "UUID",
    ]
)
"""Types of which a text names each value, and that are in one order."""
_YEARS = {
    "Date": (date(1970, 1, 1), date(2149, 6, 6)),
    "Date32": (date(1900, 1, 1), date(2299, 12, 31)),
    "DateTime": (datetime(1970, 1, 1, tzinfo=UTC), datetime(2106, 2, 7, 6, 28, 15, tzinfo=UTC)),
    "DateTime64": (datetime(1900, 1, 1, tzinfo=UTC), datetime(2299, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
}
"""What all versions have of times."""
_UNITS = ((0, "s"), (3, "ms"), (6, "us"), (9, "ns"))
_MICROS, _MOST_DIGITS = 6, 38
_DECLARED = re.compile(r"(\w+)(?:\((.*)\))?", re.DOTALL)
_SPELLED = {
    _R.BOOLEAN: "Bool", _R.TINYINT: "Int8", _R.SMALLINT: "Int16", _R.INT: "Int32", _R.BIGINT: "Int64", _R.FLOAT: "Float32",
    _R.DOUBLE: "Float64", _R.CHAR: "String", _R.VARCHAR: "String", _R.BINARY: "String", _R.VARBINARY: "String", _R.DATE: "Date32",
}  # fmt: skip


def quoted(name: str) -> str:
    """A name as ClickHouse reads it."""
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def text_literal(text: str) -> str:
    """A text as ClickHouse reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def spelled(type_: DataType) -> str | None:
    """A type there; None where there is none."""
    match type_.root:
        case _R.DECIMAL:
            name = f"Decimal({type_.precision}, {type_.scale})"
        case _R.TIMESTAMP | _R.TIMESTAMP_LTZ:
            name = f"DateTime64({type_.precision}, 'UTC')"
        case _R.ARRAY:
            inner = spelled(type_.children[0])
            return None if inner is None else f"Array({inner})"
        case root if root in _SPELLED and not type_.words:
            name = _SPELLED[root]
        case _:
            return None
    return f"Nullable({name})" if type_.nullable else name


def parts_of(text: str) -> list[str]:
    """What commas divide, outside of parentheses and texts."""
    found, depth, begin, inside = list[str](), 0, 0, ""
    for place, letter in enumerate(text):
        if inside:
            inside = "" if letter == inside and text[place - 1] != "\\" else inside
        elif letter in "'`\"":
            inside = letter
        elif letter in "()":
            depth += 1 if letter == "(" else -1
        elif letter == "," and not depth:
            found.append(text[begin:place].strip())
            begin = place + 1
    return [*found, text[begin:].strip()] if text.strip() else []


@dataclass(frozen=True)
class Column:
    """A column there. `declared`: its type as ClickHouse spells it; `default`: MATERIALIZED, ALIAS or DEFAULT, or nothing."""

    name: str
    declared: str
    default: str = ""
    comment: str = ""

    @cached_property
    def _read(self) -> tuple[str, str, bool]:
        """The word of the type, what stands in its parentheses, and whether NULL may be there."""
        text, nullable = self.declared, False
        while True:
            found = _DECLARED.fullmatch(text)
            word, inner = (found[1], found[2] or "") if found else (text, "")
            if word not in ("Nullable", "LowCardinality"):
                return word, inner, nullable
            text, nullable = inner, nullable or word == "Nullable"

    @property
    def word(self) -> str:
        return self._read[0]

    @property
    def nullable(self) -> bool:
        return self._read[2]

    @property
    def bare(self) -> str:
        """The type without NULL."""
        word, inner, _ = self._read
        return f"{word}({inner})" if inner else word

    @cached_property
    def digits(self) -> int:
        """Of a second."""
        return int(parts_of(self._read[1])[0]) if self.word == "DateTime64" else 0

    def as_text(self, source: str) -> str:
        """A text that names a value, of a column that has an order."""
        # The time of a zone with summer time names two moments in autumn.
        return f"toString({self.asked(source) if self.word in ('DateTime', 'DateTime64') else source})"

    def of_text(self, text: str) -> str:
        """The value that a text names."""
        if self.word in ("DateTime", "DateTime64"):
            return self.asked(text)
        return f"CAST({text} AS {self.bare})"

    @property
    def items(self) -> Column:
        """What is in an array."""
        return Column(self.name, self._read[1])

    @property
    def has_order(self) -> bool:
        """Whether rows can be gone on with behind a value of it, which a text names."""
        return self.word in _IN_ORDER and not self.nullable

    @property
    def type(self) -> DataType:
        """The type here. Raises ConnectorError E3164 where there is none."""
        word, inner, nullable = self._read
        match word:
            case "Decimal":
                precision, scale = map(int, parts_of(inner))
                found = decimal(min(precision, _MOST_DIGITS), min(scale, _MOST_DIGITS))
            case "DateTime" | "DateTime64":
                found = timestamp_ltz(self.digits)
            case "Array":
                return array(self.items.type).not_null()
            case _:
                known = _PLAIN[word][0] if word in _PLAIN else _READ.get(word)
                if known is None:
                    raise ConnectorError(
                        f"column {self.name} is {self.declared} there, of which there is no type here",
                        code="E3164",
                        hint="leave it out, or read a view in which it is another type, such as toString(..)",
                    )
                found = known
        return found.with_nullable(nullable)

    @cached_property
    def wire(self) -> pa.DataType | None:
        """As what its values are sent; None of a type that is not written."""
        word, inner, _ = self._read
        match word:
            case "Decimal":
                precision, scale = map(int, parts_of(inner))
                return pa.decimal128(precision, scale) if precision <= _MOST_DIGITS else None
            case "DateTime" | "DateTime64":
                return pa.timestamp(next(unit for most, unit in _UNITS if self.digits <= most), "UTC")
            case "Array":
                items = self.items.wire
                return None if items is None else pa.list_(items)
            case _:
                return _PLAIN[word][1] if word in _PLAIN else None

    def may_be(self, declared: DataType) -> bool:
        """Whether its values can be values of a type here: all of them, or those that fit."""
        if self.word == "Array":
            return declared.root is _R.ARRAY and self.items.may_be(declared.children[0])
        if self.word in ("String", "FixedString"):
            return declared.root in _STRINGS
        if self.word in ("DateTime", "DateTime64"):
            return declared.root in _TIMES
        return may_be_read(self.type, declared)

    def asked(self, source: str) -> str:
        """How it is asked for; `source` is its quoted name there."""
        word, inner, _ = self._read
        match word:
            case "DateTime" | "DateTime64":
                return f"toDateTime64({source}, {_MICROS if self.digits <= _MICROS else 9}, 'UTC')"
            case "Date":
                return f"toDate32({source})"
            case "BFloat16":
                return f"toFloat32({source})"
            case "Array":
                each = self.items.asked("x")
                return source if each == "x" else f"arrayMap(x -> {each}, {source})"
            case "Decimal" if int(parts_of(inner)[0]) > _MOST_DIGITS:
                return f"toString({source})"
            case _:
                return f"toString({source})" if word in _AS_TEXT else source

    def compared(self, source: str, declared: DataType) -> str:
        """The column in a form that compares as a column of the declared type does here."""
        if self.word in ("UUID", "Enum8", "Enum16", "IPv4", "IPv6"):
            return f"toString({source})"
        if self.word == "FixedString":
            # Bytes of 0 at its end count here.
            return f"substring({source}, 1)"
        if self.word == "DateTime64" and declared.precision < self.digits:
            step = 10 ** (_MICROS - declared.precision)
            micros = f"toUnixTimestamp64Micro(toDateTime64({source}, {_MICROS}, 'UTC'))"
            return f"fromUnixTimestamp64Micro({micros} - positiveModulo({micros}, {step}), 'UTC')"
        return source

    def takes(self, declared: DataType) -> bool:
        """Whether values of a type can be written: all of them, or those that fit. Nothing is rounded."""
        if self.wire is None:
            return False
        if self.word == "Array":
            return declared.root is _R.ARRAY and self.items.takes(declared.children[0])
        if declared.root in _TIMES:
            return self.word in ("DateTime", "DateTime64") and declared.precision <= max(self.digits, 0)
        if self.word in ("UUID", "Enum8", "Enum16"):
            return declared.root in _TEXTS
        if declared.root is _R.DOUBLE and self.word == "Float32":
            return False
        return self.may_be(declared) or (declared.root is _R.FLOAT and self.word == "Float64")


def wired(column: pa.Array, field: Field, there: Column, place: str) -> pa.Array:
    """A column as it is sent. Raises ConnectorError E3162 for a value that does not fit. `place`: the table, for messages."""
    try:
        return _sent(column, there)
    except (pa.ArrowInvalid, _Unfit) as error:
        raise ConnectorError(
            f"column {field.name} of {place}: {str(error).splitlines()[0][:300]}",
            code="E3162",
            hint=f"it is {there.declared} there: mend the query, or the table",
        ) from error


class _Unfit(Exception):
    pass


def _sent(column: pa.Array, there: Column) -> pa.Array:
    wire = there.wire
    assert wire is not None
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count and not there.nullable:
        raise _Unfit("an array is NULL" if there.word == "Array" else "a value is NULL")
    if there.word == "Array":
        items = _sent(column.flatten(), there.items)
        lengths = pc.list_value_length(column).cast(pa.int32())
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
        return pa.ListArray.from_arrays(offsets, items)
    if there.word in _YEARS:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp(column.type.unit, "UTC"))
        low, high = (pa.scalar(end).cast(column.type, safe=False) for end in _YEARS[there.word])
        if pc.any(pc.or_(pc.less(column, low), pc.greater(column, high))).as_py():
            raise _Unfit(f"{there.word} is from {_YEARS[there.word][0]:%Y-%m-%d} to {_YEARS[there.word][1]:%Y-%m-%d}")
    found = column.cast(wire)
    if there.word == "FixedString":
        size = int(there.bare.partition("(")[2].rstrip(")"))
        if pc.any(pc.not_equal(pc.binary_length(found), size)).as_py():
            raise _Unfit(f"a value has other than {size} bytes")
    return found
