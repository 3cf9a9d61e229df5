"""Texts: case, length, joining, trimming, padding, parts by position. Lengths and positions count characters.

Types are Flink's: parts give VARCHAR of the argument's length, `||` adds the lengths up (CHAR stays CHAR), the rest
gives STRING. UPPER, LOWER and INITCAP keep the type where no text can get longer (Flink always keeps it, and cuts).
Only spaces are trimmed unless characters are given. LEFT, RIGHT and SUBSTRING are nullable because SUBSTRING of a
negative length is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError, TypeMismatchError
from runtime.core.types import INT, STRING, STRING_LENGTH, DataType, TypeRoot, varchar
from runtime.expr.columns import numbers
from runtime.expr.constants import text as text_constant
from runtime.expr.distinct import all_constant, map_distinct
from runtime.expr.function import CallTypes, EvalContext, Nulls, Value
from runtime.expr.library.declare import CHARACTER, WHOLE_, Family, optional
from runtime.expr.lists import by_row, join_known
from runtime.expr.texts import change_text, nothing, text_bytes, with_bytes

__all__ = ["FAMILY", "varying"]

FAMILY = Family("string")
_R = TypeRoot
_VARYING = {_R.CHAR: _R.VARCHAR, _R.BINARY: _R.VARBINARY}


def varying(types: CallTypes) -> DataType:
    """VARCHAR of the length of the first argument."""
    return varchar(types[0].precision)


def _recased(change: Callable[[str], str], growth: int) -> Callable[[CallTypes], DataType]:
    """The type of a text in another case, which may have up to `growth` characters for each of the text's ('ß' is 'SS'):
    the text's own type where none can be more, or a literal shows that none is."""

    def rule(types: CallTypes) -> DataType:
        (text,) = types
        literal = types.literal(0)
        if text.precision >= STRING_LENGTH:
            return text
        if isinstance(literal, str):
            return text.with_(precision=max(text.precision, len(change(literal))))
        return varchar(min(text.precision * growth, STRING_LENGTH))

    return rule


@FAMILY.scalar("UPPER", [CHARACTER], _recased(str.upper, 3), "The text in upper case.")
def upper(context: EvalContext, text: Value) -> Value:
    return change_text(text, context.num_rows, pc.ascii_upper, str.upper)


@FAMILY.scalar("LOWER", [CHARACTER], _recased(str.lower, 2), "The text in lower case.")
def lower(context: EvalContext, text: Value) -> Value:
    return change_text(text, context.num_rows, pc.ascii_lower, str.lower)


def _capitalized(text: str) -> str:
    """A word is a run of letters and digits of any script; of the digraph 'ǆ' the title case is 'ǅ'."""
    return _WORD.sub(lambda word: word[0][0].title() + word[0][1:].lower(), text)


_WORD = re.compile(r"[^\W_]+")


@FAMILY.scalar(
    "INITCAP",
    [CHARACTER],
    _recased(_capitalized, 3),
    "The first letter of each word in upper case, the others in lower case.",
)
def initcap(context: EvalContext, text: Value) -> Value:
    return change_text(text, context.num_rows, _initcap, _capitalized)


def _initcap(texts: pa.Array) -> pa.Array:
    data, offsets = text_bytes(texts)
    is_upper = (data >= 65) & (data <= 90)
    is_lower = (data >= 97) & (data <= 122)
    word = is_upper | is_lower | ((data >= 48) & (data <= 57))
    starts = np.ones(len(data), np.bool_)
    starts[1:] = ~word[:-1]
    first = offsets[:-1]
    starts[first[first < len(data)]] = True
    return with_bytes(
        texts, np.where(is_lower & starts, data - 32, np.where(is_upper & ~starts, data + 32, data)).astype(np.uint8)
    )


@FAMILY.scalar("CHAR_LENGTH", [CHARACTER], INT, "The number of characters.", aliases=["CHARACTER_LENGTH"])
def char_length(_: EvalContext, text: Value) -> Value:
    return pc.utf8_length(text)


