"""A literal as an Arrow scalar of exactly its type's carrier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from runtime.core.types import INT, DataType, TypeRoot
from runtime.expr.nodes import Literal

__all__ = ["literal_array", "literal_scalar"]


def literal_scalar(literal: Literal) -> pa.Scalar:
    """The scalar of a literal. Timestamps above precision 6 may be given as the stored integer of nanoseconds."""
    return pa.scalar(_plain(literal.value, literal.type), literal.type.arrow)


def literal_array(values: Sequence[Any], type_: DataType) -> pa.Array:
    """Values as in `Literal` as a column."""
    return pa.array([_plain(v, type_) for v in values] if type_.is_nested else values, type_.arrow)


def _plain(value: Any, type_: DataType) -> Any:
    """Tuples of nested literals as the lists and dicts that pyarrow takes."""
    if value is None:
        return None
    match type_.root:
        case TypeRoot.ARRAY:
            return [_plain(v, type_.children[0]) for v in value]
        case TypeRoot.MAP | TypeRoot.MULTISET:
            value_type = type_.children[1] if type_.root is TypeRoot.MAP else INT
            return [(_plain(k, type_.children[0]), _plain(v, value_type)) for k, v in value]
        case TypeRoot.ROW:
            items = value.values() if isinstance(value, dict) else value
            return {f.name: _plain(v, f.type) for f, v in zip(type_.fields, items, strict=True)}
        case _:
            return value
