"""Texts to times by Java's patterns: the pattern becomes a regular expression, its fields columns of numbers.

SimpleDateFormat is lenient: numbers of any width, days and months beyond the end run over into the next, and what
follows the pattern is ignored. DateTimeFormatter takes the whole text and exact widths; a day that the month lacks is
its last ("smart" resolution). Fields that the pattern does not have are those of 1970-01-01 00:00:00.
"""

from __future__ import annotations

import datetime as dt
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.expr.cast.parse_times import days_of, last_day_of
from runtime.expr.date_patterns import MONTHS, WEEKDAYS, Dialect, Piece, read_pattern

__all__ = ["ParsedTimes", "parse_lenient", "parse_smart"]

_MILLIS_DAY = 86_400_000
_OFFSETS = {"X": r"Z|[+-]\d\d", "XX": r"Z|[+-]\d{4}", "XXX": r"Z|[+-]\d\d:\d\d"}
_ZONE = r"(?:GMT|UTC)?[+-]\d{1,2}:?\d\d|GMT|UTC|Z"


@dataclass(frozen=True, slots=True)
class ParsedTimes:
    """Local times in units since the local epoch, which rows could be read, and offsets from UTC in seconds where the
    text had one (else None)."""

    values: Any
    good: Any
    offset: Any | None


@functools.lru_cache(maxsize=256)
def _expression(pattern: str, dialect: Dialect) -> tuple[str, tuple[Piece, ...]]:
    """The regular expression of a pattern, with a group `g<n>` per field, and the fields."""
    pieces = read_pattern(pattern, dialect)
    parts = ["(?i)^" if dialect is Dialect.SIMPLE else "^"]
    fields: list[Piece] = []
    depth = 0
    for index, piece in enumerate(pieces):
        parts.append("(?:" * (piece.optional - depth) + ")?" * (depth - piece.optional))
        depth = piece.optional
        if not piece.letter:
            parts.append("".join(f"\\{c}" if not c.isalnum() and c.isascii() else c for c in piece.text))
            continue
        following = pieces[index + 1] if index + 1 < len(pieces) else None
        abuts = following is not None and bool(following.letter)
        parts.append(f"(?P<g{len(fields)}>{_field(piece, dialect, abuts)})")
        fields.append(piece)
    parts.append(")?" * depth + ("$" if dialect is Dialect.FORMATTER else ""))
    return "".join(parts), tuple(fields)


def _field(piece: Piece, dialect: Dialect, abuts: bool) -> str:
    letter, count = piece.letter, piece.count
    if letter in "ML" and count > 2:
        names = [
            m
            for full in MONTHS
            for m in ((full, full[:3]) if dialect is Dialect.SIMPLE else (full if count == 4 else full[:3],))
        ]
        return "|".join(names)
    if letter == "E" or (letter in "ec" and count > 2):
        return "|".join(n for full in WEEKDAYS for n in (full, full[:3]))
    if letter == "a":
        return "AM|PM"
    if letter == "G":
        return "AD|BC"
    if letter in "Xx":
        return _OFFSETS.get("X" * count, _OFFSETS["XXX"])
    if letter in "zZVO":
        return _ZONE
    if dialect is Dialect.SIMPLE:
        return rf"\d{{{count}}}" if abuts else r"[ \t]*\d{1,9}"
    if letter == "S" or count > 1:
        return rf"\d{{{count}}}"
    return r"\d{1,9}"


def _numbers(texts: pa.Array) -> Any:
    filled = pc.utf8_ltrim_whitespace(pc.fill_null(texts, ""))
    return pc.cast(pc.if_else(pc.equal(filled, ""), "0", filled), pa.int64()).to_numpy(zero_copy_only=False)


def _month(piece: Piece, texts: pa.Array) -> Any:
    if piece.count <= 2:
        return _numbers(texts)
    short = pc.utf8_slice_codeunits(pc.utf8_lower(texts), 0, 3)
    places = pc.index_in(short, pa.array([m[:3].lower() for m in MONTHS]))
    return pc.fill_null(places, 0).to_numpy(zero_copy_only=False).astype(np.int64) + 1


def _offset(texts: pa.Array) -> Any:
    """`+01`, `+0130`, `GMT+1:30`, `Z` in seconds."""
    found = pc.extract_regex(texts, r"(?P<s>[+-])(?P<h>\d{1,2}):?(?P<m>\d\d)?$")
    seconds = _numbers(found.field(1)) * 3600 + _numbers(found.field(2)) * 60
    negative = pc.fill_null(pc.equal(found.field(0), "-"), False).to_numpy(zero_copy_only=False)
    return np.where(negative, -seconds, seconds)


