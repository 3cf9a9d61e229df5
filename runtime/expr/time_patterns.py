"""TO_CHAR of times by those of PostgreSQL's patterns that DATE_FORMAT does not have: names with and without blanks, FM, TH,
ISO weeks, quarters, Julian days. Each time by itself.

Source: PostgreSQL 15's manual, "Data Type Formatting Functions", and `DCH_to_char` of its source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache

from runtime.core.errors import ExpressionError

__all__ = ["time_text"]

_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")
_JULIAN = 1_721_425
"""The Julian day of the first day of the year 1, without one."""
_Number = Callable[[datetime], int]


def _day_of_year(t: datetime) -> int:
    return t.timetuple().tm_yday


def _fraction(digits: int) -> _Number:
    return lambda time: time.microsecond // 10 ** (6 - digits)


_NUMBERS: dict[str, tuple[_Number, int]] = {
    "HH24": (lambda t: t.hour, 2), "HH12": (lambda t: t.hour % 12 or 12, 2), "HH": (lambda t: t.hour % 12 or 12, 2),
    "MI": (lambda t: t.minute, 2), "SS": (lambda t: t.second, 2), "MS": (lambda t: t.microsecond // 1000, 3),
    "US": (lambda t: t.microsecond, 6), "SSSSS": (lambda t: (t.hour * 60 + t.minute) * 60 + t.second, 1),
    "SSSS": (lambda t: (t.hour * 60 + t.minute) * 60 + t.second, 1),
    **{f"FF{n}": (_fraction(n), n) for n in range(1, 7)},
    "YYYY": (lambda t: t.year, 4), "YYY": (lambda t: t.year % 1000, 3), "YY": (lambda t: t.year % 100, 2),
    "Y": (lambda t: t.year % 10, 1), "IYYY": (lambda t: t.isocalendar()[0], 4),
    "IYY": (lambda t: t.isocalendar()[0] % 1000, 3), "IY": (lambda t: t.isocalendar()[0] % 100, 2),
    "I": (lambda t: t.isocalendar()[0] % 10, 1), "MM": (lambda t: t.month, 2), "DDD": (_day_of_year, 3),
    "DD": (lambda t: t.day, 2), "D": (lambda t: t.isoweekday() % 7 + 1, 1), "ID": (lambda t: t.isoweekday(), 1),
    "IDDD": (lambda t: (t.isocalendar()[1] - 1) * 7 + t.isoweekday(), 3), "W": (lambda t: (t.day - 1) // 7 + 1, 1),
    "WW": (lambda t: (_day_of_year(t) - 1) // 7 + 1, 2), "IW": (lambda t: t.isocalendar()[1], 2),
    "CC": (lambda t: (t.year + 99) // 100, 2), "J": (lambda t: t.toordinal() + _JULIAN, 1),
    "Q": (lambda t: (t.month + 2) // 3, 1),
}  # fmt: skip
"""The number of a pattern, and with how many digits it is written."""
_TEXTS: dict[str, tuple[Callable[[datetime], str], int]] = {
    "Month": (lambda t: _MONTHS[t.month - 1], 9), "Mon": (lambda t: _MONTHS[t.month - 1][:3], 0),
    "Day": (lambda t: _DAYS[t.weekday()], 9), "Dy": (lambda t: _DAYS[t.weekday()][:3], 0),
}  # fmt: skip
"""The word of a pattern, and with how many blanks it is filled up; in capitals and small letters as the pattern is."""
_MARKS = {
    **dict.fromkeys(("AM", "PM"), ("AM", "PM")), **dict.fromkeys(("am", "pm"), ("am", "pm")),
    **dict.fromkeys(("A.M.", "P.M."), ("A.M.", "P.M.")), **dict.fromkeys(("a.m.", "p.m."), ("a.m.", "p.m.")),
}  # fmt: skip
_ERAS = {"BC": "AD", "AD": "AD", "bc": "ad", "ad": "ad", "B.C.": "A.D.", "A.D.": "A.D.", "b.c.": "a.d.", "a.d.": "a.d."}
_REFUSED = ("TZH", "TZM", "TZ", "OF", "SP")
_Part = Callable[[datetime], str]


def time_text(time: datetime, pattern: str) -> str:
    """A point in time by a pattern such as 'FMDay, DD Month YYYY'. Raises ExpressionError E2002."""
    return "".join(part(time) for part in _read(pattern))


@cache
def _read(pattern: str) -> Sequence[_Part]:
    found: list[_Part] = []
    at = 0
    while at < len(pattern):
        if pattern[at] == '"':
            end = pattern.find('"', at + 1)
            end = len(pattern) if end < 0 else end
            found.append(_constant(pattern[at + 1 : end]))
            at = end + 1
            continue
        prefix = pattern[at : at + 2].upper() if pattern[at : at + 2].upper() in ("FM", "TM", "FX") else ""
        at += len(prefix)
        narrow = prefix in ("FM", "TM")
        read = _word(pattern, at)
        if read is None:
            found.append(_constant(pattern[at : at + 1]))
            at += 1
            continue
        word, at = read
        suffix = pattern[at : at + 2] if pattern[at : at + 2] in ("TH", "th") else ""
        at += len(suffix)
        found.append(_part(word, narrow, suffix))
    return found


def _constant(text: str) -> _Part:
    return lambda time: text


def _word(pattern: str, at: int) -> tuple[str, int] | None:
    """The longest word of a pattern that stands at a place, and where it ends."""
    for size in range(5, 0, -1):
        given = pattern[at : at + size]
        if len(given) < size:
            continue
        plain = given in (given.upper(), given.lower())
        known = (plain and given.upper() in _NUMBERS) or given in _MARKS or given in _ERAS or given in ("RM", "rm")
        named = given.capitalize() in _TEXTS and (plain or given == given.capitalize())
        if known or named or (plain and given.upper() == "Y,YYY"):
            return given, at + size
        if plain and given.upper() in _REFUSED:
            raise ExpressionError(
                f"TO_CHAR takes no '{given}' here", code="E2002", hint="for example 'FMDay, DD Month YYYY HH24:MI:SS'"
            )
    return None


def _part(word: str, narrow: bool, suffix: str) -> _Part:
    if word.upper() == "Y,YYY":
        return lambda time: _ordinal(f"{time.year // 1000},{time.year % 1000:03d}", suffix)
    if word in _MARKS:
        before, after = _MARKS[word]
        return lambda time: after if time.hour >= 12 else before
    if word in _ERAS:
        return _constant(_ERAS[word])
    if word in ("RM", "rm"):
        return lambda time: _cased(_ROMAN[time.month - 1], word).ljust(0 if narrow else 4)
    if word.upper() in _NUMBERS:
        number, width = _NUMBERS[word.upper()]
        # Fractions of a second keep their zeros.
        width = 0 if narrow and not word.upper().startswith(("FF", "MS", "US")) else width
        return lambda time: _ordinal(f"{number(time):0{width}d}", suffix)
    name, blanks = _TEXTS[word.capitalize()]
    return lambda time: _cased(name(time), word).ljust(0 if narrow else blanks)


def _cased(text: str, word: str) -> str:
    return text.upper() if word == word.upper() else text.lower() if word == word.lower() else text


def _ordinal(number: str, suffix: str) -> str:
    if not suffix:
        return number
    last = "th" if number[-2:-1] == "1" else {"1": "st", "2": "nd", "3": "rd"}.get(number[-1], "th")
    return number + (last.upper() if suffix[0] == "T" else last)
