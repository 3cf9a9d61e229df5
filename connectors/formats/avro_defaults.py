"""Defaults of fields, JSON in a schema, as the bytes that a record would have. Source: Apache Avro 1.12, Specification,
"Complex Types"."""

from __future__ import annotations

import math
import struct
from typing import Any, cast

from connectors.formats.avro_schema import NO_DEFAULT, AvroType, BadSchema

__all__ = ["default_bytes"]

_RANGE = {"int": 1 << 31, "long": 1 << 63}


def default_bytes(type_: AvroType, value: Any) -> bytes:
    """The bytes of a value; raises BadSchema for one that is not of the type. That of a union is of one of its branches, as
    since Avro 1.12; before it was of the first."""
    match type_.kind:
        case "union":
            for number, branch in enumerate(type_.branches):
                try:
                    return _integer(number) + default_bytes(branch, value)
                except BadSchema:
                    continue
        case "null" if value is None:
            return b""
        case "boolean" if isinstance(value, bool):
            return bytes([value])
        case "int" | "long" if isinstance(value, int) and not isinstance(value, bool):
            if -_RANGE[type_.kind] <= value < _RANGE[type_.kind]:
                return _integer(value)
        case "float" | "double" if isinstance(value, int | float | str) and not isinstance(value, bool):
            return _float(type_, value)
        case "string" if isinstance(value, str):
            return _counted(value.encode("utf-8", "surrogatepass"))
        case "bytes" | "fixed" if isinstance(value, str) and all(ord(c) < 256 for c in value):
            raw = value.encode("latin-1")
            if type_.kind == "bytes":
                return _counted(raw)
            if len(raw) == type_.size:
                return raw
        case "enum" if value in type_.symbols:
            return _integer(type_.symbols.index(value))
        case "array" if isinstance(value, list):
            assert type_.items is not None
            items = cast("list[Any]", value)
            return _block(len(items), b"".join(default_bytes(type_.items, item) for item in items))
        case "map" if isinstance(value, dict):
            entries = cast("dict[str, Any]", value).items()
            assert type_.items is not None
            inside = type_.items
            return _block(len(entries), b"".join(_counted(k.encode()) + default_bytes(inside, v) for k, v in entries))
        case "record" if isinstance(value, dict):
            return _record(type_, cast("dict[str, Any]", value))
        case _:
            pass
    raise BadSchema(f"{value!r} is no {type_.shown}")


def _record(type_: AvroType, value: dict[str, Any]) -> bytes:
    made = b""
    for field in type_.fields:
        given = value.get(field.name, field.default)
        if given is NO_DEFAULT:
            raise BadSchema(f"the default of {type_.name} has no {field.name}")
        made += default_bytes(field.type, given)
    return made


def _float(type_: AvroType, value: float | str) -> bytes:
    if isinstance(value, str) and value not in ("NaN", "Infinity", "-Infinity"):
        raise BadSchema(f"{value!r} is no {type_.shown}")
    number = float(value.replace("Infinity", "inf")) if isinstance(value, str) else float(value)
    try:
        return struct.pack("<f" if type_.kind == "float" else "<d", number)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, number))


def _integer(value: int) -> bytes:
    rest, made = value << 1 if value >= 0 else (-value << 1) - 1, bytearray()
    while rest > 127:
        made.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*made, rest])


def _counted(raw: bytes) -> bytes:
    return _integer(len(raw)) + raw


def _block(count: int, items: bytes) -> bytes:
    return (_integer(count) + items if count else b"") + _integer(0)
