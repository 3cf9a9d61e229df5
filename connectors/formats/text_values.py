"""Text to typed columns, as Flink's CSV and JSON formats read cells: whole columns at once, cells that are no value
found exactly.

Rules (Flink 2.3, formats `csv` and `json`): numbers may have blanks around them; DECIMAL is rounded half up to its
scale and must fit its precision; BOOLEAN is `true` or `false` in any case; BYTES are base64; TIMESTAMP is `2024-02-29
23:59:59.123` (SQL) or with `T` (ISO-8601); TIMESTAMP_LTZ carries `Z` or an offset, and without one is local time of the
session. Digits finer than the type's precision are cut off.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.base64 import decode_base64
from connectors.formats.records import BadMask, cast_or_find, either
from runtime.core.types import DataType, TypeRoot
from runtime.expr.columns import from_numpy, integers_of, validity
from runtime.expr.zones import local_to_instant

__all__ = ["ANY", "ISO", "SQL", "TextRules", "parse_text"]

SQL = "SQL"
ISO = "ISO-8601"
ANY = "any"


@dataclass(frozen=True, slots=True)
class TextRules:
    """How timestamps are spelled (`SQL`, `ISO`, `ANY`) and the zone of local ones."""

    time_zone: str = "UTC"
    timestamps: str = ANY


def parse_text(values: pa.Array, type_: DataType, rules: TextRules) -> tuple[pa.Array, BadMask | None]:
    """A string array as values of an atomic type, and the mask of cells that are none (they are NULL in the result)."""
    match type_.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return values, None
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return decode_base64(values)
        case TypeRoot.BOOLEAN:
            return _boolean(values)
        case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INT | TypeRoot.BIGINT | TypeRoot.INTERVAL_MONTH:
            return _integer(values, type_.arrow)
        case TypeRoot.INTERVAL_SECOND:
            whole, bad = _integer(values, pa.int64())
            return whole.cast(type_.arrow), bad
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return _floating(values, type_.arrow)
        case TypeRoot.DECIMAL:
            return _decimal(values, type_.arrow)
        case TypeRoot.DATE:
            return _strict(values, lambda v: v.cast(type_.arrow), type_.arrow, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
        case TypeRoot.TIME:
            return _time(values, type_)
        case TypeRoot.TIMESTAMP:
            return _timestamp(values, type_, rules)
        case TypeRoot.TIMESTAMP_LTZ:
            return _instant(values, type_, rules)
        case _:
            return pa.nulls(len(values), type_.arrow), pc.is_valid(values).to_numpy(zero_copy_only=False)


def _strict(
    values: pa.Array, cast: Callable[[pa.Array], pa.Array], type_: pa.DataType, pattern: str
) -> tuple[pa.Array, BadMask | None]:
    """Cast; on failure trim, take away what does not match the pattern, and look for the rest (out of range) cell by
    cell."""
    try:
        return within_years(cast(values))
    except pa.ArrowInvalid:
        pass
    values = pc.utf8_trim_whitespace(values)
    fits = pc.fill_null(pc.match_substring_regex(values, pattern), True)
    misfit = ~fits.to_numpy(zero_copy_only=False)
    kept = pc.if_else(fits, values, pa.scalar(None, pa.string()))
    cells, bad = cast_or_find(kept, cast, type_)
    cells, far = within_years(cells)
    return cells, either(misfit if misfit.any() else None, either(bad, far))


_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6}


def within_years(values: pa.Array) -> tuple[pa.Array, BadMask | None]:
    """Dates and times before the year 1 and after 9999 are none: Arrow takes some of them."""
    type_ = values.type
    if pa.types.is_date32(type_):
        low, high, ticks = _FIRST_DAY, _LAST_DAY, pa.int32()
    elif pa.types.is_timestamp(type_) and type_.unit in _TICKS:
        day = 86_400 * _TICKS[type_.unit]
        low, high, ticks = _FIRST_DAY * day, (_LAST_DAY + 1) * day - 1, pa.int64()
    else:
        return values, None
    numbers = values.cast(ticks)
    ends = pc.min_max(numbers)
    if not ends["min"].is_valid or (ends["min"].as_py() >= low and ends["max"].as_py() <= high):
        return values, None
    far = pc.fill_null(pc.or_(pc.less(numbers, low), pc.greater(numbers, high)), False)
    return pc.if_else(far, pa.scalar(None, type_), values), far.to_numpy(zero_copy_only=False)


def _boolean(values: pa.Array) -> tuple[pa.Array, BadMask | None]:
    lowered = pc.utf8_lower(pc.utf8_trim_whitespace(values))
    true, false = pc.equal(lowered, "true"), pc.equal(lowered, "false")
    known = pc.fill_null(pc.or_(true, false), True)
    bad = ~known.to_numpy(zero_copy_only=False)
    return pc.if_else(known, true, pa.scalar(None, pa.bool_())), bad if bad.any() else None


_FLOATING = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^NaN$|^[+-]?Infinity$"


def _floating(values: pa.Array, type_: pa.DataType) -> tuple[pa.Array, BadMask | None]:
    def cast(v: pa.Array) -> pa.Array:
        numbers = v.cast(type_)
        odd = pc.invert(pc.is_finite(numbers))
        # Arrow takes more spellings of infinity than the format has.
        if pc.any(odd).as_py() and not pc.all(pc.match_substring_regex(v.filter(odd), _FLOATING)).as_py():
            raise pa.ArrowInvalid("not a number")
        return numbers

    return _strict(values, cast, type_, _FLOATING)


def _integer(values: pa.Array, type_: pa.DataType) -> tuple[pa.Array, BadMask | None]:
    def cast(v: pa.Array) -> pa.Array:
        # Arrow also takes hexadecimal, which is no integer here.
        if pc.any(pc.match_substring(v, "x", ignore_case=True)).as_py():
            raise pa.ArrowInvalid("hexadecimal")
        return v.cast(type_)

    cells, bad = _strict(values, cast, type_, r"^-?[0-9]+$")
    if bad is None:
        return cells, None
    plus = pc.fill_null(pc.starts_with(pc.utf8_ltrim_whitespace(values), "+"), False)
    if not pc.any(plus).as_py():
        return cells, bad
    return _strict(pc.replace_substring_regex(values, r"^\s*\+([0-9])", r"\1"), cast, type_, r"^-?[0-9]+$")


_DIGITS = 38


def round_decimal(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Round a decimal column half up (away from zero) to a type; raises ArrowInvalid for numbers that do not fit."""
    if values.type.scale > type_.scale:
        values = pc.round(values, ndigits=type_.scale, round_mode="half_towards_infinity")
    return values.cast(type_)


