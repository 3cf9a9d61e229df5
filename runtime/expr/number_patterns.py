"""TO_CHAR of numbers: PostgreSQL's patterns, each number by itself.

A pattern becomes a list of parts; a number its digits, rounded to those of the pattern. Then the parts are written from left
to right, as `NUM_processor` of PostgreSQL 15 does (src/backend/utils/adt/formatting.c), whose oddities people rely on: where
the sign stands, which zeros are blanks, what FM takes away.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import cache

from runtime.core.errors import ExpressionError

__all__ = ["REAL_DIGITS", "number_text"]

_WORDS = ("EEEE", "FM", "MI", "PL", "PR", "RN", "SG", "SP", "TH", ",", ".", "0", "9", "B", "C", "D", "G", "L", "S", "V")
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
_DOUBLE_DIGITS = 15
REAL_DIGITS = 6
_ROMAN = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"),
    (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip
_TOO_LARGE = "#" * 15


def number_text(number: int | float | Decimal, pattern: str, float_digits: int = _DOUBLE_DIGITS) -> str:
    """A number by a pattern such as '999,990.00'. `float_digits`: how many digits of a floating number count, 15 or 6.

    Raises ExpressionError E2002 for what is no pattern.
    """
    return _written(number, _read(pattern), float_digits)


@dataclass
class _Pattern:
    """What a pattern says. `parts`: a word of `_WORDS`, or a text that stands as it is (then `is_text`)."""

    parts: list[tuple[str, bool]] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    pre: int = 0
    post: int = 0
    multiplied: int = 0
    zero_start: int = 0
    zero_end: int = 0
    sign_first: bool = False
    sign_last: bool = False
    sign_at: int = 0
    lower_roman: bool = False

    @property
    def fills(self) -> bool:
        return "FM" not in self.words

    @property
    def has_point(self) -> bool:
        return "." in self.words or "D" in self.words

    @property
    def has_zero(self) -> bool:
        return self.zero_start > 0


def _wrong(text: str, why: str) -> ExpressionError:
    return ExpressionError(f"'{text}' is no pattern of numbers: {why}", code="E2002", hint="for example '999,990.00'")


@cache
def _read(text: str) -> _Pattern:
    found, at = _Pattern(), 0
    while at < len(text):
        if text[at] == '"':
            quoted, at = _quoted(text, at + 1)
            found.parts.append((quoted, True))
            continue
        if text[at] == "\\" and text[at + 1 : at + 2] == '"':
            at += 1
        word = next((w for w in _WORDS if text[at : at + len(w)].upper() == w and text[at] != '"'), None)
        if word is None:
            found.parts.append((text[at], True))
            at += 1
            continue
        given = text[at : at + len(word)]
        at += len(word)
        _add(found, word, text)
        found.parts.append((given if word == "TH" else word, False))
        found.lower_roman = found.lower_roman or given == "rn"
    return found


def _quoted(text: str, at: int) -> tuple[str, int]:
    kept = ""
    while at < len(text) and text[at] != '"':
        if text[at] == "\\" and at + 1 < len(text):
            at += 1
        kept += text[at]
        at += 1
    return kept, at + 1


def _add(found: _Pattern, word: str, text: str) -> None:
    words = found.words
    if "EEEE" in words and word not in ("FM",):
        raise _wrong(text, "EEEE is its last part")
    match word:
        case "9" | "0":
            if "PR" in words:
                raise _wrong(text, f"{word} stands before PR")
            if "V" in words and word == "9":
                found.multiplied += 1
            elif found.has_point:
                found.post += 1
            else:
                found.pre += 1
            if word == "0":
                if not found.zero_start and not found.has_point:
                    found.zero_start = found.pre
                found.zero_end = found.pre + found.post
        case "." | "D":
            if found.has_point:
                raise _wrong(text, "it has several points")
            if "V" in words:
                raise _wrong(text, "V and a point do not go together")
        case "S":
            if "S" in words:
                raise _wrong(text, "S stands there twice")
            if words & {"PL", "MI", "SG", "PR"}:
                raise _wrong(text, "S goes with none of PL, MI, SG and PR")
            found.sign_first = not found.has_point
            found.sign_last = found.has_point
            found.sign_at = found.pre
        case "MI" | "PL" | "SG":
            if "S" in words:
                raise _wrong(text, f"S and {word} do not go together")
        case "PR":
            if words & {"S", "PL", "MI", "SG"}:
                raise _wrong(text, "PR goes with none of S, PL, MI and SG")
        case "V":
            if found.has_point:
                raise _wrong(text, "V and a point do not go together")
        case "EEEE":
            if words & {"FM", "S", "PL", "MI", "SG", "PR", "RN", "V"}:
                raise _wrong(text, "EEEE goes with digits and a point alone")
        case _:
            pass
    words.add(word)


def _written(number: int | float | Decimal, pattern: _Pattern, float_digits: int) -> str:
    if "RN" in pattern.words:
        return _roman(number, pattern)
    if "EEEE" in pattern.words:
        return _scientific(number, pattern)
    pre, post = pattern.pre + pattern.multiplied, pattern.post
    if isinstance(number, float):
        number *= 10.0**pattern.multiplied
        if number != number or number in (float("inf"), -float("inf")):
            digits = "NaN" if number != number else "Infinity"
        else:
            whole = len(f"{abs(number):.0f}")
            post = 0 if whole >= float_digits else min(post, float_digits - whole)
            digits = f"{abs(number):.{post}f}"
        negative = number < 0
    else:
        exact = _EXACT.multiply(Decimal(number), Decimal(10) ** pattern.multiplied)
        rounded = _EXACT.quantize(exact, Decimal(1).scaleb(-post))
        digits, negative = f"{abs(rounded):f}", rounded < 0
    return _Writer(pattern, pre, post, digits, negative).text()


class _Writer:
    """Writes one number: the names are those of PostgreSQL's source."""

    def __init__(self, pattern: _Pattern, pre: int, post: int, digits: str, negative: bool) -> None:
        whole = len(digits.partition(".")[0])
        self.pattern = pattern
        self.spaces = max(pre - whole, 0)
        if whole > pre:
            digits = "#" * pre + "." + "#" * post
        self.number, self.at = digits, 0
        self.sign = "-" if negative else "+"
        self.pre, self.post = pre, post
        self.zero_start = pattern.zero_start - 1
        marked = pattern.words & {"PL", "MI", "SG"}
        self.bracket = "PR" in pattern.words and (bool(marked) or self.sign == "-" or pattern.fills)
        self.signed = "S" in pattern.words
        self.sign_last = pattern.sign_last
        self.sign_wrote = self._needs_no_sign()
        self.last_relevant = self._last_relevant()
        self.count = post + pre - 1 + (not self.sign_wrote and not self.spaces)
        self.inside = False
        self.ended = False
        """A place behind the last digit ends the text, as the zero byte does there."""
        self.current = 0
        self.out: list[str] = []

    def _needs_no_sign(self) -> bool:
        pattern, words = self.pattern, self.pattern.words
        plus, minus = bool(words & {"PL", "SG"}), bool(words & {"MI", "SG"})
        if plus or minus:
            return minus
        if self.signed and pattern.sign_first and self.pre == pattern.sign_at:
            self.sign_last = True
        return self.sign == "+" and not pattern.fills and not self.signed

    def _last_relevant(self) -> int | None:
        """The last place of the number that FM leaves; None: all."""
        pattern, point = self.pattern, self.number.find(".")
        if pattern.fills or not pattern.has_point or point < 0:
            return None
        last = max(len(self.number.rstrip("0")) - 1, point)
        if pattern.zero_end > self.spaces:
            last = max(last, min(len(self.number) - 1, pattern.zero_end - self.spaces))
        return last

    def text(self) -> str:
        fills = self.pattern.fills
        for part, is_text in self.pattern.parts:
            if self.ended:
                break
            if is_text:
                self.out.append(part)
                continue
            match part:
                case "9" | "0" | "." | "D":
                    self._digit(part)
                case "," | "G":
                    if self.inside:
                        self.out.append(",")
                    elif fills:
                        self.out.append(" ")
                case "L":
                    self.out.append(" ")
                case "MI":
                    self._mark("-", fills)
                case "PL":
                    self._mark("+", fills)
                case "SG":
                    self.out.append(self.sign)
                case "TH" | "th" | "Th" | "tH":
                    if self.sign == "+" and not self.pattern.has_point and not self.number.startswith("#"):
                        self.out.append(_ordinal(self.number) if part[0] == "t" else _ordinal(self.number).upper())
                case _:
                    pass
        return "".join(self.out)

    def _mark(self, sign: str, fills: bool) -> None:
        if self.sign == sign:
            self.out.append(sign)
        elif fills:
            self.out.append(" ")

    def _is_blank_zero(self) -> bool:
        """The zero of 0.5, which 9.9 leaves out."""
        return not self.pattern.has_zero and self.at == 0 and self.number.startswith("0") and self.post != 0

    def _digit(self, part: str) -> None:
        pattern, current = self.pattern, self.current
        self.inside = False
        zero = pattern.has_zero
        at_point = self.last_relevant is not None and self.number[self.last_relevant] == "."
        begins = current >= self.spaces or (zero and self.zero_start == current)
        if not self.sign_wrote and begins and (not self._is_blank_zero() or at_point):
            self._write_sign()
        if current < self.spaces and (not zero or self.zero_start > current):
            if pattern.fills:
                self.out.append(" ")
        elif zero and current < self.spaces:
            self.out.append("0")
            self.inside = True
        else:
            self._next(part, at_point)
        if self.ended:
            return
        end = self.count + (1 if self.spaces else 0) + (1 if pattern.has_point else 0)
        if self.last_relevant is not None and self.last_relevant == self.at:
            end = current
        if current + 1 == end:
            if self.sign_wrote and self.bracket:
                self.out.append(" " if self.sign == "+" else ">")
            elif self.signed and self.sign_last:
                self.out.append(self.sign)
        self.current += 1

    def _next(self, part: str, at_point: bool) -> None:
        """The next place of the number."""
        fills, last = self.pattern.fills, self.last_relevant
        place = self.number[self.at] if self.at < len(self.number) else ""
        if place == ".":
            if not at_point or not fills:
                self.out.append(".")
        elif last is not None and self.at > last and part != "0":
            pass
        elif self._is_blank_zero():
            if fills:
                self.out.append(" ")
            elif at_point:
                self.out.append("0")
        else:
            self.out.append(place)
            self.inside, self.ended = True, not place
        if place:
            self.at += 1

    def _write_sign(self) -> None:
        if self.signed:
            if not self.sign_last:
                self.out.append(self.sign)
                self.sign_wrote = True
            return
        self.sign_wrote = True
        if self.bracket:
            self.out.append(" " if self.sign == "+" else "<")
        elif self.sign == "-":
            self.out.append("-")
        elif self.pattern.fills:
            self.out.append(" ")


def _ordinal(number: str) -> str:
    if number[-2:-1] == "1":
        return "th"
    return {"1": "st", "2": "nd", "3": "rd"}.get(number[-1], "th")


def _roman(number: float | Decimal, pattern: _Pattern) -> str:
    whole = int(_EXACT.quantize(Decimal(number), Decimal(1))) if not isinstance(number, float) else round(number)
    text = ""
    if not 0 < whole < 4000:
        text = _TOO_LARGE
    for value, letters in _ROMAN if not text else ():
        text += letters * (whole // value)
        whole %= value
    text = text.lower() if pattern.lower_roman else text
    return text.rjust(15) if pattern.fills else text


def _scientific(number: float | Decimal, pattern: _Pattern) -> str:
    if isinstance(number, float):
        return f"{number: .{pattern.post}e}"
    given = Decimal(number)
    if not given:
        return " " + f"{0:.{pattern.post}e}"
    # What is rounded up to one more digit keeps it: 9.99 is 10.0e+00, as there.
    exponent = given.adjusted()
    digits = f"{abs(_EXACT.quantize(given.scaleb(-exponent), Decimal(1).scaleb(-pattern.post))):f}"
    return f"{'-' if given < 0 else ' '}{digits}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
