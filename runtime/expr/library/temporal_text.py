"""Between times and texts by patterns: DATE_FORMAT, TO_DATE, TO_TIMESTAMP, TO_TIMESTAMP_LTZ, UNIX_TIMESTAMP,
FROM_UNIXTIME, CONVERT_TZ.

TIMESTAMP and TO_TIMESTAMP use DateTimeFormatter's patterns, the others SimpleDateFormat's
(`runtime/expr/date_patterns.py`).
A pattern that differs from row to row is applied once per distinct pattern. What cannot be read is NULL, for
UNIX_TIMESTAMP the least BIGINT, as in Flink.
"""

from __future__ import annotations

import re
import zoneinfo
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.types import BIGINT, DATE, STRING, DataType, TypeRoot, timestamp, timestamp_ltz
from runtime.expr.cast.parse_times import text_to_date, text_to_timestamp
from runtime.expr.columns import from_numpy, integers_of, numbers, validity
from runtime.expr.constants import text as text_constant
from runtime.expr.date_parsing import parse_lenient, parse_smart
from runtime.expr.date_patterns import Dialect, coded_times, format_times, read_pattern
from runtime.expr.decimals import power_of_ten, unscaled
from runtime.expr.distinct import per_constant
from runtime.expr.function import CallTypes, EvalContext, Nulls, Value
from runtime.expr.library.declare import BIGINT_, CHARACTER, INT_, NUMERIC, TIMESTAMP_ANY, Family, optional
from runtime.expr.moments import unit_of
from runtime.expr.time_range import limits, outside
from runtime.expr.zones import instant_to_local, local_to_instant

__all__ = ["FAMILY"]

FAMILY = Family("temporal text")
_R = TypeRoot
_DEFAULT = "yyyy-MM-dd HH:mm:ss"
_UNREADABLE = -(1 << 63)


def _both(mask: Any, valid: Any) -> Any:
    return mask if valid is None else mask & valid


def _keep_nulls(texts: pa.Array, like: pa.Array) -> pa.Array:
    return pc.if_else(like.is_valid(), texts, None) if like.null_count else texts


@FAMILY.scalar(
    "DATE_FORMAT",
    [TIMESTAMP_ANY, CHARACTER],
    STRING,
    "A point in time as text, by a pattern of Java's DateTimeFormatter.",
    also=[([CHARACTER, CHARACTER], STRING)],
    nulls=Nulls.MAYBE,
    can_fail=True,
)
def date_format(context: EvalContext, value: Value, pattern: Value) -> Value:
    type_ = context.arg_types[0]

    def of_times(times: pa.Array, text: str) -> pa.Array:
        values, unit = integers_of(times), unit_of(type_)
        local = instant_to_local(values, context.time_zone, unit) if type_.root is _R.TIMESTAMP_LTZ else values
        few = None if times.null_count else coded_times(local, unit, text, Dialect.FORMATTER)
        return _keep_nulls(format_times(local, unit, text, Dialect.FORMATTER), times) if few is None else few

    def of_texts(texts: pa.Array, text: str) -> pa.Array:
        read = parse_lenient(texts, _DEFAULT, context.processing_time)
        shown = format_times(np.where(read.good, read.values, 0) * 1000, "us", text, Dialect.SIMPLE)
        return pc.if_else(pa.array(read.good), shown, None)

    return per_constant(context, of_texts if type_.is_character else of_times, value, pattern)


@FAMILY.scalar(
    "FROM_UNIXTIME",
    [BIGINT_, optional(CHARACTER)],
    STRING,
    "Seconds since 1970 as a text of the session's time zone, by a pattern of Java's SimpleDateFormat.",
    nulls=Nulls.MAYBE,
    can_fail=True,
)
def from_unixtime(context: EvalContext, seconds: Value, pattern: Value = text_constant(_DEFAULT)) -> Value:  # noqa: B008
    def write(values: pa.Array, text: str) -> pa.Array:
        seconds, valid = integers_of(values), validity(values)
        # A text may tell years beyond 9999, as long as 64 bits hold their microseconds.
        inside = (seconds > -(1 << 43)) & (seconds < 1 << 43)
        instants = np.where(inside, seconds, 0) * 1_000_000
        shown = format_times(instants, "us", text, Dialect.SIMPLE, context.time_zone, instants=True)
        return shown if inside.all() and valid is None else pc.if_else(pa.array(_both(inside, valid)), shown, None)

    return per_constant(context, write, seconds, pattern)


