"""Bags of rows: equal when every row is there as often on both sides; numbers by value, inexact ones with a
tolerance."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

__all__ = ["Row", "Unordered", "difference", "rows_of", "sorted_parts"]

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Unordered:
    """A column whose values have parts that come in any order: a text with a separator between them (LISTAGG), an array,
    or, with `counted`, values with how often they are there (COLLECT)."""

    separator: str | None = None
    counted: bool = False


def sorted_parts(rows: Sequence[Row], unordered: Sequence[Unordered | None]) -> list[Row]:
    """The rows with the parts of such columns in one order."""
    if not any(unordered):
        return list(rows)
    return [tuple(v if u is None else _parts(v, u) for v, u in zip(row, unordered, strict=True)) for row in rows]


def _parts(value: Any, unordered: Unordered) -> Any:
    if unordered.counted:
        pairs = [] if value is None else value
        whole = [v[0] for v in pairs for _ in range(v[1])] if pairs and isinstance(pairs[0], tuple) else pairs
        return tuple(sorted((_value(v) for v in whole), key=_key))
    if value is None:
        return None
    if unordered.separator is not None:
        return tuple(sorted(value.split(unordered.separator) if unordered.separator else value))
    return tuple(sorted((_value(v) for v in value), key=_key))


def rows_of(table: pa.Table) -> list[Row]:
    """Rows as tuples, by position: two columns may have one name."""
    columns = [c.to_pylist() for c in table.columns]
    return list(zip(*columns, strict=True)) if columns else [() for _ in range(table.num_rows)]


def difference(
    ours: Sequence[Row], theirs: Sequence[Row], approx: Sequence[bool], whose: str = "DuckDB's"
) -> str | None:
    """What differs between two bags, or None. `approx`: per column, whether its numbers are inexact."""
    left, right = Counter(map(_plain, ours)), Counter(map(_plain, theirs))
    if left == right:
        return None
    if len(ours) == len(theirs):
        order = sorted(range(len(approx)), key=lambda i: approx[i])
        pairs = zip(_sorted(left, order), _sorted(right, order), strict=True)
        if all(_close(a, b, approx) for a, b in pairs):
            return None
    lines = [f"  only in ours ({n}x): {row}" for row, n in (left - right).items()]
    lines += [f"  only in {whose} ({n}x): {row}" for row, n in (right - left).items()]
    return "\n".join(lines)


def _plain(row: Sequence[Any]) -> Row:
    return tuple(_value(v) for v in row)


def _value(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value) if value != value else value
    if isinstance(value, float | Decimal) and value == value and value == int(value):
        return int(value)
    if isinstance(value, list):
        if value and all(isinstance(v, tuple) for v in value):
            # A map: its entries have no order.
            return tuple(sorted(((_value(k), _value(v)) for k, v in value), key=lambda pair: _key(pair[0])))
        return tuple(map(_value, value))
    if isinstance(value, dict):
        return tuple(map(_value, value.values()))
    return value


def _sorted(rows: Counter[Row], order: Sequence[int]) -> list[Row]:
    return sorted(rows.elements(), key=lambda row: [_key(row[i]) for i in order])


def _key(value: Any) -> tuple[bool, str, float, str]:
    if isinstance(value, int | float | Decimal):
        return (False, "", round(float(value), 5), "")
    return (value is None, type(value).__name__, 0.0, str(value))


def _close(a: Row, b: Row, approx: Sequence[bool]) -> bool:
    for x, y, inexact in zip(a, b, approx, strict=True):
        if x == y:
            continue
        numbers = isinstance(x, int | float | Decimal) and isinstance(y, int | float | Decimal)
        if not numbers or not inexact or not math.isclose(float(x), float(y), rel_tol=1e-9, abs_tol=2e-6):
            return False
    return True
