"""The parts of a call of an aggregate: FILTER, DISTINCT, the treatment of NULLs, the order of the rows it takes in, and its
arguments with their types.

ORDER BY between the parentheses (SQL:2003, PostgreSQL) and WITHIN GROUP (ORDER BY ..) say in which order LISTAGG and
ARRAY_AGG put their values; equal keys stay in order of arrival. PERCENTILE_CONT, PERCENTILE_DISC and MODE get with WITHIN
GROUP the values themselves.
"""

from __future__ import annotations

from sqlglot import exp

from runtime.core.errors import BindError, TypeMismatchError, UnsupportedError
from runtime.core.types import DataType
from runtime.expr.function import AggregateFunction, FunctionRegistry, ProcessFunction, ValueFunction
from runtime.expr.nodes import Expr, Literal, SortKey
from runtime.expr.typing import resolve_call
from sqlengine.bind.coerce import cast_to
from sqlengine.bind.functions import find_function, meant
from sqlengine.bind.session import Clause, ExpressionRules
from sqlengine.bind.sort_keys import sort_key
from sqlengine.parse.nodes import DefaultArg, Descriptor, FunctionCall, JsonFunction, ModelArg, NamedArg, TableArg
from sqlengine.parse.spans import span_of

__all__ = ["AggregateParts", "aggregate_parts", "argument", "input_order", "resolved_arguments"]

_SKIPS_NULLS = frozenset({"FIRST_VALUE", "LAST_VALUE", "LISTAGG", "COLLECT", "SUM", "AVG", "MIN", "MAX", "COUNT"})
_ORDERED = frozenset({"LISTAGG", "ARRAY_AGG", "ARRAY_AGG_IGNORE_NULLS", "MODE", "PERCENTILE_DISC"})
"""Aggregates that take in rows in the order of ORDER BY."""


class AggregateParts:
    """The pieces of a written aggregate: the call itself, FILTER, null treatment and DISTINCT, unwrapped from around
    it.
    """

    __slots__ = ("call", "distinct", "filter", "name", "nulls", "order", "span")

    def __init__(self, tree: exp.Expr, functions: FunctionRegistry) -> None:
        self.span = span_of(tree)
        within: exp.WithinGroup | None = None
        self.filter: exp.Expr | None = None
        self.nulls: str | None = None
        while not isinstance(tree, FunctionCall):
            match tree:
                case exp.Filter():
                    self.filter = tree.expression.this
                case exp.IgnoreNulls():
                    self.nulls = "IGNORE"
                case exp.RespectNulls():
                    self.nulls = "RESPECT"
                case exp.WithinGroup():
                    within = tree
                case _:
                    raise BindError(
                        "FILTER, IGNORE NULLS and OVER follow a call of a function",
                        code="E1211",
                        span=span_of(tree),
                        hint="for example SUM(x) FILTER (WHERE x > 0)",
                    )
            tree = tree.this
        if within is not None:
            tree = _within_group(tree, within, functions)
        call = meant(tree, functions)
        if not isinstance(call, FunctionCall):
            raise BindError(
                f"{tree.name.upper()} is no aggregate: it takes no FILTER, no ORDER BY and no OVER",
                code="E1211",
                span=self.span,
                hint="leave them out",
            )
        self.call = call
        self.order: exp.Order | None = call.args.get("order")
        arguments = call.expressions
        self.distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
        self.name = call.name.upper()

    @property
    def arguments(self) -> list[exp.Expr]:
        written = self.call.expressions
        return list(written[0].expressions) if self.distinct else list(written)


def aggregate_parts(binder: ExpressionRules, tree: exp.Expr) -> tuple[AggregateParts, ValueFunction]:
    """A call with its clauses, and the function it means: the form of the library that the clauses ask for."""
    parts = AggregateParts(tree, binder.env.context.functions)
    name = parts.name
    if isinstance(parts.call, JsonFunction) and parts.call.args.get("on_null"):
        name = f"{name}_{parts.call.args['on_null']}_ON_NULL"
    function = find_function(binder, name, parts.span)
    if parts.nulls == "IGNORE" and name not in _SKIPS_NULLS:
        variant = binder.env.context.functions.find(f"{name}_IGNORE_NULLS")
        if variant is None or isinstance(variant, ProcessFunction):
            raise UnsupportedError(
                f"{name} takes no IGNORE NULLS",
                span=parts.span,
                hint="leave out NULLs with FILTER (WHERE x IS NOT NULL)",
            )
        function = variant
    elif parts.nulls == "RESPECT" and name in ("FIRST_VALUE", "LAST_VALUE"):
        function = find_function(binder, f"{name}_RESPECT_NULLS", parts.span)
    elif parts.nulls == "RESPECT" and name in _SKIPS_NULLS:
        raise UnsupportedError(
            f"{name} leaves out NULLs and takes no RESPECT NULLS",
            span=parts.span,
            hint="put a value in their place with COALESCE",
        )
    return parts, function


