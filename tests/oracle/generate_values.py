"""Values of each kind: the small domains that they are drawn from, as Arrow columns, as literals of both tongues."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.oracle.generate_choices import Choices
from tests.oracle.generate_text import EXACT, Kind, Text, joined, same, text

__all__ = ["DOMAINS", "DUCK_TYPES", "arrow_type", "draw_value", "literal", "null_of", "wide_value"]

DOMAINS: dict[Kind, tuple[Any, ...]] = {
    Kind.INT: (1, 2, 0, 3, -1),
    Kind.BIGINT: (1, 2, 0, 7, -3),
    Kind.DECIMAL: (Decimal("1.00"), Decimal("2.50"), Decimal("0.00"), Decimal("-1.25"), Decimal("7.75")),
    Kind.DOUBLE: (1.0, 0.5, 2.25, 0.0, -1.5),
    Kind.STRING: ("a", "b", "ab", "", "A_b", "%", "😀", "é😀b"),
    Kind.BOOLEAN: (True, False),
    Kind.DATE: (dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(2023, 12, 31), dt.date(1969, 7, 20)),
    Kind.TIMESTAMP: (
        dt.datetime(2024, 1, 1),
        dt.datetime(2024, 1, 1, 0, 30),
        dt.datetime(2024, 2, 29, 23, 59, 59, 500000),
        dt.datetime(1969, 7, 20, 20, 17, 40),
        dt.datetime(1969, 12, 31, 23, 59, 59, 250000),
    ),
    Kind.SMALLINT: (1, 2, 0, 5, -2),
    Kind.FLOAT: (1.0, 0.5, 2.0, 0.0, -2.5),
    Kind.TIME: (dt.time(1), dt.time(12, 30), dt.time(0), dt.time(23, 59, 59)),
    Kind.BYTES: (b"a", b"b", b"", b"ab"),
    Kind.WIDE: (
        Decimal("1.00"),
        Decimal("9" * 36 + ".99"),
        Decimal("2.50"),
        Decimal("-" + "9" * 36 + ".99"),
        Decimal("5" + "0" * 35 + ".00"),
    ),
    Kind.FINE: (
        Decimal("1.5"),
        Decimal("99999999999999999999.999999999999999999"),
        Decimal("0.000000000000000001"),
        Decimal("-99999999999999999999.999999999999999999"),
        Decimal("-0.333333333333333335"),
    ),
    Kind.CHAR: ("ab ", "abc", "😀x ", "   ", "é😀b"),
    Kind.VARCHAR: ("ab", "a", "", "😀x😀", "abcd"),
    Kind.INTS: ((1, 2), (1,), (), (2, 1), (1, None)),
    Kind.STRINGS: (("a",), ("a", "b"), (), ("😀",), (None,)),
    Kind.MAP: ((("a", 1),), (("a", 1), ("b", 2)), (), (("b", None),)),
    Kind.ROW: ((1, "a"), (2, "b"), (None, "a"), (1, None)),
}
"""Small on purpose: joins must hit, groups must have several rows, and rows must repeat."""
assert set(DOMAINS) == set(EXACT)

DUCK_TYPES: dict[Kind, str] = {
    Kind.STRING: "VARCHAR",
    Kind.CHAR: "VARCHAR",
    Kind.VARCHAR: "VARCHAR",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.BYTES: "BLOB",
    Kind.TIME: "TIME",
    Kind.INTS: "INT[]",
    Kind.STRINGS: "VARCHAR[]",
    Kind.MAP: "MAP(VARCHAR, INT)",
    Kind.ROW: "STRUCT(x INT, y VARCHAR)",
}
"""Types of DuckDB where they are called otherwise; it has no CHAR, so that texts of that kind are padded here."""


def _duck_type(kind: Kind) -> str:
    return DUCK_TYPES.get(kind, kind.value)


_EMPTY: dict[Kind, str] = {
    Kind.INTS: "ARRAY_REMOVE(ARRAY[1], 1)",
    Kind.STRINGS: "ARRAY_REMOVE(ARRAY['a'], 'a')",
    Kind.MAP: "MAP_FROM_ARRAYS(ARRAY_REMOVE(ARRAY['a'], 'a'), ARRAY_REMOVE(ARRAY[1], 1))",
}
"""Arrays and maps without parts, for which there is no literal."""


def arrow_type(kind: Kind) -> pa.DataType:
    return {
        Kind.INT: pa.int32(),
        Kind.BIGINT: pa.int64(),
        Kind.DECIMAL: pa.decimal128(10, 2),
        Kind.DOUBLE: pa.float64(),
        Kind.BOOLEAN: pa.bool_(),
        Kind.DATE: pa.date32(),
        Kind.TIMESTAMP: pa.timestamp("us"),
        Kind.SMALLINT: pa.int16(),
        Kind.FLOAT: pa.float32(),
        Kind.TIME: pa.time32("ms"),
        Kind.BYTES: pa.binary(),
        Kind.WIDE: pa.decimal128(38, 2),
        Kind.FINE: pa.decimal128(38, 18),
        Kind.INTS: pa.list_(pa.int32()),
        Kind.STRINGS: pa.list_(pa.string()),
        Kind.MAP: pa.map_(pa.string(), pa.int32()),
        Kind.ROW: pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string())]),
    }.get(kind, pa.string())


def null_of(kind: Kind) -> Text:
    return Text(f"CAST(NULL AS {kind.value})", f"CAST(NULL AS {_duck_type(kind)})")


def literal(value: Any, kind: Kind) -> Text:
    """A value as SQL of both engines."""
    if value is None:
        return null_of(kind)
    if value == ():
        return Text(_EMPTY[kind], f"CAST({'MAP([], [])' if kind is Kind.MAP else '[]'} AS {_duck_type(kind)})")
    match kind:
        case Kind.STRING:
            return same(_quoted(value))
        case Kind.BOOLEAN:
            return same("TRUE" if value else "FALSE")
        case Kind.DATE:
            return same(f"DATE '{value.isoformat()}'")
        case Kind.TIMESTAMP:
            return same(f"TIMESTAMP '{value.isoformat(sep=' ', timespec='milliseconds')}'")
        case Kind.DOUBLE | Kind.FLOAT | Kind.BIGINT | Kind.SMALLINT:
            return same(f"CAST({value} AS {kind.value})")
        case Kind.WIDE | Kind.FINE:
            return same(f"CAST('{value:f}' AS {kind.value})")
        case Kind.TIME:
            return same(f"TIME '{value.isoformat()}'")
        case Kind.BYTES:
            return Text(f"CAST('{value.decode()}' AS BYTES)", f"CAST('{value.decode()}' AS BLOB)")
        case Kind.CHAR:
            return Text(f"CAST({_quoted(value.rstrip())} AS CHAR(3))", _quoted(value))
        case Kind.VARCHAR:
            return Text(f"CAST({_quoted(value)} AS VARCHAR(4))", _quoted(value))
        case Kind.INTS | Kind.STRINGS:
            element = Kind.INT if kind is Kind.INTS else Kind.STRING
            items = joined(", ", [literal(v, element) for v in value])
            return Text(f"ARRAY[{items.ours}]", f"CAST([{items.duck}] AS {_duck_type(kind)})")
        case Kind.MAP:
            pairs = [text("{}, {}", literal(k, Kind.STRING), literal(v, Kind.INT)) for k, v in value]
            ours = f"MAP[{joined(', ', pairs).ours}]"
            keys = joined(", ", [literal(k, Kind.STRING) for k, _ in value])
            values = joined(", ", [literal(v, Kind.INT) for _, v in value])
            return Text(ours, f"CAST(MAP([{keys.duck}], [{values.duck}]) AS {_duck_type(kind)})")
        case Kind.ROW:
            x, y = literal(value[0], Kind.INT), literal(value[1], Kind.STRING)
            ours = f"CAST(ROW({x.ours}, {y.ours}) AS {kind.value})"
            return Text(ours, f"CAST({{'x': {x.duck}, 'y': {y.duck}}} AS {_duck_type(kind)})")
        case Kind.INT if value < 0:
            return same(f"({value})")
        case _:
            return same(str(value))


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def draw_value(choose: Choices, kind: Kind, *, null: bool) -> Any:
    """A value of a kind's domain, mostly one of its first three; NULL in one of seven cases where it may be."""
    if null and choose.chance(14):
        return None
    domain = DOMAINS[kind]
    weights = [(5, 0), (4, 1), (3, 2), (1, 3), (1, 4), (1, 5), (1, 6), (1, 7)]
    return domain[choose.weighted(weights[: max(5, len(domain))]) % len(domain)]


