"""Columns as a schema of Protobuf, and the other way round, as Flink 2.3 has them (`PbToRowTypeUtil`), with the types that hold
every value: unsigned integers have larger ones, and points in time are TIMESTAMP_LTZ."""

from __future__ import annotations

import re

from connectors.formats.held import check_held
from connectors.formats.proto_model import ProtoField, ProtoMessage
from connectors.formats.proto_reading import TIMESTAMP
from runtime.core.errors import UnsupportedError
from runtime.core.schema import Field, Schema
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    DataType,
    TypeRoot,
    array,
    decimal,
    map_of,
    row,
    timestamp_ltz,
)

__all__ = ["check_proto", "columns_of_message", "proto_text_of"]

_SQL = {
    "double": DOUBLE,
    "float": FLOAT,
    "int32": INT,
    "sint32": INT,
    "sfixed32": INT,
    "uint32": BIGINT,
    "fixed32": BIGINT,
    "int64": BIGINT,
    "sint64": BIGINT,
    "sfixed64": BIGINT,
    "uint64": decimal(20, 0),
    "fixed64": decimal(20, 0),
    "bool": BOOLEAN,
    "string": STRING,
    "bytes": BYTES,
    "enum": STRING,
}
_PROTO = {
    TypeRoot.BOOLEAN: "bool",
    TypeRoot.TINYINT: "int32",
    TypeRoot.SMALLINT: "int32",
    TypeRoot.INT: "int32",
    TypeRoot.BIGINT: "int64",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "bytes",
    TypeRoot.VARBINARY: "bytes",
    TypeRoot.TIMESTAMP: TIMESTAMP,
    TypeRoot.TIMESTAMP_LTZ: TIMESTAMP,
}
_LACKING = {
    TypeRoot.DATE: "write CAST(d AS STRING) into a column of STRING",
    TypeRoot.TIME: "write CAST(t AS STRING) into a column of STRING",
    TypeRoot.INTERVAL_MONTH: "write the months as INT",
    TypeRoot.INTERVAL_SECOND: "write the milliseconds as BIGINT",
    TypeRoot.MULTISET: "declare MAP<.., INT>",
    TypeRoot.NULL: "leave it out",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MOST_DEEP = 64


def check_proto(schema: Schema, name: str) -> None:
    """Raises UnsupportedError E1616 for a column that Protobuf has no type for."""
    check_held(f"format '{name}'", schema, _LACKING)


def columns_of_message(message: ProtoMessage) -> Schema:
    """The columns that hold a message, each with the type that holds every value; raises UnsupportedError E1616 for a type that
    SQL does not have: a message without fields or within itself, a group."""
    if not message.fields:
        raise UnsupportedError(f"message {message.name} has no fields", code="E1616", hint="name another message")
    return Schema(tuple(Field(f.name, _column(f, (message,), f.name)) for f in message.fields))


def _column(one: ProtoField, within: tuple[ProtoMessage, ...], path: str) -> DataType:
    if one.is_map:
        assert one.message is not None
        key, value = one.message.fields
        return map_of(_sql(key, within, path), _sql(value, within, path))
    type_ = _sql(one, within, path)
    return array(type_) if one.repeated else type_.with_nullable(one.told and not one.required)


def _sql(one: ProtoField, within: tuple[ProtoMessage, ...], path: str) -> DataType:
    """The type of a value, NOT NULL."""
    message = one.message
    if message is None:
        if one.kind not in _SQL:
            raise _unsupported(one, path)
        return _SQL[one.kind].not_null()
    if message.name == TIMESTAMP:
        return timestamp_ltz(9).not_null()
    if message in within or not message.fields or len(within) > _MOST_DEEP:
        raise _unsupported(one, path)
    inner = (*within, message)
    return row(*((f.name, _column(f, inner, f"{path}.{f.name}")) for f in message.fields)).not_null()


def _unsupported(one: ProtoField, path: str) -> UnsupportedError:
    return UnsupportedError(
        f"{path} is {one.shown}, which no SQL type holds",
        code="E1616",
        hint="declare the columns, and leave this one out",
    )


def proto_text_of(schema: Schema, name: str) -> str:
    """The text of a file whose message `record` holds these columns, numbered in their order; `name`: of the format, for
    messages. Raises UnsupportedError E1616 for columns that none holds."""
    check_proto(schema, name)
    lines: list[str] = []
    _message(lines, "record", tuple((f.name, f.type) for f in schema), name, "")
    imports = (
        [f'import "{TIMESTAMP.lower().replace(".", "/")}.proto";'] if any(TIMESTAMP in line for line in lines) else []
    )
    return "\n".join(['syntax = "proto3";', *imports, *lines, ""])


def _message(lines: list[str], name: str, fields: tuple[tuple[str, DataType], ...], format_: str, indent: str) -> None:
    lines.append(f"{indent}message {name} {{")
    for number, (column, type_) in enumerate(fields, 1):
        if _NAME.fullmatch(column) is None:
            raise UnsupportedError(
                f"format '{format_}' cannot hold a column of the name {column}",
                code="E1616",
                hint="names of Protobuf have letters, digits and _",
            )
        label = "repeated " if type_.root is TypeRoot.ARRAY else "optional " if type_.nullable else ""
        match type_.root:
            case TypeRoot.ARRAY:
                written = _inner(lines, column, type_.children[0], format_, indent)
            case TypeRoot.MAP:
                key, value = (_inner(lines, column, child, format_, indent) for child in type_.children)
                if key in ("float", "double", "bytes", TIMESTAMP) or type_.children[0].root is TypeRoot.ROW:
                    raise _unheld(format_, column, type_, "keys of maps are texts, integers or BOOLEAN in Protobuf")
                label, written = "", f"map<{key}, {value}>"
            case _:
                written = _inner(lines, column, type_, format_, indent)
        lines.append(f"{indent}  {label}{written} {column} = {number};")
    lines.append(f"{indent}}}")


def _inner(lines: list[str], column: str, type_: DataType, format_: str, indent: str) -> str:
    """The name of the type of a value, which is declared before it is used."""
    if type_.root is TypeRoot.ROW:
        name = f"{column}_row"
        _message(lines, name, tuple((f.name, f.type) for f in type_.fields), format_, indent + "  ")
        return name
    if type_.root not in _PROTO:
        hints = {
            TypeRoot.DECIMAL: "write CAST(d AS STRING) into a column of STRING, or give a schema with uint64",
            TypeRoot.ARRAY: "lists within lists, and maps within them, need a ROW between them in Protobuf",
        }
        raise _unheld(format_, column, type_, hints.get(type_.root, hints[TypeRoot.ARRAY]))
    return _PROTO[type_.root]


def _unheld(format_: str, column: str, type_: DataType, hint: str) -> UnsupportedError:
    return UnsupportedError(f"format '{format_}' cannot hold column {column} of type {type_}", code="E1616", hint=hint)
