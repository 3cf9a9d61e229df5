"""Java's regular expressions: read once, run by RE2 (Arrow) over columns, or by Python's `re` where RE2 cannot.

RE2 and Java agree on nearly everything that queries use (leftmost match, alternatives in order, ASCII classes). A
pattern that RE2 refuses (look-around, back references, possessive quantifiers) runs in `re`, once per distinct text.
Differences that stay: `.` excludes only line feeds, `$` under RE2 matches at the very end only, and classes with `&&`
or a class inside a class are refused.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError

__all__ = ["JavaRegex", "java_regex"]

_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
}
_CLASSES = {"s": r" \t\n\x0b\f\r", "h": r" \t\u00a0", "v": r"\n\x0b\f\r\u0085"}
_PROBES = ("", "a", "ab", "a b", "1")


@dataclass(frozen=True, slots=True)
class JavaRegex:
    """A pattern. `python` finds the same as Java; `tokens` are its pieces, capturing groups marked by their number."""

    python: re.Pattern[str]
    tokens: tuple[tuple[int, str], ...]
    in_re2: bool
    matches_empty: bool

    @property
    def groups(self) -> int:
        return self.python.groups

    def re2(self, group: int | None = None) -> str:
        """The pattern for Arrow; with `group`, that one (0: all) is captured under the name `g`, the others are not."""
        parts = [
            _spelled(text) if not number else "(?P<g>" if number == group else "(?:" for number, text in self.tokens
        ]
        whole = "".join(parts)
        return f"(?P<g>{whole})" if group == 0 else whole

    def first_group(self, text: str, group: int) -> str | None:
        """A group of the first match; None when nothing matches or the group takes no part."""
        found = self.python.search(text)
        return None if found is None else found.group(group)


def _spelled(text: str) -> str:
    """A piece as RE2 spells it: the end of the text is `\\z` there and `\\Z` in `re`, characters beyond Latin-1 have
    braces."""
    return (
        text.replace("\\Z", "\\z") if text in (r"\Z", r"(?:\n?\Z)") else re.sub(r"\\u([0-9a-f]{4})", r"\\x{\1}", text)
    )


@functools.lru_cache(maxsize=512)
def java_regex(pattern: str) -> JavaRegex | None:
    """The pattern, or None where Java refuses it."""
    try:
        tokens = _tokens(pattern)
        python = re.compile("".join(text for _, text in tokens), re.ASCII)
    except (re.error, IndexError, OverflowError, ValueError):
        return None
    empty = any(m.end() == m.start() for probe in _PROBES for m in python.finditer(probe))
    read = JavaRegex(python, tuple(tokens), True, empty)
    try:
        pc.match_substring_regex(pa.array([""]), read.re2())
    except pa.ArrowException:
        return JavaRegex(python, tuple(tokens), False, empty)
    return read


def _tokens(pattern: str) -> list[tuple[int, str]]:
    """The pattern in the words of RE2 and `re`: pieces, each with the number of the capturing group that it opens, or
    0."""
    tokens: list[tuple[int, str]] = []
    groups = 0
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char == "\\":
            text, position = _escape(pattern, position + 1, inside=False)
        elif char == "[":
            text, position = _class(pattern, position + 1)
        elif char == "(" and pattern[position + 1 : position + 2] != "?":
            groups += 1
            tokens.append((groups, "("))
            position += 1
            continue
        elif pattern.startswith("(?<", position) and pattern[position + 3 : position + 4] not in ("=", "!"):
            groups += 1
            end = pattern.index(">", position) if ">" in pattern[position:] else len(pattern)
            tokens.append((groups, f"(?P<{pattern[position + 3 : end]}>"))
            position = end + 1
            continue
        elif pattern.startswith("(?P", position):
            raise re.error("Java has no (?P")
        else:
            text, position = char, position + 1
        tokens.append((0, text))
    return tokens


def _escape(pattern: str, position: int, inside: bool) -> tuple[str, int]:
    """What stands behind a backslash, and where to go on."""
    char = pattern[position]
    following = position + 1
    if char == "Q":
        end = pattern.find("\\E", following)
        quoted = pattern[following:] if end < 0 else pattern[following:end]
        return re.escape(quoted), len(pattern) if end < 0 else end + 2
    if char in "pP":
        negative = char == "P"
        end = pattern.index("}", following) if pattern[following] == "{" else following
        name = pattern[following + 1 : end] if pattern[following] == "{" else pattern[following]
        ranges = _POSIX.get(name)
        if ranges is None:
            ranges = _category("L" if name == "IsAlphabetic" else name.removeprefix("Is"))
        if inside and negative:
            raise re.error("negated class inside a class")
        return ranges if inside else f"[{'^' if negative else ''}{ranges}]", end + 1
    if char in _CLASSES:
        return _CLASSES[char] if inside else f"[{_CLASSES[char]}]", following
    if char == "u":
        return re.escape(chr(int(pattern[following : following + 4], 16))), following + 4
    if char == "x":
        end = pattern.index("}", following) if pattern[following] == "{" else following + 1
        digits = pattern[following : end + 1].strip("{}")
        return re.escape(chr(int(digits, 16))), end + 1
    if char == "0":
        digits = re.match(r"[0-3]?[0-7]{1,2}", pattern[following:])
        if digits is None:
            raise re.error("no octal digits")
        return re.escape(chr(int(digits[0], 8))), following + digits.end()
    if char == "k":
        end = pattern.index(">", following)
        return f"(?P={pattern[following + 1 : end]})", end + 1
    if char == "e":
        return r"\x1b", following
    if char == "z":
        return r"\Z", following
    if char == "Z":
        return r"(?:\n?\Z)", following
    if char.isalpha() and char.isascii() and char not in "tnfraAbBdDsSwW":
        raise re.error(f"unknown escape {char}")
    return "\\" + char, following


@functools.cache
def _category(name: str) -> str:
    """The characters of a Unicode category, `L` or `Lu`, as ranges inside a class."""
    if not re.fullmatch(r"[LMNPSZC][a-z]?", name):
        raise ExpressionError(
            f"the character class {name} is not supported in regular expressions",
            code="E2003",
            hint="Unicode categories (L, Lu, Nd, ...) and POSIX classes (Alpha, Digit, ...) are",
        )
    inside = [c for c in range(0x110000) if unicodedata.category(chr(c)).startswith(name) and not 0xD800 <= c <= 0xDFFF]
    ranges: list[list[int]] = []
    for code in inside:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{re.escape(chr(a))}-{re.escape(chr(b))}" if a != b else re.escape(chr(a)) for a, b in ranges)


def _class(pattern: str, position: int) -> tuple[str, int]:
    """A character class, from behind its bracket."""
    parts = ["["]
    if pattern[position] == "^":
        parts.append("^")
        position += 1
    first = True
    while first or pattern[position] != "]":
        char = pattern[position]
        if char == "\\":
            text, position = _escape(pattern, position + 1, inside=True)
            parts.append(text)
        elif char == "[" or pattern.startswith("&&", position):
            raise ExpressionError(
                f"the regular expression '{pattern}' combines character classes, which is not supported",
                code="E2003",
                hint="write one class, for example [a-df-z] for [a-z&&[^e]]",
            )
        else:
            parts.append("\\]" if char == "]" else char)
            position += 1
        first = False
    return "".join(parts) + "]", position + 1
