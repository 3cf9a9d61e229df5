"""Literals to constants with the type that Flink gives them.

12 is INT, or BIGINT above it; 1.50 is DECIMAL(3, 2); 1e3 is DOUBLE; 'abc' is CHAR(3); X'0aff' is BINARY(2); DATE,
TIME(p) and TIMESTAMP(p) have as many digits as were written; intervals are months or milliseconds. All but NULL are NOT
NULL.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Callable
from decimal import Decimal

from sqlglot import exp

from runtime.core.errors import SqlSyntaxError, TypeMismatchError
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL_MONTH,
    INTERVAL_SECOND,
    NULL,
    TIME,
    DataType,
    TypeRoot,
    char,
    decimal,
    timestamp,
    timestamp_ltz,
)
from runtime.expr.nodes import Expr, Literal
from runtime.expr.time_range import limits, out_of_range
from sqlengine.bind.session import ExpressionRules, parameters_of
from sqlengine.parse.literals import interval_value
from sqlengine.parse.nodes import IntervalLiteral, ParameterMark, TemporalLiteral
from sqlengine.parse.spans import span_of

__all__ = ["LITERALS", "moment", "number", "text_length"]

_INT_MAX = (1 << 31) - 1
_BIGINT_MAX = (1 << 63) - 1
_EPOCH = dt.datetime(1970, 1, 1)


def text_length(text: str) -> int:
    """The length of a text: its characters, as CHAR(n) and all functions count them (Flink counts UTF-16 units)."""
    return len(text)


def number(tree: exp.Literal, negative: bool = False) -> Literal:
    """A number as written; `negative` for one behind a minus sign, which then belongs to it."""
    text = str(tree.this)
    if "e" in text.lower():
        value = float(text)
        return Literal(-value if negative else value, DOUBLE.not_null())
    exact = Decimal(text)
    unscaled = int(exact.scaleb(-int(exact.as_tuple().exponent)))
    if unscaled > _BIGINT_MAX + int(negative):
        raise TypeMismatchError(
            f"the number {text} is out of range",
            code="E1307",
            span=span_of(tree),
            hint=f"write CAST('{text}' AS DECIMAL(p, s)), which holds up to 38 digits",
        )
    signed = -exact if negative else exact
    scale = -int(exact.as_tuple().exponent)
    if scale <= 0:
        whole = int(signed)
        return Literal(whole, (INT if -_INT_MAX - 1 <= whole <= _INT_MAX else BIGINT).not_null())
    digits = len(str(unscaled)) if unscaled else 1
    return Literal(signed, decimal(max(digits, scale + 1), scale).not_null())


def _literal(_: ExpressionRules, tree: exp.Literal) -> Expr:
    if tree.is_string:
        text = str(tree.this)
        return Literal(text, char(text_length(text)).not_null())
    return number(tree)


def _hex(_: ExpressionRules, tree: exp.HexString) -> Expr:
    digits = str(tree.this)
    if len(digits) % 2:
        raise SqlSyntaxError(
            f"X'{digits}' has an odd number of digits", span=span_of(tree), hint="two digits are a byte"
        )
    value = bytes.fromhex(digits)
    return Literal(value, DataType(TypeRoot.BINARY, len(value), nullable=False))


def _boolean(_: ExpressionRules, tree: exp.Boolean) -> Expr:
    return Literal(bool(tree.this), BOOLEAN.not_null())


def _null(_: ExpressionRules, tree: exp.Null) -> Expr:
    return Literal(None, NULL)


def _interval(_: ExpressionRules, tree: IntervalLiteral) -> Expr:
    months, millis = interval_value(tree)
    kind = INTERVAL_SECOND if months is None else INTERVAL_MONTH
    low, high = limits(kind)
    if not low <= (millis if months is None else months) <= high:  # type: ignore[operator]
        error = out_of_range(kind)
        raise SqlSyntaxError(
            f"the interval '{tree.args['this']}' is out of range", code="E1308", span=span_of(tree), hint=error.hint
        )
    if months is not None:
        return Literal(months, INTERVAL_MONTH.not_null())
    return Literal(millis, INTERVAL_SECOND.not_null())


_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_TIME = re.compile(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?")


def _temporal(binder: ExpressionRules, tree: TemporalLiteral) -> Expr:
    try:
        return moment(str(tree.args["kind"]), str(tree.args["this"]), binder.env.context.time_zone)
    except SqlSyntaxError as error:
        error.span = span_of(tree)
        raise


def moment(kind: str, written: str, time_zone: str) -> Literal:
    """DATE, TIME, TIMESTAMP or TIMESTAMP_LTZ (`kind`) with a text; raises SqlSyntaxError E1308 for a text that is
    none."""
    text = written.strip()
    try:
        match kind:
            case "DATE":
                return Literal(_date(text), DATE.not_null())
            case "TIME":
                seconds, fraction = _time(text)
                point = (_EPOCH + seconds + dt.timedelta(microseconds=int(fraction.ljust(6, "0")[:6]))).time()
                return Literal(point, TIME.with_(precision=len(fraction), nullable=False))
            case _:
                day, _, rest = text.partition(" ")
                seconds, fraction = _time(rest.strip()) if rest else (dt.timedelta(), "")
                whole = dt.datetime.combine(_date(day), dt.time()) + seconds
                if kind == "TIMESTAMP":
                    return _timestamp(whole, fraction, timestamp(len(fraction)).not_null())
                return _local(whole, fraction, time_zone)
    except (ValueError, OverflowError):
        shape = {"DATE": "yyyy-MM-dd", "TIME": "HH:mm:ss[.fraction]"}.get(kind, "yyyy-MM-dd HH:mm:ss[.fraction]")
        raise SqlSyntaxError(
            f"'{written}' is no {kind}",
            code="E1308",
            hint=f"write it as {shape}",
        ) from None


def _date(text: str) -> dt.date:
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return dt.date(*(int(g) for g in found.groups()))


def _time(text: str) -> tuple[dt.timedelta, str]:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(text)
    point = dt.time(int(found[1]), int(found[2]), int(found[3]))
    return dt.timedelta(hours=point.hour, minutes=point.minute, seconds=point.second), found[4] or ""


def _timestamp(whole: dt.datetime, fraction: str, type_: DataType) -> Literal:
    if len(fraction) <= 6:
        return Literal(whole + dt.timedelta(microseconds=int(fraction.ljust(6, "0") or "0")), type_)
    # Nanoseconds do not fit into a datetime: the value is the count that the Arrow type carries.
    seconds = (whole - _EPOCH) // dt.timedelta(seconds=1)
    nanoseconds = seconds * 1_000_000_000 + int(fraction.ljust(9, "0"))
    low, high = limits(type_)
    if not low <= nanoseconds <= high:
        raise SqlSyntaxError(
            f"'{whole}.{fraction}' is out of the range of {type_.with_nullable(True)}",
            code="E1308",
            hint="with more than six digits of a second, a time is of the years 1677 to 2262; write at most six",
        )
    return Literal(nanoseconds, type_)


def _local(whole: dt.datetime, fraction: str, zone: str) -> Literal:
    offset = re.fullmatch(r"(?:GMT|UTC)?([+-]\d\d):?(\d\d)", zone)
    if offset is not None:
        minutes = int(offset[1]) * 60 + int(offset[1][0] + offset[2])
        local: dt.tzinfo = dt.timezone(dt.timedelta(minutes=minutes))
    else:
        local = zoneinfo.ZoneInfo(zone)
    instant = whole.replace(tzinfo=local).astimezone(dt.UTC).replace(tzinfo=None)
    return _timestamp(instant, fraction, timestamp_ltz(len(fraction)).not_null())


def _parameter(binder: ExpressionRules, tree: ParameterMark) -> Expr:
    return parameters_of(binder.env.context, tree).expression(tree.parameter, span_of(tree))


LITERALS: dict[type[exp.Expr], Callable[..., Expr]] = {
    exp.Literal: _literal,
    exp.HexString: _hex,
    exp.Boolean: _boolean,
    exp.Null: _null,
    IntervalLiteral: _interval,
    TemporalLiteral: _temporal,
    ParameterMark: _parameter,
}
