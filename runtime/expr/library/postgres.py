"""What PostgreSQL computes in another way than Flink: quotients of numeric, aggregates of integers, times with zones.

Source: PostgreSQL 15, "Mathematical Functions", "Aggregate Functions", "Date/Time Types" and "AT TIME ZONE".
There numeric has as many digits as a value needs; here a quotient has 16 behind the point where 38 digits allow it, and so has an average.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError
from runtime.core.rooms import Room
from runtime.core.types import BIGINT, DOUBLE, STRING, TIMESTAMP, TIMESTAMP_LTZ, DataType, TypeRoot, decimal
from runtime.expr.cast.dispatch import cast_array, convert
from runtime.expr.columns import as_array, combine_valid, from_numpy, integers_of, numbers, validity
from runtime.expr.digits import as_decimal
from runtime.expr.distinct import map_distinct, per_constant
from runtime.expr.function import (
    AggregateFunction,
    ArgumentType,
    CallTypes,
    EvalContext,
    Nulls,
    Signature,
    Value,
    register_form,
)
from runtime.expr.library import aggregate
from runtime.expr.library.arithmetic import divide
from runtime.expr.library.declare import APPROX, CHARACTER, DOUBLE_, INTEGER, NUMERIC, TIMESTAMP_, Family, same

if TYPE_CHECKING:
    import runtime.expr.number_patterns as _patterns
    import runtime.expr.time_patterns as _time_patterns
else:
    _patterns = Room("runtime.expr.number_patterns")
    _time_patterns = Room("runtime.expr.time_patterns")

__all__ = ["FAMILY", "wider"]

FAMILY = Family("postgres")
_R = TypeRoot
_MAX = 38
_SCALE = 16
_LEAST = 6
_MINUTE = 60_000_000
_DIGITS = {_R.TINYINT: 3, _R.SMALLINT: 5, _R.INT: 10, _R.BIGINT: 19}


def _quotient(types: CallTypes) -> tuple[tuple[DataType, ...], DataType] | None:
    if len(types) != 2 or not all(t.is_exact_numeric or t.root is _R.NULL for t in types):
        return None
    a, b = (as_decimal(t) if t.root is not _R.NULL else decimal(10, 0) for t in types)
    whole = a.precision - a.scale + b.scale
    scale = max(_LEAST, min(max(_SCALE, a.scale, b.scale), _MAX - whole))
    return (types[0], types[1]), decimal(min(whole + scale, _MAX), scale)


def _overflows(types: CallTypes, result: DataType) -> bool:
    if any(t.root is _R.NULL for t in types):
        return False
    a, b = as_decimal(types[0]), as_decimal(types[1])
    return a.precision - a.scale + b.scale > result.precision - result.scale


@FAMILY.special(
    "PG_DIVIDE",
    _quotient,
    "The quotient of exact numbers with 16 digits behind the point, as PostgreSQL's numeric.",
    form=("NUMERIC", "NUMERIC"),
    can_fail=True,
    syntax="PG_DIVIDE(a, b)",
    overflows=_overflows,
)
def quotient(context: EvalContext, a: Value, b: Value) -> Value:
    return divide(context, a, b)


@FAMILY.scalar("PG_ROUND_EVEN", [APPROX], same(0), "The nearest whole number, halves to the even one.")
def round_even(context: EvalContext, value: Value) -> Value:
    return pc.round(value, 0, "half_to_even")


def _bits(name: str, document: str, evaluate: Callable[[Value, Value], Value]) -> None:
    """Declares an operator over the bits of two integers, in the wider type."""

    @FAMILY.special(name, wider, document, form=("INTEGER", "INTEGER"), nulls=Nulls.STRICT, syntax=f"{name}(a, b)")
    def operator(context: EvalContext, a: Value, b: Value) -> Value:
        wide = context.result_type.arrow
        return evaluate(pc.cast(a, wide), pc.cast(b, wide))


def wider(types: CallTypes) -> tuple[tuple[DataType, ...], DataType] | None:
    """The types of two integers, and the wider one."""
    if len(types) != 2 or not all(t.is_integer or t.root is _R.NULL for t in types):
        return None
    root = max((t.root for t in types if t.is_integer), key=lambda r: _DIGITS[r], default=_R.INT)
    return (types[0], types[1]), DataType(root, nullable=any(t.nullable for t in types))


_bits("PG_BIT_AND", "The bits that both integers have.", pc.bit_wise_and)
_bits("PG_BIT_OR", "The bits that one of two integers has.", pc.bit_wise_or)
_bits("PG_BIT_XOR", "The bits that one alone of two integers has.", pc.bit_wise_xor)


def _shifts(name: str, document: str, evaluate: Callable[..., np.ndarray]) -> None:
    """Declares a shift of the bits of an integer, by as many places as it has at most, as processors do."""

    @FAMILY.scalar(name, [INTEGER, INTEGER], same(0), document)
    def shift(context: EvalContext, value: Value, places: Value) -> Value:
        bits, valid = numbers(value, context.num_rows)
        by, valid_by = numbers(places, context.num_rows)
        wide = np.int64 if context.result_type.root is _R.BIGINT else np.int32
        moved = evaluate(np.asarray(bits, wide), (np.asarray(by, np.int64) & (wide(0).nbytes * 8 - 1)).astype(wide))
        narrow = moved.astype(context.result_type.arrow.to_pandas_dtype())
        return from_numpy(narrow, combine_valid(valid, valid_by), context.result_type.arrow, context.num_rows)


_shifts("PG_SHIFT_LEFT", "An integer with its bits moved to the left.", np.left_shift)
_shifts("PG_SHIFT_RIGHT", "An integer with its bits moved to the right; its sign stays.", np.right_shift)


@FAMILY.scalar("PG_BIT_NOT", [INTEGER], same(0), "An integer with all bits turned.")
def bit_not(context: EvalContext, value: Value) -> Value:
    return pc.bit_wise_not(value)


def _character(number: int) -> str:
    if not 0 < number < 0x110000 or 0xD800 <= number < 0xE000:
        raise ExpressionError(f"no character has the number {number}", code="E2001", hint="for example 65, or 8364")
    return chr(number)


@FAMILY.scalar("PG_CHR", [INTEGER], STRING, "The character of a number of Unicode.", can_fail=True)
def character(context: EvalContext, number: Value) -> Value:
    given = number if isinstance(number, pa.Scalar) else as_array(number, context.num_rows)
    return map_distinct(_character, [given], pa.string(), context.num_rows)


@FAMILY.scalar("PG_CBRT", [DOUBLE_], DOUBLE, "The cube root.")
def cube_root(context: EvalContext, value: Value) -> Value:
    found, valid = numbers(value, context.num_rows)
    return from_numpy(np.cbrt(found), valid, pa.float64(), context.num_rows)


@FAMILY.scalar(
    "PG_SECONDS_TEXT", [NUMERIC], STRING, "Seconds of a minute as a time has them, with two digits before a point."
)
def seconds_text(context: EvalContext, value: Value) -> Value:
    text = pc.cast(pc.cast(value, pa.decimal128(38, 6), safe=False), pa.string())
    return pc.utf8_lpad(text, 9, "0")


@FAMILY.scalar(
    "PG_NUMBER_TEXT", [NUMERIC, CHARACTER], STRING, "A number by a pattern such as '999,990.00'.", can_fail=True
)
def number_text(context: EvalContext, value: Value, pattern: Value) -> Value:
    digits = 6 if context.arg_types[0].root is _R.FLOAT else 15
    shown = partial(_patterns.number_text, float_digits=digits)
    return map_distinct(shown, [value, pattern], pa.string(), context.num_rows)


@FAMILY.scalar(
    "PG_TIME_PATTERN",
    [TIMESTAMP_, CHARACTER],
    STRING,
    "A point in time by a pattern such as 'FMDay, DD FMMonth YYYY'.",
    can_fail=True,
)
def time_by_pattern(context: EvalContext, time: Value, pattern: Value) -> Value:
    micros = pc.cast(time, pa.timestamp("us"), safe=False)
    return map_distinct(_time_patterns.time_text, [micros, pattern], pa.string(), context.num_rows)


def _age(a: Value, b: Value, length: int) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """The parts of the time from the second point to the first, all of one sign, and which rows have one. Days are
    borrowed from the month of the earlier point."""
    first, second = (as_array(v, length).cast(pa.timestamp("us")) for v in (a, b))
    valid = combine_valid(validity(first), validity(second))
    ends = [integers_of(pc.fill_null(v, 0)).view("datetime64[us]") for v in (first, second)]
    sign = np.where(ends[0] < ends[1], -1, 1)
    low, high = np.minimum(*ends), np.maximum(*ends)
    months, days = (
        [(e.astype(unit) - e.astype(coarse).astype(unit)).astype(np.int64) for e in (low, high)]
        for unit, coarse in (("datetime64[M]", "datetime64[Y]"), ("datetime64[D]", "datetime64[M]"))
    )
    years = [e.astype("datetime64[Y]").astype(np.int64) for e in (low, high)]
    rest = [(e - e.astype("datetime64[D]")).astype(np.int64) for e in (low, high)]
    time = rest[1] - rest[0]
    day = days[1] - days[0] - (time < 0)
    time = np.where(time < 0, time + 24 * 60 * _MINUTE, time)
    month_of_low = low.astype("datetime64[M]")
    lengths = ((month_of_low + 1).astype("datetime64[D]") - month_of_low.astype("datetime64[D]")).astype(np.int64)
    whole = (years[1] - years[0]) * 12 + months[1] - months[0] - (day < 0)
    day = np.where(day < 0, day + lengths, day)
    parts = {
        "YEAR": whole // 12, "MONTH": whole % 12, "DAY": day, "HOUR": time // (60 * _MINUTE),
        "MINUTE": time // _MINUTE % 60, "MICROSECOND": time % _MINUTE,
    }  # fmt: skip
    return {name: part * sign for name, part in parts.items()}, valid


@FAMILY.scalar(
    "PG_AGE",
    [TIMESTAMP_, TIMESTAMP_],
    STRING,
    "The time between two points in time in words: 4 years 1 mon 3 days 02:30:00.",
)
def age(context: EvalContext, a: Value, b: Value) -> Value:
    parts, valid = _age(a, b, context.num_rows)
    words = []
    for name, unit in (("YEAR", "year"), ("MONTH", "mon"), ("DAY", "day")):
        numbers_ = pa.array(parts[name])
        plural = pc.if_else(pc.equal(numbers_, 1), unit, f"{unit}s")
        shown = pc.binary_join_element_wise(numbers_.cast(pa.string()), plural, " ")
        words.append(pc.if_else(pc.equal(numbers_, 0), pa.scalar(None, pa.string()), shown))
    clock = [np.abs(parts[name]) for name in ("HOUR", "MINUTE", "MICROSECOND")]
    minus = np.any([parts[name] < 0 for name in ("HOUR", "MINUTE", "MICROSECOND")], axis=0)
    digits = [pc.utf8_lpad(pa.array(c).cast(pa.string()), 2, "0") for c in (clock[0], clock[1], clock[2] // 1_000_000)]
    fraction = pc.utf8_rtrim(pc.utf8_lpad(pa.array(clock[2] % 1_000_000).cast(pa.string()), 6, "0"), "0")
    seconds = pc.if_else(pc.equal(fraction, ""), digits[2], pc.binary_join_element_wise(digits[2], fraction, "."))
    time = pc.binary_join_element_wise(digits[0], digits[1], seconds, ":")
    time = pc.binary_join_element_wise(pc.if_else(pa.array(minus), "-", ""), time, "")
    nothing = pc.and_(pc.and_(pc.is_null(words[0]), pc.is_null(words[1])), pc.is_null(words[2]))
    is_shown = pc.or_(nothing, pa.array(sum(clock) > 0))
    time = pc.if_else(is_shown, time, pa.scalar(None, pa.string()))
    found = pc.binary_join_element_wise(*words, time, " ", null_handling="skip")
    return found if valid is None else pc.if_else(pa.array(valid), found, pa.scalar(None, pa.string()))


@FAMILY.scalar(
    "PG_AGE_PART",
    [CHARACTER, TIMESTAMP_, TIMESTAMP_],
    BIGINT,
    "YEAR, MONTH, DAY, HOUR, MINUTE or MICROSECOND (with the seconds) of the time between two points in time.",
)
def age_part(context: EvalContext, unit: Value, a: Value, b: Value) -> Value:
    parts, valid = _age(a, b, context.num_rows)
    units = as_array(unit, context.num_rows)
    chosen = [np.asarray(pc.fill_null(pc.equal(units, name), False)) for name in parts]
    found = np.select(chosen, list(parts.values()), 0)
    return from_numpy(found, combine_valid(valid, np.any(chosen, axis=0)), pa.int64(), context.num_rows)


_OFFSET = r"^(?P<time>.*:.*\d)\s*(?P<zone>[zZ]|[+-]\d{1,2}(?::?\d{2})?)$"


def _with_seconds(texts: Value) -> Value:
    """Texts of times with a blank between day and time, and with seconds, which PostgreSQL's may lack."""
    texts = pc.replace_substring_regex(texts, r"(\d)[tT](\d)", r"\1 \2")
    return pc.replace_substring_regex(texts, r"^((?:[^:]* )?\s*\d{1,2}:\d{2})((?:\s*(?:[zZ]|[+-].*))?)$", r"\1:00\2")


