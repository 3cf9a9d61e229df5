"""SQL data types: what a column may hold, how Flink spells it, and the Arrow type that carries it.

An Arrow type alone cannot tell `CHAR(4)` from `STRING`, or `TIMESTAMP(3)` from `TIMESTAMP(6)`, and both differences
show in results (padding, casts to text, time attributes). So a type of ours is the SQL type, and names the Arrow type
that carries its values:

    CHAR VARCHAR STRING         string              DATE               date32
    BINARY VARBINARY BYTES      binary              TIME(p)            time32[ms]
    BOOLEAN                     bool                TIMESTAMP(p)       timestamp[us], above p=6 timestamp[ns]
    TINYINT .. BIGINT           int8 .. int64       TIMESTAMP_LTZ(p)   the same with tz=UTC
    FLOAT DOUBLE                float, double       INTERVAL MONTH     int32 (months)
    DECIMAL(p, s)               decimal128(p, s)    INTERVAL SECOND    duration[ms]
    ARRAY MAP ROW STRUCTURED    list, map, struct   MULTISET<t>        map<t, int32>
    BITMAP                      binary (see runtime/expr/bitmaps.py)
    VARIANT                     string (see runtime/kernels/variants.py)
    RAW                         binary

A structured type is a ROW that carries the name of its class.
"""

from __future__ import annotations

import enum
from dataclasses import field

import pyarrow as pa

from runtime.core.node import Node, node

__all__ = [
    "BIGINT",
    "BINARY",
    "BITMAP",
    "VARIANT",
    "BOOLEAN",
    "BYTES",
    "DATE",
    "DOUBLE",
    "FLOAT",
    "INT",
    "INTERVAL_MONTH",
    "INTERVAL_SECOND",
    "NULL",
    "SMALLINT",
    "STRING",
    "STRING_LENGTH",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP_LTZ",
    "TINYINT",
    "DataType",
    "RowField",
    "TimeAttribute",
    "TypeRoot",
    "UUID",
    "array",
    "char",
    "decimal",
    "from_arrow",
    "interval",
    "map_of",
    "multiset",
    "raw",
    "row",
    "structured",
    "timestamp",
    "timestamp_ltz",
    "varchar",
]

STRING_LENGTH = 2147483647
"""The length of STRING and BYTES: VARCHAR and VARBINARY with no bound."""


class TypeRoot(enum.Enum):
    """The family of a type, by its SQL name."""

    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    BOOLEAN = "BOOLEAN"
    DECIMAL = "DECIMAL"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    INTERVAL_MONTH = "INTERVAL MONTH"
    INTERVAL_SECOND = "INTERVAL SECOND"
    ARRAY = "ARRAY"
    MAP = "MAP"
    MULTISET = "MULTISET"
    ROW = "ROW"
    BITMAP = "BITMAP"
    VARIANT = "VARIANT"
    RAW = "RAW"
    NULL = "NULL"
    DESCRIPTOR = "DESCRIPTOR"


class TimeAttribute(enum.Enum):
    """Whether a timestamp column carries event time (with a watermark) or processing time."""

    ROWTIME = "ROWTIME"
    PROCTIME = "PROCTIME"


@node
class RowField(Node):
    """A named field of a ROW type."""

    name: str
    type: DataType
    comment: str | None = field(default=None, compare=False)


