"""Functions of regular expressions, in Java's language (`runtime/expr/java_regex.py`).

A constant pattern that RE2 takes runs in Arrow; other patterns once per distinct text. A pattern that Java refuses
gives NULL (REGEXP: FALSE; PostgreSQL's operator: an error). Group numbers count from 1, 0 is the whole match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError
from runtime.core.rooms import Room
from runtime.core.types import BOOLEAN, INT, STRING, array
from runtime.expr.columns import as_array, from_numpy, validity
from runtime.expr.constants import NO_TEXT, integer
from runtime.expr.distinct import map_distinct
from runtime.expr.function import EvalContext, Nulls, Value
from runtime.expr.library.declare import CHARACTER, WHOLE_, Family, optional
from runtime.expr.regex_scan import Scan, scan_of
from runtime.expr.texts import character_index, is_ascii, nothing, on_rows

if TYPE_CHECKING:
    import runtime.expr.java_regex as _java_regex
else:
    _java_regex = Room("runtime.expr.java_regex")

__all__ = ["FAMILY"]

FAMILY = Family("regular expressions")
_NULL = NO_TEXT
_TEXTS = array(STRING)


def _constant(pattern: Value) -> _java_regex.JavaRegex | None:
    """A pattern to run in Arrow; None for anything else."""
    if not isinstance(pattern, pa.Scalar) or not pattern.is_valid:
        return None
    regex = _java_regex.java_regex(pattern.as_py())
    return regex if regex is not None and regex.in_re2 else None


_FIRST_GROUP = integer(1)


@FAMILY.scalar(
    "REGEXP",
    [CHARACTER, CHARACTER],
    BOOLEAN,
    "Whether the expression matches somewhere; FALSE for a wrong or empty one.",
    syntax="REGEXP(text, pattern)",
)
def regexp(context: EvalContext, text: Value, pattern: Value) -> Value:
    regex = _constant(pattern)
    if regex is not None and pattern.as_py():
        return pc.match_substring_regex(text, regex.re2())

    def find(given: str, expression: str) -> bool:
        read = _java_regex.java_regex(expression) if expression else None
        return read is not None and read.python.search(given) is not None

    return map_distinct(find, [text, pattern], pa.bool_(), context.num_rows)


@FAMILY.scalar(
    "~",
    [CHARACTER, CHARACTER],
    BOOLEAN,
    "Whether the expression matches somewhere; an error for a wrong one. `~*`: whatever the case; `!~`, `!~*`: whether not.",
    syntax="s ~ p",
    can_fail=True,
)
def matches(context: EvalContext, text: Value, pattern: Value) -> Value:
    regex = _constant(pattern)
    if regex is not None:
        return pc.match_substring_regex(text, regex.re2())

    def find(given: str, expression: str) -> bool:
        read = _java_regex.java_regex(expression)
        if read is None:
            raise ExpressionError(f"'{expression[:60]}' is not a regular expression", code="E2003")
        return read.python.search(given) is not None

    return map_distinct(find, [text, pattern], pa.bool_(), context.num_rows)


@FAMILY.scalar(
    "REGEXP_REPLACE",
    [CHARACTER, CHARACTER, CHARACTER],
    STRING,
    "The text with every match replaced by a plain text; NULL for a wrong regular expression.",
    overflows=lambda types, _: (
        not isinstance(types.literal(1), str) or _java_regex.java_regex(types.literal(1)) is None
    ),
)
def regexp_replace(context: EvalContext, text: Value, pattern: Value, replacement: Value) -> Value:
    regex = _constant(pattern)
    if nothing(replacement):
        return _NULL
    if regex is not None and not regex.matches_empty and isinstance(replacement, pa.Scalar):
        return pc.replace_substring_regex(
            text, pattern=regex.re2(), replacement=replacement.as_py().replace("\\", "\\\\")
        )

    def change(given: str, expression: str, new: str) -> str | None:
        read = _java_regex.java_regex(expression)
        if read is None:
            return None
        return read.python.sub(lambda _: new, given)

    return map_distinct(change, [text, pattern, replacement], pa.string(), context.num_rows)


def _searched(texts: pa.Array, regex: _java_regex.JavaRegex, scan: Scan | None, group: int) -> pa.Array:
    if scan is None:
        return pc.struct_field(pc.extract_regex(texts, pattern=regex.re2(group)), [0])
    found, undecided = scan.group(texts)
    if not undecided.any():
        return found
    rest = pa.array(undecided)
    return pc.replace_with_mask(
        found, rest, pc.struct_field(pc.extract_regex(texts.filter(rest), pattern=regex.re2(group)), [0])
    )


def _group(text: Value, regex: _java_regex.JavaRegex, scan: Scan | None, group: int, length: int) -> Value:
    """A group of the first match: Arrow gives '' for a group that took no part, so those rows are asked again."""

    def groups(texts: pa.Array) -> pa.Array:
        found = _searched(texts, regex, scan, group)
        if group == 0 or scan is not None:
            return found
        blank = pc.fill_null(pc.equal(found, ""), False)
        if not pc.any(blank).as_py():
            return found
        asked = map_distinct(regex.first_group, [texts.filter(blank), pa.scalar(group)], pa.string(), len(texts))
        return pc.replace_with_mask(found, blank, asked)

    return on_rows(groups, text, length)


@FAMILY.scalar(
    "REGEXP_EXTRACT",
    [CHARACTER, CHARACTER, optional(WHOLE_)],
    STRING,
    "A group of the first match, 0 (the default) for all of it.",
    nulls=Nulls.MAYBE,
)
def regexp_extract(context: EvalContext, text: Value, pattern: Value, group: Value = integer(0)) -> Value:  # noqa: B008
    regex = _constant(pattern)
    if regex is not None and isinstance(group, pa.Scalar):
        wanted = group.as_py()
        if wanted is None or not 0 <= wanted <= regex.groups:
            return _NULL
        return _group(text, regex, scan_of(pattern.as_py(), wanted), wanted, context.num_rows)

    def first(given: str, expression: str, number: int) -> str | None:
        read = _java_regex.java_regex(expression)
        return None if read is None or not 0 <= number <= read.groups else read.first_group(given, number)

    return map_distinct(first, [text, pattern, group], pa.string(), context.num_rows)


@FAMILY.scalar("REGEXP_SUBSTR", [CHARACTER, CHARACTER], STRING, "The first match.", nulls=Nulls.MAYBE)
def regexp_substr(context: EvalContext, text: Value, pattern: Value) -> Value:
    return regexp_extract(context, text, pattern)


@FAMILY.scalar(
    "REGEXP_EXTRACT_ALL",
    [CHARACTER, CHARACTER, optional(WHOLE_)],
    _TEXTS,
    "A group (1) of all matches.",
    nulls=Nulls.MAYBE,
)
def regexp_extract_all(context: EvalContext, text: Value, pattern: Value, group: Value = _FIRST_GROUP) -> Value:
    def every(given: str, expression: str, number: int) -> list[str | None] | None:
        read = _java_regex.java_regex(expression)
        if read is None or not 0 <= number <= read.groups:
            return None
        return [m.group(number) for m in read.python.finditer(given)]

    return map_distinct(every, [text, pattern, group], _TEXTS.arrow, context.num_rows)


def _number(context: EvalContext, text: Value, pattern: Value, kernel: Any, otherwise: Any) -> Value:
    """A count or a position: by a kernel over the texts, or by a Python function of the expression and a text."""
    regex = _constant(pattern)
    if regex is not None and not regex.matches_empty:
        return on_rows(lambda texts: kernel(texts, regex.re2()), text, context.num_rows)

    def compute(given: str, expression: str) -> int | None:
        read = _java_regex.java_regex(expression)
        return None if read is None else otherwise(read.python, given)

    return map_distinct(compute, [text, pattern], pa.int32(), context.num_rows)


@FAMILY.scalar("REGEXP_COUNT", [CHARACTER, CHARACTER], INT, "The number of matches.", nulls=Nulls.MAYBE)
def regexp_count(context: EvalContext, text: Value, pattern: Value) -> Value:
    return _number(context, text, pattern, pc.count_substring_regex, lambda p, t: sum(1 for _ in p.finditer(t)))


def _instr(texts: pa.Array, pattern: str) -> pa.Array:
    at = pc.find_substring_regex(texts, pattern)
    if not is_ascii(texts):
        at = from_numpy(
            character_index(texts, pc.fill_null(at, -1).to_numpy(zero_copy_only=False)), validity(texts), pa.int32()
        )
    return pc.add(as_array(at, len(texts)), pa.scalar(1, pa.int32()))


@FAMILY.scalar(
    "REGEXP_INSTR",
    [CHARACTER, CHARACTER],
    INT,
    "Where the first match begins, from 1; 0 when there is none.",
    nulls=Nulls.MAYBE,
)
def regexp_instr(context: EvalContext, text: Value, pattern: Value) -> Value:
    return _number(context, text, pattern, _instr, lambda p, t: m.start() + 1 if (m := p.search(t)) else 0)