@FAMILY.scalar(
    "PG_TIME_TEXT", [CHARACTER], STRING, "A text that writes a time, with seconds, and without an offset from UTC."
)
def time_text(context: EvalContext, text: Value) -> Value:
    return pc.replace_substring_regex(_with_seconds(text), r"^(.*:.*\d)\s*(?:[zZ]|[+-]\d{1,2}(?::?\d{2})?)$", r"\1")


@FAMILY.scalar(
    "PG_TIMESTAMPTZ",
    [CHARACTER],
    TIMESTAMP_LTZ,
    "The text as a timestamp with time zone: at the offset that it ends with, else in the session's zone.",
    can_fail=True,
)
def timestamptz(context: EvalContext, text: Value) -> Value:
    texts = _with_seconds(as_array(text, 1 if isinstance(text, pa.Scalar) else context.num_rows))
    parts = pc.extract_regex(texts, _OFFSET)
    zoned = pc.fill_null(pc.is_valid(parts), False)
    if not pc.any(zoned).as_py():
        text = texts[0] if isinstance(text, pa.Scalar) else texts
        return cast_array(text, context.arg_types[0], context.result_type, False, context)
    instants = np.zeros(len(texts), np.int64)
    for which, zone in ((zoned, "UTC"), (pc.invert(zoned), context.time_zone)):
        given = pc.if_else(which, pc.coalesce(pc.struct_field(parts, [0]), texts), None)
        read = convert(given, context.arg_types[0], TIMESTAMP_LTZ, zone)
        if read.failed is not None:
            shown = texts[int(np.flatnonzero(read.failed)[0])].as_py()
            raise ExpressionError(
                f"'{shown}' is no timestamp with time zone", code="E2101", hint="for example '2024-01-01 10:00:00+01'"
            )
        at = which.to_numpy(zero_copy_only=False)
        instants[at] = integers_of(read.values)[at]
    offsets = pc.fill_null(pc.struct_field(parts, [1]), "Z").dictionary_encode()
    minutes = np.array([_minutes(zone) for zone in offsets.dictionary.to_pylist()], np.int64)
    instants -= minutes[offsets.indices.to_numpy()] * _MINUTE
    found = from_numpy(instants, validity(texts), context.result_type.arrow)
    return found[0] if isinstance(text, pa.Scalar) else found


