"""Looking for texts in texts: positions, prefixes, replacement, splitting. Positions are from 1, 0 is nowhere.

Constant patterns go to Arrow kernels; patterns that differ from row to row to DuckDB where its function means the same,
else they are computed once per distinct pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError
from runtime.core.types import BOOLEAN, INT, STRING, DataType, TypeRoot, array
from runtime.expr.columns import as_array, from_numpy, numbers, validity
from runtime.expr.constants import NO_TEXT
from runtime.expr.distinct import map_distinct
from runtime.expr.function import CallTypes, EvalContext, Nulls, Value
from runtime.expr.library.declare import BINARY_, CHARACTER, WHOLE_, Family, optional
from runtime.expr.nullability import cast_type
from runtime.expr.texts import character_index, is_ascii, nothing, on_rows, text_bytes, with_bytes
from runtime.expr.typing import common_type

__all__ = ["FAMILY"]

FAMILY = Family("string search")
_NULL = NO_TEXT


def _find(text: Value, pattern: str, length: int) -> Value:
    def positions(texts: pa.Array) -> pa.Array:
        at = pc.find_substring(texts, pattern)
        if not is_ascii(texts):
            index = character_index(texts, pc.fill_null(at, -1).to_numpy(zero_copy_only=False))
            at = from_numpy(index, validity(texts), pa.int32())
        return pc.add(at, pa.scalar(1, pa.int32()))

    return on_rows(positions, text, length)


def _index_of(text: str, part: str, start: int = 1) -> int:
    """Where a part begins, at `start` or behind it; an empty part is found at once, as in Flink."""
    return 1 if not part else text.find(part, max(start - 1, 0)) + 1


def _position(context: EvalContext, part: Value, text: Value, *start: Value) -> Value:
    if start or not isinstance(part, pa.Scalar):
        return map_distinct(lambda p, t, *s: _index_of(t, p, *s), [part, text, *start], pa.int32(), context.num_rows)
    return _find(text, part.as_py(), context.num_rows) if part.is_valid else pa.scalar(None, pa.int32())


@FAMILY.scalar(
    "POSITION",
    [CHARACTER, CHARACTER, optional(WHOLE_)],
    INT,
    "Where a text first occurs in another, from 1; 0 when it does not.",
    syntax="POSITION(part IN text)",
)
def position(context: EvalContext, part: Value, text: Value, *start: Value) -> Value:
    return _position(context, part, text, *start)


@FAMILY.scalar(
    "LOCATE",
    [CHARACTER, CHARACTER, optional(WHOLE_)],
    INT,
    "Where a text first occurs in another, at a position or behind it; 0 when it does not.",
)
def locate(context: EvalContext, part: Value, text: Value, *start: Value) -> Value:
    return _position(context, part, text, *start)


@FAMILY.scalar(
    "INSTR",
    [CHARACTER, CHARACTER, optional(WHOLE_), optional(WHOLE_)],
    INT,
    "Where a text occurs in another for the n-th time, from a position on (negative: backwards); 0 when it does not.",
    can_fail=True,
)
def instr(context: EvalContext, text: Value, part: Value, *rest: Value) -> Value:
    if not rest:
        return _position(context, part, text)
    return map_distinct(_nth, [text, part, *rest], pa.int32(), context.num_rows)


def _nth(text: str, part: str, start: int, occurrence: int = 1) -> int:
    if occurrence <= 0:
        raise ExpressionError(f"INSTR asks for occurrence {occurrence}: it must be positive", code="E2002")
    if start == 0:
        return 0
    if start < 0:
        found = _nth(text[::-1], part[::-1], -start, occurrence)
        return found and len(text) + 2 - found - len(part)
    found = start - 1
    for _ in range(occurrence):
        found = _index_of(text, part, found + 1)
        if found == 0:
            return 0
    return found


def _affix(name: str, document: str, kernel: Any, otherwise: Any, duckdb: str) -> None:
    @FAMILY.scalar(name, [CHARACTER, CHARACTER], BOOLEAN, document, also=[([BINARY_, BINARY_], BOOLEAN)], duckdb=duckdb)
    def evaluate(context: EvalContext, text: Value, part: Value) -> Value:
        if isinstance(part, pa.Scalar):
            return kernel(text, pattern=part.as_py()) if part.is_valid else pa.scalar(None, pa.bool_())
        if context.arg_types[0].is_character:
            return NotImplemented
        return map_distinct(otherwise, [text, part], pa.bool_(), context.num_rows)


_affix(
    "STARTSWITH",
    "Whether a text, or bytes, start with others.",
    pc.starts_with,
    lambda t, p: t.startswith(p),
    "starts_with({0}, {1})",
)
_affix(
    "ENDSWITH",
    "Whether a text, or bytes, end with others.",
    pc.ends_with,
    lambda t, p: t.endswith(p),
    "suffix({0}, {1})",
)


@FAMILY.scalar(
    "REPLACE", [CHARACTER, CHARACTER, CHARACTER], STRING, "The text with each occurrence of a part replaced."
)
def replace(context: EvalContext, text: Value, old: Value, new: Value) -> Value:
    """An empty part is found before each character and at the end, as in Java."""
    if nothing(old) or nothing(new):
        return _NULL
    if isinstance(old, pa.Scalar) and isinstance(new, pa.Scalar) and old.as_py():
        return pc.replace_substring(text, pattern=old.as_py(), replacement=new.as_py())
    return map_distinct(lambda t, o, n: t.replace(o, n), [text, old, new], pa.string(), context.num_rows)


@FAMILY.scalar(
    "TRANSLATE",
    [CHARACTER, CHARACTER, CHARACTER],
    lambda t: STRING.with_nullable(t[0].nullable),
    "The text with each character of one list replaced by that at the same place of another, or left out.",
    nulls=Nulls.RULE,
)
def translate(context: EvalContext, text: Value, old: Value, new: Value) -> Value:
    """NULL lists count as empty ones, as in Flink."""
    if isinstance(old, pa.Scalar) and isinstance(new, pa.Scalar):
        before, after = old.as_py() or "", new.as_py() or ""
        if not before:
            return text
        if before.isascii() and after.isascii() and len(after) >= len(before):
            return on_rows(lambda texts: _translated_bytes(texts, before, after), text, context.num_rows)
    return map_distinct(_translate, [text, old, new], pa.string(), context.num_rows, sees_nulls=True)


def _translated_bytes(texts: pa.Array, before: str, after: str) -> pa.Array:
    table = np.arange(256, dtype=np.uint8)
    for old, new in reversed(list(zip(before, after, strict=False))):
        table[ord(old)] = ord(new)
    return with_bytes(texts, table[text_bytes(texts)[0]])


def _translate(text: str | None, old: str | None, new: str | None) -> str | None:
    if not text or not old:
        return text
    after = new or ""
    table = {ord(c): after[i : i + 1] or None for i, c in reversed(list(enumerate(old)))}
    return text.translate(table)


# Splitting


def _split(text: Value, separator: str, length: int, most: int | None = None) -> pa.ListArray:
    """The parts between separators, at most `most` separators used; of '' none. An empty separator splits at white
    space."""
    texts = as_array(text, length)
    limit = {} if most is None else {"max_splits": most}
    if separator:
        return pc.split_pattern(texts, pattern=separator, **limit)
    return pc.split_pattern_regex(texts, pattern=r"\s", **limit)


@FAMILY.scalar(
    "SPLIT_INDEX",
    [CHARACTER, CHARACTER, WHOLE_],
    STRING,
    "The n-th part, from 0, of a text split at a separator; NULL when there is none.",
    also=[([CHARACTER, WHOLE_, WHOLE_], STRING)],
    nulls=Nulls.MAYBE,
)
def split_index(context: EvalContext, text: Value, separator: Value, index: Value) -> Value:
    """The separator is a text, or the number of a character."""
    if not (isinstance(separator, pa.Scalar) and isinstance(index, pa.Scalar)):
        return map_distinct(_split_index, [text, separator, index], pa.string(), context.num_rows)
    if not separator.is_valid or not index.is_valid or index.as_py() < 0:
        return _NULL
    between, wanted = separator.as_py(), index.as_py()
    if isinstance(between, int):
        if not 1 <= between <= 255:
            return _NULL
        between = chr(between)
    length = 1 if isinstance(text, pa.Scalar) else context.num_rows
    parts = _split(text, between, length, wanted + 1)
    offsets = np.frombuffer(parts.buffers()[1], np.int32)[parts.offset : parts.offset + length + 1]
    at = offsets[:-1] + wanted
    missing = at >= offsets[1:]
    empty = pc.equal(pc.fill_null(pc.binary_length(as_array(text, length)), 0), 0).to_numpy(zero_copy_only=False)
    found = parts.values.take(pa.array(np.where(missing | empty, 0, at), mask=missing | empty))
    return found[0] if isinstance(text, pa.Scalar) else found


def _split_index(text: str, separator: str | int, index: int) -> str | None:
    if index < 0 or not text:
        return None
    if isinstance(separator, int):
        if not 1 <= separator <= 255:
            return None
        separator = chr(separator)
    if not separator:
        separator = " "
        text = "".join(" " if c.isspace() else c for c in text)
    parts = text.split(separator)
    return parts[index] if index < len(parts) else None


_TEXTS = array(STRING)


@FAMILY.scalar(
    "SPLIT",
    [CHARACTER, CHARACTER],
    _TEXTS,
    "The parts of a text between separators; with an empty separator its characters.",
)
def split(context: EvalContext, text: Value, separator: Value) -> Value:
    between = separator.as_py() if isinstance(separator, pa.Scalar) else None
    if not between:
        return map_distinct(_parts, [text, separator], _TEXTS.arrow, context.num_rows)

    def parts(texts: pa.Array) -> pa.Array:
        lists = pc.split_pattern(texts, pattern=between)
        empty = pc.fill_null(pc.equal(texts, ""), False)
        if not pc.any(empty).as_py():
            return lists
        # Of '' there are no parts: those rows take none of the one empty text that Arrow gives.
        counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        lengths = np.where(empty.to_numpy(zero_copy_only=False), 0, counts)
        kept = pc.invert(empty).filter(texts.is_valid())
        values = lists.filter(pc.and_(pc.invert(empty), texts.is_valid())).flatten() if len(kept) else lists.values[:0]
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        return pa.ListArray.from_arrays(offsets, values, mask=texts.is_null() if texts.null_count else None)

    return on_rows(parts, text, context.num_rows)


def _parts(text: str, separator: str) -> list[str]:
    if not text:
        return []
    return text.split(separator) if separator else list(text)


# Choosing


def _elt_rule(types: CallTypes) -> tuple[tuple[DataType, ...], DataType] | None:
    if len(types) < 2 or not (types[0].is_integer or types[0].root is TypeRoot.NULL):
        return None
    common = common_type(types[1:])
    if common is None or not (common.is_character or common.is_binary):
        return None
    index = INT if types[0].root is TypeRoot.NULL else types[0]
    return (index, *(cast_type(t, common) for t in types[1:])), common.with_nullable(True)


@FAMILY.special(
    "ELT",
    _elt_rule,
    "The n-th of the texts, from 1; NULL when there is none.",
    form=("INTEGER", "CHARACTER", "CHARACTER?"),
    nulls=Nulls.RULE,
)
def elt(context: EvalContext, index: Value, *texts: Value) -> Value:
    rows = context.num_rows
    chosen, valid = numbers(index, rows)
    chosen = np.broadcast_to(chosen, (rows,)).astype(np.int64) - 1
    inside = (chosen >= 0) & (chosen < len(texts))
    if valid is not None:
        inside &= valid
    return pc.choose(from_numpy(np.where(inside, chosen, 0), inside, pa.int64()), *(as_array(t, rows) for t in texts))
