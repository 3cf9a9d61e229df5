"""The parts of a plan as JSON values, and back: expressions, types, schemas, enums, constants. Plans and tables are in
`json.py`.

A node becomes an object with its class name under `node` and its fields, leaving out those that have their default.
Places in the SQL text, and how constants are shown, are not part of a plan. Constants that JSON does not know are
objects with one key that starts with `$`.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import enum
import math
from types import ModuleType
from typing import Any

from runtime.core import changelog, schema, types
from runtime.core.errors import FormatError
from runtime.core.node import Node, node_fields
from runtime.expr import nodes as expressions
from runtime.plan import nodes, parts, pattern, windows

__all__ = ["class_named", "decode_value", "encode_value"]

_MODULES: tuple[ModuleType, ...] = (nodes, parts, pattern, windows, expressions, types, schema, changelog)
_CLASSES: dict[str, type] = {
    name: cls
    for module in _MODULES
    for name, cls in vars(module).items()
    if isinstance(cls, type)
    and issubclass(cls, Node | enum.Enum)
    and (cls.__module__ == module.__name__ or issubclass(cls, nodes.PhysicalNode))
}


def class_named(name: str) -> type:
    """The class of a `node`; raises FormatError for one that this version does not know."""
    found = _CLASSES.get(name)
    if found is None:
        raise FormatError(
            f"the plan holds a {name}, which this version does not know",
            code="E3210",
            hint="use the version that wrote it",
        )
    return found


def encode_value(value: Any) -> Any:
    """A JSON value; the same value always gives the same JSON."""
    if isinstance(value, Node):
        return {"node": type(value).__name__, **encode_fields(value)}
    if isinstance(value, enum.Enum):
        return {"$enum": f"{type(value).__name__}.{value.name}"}
    if isinstance(value, tuple):
        return [encode_value(v) for v in value]
    return _encode_constant(value)


def encode_fields(node: Node, leave_out: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The fields of a node that differ from their defaults, by name."""
    found: dict[str, Any] = {}
    for field in node_fields(node):
        if field.name in leave_out or field.name in ("span", "origin"):
            continue
        value = getattr(node, field.name)
        default = field.default
        if not field.is_required and type(default) is type(value) and default == value:
            continue
        found[field.name] = encode_value(value)
    return found


def _encode_constant(value: Any) -> Any:
    match value:
        case None | bool() | str() | int():
            return value
        case float():
            return value if math.isfinite(value) else {"$float": repr(value)}
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case decimal.Decimal():
            return {"$decimal": str(value)}
        case datetime.datetime():
            return {"$timestamp": value.isoformat()}
        case datetime.date():
            return {"$date": value.isoformat()}
        case datetime.time():
            return {"$time": value.isoformat()}
        case dict():
            return {"$map": [[encode_value(k), encode_value(v)] for k, v in value.items()]}
        case list():
            return {"$list": [encode_value(v) for v in value]}
        case _:
            raise FormatError(f"a {type(value).__name__} cannot stand in a stored plan", code="E3211")


def decode_value(value: Any) -> Any:
    """What `encode_value` encoded."""
    if isinstance(value, list):
        return tuple(decode_value(v) for v in value)
    if not isinstance(value, dict):
        return value
    if "node" in value:
        fields = {name: decode_value(v) for name, v in value.items() if name != "node"}
        return class_named(value["node"])(**fields)
    ((tag, content),) = value.items()
    match tag:
        case "$enum":
            name, _, member = content.partition(".")
            return class_named(name)[member]  # type: ignore[index]
        case "$float":
            return float(content)
        case "$bytes":
            return base64.b64decode(content)
        case "$decimal":
            return decimal.Decimal(content)
        case "$timestamp":
            return datetime.datetime.fromisoformat(content)
        case "$date":
            return datetime.date.fromisoformat(content)
        case "$time":
            return datetime.time.fromisoformat(content)
        case "$map":
            return {decode_value(k): decode_value(v) for k, v in content}
        case "$list":
            return [decode_value(v) for v in content]
        case _:
            raise FormatError(f"a stored plan holds an unknown value {tag}", code="E3210")


__all__ += ["encode_fields"]
