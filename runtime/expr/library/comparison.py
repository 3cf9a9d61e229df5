"""Comparison operators, tests for NULL, LIKE and SIMILAR TO.

Texts compare by code point without padding ('abc' is not 'abc '), bytes as unsigned numbers. Rows, arrays and maps
compare for equality only. LIKE has no escape character unless ESCAPE gives one. BETWEEN and IN are other expressions by
the time they get here.
Source: Flink's page of built-in functions, and its answers to the vectors.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError
from runtime.core.types import BOOLEAN, DataType
from runtime.expr.columns import as_array, from_numpy
from runtime.expr.compare import equal, same_rows
from runtime.expr.distinct import per_constant
from runtime.expr.function import CallTypes, EvalContext, Nulls, Value, optional
from runtime.expr.library.declare import ANY, CHARACTER, Family
from runtime.expr.nullability import cast_type
from runtime.expr.typing import comparison_type

__all__ = ["FAMILY", "compare_rule"]

FAMILY = Family("comparison")


def _sides(types: CallTypes, nested: bool) -> tuple[tuple[DataType, ...], DataType] | None:
    if len(types) != 2:
        return None
    common = comparison_type(types[0], types[1])
    if common is None or (common.is_unordered and not nested):
        return None
    if common.is_character or common.is_binary:
        return tuple(t if t.is_character or t.is_binary else cast_type(t, common) for t in types), BOOLEAN
    return tuple(cast_type(t, common) for t in types), BOOLEAN


def compare_rule(types: CallTypes) -> tuple[tuple[DataType, ...], DataType] | None:
    """Both sides in the type in which they compare; nested values too, for equality."""
    return _sides(types, nested=True)


def _order_rule(types: CallTypes) -> tuple[tuple[DataType, ...], DataType] | None:
    return _sides(types, nested=False)


_COMPARABLE = ("COMPARABLE", "COMPARABLE")


@FAMILY.special(
    "=", compare_rule, "Whether both are equal; UNKNOWN when one is NULL.", form=_COMPARABLE, syntax="a = b"
)
def equals(context: EvalContext, a: Value, b: Value) -> Value:
    return equal(a, b, context.num_rows)


@FAMILY.special("<>", compare_rule, "Whether both differ; UNKNOWN when one is NULL.", form=_COMPARABLE, syntax="a <> b")
def differs(context: EvalContext, a: Value, b: Value) -> Value:
    return pc.invert(equal(a, b, context.num_rows))


@FAMILY.special("<", _order_rule, "Whether a is less than b.", form=_COMPARABLE, syntax="a < b")
def less(_: EvalContext, a: Value, b: Value) -> Value:
    return pc.less(a, b)


@FAMILY.special("<=", _order_rule, "Whether a is at most b.", form=_COMPARABLE, syntax="a <= b")
def at_most(_: EvalContext, a: Value, b: Value) -> Value:
    return pc.less_equal(a, b)


@FAMILY.special(">", _order_rule, "Whether a is greater than b.", form=_COMPARABLE, syntax="a > b")
def greater(_: EvalContext, a: Value, b: Value) -> Value:
    return pc.greater(a, b)


@FAMILY.special(">=", _order_rule, "Whether a is at least b.", form=_COMPARABLE, syntax="a >= b")
def at_least(_: EvalContext, a: Value, b: Value) -> Value:
    return pc.greater_equal(a, b)


@FAMILY.special(
    "IS NOT DISTINCT FROM",
    compare_rule,
    "Whether both are equal or both NULL.",
    form=_COMPARABLE,
    nulls=Nulls.NEVER,
    syntax="a IS NOT DISTINCT FROM b",
)
def is_same(context: EvalContext, a: Value, b: Value) -> Value:
    if pa.types.is_nested(a.type):
        return from_numpy(same_rows(as_array(a, context.num_rows), as_array(b, context.num_rows)), None, pa.bool_())
    both = pc.and_(pc.is_null(a), pc.is_null(b))
    return both if pa.types.is_null(a.type) else pc.or_(pc.fill_null(pc.equal(a, b), False), both)


@FAMILY.special(
    "IS DISTINCT FROM",
    compare_rule,
    "Whether both differ, NULL being a value like others.",
    form=_COMPARABLE,
    nulls=Nulls.NEVER,
    syntax="a IS DISTINCT FROM b",
)
def is_other(context: EvalContext, a: Value, b: Value) -> Value:
    return pc.invert(is_same(context, a, b))


@FAMILY.scalar("IS NULL", [ANY], BOOLEAN, "Whether the value is NULL.", nulls=Nulls.NEVER, syntax="a IS NULL")
def is_null(_: EvalContext, value: Value) -> Value:
    return pc.is_null(value)


@FAMILY.scalar(
    "IS NOT NULL", [ANY], BOOLEAN, "Whether the value is not NULL.", nulls=Nulls.NEVER, syntax="a IS NOT NULL"
)
def is_not_null(_: EvalContext, value: Value) -> Value:
    return pc.is_valid(value)


_SIMPLE_LIKE = re.compile(r"(%?)([^%_]*)(%?)", re.DOTALL)


def _checked_escape(escape: str) -> str:
    if len(escape) != 1:
        raise ExpressionError(f"the escape '{escape}' of LIKE is not one character", code="E2002")
    return escape


def _translated(pattern: str, escape: str, similar: bool) -> str:
    """A LIKE or SIMILAR TO pattern as a regular expression."""
    parts: list[str] = []
    position = 0
    bracket = False
    while position < len(pattern):
        char = pattern[position]
        position += 1
        if escape and char == escape:
            if position == len(pattern) or (not similar and pattern[position] not in ("%", "_", escape)):
                raise ExpressionError(f"the pattern '{pattern}' escapes nothing at character {position}", code="E2002")
            parts.append(re.escape(pattern[position]))
            position += 1
        elif bracket or not similar:
            if not bracket and char in "%_":
                parts.append(".*" if char == "%" else ".")
            else:
                parts.append(char if bracket else re.escape(char))
        else:
            parts.append({"%": ".*", "_": ".", ".": r"\.", "^": r"\^", "$": r"\$"}.get(char, char))
        if similar and char in "[]":
            bracket = char == "[" or (bracket and pattern[position - 2 : position] == ":]")
    text = "".join(parts)
    if similar:
        # Flink writes the classes in capitals, [[:ALPHA:]].
        text = re.sub(r"\[:([A-Za-z]+):\]", lambda m: f"[:{m[1].lower()}:]", text)
    return rf"(?s)\A(?:{text})\z"


@FAMILY.scalar(
    "LIKE",
    [CHARACTER, CHARACTER, optional(CHARACTER)],
    BOOLEAN,
    "Whether the text matches: % is any text, _ any character.",
    syntax="s LIKE p [ESCAPE c]",
    can_fail=True,
    duckdb="{0} LIKE {1}",
)
def like(context: EvalContext, value: Value, pattern: Value, *escape: Value) -> Value:
    if escape:
        return per_constant(context, lambda texts, p, e: _like(texts, p, _checked_escape(e)), value, pattern, *escape)
    if not isinstance(pattern, pa.Scalar):
        return NotImplemented
    return _like(value, pattern.as_py(), "") if pattern.is_valid else pa.scalar(None, pa.bool_())


def _like(value: Value, text: str, escaping: str) -> Value:
    simple = _SIMPLE_LIKE.fullmatch(text) if not escaping or escaping not in text else None
    if simple is None:
        return pc.match_substring_regex(value, _translated(text, escaping, similar=False))
    before, body, after = simple.groups()
    if not body and (before or after):
        return pc.if_else(pc.is_valid(value), True, pa.scalar(None, pa.bool_()))
    match bool(before), bool(after):
        case False, False:
            return pc.equal(value, body)
        case False, True:
            return pc.starts_with(value, body)
        case True, False:
            return pc.ends_with(value, body)
        case _:
            return pc.match_substring(value, body)


@FAMILY.scalar(
    "SIMILAR TO",
    [CHARACTER, CHARACTER, optional(CHARACTER)],
    BOOLEAN,
    "Whether the text matches an SQL regular expression as a whole.",
    syntax="s SIMILAR TO p [ESCAPE c]",
    can_fail=True,
)
def similar_to(context: EvalContext, value: Value, pattern: Value, *escape: Value) -> Value:
    def matches(texts: pa.Array, text: str, escaping: str | None = None) -> pa.Array:
        expression = _translated(text, "" if escaping is None else _checked_escape(escaping), similar=True)
        try:
            return pc.match_substring_regex(texts, expression)
        except pa.ArrowInvalid as error:
            raise ExpressionError(f"'{text}' is not a regular expression", code="E2003") from error

    return per_constant(context, matches, value, pattern, *escape)