@node
class DataType(Node):
    """A SQL type with its nullability.

    `precision` is the length of character and binary types, the precision of DECIMAL, TIME and TIMESTAMP; `scale`
    belongs to DECIMAL; `children` are the element type (ARRAY, MULTISET), key and value types (MAP); `fields` belong to
    ROW. `words` are the class of a structured type (a ROW), the class and serializer of RAW, the name of a CHAR whose values
    have one form (UUID), and the fields that an interval was declared with, `("DAY", "SECOND")`; its `precision` is then
    that of the first field, and its `scale` the digits of a fraction of seconds.
    `time_attribute` marks rowtime and proctime columns: it travels with bare column references and is lost by any
    function.
    """

    root: TypeRoot
    precision: int = 0
    scale: int = 0
    children: tuple[DataType, ...] = ()
    fields: tuple[RowField, ...] = ()
    nullable: bool = True
    time_attribute: TimeAttribute | None = None
    words: tuple[str, ...] = ()

    def not_null(self) -> DataType:
        return self.with_nullable(False)

    def with_nullable(self, nullable: bool) -> DataType:
        return self if self.nullable == nullable else self.with_(nullable=nullable)

    def undeclared(self) -> DataType:
        """An interval as expressions have it, without the fields that a column of it was declared with."""
        if not self.is_interval or not self.words:
            return self
        plain = INTERVAL_MONTH if self.root is TypeRoot.INTERVAL_MONTH else INTERVAL_SECOND
        return plain.with_nullable(self.nullable)

    def materialized(self) -> DataType:
        """The same type as a plain value, no longer a time attribute."""
        return self if self.time_attribute is None else self.with_(time_attribute=None)

    def same_ignoring_nullability(self, other: DataType) -> bool:
        """Whether values of one are values of the other, nested types included."""
        if self.root is not other.root or self.precision != other.precision or self.scale != other.scale:
            return False
        if self.words != other.words:
            return False
        if not self.children and not self.fields and not other.children and not other.fields:
            return True
        return _strip(self) == _strip(other)

    @property
    def is_rowtime(self) -> bool:
        return self.time_attribute is TimeAttribute.ROWTIME

    @property
    def is_proctime(self) -> bool:
        return self.time_attribute is TimeAttribute.PROCTIME

    @property
    def is_integer(self) -> bool:
        return self.root in _INTEGERS

    @property
    def is_exact_numeric(self) -> bool:
        return self.root in _INTEGERS or self.root is TypeRoot.DECIMAL

    @property
    def is_approximate(self) -> bool:
        return self.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE)

    @property
    def is_numeric(self) -> bool:
        return self.is_exact_numeric or self.is_approximate

    @property
    def is_character(self) -> bool:
        return self.root in (TypeRoot.CHAR, TypeRoot.VARCHAR)

    @property
    def is_uuid(self) -> bool:
        """Whether the texts are identifiers of 36 characters, in their canonical form."""
        return self.root is TypeRoot.CHAR and bool(self.words)

    @property
    def is_binary(self) -> bool:
        return self.root in (TypeRoot.BINARY, TypeRoot.VARBINARY)

    @property
    def is_timestamp(self) -> bool:
        return self.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)

    @property
    def is_interval(self) -> bool:
        return self.root in (TypeRoot.INTERVAL_MONTH, TypeRoot.INTERVAL_SECOND)

    @property
    def is_structured(self) -> bool:
        """Whether the type is a ROW with the name of a class."""
        return self.root is TypeRoot.ROW and bool(self.words)

    @property
    def is_nested(self) -> bool:
        return self.root in (TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET, TypeRoot.ROW)

    @property
    def is_unordered(self) -> bool:
        """Whether values are equal or not, and none is the greater one."""
        return self.is_nested or self.root in _OF_THEIR_OWN

    def is_carried_as(self, other: DataType) -> bool:
        """Whether the carried values of one can be read as those of the other: of the same Arrow type, which does not tell
        a BITMAP and RAW from other bytes, and a VARIANT from other texts."""
        return self.arrow == other.arrow and _same_forms(self, other)

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type that carries the values."""
        return _arrow(self)

    @property
    def summary(self) -> str:
        """The spelling for people: of RAW without its serializer, `RAW('java.lang.Long', '...')`."""
        return str(_summarized(self))

    def __str__(self) -> str:
        """Flink's spelling, for example `DECIMAL(10, 2) NOT NULL`, `TIMESTAMP(3) *ROWTIME*`."""
        text = _spell(self)
        if self.time_attribute is not None:
            text += f" *{self.time_attribute.value}*"
        return text if self.nullable else text + " NOT NULL"


_OF_THEIR_OWN = frozenset({TypeRoot.BITMAP, TypeRoot.VARIANT, TypeRoot.RAW})
"""Types that are carried as bytes or texts of one form only, and have no order."""
_INTEGERS = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT})