def wide_value(chance: random.Random, kind: Kind, *, null: bool) -> Any:
    """A value of a larger domain, now and then one of the small one or NULL."""
    if null and chance.random() < 0.1:
        return None
    if chance.random() < 0.2:
        return chance.choice(DOMAINS[kind])
    number = chance.randint(-40, 160)
    match kind:
        case Kind.INT | Kind.BIGINT | Kind.SMALLINT:
            return number
        case Kind.DECIMAL | Kind.WIDE | Kind.FINE:
            return Decimal(number) / 4
        case Kind.DOUBLE | Kind.FLOAT:
            return number / 4 + 0.0
        case Kind.TIME:
            return dt.time(number % 24, 7)
        case Kind.BYTES:
            return b"%d" % number
        case Kind.STRING:
            return f"text number {number}" if number % 2 else f"{number}"
        case Kind.CHAR:
            return f"{number % 1000:<3}"[:3]
        case Kind.VARCHAR:
            return f"{number}"[:4]
        case Kind.DATE:
            return DOMAINS[kind][0] + dt.timedelta(days=number)
        case Kind.TIMESTAMP:
            return DOMAINS[kind][0] + dt.timedelta(minutes=number)
        case Kind.INTS:
            return (number, None) if number % 3 == 0 else (number,)
        case Kind.STRINGS:
            return (f"{number}",)
        case Kind.MAP:
            return (("a", number),)
        case Kind.ROW:
            return (number, "a")
        case _:
            return chance.choice(DOMAINS[kind])
