"""PostgreSQL's types: their numbers (OID), sizes and modifiers, and which of them a type of the engine is.

No other numbers than those of built-in types are ever sent: a client would ask the catalogue for the others, and some
cannot read them at all. Source: PostgreSQL 15, `pg_type.dat`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from runtime.core.schema import Schema
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL_SECOND,
    SMALLINT,
    STRING,
    STRING_LENGTH,
    TIME,
    UUID,
    DataType,
    TypeRoot,
    array,
    decimal,
    timestamp,
    timestamp_ltz,
)

__all__ = ["ARRAYS", "TYPES", "Described", "PgType", "columns_of", "described", "told_type", "type_of"]


@dataclass(frozen=True, slots=True)
class PgType:
    """A type of PostgreSQL.

    `size`: bytes of a value, -1 where they differ. `category`: as in `pg_type.typcategory`. `array`: the number of the
    type of its arrays. `element`: of an array, the type of its elements.
    """

    oid: int
    name: str
    size: int
    category: str
    array: int = 0
    element: PgType | None = None


def _types() -> dict[str, PgType]:
    rows = (
        (16, "bool", 1, "B", 1000), (17, "bytea", -1, "U", 1001), (18, "char", 1, "Z", 1002), (19, "name", 64, "S", 1003),
        (20, "int8", 8, "N", 1016), (21, "int2", 2, "N", 1005), (22, "int2vector", -1, "A", 1006), (23, "int4", 4, "N", 1007),
        (24, "regproc", 4, "N", 1008), (25, "text", -1, "S", 1009), (26, "oid", 4, "N", 1028), (30, "oidvector", -1, "A", 1013),
        (114, "json", -1, "U", 199), (700, "float4", 4, "N", 1021), (701, "float8", 8, "N", 1022), (705, "unknown", -2, "X", 0),
        (1042, "bpchar", -1, "S", 1014), (1043, "varchar", -1, "S", 1015), (1082, "date", 4, "D", 1182), (1083, "time", 8, "D", 1183),
        (1114, "timestamp", 8, "D", 1115), (1184, "timestamptz", 8, "D", 1185), (1186, "interval", 16, "T", 1187),
        (1266, "timetz", 12, "D", 1270), (1700, "numeric", -1, "N", 1231), (2202, "regprocedure", 4, "N", 2207),
        (2205, "regclass", 4, "N", 2210), (2206, "regtype", 4, "N", 2211), (2249, "record", -1, "P", 2287),
        (2278, "void", 4, "P", 0), (2950, "uuid", 16, "U", 2951), (3802, "jsonb", -1, "U", 3807), (4089, "regnamespace", 4, "N", 4090),
    )  # fmt: skip
    return {name: PgType(oid, name, size, category, array) for oid, name, size, category, array in rows}


TYPES: Final = _types()
"""Built-in types by name, without those of arrays."""

ARRAYS: Final = {
    element.array: PgType(element.array, f"_{element.name}", -1, "A", 0, element)
    for element in TYPES.values()
    if element.array
}
"""The types of their arrays, by number."""

_SCALARS = {
    TypeRoot.CHAR: "bpchar",
    TypeRoot.VARCHAR: "varchar",
    TypeRoot.BINARY: "bytea",
    TypeRoot.VARBINARY: "bytea",
    TypeRoot.BITMAP: "bytea",
    TypeRoot.RAW: "bytea",
    TypeRoot.BOOLEAN: "bool",
    TypeRoot.DECIMAL: "numeric",
    TypeRoot.TINYINT: "int2",
    TypeRoot.SMALLINT: "int2",
    TypeRoot.INT: "int4",
    TypeRoot.BIGINT: "int8",
    TypeRoot.FLOAT: "float4",
    TypeRoot.DOUBLE: "float8",
    TypeRoot.DATE: "date",
    TypeRoot.TIME: "time",
    TypeRoot.TIMESTAMP: "timestamp",
    TypeRoot.TIMESTAMP_LTZ: "timestamptz",
    TypeRoot.INTERVAL_MONTH: "interval",
    TypeRoot.INTERVAL_SECOND: "interval",
    TypeRoot.VARIANT: "jsonb",
    TypeRoot.MAP: "jsonb",
    TypeRoot.MULTISET: "jsonb",
    TypeRoot.ROW: "jsonb",
    TypeRoot.NULL: "text",
}


@dataclass(frozen=True, slots=True)
class Described:
    """A column of a result: its name, its type, and the modifier of the type (-1 for none)."""

    name: str
    type: PgType
    modifier: int = -1


def type_of(type_: DataType) -> PgType:
    """The type of PostgreSQL that carries values of a type of the engine. Maps, rows and multisets go as JSON, and so do
    arrays of arrays, because an array of PostgreSQL is rectangular."""
    if type_.root is TypeRoot.ARRAY:
        element = type_of(type_.children[0])
        return TYPES["jsonb"] if element.element is not None else ARRAYS[element.array]
    if type_.is_uuid:
        return TYPES["uuid"]
    if type_.root is TypeRoot.VARCHAR and type_.precision == STRING_LENGTH:
        return TYPES["text"]
    return TYPES[_SCALARS.get(type_.root, "text")]


_TOLD = {
    "bool": BOOLEAN, "int2": SMALLINT, "int4": INT, "int8": BIGINT, "oid": BIGINT, "float4": FLOAT, "float8": DOUBLE,
    "numeric": decimal(38, 18), "date": DATE, "time": TIME.with_(precision=6), "timestamp": timestamp(6),
    "timestamptz": timestamp_ltz(6), "interval": INTERVAL_SECOND, "bytea": BYTES,
    "uuid": UUID, "text": STRING, "varchar": STRING, "bpchar": STRING, "name": STRING,
}  # fmt: skip


def told_type(type_: PgType | None) -> DataType | None:
    """The type of the engine of a parameter that a client says to be of a type; None where that says none."""
    if type_ is None:
        return None
    if type_.element is None:
        return _TOLD.get(type_.name)
    element = told_type(type_.element)
    return None if element is None else array(element)


def described(name: str, type_: DataType) -> Described:
    """A column of a type of the engine, with its length or precision as modifier."""
    found = type_of(type_)
    modifier = -1
    if found.name in ("varchar", "bpchar"):
        modifier = type_.precision + 4
    elif found.name == "numeric":
        modifier = (type_.precision << 16 | type_.scale) + 4
    elif found.name in ("time", "timestamp", "timestamptz"):
        modifier = min(type_.precision, 6)
    return Described(name, found, modifier)


def columns_of(schema: Schema) -> tuple[Described, ...]:
    """The columns of a result of the engine."""
    return tuple(described(f.name, f.type) for f in schema)