@FAMILY.scalar("REVERSE", [CHARACTER], STRING, "The text back to front.", nulls=Nulls.MAYBE)
def reverse(_: EvalContext, text: Value) -> Value:
    return pc.utf8_reverse(text)


# Joining


def _joined_rule(types: CallTypes) -> tuple[tuple[DataType, ...], DataType] | None:
    if len(types) != 2:
        return None
    given = [t if t.root is not _R.NULL else STRING for t in types]
    if not (all(t.is_character for t in given) or all(t.is_binary for t in given)):
        return None
    root = given[0].root if given[0].root is given[1].root else _VARYING.get(given[0].root, given[0].root)
    length = min(given[0].precision + given[1].precision, STRING_LENGTH)
    return tuple(given), DataType(root, length)


@FAMILY.special(
    "||",
    _joined_rule,
    "Two texts, or two byte strings, one after the other.",
    form=("CHARACTER", "CHARACTER"),
    syntax="a || b",
)
def joined(_: EvalContext, a: Value, b: Value) -> Value:
    return pc.binary_join_element_wise(a, b, pa.scalar("", a.type))


@FAMILY.scalar("CONCAT", [CHARACTER], STRING, "The texts one after the other; NULL when one is NULL.", variadic=True)
def concat(_: EvalContext, *texts: Value) -> Value:
    return pc.binary_join_element_wise(*texts, "")


def _ws_type(types: CallTypes) -> DataType:
    return STRING.with_nullable(types[0].nullable)


@FAMILY.scalar(
    "CONCAT_WS",
    [CHARACTER, CHARACTER],
    _ws_type,
    "The texts that are not NULL, with a separator between.",
    variadic=True,
    nulls=Nulls.RULE,
)
@by_row
def concat_ws(context: EvalContext, length: int, separator: pa.Array, *texts: pa.Array) -> pa.Array:
    return join_known(list(texts), separator, length)


_LONGEST = 1 << 28
"""The most characters that a text may be filled up to: a batch of texts is at most 2 GiB."""


def _check_length(name: str, lengths: Any) -> None:
    if lengths.size and int(lengths.max()) > _LONGEST:
        raise ExpressionError(
            f"{name} would make a text of {int(lengths.max())} characters", code="E2002", hint=f"{_LONGEST} is the most"
        )


@FAMILY.scalar("REPEAT", [CHARACTER, WHOLE_], STRING, "The text n times.", can_fail=True)
def repeat(context: EvalContext, text: Value, times: Value) -> Value:
    counts, known = numbers(times, context.num_rows)
    sizes = np.maximum(counts, 0).astype(np.int64) * numbers(pc.fill_null(pc.binary_length(text), 0), 1)[0]
    _check_length("REPEAT", sizes if known is None else np.where(known, sizes, 0))
    return pc.binary_repeat(text, pc.max_element_wise(times, pa.scalar(0, pa.int32()), skip_nulls=False))


# Trimming and padding

