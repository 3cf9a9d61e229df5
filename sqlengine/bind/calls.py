"""Calls of functions: scalar ones, aggregates, and those with a clause of their own.

A call of an aggregate becomes an `AggregateCall` inside the expression; the room of aggregation takes it out. What
GROUP BY must answer (`GROUPING(x)`, `TUMBLE_START(..)`) stays a call until then. COALESCE, NULLIF, IF and IFNULL become
CASE where the library has no such function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from runtime.core.errors import BindError, Span, TypeMismatchError, UnsupportedError
from runtime.core.rooms import Room
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    STRING,
    TimeAttribute,
    TypeRoot,
    char,
    timestamp,
    timestamp_ltz,
)
from runtime.expr.function import AggregateFunction, ScalarFunction, WindowFunction, shown_name
from runtime.expr.nodes import AggregateCall, Call, Case, Expr, Literal
from runtime.expr.nullability import aggregate_type
from sqlengine.bind.aggregate_parts import aggregate_parts, argument, input_order, resolved_arguments
from sqlengine.bind.coerce import as_boolean, unify
from sqlengine.bind.construct import row_of
from sqlengine.bind.functions import accepted, find_function, meant
from sqlengine.bind.operators import comparison, conjunction, scalar_call
from sqlengine.bind.session import Clause, ExpressionRules
from sqlengine.parse.nodes import DefaultArg, FunctionCall, JsonFunction, NamedArg
from sqlengine.parse.spans import span_of

if TYPE_CHECKING:
    import sqlengine.bind.function_arguments as _function_arguments
    import sqlengine.bind.postgres as _postgres
    import sqlengine.bind.row_sets as _row_sets
else:
    _function_arguments = Room("sqlengine.bind.function_arguments")
    _postgres = Room("sqlengine.bind.postgres")
    _row_sets = Room("sqlengine.bind.row_sets")

__all__ = [
    "CALLS",
    "GROUPING_FUNCTIONS",
    "WINDOW_PROPERTIES",
]

GROUPING_FUNCTIONS = frozenset({"GROUPING", "GROUPING_ID", "GROUP_ID"})
WINDOW_PROPERTIES = frozenset(
    f"{w}_{p}" for w in ("TUMBLE", "HOP", "SESSION") for p in ("START", "END", "ROWTIME", "PROCTIME")
)

_ROW_SETS = frozenset({"UNNEST", "GENERATE_SERIES"})
"""What gives rows in a select list."""
_AGGREGATE_HINTS = {
    "WHERE": "filter groups with HAVING",
    "GROUP BY": "group by columns; HAVING filters groups, ORDER BY sorts them",
}


def _call(binder: ExpressionRules, tree: FunctionCall) -> Expr:
    name, span = tree.name.upper(), span_of(tree)
    if name in GROUPING_FUNCTIONS:
        return _needs_group(binder, name, tree, span)
    if name in WINDOW_PROPERTIES:
        return _window_property(binder, name, tree, span)
    if name == "PG_COLUMN_OR":
        return _postgres.column_or(binder, tree)
    if name == "PG_ROW_OR":
        return _postgres.row_or(binder, tree)
    if name.startswith("PG_") and name in _postgres.RULES:
        return _postgres.RULES[name](binder, [argument(binder, a) for a in tree.expressions], span)
    if name in _ROW_SETS and not binder.clause.gives_rows:
        return _row_sets.row_set(binder, tree)
    special = _SPECIAL.get(name)
    if special is not None and (name in _ALWAYS_SPECIAL or binder.env.context.functions.find(name) is None):
        return special(binder, [argument(binder, a) for a in tree.expressions], span)
    meaning = meant(tree, binder.env.context.functions)
    if meaning is not tree:
        return binder.bind(meaning)
    function = find_function(binder, name, span)
    if isinstance(function, ScalarFunction):
        return _scalar(binder, function, tree, span)
    return _aggregate(binder, tree)


def _scalar(binder: ExpressionRules, function: ScalarFunction, tree: FunctionCall, span: Span | None) -> Expr:
    written = tree.expressions
    if function.gives_rows and not binder.clause.gives_rows:
        raise BindError(
            f"{shown_name(tree.name)} is a table function: it gives rows, not a value",
            code="E1204",
            span=span,
            hint=f"write FROM t, LATERAL TABLE({shown_name(tree.name)}(..)) AS r (a); of a Python table, join_lateral",
        )
    if len(written) == 1 and isinstance(written[0], exp.Distinct):
        raise BindError(
            f"{function.name} is no aggregate and takes no DISTINCT", code="E1211", span=span, hint="leave DISTINCT out"
        )
    if tree.args.get("order") is not None:
        raise BindError(
            f"{function.name} is no aggregate and takes no ORDER BY",
            code="E1211",
            span=span_of(tree.args["order"]),
            hint="leave ORDER BY out",
        )
    if function.name == "JSON":
        raise UnsupportedError(
            "JSON(..) stands only inside JSON_OBJECT and JSON_ARRAY",
            span=span,
            hint="write it as an argument of JSON_OBJECT or JSON_ARRAY",
        )
    bind_one = _json_part if function.name in _MADE_OF_VALUES else argument
    if function.parameters and any(isinstance(a, NamedArg | DefaultArg) for a in written):
        given = _function_arguments.in_order(function, tree)
        args = [a if isinstance(a, Literal) else argument(binder, a) for a in given]
    else:
        args = [bind_one(binder, a) for a in written]
    if isinstance(tree, JsonFunction):
        return _json(binder, function, tree, args, span)
    if function.name == "CURRENT_WATERMARK" and not (len(args) == 1 and args[0].type.is_rowtime):
        raise TypeMismatchError(
            "CURRENT_WATERMARK takes one argument, a rowtime column",
            code="E1311",
            span=span,
            hint="a rowtime column is one that its table's WATERMARK FOR names",
        )
    return scalar_call(binder, function.name, args, span)


def _json(
    binder: ExpressionRules, function: ScalarFunction, tree: JsonFunction, args: list[Expr], span: Span | None
) -> Expr:
    """JSON functions get their clauses as further arguments: `RETURNING` and a NULL of its type, then wrapper, ON EMPTY
    and ON ERROR as texts; JSON_OBJECT and JSON_ARRAY before their values ON NULL, and which values are JSON already.
    """
    if function.name in _MADE_OF_VALUES:
        absent = tree.args.get("on_null", _MADE_OF_VALUES[function.name])
        values = args[1::2] if function.name == "JSON_OBJECT" else args
        raw = "".join("1" if isinstance(a, Call) and a.function in _JSON_TEXTS else "0" for a in values)
        return scalar_call(binder, function.name, [_text(f"{absent} ON NULL"), _text(raw), *args], span)
    returning = tree.args.get("returning")
    if returning is not None:
        args += [_text("RETURNING"), Literal(None, returning.data_type.with_nullable(True))]
    for key in ("wrapper", "on_empty", "on_error"):
        clause = tree.args.get(key)
        if clause is None:
            continue
        if isinstance(clause, exp.Expr) and not isinstance(clause, exp.Var):
            args += [_text(f"DEFAULT {key.upper().replace('_', ' ')}"), binder.bind(clause)]
        else:
            word = clause if isinstance(clause, str) else str(clause.this)
            args.append(_text(f"{word} {key.upper().replace('_', ' ')}"))
    return scalar_call(binder, function.name, args, span)


_MADE_OF_VALUES = {"JSON_OBJECT": "NULL", "JSON_ARRAY": "ABSENT"}
"""The functions that make JSON of values, and what they do with NULL when the query does not say."""
_JSON_TEXTS = frozenset({"JSON_OBJECT", "JSON_ARRAY", "JSON"})


def _json_part(binder: ExpressionRules, tree: exp.Expr) -> Expr:
    """A value inside JSON_OBJECT or JSON_ARRAY, the only places of JSON(text)."""
    if isinstance(tree, FunctionCall) and tree.name.upper() == "JSON":
        return scalar_call(binder, "JSON", [argument(binder, a) for a in tree.expressions], span_of(tree))
    return argument(binder, tree)


def _text(text: str) -> Expr:
    return Literal(text, char(len(text)).not_null())


def _aggregate(binder: ExpressionRules, tree: exp.Expr) -> Expr:
    parts, function = aggregate_parts(binder, tree)
    clause = binder.clause
    if isinstance(function, ScalarFunction):
        raise BindError(
            f"{function.name} is no aggregate: it takes no FILTER and no NULLS clause",
            code="E1211",
            span=parts.span,
            hint="filter rows with WHERE, or choose values with CASE",
        )
    if isinstance(function, WindowFunction):
        raise BindError(
            f"{parts.name} needs OVER",
            code="E1212",
            span=parts.span,
            hint=f"for example {parts.name}(..) OVER (ORDER BY x)",
        )
    if not clause.aggregates:
        raise BindError(
            f"the aggregate {parts.name} cannot stand in {clause.name}",
            code="E1210",
            span=parts.span,
            hint=_AGGREGATE_HINTS.get(clause.name, "compute it in a query in FROM, and use its column here"),
        )
    inner = Clause(f"the arguments of {parts.name}")
    args, result = resolved_arguments(binder, parts, function, inner)
    order_by = input_order(binder.within(inner), parts, function, args)
    condition = None
    if parts.filter is not None:
        condition = as_boolean(binder.within(Clause("FILTER")).bind(parts.filter), "FILTER", span_of(parts.filter))
    assert isinstance(function, AggregateFunction)
    of_some_row = clause.never_empty and condition is None
    result = aggregate_type(function, [a.type for a in args], result, of_some_row=of_some_row)
    condition = accepted(binder, function, args, condition, parts.span)
    return AggregateCall(function.name.upper(), args, result, parts.distinct, condition, order_by, span=parts.span)


def _needs_group(binder: ExpressionRules, name: str, tree: FunctionCall, span: Span | None) -> Expr:
    if not binder.clause.aggregates:
        raise BindError(
            f"{name} cannot stand in {binder.clause.name}",
            code="E1210",
            span=span,
            hint="it tells about groups: use it in SELECT or HAVING of a query with GROUP BY",
        )
    args = tuple(binder.bind(a) for a in tree.expressions)
    if not args and name != "GROUP_ID":
        raise TypeMismatchError(
            f"{name} takes columns of GROUP BY",
            code="E1301",
            span=span,
            hint="name keys of GROUP BY, as they are written there",
        )
    return Call(name, args, BIGINT.not_null(), span=span)


def _window_property(binder: ExpressionRules, name: str, tree: FunctionCall, span: Span | None) -> Expr:
    """TUMBLE_START(time, size) and its like: the window of the GROUP BY that is written with the same arguments."""
    if not binder.clause.aggregates:
        raise BindError(
            f"{name} cannot stand in {binder.clause.name}",
            code="E1210",
            span=span,
            hint=f"it belongs to GROUP BY {name.split('_')[0]}(..)",
        )
    args = tuple(binder.bind(a) for a in tree.expressions)
    if name.endswith("_PROCTIME"):
        result = timestamp_ltz(3, TimeAttribute.PROCTIME).not_null()
    elif name.endswith("_ROWTIME") and args:
        result = args[0].type.with_(precision=3, nullable=True, time_attribute=TimeAttribute.ROWTIME)
    else:
        result = timestamp(3).not_null()
    return Call(name, args, result, span=span)


def _row(_: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    return row_of(args, span)


def _coalesce(_: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    _arity("COALESCE", args, 1, None, span)
    values, result = unify(args, "COALESCE", span)
    result = result.with_nullable(all(v.type.nullable for v in values))
    branches = tuple((Call("IS NOT NULL", (v,), _TRUTH, span=span), v) for v in values[:-1])
    return Case(branches, values[-1], result) if branches else values[0]


def _nullif(_: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    _arity("NULLIF", args, 2, 2, span)
    result = args[0].type.materialized().with_nullable(True)
    return Case(((comparison("=", args[0], args[1], span), Literal(None, result)),), args[0], result)


def _if(_: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    _arity("IF", args, 3, 3, span)
    values, result = unify(args[1:], "IF", span)
    return Case(((as_boolean(args[0], "IF", span), values[0]),), values[1], result)


def _ifnull(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    _arity("IFNULL", args, 2, 2, span)
    if not args[0].type.nullable and args[0].type.root is not TypeRoot.NULL:
        return args[0]
    return _coalesce(binder, args, span)


def _proctime(_: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    _arity("PROCTIME", args, 0, 0, span)
    return Call("PROCTIME", (), timestamp_ltz(3, TimeAttribute.PROCTIME).not_null(), span=span)


def _arity(name: str, args: Sequence[Expr], least: int, most: int | None, span: Span | None) -> None:
    if len(args) < least or (most is not None and len(args) > most):
        wanted = ("no" if most == 0 else str(least)) if most == least else f"at least {least}"
        plural = "" if least == 1 else "s"
        raise TypeMismatchError(
            f"{name} takes {wanted} argument{plural}, and this has {len(args)}",
            code="E1301",
            span=span,
            hint=f"write {name}()" if most == 0 else f"DESCRIBE FUNCTION {name} tells what it takes",
        )


def _current_database(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    _arity("CURRENT_DATABASE", args, 0, 0, span)
    return Literal(binder.env.context.current_database, STRING.not_null())


_ALWAYS_SPECIAL = frozenset({"PROCTIME", "ROW", "CURRENT_DATABASE"})
"""A type rule over argument types cannot give PROCTIME its time attribute, nor name the fields of a row; the current
database is known here only."""
_TRUTH = BOOLEAN.not_null()
_SPECIAL: dict[str, Callable[[ExpressionRules, list[Expr], Span | None], Expr]] = {
    "ROW": _row,
    "COALESCE": _coalesce,
    "NULLIF": _nullif,
    "IF": _if,
    "IFNULL": _ifnull,
    "PROCTIME": _proctime,
    "CURRENT_DATABASE": _current_database,
}


def _overlaps(binder: ExpressionRules, tree: exp.Overlaps) -> Expr:
    """(a, b) OVERLAPS (c, d): whether two spans of time have a moment in common; b and d may be lengths."""
    span = span_of(tree)
    sides: list[tuple[Expr, Expr]] = []
    for side in (tree.this, tree.expression):
        if not isinstance(side, exp.Tuple) or len(side.expressions) != 2:
            raise TypeMismatchError(
                "OVERLAPS compares two spans of time, each a pair in parentheses",
                code="E1301",
                span=span_of(side) or span,
                hint="write (start, end) OVERLAPS (start, end); an end may be a length such as INTERVAL '1' HOUR",
            )
        start, end = (binder.bind(e) for e in side.expressions)
        if end.type.is_interval:
            end = scalar_call(binder, "+", [start, end], span)
        sides.append((start, end))
    values, type_ = unify([e for pair in sides for e in pair], "OVERLAPS", span)
    pairs = ((values[0], values[1]), (values[2], values[3]))
    low1, low2 = (Case(((comparison("<=", x, y, span), x),), y, type_) for x, y in pairs)
    high1, high2 = (Case(((comparison("<=", x, y, span), y),), x, type_) for x, y in pairs)
    return conjunction([comparison(">=", high1, low2, span), comparison(">=", high2, low1, span)])


CALLS: dict[type[exp.Expr], Callable[..., Expr]] = {
    FunctionCall: _call,
    JsonFunction: _call,
    exp.Filter: _aggregate,
    exp.WithinGroup: _aggregate,
    exp.IgnoreNulls: _aggregate,
    exp.RespectNulls: _aggregate,
    exp.Overlaps: _overlaps,
}
