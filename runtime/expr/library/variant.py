"""Functions of VARIANT, as of Flink 2.3. The values are those of `runtime/kernels/variants.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError
from runtime.core.rooms import Room
from runtime.core.types import VARIANT
from runtime.expr.columns import as_array
from runtime.expr.function import EvalContext, Nulls, Value, optional
from runtime.expr.json_text import quoted
from runtime.expr.library.declare import BOOLEAN_, CHARACTER, Family

if TYPE_CHECKING:
    import runtime.kernels.variants as _variants
else:
    _variants = Room("runtime.kernels.variants")

__all__ = ["FAMILY", "item_of"]

FAMILY = Family("variant")
_SHOWN = 60


def _parsed(context: EvalContext, text: Value, repeats: Value | None, safe: bool) -> Value:
    values = [text] if repeats is None else [text, repeats]
    length = 1 if all(isinstance(v, pa.Scalar) for v in values) else context.num_rows
    texts = as_array(text, length)
    allowed = np.zeros(length, np.bool_)
    if repeats is not None:
        flags = as_array(repeats, length)
        allowed = flags.fill_null(False).to_numpy(zero_copy_only=False)
        if flags.null_count:
            texts = pc.if_else(flags.is_valid(), texts, None)
    made, state = _variants.parse(texts, allowed)
    failed = np.flatnonzero(state > 0)
    if len(failed) and not safe:
        shown = texts[int(failed[0])].as_py()[:_SHOWN]
        if state[failed[0]] == _variants.REPEATED:
            raise ExpressionError(
                f"'{shown}' has a key twice in an object",
                code="E2002",
                hint="PARSE_JSON(text, TRUE) takes the last value of a key",
            )
        raise ExpressionError(
            f"'{shown}' is no JSON", code="E2002", hint="TRY_PARSE_JSON gives NULL for what is no JSON"
        )
    return made[0] if length == 1 and all(isinstance(v, pa.Scalar) for v in values) else made


@FAMILY.scalar(
    "PARSE_JSON",
    [CHARACTER, optional(BOOLEAN_)],
    VARIANT,
    "The value of a JSON text; with TRUE, the last value of a key that an object has twice, which is an error else.",
    can_fail=True,
    syntax="PARSE_JSON(text [, allow_duplicate_keys])",
)
def parse_json(context: EvalContext, text: Value, repeats: Value | None = None) -> Value:
    return _parsed(context, text, repeats, safe=False)


@FAMILY.scalar(
    "TRY_PARSE_JSON",
    [CHARACTER, optional(BOOLEAN_)],
    VARIANT,
    "PARSE_JSON that gives NULL for what is no JSON.",
    nulls=Nulls.MAYBE,
    syntax="TRY_PARSE_JSON(text [, allow_duplicate_keys])",
)
def try_parse_json(context: EvalContext, text: Value, repeats: Value | None = None) -> Value:
    return _parsed(context, text, repeats, safe=True)


def item_of(values: pa.Array, key: pa.Array) -> pa.Array:
    """The members of objects (`key` is of texts) or elements of arrays (of numbers, from 1); NULL where there is none.

    Raises:
        ExpressionError: a value is of another kind (E2020).
    """
    named = pa.types.is_string(key.type)
    if named:
        found, state = _variants.members(values, quoted(key))
    else:
        found, state = _variants.elements(values, key.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))
    wrong = np.flatnonzero(state == _variants.LEFT)
    if len(wrong):
        row = int(wrong[0])
        shown = values[row].as_py()[:_SHOWN]
        at = key[row if len(key) > 1 else 0].as_py()
        raise ExpressionError(
            f"{shown} is no {'object, and has no member' if named else 'array, and has no element'} [{at!r}]",
            code="E2020",
            hint='look at what it is first: JSON_STRING(v) begins with {, [ or "',
        )
    return found
