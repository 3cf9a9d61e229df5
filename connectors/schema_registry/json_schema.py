"""Columns as a schema of JSON, and the other way round (https://json-schema.org, draft 7, as Confluent's clients write it).

`connect.type` says how wide a number is, as in Kafka Connect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from runtime.core.errors import FormatError
from runtime.core.schema import Field, Schema
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    DataType,
    TypeRoot,
    array,
    map_of,
    row,
)

__all__ = ["columns_of_json_schema", "json_schema_text"]

_NUMBERS = {
    TypeRoot.TINYINT: ("integer", "int8"),
    TypeRoot.SMALLINT: ("integer", "int16"),
    TypeRoot.INT: ("integer", "int32"),
    TypeRoot.BIGINT: ("integer", "int64"),
    TypeRoot.FLOAT: ("number", "float32"),
    TypeRoot.DOUBLE: ("number", "float64"),
    TypeRoot.DECIMAL: ("number", ""),
    TypeRoot.INTERVAL_MONTH: ("integer", "int64"),
    TypeRoot.INTERVAL_SECOND: ("integer", "int64"),
}
_WIDTHS = {"int8": TINYINT, "int16": SMALLINT, "int32": INT, "int64": BIGINT, "float32": FLOAT, "float64": DOUBLE}
_PLAIN = {"integer": BIGINT, "number": DOUBLE, "string": STRING, "boolean": BOOLEAN}
_MOST_DEEP = 64


def json_schema_text(schema: Schema) -> str:
    """The schema of objects that hold these columns."""
    made = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "record"}
    return json.dumps({**made, **_object(tuple((f.name, f.type) for f in schema))})


def _object(fields: tuple[tuple[str, DataType], ...]) -> dict[str, Any]:
    needed = [name for name, type_ in fields if not type_.nullable]
    properties = {name: _told(type_) for name, type_ in fields}
    return {"type": "object", "properties": properties, **({"required": needed} if needed else {})}


def _told(type_: DataType) -> dict[str, Any]:
    plain = _not_null(type_)
    return {"oneOf": [{"type": "null"}, plain]} if type_.nullable else plain


def _not_null(type_: DataType) -> dict[str, Any]:
    match type_.root:
        case TypeRoot.BOOLEAN:
            return {"type": "boolean"}
        case TypeRoot.ARRAY:
            return {"type": "array", "items": _told(type_.children[0])}
        case TypeRoot.MAP | TypeRoot.MULTISET:
            value = type_.children[1] if type_.root is TypeRoot.MAP else INT
            return {"type": "object", "additionalProperties": _told(value)}
        case TypeRoot.ROW:
            return _object(tuple((f.name, f.type) for f in type_.fields))
        case TypeRoot.DATE:
            return {"type": "string", "format": "date"}
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return {"type": "string", "contentEncoding": "base64"}
        case root if root in _NUMBERS:
            kind, width = _NUMBERS[root]
            return {"type": kind, **({"connect.type": width} if width else {})}
        case _:
            return {"type": "string"}


def columns_of_json_schema(text: str) -> Schema:
    """The columns of objects of a schema. What has no type that is known is STRING: JSON as it stands.

    Raises:
        FormatError: E3230 it is no schema of objects.
    """
    try:
        given = json.loads(text)
        found = _type(given, given, 0)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"it is no schema of JSON: {error}", code="E3230", hint="declare the columns") from error
    if found.root is not TypeRoot.ROW:
        raise FormatError("it is no schema of objects with properties", code="E3230", hint="declare the columns")
    return Schema(tuple(Field(f.name, f.type) for f in found.fields))


def _type(given: Any, whole: Any, depth: int) -> DataType:
    if depth > _MOST_DEEP:
        raise ValueError("it is nested too deeply")
    if not isinstance(given, dict):
        return STRING
    told = cast("dict[str, Any]", given)
    if isinstance(told.get("$ref"), str):
        return _type(_referred(told["$ref"], whole), whole, depth + 1)
    for key in ("oneOf", "anyOf"):
        branches: Any = told.get(key)
        if isinstance(branches, list):
            others = [b for b in cast("list[Any]", branches) if not (isinstance(b, dict) and b == {"type": "null"})]
            if len(others) == 1:
                return _type(others[0], whole, depth + 1).with_nullable(len(others) < len(cast("list[Any]", branches)))
            return STRING
    kind: Any = told.get("type")
    if isinstance(kind, list):
        kinds = [k for k in cast("list[Any]", kind) if k != "null"]
        inner = _type({**told, "type": kinds[0]}, whole, depth + 1) if len(kinds) == 1 else STRING
        return inner.with_nullable("null" in kind)
    width = _WIDTHS.get(str(told.get("connect.type")))
    if kind in ("integer", "number") and width is not None:
        return width.not_null()
    if kind == "array":
        return array(_type(told.get("items"), whole, depth + 1)).not_null()
    if kind == "object":
        return _row(told, whole, depth)
    return _PLAIN.get(str(kind), STRING).not_null()


def _row(told: Mapping[str, Any], whole: Any, depth: int) -> DataType:
    properties: Any = told.get("properties")
    if isinstance(properties, dict) and properties:
        needed: Any = told.get("required")
        required = set(cast("list[str]", needed)) if isinstance(needed, list) else set[str]()
        fields: list[tuple[str, DataType]] = []
        for name, inner in cast("dict[str, Any]", properties).items():
            type_ = _type(inner, whole, depth + 1)
            fields.append((name, type_ if name in required else type_.with_nullable(True)))
        return row(*fields).not_null()
    return map_of(STRING.not_null(), _type(told.get("additionalProperties"), whole, depth + 1)).not_null()


def _referred(reference: str, whole: Any) -> Any:
    """What `#/definitions/..` names; nothing elsewhere is looked for."""
    found = whole
    for part in reference.removeprefix("#").split("/")[1:]:
        found = cast("dict[str, Any]", found).get(part) if isinstance(found, dict) else None
    return found if reference.startswith("#") else None
