"""Operators and functions of PostgreSQL's `jsonb`, over VARIANT. The values are those of `runtime/kernels/variants.py`.

They are lenient as PostgreSQL's are: a member of what is no object is NULL. Elements of arrays count from 0, from the end
below zero. Parts are found by the kernels; what makes new values is computed once for each distinct value.
Source: PostgreSQL 15, "JSON Functions and Operators".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError
from runtime.core.rooms import Room
from runtime.core.types import BOOLEAN, INT, STRING, VARIANT, DataType, TypeRoot, array
from runtime.expr.columns import as_array
from runtime.expr.distinct import map_distinct
from runtime.expr.function import ArgumentType, CallTypes, EvalContext, Nulls, Value
from runtime.expr.json_text import quoted
from runtime.expr.library.declare import BOOLEAN_, CHARACTER, INTEGER, VARIANT_, Family
from runtime.expr.lists import built, by_row, map_built, parts_of

if TYPE_CHECKING:
    import runtime.kernels.variants as _variants
else:
    _variants = Room("runtime.kernels.variants")

__all__ = ["FAMILY", "shown_values"]

FAMILY = Family("jsonb")
_WHOLE = re.compile(r"\s*[-+]?\d{1,9}\s*", re.ASCII)
_TEXTS = ArgumentType(
    "ARRAY<STRING>",
    lambda t: t.same_ignoring_nullability(array(STRING)),
    lambda t: array(STRING) if t.root.value == "ARRAY" and t.children[0].is_character else None,
)


@FAMILY.scalar(
    "PG_JSONB_GET",
    [VARIANT_, CHARACTER],
    VARIANT,
    "jsonb -> key, and jsonb -> n from 0: the member or element; NULL where there is none.",
    also=[([VARIANT_, INTEGER], VARIANT)],
    nulls=Nulls.MAYBE,
)
def get(context: EvalContext, value: Value, key: Value) -> Value:
    values, keys = as_array(value, context.num_rows), as_array(key, context.num_rows)
    if pa.types.is_string(keys.type):
        found, state = _variants.members(values, quoted(keys))
    else:
        found, state = _variants.elements(values, _places(values, keys))
        # A scalar is the one element of itself.
        alone = pc.and_(pa.array(state == _variants.LEFT), pc.invert(pc.starts_with(values, "{")))
        alone = pc.and_(alone, pc.is_in(keys.cast(pa.int64()), pa.array([0, -1])))
        found = pc.if_else(alone, values, found)
        state = np.where(pc.fill_null(alone, False).to_numpy(zero_copy_only=False), _variants.MADE, state)
    missing = pa.array(state != _variants.MADE)
    return pc.if_else(pc.or_(missing, keys.is_null()), pa.scalar(None, pa.string()), found)


def _places(values: pa.Array, keys: pa.Array) -> np.ndarray:
    """From 1, for the kernel: PostgreSQL counts from 0, and from the end below it."""
    places = keys.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if not (places < 0).any():
        return places + 1
    counts = _variants.parts(values, "[")[2]
    return np.where(places < 0, np.where(counts + places < 0, 0, counts + places + 1), places + 1)


@FAMILY.scalar(
    "PG_JSONB_STEP",
    [VARIANT_, CHARACTER],
    VARIANT,
    "A step of a path: the member of an object, or the element of an array whose number the text is.",
    nulls=Nulls.MAYBE,
)
def step(context: EvalContext, value: Value, key: Value) -> Value:
    values, keys = as_array(value, context.num_rows), as_array(key, context.num_rows)
    found, state = _variants.members(values, quoted(keys))
    number = pc.match_substring_regex(keys, r"^-?\d{1,9}$")
    numbers = pc.if_else(number, keys, "0").cast(pa.int64())
    elements, is_element = _variants.elements(values, _places(values, numbers))
    is_element = (is_element == _variants.MADE) & pc.fill_null(number, False).to_numpy(zero_copy_only=False)
    chosen = pc.if_else(pa.array(is_element), elements, found)
    missing = pa.array(~is_element & (state != _variants.MADE))
    return pc.if_else(pc.or_(missing, keys.is_null()), pa.scalar(None, pa.string()), chosen)


@FAMILY.scalar(
    "PG_JSONB_TEXT",
    [VARIANT_],
    STRING,
    "The text of a value of jsonb: that of a string without quotes, NULL of null; what ->> gives.",
    nulls=Nulls.MAYBE,
)
def text_of(context: EvalContext, value: Value) -> Value:
    return _texts(as_array(value, context.num_rows))


def _texts(values: pa.Array) -> pa.Array:
    texts = pc.if_else(pc.equal(values, "null"), pa.scalar(None, pa.string()), values)
    holds = pc.or_(pc.starts_with(texts, "{"), pc.starts_with(texts, "["))
    if pc.any(holds).as_py():
        shown = map_distinct(
            lambda text: _shown(_read(text)), [pc.if_else(holds, texts, None)], pa.string(), len(texts)
        )
        texts = pc.if_else(holds, shown, texts)
    is_text = pc.starts_with(texts, '"')
    if not pc.any(is_text).as_py():
        return texts
    plain = pc.utf8_slice_codeunits(texts, 1, -1)
    escaped = pc.and_(is_text, pc.match_substring(texts, "\\"))
    if pc.any(escaped).as_py():
        read = map_distinct(json.loads, [pc.if_else(escaped, texts, None)], pa.string(), len(texts))
        plain = pc.if_else(escaped, read, plain)
    return pc.if_else(is_text, plain, texts)


def _texts_rule(types: CallTypes) -> tuple[tuple[DataType, ...], DataType] | None:
    if len(types) != 1 or types[0].root not in (TypeRoot.ARRAY, TypeRoot.MAP):
        return None
    *keys, value = types[0].children
    if value.root is not TypeRoot.VARIANT:
        return None
    return tuple(types), types[0].with_(children=(*keys, STRING))


@FAMILY.special(
    "PG_JSONB_TEXTS",
    _texts_rule,
    "An array or map of values of jsonb with their texts, as ->> gives them.",
    form=("ARRAY<VARIANT> or MAP<STRING, VARIANT>",),
    nulls=Nulls.STRICT,
    syntax="PG_JSONB_TEXTS(values)",
)
@by_row
def texts_of(context: EvalContext, length: int, given: pa.Array) -> pa.Array:
    parts = parts_of(given)
    places = pa.array(parts.rows)
    is_map = pa.types.is_map(given.type)
    values = (given.items if is_map else given.values).take(places)
    texts = _texts(values)
    if is_map:
        return map_built(given.keys.take(places), texts, parts.lengths, parts.valid, context.result_type.arrow)
    return built(texts, parts.lengths, parts.valid, context.result_type.arrow)


@FAMILY.scalar("PG_JSONB_TYPEOF", [VARIANT_], STRING, "object, array, string, number, boolean or null.")
def type_of(context: EvalContext, value: Value) -> Value:
    first = pc.utf8_slice_codeunits(as_array(value, context.num_rows), 0, 1)
    names = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}
    found = pc.index_in(first, pa.array(list(names)))
    kinds = pa.array([*names.values(), "number"]).take(pc.fill_null(found, len(names)))
    return pc.if_else(first.is_valid(), kinds, pa.scalar(None, pa.string()))


@FAMILY.scalar("PG_JSONB_ARRAY_LENGTH", [VARIANT_], INT, "The number of elements of an array.", can_fail=True)
def array_length(context: EvalContext, value: Value) -> Value:
    values = as_array(value, context.num_rows)
    counts = _variants.parts(values, "[")[2]
    wrong = np.flatnonzero((counts < 0) & values.is_valid().to_numpy(zero_copy_only=False))
    if len(wrong):
        shown = values[int(wrong[0])].as_py()[:60]
        raise ExpressionError(f"{shown} is no array", code="E2020", hint="look at JSONB_TYPEOF(v) first")
    return pa.array(counts, pa.int32(), mask=counts < 0)


# What makes new values, or looks into all of a value: once for each distinct value.


def _of_values(
    name: str, arguments: list[ArgumentType], result: Any, document: str, function: Callable[..., Any]
) -> None:
    """Declares a function of Python values."""

    def evaluate(context: EvalContext, *values: Value) -> Value:
        given = [v if isinstance(v, pa.Scalar) else as_array(v, context.num_rows) for v in values]
        return map_distinct(function, given, context.result_type.arrow, context.num_rows)

    FAMILY.scalar(name, arguments, result, document, nulls=Nulls.MAYBE, can_fail=True)(evaluate)


def _read(text: str) -> Any:
    """A value in which numbers keep their text."""
    return json.loads(text, parse_int=_Number, parse_float=_Number)


class _Number(str):
    """A number by its canonical text."""

    __slots__ = ()


def _write(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case _Number():
            return str(value)
        case str():
            return str(quoted(pa.array([value]))[0].as_py())
        case list():
            return f"[{','.join(map(_write, value))}]"
        case _:
            keys = sorted(value, key=lambda key: key.encode())
            return "{" + ",".join(f"{_write(str(key))}:{_write(value[key])}" for key in keys) + "}"


def _holds(whole: Any, part: Any) -> bool:
    """Whether a value contains another."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return all(key in whole and _holds(whole[key], part[key]) for key in part)
    if isinstance(whole, list) and isinstance(part, list):
        return all(any(_holds(item, wanted) for item in whole) for wanted in part)
    return type(whole) is type(part) and whole == part