class _Fields:
    """The columns of numbers that a pattern found, by letter."""

    def __init__(self, texts: pa.Array, pattern: str, dialect: Dialect) -> None:
        expression, pieces = _expression(pattern, dialect)
        # A group of its own, so that a pattern without fields works too.
        groups = pc.extract_regex(texts, f"(?P<all>{expression})")
        self.matched = groups.is_valid().to_numpy(zero_copy_only=False)
        self.found: dict[str, tuple[Piece, pa.Array]] = {}
        for index, piece in enumerate(pieces):
            self.found[piece.letter] = (piece, groups.field(index + 1))
        self.rows = len(texts)

    def __contains__(self, letter: str) -> bool:
        return letter in self.found

    def number(self, letters: str, default: int) -> Any:
        for letter in letters:
            if letter in self.found:
                texts = self.found[letter][1]
                missing = pc.fill_null(pc.equal(texts, ""), True).to_numpy(zero_copy_only=False)
                return np.where(missing, default, _numbers(texts))
        return np.full(self.rows, default, np.int64)

    def texts(self, letter: str) -> pa.Array:
        return self.found[letter][1]

    def month(self) -> Any:
        for letter in "ML":
            if letter in self.found:
                piece, texts = self.found[letter]
                return np.where(
                    pc.fill_null(pc.equal(texts, ""), True).to_numpy(zero_copy_only=False), 1, _month(piece, texts)
                )
        return np.ones(self.rows, np.int64)

    def hour(self) -> Any:
        if "H" in self or "k" in self:
            return self.number("Hk", 0) % 24 if "k" in self else self.number("H", 0)
        if "h" in self or "K" in self:
            hour = self.number("hK", 0) % 12
            return hour + 12 * self._afternoon()
        return np.zeros(self.rows, np.int64)

    def _afternoon(self) -> Any:
        if "a" not in self:
            return np.zeros(self.rows, np.int64)
        return (
            pc.fill_null(pc.equal(pc.utf8_upper(self.texts("a")), "PM"), False)
            .to_numpy(zero_copy_only=False)
            .astype(np.int64)
        )

    def clock_fits(self) -> Any:
        """Whether hours, minutes and seconds are those of a clock."""
        fits = np.ones(self.rows, np.bool_)
        for letter, least, most in (("H", 0, 23), ("h", 1, 12), ("k", 1, 24), ("K", 0, 11), ("m", 0, 59), ("s", 0, 59)):
            if letter in self:
                read = self.number(letter, least)
                fits &= (read >= least) & (read <= most)
        return fits

    def offset(self) -> Any | None:
        for letter in "XxzZVO":
            if letter in self.found:
                return _offset(self.found[letter][1])
        return None


def parse_lenient(texts: pa.Array, pattern: str, now: int) -> ParsedTimes:
    """SimpleDateFormat's reading, in milliseconds. Two-digit years of `yy` lie within 80 years before and 20 after
    `now`."""
    fields = _Fields(texts, pattern, Dialect.SIMPLE)
    year = fields.number("yY", 1970)
    for letter in "yY":
        if letter in fields and fields.found[letter][0].count <= 2:
            short = pc.fill_null(pc.equal(pc.utf8_length(pc.utf8_ltrim_whitespace(fields.texts(letter))), 2), False)
            first = (dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=now)).year - 80
            moved = first + (year - first) % 100
            year = np.where(short.to_numpy(zero_copy_only=False), moved, year)
    month, minute, second = fields.month(), fields.number("m", 0), fields.number("s", 0)
    good = fields.matched & (year >= 1) & (year <= 9999) & (month >= 1) & (month <= 12) & fields.clock_fits()
    year, month = np.where(good, year, 1970), np.where(good, month, 1)
    days, exists = _days(fields, year, month)
    millis = ((fields.hour() * 60 + minute) * 60 + second) * 1000 + fields.number("S", 0)
    return ParsedTimes(days * _MILLIS_DAY + millis, good & exists, fields.offset())


def _days(fields: _Fields, year: Any, month: Any) -> tuple[Any, Any]:
    """Days since 1970-01-01 of the day of the year or month that was read, and whether there is that day."""
    if "D" in fields:
        first, last = np.ones_like(month), np.full_like(month, 12)
        length = days_of(year, last, last_day_of(year, last)) - days_of(year, first, 1) + 1
        day = fields.number("D", 1)
        return days_of(year, first, day), (day >= 1) & (day <= length)
    day = fields.number("d", 1)
    return days_of(year, month, day), (day >= 1) & (day <= last_day_of(year, month))


def parse_smart(texts: pa.Array, pattern: str, digits: int) -> ParsedTimes:
    """DateTimeFormatter's reading, in units of 10^-digits seconds (6 or 9); `offset` is what the text says, if it
    does."""
    fields = _Fields(texts, pattern, Dialect.FORMATTER)
    year = fields.number("yu", 1970)
    for letter in "yu":
        if letter in fields and fields.found[letter][0].count == 2:
            year = year + 2000
    month, minute, second = fields.month(), fields.number("m", 0), fields.number("s", 0)
    good = fields.matched & (year >= 1) & (year <= 9999) & (month >= 1) & (month <= 12) & fields.clock_fits()
    year, month = np.where(good, year, 1970), np.where(good, month, 1)
    days, exists = _days(fields, year, month)
    if digits == 9:
        # Nanoseconds of other years do not fit 64 bits.
        exists &= (year > 1677) & (year < 2262)
        days = np.where(exists, days, 0)
    good &= exists
    values = (days * 86_400 + (fields.hour() * 60 + minute) * 60 + second) * 10**digits
    if "S" in fields:
        count = fields.found["S"][0].count
        fraction = fields.number("S", 0)
        values = values + (fraction * 10 ** (digits - count) if count <= digits else fraction // 10 ** (count - digits))
    return ParsedTimes(values, good, fields.offset())