BOOLEAN = DataType(TypeRoot.BOOLEAN)
TINYINT = DataType(TypeRoot.TINYINT)
SMALLINT = DataType(TypeRoot.SMALLINT)
INT = DataType(TypeRoot.INT)
BIGINT = DataType(TypeRoot.BIGINT)
FLOAT = DataType(TypeRoot.FLOAT)
DOUBLE = DataType(TypeRoot.DOUBLE)
STRING = DataType(TypeRoot.VARCHAR, STRING_LENGTH)
BYTES = DataType(TypeRoot.VARBINARY, STRING_LENGTH)
BINARY = DataType(TypeRoot.BINARY, 1)
BITMAP = DataType(TypeRoot.BITMAP)
VARIANT = DataType(TypeRoot.VARIANT)
UUID = DataType(TypeRoot.CHAR, 36, words=("UUID",))
DATE = DataType(TypeRoot.DATE)
TIME = DataType(TypeRoot.TIME, 0)
TIMESTAMP = DataType(TypeRoot.TIMESTAMP, 6)
TIMESTAMP_LTZ = DataType(TypeRoot.TIMESTAMP_LTZ, 6)
INTERVAL_MONTH = DataType(TypeRoot.INTERVAL_MONTH)
INTERVAL_SECOND = DataType(TypeRoot.INTERVAL_SECOND, 3)
NULL = DataType(TypeRoot.NULL)


def char(length: int) -> DataType:
    return DataType(TypeRoot.CHAR, length)


def varchar(length: int) -> DataType:
    return DataType(TypeRoot.VARCHAR, length)


def decimal(precision: int = 10, scale: int = 0) -> DataType:
    return DataType(TypeRoot.DECIMAL, precision, scale)


def timestamp(precision: int = 6, attribute: TimeAttribute | None = None) -> DataType:
    return DataType(TypeRoot.TIMESTAMP, precision, time_attribute=attribute)


def timestamp_ltz(precision: int = 6, attribute: TimeAttribute | None = None) -> DataType:
    return DataType(TypeRoot.TIMESTAMP_LTZ, precision, time_attribute=attribute)


def array(element: DataType) -> DataType:
    return DataType(TypeRoot.ARRAY, children=(element,))


def multiset(element: DataType) -> DataType:
    return DataType(TypeRoot.MULTISET, children=(element,))


def map_of(key: DataType, value: DataType) -> DataType:
    return DataType(TypeRoot.MAP, children=(key, value))


def row(*fields: tuple[str, DataType]) -> DataType:
    return DataType(TypeRoot.ROW, fields=tuple(RowField(name, type_) for name, type_ in fields))


def structured(class_name: str, *fields: tuple[str, DataType]) -> DataType:
    """A ROW with the name of a class."""
    return row(*fields).with_(words=(class_name,))


def raw(class_name: str, serializer: str) -> DataType:
    """Bytes that only the serializer of a class can read."""
    return DataType(TypeRoot.RAW, words=(class_name, serializer))


_MONTHS = ("YEAR", "QUARTER", "MONTH")


def interval(first: str, last: str | None = None, precision: int = 2, fraction: int = 6) -> DataType:
    """An interval from one field to another, `interval("DAY", "SECOND", 3, 6)`; `precision` is that of YEAR and DAY."""
    words = (first,) if last is None else (first, last)
    if first in _MONTHS:
        root, plain = TypeRoot.INTERVAL_MONTH, words == ("MONTH",)
    else:
        root, plain = TypeRoot.INTERVAL_SECOND, words == ("SECOND",) and fraction == 3
    if plain:
        return INTERVAL_MONTH if root is TypeRoot.INTERVAL_MONTH else INTERVAL_SECOND
    scale = fraction if words[-1] == "SECOND" else 0
    return DataType(root, precision if first in ("YEAR", "DAY") else 0, scale, words=words)


def _same_forms(a: DataType, b: DataType) -> bool:
    own = a.root in _OF_THEIR_OWN or b.root in _OF_THEIR_OWN
    if own and (a.root is not b.root or a.words != b.words):
        return False
    parts = zip((*a.children, *(f.type for f in a.fields)), (*b.children, *(f.type for f in b.fields)), strict=False)
    return all(_same_forms(x, y) for x, y in parts)


def _strip(t: DataType) -> DataType:
    return t.with_(
        nullable=True,
        time_attribute=None,
        children=tuple(_strip(c) for c in t.children),
        fields=tuple(RowField(f.name, _strip(f.type)) for f in t.fields),
    )


_SIMPLE_ARROW: dict[TypeRoot, pa.DataType] = {
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.TIME: pa.time32("ms"),
    TypeRoot.INTERVAL_MONTH: pa.int32(),
    TypeRoot.INTERVAL_SECOND: pa.duration("ms"),
    TypeRoot.BITMAP: pa.binary(),
    TypeRoot.VARIANT: pa.string(),
    TypeRoot.RAW: pa.binary(),
    TypeRoot.NULL: pa.null(),
    TypeRoot.DESCRIPTOR: pa.string(),
}