def _contains(whole: str, part: str) -> bool:
    a, b = _read(whole), _read(part)
    # An array contains a scalar at the top, as if that stood in an array.
    return _holds(a, [b] if isinstance(a, list) and not isinstance(b, list | dict) else b)


def _has(value: str, key: str) -> bool:
    found = _read(value)
    if isinstance(found, dict):
        return key in found
    texts = found if isinstance(found, list) else [found]
    return any(isinstance(t, str) and not isinstance(t, _Number) and t == key for t in texts)


def _joined(a: str, b: str) -> str:
    left, right = _read(a), _read(b)
    if isinstance(left, dict) and isinstance(right, dict):
        return _write({**left, **right})
    both = [value if isinstance(value, list) else [value] for value in (left, right)]
    return _write(both[0] + both[1])


def _refused(value: str, what: str) -> ExpressionError:
    return ExpressionError(
        f"{value[:60]} has nothing to delete: it is no {what}", code="E2020", hint="look at JSONB_TYPEOF(v) first"
    )


def _without_keys(value: str, keys: list[str]) -> str:
    found = _read(value)
    if isinstance(found, dict):
        return _write({k: v for k, v in found.items() if k not in keys})
    if isinstance(found, list):
        return _write([v for v in found if isinstance(v, _Number) or not isinstance(v, str) or v not in keys])
    raise _refused(value, "object and no array")