_TRIMS = {"BOTH": pc.utf8_trim, "LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}


def _trimmed(context: EvalContext, side: str, text: Value, characters: Value) -> Value:
    if isinstance(characters, pa.Scalar):
        if not characters.is_valid:
            return pa.scalar(None, pa.string())
        return _TRIMS[side](text, characters=characters.as_py())
    strip = {"BOTH": str.strip, "LEADING": str.lstrip, "TRAILING": str.rstrip}[side]
    return map_distinct(lambda t, c: strip(t, c) if c else t, [text, characters], pa.string(), context.num_rows)


_SPACE = text_constant(" ")


def _trim_type(types: CallTypes) -> DataType:
    if len(types) == 3 and types.literal(0) not in _TRIMS:
        raise TypeMismatchError(
            "TRIM takes BOTH, LEADING or TRAILING", code="E1301", hint="TRIM(LEADING 'x' FROM text)"
        )
    return varchar(types[2 if len(types) == 3 else 0].precision)


@FAMILY.scalar(
    "TRIM",
    [CHARACTER],
    _trim_type,
    "The text without spaces, or without the given characters, at its ends.",
    also=[([CHARACTER, CHARACTER, CHARACTER], _trim_type)],
    syntax="TRIM([BOTH|LEADING|TRAILING] [chars] FROM text)",
)
def trim(context: EvalContext, *args: Value) -> Value:
    """TRIM(text), or TRIM(side, characters, text) as the parser arranges it."""
    if len(args) == 1:
        return _trimmed(context, "BOTH", args[0], _SPACE)
    return _trimmed(context, args[0].as_py(), args[2], args[1])


@FAMILY.scalar(
    "LTRIM",
    [CHARACTER, optional(CHARACTER)],
    varying,
    "The text without leading spaces, or without leading characters of a set.",
)
def ltrim(context: EvalContext, text: Value, characters: Value = _SPACE) -> Value:
    return _trimmed(context, "LEADING", text, characters)


@FAMILY.scalar(
    "RTRIM",
    [CHARACTER, optional(CHARACTER)],
    varying,
    "The text without trailing spaces, or without trailing characters of a set.",
)
def rtrim(context: EvalContext, text: Value, characters: Value = _SPACE) -> Value:
    return _trimmed(context, "TRAILING", text, characters)


@FAMILY.scalar(
    "BTRIM", [CHARACTER, optional(CHARACTER)], STRING, "The text without spaces, or characters of a set, at its ends."
)
def btrim(context: EvalContext, text: Value, characters: Value = _SPACE) -> Value:
    return _trimmed(context, "BOTH", text, characters)


def _unpadded(types: CallTypes, result: DataType) -> bool:
    """Whether there may be nothing to pad with, or a negative length: the result is NULL."""
    length, padding = types.literal(1), types.literal(2)
    return not (isinstance(length, int) and length >= 0 and isinstance(padding, str) and padding)


def _padded(context: EvalContext, name: str, text: Value, length: Value, padding: Value) -> Value:
    wanted, fill = (v.as_py() if isinstance(v, pa.Scalar) else ... for v in (length, padding))
    if wanted is None or fill is None:
        return pa.scalar(None, pa.string())
    lengths, known = numbers(length, context.num_rows)
    _check_length(name, lengths if known is None else np.where(known, lengths, 0))
    if fill == "" or (wanted is not ... and wanted < 0):
        return pa.scalar(None, pa.string())
    if wanted is not ... and fill is not ... and len(fill) == 1:
        kernel = pc.utf8_lpad if name == "LPAD" else pc.utf8_rpad
        return pc.utf8_slice_codeunits(kernel(text, wanted, fill), 0, wanted)

    def pad(base: str, size: int, using: str) -> str | None:
        if size < 0 or not using:
            return None
        missing = max(size - len(base), 0)
        more = (using * (missing // len(using) + 1))[:missing]
        return more + base[:size] if name == "LPAD" else base[:size] + more

    return map_distinct(pad, [text, length, padding], pa.string(), context.num_rows)


@FAMILY.scalar(
    "LPAD",
    [CHARACTER, WHOLE_, CHARACTER],
    STRING,
    "The text padded on the left, or cut, to a length; NULL for a negative one, or with nothing to pad with.",
    can_fail=True,
    overflows=_unpadded,
)
def lpad(context: EvalContext, text: Value, length: Value, padding: Value) -> Value:
    return _padded(context, "LPAD", text, length, padding)


@FAMILY.scalar(
    "RPAD",
    [CHARACTER, WHOLE_, CHARACTER],
    STRING,
    "The text padded on the right, or cut, to a length; NULL for a negative one, or with nothing to pad with.",
    can_fail=True,
    overflows=_unpadded,
)
def rpad(context: EvalContext, text: Value, length: Value, padding: Value) -> Value:
    return _padded(context, "RPAD", text, length, padding)


# Parts by position


def _part(text: Value, start: int, length: int | None = None) -> Value:
    """Characters from a position (from 1; 0 is 1; negative counts from the end, '' when before the start)."""
    if length is not None and length < 0:
        return pa.scalar(None, pa.string())
    if start >= 0:
        first = max(start - 1, 0)
        return pc.utf8_slice_codeunits(text, first, None if length is None else first + length)
    end = None if length is None or start + length >= 0 else start + length
    part = pc.utf8_slice_codeunits(text, start, end)
    return pc.if_else(pc.less(pc.utf8_length(text), -start), pc.if_else(pc.is_valid(text), "", None), part)


_FROM_THE_END = "WHEN -CAST({1} AS BIGINT) > length({0}) THEN ''"
_SUBSTRING = {
    2: f"CASE WHEN {{1}} > 0 THEN substring({{0}}, {{1}}) WHEN {{1}} = 0 THEN {{0}} {_FROM_THE_END} ELSE substring({{0}}, {{1}}) END",
    3: "CASE WHEN {2} IS NULL OR {2} < 0 THEN NULL WHEN {1} > 0 THEN substring({0}, {1}, {2}) WHEN {1} = 0 THEN substring({0}, 1, {2}) "
    f"{_FROM_THE_END} ELSE substring({{0}}, length({{0}}) + {{1}} + 1, {{2}}) END",
}


@FAMILY.scalar(
    "SUBSTRING",
    [CHARACTER, WHOLE_, optional(WHOLE_)],
    varying,
    "The characters from a position on (from 1, negative from the end), at most n of them.",
    aliases=["SUBSTR"],
    nulls=Nulls.MAYBE,
    duckdb=_SUBSTRING,
    syntax="SUBSTRING(text FROM start [FOR length])",
)
def substring(_: EvalContext, text: Value, start: Value, *length: Value) -> Value:
    if not all_constant([start, *length]):
        return NotImplemented
    if any(nothing(v) for v in (start, *length)):
        return pa.scalar(None, pa.string())
    return _part(text, start.as_py(), *(v.as_py() for v in length))


@FAMILY.scalar(
    "LEFT",
    [CHARACTER, WHOLE_],
    varying,
    "The first n characters.",
    nulls=Nulls.MAYBE,
    duckdb="CASE WHEN {1} <= 0 THEN substring({0}, 1, 0) ELSE substring({0}, 1, {1}) END",
)
def left(_: EvalContext, text: Value, count: Value) -> Value:
    if not isinstance(count, pa.Scalar):
        return NotImplemented
    return pc.utf8_slice_codeunits(text, 0, max(count.as_py(), 0)) if count.is_valid else pa.scalar(None, pa.string())


@FAMILY.scalar(
    "RIGHT",
    [CHARACTER, WHOLE_],
    varying,
    "The last n characters.",
    nulls=Nulls.MAYBE,
    duckdb="CASE WHEN {1} <= 0 THEN substring({0}, 1, 0) ELSE right({0}, {1}) END",
)
def right(_: EvalContext, text: Value, count: Value) -> Value:
    if not isinstance(count, pa.Scalar):
        return NotImplemented
    if not count.is_valid:
        return pa.scalar(None, pa.string())
    return (
        pc.utf8_slice_codeunits(text, -count.as_py(), None)
        if count.as_py() > 0
        else pc.utf8_slice_codeunits(text, 0, 0)
    )


def _overlay_type(types: CallTypes) -> DataType:
    return varchar(min(types[0].precision + types[1].precision, STRING_LENGTH))


@FAMILY.scalar(
    "OVERLAY",
    [CHARACTER, CHARACTER, WHOLE_, optional(WHOLE_)],
    _overlay_type,
    "The text with n characters from a position on replaced by another text.",
    syntax="OVERLAY(text PLACING other FROM start [FOR length])",
)
def overlay(context: EvalContext, text: Value, other: Value, start: Value, *length: Value) -> Value:
    """As Flink: unchanged when the position is outside the text; no rest follows a length of zero or less."""

    def place(base: str, new: str, position: int, count: int | None = None) -> str:
        if not 1 <= position <= len(base):
            return base
        size = len(new) if count is None else count
        return base[: position - 1] + new + (base[position - 1 + size :] if size > 0 else "")

    return map_distinct(place, [text, other, start, *length], pa.string(), context.num_rows)
