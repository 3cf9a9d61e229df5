"""Intervals as PostgreSQL writes them, with the units in the text: '1 day 2 hours', '1 year 6 mons', '02:30', '-3 days'.

Source: PostgreSQL's documentation, "Interval Input", its traditional format.
"""

from __future__ import annotations

import re
from decimal import Decimal

__all__ = ["amount_of"]

_MONTHS = {"YEAR": 12, "YR": 12, "Y": 12, "MONTH": 1, "MON": 1}
_MILLIS = {
    "WEEK": 604_800_000, "W": 604_800_000, "DAY": 86_400_000, "D": 86_400_000, "HOUR": 3_600_000, "HR": 3_600_000,
    "H": 3_600_000, "MINUTE": 60_000, "MIN": 60_000, "M": 60_000, "SECOND": 1_000, "SEC": 1_000, "S": 1_000,
    "MILLISECOND": 1, "MS": 1,
}  # fmt: skip
_PART = re.compile(
    r"\s*(?:(?P<sign>[-+]?)(?P<hours>\d{1,9}):(?P<minutes>[0-5]?\d)(?::(?P<seconds>[0-5]?\d(?:\.\d{1,9})?))?"
    r"|(?P<amount>[-+]?\d{1,9}(?:\.\d{1,9})?)\s*(?P<unit>[a-zA-Z]+))(?=\s|$)"
)


def amount_of(text: str) -> tuple[str, str] | None:
    """The text and the unit, MONTH or SECOND, of an interval literal that means the same; None for what is no such text,
    or has months and days: an interval has only one of both here. Seconds are cut off below the millisecond."""
    months: Decimal | None = None
    millis: Decimal | None = None
    rest = text.strip()
    ago = re.search(r"\s+ago$", rest, re.IGNORECASE)
    if ago is not None:
        rest = rest[: ago.start()]
    at = 0
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None:
            return None
        at = part.end()
        if part["hours"] is not None:
            time = int(part["hours"]) * 3_600_000 + int(part["minutes"]) * 60_000 + Decimal(part["seconds"] or 0) * 1000
            millis = (millis or Decimal(0)) + (-time if part["sign"] == "-" else time)
            continue
        unit, amount = part["unit"].upper(), Decimal(part["amount"])
        word = unit if unit in _MONTHS or unit in _MILLIS else unit.removesuffix("S")
        if word in _MONTHS:
            months = (months or Decimal(0)) + amount * _MONTHS[word]
        elif word in _MILLIS:
            millis = (millis or Decimal(0)) + amount * _MILLIS[word]
        else:
            return None
    sign = -1 if ago is not None else 1
    if months is not None and millis is None and months == int(months):
        return str(sign * int(months)), "MONTH"
    if millis is not None and months is None:
        whole = int(millis)
        return f"{'-' if sign * whole < 0 else ''}{abs(whole) // 1000}.{abs(whole) % 1000:03d}", "SECOND"
    return None
