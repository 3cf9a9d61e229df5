"""Rows of every type, with NULL and the least and greatest values, and what conditions keep of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from runtime.core.schema import Schema
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIME,
    TINYINT,
    DataType,
    TypeRoot,
    array,
    decimal,
    map_of,
    row,
    timestamp,
    timestamp_ltz,
)
from runtime.expr.nodes import Call, Expr, InputRef, Literal

__all__ = ["EXTREMES", "conditions_over", "every_value", "passes"]

EXTREMES: Mapping[str, tuple[DataType, tuple[Any, ...]]] = {
    "boolean": (BOOLEAN, (True, False)),
    "tinyint": (TINYINT, (-128, 127, 0)),
    "smallint": (SMALLINT, (-(2**15), 2**15 - 1)),
    "int": (INT, (-(2**31), 2**31 - 1, 0)),
    "bigint": (BIGINT, (-(2**63), 2**63 - 1)),
    "float": (FLOAT, (-3.4028234663852886e38, 1.401298464324817e-45, 0.5)),
    "double": (DOUBLE, (-1.7976931348623157e308, 5e-324, 0.1)),
    "decimal": (decimal(10, 2), (Decimal("-99999999.99"), Decimal("99999999.99"), Decimal("0.01"))),
    "long_decimal": (decimal(38, 18), (Decimal("-" + "9" * 20 + "." + "9" * 18), Decimal("1").scaleb(-18))),
    "string": (
        STRING,
        ("", "a", "gr\u00fc\u00dfe \U0001f600", "two\nlines, \"quoted\" 'twice'\\", " blank ", "x" * 5000),
    ),
    "bytes": (BYTES, (b"", b"\x00\xff\n", b"\\x41")),
    "date": (DATE, (date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31))),
    "time": (TIME, (time(0, 0), time(23, 59, 59))),
    "timestamp": (
        timestamp(6),
        (datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(9999, 12, 31)),
    ),
    "timestamp_ltz": (
        timestamp_ltz(3),
        (datetime(1970, 1, 1, tzinfo=UTC), datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC)),
    ),
    "array": (array(INT), ([], [1, None, -1])),
    "map": (map_of(STRING.not_null(), INT), ([], [("k", None), ("l", 1)])),
    "row": (row(("a", INT), ("b", STRING)), ({"a": None, "b": None}, {"a": 1, "b": "x"})),
}
"""Of each type its values at the edges, under a name for a column."""


def every_value(names: Sequence[str] = tuple(EXTREMES)) -> tuple[Schema, list[tuple[Any, ...]]]:
    """A table with a column `id` and one of each of these types: in each row one value is an extreme and all others are
    NULL; the last two rows are all NULL, and all first extremes."""
    schema = Schema.of(("id", INT), *((name, EXTREMES[name][0]) for name in names))
    rows: list[tuple[Any, ...]] = []
    for place, name in enumerate(names):
        for value in EXTREMES[name][1]:
            cells: list[Any] = [None] * len(names)
            cells[place] = value
            rows.append((len(rows), *cells))
    rows.append((len(rows), *[None] * len(names)))
    rows.append((len(rows), *[EXTREMES[name][1][0] for name in names]))
    return schema, rows


_COMPARED = frozenset(
    {
        TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DECIMAL,
        TypeRoot.VARCHAR, TypeRoot.DATE, TypeRoot.TIMESTAMP, TypeRoot.DOUBLE, TypeRoot.FLOAT,
    }
)  # fmt: skip
_TESTS = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}  # fmt: skip


def conditions_over(schema: Schema, rows: Sequence[tuple[Any, ...]]) -> Iterator[Expr]:
    """Conditions of a table for whose rows it is known what they keep (`passes`): comparisons with values that are there,
    NULL, and AND, OR and NOT over them."""
    found: list[Expr] = []
    for place, field in enumerate(schema):
        ref = InputRef(place, field.type)
        yield Call("IS NULL", (ref,), BOOLEAN.not_null())
        yield Call("IS NOT NULL", (ref,), BOOLEAN.not_null())
        if field.type.root not in _COMPARED:
            continue
        for value in [r[place] for r in rows if r[place] is not None][:3]:
            for name in _TESTS:
                if field.type.root is not TypeRoot.BOOLEAN or name in ("=", "<>"):
                    found.append(Call(name, (ref, Literal(value, field.type.not_null())), BOOLEAN))
    yield from found
    for place, one in enumerate(found[:-1]):
        other = found[(place * 7 + 3) % len(found)]
        if place % 5 == 0:
            yield Call("AND", (one, other), BOOLEAN)
            yield Call("OR", (one, Call("NOT", (other,), BOOLEAN)), BOOLEAN)
            yield Call("NOT", (Call("AND", (one, other), BOOLEAN),), BOOLEAN)


def passes(condition: Expr, values: tuple[Any, ...]) -> bool | None:
    """What one of `conditions_over` is for a row; None is unknown."""
    match condition:
        case Call(function="AND", args=args):
            parts = [passes(a, values) for a in args]
            return False if False in parts else None if None in parts else True
        case Call(function="OR", args=args):
            parts = [passes(a, values) for a in args]
            return True if True in parts else None if None in parts else False
        case Call(function="NOT", args=(inner,)):
            part = passes(inner, values)
            return None if part is None else not part
        case Call(function="IS NULL", args=(InputRef(index=index),)):
            return values[index] is None
        case Call(function="IS NOT NULL", args=(InputRef(index=index),)):
            return values[index] is not None
        case Call(function=name, args=(InputRef(index=index), Literal(value=value))):
            return None if values[index] is None else _TESTS[name](values[index], value)
        case _:
            raise ValueError(f"not one of `conditions_over`: {condition}")