_UNSAFE = r"[eE]-[0-9]{2}|\.0{30}|^.{30}.*[eE]"
"""Of numbers with so many zeros behind the point Arrow reads memory that is not its own; long ones with an exponent may
have any number of digits behind it."""


def _decimal(values: pa.Array, type_: pa.DataType) -> tuple[pa.Array, BadMask | None]:
    unsafe = pc.fill_null(pc.match_substring_regex(values, _UNSAFE), False)
    if not pc.any(unsafe).as_py():
        return _decimal_of_some_size(values, type_)
    cells, bad = _decimal_of_some_size(pc.if_else(unsafe, pa.scalar(None, pa.string()), values), type_)
    places = np.flatnonzero(unsafe.to_numpy(zero_copy_only=False))
    rounded = [_rounded(text, type_) for text in values.take(pa.array(places)).to_pylist()]
    none = np.zeros(len(values), dtype=bool)
    none[places[[number is None for number in rounded]]] = True
    cells = pc.replace_with_mask(cells, unsafe, pa.array(rounded, type_))
    return cells, either(bad, none if none.any() else None)


def _rounded(text: str, type_: pa.DataType) -> Decimal | None:
    """One number, rounded half up to the scale of a type; None when it is none, or does not fit."""
    text = text.strip()
    if re.fullmatch(_NUMBER, text) is None:
        return None
    with localcontext() as context:
        context.prec = 100
        try:
            number = Decimal(text).quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP)
        except InvalidOperation:
            return None
    return number if not number or number.adjusted() < type_.precision - type_.scale else None


_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def _decimal_of_some_size(values: pa.Array, type_: pa.DataType) -> tuple[pa.Array, BadMask | None]:
    try:
        if (pc.max(pc.binary_length(values)).as_py() or 0) > _DIGITS:
            raise pa.ArrowInvalid("more digits than Arrow rounds rightly")
        return values.cast(type_), None
    except pa.ArrowInvalid:
        pass
    # Half up, the first digit that is left out decides: those behind it may be any number.
    kept = max(_DIGITS, type_.scale + 1)
    wide = pa.decimal256(76, kept)
    cut = pc.replace_substring_regex(values, rf"(\.[0-9]{{{kept}}})[0-9]+(\s*)$", r"\1\2")
    numbers, bad = _strict(cut, lambda v: v.cast(wide), wide, _NUMBER)
    cells, large = fit_decimal(numbers, type_)
    return cells, either(bad, large)