def _without_element(value: str, place: int) -> str:
    found = _read(value)
    if not isinstance(found, list):
        raise _refused(value, "array")
    if -len(found) <= place < len(found):
        del found[place]
    return _write(found)


def _without_path(value: str, path: list[str]) -> str:
    found = _read(value)
    if not isinstance(found, dict | list):
        raise _refused(value, "object and no array")
    if not found:
        return value
    holder: Any = found
    for place, name in enumerate(path):
        last = place == len(path) - 1
        if isinstance(holder, dict) and name in holder:
            if last:
                del holder[name]
            else:
                holder = holder[name]
        elif isinstance(holder, list) and (at := _number_in(name, holder)) is not None:
            if last:
                del holder[at]
            else:
                holder = holder[at]
        else:
            break
    return _write(found)


def _with_value(value: str, path: list[str], new: str, create: bool) -> str:
    found = _read(value)
    if not isinstance(found, dict | list):
        raise _refused(value, "object and no array")
    holder: Any = found
    for place, name in enumerate(path):
        last = place == len(path) - 1
        if isinstance(holder, dict):
            key: Any = name if name in holder or (last and create) else None
        elif isinstance(holder, list) and (at := _whole(name)) is not None:
            key = _place(holder, at, [_read(new)] if last and create else [])
        else:
            key = None
        if key is None:
            break
        if last:
            holder[key] = _read(new)
        else:
            holder = holder[key]
    return _write(found)


