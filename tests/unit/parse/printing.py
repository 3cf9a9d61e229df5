"""Trees and statements as short text, for golden files."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from runtime.core.errors import Span
from runtime.core.node import Node, node_fields
from runtime.core.types import DataType
from sqlengine.parse import nodes
from sqlengine.parse.statement_nodes import ExpressionText, Name, ObjectName, Option, QueryText


def show(value: Any) -> str:
    """One line: class names with their arguments, without what is absent, false or empty."""
    match value:
        case exp.Identifier():
            return f"`{value.name}`" if value.args["quoted"] else value.name
        case exp.Column() | exp.Table() if not any(value.args.get(k) for k in ("alias", "hints", "version")):
            return f"{type(value).__name__}({'.'.join(show(part) for part in value.parts)})"
        case exp.Literal():
            return repr(value.this) if value.is_string else value.this
        case exp.Null():
            return "NULL"
        case exp.Boolean():
            return "TRUE" if value.this else "FALSE"
        case exp.Star():
            return "*"
        case exp.Var():
            return f"Var({value.this})"
        case exp.Paren():
            return f"({show(value.this)})"
        case exp.Binary():
            return f"{type(value).__name__}({show(value.this)}, {show(value.expression)})"
        case nodes.JsonFunction():
            rest = {k: v for k, v in value.args.items() if k not in ("this", "expressions") and v}
            return f"{value.name}({_items(value.expressions)}){_fields(rest) if rest else ''}"
        case nodes.FunctionCall():
            name = ".".join([*map(show, value.qualifier), value.name])
            return f"{name}({_items(value.expressions)})"
        case exp.Alias():
            return f"{show(value.this)} AS {show(value.args['alias'])}"
        case exp.TableAlias():
            columns = value.args.get("columns")
            return show(value.this) + (f"({_items(columns)})" if columns else "")
        case exp.Expression():
            return type(value).__name__ + _fields({k: v for k, v in value.args.items() if v not in (None, False, [])})
        case DataType():
            return f"<{value}>"
        case Name():
            return value.text
        case ObjectName():
            return ".".join(value.parts)
        case Option():
            return f"{value.key!r}={value.value!r}"
        case ExpressionText():
            return f"[{show(value.expression)}]"
        case QueryText():
            return f"[{show(value.query)}]"
        case Node():
            return type(value).__name__ + _fields(_node_fields(value))
        case list() | tuple():
            return f"[{_items(value)}]"
        case str():
            return repr(value)
    return str(value)


def _items(values: Any) -> str:
    return ", ".join(show(value) for value in values)


def _fields(fields: dict[str, Any]) -> str:
    return "(" + ", ".join(f"{name}={show(value)}" for name, value in fields.items()) + ")"


def _node_fields(node: Node) -> dict[str, Any]:
    found = {}
    for field in node_fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Span) or field.name == "text":
            continue
        default = None if field.is_required else field.default
        if value != default:
            found[field.name] = value
    return found