def fit_decimal(numbers: pa.Array, type_: pa.DataType) -> tuple[pa.Array, BadMask | None]:
    """A decimal column rounded half up (away from zero) to a type, and the mask of numbers that do not fit."""
    try:
        return round_decimal(numbers, type_), None
    except pa.ArrowInvalid:
        pass
    # The least number that rounds to one that does not fit.
    step = 10 if type_.scale < numbers.type.scale else 1
    least = Decimal(f"{step * 10**type_.precision - step // 2}e-{type_.scale + step // 10}")
    limit = pa.scalar(least, pa.decimal256(76, type_.scale + step // 10)).cast(numbers.type)
    large = pc.fill_null(pc.greater_equal(pc.abs(numbers), limit), False)
    return round_decimal(pc.if_else(large, pa.scalar(None, numbers.type), numbers), type_), large.to_numpy(
        zero_copy_only=False
    )


_FRACTION = r"(\.[0-9]+)?"
_TIME_PATTERN = r"^[0-9]{2}:[0-9]{2}(:[0-9]{2}" + _FRACTION + r")?Z?$"


def _time(values: pa.Array, type_: DataType) -> tuple[pa.Array, BadMask | None]:
    digits = min(type_.precision, 3)

    def cast(v: pa.Array) -> pa.Array:
        clock = _cut_fraction(pc.replace_substring_regex(v, "Z$", ""), digits)
        dated = pc.binary_join_element_wise(pa.scalar("1970-01-01 "), clock, "")
        return dated.cast(pa.timestamp("ms")).cast(type_.arrow)

    return _strict(values, cast, type_.arrow, _TIME_PATTERN)


def _cut_fraction(values: pa.Array, digits: int) -> pa.Array:
    """Keep at most `digits` digits of the fraction of a second."""
    if digits == 0:
        return pc.replace_substring_regex(values, r"\.[0-9]+", "")
    return pc.replace_substring_regex(values, r"(\.[0-9]{" + str(digits) + r"})[0-9]+", r"\1")


def _patterns(standard: str, zone: str) -> str:
    middle = {SQL: " ", ISO: "T"}.get(standard, "[ T]")
    return (
        r"^[+-]?[0-9]{4,}-[0-9]{2}-[0-9]{2}" + middle + r"[0-9]{2}:[0-9]{2}(:[0-9]{2}" + _FRACTION + ")?" + zone + "$"
    )


def _exact_shape(values: pa.Array, standard: str) -> bool:
    """Whether every cell is at least a date and a time, with the separator of the standard."""
    shortest = pc.min(pc.binary_length(values)).as_py()
    if shortest is None:
        return True
    if shortest < 16:
        return False
    if standard == ANY:
        return True
    wanted = " " if standard == SQL else "T"
    return bool(pc.all(pc.equal(pc.utf8_slice_codeunits(values, 10, 11), wanted)).as_py())


def _timestamp(values: pa.Array, type_: DataType, rules: TextRules) -> tuple[pa.Array, BadMask | None]:
    digits = min(type_.precision, 9)
    fine = pa.timestamp("us") if digits <= 6 else type_.arrow

    def cast(v: pa.Array) -> pa.Array:
        if not _exact_shape(v, rules.timestamps):
            raise pa.ArrowInvalid("not a timestamp")
        try:
            return _floor(v.cast(fine), digits)
        except pa.ArrowInvalid:
            return _cut_fraction(v, digits).cast(fine)

    return _strict(values, cast, type_.arrow, _patterns(rules.timestamps, ""))


def _floor(times: pa.Array, digits: int) -> pa.Array:
    """Cut microseconds (or nanoseconds) to the precision of the type."""
    full = 6 if times.type.unit == "us" else 9
    if digits >= full:
        return times
    step = 10 ** (full - digits)
    ticks = np.asarray(pc.fill_null(times.cast(pa.int64()), 0))
    cut = ticks % step
    if not cut.any():
        return times
    return pa.array(ticks - cut, mask=pc.is_null(times).to_numpy(zero_copy_only=False)).cast(times.type)


def _instant(values: pa.Array, type_: DataType, rules: TextRules) -> tuple[pa.Array, BadMask | None]:
    digits = min(type_.precision, 9)

    def zoned(v: pa.Array) -> pa.Array:
        if not _exact_shape(v, rules.timestamps):
            raise pa.ArrowInvalid("not a timestamp")
        try:
            return _floor(v.cast(type_.arrow), digits)
        except pa.ArrowInvalid:
            return _cut_fraction(v, digits).cast(type_.arrow)

    def cast(v: pa.Array) -> pa.Array:
        try:
            return zoned(v)
        except pa.ArrowInvalid:
            local = pc.fill_null(pc.match_substring_regex(v, r":[0-9]{2}(\.[0-9]+)?$"), True)
            if not pc.all(local).as_py() or not pc.any(pc.is_valid(v)).as_py():
                raise
        plain = pa.timestamp(type_.arrow.unit)
        times = _cut_fraction(v, digits).cast(plain)
        instants = local_to_instant(integers_of(times), rules.time_zone, type_.arrow.unit)
        return from_numpy(instants, validity(times), type_.arrow)

    return _strict(values, cast, type_.arrow, _patterns(rules.timestamps, r" ?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?"))


__all__ += ["fit_decimal", "round_decimal", "within_years"]