def _minutes(zone: str) -> int:
    if zone in ("z", "Z"):
        return 0
    digits = zone[1:].replace(":", "")
    hours, minutes = (digits[:-2], digits[-2:]) if len(digits) > 2 else (digits, "0")
    return (-1 if zone[0] == "-" else 1) * (60 * int(hours) + int(minutes))


def _moved(types: CallTypes) -> tuple[tuple[DataType, ...], DataType] | None:
    if len(types) != 2 or types[0].root not in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ, TypeRoot.DATE):
        return None
    if not types[1].is_character:
        return None
    at = TIMESTAMP if types[0].root is TypeRoot.DATE else types[0].materialized()
    other = TypeRoot.TIMESTAMP if at.root is TypeRoot.TIMESTAMP_LTZ else TypeRoot.TIMESTAMP_LTZ
    return (at, types[1]), DataType(other, at.precision, nullable=types[0].nullable or types[1].nullable)


@FAMILY.special(
    "PG_AT_TIME_ZONE",
    _moved,
    "A timestamp as the instant at which the clocks of a zone show it; an instant as what they show.",
    form=("TIMESTAMP", "STRING"),
    nulls=Nulls.STRICT,
    can_fail=True,
    syntax="PG_AT_TIME_ZONE(time, zone)",
)
def at_time_zone(context: EvalContext, value: Value, zone: Value) -> Value:
    def moved(times: pa.Array, name: str) -> pa.Array:
        try:
            zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise ExpressionError(
                f"there is no time zone '{name}'",
                code="E2001",
                hint="a zone is a name such as 'Europe/Berlin' or 'UTC'",
            ) from None
        return convert(times, context.arg_types[0], context.result_type, name).values

    return per_constant(context, moved, value, zone)