def _arrow(t: DataType) -> pa.DataType:
    simple = _SIMPLE_ARROW.get(t.root)
    if simple is not None:
        return simple
    match t.root:
        case TypeRoot.DECIMAL:
            return pa.decimal128(t.precision, t.scale)
        case TypeRoot.TIMESTAMP:
            return pa.timestamp("us" if t.precision <= 6 else "ns")
        case TypeRoot.TIMESTAMP_LTZ:
            return pa.timestamp("us" if t.precision <= 6 else "ns", tz="UTC")
        case TypeRoot.ARRAY:
            return pa.list_(_arrow(t.children[0]))
        case TypeRoot.MAP:
            return pa.map_(_arrow(t.children[0]), _arrow(t.children[1]))
        case TypeRoot.MULTISET:
            return pa.map_(_arrow(t.children[0]), pa.int32())
        case _:
            return pa.struct([pa.field(f.name, _arrow(f.type)) for f in t.fields])


def from_arrow(type_: pa.DataType) -> DataType:
    """The SQL type whose values an Arrow type carries, nullable; the widest one where several are carried alike."""
    if pa.types.is_null(type_):
        return NULL
    for root, arrow in _SIMPLE_ARROW.items():
        if arrow.equals(type_) and root in _PLAIN:
            return _PLAIN[root]
    if pa.types.is_decimal(type_):
        return decimal(type_.precision, type_.scale)
    if pa.types.is_timestamp(type_):
        precision = 9 if type_.unit == "ns" else 6
        return timestamp(precision) if type_.tz is None else timestamp_ltz(precision)
    if pa.types.is_map(type_):
        return map_of(from_arrow(type_.key_type), from_arrow(type_.item_type))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return array(from_arrow(type_.value_type))
    if pa.types.is_struct(type_):
        return row(*((f.name, from_arrow(f.type)) for f in type_))
    return BYTES if pa.types.is_binary(type_) or pa.types.is_large_binary(type_) else STRING


_PLAIN = {t.root: t for t in (BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, BYTES, DATE, TIME)}


def _spell(t: DataType) -> str:
    match t.root:
        case TypeRoot.VARCHAR:
            return "STRING" if t.precision == STRING_LENGTH else f"VARCHAR({t.precision})"
        case TypeRoot.VARBINARY:
            return "BYTES" if t.precision == STRING_LENGTH else f"VARBINARY({t.precision})"
        case TypeRoot.CHAR if t.words:
            return t.words[0]
        case TypeRoot.CHAR | TypeRoot.BINARY | TypeRoot.TIME | TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return f"{t.root.value}({t.precision})"
        case TypeRoot.DECIMAL:
            return f"DECIMAL({t.precision}, {t.scale})"
        case TypeRoot.INTERVAL_SECOND | TypeRoot.INTERVAL_MONTH if t.words:
            return _spell_interval(t)
        case TypeRoot.INTERVAL_SECOND:
            return f"INTERVAL SECOND({t.precision})"
        case TypeRoot.ARRAY | TypeRoot.MULTISET | TypeRoot.MAP:
            return f"{t.root.value}<{', '.join(str(c) for c in t.children)}>"
        case TypeRoot.ROW:
            fields = ", ".join(f"`{f.name}` {f.type}" for f in t.fields)
            return f"STRUCTURED<{_quoted(t.words[0])}, {fields}>" if t.words else f"ROW<{fields}>"
        case TypeRoot.RAW:
            return f"RAW({', '.join(map(_quoted, t.words))})"
        case _:
            return t.root.value


def _summarized(t: DataType) -> DataType:
    if t.root is TypeRoot.RAW:
        return t.with_(words=(t.words[0], "..."))
    if not t.children and not t.fields:
        return t
    return t.with_(
        children=tuple(_summarized(c) for c in t.children),
        fields=tuple(f.with_(type=_summarized(f.type)) for f in t.fields),
    )


def _spell_interval(t: DataType) -> str:
    first = f"{t.words[0]}({t.precision})" if t.precision else t.words[0]
    if t.words[0] == "SECOND":
        return f"INTERVAL SECOND({t.scale})"
    if len(t.words) == 1:
        return f"INTERVAL {first}"
    return f"INTERVAL {first} TO {t.words[1]}" + (f"({t.scale})" if t.words[1] == "SECOND" else "")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