def _place(holder: list[Any], place: int, added: list[Any]) -> int | None:
    """The element of that number; where there is none, `added` stands before the first, or behind the last."""
    if -len(holder) <= place < len(holder):
        return place
    at = 0 if place < 0 else len(holder)
    holder[at:at] = added
    return None


def _with_added(value: str, path: list[str], new: str, after: bool) -> str:
    found = _read(value)
    if not isinstance(found, dict | list):
        raise _refused(value, "object and no array")
    holder: Any = found
    for name in path[:-1]:
        if isinstance(holder, dict) and name in holder:
            holder = holder[name]
        elif isinstance(holder, list) and (place := _number_in(name, holder)) is not None:
            holder = holder[place]
        else:
            return _write(found)
    name = path[-1] if path else ""
    if isinstance(holder, dict):
        if name in holder:
            raise ExpressionError(
                f'there is a key "{name[:60]}" already', code="E2029", hint="JSONB_SET replaces the value of a key"
            )
        holder[name] = _read(new)
    elif isinstance(holder, list) and (at := _whole(name)) is not None:
        at = max(len(holder) + at, -1) if at < 0 else min(at, len(holder))
        holder.insert(max(at + after if at < len(holder) else at, 0), _read(new))
    return _write(found)


def _number_in(name: str, holder: list[Any]) -> int | None:
    """The place in an array that a step of a path names; None for one that it has not."""
    place = _whole(name)
    return place if place is not None and -len(holder) <= place < len(holder) else None


def _whole(name: str) -> int | None:
    return int(name) if _WHOLE.fullmatch(name) else None


def _pretty(value: Any, level: int = 0) -> str:
    """On lines of their own, each level four blanks further in."""
    margin, inner = "    " * level, "    " * (level + 1)
    if isinstance(value, list):
        parts = [f"{inner}{_pretty(v, level + 1)}" for v in value]
        return "[\n" + ",\n".join(parts) + ("\n" if parts else "") + f"{margin}]"
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
        parts = [f"{inner}{_write(str(key))}: {_pretty(value[key], level + 1)}" for key in keys]
        return "{\n" + ",\n".join(parts) + ("\n" if parts else "") + f"{margin}}}"
    return _write(value)


def _object_of(texts: list[str | None]) -> str:
    if len(texts) % 2:
        raise ExpressionError("a key has no value", code="E2029", hint="keys and values stand in turn")
    return _object_of_two(texts[::2], texts[1::2])


def _object_of_two(keys: list[str | None], values: list[str | None]) -> str:
    if len(keys) != len(values):
        raise ExpressionError("there are not as many keys as values", code="E2029", hint="give a value for each key")
    if None in keys:
        raise ExpressionError("a key is NULL", code="E2029", hint="leave it out, or give it a name")
    return _write(dict(zip(keys, values, strict=True)))


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _stripped(v) for k, v in value.items() if v is not None}
    return [_stripped(v) for v in value] if isinstance(value, list) else value


def _shown(value: Any) -> str:
    """As PostgreSQL writes it: blanks behind commas and colons, shorter keys first."""
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
        return "{" + ", ".join(f"{_write(str(key))}: {_shown(value[key])}" for key in keys) + "}"
    return _write(value)


