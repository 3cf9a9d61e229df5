"""SQL types as types of Avro, and the other way round, as Flink 2.3 has them (`AvroSchemaConverter`)."""

from __future__ import annotations

import re

from connectors.formats.avro_schema import NO_DEFAULT, AvroField, AvroType
from connectors.formats.held import check_held
from runtime.core.errors import UnsupportedError
from runtime.core.schema import Field, Schema
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIME,
    DataType,
    TypeRoot,
    array,
    decimal,
    map_of,
    row,
    timestamp,
    timestamp_ltz,
)

__all__ = ["ROOT_NAME", "avro_of", "check_avro", "columns_of"]

ROOT_NAME = "org.apache.flink.avro.generated.record"
"""What Flink calls the record of a table."""
_PLAIN = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "int",
    TypeRoot.SMALLINT: "int",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "bytes",
    TypeRoot.VARBINARY: "bytes",
    TypeRoot.NULL: "null",
}
_NO_NAME = re.compile(r"[^A-Za-z0-9_]", re.ASCII)
_LACKING = {
    TypeRoot.INTERVAL_MONTH: "write the months as INT",
    TypeRoot.INTERVAL_SECOND: "write the milliseconds as BIGINT",
}


def check_avro(schema: Schema, name: str = "avro") -> None:
    """Raises UnsupportedError E1616 for a column that Avro has no type for."""
    check_held(f"format '{name}'", schema, _LACKING)
    for column in schema:
        _check(name, column.name, column.type)


def _check(name: str, column: str, type_: DataType) -> None:
    if type_.root is TypeRoot.MAP and not type_.children[0].is_character:
        raise UnsupportedError(
            f"format '{name}' cannot hold column {column} of type {type_}",
            code="E1616",
            hint="keys of maps are texts in Avro: declare MAP<STRING, ..>",
        )
    if type_.root is TypeRoot.MULTISET and not type_.children[0].is_character:
        raise UnsupportedError(
            f"format '{name}' cannot hold column {column} of type {type_}",
            code="E1616",
            hint="a MULTISET is a map in Avro, whose keys are texts: declare MULTISET<STRING>",
        )
    for child in (*type_.children, *(f.type for f in type_.fields)):
        _check(name, column, child)


def avro_of(schema: Schema, legacy: bool) -> AvroType:
    """The record that holds these columns.

    Args:
        legacy: both kinds of timestamps are those of Avro that are points in time, as in Flink before 1.19; else TIMESTAMP is
            one without time zone.
    """
    fields = tuple((f.name, f.type) for f in schema)
    return _record(ROOT_NAME, fields, legacy)


def _record(name: str, fields: tuple[tuple[str, DataType], ...], legacy: bool) -> AvroType:
    made = AvroType("record", name)
    for column, type_ in fields:
        inner = _avro(type_, f"{name}_{_NO_NAME.sub('_', column)}", legacy)
        made.fields.append(AvroField(column, inner, None if type_.nullable else NO_DEFAULT))
    return made


def _avro(type_: DataType, name: str, legacy: bool) -> AvroType:
    plain = _not_null(type_, name, legacy)
    if not type_.nullable or plain.kind == "null":
        return plain
    return AvroType("union", branches=[AvroType("null"), plain])


def _not_null(type_: DataType, name: str, legacy: bool) -> AvroType:
    match type_.root:
        case TypeRoot.DECIMAL:
            return AvroType("bytes", logical="decimal", precision=type_.precision, scale=type_.scale)
        case TypeRoot.DATE:
            return AvroType("int", logical="date")
        case TypeRoot.TIME:
            return AvroType("int", logical="time-millis")
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            local = "local-" if type_.root is TypeRoot.TIMESTAMP and not legacy else ""
            unit = "millis" if type_.precision <= 3 else "micros" if type_.precision <= 6 else "nanos"
            return AvroType("long", logical=f"{local}timestamp-{unit}")
        case TypeRoot.ARRAY:
            return AvroType("array", items=_avro(type_.children[0], name, legacy))
        case TypeRoot.MAP:
            return AvroType("map", items=_avro(type_.children[1], name, legacy))
        case TypeRoot.MULTISET:
            return AvroType("map", items=AvroType("int"))
        case TypeRoot.ROW:
            return _record(name, tuple((f.name, f.type) for f in type_.fields), legacy)
        case _:
            return AvroType(_PLAIN[type_.root])


_SQL = {
    "boolean": BOOLEAN,
    "int": INT,
    "long": BIGINT,
    "float": FLOAT,
    "double": DOUBLE,
    "bytes": BYTES,
    "string": STRING,
    "enum": STRING,
    "fixed": BYTES,
    "date": DATE,
    "time-millis": TIME,
    "time-micros": TIME,
    "timestamp-millis": timestamp_ltz(3),
    "timestamp-micros": timestamp_ltz(6),
    "timestamp-nanos": timestamp_ltz(9),
    "local-timestamp-millis": timestamp(3),
    "local-timestamp-micros": timestamp(6),
    "local-timestamp-nanos": timestamp(9),
    "uuid": STRING,
}


def columns_of(schema: AvroType) -> Schema:
    """The columns that hold a record, each with the type that says most; raises UnsupportedError E1616 for a type that SQL
    does not have: a union of several types, a record within itself."""
    if schema.kind != "record":
        return Schema((Field("f0", _sql(schema, (), "f0")),))
    return Schema(tuple(Field(f.name, _sql(f.type, (schema,), f.name)) for f in schema.fields))


def _sql(type_: AvroType, within: tuple[AvroType, ...], path: str) -> DataType:
    if type_.kind == "union":
        others = [branch for branch in type_.branches if branch.kind != "null"]
        if len(others) == 1:
            return _sql(others[0], within, path).with_nullable(len(type_.branches) > 1)
        raise _unsupported(type_, path)
    if any(type_ is outer for outer in within):
        raise _unsupported(type_, path)
    match type_.kind:
        case "record":
            inner = (*within, type_)
            fields = [(f.name, _sql(f.type, inner, f"{path}.{f.name}")) for f in type_.fields]
            if not fields:
                raise _unsupported(type_, path)
            return row(*fields).not_null()
        case "array" | "map":
            assert type_.items is not None
            inside = _sql(type_.items, within, path)
            return (array(inside) if type_.kind == "array" else map_of(STRING.not_null(), inside)).not_null()
        case "null":
            return STRING
        case _:
            pass
    if type_.logical == "decimal" and type_.precision <= 38:
        return decimal(type_.precision, type_.scale).not_null()
    plain = type_.kind if type_.logical == "uuid" and type_.kind == "fixed" else type_.logical
    return _SQL.get(plain, _SQL[type_.kind]).not_null()


def _unsupported(type_: AvroType, path: str) -> UnsupportedError:
    return UnsupportedError(
        f"{path} is {type_.shown}, which no SQL type holds",
        code="E1616",
        hint="declare the columns, and leave this one out",
    )
