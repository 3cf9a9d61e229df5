"""Functions whose names begin with `PG_`: what PostgreSQL's operators mean for operands of these types.

The reader of the dialect writes them (`sqlengine/parse/postgres`). A rule takes bound operands and gives an expression of
functions that are here; most of them stay no function of their own in a plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from runtime.core.errors import Span, TypeMismatchError, UnsupportedError
from runtime.core.rooms import Room
from runtime.core.types import (
    BIGINT,
    INTERVAL_SECOND,
    STRING,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    DataType,
    TypeRoot,
    array,
    char,
    decimal,
)
from runtime.expr.nodes import Call, Case, Cast, Expr, Literal
from runtime.expr.nullability import cast_type
from sqlengine.bind import postgres_jsonb as _jsonb
from sqlengine.bind.coerce import cast_to
from sqlengine.bind.construct import written_array
from sqlengine.bind.operators import comparison, conjunction, negation, scalar_call
from sqlengine.bind.postgres_values import as_array, jsonb, row_or, text_of
from sqlengine.bind.session import ExpressionRules
from sqlengine.bind.time_patterns import date_format_pattern
from sqlengine.parse.nodes import FunctionCall

if TYPE_CHECKING:
    import sqlengine.bind.fitting as _fits
else:
    _fits = Room("sqlengine.bind.fitting")

__all__ = ["RULES", "column_or", "row_or"]

_Rule = Callable[[ExpressionRules, list[Expr], Span | None], Expr]
_R = TypeRoot
_DAY = 86_400_000
_TRUTH = DataType(TypeRoot.BOOLEAN, nullable=False)
_DIGITS = {_R.TINYINT: 3, _R.SMALLINT: 5, _R.INT: 10, _R.BIGINT: 19}


def _divide(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """Of integers an integer, of exact numbers one with 16 digits behind the point where they fit."""
    types = [a.type for a in args]
    exact = all(t.is_exact_numeric for t in types) and any(t.root is _R.DECIMAL for t in types)
    return scalar_call(binder, "PG_DIVIDE" if exact else "/", args, span)


def _add(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    return _moved(binder, "+", args, span)


def _subtract(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    left, right = args
    if left.type.root is _R.VARIANT:
        return _jsonb.without(binder, args, span)
    points = (_R.DATE, _R.TIMESTAMP, _R.TIMESTAMP_LTZ)
    if left.type.root is _R.DATE and right.type.root is _R.DATE:
        unit = Literal("DAY", char(3).not_null())
        return scalar_call(binder, "TIMESTAMPDIFF", [unit, right, left], span)
    if left.type.root in points and right.type.root in points:
        return scalar_call(binder, "MINUS_DATE", args, span)
    return _moved(binder, "-", args, span)


def _moved(binder: ExpressionRules, operator: str, args: list[Expr], span: Span | None) -> Expr:
    """A date and an interval are a timestamp, a date and a number of days a date."""
    left, right = args
    if right.type.root is _R.DATE and operator == "+":
        left, right = right, left
    if left.type.root is _R.DATE and right.type.is_interval:
        left = cast_to(left, TIMESTAMP, span)
    elif left.type.root is _R.DATE and right.type.is_integer:
        day = Literal(_DAY, INTERVAL_SECOND.not_null())
        right = scalar_call(binder, "*", [day, right], span)
    return scalar_call(binder, operator, [left, right], span)


def _concat(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """Texts, arrays with arrays or elements, and values of jsonb."""
    left, right = args
    roots = (left.type.root, right.type.root)
    if _R.VARIANT in roots:
        return scalar_call(binder, "PG_JSONB_CONCAT", [jsonb(binder, [a], span) for a in args], span)
    if _R.ARRAY in roots:
        return _arrays(binder, args, span)
    if not any(t.is_character or t.is_binary or t.root is _R.NULL for t in (left.type, right.type)):
        shown = " and ".join(str(a.type.materialized().with_nullable(True)) for a in args)
        raise TypeMismatchError(
            f"|| does not take {shown}", code="E1301", span=span, hint="make a text of one of them: x::text || y"
        )
    if left.type.is_binary and right.type.is_binary:
        return scalar_call(binder, "||", args, span)
    return scalar_call(binder, "||", [text_of(binder, [a], span) for a in args], span)


def _arrays(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """An array and another one, or an element; NULL beside an array adds nothing."""
    type_ = next(a.type for a in args if a.type.root is _R.ARRAY)
    parts: list[Expr] = []
    for value in args:
        written = as_array(value, type_, span)
        if written is None and value.type.root is not _R.ARRAY:
            element = cast_to(value, type_.children[0].with_nullable(True), span)
            written = Call("ARRAY", (element,), array(element.type).not_null(), span=span)
        parts.append(value if written is None else written)
    both = scalar_call(binder, "ARRAY_CONCAT", parts, span)
    left, right = parts
    missing = [
        (Call("IS NULL", (one,), _TRUTH, span=span), cast_to(other, both.type, span))
        for one, other in ((left, right), (right, left))
        if one.type.nullable
    ]
    nullable = left.type.nullable and right.type.nullable
    return Case(tuple(missing), both, both.type.with_nullable(nullable)) if missing else both


def _fitting(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """A number that becomes another one is rounded, and has to be in its range. The type is that of the second value."""
    value, target = args
    functions = binder.env.context.functions
    return _fits.fitting_number(functions, value, target.type, span) if value.type.is_numeric else value


_INT = DataType(_R.INT, nullable=False)


def _round(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """ROUND of double precision takes halves to the even number."""
    even = len(args) == 1 and args[0].type.is_approximate
    return scalar_call(binder, "PG_ROUND_EVEN" if even else "ROUND", args, span)


def _point(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """A point in time, which may be given as milliseconds since 1970."""
    (value,) = args
    if not value.type.is_numeric:
        return value
    return scalar_call(binder, "TO_TIMESTAMP_LTZ", [cast_to(value, BIGINT, span), Literal(3, _INT)], span)


def _instant(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """What becomes a timestamp with time zone; a text may say at which offset it is."""
    (value,) = args
    return scalar_call(binder, "PG_TIMESTAMPTZ", [value], span) if value.type.is_character else value


def _numeric(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """`numeric` without digits has those of its argument."""
    (value,) = args
    type_ = value.type
    if type_.root is _R.DECIMAL:
        return value
    if type_.is_integer:
        return cast_to(value, decimal(_DIGITS[type_.root], 0), span)
    target = decimal(38, 18)
    if isinstance(value, Literal) and isinstance(value.value, str):
        whole, _, fraction = value.value.strip().lstrip("+-").partition(".")
        if (whole + fraction).isdecimal() and len(whole + fraction) <= 38:
            target = decimal(max(len(whole + fraction), 1), len(fraction))
    return Cast(value, cast_type(type_, target), span=span)


def _concat_all(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """CONCAT passes over NULLs."""
    nothing = Literal("", char(0).not_null())
    return scalar_call(binder, "CONCAT_WS", [nothing, *(text_of(binder, [a], span) for a in args)], span)


def _slice(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    value, low, high = args
    if value.type.root is not _R.ARRAY:
        raise TypeMismatchError(
            "[n:m] takes an array", code="E1302", span=span, hint="SUBSTRING takes a part of a text"
        )
    for bound in (low, high):
        if isinstance(bound, Literal) and bound.value is not None and bound.value < 1:
            raise UnsupportedError(
                "a slice begins and ends at 1 or later", span=span, hint="the first element of an array is [1]"
            )
    return scalar_call(binder, "ARRAY_SLICE", args, span)


def _scale(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """SCALE(number): a number has the digits of its type."""
    (value,) = args
    digits = Literal(value.type.scale if value.type.root is _R.DECIMAL else 0, _INT)
    known = Call("IS NOT NULL", (value,), _TRUTH, span=span)
    return (
        Case(((known, digits),), Literal(None, DataType(_R.INT)), DataType(_R.INT)) if value.type.nullable else digits
    )


def _array_fill(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """ARRAY_FILL(value, sizes), where the sizes may be written as `'{3}'`."""
    value, sizes = args
    written = as_array(sizes, array(DataType(_R.INT)), span)
    return scalar_call(binder, "PG_ARRAY_FILL", [value, sizes if written is None else written], span)


def _array_length(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    value, dimension = args
    if not isinstance(dimension, Literal):
        raise UnsupportedError("a dimension is written in the statement", span=span, hint="ARRAY_LENGTH(a, 1)")
    if dimension.value != 1:
        return Literal(None, DataType(_R.INT))
    count = scalar_call(binder, "CARDINALITY", [value], span)
    some = comparison(">", count, Literal(0, _INT), span)
    return Case(((some, count),), Literal(None, count.type.with_nullable(True)), count.type.with_nullable(True))


def _array_to_string(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    value, *rest = args
    if value.type.root is _R.ARRAY and not value.type.children[0].is_character:
        value = cast_to(value, array(STRING).with_nullable(value.type.nullable), span)
    return scalar_call(binder, "ARRAY_JOIN", [value, *rest], span)


def _to_date(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    return scalar_call(binder, "TO_DATE", [args[0], _java_pattern("TO_DATE", args, span)], span)


def _to_char(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """A number or a time by a pattern."""
    if len(args) == 2 and args[0].type.is_numeric:
        return scalar_call(binder, "PG_NUMBER_TEXT", args, span)
    value = cast_to(args[0], TIMESTAMP, span) if args[0].type.root is _R.DATE else args[0]
    try:
        return scalar_call(binder, "DATE_FORMAT", [value, _java_pattern("TO_CHAR", args, span)], span)
    except TypeMismatchError:
        # What DATE_FORMAT does not have, or a pattern that only rows tell.
        if value.type.root not in (_R.TIMESTAMP, _R.TIMESTAMP_LTZ):
            raise
    return scalar_call(binder, "PG_TIME_PATTERN", [cast_to(value, TIMESTAMP, span), args[1]], span)


def _to_timestamp(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """A text by a pattern is a timestamp with time zone."""
    read = scalar_call(binder, "TO_TIMESTAMP", [args[0], _java_pattern("TO_TIMESTAMP", args, span)], span)
    return cast_to(read, TIMESTAMP_LTZ, span)


def _java_pattern(name: str, args: list[Expr], span: Span | None) -> Expr:
    if len(args) != 2 or not isinstance(args[1], Literal) or not isinstance(args[1].value, str):
        raise TypeMismatchError(
            f"{name} takes a text, and a pattern in quotes", code="E1309", span=span, hint="for example 'YYYY-MM-DD'"
        )
    pattern = date_format_pattern(args[1].value, span)
    return Literal(pattern, char(len(pattern)).not_null())


def _type_name(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    type_, dimensions = args[0].type, ""
    while type_.root is _R.ARRAY:
        (type_,), dimensions = type_.children, "[]"
    name = (
        "uuid"
        if type_.is_uuid
        else _NAMES.get(type_.root, str(type_.materialized().with_nullable(True)).lower()) + dimensions
    )
    return Literal(name, char(len(name)).not_null())


_NAMES = {
    _R.SMALLINT: "smallint", _R.INT: "integer", _R.BIGINT: "bigint", _R.DECIMAL: "numeric", _R.FLOAT: "real",
    _R.DOUBLE: "double precision", _R.BOOLEAN: "boolean", _R.CHAR: "text", _R.VARCHAR: "text", _R.DATE: "date",
    _R.TIME: "time without time zone", _R.TIMESTAMP: "timestamp without time zone",
    _R.TIMESTAMP_LTZ: "timestamp with time zone", _R.INTERVAL_MONTH: "interval", _R.INTERVAL_SECOND: "interval",
    _R.VARIANT: "jsonb", _R.BINARY: "bytea", _R.VARBINARY: "bytea", _R.NULL: "unknown",
}  # fmt: skip


def column_or(binder: ExpressionRules, tree: FunctionCall) -> Expr:
    """A name in GROUP BY: the column, or where there is none what it is the alias of."""
    column, meant = tree.expressions
    known = any(source.find(column.name) for source in binder.scope.sources)
    return binder.bind(column if known else meant)


# jsonb and arrays


def _contains(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """`a @> b`: of jsonb, and of arrays."""
    if _R.VARIANT in (args[0].type.root, args[1].type.root):
        return scalar_call(binder, "PG_JSONB_CONTAINS", [jsonb(binder, [a], span) for a in args], span)
    if all(a.type.root is _R.ARRAY or as_array(a, _ARRAY, span) is not None for a in args):
        return _contains_all(binder, args, span)
    raise TypeMismatchError(
        "@> and <@ compare values of jsonb, and arrays",
        code="E1304",
        span=span,
        hint="x = ANY (a) looks for an element of an array",
    )


_ARRAY = array(STRING)


def _contains_all(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """Whether each element of the second array is one of the first; NULL is none."""
    type_ = next((a.type for a in args if a.type.root is _R.ARRAY), _ARRAY)
    whole, part = (written if (written := as_array(a, type_, span)) is not None else a for a in args)
    missing = scalar_call(binder, "CARDINALITY", [scalar_call(binder, "ARRAY_EXCEPT", [part, whole], span)], span)
    nothing = Literal(None, type_.children[0].with_nullable(True))
    some = scalar_call(binder, "ARRAY_CONTAINS", [part, nothing], span)
    return conjunction([comparison("=", missing, Literal(0, _INT), span), negation(some, span)])


def _contained(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    return _contains(binder, args[::-1], span)


def _array_query(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """ARRAY(query): an array without elements where the query has no rows."""
    (found,) = args
    type_ = found.type.not_null()
    nothing = cast_to(written_array(exp.Literal(this="{}", is_string=True), type_), type_, span)
    return Case(((Call("IS NOT NULL", (found,), _TRUTH, span=span), found),), nothing, type_)


def _overlap(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """`a && b`: whether two arrays have an element in common; NULL is none."""
    type_ = next((a.type for a in args if a.type.root is _R.ARRAY), _ARRAY)
    arrays = [written if (written := as_array(a, type_, span)) is not None else a for a in args]
    common = scalar_call(binder, "ARRAY_INTERSECT", arrays, span)
    nothing = array(type_.children[0].with_nullable(True)).not_null()
    null = Call("ARRAY", (Literal(None, type_.children[0].with_nullable(True)),), nothing, span=span)
    count = scalar_call(binder, "CARDINALITY", [scalar_call(binder, "ARRAY_EXCEPT", [common, null], span)], span)
    return comparison(">", count, Literal(0, _INT), span)


RULES: dict[str, _Rule] = {
    "PG_DIVIDE": _divide,
    "PG_ADD": _add,
    "PG_SUBTRACT": _subtract,
    "PG_CONCAT": _concat,
    "PG_CONCAT_ALL": _concat_all,
    "PG_FITTING": _fitting,
    # As views say it that earlier versions have kept.
    "PG_ROUNDED": lambda binder, args, span: _fits.rounded(binder.env.context.functions, args[0], span),
    "PG_ROUND": _round,
    "PG_NUMERIC": _numeric,
    "PG_POINT": _point,
    "PG_INSTANT": _instant,
    "PG_TEXT": text_of,
    "PG_SLICE": _slice,
    "PG_ARRAY_FILL": _array_fill,
    "PG_LENGTH": lambda binder, args, span: scalar_call(
        binder, "PG_OCTET_LENGTH" if args[0].type.is_binary else "CHAR_LENGTH", args, span
    ),
    "PG_SCALE": _scale,
    "PG_ARRAY_LENGTH": _array_length,
    "PG_ARRAY_TO_STRING": _array_to_string,
    "PG_TO_CHAR": _to_char,
    "PG_TO_DATE": _to_date,
    "PG_TO_TIMESTAMP": _to_timestamp,
    "PG_TYPE_NAME": _type_name,
    **_jsonb.RULES,
    "PG_CONTAINS": _contains,
    "PG_CONTAINED": _contained,
    "PG_ARRAY_QUERY": _array_query,
    "PG_OVERLAP": _overlap,
}