def shown_values(values: pa.Array) -> pa.Array:
    """Values of jsonb as PostgreSQL writes them."""
    holds = pc.or_(pc.starts_with(values, "{"), pc.starts_with(values, "["))
    if not pc.any(holds).as_py():
        return values
    shown = map_distinct(lambda text: _shown(_read(text)), [pc.if_else(holds, values, None)], pa.string(), len(values))
    return pc.if_else(holds, shown, values)


_of_values(
    "PG_JSONB_CONTAINS",
    [VARIANT_, VARIANT_],
    BOOLEAN,
    "jsonb @> jsonb: whether the first contains the second.",
    _contains,
)
_of_values(
    "PG_JSONB_HAS", [VARIANT_, CHARACTER], BOOLEAN, "jsonb ? key: whether it is a key, or a text of the array.", _has
)
_of_values(
    "PG_JSONB_HAS_ANY", [VARIANT_, _TEXTS], BOOLEAN, "jsonb ?| keys: whether one of them is a key.",
    lambda value, keys: any(_has(value, k) for k in keys if k is not None),
)  # fmt: skip
_of_values(
    "PG_JSONB_HAS_ALL", [VARIANT_, _TEXTS], BOOLEAN, "jsonb ?& keys: whether all of them are keys.",
    lambda value, keys: all(_has(value, k) for k in keys if k is not None),
)  # fmt: skip
_of_values(
    "PG_JSONB_CONCAT", [VARIANT_, VARIANT_], VARIANT, "jsonb || jsonb: both objects as one, or both arrays.", _joined
)
_of_values(
    "PG_JSONB_WITHOUT", [VARIANT_, CHARACTER], VARIANT, "jsonb - key: without the member.",
    lambda value, key: _without_keys(value, [key]),
)  # fmt: skip
_of_values("PG_JSONB_WITHOUT_KEYS", [VARIANT_, _TEXTS], VARIANT, "jsonb - keys: without these members.", _without_keys)
_of_values(
    "PG_JSONB_WITHOUT_ELEMENT",
    [VARIANT_, INTEGER],
    VARIANT,
    "jsonb - n: without the element n, from 0.",
    _without_element,
)
_of_values(
    "PG_JSONB_WITHOUT_PATH",
    [VARIANT_, _TEXTS],
    VARIANT,
    "jsonb #- path: without what the path leads to.",
    _without_path,
)
_of_values(
    "PG_JSONB_SET",
    [VARIANT_, _TEXTS, VARIANT_, BOOLEAN_],
    VARIANT,
    "JSONB_SET: the value with another one where the path leads to; the last step is added if it is not there.",
    _with_value,
)
_of_values(
    "PG_JSONB_STRIP_NULLS", [VARIANT_], VARIANT, "The value without members that are null.",
    lambda value: _write(_stripped(_read(value))),
)  # fmt: skip
_of_values(
    "PG_JSONB_SHOWN", [VARIANT_], STRING, "The value as PostgreSQL writes it.", lambda value: _shown(_read(value))
)
_of_values(
    "PG_JSONB_INSERT",
    [VARIANT_, _TEXTS, VARIANT_, BOOLEAN_],
    VARIANT,
    "JSONB_INSERT: the value with a new element before, or with TRUE behind, the one that the path leads to, or a new member.",
    _with_added,
)
_of_values(
    "PG_JSONB_PRETTY",
    [VARIANT_],
    STRING,
    "The value on lines, each level further in.",
    lambda value: _pretty(_read(value)),
)
_of_values(
    "PG_JSONB_OBJECT", [_TEXTS], VARIANT, "The object of keys and values in turn; values are strings.", _object_of
)
_of_values(
    "PG_JSONB_OBJECT_OF_TWO", [_TEXTS, _TEXTS], VARIANT, "The object of keys and of as many values.", _object_of_two
)
