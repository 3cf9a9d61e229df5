"""Questions about expressions: which columns they need, whether they are constant, may fail, may be NULL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from runtime.core.types import DataType, TypeRoot
from runtime.expr.function import FunctionRegistry, Nulls, ScalarFunction
from runtime.expr.nodes import (
    AggregateCall,
    Call,
    Case,
    Cast,
    ColumnRef,
    Expr,
    InList,
    InputRef,
    Lambda,
    LambdaVariable,
    Literal,
    OuterRef,
    Parameter,
    SubqueryExpr,
    WindowCall,
    children,
    walk,
)
from runtime.expr.typing import comparison_type

__all__ = [
    "PASSING_TIME",
    "can_fail",
    "cast_can_fail",
    "columns_of",
    "conjuncts",
    "contains",
    "contains_aggregate",
    "contains_subquery",
    "contains_window_call",
    "disjuncts",
    "follows_time",
    "input_refs",
    "is_constant",
    "is_constant_itself",
    "is_deterministic",
    "is_dynamic",
    "is_dynamic_otherwise",
    "is_false",
    "is_null_literal",
    "is_repeatable",
    "rejects_rows",
    "is_true",
    "outer_columns_of",
    "rejects_nulls",
    "rejects_nulls_at",
]

T = TypeVar("T", bound=Expr)

PASSING_TIME = "MZ_NOW"
"""The function that stands for the time that passes."""


def columns_of(expr: Expr | Iterable[Expr]) -> frozenset[int]:
    """The ids of the columns that an expression (or several) reads."""
    return frozenset(e.id for e in _all(expr) if isinstance(e, ColumnRef))


def outer_columns_of(expr: Expr | Iterable[Expr]) -> frozenset[int]:
    """The ids of the columns of enclosing queries that an expression reads."""
    return frozenset(e.id for e in _all(expr) if isinstance(e, OuterRef))


def input_refs(expr: Expr | Iterable[Expr]) -> frozenset[int]:
    """The input positions that an expression (or several) reads."""
    return frozenset(e.index for e in _all(expr) if isinstance(e, InputRef))


def _all(expr: Expr | Iterable[Expr]) -> list[Expr]:
    if isinstance(expr, Expr):
        return walk(expr)
    return [found for each in expr for found in walk(each)]


def contains(expr: Expr, kind: type[Expr] | tuple[type[Expr], ...]) -> bool:
    """Whether an expression of a class is part of it."""
    return isinstance(expr, kind) or any(contains(c, kind) for c in children(expr))


def contains_aggregate(expr: Expr) -> bool:
    """Whether an aggregate function outside OVER is part of it."""
    return contains(expr, AggregateCall)


def contains_window_call(expr: Expr) -> bool:
    return contains(expr, WindowCall)


def contains_subquery(expr: Expr) -> bool:
    return contains(expr, SubqueryExpr)


def is_true(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is True


def is_false(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is False


def is_null_literal(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None


_NOT_CONSTANT = (ColumnRef, InputRef, OuterRef, Parameter, SubqueryExpr, AggregateCall, WindowCall)


def is_constant(expr: Expr, functions: FunctionRegistry | None = None) -> bool:
    """Whether the value is the same for all rows; with `functions`, for all epochs too (no CURRENT_TIMESTAMP, no
    RAND)."""
    if contains(expr, _NOT_CONSTANT) or (isinstance(expr, LambdaVariable)):
        return False
    return functions is None or (is_deterministic(expr, functions) and not is_dynamic(expr, functions))


def is_constant_itself(expr: Expr, functions: FunctionRegistry) -> bool:
    """Whether an expression is the same for all rows and epochs if its parts are. Lambdas and their variables are not:
    they have no value of their own."""
    if isinstance(expr, (*_NOT_CONSTANT, Lambda, LambdaVariable)):
        return False
    function = functions.find(expr.function) if isinstance(expr, Call) else None
    return not isinstance(function, ScalarFunction) or (
        function.deterministic and not function.dynamic and not function.rejects
    )


def is_deterministic(expr: Expr, functions: FunctionRegistry) -> bool:
    """Whether the same row in the same epoch always gives the same value, or fails the job. A function that rejects rows
    must be asked neither for other rows nor in other places than where it is written."""
    return not _any_call(expr, functions, lambda f: not f.deterministic or f.rejects)


def is_repeatable(expr: Expr, functions: FunctionRegistry) -> bool:
    """Whether one value stands for all places of a query where the expression is written."""
    return not _any_call(expr, functions, lambda f: not f.deterministic)


def rejects_rows(expr: Expr, functions: FunctionRegistry) -> bool:
    """Whether a row may be rejected because a function fails for it."""
    return _any_call(expr, functions, lambda f: f.rejects)


def is_dynamic(expr: Expr, functions: FunctionRegistry) -> bool:
    """Whether the value may differ from epoch to epoch (CURRENT_TIMESTAMP)."""
    return _any_call(expr, functions, lambda f: f.dynamic)


def follows_time(expr: Expr) -> bool:
    """Whether the time that passes is in it, so that as a condition it lets a row in and out without a change of it."""
    return any(isinstance(part, Call) and part.function == PASSING_TIME for part in walk(expr))


def is_dynamic_otherwise(expr: Expr, functions: FunctionRegistry) -> bool:
    """Whether the value may differ from epoch to epoch for another reason than `follows_time`."""
    return _any_call(expr, functions, lambda f: f.dynamic and f.name.upper() != PASSING_TIME)


def _any_call(expr: Expr, functions: FunctionRegistry, test: Callable[[ScalarFunction], bool]) -> bool:
    if isinstance(expr, Call):
        function = functions.find(expr.function)
        if isinstance(function, ScalarFunction) and test(function):
            return True
    return any(_any_call(c, functions, test) for c in children(expr))


def can_fail(expr: Expr, functions: FunctionRegistry) -> bool:
    """Whether evaluation may raise on some row, so that it must not be moved to rows that it did not see before."""
    match expr:
        case Call(function=name, args=args):
            function = functions.find(name)
            if isinstance(function, ScalarFunction) and function.can_fail and not _harmless(name, args):
                return True
        case Cast(value=value, type=target, safe=False):
            if cast_can_fail(value.type, target):
                return True
        case _:
            pass
    return any(can_fail(c, functions) for c in children(expr))


def _harmless(function: str, args: tuple[Expr, ...]) -> bool:
    """Division by a constant other than zero, or of approximate numbers, never fails; nor do sums and products of
    numbers, LIKE without ESCAPE, nor the items of arrays and maps."""
    if function == "LIKE":
        return len(args) == 2
    if function in ("+", "-", "*", "NEGATE"):
        return not any(a.type.is_interval for a in args)
    if function == "ITEM":
        return args[0].type.root is not TypeRoot.VARIANT
    if function in ("FLOOR", "CEIL", "CEILING"):
        return args[0].type.is_numeric
    if function == "NULLIF":
        common = comparison_type(args[0].type, args[1].type)
        return common is None or not any(cast_can_fail(a.type, common) for a in args)
    if function not in ("/", "%", "MOD") or len(args) != 2:
        return False
    divisor = args[1]
    if args[0].type.is_approximate or divisor.type.is_approximate:
        return True
    return isinstance(divisor, Literal) and divisor.value != 0


def cast_can_fail(source: DataType, target: DataType) -> bool:
    """Whether CAST of the pair raises for some values (decimal overflow is NULL, not an error)."""
    if target.is_character or source.root is TypeRoot.NULL:
        return target.is_uuid and not source.is_uuid
    if TypeRoot.VARIANT in (source.root, target.root):
        return source.root is not target.root
    if source.is_nested:
        if source.root is TypeRoot.ROW:
            return any(cast_can_fail(s.type, t.type) for s, t in zip(source.fields, target.fields, strict=False))
        return any(cast_can_fail(s, t) for s, t in zip(source.children, target.children, strict=False))
    if source.is_character:
        return not target.is_binary
    if target.is_interval:
        return target.root is TypeRoot.INTERVAL_SECOND and not source.is_interval
    if target.is_timestamp and target.precision > 6 and (source.root is TypeRoot.DATE or source.precision <= 6):
        return True
    if TypeRoot.TIMESTAMP_LTZ in (source.root, target.root) and source.root is not target.root:
        # At either end of time a time zone leads out of range.
        return target.root is not TypeRoot.TIME
    return source.is_approximate and target.root is TypeRoot.DECIMAL


def conjuncts(expr: Expr | None) -> tuple[Expr, ...]:
    """The conditions that AND connects, flattened; none for None and for TRUE."""
    if expr is None or is_true(expr):
        return ()
    return tuple(_flatten(expr, "AND"))


def disjuncts(expr: Expr) -> tuple[Expr, ...]:
    """The conditions that OR connects, flattened; none for FALSE."""
    return () if is_false(expr) else tuple(_flatten(expr, "OR"))


def _flatten(expr: Expr, function: str) -> list[Expr]:
    if isinstance(expr, Call) and expr.function == function:
        return [part for arg in expr.args for part in _flatten(arg, function)]
    return [expr]


def rejects_nulls(condition: Expr, columns: Collection[int], functions: FunctionRegistry) -> bool:
    """Whether the condition is never TRUE when all these columns (ids) are NULL: the outer join below it is an inner
    join."""
    return _never_true(condition, lambda e: isinstance(e, ColumnRef) and e.id in columns, functions)


def rejects_nulls_at(condition: Expr, positions: Collection[int], functions: FunctionRegistry) -> bool:
    """`rejects_nulls` for input positions."""
    return _never_true(condition, lambda e: isinstance(e, InputRef) and e.index in positions, functions)


def _never_true(e: Expr, null: Callable[[Expr], bool], functions: FunctionRegistry) -> bool:
    if _is_null(e, null, functions) or is_false(e):
        return True
    match e:
        case Call(function="AND", args=args):
            return any(_never_true(a, null, functions) for a in args)
        case Call(function="OR", args=args):
            return all(_never_true(a, null, functions) for a in args)
        case Call(function="NOT", args=(arg,)):
            return _never_false(arg, null, functions)
        case Call(function="IS NOT NULL" | "IS NOT UNKNOWN", args=(arg,)):
            return _is_null(arg, null, functions)
        case Call(function="IS TRUE", args=(arg,)):
            return _never_true(arg, null, functions)
        case Call(function="IS FALSE", args=(arg,)):
            return _never_false(arg, null, functions)
        case _:
            return False


def _never_false(e: Expr, null: Callable[[Expr], bool], functions: FunctionRegistry) -> bool:
    if _is_null(e, null, functions) or is_true(e):
        return True
    match e:
        case Call(function="AND", args=args):
            return all(_never_false(a, null, functions) for a in args)
        case Call(function="OR", args=args):
            return any(_never_false(a, null, functions) for a in args)
        case Call(function="NOT", args=(arg,)):
            return _never_true(arg, null, functions)
        case Call(function="IS NULL" | "IS UNKNOWN", args=(arg,)):
            return _is_null(arg, null, functions)
        case _:
            return False


_THREE_VALUED = frozenset({"AND", "OR"})


def _is_null(e: Expr, null: Callable[[Expr], bool], functions: FunctionRegistry) -> bool:
    """Whether the value is certainly NULL."""
    if null(e) or is_null_literal(e):
        return True
    match e:
        case Cast(value=value):
            return _is_null(value, null, functions)
        case InList(value=value):
            return _is_null(value, null, functions)
        case Call(function=name, args=args) if name not in _THREE_VALUED:
            function = functions.find(name)
            strict = isinstance(function, ScalarFunction) and function.nulls is Nulls.STRICT
            return strict and any(_is_null(a, null, functions) for a in args if not isinstance(a, Lambda))
        case Case(branches=branches, otherwise=otherwise):
            return _is_null(otherwise, null, functions) and all(
                _is_null(v, null, functions) or _never_true(c, null, functions) for c, v in branches
            )
        case _:
            return False
