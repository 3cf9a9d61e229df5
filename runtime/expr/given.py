"""What comes from outside as values of a type, in the one form in which values of it are carried."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from runtime.core.errors import ExpressionError
from runtime.core.rooms import Room
from runtime.core.types import INT, DataType, TypeRoot

if TYPE_CHECKING:
    import runtime.expr.bitmaps as _bitmaps
    import runtime.kernels.variants as _variants
else:
    _bitmaps = Room("runtime.expr.bitmaps")
    _variants = Room("runtime.kernels.variants")

__all__ = ["JsonText", "given"]


class JsonText(str):
    """A text of JSON, where any other `str` is a value of JSON."""

    __slots__ = ()


_MOST_LEVELS = 200
_SHOWN = 60


def given(values: Any, type_: DataType) -> Any:
    """What a program gives as values of a type: sets and JSON values as they are carried, anything else as it is.

    Args:
        values: a sequence or an Arrow array. A BITMAP is a set of pyroaring, or bytes as of BITMAP_TO_BYTES. A VARIANT is
            a `JsonText` or what `json.loads` gives (a Decimal stays exact); in an Arrow array it is a text of JSON.

    Raises:
        ExpressionError: bytes that are no bitmap (E2019), or a text that is no JSON (E2002).
        TypeError: something else where a set or a value of JSON is wanted.
    """
    if not _has_form(type_):
        return values
    if not isinstance(values, (pa.Array, pa.ChunkedArray)):
        return pa.array([_formed(value, type_, _variant) for value in values], type_.arrow)
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if type_.root is TypeRoot.BITMAP:
        return _bitmaps.each(whole.cast(pa.binary()), _bitmaps.checked, pa.binary())
    if type_.root is TypeRoot.VARIANT:
        return _checked(whole.cast(pa.string()))
    return pa.array([_formed(value, type_, _canonical) for value in whole.to_pylist()], type_.arrow)


def _checked(texts: pa.Array) -> pa.Array:
    values, state = _variants.parse(texts, np.ones(len(texts), np.bool_), floats=True)
    wrong = np.flatnonzero((state != _variants.MADE) & (state != _variants.SKIPPED))
    if len(wrong):
        raise ExpressionError(f"'{texts[int(wrong[0])].as_py()[:_SHOWN]}' is no JSON", code="E2002")
    return values


def _canonical(text: str) -> str:
    return _checked(pa.array([text], pa.string()))[0].as_py()


def _formed(value: Any, type_: DataType, variant: Any) -> Any:
    """A value of Python with its sets and JSON values as they are carried."""
    if value is None or not _has_form(type_):
        return value
    match type_.root:
        case TypeRoot.BITMAP:
            return _bitmaps.of_python(value)
        case TypeRoot.VARIANT:
            return variant(value)
        case TypeRoot.ARRAY:
            return [_formed(item, type_.children[0], variant) for item in value]
        case TypeRoot.ROW if isinstance(value, Mapping):
            return {f.name: _formed(value.get(f.name), f.type, variant) for f in type_.fields}
        case TypeRoot.ROW:
            return tuple(_formed(v, f.type, variant) for v, f in zip(value, type_.fields, strict=True))
        case _:
            key, counted = type_.children[0], type_.children[-1] if type_.root is TypeRoot.MAP else INT
            pairs = value.items() if isinstance(value, Mapping) else value
            return [(_formed(k, key, variant), _formed(v, counted, variant)) for k, v in pairs]


def _has_form(type_: DataType) -> bool:
    parts = (*type_.children, *(f.type for f in type_.fields))
    return type_.root in (TypeRoot.BITMAP, TypeRoot.VARIANT) or any(map(_has_form, parts))


def _variant(value: Any, level: int = 0) -> str:
    """A value as `json.loads` gives it, as VARIANT is carried. Raises TypeError for any other."""
    if level > _MOST_LEVELS:
        raise TypeError(f"a value of VARIANT is nested at most {_MOST_LEVELS} levels deep")
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case JsonText():
            return _canonical(value)
        case str():
            return _canonical(json.dumps(value))
        case int() | Decimal() if Decimal(value).is_finite():
            return _canonical(format(Decimal(value), "f"))
        case float() if math.isfinite(value):
            return _variants.double_text(value)
        case list() | tuple():
            return f"[{','.join(_variant(v, level + 1) for v in value)}]"
        case dict() if all(isinstance(k, str) for k in value):
            made = {_canonical(json.dumps(k)): _variant(v, level + 1) for k, v in value.items()}
            return f"{{{','.join(f'{k}:{made[k]}' for k in sorted(made, key=lambda k: k[:-1]))}}}"
        case _:
            raise TypeError(f"a value of JSON is wanted, not {type(value).__name__}")
