"""Texts as statements of SQL have them: names and literals, forms of FORMAT, escapes and normal forms of Unicode.

Source: PostgreSQL 15, "String Functions and Operators".
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from runtime.core.errors import ExpressionError

__all__ = ["formatted", "identifier", "literal", "names", "normalized", "nullable", "unistr"]

_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_$]*")
_RESERVED = frozenset(
    (
        "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "authorization", "between",
        "bigint", "binary", "bit", "boolean", "both", "case", "cast", "char", "character", "check", "coalesce", "collate",
        "collation", "column", "concurrently", "constraint", "create", "cross", "current_catalog", "current_date",
        "current_role", "current_schema", "current_time", "current_timestamp", "current_user", "dec", "decimal",
        "default", "deferrable", "desc", "distinct", "do", "else", "end", "except", "exists", "extract", "false", "fetch",
        "float", "for", "foreign", "freeze", "from", "full", "grant", "greatest", "group", "grouping", "having", "ilike",
        "in", "initially", "inner", "inout", "int", "integer", "intersect", "interval", "into", "is", "isnull", "join",
        "lateral", "leading", "least", "left", "like", "limit", "localtime", "localtimestamp", "national", "natural",
        "nchar", "none", "normalize", "not", "notnull", "null", "nullif", "numeric", "offset", "on", "only", "or",
        "order", "out", "outer", "overlaps", "overlay", "placing", "position", "precision", "primary", "real",
        "references", "returning", "right", "row", "select", "session_user", "setof", "similar", "smallint", "some",
        "substring", "symmetric", "table", "tablesample", "then", "time", "timestamp", "to", "trailing", "treat", "trim",
        "true", "union", "unique", "user", "using", "values", "varchar", "variadic", "verbose", "when", "where", "window",
        "with", "xmlattributes", "xmlconcat", "xmlelement", "xmlexists", "xmlforest", "xmlnamespaces", "xmlparse",
        "xmlpi", "xmlroot", "xmlserialize", "xmltable",
    )
)  # fmt: skip
"""PostgreSQL's keywords that are no plain names."""


def identifier(name: str) -> str:
    """A name as statements write it: in double quotes where it needs them."""
    if _PLAIN_NAME.fullmatch(name) and name not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as statements write it."""
    doubled = text.replace("'", "''").replace("\\", "\\\\")
    return f"E'{doubled}'" if "\\" in text else f"'{doubled}'"


_UNISTR = re.compile(r"\\(?:(\\)|\+([0-9a-fA-F]{6})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-9a-fA-F]{4})|)")


def unistr(text: str) -> str:
    """The text with its Unicode escapes read. Raises ExpressionError E2029 for a wrong one."""

    def character(found: re.Match[str]) -> str:
        if found[1]:
            return "\\"
        digits = next((d for d in found.groups()[1:] if d), None)
        if digits is None or not 0 < int(digits, 16) < 0x110000:
            raise ExpressionError(
                "a Unicode escape is wrong", code="E2029", hint="\\0061, \\+000061, \\u0061, \\U00000061"
            )
        return chr(int(digits, 16))

    made = _UNISTR.sub(character, text).encode("utf-16", "surrogatepass")
    try:
        return made.decode("utf-16")
    except UnicodeError:
        raise ExpressionError(
            "half of a pair of Unicode escapes is missing", code="E2029", hint="\\D83D\\DE00"
        ) from None


_FORMS: dict[str, Literal["NFC", "NFD", "NFKC", "NFKD"]] = {"NFC": "NFC", "NFD": "NFD", "NFKC": "NFKC", "NFKD": "NFKD"}


def normalized(text: str, form: str) -> str:
    """The text in a normal form of Unicode."""
    known = _FORMS.get(form.upper())
    if known is None:
        raise ExpressionError(f"there is no form '{form[:20]}'", code="E2029", hint=", ".join(_FORMS))
    return unicodedata.normalize(known, text)


_PART_OF_NAME = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\W\d][\w$]*))\s*(\.|$)?')


def names(text: str, strict: bool) -> list[str]:
    """The parts of a name with points between."""
    parts: list[str] = []
    at = 0
    while True:
        found = _PART_OF_NAME.match(text, at)
        if found is None:
            raise ExpressionError(f"'{text[:60]}' is no name", code="E2029", hint='for example "My schema".my_table')
        parts.append(found[1].replace('""', '"') if found[1] else found[2].lower())
        at = found.end()
        if found[3] == ".":
            continue
        if at < len(text) and strict:
            raise ExpressionError(
                f"'{text[:60]}' is no name", code="E2029", hint="with FALSE, what follows is left out"
            )
        return parts


_FORM_PART = re.compile(r"%(?:(\d+)\$)?(-)?(?:(\d+)|\*(?:(\d+)\$)?)?(.?)", re.DOTALL)
_WIDEST = 1_000_000


def formatted(form: str | None, *values: str | None) -> str | None:
    """FORMAT: `%s` a text, `%I` a name, `%L` a literal; `%2$s` the second value, `%-10s` with a width."""
    if form is None:
        return None
    place = 0

    def chosen(number: str | None) -> str | None:
        nonlocal place
        place = int(number) if number else place + 1
        if place == 0 or place > len(values):
            raise ExpressionError(
                "FORMAT has too few values" if place else "the values of FORMAT are counted from 1",
                code="E2029",
                hint="give a value for each %s, %I and %L",
            )
        return values[place - 1]

    def filled(found: re.Match[str]) -> str:
        number, minus, width, width_at, kind = found.groups()
        if kind == "%":
            return "%"
        if "*" in found[0]:
            width = chosen(width_at)
        if kind not in ("s", "I", "L"):
            raise ExpressionError(
                f"FORMAT does not know %{kind}", code="E2029", hint="there are %s, %I and %L, with a value each, and %%"
            )
        value = chosen(number)
        if kind == "I" and value is None:
            raise ExpressionError("NULL is no name", code="E2029", hint="COALESCE(name, 'x')")
        text = identifier(value or "") if kind == "I" else nullable(value) if kind == "L" else value or ""
        wide = int(width or 0)
        if abs(wide) > _WIDEST:
            raise ExpressionError(f"a width is at most {_WIDEST:,}", code="E2029", hint="RPAD makes longer texts")
        return text.ljust(abs(wide)) if minus or wide < 0 else text.rjust(wide)

    return _FORM_PART.sub(filled, form)


def nullable(text: str | None) -> str:
    """A literal; NULL for None."""
    return "NULL" if text is None else literal(text)
