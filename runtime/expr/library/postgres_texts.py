"""Functions of texts that PostgreSQL has: of regular expressions, with flags, and texts made of arrays and taken apart.

A constant pattern is read once; each distinct text is looked at once.
Source: PostgreSQL 15, "String Functions and Operators" and "POSIX Regular Expressions".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from runtime.core.errors import ExpressionError
from runtime.core.rooms import Room
from runtime.core.types import BOOLEAN, INT, STRING, array
from runtime.expr.columns import as_array
from runtime.expr.distinct import map_distinct
from runtime.expr.function import EvalContext, Nulls, Value
from runtime.expr.library.declare import BOOLEAN_, CHARACTER, INTEGER, Family

if TYPE_CHECKING:
    import runtime.expr.postgres_regex as _regex
    import runtime.expr.sql_texts as _sql
else:
    _regex = Room("runtime.expr.postgres_regex")
    _sql = Room("runtime.expr.sql_texts")

__all__ = ["FAMILY"]

FAMILY = Family("postgres_texts")
_TEXTS = array(STRING)


def _of_values(
    name: str,
    arguments: list[Any],
    result: Any,
    document: str,
    function: Callable[..., Any],
    *,
    sees_nulls: bool = False,
) -> None:
    """Declares a function of Python values."""

    def evaluate(context: EvalContext, *values: Value) -> Value:
        given = [v if isinstance(v, pa.Scalar) else as_array(v, context.num_rows) for v in values]
        return map_distinct(function, given, context.result_type.arrow, context.num_rows, sees_nulls=sees_nulls)

    FAMILY.scalar(name, arguments, result, document, nulls=Nulls.MAYBE, can_fail=True)(evaluate)


def _parts(match: re.Match[str]) -> list[str | None]:
    """The groups of a match, or all of it."""
    return list(match.groups()) if match.re.groups else [match.group()]


def _match(text: str, pattern: str, flags: str) -> list[str | None] | None:
    if "g" in flags:
        raise ExpressionError(
            "REGEXP_MATCH takes no flag 'g'", code="E2029", hint="REGEXP_MATCHES gives a row for each match"
        )
    found = _regex.postgres_regex(pattern, flags).search(text)
    return None if found is None else _parts(found)


def _matches(text: str, pattern: str, flags: str) -> list[list[str | None]]:
    flags, every = _regex.without_global(flags)
    found = _regex.postgres_regex(pattern, flags).finditer(text)
    return [_parts(match) for match in found] if every else [_parts(match) for match in _first(found)]


def _first(matches: Any) -> list[re.Match[str]]:
    found = next(matches, None)
    return [] if found is None else [found]


def _split(text: str, pattern: str, flags: str) -> list[str]:
    """The text between the matches; an empty match splits behind each character, not at the ends."""
    if "g" in flags:
        raise ExpressionError("REGEXP_SPLIT_TO_ARRAY and _TO_TABLE take no flag 'g'", code="E2029", hint="leave it out")
    parts: list[str] = []
    at = 0
    for match in _regex.postgres_regex(pattern, flags).finditer(text):
        if match.start() == match.end() and (match.start() == at or match.end() == len(text)):
            continue
        parts.append(text[at : match.start()])
        at = match.end()
    return [*parts, text[at:]]


def _from(text: str, start: int) -> int:
    if start < 1:
        raise ExpressionError(
            f"a search begins at 1 or later, not at {start}", code="E2029", hint="1 is the first character"
        )
    return start - 1


def _count(text: str, pattern: str, start: int, flags: str) -> int:
    _no_global(flags, "REGEXP_COUNT")
    at = _from(text, start)
    return sum(1 for _ in _regex.postgres_regex(pattern, flags).finditer(text, at)) if at <= len(text) else 0


def _no_global(flags: str, name: str) -> None:
    if "g" in flags:
        raise ExpressionError(f"{name} takes no flag 'g'", code="E2029", hint="leave it out")


def _nth(text: str, pattern: str, start: int, number: int, flags: str) -> re.Match[str] | None:
    at = _from(text, start)
    if number < 1:
        raise ExpressionError(
            f"matches are counted from 1, not from {number}", code="E2029", hint="1 is the first match"
        )
    if at > len(text):
        return None
    for place, match in enumerate(_regex.postgres_regex(pattern, flags).finditer(text, at), 1):
        if place == number:
            return match
    return None


def _instr(text: str, pattern: str, start: int, number: int, end: int, flags: str, group: int) -> int:
    _no_global(flags, "REGEXP_INSTR")
    if end not in (0, 1):
        raise ExpressionError(
            f"the end option is 0 or 1, not {end}", code="E2029", hint="1 is the place behind the match"
        )
    found = _nth(text, pattern, start, number, flags)
    span = (-1, -1) if found is None or not 0 <= group <= found.re.groups else found.span(group)
    return span[end] + 1


def _substr(text: str, pattern: str, start: int, number: int, flags: str, group: int) -> str | None:
    _no_global(flags, "REGEXP_SUBSTR")
    found = _nth(text, pattern, start, number, flags)
    return None if found is None or not 0 <= group <= found.re.groups else found.group(group)


def _like(text: str, pattern: str, flags: str) -> bool:
    _no_global(flags, "REGEXP_LIKE")
    return _regex.postgres_regex(pattern, flags).search(text) is not None


_PLACE = re.compile(r"\\(.)", re.DOTALL)


def _replaced(text: str, pattern: str, new: str, start: int, number: int, flags: str) -> str:
    """`number`: which match, 0 for all."""
    regex = _regex.postgres_regex(pattern, flags)
    at = _from(text, start)
    if number < 0:
        raise ExpressionError(f"matches are counted from 1, not from {number}", code="E2029", hint="0 is all of them")

    def filled(match: re.Match[str]) -> str:
        def part(place: re.Match[str]) -> str:
            what = place[1]
            if what == "&":
                return match.group()
            if what in "123456789":
                return (match.group(int(what)) or "") if int(what) <= regex.groups else ""
            return what if what == "\\" else place[0]

        return _PLACE.sub(part, new)

    if at > len(text):
        return text
    parts = [text[:at]]
    for place, match in enumerate(regex.finditer(text, at), 1):
        if number in (0, place):
            parts += [text[at : match.start()], filled(match)]
            at = match.end()
            if number:
                break
    return "".join([*parts, text[at:]])


def _replaced_by_flags(text: str, pattern: str, new: str, flags: str) -> str:
    flags, every = _regex.without_global(flags)
    return _replaced(text, pattern, new, 1, 0 if every else 1, flags)


def _pieces(text: str | None, separator: str | None, missing: str | None) -> list[str | None] | None:
    """STRING_TO_ARRAY: NULL parts into characters."""
    if text is None:
        return None
    if not text:
        return []
    parts = list(text) if separator is None else [text] if not separator else text.split(separator)
    return [None if part == missing else part for part in parts]


_T, _N = CHARACTER, INTEGER
_of_values("PG_REGEXP_MATCH", [_T, _T, _T], _TEXTS, "The groups of the first match, or all of it.", _match)
_of_values(
    "PG_REGEXP_MATCHES", [_T, _T, _T], array(_TEXTS), "The same of the first match, with the flag g of all.", _matches
)
_of_values("PG_REGEXP_SPLIT", [_T, _T, _T], _TEXTS, "The text between the matches.", _split)
_of_values("PG_REGEXP_COUNT", [_T, _T, _N, _T], INT, "The number of matches from a place on.", _count)
_of_values(
    "PG_REGEXP_INSTR",
    [_T, _T, _N, _N, _N, _T, _N],
    INT,
    "Where the n-th match from a place on, or a group of it, begins or ends.",
    _instr,
)
_of_values(
    "PG_REGEXP_SUBSTR", [_T, _T, _N, _N, _T, _N], STRING, "The n-th match from a place on, or a group of it.", _substr
)
_of_values("PG_REGEXP_LIKE", [_T, _T, _T], BOOLEAN, "Whether the expression matches somewhere.", _like)
_of_values(
    "PG_REGEXP_REPLACE",
    [_T, _T, _T, _T],
    STRING,
    "The text with another one for the first match, with the flag g for all; \\1 is a group, \\& the match.",
    _replaced_by_flags,
)
_of_values(
    "PG_REGEXP_REPLACE_NTH",
    [_T, _T, _T, _N, _N, _T],
    STRING,
    "The text with another one for the n-th match from a place on, 0 for all.",
    _replaced,
)
_of_values(
    "PG_STRING_TO_ARRAY",
    [_T, _T, _T],
    _TEXTS,
    "The parts of a text between separators, or its characters; those that are the third text are NULL.",
    _pieces,
    sees_nulls=True,
)


# Texts of SQL

_of_values(
    "PG_QUOTE_IDENT",
    [_T],
    STRING,
    "A name as statements write it.",
    lambda text: _sql.identifier(text),
)
_of_values("PG_QUOTE_LITERAL", [_T], STRING, "A text as statements write it.", lambda text: _sql.literal(text))
_of_values(
    "PG_QUOTE_NULLABLE", [_T], STRING, "The same, and NULL for NULL.", lambda text: _sql.nullable(text), sees_nulls=True
)
_of_values("PG_UNISTR", [_T], STRING, "The text with its Unicode escapes read.", lambda text: _sql.unistr(text))
_of_values(
    "PG_NORMALIZE",
    [_T, _T],
    STRING,
    "The text in NFC, NFD, NFKC or NFKD.",
    lambda text, form: _sql.normalized(text, form),
)
_of_values(
    "PG_PARSE_IDENT",
    [_T, BOOLEAN_],
    _TEXTS,
    "The parts of a qualified name.",
    lambda text, strict: _sql.names(text, strict),
)


@FAMILY.scalar(
    "PG_FORMAT",
    [_T],
    STRING,
    "A form with texts in the places of %s, names of %I, and literals of %L.",
    also=[([_T, _T], STRING)],
    variadic=True,
    nulls=Nulls.MAYBE,
    can_fail=True,
)
def format_text(context: EvalContext, *values: Value) -> Value:
    given = [v if isinstance(v, pa.Scalar) else as_array(v, context.num_rows) for v in values]
    return map_distinct(_sql.formatted, given, pa.string(), context.num_rows, sees_nulls=True)
