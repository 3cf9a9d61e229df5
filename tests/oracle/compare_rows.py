"""Answers of both engines in one form, column by column: parts that come in any order are put in one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from runtime.core.schema import Schema
from sqlengine.verify.rows import Row, difference
from tests.oracle.generate_text import Kind

__all__ = ["differing", "null_where_none_may_be"]


def differing(ours: Sequence[Row], theirs: Sequence[Row], kinds: Sequence[Kind], *, duck: bool = False) -> str | None:
    """What differs between two bags of rows of these kinds, or None. `duck`: both are DuckDB's."""
    approx = [k is Kind.APPROX for k in kinds]
    return difference(_shown(ours, kinds, _THEIRS if duck else _OURS), _shown(theirs, kinds, _THEIRS), approx)


def null_where_none_may_be(schema: Schema, rows: Sequence[Row]) -> str | None:
    """A column that says NOT NULL and has NULL, as a sentence."""
    for at, field in enumerate(schema.fields):
        if not field.type.nullable and any(row[at] is None for row in rows):
            return f"column {field.name} is {field.type} and has NULL"
    return None


Form = Callable[[Any], Any]


def _shown(rows: Sequence[Row], kinds: Sequence[Kind], forms: dict[Kind, Form]) -> list[Row]:
    chosen = [forms.get(k) for k in kinds]
    if not any(chosen):
        return list(rows)
    return [tuple(v if f is None or v is None else f(v) for v, f in zip(row, chosen, strict=True)) for row in rows]


def _bag(values: Sequence[Any]) -> tuple[Any, ...]:
    """The values in an order of their own, whatever their types."""
    return tuple(sorted((_hashable(v) for v in values), key=repr))


def _hashable(value: Any) -> Any:
    """Numbers by value, parts of nested values likewise, so that equal values have one text."""
    if isinstance(value, dict):
        return tuple((k, _hashable(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    if isinstance(value, bool | str | bytes) or value is None:
        return value
    if hasattr(value, "is_integer") or hasattr(value, "normalize"):
        number = float(value)
        return int(value) if number == int(value) else number
    return value


def _counted(pairs: Sequence[tuple[Any, int]]) -> tuple[Any, ...]:
    return _bag([value for value, times in pairs for _ in range(times)])


def _struct(value: Any) -> tuple[Any, ...]:
    return tuple(value.values()) if isinstance(value, dict) else tuple(value)


def _map(value: Any) -> tuple[Any, ...]:
    return tuple(sorted(value.items() if isinstance(value, dict) else value))


_OURS: dict[Kind, Form] = {
    # The longer separator leaves its sign behind every part but the last.
    Kind.LISTED: lambda v: tuple(sorted(part.rstrip("😀") for part in v.split(","))),
    Kind.BAG: _bag,
    Kind.COUNTED: _counted,
    Kind.JSON_ARRAY: lambda v: _bag(json.loads(v)),
    Kind.JSON_OBJECT: lambda v: _map(json.loads(v)),
    Kind.INTS: tuple,
    Kind.STRINGS: tuple,
    Kind.MAP: _map,
    Kind.ROW: _struct,
}
_THEIRS: dict[Kind, Form] = {**_OURS, Kind.COUNTED: _bag, Kind.JSON_ARRAY: _bag, Kind.JSON_OBJECT: _map}
