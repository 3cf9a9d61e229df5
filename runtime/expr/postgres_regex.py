"""PostgreSQL's regular expressions (ARE), as patterns of Python's `re`.

Other than in Java, `.` takes line feeds, `$` is the end of the text alone, and words begin and end at `\\m` and `\\M`. What stays
different: of alternatives the first one that fits is taken, not the longest.
Source: PostgreSQL 15, "POSIX Regular Expressions", tables 9.18 to 9.24.
"""

from __future__ import annotations

import functools
import re

from runtime.core.errors import ExpressionError

__all__ = ["postgres_regex", "without_global"]

_CLASSES = {
    "alpha": r"^\W\d_", "digit": r"\d", "alnum": r"^\W_", "lower": "a-z", "upper": "A-Z", "space": r"\s", "blank": r" \t",
    "punct": r"!-/:-@\[-`{-~", "xdigit": "0-9a-fA-F", "cntrl": r"\x00-\x1f\x7f", "graph": r"!-~", "print": r" -~", "word": r"\w",
}  # fmt: skip
_ESCAPES = {
    "m": r"\b(?=\w)",
    "M": r"\b(?<=\w)",
    "y": r"\b",
    "Y": r"\B",
    "A": r"\A",
    "Z": r"\Z",
    "B": r"\\",
    "e": r"\x1b",
}
_EMBEDDED = re.compile(r"\(\?([a-z]+)\)")
_LETTERS = "a-zA-ZÀ-ÖØ-öø-ÿ"


def without_global(flags: str) -> tuple[str, bool]:
    """The flags without `g`, and whether that was there."""
    return flags.replace("g", ""), "g" in flags


@functools.lru_cache(maxsize=512)
def postgres_regex(pattern: str, flags: str) -> re.Pattern[str]:
    """The compiled pattern.

    Raises:
        ExpressionError: E2003, it is no regular expression; E2029, an unknown flag.
    """
    text = pattern
    embedded = _EMBEDDED.match(text)
    if embedded is not None:
        text, flags = text[embedded.end() :], flags + embedded[1]
    if text.startswith("***="):
        text, flags = text[4:], flags + "q"
    elif text.startswith("***:"):
        text = text[4:]
    options, plain, lines, anchors = 0, False, False, False
    for flag in flags:
        match flag:
            case "i":
                options |= re.IGNORECASE
            case "c":
                options &= ~re.IGNORECASE
            case "n" | "m":
                lines = anchors = True
            case "p":
                lines, anchors = True, False
            case "w":
                lines, anchors = False, True
            case "s":
                lines = anchors = False
            case "x":
                options |= re.VERBOSE
            case "t":
                options &= ~re.VERBOSE
            case "q":
                plain = True
            case "e":
                plain = False
            case _:
                raise ExpressionError(
                    f"'{flag}' is no flag of a regular expression",
                    code="E2029",
                    hint="there are g (all matches), i, c, n, s, x and q",
                )
    options |= 0 if lines else re.DOTALL
    options |= re.MULTILINE if anchors else 0
    try:
        return re.compile(re.escape(text) if plain else _translated(text, anchors), options)
    except (re.error, OverflowError, RecursionError) as error:
        raise ExpressionError(
            f"'{pattern[:60]}' is not a regular expression: {error}",
            code="E2003",
            hint="escape special characters with \\",
        ) from None


def _translated(pattern: str, anchors: bool) -> str:
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            parts.append(_ESCAPES.get(pattern[at + 1], pattern[at : at + 2]))
            at += 2
        elif char == "[":
            part, at = _bracket(pattern, at)
            parts.append(part)
        else:
            parts.append(r"\Z" if char == "$" and not anchors else char)
            at += 1
    return "".join(parts)


def _bracket(pattern: str, at: int) -> tuple[str, int]:
    """A class in brackets that begins at a place, and the place behind it."""
    for word, meaning in (("[[:<:]]", _ESCAPES["m"]), ("[[:>:]]", _ESCAPES["M"])):
        if pattern.startswith(word, at):
            return meaning, at + len(word)
    start = at
    at += 1
    negated = pattern.startswith("^", at)
    at += negated
    items: list[str] = []
    others: list[str] = []
    first = True
    while at < len(pattern) and (pattern[at] != "]" or first):
        first = False
        named = re.compile(r"\[:(\w+):\]").match(pattern, at)
        if named is not None and named[1] in _CLASSES:
            found = _CLASSES[named[1]]
            (others if found.startswith("^") else items).append(found)
            at = named.end()
        elif pattern[at] == "\\" and at + 1 < len(pattern):
            items.append(pattern[at : at + 2])
            at += 2
        else:
            items.append("\\" + pattern[at] if pattern[at] in "[]&~|" else pattern[at])
            at += 1
    if at >= len(pattern):
        return pattern[start:], len(pattern)
    chosen = [f"[{''.join(items)}]"] if items else []
    chosen += [f"[{other}]" for other in others]
    if len(chosen) == 1 and not negated:
        return chosen[0], at + 1
    if not negated:
        return f"(?:{'|'.join(chosen)})", at + 1
    if not others:
        return f"[^{''.join(items)}]", at + 1
    return f"(?:(?!{'|'.join(chosen)})(?s:.))", at + 1
