"""Numbers and texts on their way into a narrower type, as in PostgreSQL: rounded, and an error where they do not fit.

Source: PostgreSQL 15, "Value Storage" (10.4), "Numeric Types" (8.1) and "Character Types" (8.3).
"""

from __future__ import annotations

from runtime.core.errors import Span
from runtime.core.types import INT, DataType, TypeRoot
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import Cast, Expr, Literal
from runtime.expr.nullability import cast_type
from sqlengine.bind.coerce import cast_to
from sqlengine.bind.operators import scalar_function

__all__ = ["always_fits", "fitting", "fitting_number", "rounded"]

_R = TypeRoot
_BITS = {_R.TINYINT: 8, _R.SMALLINT: 16, _R.INT: 32, _R.BIGINT: 64}
_DIGITS = {_R.TINYINT: 3, _R.SMALLINT: 5, _R.INT: 10, _R.BIGINT: 19}


def fitting(functions: FunctionRegistry, value: Expr, wanted: DataType, span: Span | None) -> Expr | None:
    """A value as INSERT and UPDATE put it into a column; None where it is no number for a number, and no text for a text."""
    if value.type.is_numeric and wanted.is_numeric:
        return fitting_number(functions, value, wanted, span)
    if value.type.is_character and wanted.is_character and not wanted.is_uuid and not value.type.is_uuid:
        return _text(functions, value, wanted, span)
    return None


def fitting_number(functions: FunctionRegistry, value: Expr, wanted: DataType, span: Span | None) -> Expr:
    """A number in another type of numbers."""
    if isinstance(value, Literal):
        folded = cast_to(value, wanted)
        if isinstance(folded, Literal):
            return folded
    if wanted.is_integer:
        value = rounded(functions, value, span)
    if not _holds(wanted, value.type):
        if wanted.is_integer:
            value = scalar_function(functions, "PG_IN_INTEGER", [value, _number(_BITS[wanted.root])], span)
        elif wanted.root is _R.DECIMAL:
            size = [_number(wanted.precision), _number(wanted.scale)]
            value = scalar_function(functions, "PG_IN_NUMERIC", [value, *size], span)
        else:
            value = scalar_function(functions, "PG_IN_REAL", [value], span)
    if value.type.same_ignoring_nullability(wanted):
        return value
    return Cast(value, cast_type(value.type, wanted), False, span=span)


def rounded(functions: FunctionRegistry, value: Expr, span: Span | None) -> Expr:
    """The nearest whole number: halves of numeric away from zero, those of double precision to even."""
    if value.type.root is _R.DECIMAL:
        return scalar_function(functions, "ROUND", [value, _number(0)], span)
    return scalar_function(functions, "PG_ROUND_EVEN", [value], span) if value.type.is_approximate else value


def always_fits(source: DataType, wanted: DataType) -> bool:
    """Whether no value of a type has to be looked at on its way into another one."""
    if source.is_numeric and wanted.is_numeric:
        return _holds(wanted, source)
    return not (source.is_character and wanted.is_character) or source.precision <= wanted.precision


def _text(functions: FunctionRegistry, value: Expr, wanted: DataType, span: Span | None) -> Expr:
    if value.type.precision > wanted.precision:
        value = scalar_function(functions, "PG_IN_TEXT", [value, _number(wanted.precision)], span)
    return cast_to(value, wanted, span)


def _number(value: int) -> Literal:
    return Literal(value, INT.not_null())


def _holds(wide: DataType, narrow: DataType) -> bool:
    """Whether a type of numbers holds all numbers of another one, rounded."""
    if wide.root is _R.DOUBLE or wide == narrow:
        return True
    if wide.root is _R.FLOAT:
        return narrow.root is not _R.DOUBLE
    if narrow.is_approximate:
        return False
    if narrow.is_integer and wide.is_integer:
        return _BITS[narrow.root] <= _BITS[wide.root]
    whole = _DIGITS[narrow.root] if narrow.is_integer else narrow.precision - narrow.scale
    if wide.is_integer:
        return whole < _DIGITS[wide.root]
    # What is rounded may have one digit more.
    return whole + (narrow.root is _R.DECIMAL and narrow.scale > wide.scale) <= wide.precision - wide.scale
