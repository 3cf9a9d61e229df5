"""Literals of the language that sqlglot has no class for: intervals, and dates and times with their type in front.

`interval_value` computes what an interval amounts to, so that nobody else has to know how `'1 10:20'` is read.
"""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import pairwise

from sqlglot import exp

from runtime.core.errors import SqlSyntaxError
from sqlengine.parse.interval_texts import amount_of
from sqlengine.parse.lexer import BINARY, NUMBER, STRING, UNICODE
from sqlengine.parse.nodes import IntervalLiteral, TemporalLiteral
from sqlengine.parse.spans import span_of
from sqlengine.parse.types import TypeGrammar

__all__ = ["INTERVAL_FIELDS", "TIME_UNITS", "LiteralGrammar", "interval_unit", "interval_value"]

INTERVAL_FIELDS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_MILLIS = {"WEEK": 604_800_000, "DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1_000}
_WITHIN = {"MONTH": 12, "HOUR": 24, "MINUTE": 60, "SECOND": 60}
_MOST_DIGITS = 9
_INTERVAL_UNITS = (*_MONTHS, *_MILLIS)

TIME_UNITS = frozenset(
    (
        "MILLENNIUM",
        "CENTURY",
        "DECADE",
        "YEAR",
        "QUARTER",
        "MONTH",
        "WEEK",
        "DAY",
        "DOY",
        "DOW",
        "ISODOW",
        "ISOYEAR",
        "HOUR",
        "MINUTE",
        "SECOND",
        "MILLISECOND",
        "MICROSECOND",
        "NANOSECOND",
        "EPOCH",
        "FRAC_SECOND",
    )
)
"""Units of EXTRACT, FLOOR, CEIL, TIMESTAMPADD and TIMESTAMPDIFF; the prefix SQL_TSI_ may stand before them."""

_TEMPORAL = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")


class LiteralGrammar(TypeGrammar):
    """Reads literals."""

    def literal(self) -> exp.Expr | None:
        """A literal if one stands here, else None."""
        token = self.token
        kind = token.kind
        if kind is STRING or kind is UNICODE:
            text = self.string().value
            while self.token.kind is STRING and "\n" in self.text[self.previous.end : self.token.start]:
                text += self.string().value  # the standard joins texts that stand on lines of their own
            return self.place(exp.Literal(this=text, is_string=True), token)
        if kind is NUMBER:
            self.advance()
            return self.place(exp.Literal(this=token.text, is_string=False), token)
        if kind is BINARY:
            self.advance()
            return self.place(exp.HexString(this=token.value), token)
        match token.upper:
            case "TRUE" | "FALSE":
                self.advance()
                return self.place(exp.Boolean(this=token.upper == "TRUE"), token)
            case "NULL" | "UNKNOWN":
                self.advance()
                return self.place(exp.Null(), token)
            case "INTERVAL" if self.peek().kind is STRING or self.peek().upper in ("+", "-"):
                return self.interval()
            case word if word in _TEMPORAL and self.peek().kind is STRING:
                self.advance()
                return self.place(TemporalLiteral(this=self.advance().value, kind=word), token)
            case "TIMESTAMP" if self.at("TIMESTAMP", "WITH", "LOCAL", "TIME", "ZONE"):
                self.expect("TIMESTAMP", "WITH", "LOCAL", "TIME", "ZONE")
                return self.place(TemporalLiteral(this=self.string().value, kind="TIMESTAMP_LTZ"), token)
        return None

    def interval(self) -> IntervalLiteral:
        """`INTERVAL [+|-] 'text' unit [(p[, s])] [TO unit [(s)]]`, or PostgreSQL's `INTERVAL '1 day 02:00'`."""
        start = self.expect("INTERVAL")
        negative = self.match_any("+", "-") == "-"
        content = self.string("the amount in single quotes")
        if self.token.upper.removesuffix("S") not in _INTERVAL_UNITS:
            amount = amount_of(content.value)
            if amount is not None:
                return self.place(IntervalLiteral(this=amount[0], unit=amount[1], negative=negative), start)
        unit, to_unit, precision, fraction = self.interval_qualifier()
        tree = IntervalLiteral(
            this=content.value, unit=unit, to_unit=to_unit, precision=precision, fraction=fraction, negative=negative
        )
        return self.place(tree, start)

    def interval_qualifier(self) -> tuple[str, str | None, int | None, int | None]:
        """`unit [(p[, s])] [TO unit [(s)]]` as (unit, to_unit, precision, fraction)."""
        start = self.token
        unit = self._interval_unit()
        precision = fraction = None
        if self.match("("):
            precision = self._bounded("precision", 1, 9)
            if self.match(","):
                fraction = self._bounded("precision", 0, 9)
            self.expect(")")
        to_unit = None
        if self.match("TO"):
            to_unit = self._interval_unit()
            if self.match("("):
                fraction = self._bounded("precision", 0, 9)
                self.expect(")")
            same_family = (unit in _MONTHS) == (to_unit in _MONTHS)
            plain = unit in INTERVAL_FIELDS and to_unit in INTERVAL_FIELDS
            if not plain or not same_family or INTERVAL_FIELDS.index(unit) >= INTERVAL_FIELDS.index(to_unit):
                self.refuse(f"an interval cannot go from {unit} to {to_unit}", start)
        return unit, to_unit, precision, fraction

    def _interval_unit(self) -> str:
        word = self.token.upper.removesuffix("S")
        if word not in _INTERVAL_UNITS:
            self.fail("a unit (YEAR, MONTH, DAY, HOUR, MINUTE, SECOND, ...)")
        self.advance()
        return word


def interval_unit(unit: str) -> int:
    """How many months or milliseconds a field of an interval is."""
    return _MONTHS.get(unit) or _MILLIS[unit]


def interval_value(tree: IntervalLiteral) -> tuple[int | None, int | None]:
    """What an interval amounts to: (months, None) or (None, milliseconds).

    Digits of a second below the millisecond are cut off, as Flink stores milliseconds.

    Raises:
        SqlSyntaxError: the text does not fit the units.
    """
    text, first, last = str(tree.args["this"]).strip(), tree.args["unit"], tree.args.get("to_unit")
    sign = -1 if tree.args.get("negative") else 1
    if text[:1] in ("+", "-"):
        sign = -sign if text[0] == "-" else sign
        text = text[1:].strip()
    units: list[str] = [first]
    if last is not None:
        units = list(INTERVAL_FIELDS[INTERVAL_FIELDS.index(first) : INTERVAL_FIELDS.index(last) + 1])
    pattern = r"(\d+)"
    for before, _ in pairwise(units):
        separator = {"YEAR": "-", "DAY": r"\s+"}.get(before, ":")
        pattern += separator + r"(\d+)"
    if units[-1] == "SECOND":
        pattern += r"(?:\.(\d*))?"
    match = re.fullmatch(pattern, text)
    # Every field but the first counts within the one before it: '1-13' has a month too many.
    too_large = match is not None and any(
        int(n) >= _WITHIN[u] for n, u in zip(match.groups()[1:], units[1:], strict=False)
    )
    if match is None or too_large:
        shape = first if last is None else f"{first} TO {last}"
        raise SqlSyntaxError(
            f"'{tree.args['this']}' is no interval of {shape}",
            span=span_of(tree),
            hint=f"for example {_example(units)}",
        )
    _check_digits(tree, match, units)
    if first in _MONTHS:
        return sign * sum(int(n) * _MONTHS[u] for n, u in zip(match.groups(), units, strict=True)), None
    numbers = match.groups()
    millis = sum(int(n) * _MILLIS[u] for n, u in zip(numbers, units, strict=False))
    if units[-1] == "SECOND" and numbers[-1]:
        millis += int(Decimal(f"0.{numbers[-1]}") * 1000)
    return None, sign * millis


def _check_digits(tree: IntervalLiteral, match: re.Match[str], units: list[str]) -> None:
    """Refuse a number with more digits than the interval says, `INTERVAL '1000' DAY(3)`; where it says nothing, any."""
    precision, fraction = tree.args.get("precision"), tree.args.get("fraction")
    leading = match.group(1).lstrip("0")
    if precision is not None and len(leading) > precision:
        raise SqlSyntaxError(
            f"{match.group(1)} has more digits than {units[0]}({precision})",
            code="E1308",
            span=span_of(tree),
            hint=f"write {units[0]}({len(leading)})" if len(leading) <= _MOST_DIGITS else None,
        )
    behind = match.group(match.lastindex or 1) if units[-1] == "SECOND" and "." in match.group() else ""
    if fraction is not None and len(behind) > fraction:
        raise SqlSyntaxError(
            f"'{tree.args['this']}' has more digits behind the point than SECOND({fraction})",
            code="E1308",
            span=span_of(tree),
            hint="write more digits of the fraction: SECOND(2, 6), DAY TO SECOND(6)",
        )


def _example(units: list[str]) -> str:
    written = {"YEAR": "2", "MONTH": "6", "DAY": "1", "HOUR": "10", "MINUTE": "30", "SECOND": "15"}
    text = written.get(units[0], "5")
    for before, unit in pairwise(units):
        text += {"YEAR": "-", "DAY": " "}.get(before, ":") + written[unit]
    return f"INTERVAL '{text}' {units[0]}" + (f" TO {units[-1]}" if len(units) > 1 else "")