def _instants(context: EvalContext, texts: pa.Array, pattern: str, zone: str) -> tuple[Any, Any]:
    """Milliseconds since 1970 of texts, and which could be read: a zone in the text wins over `zone`."""
    read = parse_lenient(texts, pattern, context.processing_time)
    values = np.where(read.good, read.values, 0)
    if read.offset is not None:
        return values - read.offset * 1000, read.good
    return local_to_instant(np.ascontiguousarray(values), zone, "ms", ambiguous="latest"), read.good


@FAMILY.scalar(
    "UNIX_TIMESTAMP",
    [],
    BIGINT,
    "Seconds since 1970, now or of a text in the session's time zone.",
    also=[([CHARACTER, optional(CHARACTER)], BIGINT)],
    dynamic=True,
    dynamic_alone=True,
    can_fail=True,
)
def unix_timestamp(context: EvalContext, text: Value | None = None, pattern: Value = text_constant(_DEFAULT)) -> Value:  # noqa: B008
    """Without arguments it follows the clock, so that the function counts as dynamic."""
    if text is None:
        return pa.scalar(context.processing_time // 1000, pa.int64())

    def read(texts: pa.Array, given: str) -> pa.Array:
        millis, good = _instants(context, texts, given, context.time_zone)
        seconds = millis // 1000
        return from_numpy(np.where(good, seconds, _UNREADABLE), validity(texts), pa.int64())

    return per_constant(context, read, text, pattern)


@FAMILY.scalar(
    "TO_DATE",
    [CHARACTER, optional(CHARACTER)],
    DATE,
    "A text as a date, by a pattern of Java's SimpleDateFormat.",
    nulls=Nulls.MAYBE,
    can_fail=True,
)
def to_date(context: EvalContext, text: Value, *pattern: Value) -> Value:
    def plain(texts: pa.Array) -> pa.Array:
        return text_to_date(texts, STRING, DATE, context.time_zone).values

    def by_pattern(texts: pa.Array, given: str) -> pa.Array:
        millis, good = _instants(context, texts, given, "UTC")
        return from_numpy(millis // 86_400_000, good, pa.date32())

    return per_constant(context, by_pattern if pattern else plain, text, *pattern)


def _fraction_digits(pattern: Any) -> int:
    """The precision that a constant pattern asks for: its trailing S, at least 3."""
    if not isinstance(pattern, str):
        return 3
    pieces = read_pattern(pattern, Dialect.FORMATTER)
    return min(max([3, *(p.count for p in pieces if p.letter == "S")]), 9)


def _timestamp_type(types: CallTypes) -> DataType:
    return timestamp(_fraction_digits(types.literal(1)) if len(types) == 2 else 3)


def _read_local(context: EvalContext, texts: pa.Array, pattern: str | None, target: DataType) -> tuple[Any, Any]:
    """Texts as local times in the target's unit, and which could be read."""
    plain_type = timestamp(target.precision)
    digits = 6 if target.precision <= 6 else 9
    if pattern is None:
        plain = text_to_timestamp(texts, STRING, plain_type, context.time_zone).values
        return integers_of(plain), plain.is_valid().to_numpy(zero_copy_only=False)
    read = parse_smart(texts, pattern, digits)
    values, good = read.values, read.good
    if not good.all():
        # Flink then tries the plain forms, so that '1999-9-10' is read whatever the pattern.
        plain = text_to_timestamp(pc.utf8_trim_whitespace(texts), STRING, plain_type, context.time_zone).values
        known = plain.is_valid().to_numpy(zero_copy_only=False)
        values, good = np.where(good, values, integers_of(plain)), good | known
    step = 10 ** (digits - target.precision)
    return values // step * step, good & ~outside(values, plain_type)


@FAMILY.scalar(
    "TO_TIMESTAMP",
    [CHARACTER, optional(CHARACTER)],
    _timestamp_type,
    "A text as a TIMESTAMP, by a pattern of Java's DateTimeFormatter.",
    nulls=Nulls.MAYBE,
    can_fail=True,
)
def to_timestamp(context: EvalContext, text: Value, *pattern: Value) -> Value:
    def read(texts: pa.Array, given: str | None = None) -> pa.Array:
        values, good = _read_local(context, texts, given, context.result_type)
        return from_numpy(np.where(good, values, 0), good, context.result_type.arrow)

    return per_constant(context, read, text, *pattern)


def _ltz_type(types: CallTypes) -> DataType:
    if len(types) == 1:
        return timestamp_ltz(3)
    if types[0].is_character:
        return timestamp_ltz(_fraction_digits(types.literal(1)))
    precision = types.literal(1)
    return timestamp_ltz(precision if isinstance(precision, int) and 3 < precision <= 9 else 3)


@FAMILY.scalar(
    "TO_TIMESTAMP_LTZ",
    [NUMERIC, optional(INT_)],
    _ltz_type,
    "A number of units (10^-p seconds, p is 3 when left out) since 1970, or a text, as a point in time.",
    also=[([CHARACTER, optional(CHARACTER), optional(CHARACTER)], _ltz_type)],
    nulls=Nulls.MAYBE,
    can_fail=True,
)
def to_timestamp_ltz(context: EvalContext, value: Value, *rest: Value) -> Value:
    if context.arg_types[0].is_character:
        return _ltz_of_text(context, value, *rest)
    precision = rest[0] if rest else pa.scalar(3, pa.int32())
    rows = context.num_rows
    unit, valid_unit = numbers(precision, rows)
    unit = unit.astype(np.int64)
    inside = (unit >= 0) & (unit <= 9)
    scale = np.power(10, np.where(inside, unit, 0))
    whole, part, valid = _epoch(context, value)
    seconds = np.floor_divide(whole, scale)
    low, high = limits(context.result_type)
    per_second = 10**6 if context.result_type.precision <= 6 else 10**9
    known = inside & (seconds >= -(-low // per_second)) & (seconds < (high + 1) // per_second)
    for mask in (valid, valid_unit):
        known = known if mask is None else known & mask
    digits = 6 if context.result_type.precision <= 6 else 9
    ticks = np.where(known, seconds, 0) * 10**digits + (
        (whole - seconds * scale + part) * (10.0**digits / scale)
    ).astype(np.int64)
    step = 10 ** (digits - context.result_type.precision)
    return from_numpy(
        np.broadcast_to(ticks // step * step, (rows,)), np.broadcast_to(known, (rows,)), context.result_type.arrow, rows
    )


def _epoch(context: EvalContext, value: Value) -> tuple[Any, Any, Any]:
    """Numbers as whole units and, of DOUBLE, the rest of a unit; digits after the point of a DECIMAL are cut."""
    type_ = context.arg_types[0]
    if type_.root is _R.DECIMAL:
        digits, valid = unscaled(value, context.num_rows)
        return np.clip(digits // power_of_ten(type_.scale, digits), -(2**62), 2**62).astype(np.int64), 0, valid
    values, valid = numbers(value, context.num_rows)
    if not type_.is_approximate:
        return values.astype(np.int64), 0, valid
    number = ~np.isnan(values)
    values = np.where(number, np.clip(values.astype(np.float64), -9e18, 9e18), 0)
    return np.floor(values).astype(np.int64), values - np.floor(values), _both(number, valid)


def _ltz_of_text(context: EvalContext, value: Value, *rest: Value) -> Value:
    target = context.result_type

    def read(texts: pa.Array, pattern: str | None = None, zone: str = "UTC") -> pa.Array:
        if not _known_zone(zone):
            return pa.nulls(len(texts), target.arrow)
        values, good = _read_local(context, texts, pattern, target)
        instants = local_to_instant(np.ascontiguousarray(np.where(good, values, 0)), _zone_name(zone), unit_of(target))
        return from_numpy(instants, good, target.arrow)

    return per_constant(context, read, value, *rest)


def _zone_name(zone: str) -> str:
    """A zone as Arrow knows it: IANA names as they are, `GMT+8` as `+08:00`, unknown ones UTC (as
    java.util.TimeZone)."""
    offset = re.fullmatch(r"(?:GMT|UTC)?([+-])(\d{1,2})(?::?(\d\d))?", zone)
    if offset is not None:
        return f"{offset[1]}{offset[2].zfill(2)}:{offset[3] or '00'}"
    return zone if _known_zone(zone) else "UTC"


def _known_zone(zone: str) -> bool:
    if re.fullmatch(r"(?:GMT|UTC)?[+-]\d{1,2}(?::?\d\d)?", zone):
        return True
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


@FAMILY.scalar(
    "CONVERT_TZ",
    [CHARACTER, CHARACTER, CHARACTER],
    STRING,
    "A time `yyyy-MM-dd HH:mm:ss` of one time zone in another.",
    nulls=Nulls.MAYBE,
)
def convert_tz(context: EvalContext, text: Value, from_zone: Value, to_zone: Value) -> Value:
    def convert(texts: pa.Array, source: str, target: str) -> pa.Array:
        millis, good = _instants(context, texts, _DEFAULT, _zone_name(source))
        shown = format_times(millis * 1000, "us", _DEFAULT, Dialect.SIMPLE, _zone_name(target), instants=True)
        return pc.if_else(pa.array(good), shown, None)

    return per_constant(context, convert, text, from_zone, to_zone)
