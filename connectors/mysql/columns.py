"""Columns of MySQL and MariaDB: which types they are here, how they are asked for and compared, and their texts as values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from connectors.databases.fitting import fitted, may_be_read
from connectors.databases.texts import moments, times
from runtime.core.errors import ConnectorError, FormatError
from runtime.core.schema import Field
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
    TINYINT,
    DataType,
    TypeRoot,
    char,
    decimal,
    timestamp,
    timestamp_ltz,
    varchar,
)

__all__ = ["INTEGERS", "TEXTS", "Column", "members_of", "spelled", "typed"]

_R = TypeRoot
_BITS = {_R.TINYINT: 8, _R.SMALLINT: 16, _R.INT: 32, _R.BIGINT: 64}
INTEGERS = frozenset(_BITS)
TEXTS = frozenset({_R.CHAR, _R.VARCHAR})
_BYTES = frozenset({_R.BINARY, _R.VARBINARY})
_PLAIN: dict[str, DataType] = {
    "tinyint": TINYINT, "tinyint unsigned": SMALLINT, "smallint": SMALLINT, "smallint unsigned": INT, "mediumint": INT,
    "mediumint unsigned": INT, "int": INT, "int unsigned": BIGINT, "bigint": BIGINT, "bigint unsigned": decimal(20, 0),
    "float": FLOAT, "float unsigned": FLOAT, "double": DOUBLE, "double unsigned": DOUBLE, "date": DATE, "year": INT,
    "tinytext": STRING, "text": STRING, "mediumtext": STRING, "longtext": STRING, "json": STRING, "enum": STRING,
    "set": STRING, "tinyblob": BYTES, "blob": BYTES, "mediumblob": BYTES, "longblob": BYTES, "binary": BYTES,
    "varbinary": BYTES, "uuid": STRING, "inet4": STRING, "inet6": STRING,
}  # fmt: skip
_SHAPES = frozenset(
    {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
     "geometrycollection", "geomcollection", "vector"}
)  # fmt: skip
"""What has no type here, and no text that could stand for it."""
_AS_TEXT = frozenset({"date", "datetime", "timestamp", "time", "year"})
"""Types with values that no type here has, so that a text may be wanted."""
_WORDS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum"})
"""Types that are compared as texts are."""
_DECLARED = re.compile(r"\s*(\w+)\s*(?:\((.*)\))?\s*([\w ]*)", re.DOTALL)
_MEMBER = re.compile(r"'((?:[^']|'')*)'")
_MOST_DIGITS, _MICROS, _MILLIS = 38, 6, 3
_LONGEST = 16_383
"""The most characters of VARCHAR in four bytes each."""
_NO_DATE = "^(?:0000-|[0-9]{4}-00|[0-9]{4}-[0-9]{2}-00)"


@dataclass(frozen=True)
class Column:
    """A column there.

    Attributes:
        declared: its type as the server spells it, such as `int(10) unsigned` or `enum('a','b')`.
        charset: of a text.
    """

    name: str
    declared: str
    nullable: bool
    charset: str = ""
    collation: str = ""
    comment: str | None = None

    @cached_property
    def _parts(self) -> tuple[str, str]:
        """The word of the type, with `unsigned`, and what stands in parentheses."""
        found = _DECLARED.fullmatch(self.declared)
        if found is None:
            return self.declared.lower(), ""
        word = found[1].lower()
        word = {"integer": "int", "numeric": "decimal", "fixed": "decimal", "bool": "tinyint"}.get(word, word)
        more = found[3].lower()
        return word + (" unsigned" if "unsigned" in more or "zerofill" in more else ""), found[2] or ""

    @property
    def word(self) -> str:
        """Its type without anything behind it, such as `bigint unsigned`."""
        return self._parts[0]

    @property
    def _size(self) -> int:
        text = self._parts[1].partition(",")[0]
        return int(text) if text.isdigit() else 0

    @property
    def has_type(self) -> bool:
        """Whether there is a type here for it."""
        return self.word not in _SHAPES

    @property
    def type(self) -> DataType:
        """The type here. Raises ConnectorError E3164 when there is none."""
        return self._type().with_nullable(self.nullable)

    def _type(self) -> DataType:
        word, more = self._parts
        match word:
            case "tinyint" if more == "1":
                return BOOLEAN
            case "bit":
                return BOOLEAN if self._size <= 1 else BYTES
            case "decimal" | "decimal unsigned":
                precision, _, scale = more.partition(",")
                digits = int(precision or 10)
                return decimal(digits, int(scale or 0)) if digits <= _MOST_DIGITS else STRING
            case "char":
                return char(self._size or 1)
            case "varchar":
                return varchar(self._size) if self._size else STRING
            case "datetime":
                return timestamp(self._size)
            case "timestamp":
                return timestamp_ltz(self._size)
            case "time":
                return DataType(_R.TIME, min(self._size, _MILLIS))
            case _ if word in _SHAPES:
                raise ConnectorError(
                    f"column {self.name} is {self.declared}, of which there is no type here",
                    code="E3164",
                    hint="declare the columns of the table without it, or read a view with ST_AsText(..)",
                )
            case _:
                return _PLAIN.get(word, STRING)

    def may_be(self, declared: DataType) -> bool:
        """Whether its values can be values of a type here."""
        word, root = self.word, declared.root
        if not self.has_type:
            return False
        if root in TEXTS and word in _AS_TEXT:
            return True
        if root is _R.ARRAY:
            return word == "set" and declared.children[0].root in TEXTS
        if word in ("tinyint", "tinyint unsigned") and root in INTEGERS | {_R.BOOLEAN, _R.DECIMAL}:
            return True
        if word == "bit":
            return root is (_R.BOOLEAN if self._size <= 1 else _R.VARBINARY) or root is _R.BINARY
        return may_be_read(self.type, declared)

    def asked(self, source: str) -> str:
        """How it is asked for; `source` is its quoted name there."""
        word = self.word
        if word in ("float", "float unsigned"):
            # As it is, a text of it has six digits.
            return f"({source} + 0E0)"
        return f"({source} + 0)" if word == "bit" and self._size <= 1 else source

    def compared(self, source: str, declared: DataType) -> str:
        """The column in a form that compares as a column of the declared type does here."""
        if declared.root in TEXTS and self.word not in _WORDS:
            return f"CAST({source} AS CHAR CHARACTER SET utf8mb4)"
        return source

    def check(self, source: str, declared: DataType) -> str | None:
        """Whether a value is one of the declared type of numbers, as a condition; None where all are. NULL is neither."""
        there, fits = self._type(), None
        if declared.root in _BITS:
            if there.root not in _BITS or _BITS[there.root] > _BITS[declared.root]:
                half = 1 << (_BITS[declared.root] - 1)
                fits = f"{source} BETWEEN {-half} AND {half - 1} AND {source} = TRUNCATE({source}, 0)"
        elif declared.root is _R.DECIMAL:
            digits = declared.precision - declared.scale
            narrow = (
                there.root is _R.DECIMAL and there.scale <= declared.scale and there.precision - there.scale <= digits
            )
            if not narrow:
                fits = f"ABS({source}) < 1{'0' * digits} AND {source} = ROUND({source}, {declared.scale})"
        if declared.nullable or not self.nullable:
            return fits
        return f"{source} IS NOT NULL" if fits is None else f"({source} IS NOT NULL AND {fits})"

    def takes(self, type_: DataType) -> bool:
        """Whether it keeps every value of a type here as it is, or refuses the row."""
        word, more = self._parts
        root = type_.root
        if word in _SHAPES:
            return False
        if root in TEXTS:
            return word in _WORDS or word in ("json", "set", "uuid", "inet4", "inet6")
        if root is _R.BOOLEAN:
            return word in ("tinyint", "tinyint unsigned", "bit")
        if root in INTEGERS or root is _R.DECIMAL:
            if word.partition(" ")[0] in ("tinyint", "smallint", "mediumint", "int", "bigint"):
                return root in INTEGERS or type_.scale == 0
            if word.startswith("decimal"):
                scale = int(more.partition(",")[2] or 0)
                return scale >= (type_.scale if root is _R.DECIMAL else 0)
            return word == "year" and root in INTEGERS
        if root is _R.FLOAT:
            return word in ("float", "double") and "," not in more
        if root is _R.DOUBLE:
            return word == "double" and "," not in more
        if root in _BYTES:
            return word.endswith("blob") or word == "varbinary"
        if root is _R.TIME:
            return word == "time" and self._size >= min(type_.precision, _MILLIS)
        if root is _R.TIMESTAMP:
            return word == "datetime" and self._size >= min(type_.precision, _MICROS)
        if root is _R.TIMESTAMP_LTZ:
            return word == "timestamp" and self._size >= min(type_.precision, _MICROS)
        return root is _R.DATE and word == "date"


def members_of(declared: str) -> list[str]:
    """The texts of ENUM(..) or SET(..)."""
    return [m.replace("''", "'") for m in _MEMBER.findall(declared)]


def spelled(type_: DataType) -> str | None:
    """The type there that has the values of a type here, for CREATE TABLE; None when there is none."""
    match type_.root:
        case _R.TINYINT | _R.SMALLINT | _R.INT | _R.BIGINT | _R.FLOAT | _R.DOUBLE | _R.DATE:
            return type_.root.value
        case _R.BOOLEAN:
            return "TINYINT(1)"
        case _R.DECIMAL:
            return f"DECIMAL({type_.precision}, {type_.scale})" if type_.scale <= 30 else None
        case _R.CHAR:
            return f"CHAR({type_.precision})" if type_.precision <= 255 else "LONGTEXT"
        case _R.VARCHAR:
            return f"VARCHAR({type_.precision})" if type_.precision <= min(_LONGEST, STRING_LENGTH) else "LONGTEXT"
        case _R.BINARY | _R.VARBINARY:
            return "LONGBLOB"
        case _R.TIME:
            return f"TIME({min(type_.precision, _MILLIS)})"
        case _R.TIMESTAMP if type_.precision <= _MICROS:
            return f"DATETIME({type_.precision})"
        case _R.TIMESTAMP_LTZ if type_.precision <= _MICROS:
            return f"TIMESTAMP({type_.precision})"
        case _:
            return None


def typed(cells: pa.Array, field: Field, place: str, word: str = "") -> pa.Array:
    """Cells, as the server writes them, as values of a declared type. `place`: the table, for messages; `word`: its type there.

    Raises FormatError E3164 for a value that the type does not have: a date with zeros, a time of more than a day, another year
    than 1 to 9999, one that is too large or too long; and for NULL in a column that is NOT NULL.
    """
    root = field.type.root
    try:
        if root in _BYTES:
            found = cells.cast(pa.binary())
        else:
            texts = cells.cast(pa.large_string()).cast(pa.string())
            match root:
                case _R.BOOLEAN:
                    found = _booleans(texts)
                case _R.FLOAT | _R.DOUBLE:
                    found = texts.cast(pa.float64()).cast(field.type.arrow, safe=False)
                case _R.DATE:
                    found = texts.cast(pa.date32())
                case _R.TIMESTAMP | _R.TIMESTAMP_LTZ:
                    found = moments(texts, zoned=False)
                    found = found.cast(pa.timestamp("us", "UTC")) if root is _R.TIMESTAMP_LTZ else found
                case _R.TIME:
                    found = times(texts)
                case _R.CHAR:
                    found = pc.utf8_rpad(texts, field.type.precision)
                case _R.ARRAY:
                    found = _sets(texts)
                case _ if root in INTEGERS and "decimal" not in word:
                    found = texts.cast(pa.int64())
                case _:
                    found = texts
    except (pa.ArrowException, OverflowError) as error:
        said = str(error).splitlines()[0]
        dated = root in (_R.DATE, _R.TIMESTAMP, _R.TIMESTAMP_LTZ)
        zeros = dated and pc.any(pc.match_substring_regex(cells.cast(pa.large_string()), _NO_DATE)).as_py()
        what = "a date with zeros, which is no date here" if zeros else f"a value that is no {field.type}: {said}"
        raise FormatError(
            f"column {field.name} of {place} has {what}",
            code="E3164",
            hint="declare the column as STRING, which has every value as MySQL writes it, or read a view",
        ) from error
    return fitted(found, field, place)


def _booleans(texts: pa.Array) -> pa.Array:
    numbers = texts.cast(pa.int64())
    if pc.any(pc.or_(pc.greater(numbers, 1), pc.less(numbers, 0))).as_py():
        raise pa.ArrowInvalid("it is neither 0 nor 1")
    return numbers.cast(pa.bool_())


def _sets(texts: pa.Array) -> pa.Array:
    """SETs are texts with commas; the empty one has no members."""
    parts = pc.split_pattern(texts, ",")
    empty = pc.fill_null(pc.equal(texts, ""), False)
    if not pc.any(empty).as_py():
        return parts
    return pa.array([None if p is None else [] if e else p for p, e in zip(parts.to_pylist(), empty.to_pylist(), strict=True)],
                    pa.list_(pa.string()))  # fmt: skip