def argument(binder: ExpressionRules, tree: exp.Expr) -> Expr:
    """An argument of a function that takes its arguments in order; E1206 for `*`."""
    match tree:
        case exp.Star():
            raise BindError("* stands only in COUNT(*)", code="E1206", span=span_of(tree), hint="name the columns")
        case NamedArg() | DefaultArg() | Descriptor() | TableArg() | ModelArg():
            raise UnsupportedError(
                "this function takes plain arguments", span=span_of(tree), hint="write them in order, without names"
            )
        case _:
            return binder.bind(tree)


def resolved_arguments(
    binder: ExpressionRules, parts: AggregateParts, function: ValueFunction, inner: Clause
) -> tuple[tuple[Expr, ...], DataType]:
    """The arguments of an aggregate or window function, bound where `inner` says and cast, and the result's type."""
    scope = binder.within(inner)
    written = parts.arguments
    star = len(written) == 1 and isinstance(written[0], exp.Star)
    if star and function.name != "COUNT":
        raise BindError(f"{function.name}(*) means nothing", code="E1206", span=parts.span, hint="name a column")
    args = [] if star else [argument(scope, a) for a in written]
    if function.name == "COUNT" and not args and not star:
        raise TypeMismatchError("COUNT takes *, or what to count", code="E1301", span=parts.span, hint="write COUNT(*)")
    if function.name == "COUNT" and parts.distinct and len(args) > 1:
        raise UnsupportedError(
            "COUNT(DISTINCT ..) counts one column", span=parts.span, hint="count a row: COUNT(DISTINCT ROW(a, b))"
        )
    if function.name == "LISTAGG" and len(args) > 1 and not isinstance(args[1], Literal):
        raise TypeMismatchError(
            "the separator of LISTAGG must be a literal",
            code="E1309",
            span=span_of(written[1]),
            hint="for example LISTAGG(x, ', ')",
        )
    literals = [a if isinstance(a, Literal) else None for a in args]
    wanted, result = resolve_call(function, [a.type for a in args], literals, span=parts.span)
    return tuple(cast_to(a, t) for a, t in zip(args, wanted, strict=True)), result.materialized()


def input_order(
    binder: ExpressionRules, parts: AggregateParts, function: ValueFunction, args: tuple[Expr, ...]
) -> tuple[SortKey, ...]:
    """The order in which the aggregate takes in its rows; none for one whose result does not depend on it.

    Raises:
        UnsupportedError: E1600, the result depends on the order, and it has none of its own.
        BindError: E1211, DISTINCT, and a key is no argument.
    """
    if parts.order is None:
        return ()
    span = span_of(parts.order)
    if function.name.upper() not in _ORDERED:
        if isinstance(function, AggregateFunction) and function.order_sensitive:
            raise UnsupportedError(
                f"{function.name} with ORDER BY is not supported",
                span=span,
                hint="ARRAY_AGG(x ORDER BY y)[1] is the first value",
            )
        return ()
    keys = tuple(sort_key(binder.bind(item.this), item) for item in parts.order.expressions)
    if parts.distinct and any(key.expr not in args for key in keys):
        raise BindError(
            f"with DISTINCT, {parts.name} is ordered by what it takes in",
            code="E1211",
            span=span,
            hint=f"order by the argument: {parts.name}(DISTINCT x ORDER BY x)",
        )
    return tuple(key for key in keys if not isinstance(key.expr, Literal))


def _within_group(call: FunctionCall, within: exp.WithinGroup, functions: FunctionRegistry) -> FunctionCall:
    """The call with the order of WITHIN GROUP as its own; of functions that are about the ordered values themselves, with
    these as first argument."""
    order: exp.Order = within.expression
    name, given = call.name.upper(), call.expressions
    if call.args.get("order") is not None:
        raise BindError(
            f"{name} has two orders", code="E1211", span=span_of(within), hint="leave WITHIN GROUP (ORDER BY ..) out"
        )
    if name not in _OF_ORDERED_VALUES:
        return _call_of(call, call.this, given, order)
    item: exp.Ordered = order.expressions[0]
    if len(order.expressions) > 1 or len(given) != _OF_ORDERED_VALUES[name]:
        example = "MODE() WITHIN GROUP (ORDER BY x)" if name == "MODE" else f"{name}(0.5) WITHIN GROUP (ORDER BY x)"
        raise BindError(
            f"{name} takes one value to order by" + ("" if name == "MODE" else ", and a fraction"),
            code="E1211",
            span=span_of(within),
            hint=f"write {example}",
        )
    if name != "PERCENTILE_CONT":
        return _call_of(call, name, [item.this, *given], order)
    fraction = given[0]
    if item.args.get("desc"):
        one = exp.Literal(this="1", is_string=False)
        fraction = exp.Sub(this=one, expression=exp.Paren(this=fraction.copy()))
    return _call_of(call, "PERCENTILE", [item.this, fraction], None)


_OF_ORDERED_VALUES = {"MODE": 0, "PERCENTILE_CONT": 1, "PERCENTILE_DISC": 1}
"""Functions of WITHIN GROUP's values, with the number of arguments between their parentheses."""


def _call_of(call: FunctionCall, name: str, arguments: list[exp.Expr], order: exp.Order | None) -> FunctionCall:
    made = FunctionCall(this=name, expressions=arguments, order=order)
    made.meta.update(call.meta)
    return made
