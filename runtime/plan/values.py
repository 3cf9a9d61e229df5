"""The parts of a plan as JSON values: expressions, types, schemas, enums, constants. Plans and tables are in `json.py`, the
way back is in `decoding.py`.

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
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from runtime.core import changelog, schema, types
from runtime.core.errors import FormatError
from runtime.core.node import Node, node_fields
from runtime.expr import nodes as expressions
from runtime.plan import nodes, parts, pattern, time_filter_nodes, windows

__all__ = ["CLASSES", "encode_fields", "encode_value"]

_MODULES: tuple[ModuleType, ...] = (
    nodes,
    parts,
    pattern,
    windows,
    time_filter_nodes,
    expressions,
    types,
    schema,
    changelog,
)
_OF_LOGICAL_PLANS = (
    expressions.Column, expressions.ColumnRef, expressions.OuterRef, expressions.Parameter, expressions.SubqueryExpr,
    expressions.AggregateCall, expressions.WindowCall, expressions.SortKey,
)  # fmt: skip
_BASES = (nodes.PhysicalNode, expressions.Expr, windows.WindowSpec)
CLASSES: Final[Mapping[str, type[Node | enum.Enum]]] = {
    name: cls
    for module in _MODULES
    for name, cls in vars(module).items()
    if isinstance(cls, type)
    and issubclass(cls, Node | enum.Enum)
    and (cls.__module__ == module.__name__ or issubclass(cls, nodes.PhysicalNode))
    and cls not in (*_OF_LOGICAL_PLANS, *_BASES)
}
"""What physical plans are made of, by name."""


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
