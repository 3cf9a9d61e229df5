"""The names that PostgreSQL gives to columns of a query without an alias.

Source: PostgreSQL, `FigureColname` of parse_target.c: the name of a column, field or function, that of the value inside a
CAST or else its type, and `?column?` for anything else.
"""

from __future__ import annotations

from sqlglot import exp

from runtime.core.types import TypeRoot
from sqlengine.parse.nodes import FunctionCall, IntervalLiteral, TemporalLiteral, TypeSpec

__all__ = ["NO_NAME", "cast_name", "named", "output_name"]

NO_NAME = "?column?"
_TYPES = {
    "INT": "int4", "BIGINT": "int8", "SMALLINT": "int2", "DOUBLE": "float8", "FLOAT": "float4", "DECIMAL": "numeric",
    "BOOLEAN": "bool", "STRING": "text", "DATE": "date", "TIME": "time", "TIMESTAMP": "timestamp",
    "TIMESTAMP_LTZ": "timestamptz", "BYTES": "bytea", "UUID": "uuid", "VARIANT": "jsonb", "CHAR": "bpchar", "VARCHAR": "varchar",
}  # fmt: skip
_AFTER = (exp.Filter, exp.Window, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


def named(tree: exp.Expr, name: str, *, weak: bool = False) -> exp.Expr:
    """The tree, remembering the name that a column of it would have; a `weak` one gives way to that of a CAST."""
    tree.meta["output_name"] = (name, weak)
    return tree


def output_name(tree: exp.Expr) -> str | None:
    """The name of a column without alias; None for a column that has one of its own, and for a star."""
    if isinstance(tree, exp.Column | exp.Star | exp.Dot | exp.Alias):
        return None
    return _figured(tree)[0]


def cast_name(value: exp.Expr, spec: exp.Expr) -> tuple[str, bool]:
    """The name of the value as another type, and whether it is a weak one."""
    name, weak = _figured(value)
    return (_type_name(spec), True) if weak else (name, False)


def _figured(tree: exp.Expr) -> tuple[str, bool]:
    told = tree.meta.get("output_name")
    if isinstance(told, tuple):
        return told
    match tree:
        case exp.Column() | exp.Alias():
            return str(tree.alias_or_name), False
        case exp.Dot():
            return str(tree.expression.name), False
        case exp.Paren() | exp.Bracket():
            return _figured(tree.this)
        case exp.Cast():
            return cast_name(tree.this, tree.args["to"])
        case FunctionCall():
            return _of_call(tree), False
        case exp.Case():
            default = tree.args.get("default")
            inner, weak = (NO_NAME, True) if default is None else _figured(default)
            return ("case", True) if weak else (inner, False)
        case exp.Array():
            return "array", False
        case exp.Exists():
            return "exists", False
        case exp.Overlaps():
            return "overlaps", False
        case TemporalLiteral():
            return {"TIMESTAMP_LTZ": "timestamptz"}.get(tree.kind, tree.kind.lower()), True
        case IntervalLiteral():
            return "interval", True
        case exp.Subquery():
            return _of_query(tree.this), False
        case _ if isinstance(tree, _AFTER):
            return _figured(tree.this)
        case _:
            return NO_NAME, True


def _of_call(call: FunctionCall) -> str:
    name = str(call.name).lower()
    if name != "trim":
        return name
    side = str(call.expressions[0].this) if isinstance(call.expressions[0], exp.Var) else "BOTH"
    return {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "btrim")


def _of_query(query: exp.Expr) -> str:
    items = query.expressions if isinstance(query, exp.Select) else []
    return _figured(items[0])[0] if len(items) == 1 else NO_NAME


def _type_name(spec: exp.Expr) -> str:
    if not isinstance(spec, TypeSpec):
        return NO_NAME
    type_ = spec.data_type
    while type_.root is TypeRoot.ARRAY:
        (type_,) = type_.children
    written = str(type_.with_nullable(True)).partition("(")[0]
    return _TYPES.get(written, written.partition("<")[0].lower())