def _summed(t: DataType) -> DataType | None:
    """Integers up to INT add up in BIGINT, BIGINT in DECIMAL."""
    if t.root in (_R.TINYINT, _R.SMALLINT, _R.INT, _R.NULL):
        return BIGINT.with_nullable(t.nullable)
    return decimal(19, 0).with_nullable(t.nullable) if t.root is _R.BIGINT else t if t.is_numeric else None


def _averaged(t: DataType) -> DataType | None:
    """Exact numbers have 16 digits behind the point, others are DOUBLE."""
    if t.root in _DIGITS:
        return decimal(_DIGITS[t.root] + _SCALE, _SCALE).with_nullable(t.nullable)
    if t.root is _R.DECIMAL:
        whole = t.precision - t.scale
        scale = max(t.scale, min(_SCALE, _MAX - whole))
        return decimal(whole + scale, scale).with_nullable(t.nullable)
    return DOUBLE.with_nullable(t.nullable) if t.is_numeric or t.root is _R.NULL else None


def _spread(t: DataType) -> DataType | None:
    return DOUBLE.with_nullable(t.nullable) if t.is_numeric or t.root is _R.NULL else None


def _taking(function: AggregateFunction, coerce: Callable[[DataType], DataType | None]) -> AggregateFunction:
    """The aggregate over arguments that are cast first."""
    (signature,) = function.signatures

    def accepts(t: DataType) -> bool:
        return coerce(t) == t

    argument = ArgumentType("NUMERIC", accepts, coerce)
    return replace(function, signatures=(Signature((argument,), signature.returns),))


_FORMS: dict[str, Callable[[DataType], DataType | None]] = {
    "SUM": _summed,
    "AVG": _averaged,
    **dict.fromkeys(("STDDEV", "STDDEV_POP", "STDDEV_SAMP", "VARIANCE", "VAR_POP", "VAR_SAMP"), _spread),
}
for _function in aggregate.FUNCTIONS:
    if _function.name in _FORMS:
        register_form(f"PG_{_function.name}", _taking(_function, _FORMS[_function.name]))
