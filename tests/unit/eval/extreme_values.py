"""Values at the ends of every type, and calls of functions with them, drawn at random."""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from expression_builders import FUNCTIONS

from runtime.core.errors import ExpressionError, TypeMismatchError
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL_MONTH,
    INTERVAL_SECOND,
    SMALLINT,
    STRING,
    TIME,
    TINYINT,
    DataType,
    TypeRoot,
    array,
    char,
    decimal,
    map_of,
    multiset,
    row,
    timestamp,
    timestamp_ltz,
)
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.eval.literal import literal_scalar
from runtime.expr.function import ScalarFunction
from runtime.expr.nodes import Call, Cast, Expr, InputRef, Literal
from runtime.expr.typing import resolve_call

__all__ = ["ATTEMPTS", "SCALARS", "TYPES", "VALUES", "calls", "column", "misplaced_nulls", "row_by_row"]

UTC = datetime.UTC
INTS = {TINYINT: 7, SMALLINT: 15, INT: 31, BIGINT: 63}
TEXTS = [
    *("", "a", "1a", "-12.5", "1e400", "😀x", "ß", " pad ", "%", "[", "(a)(", "\\", "\x00", "9" * 60, "a,b=c"),
    *("2024-02-29", "2024-02-29 12:34:56.789", "0001-01-01", "9999-12-31 23:59:59.999", "0000-01-01", "99999-01-01"),
    *("UTC", "Europe/Berlin", "yyyy-MM-dd", "HH:mm", '{"a":1}', "$.a", "http://u@h/p?q=%zz#r", "HOST", "null"),
]


def _whole(bits: int) -> list[Any]:
    return [-(1 << bits), (1 << bits) - 1, 0, 1, -1, 3]


def _digits(precision: int, scale: int) -> list[Any]:
    most = "9" * precision + f"E-{scale}"
    return [Decimal(d) for d in (most, f"-{most}", "0", f"1E-{scale}")]


_MOMENTS = [
    datetime.datetime(1, 1, 1),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999000),
    datetime.datetime(1969, 7, 20, 20, 17, 40),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 4000),
]
VALUES: dict[DataType, list[Any]] = {
    **{t: _whole(b) for t, b in INTS.items()},
    **{decimal(p, s): _digits(p, s) for p, s in ((2, 1), (9, 2), (20, 0), (38, 0), (38, 2), (38, 38))},
    **{t: [0.0, -0.0, 1.5, -1e30, float("inf"), float("-inf"), float("nan")] for t in (FLOAT, DOUBLE)},
    STRING: TEXTS,
    char(3): ["abc", "12 ", "😀x ", "   "],
    BYTES: [b"", b"ab", b"\xff\x00"],
    BOOLEAN: [True, False],
    DATE: [m.date() for m in _MOMENTS],
    TIME: [datetime.time(0, 0), datetime.time(23, 59, 59), datetime.time(1, 2, 3)],
    timestamp(3): _MOMENTS,
    timestamp(6): _MOMENTS,
    timestamp_ltz(3): [m.replace(tzinfo=UTC) for m in _MOMENTS],
    INTERVAL_MONTH: [0, 1, -14, (1 << 31) - 1, -(1 << 31)],
    INTERVAL_SECOND: [0, 1000, -86_400_001, 86_400_000 * 999_999_999, -86_400_000 * 999_999_999],
    array(INT.not_null()): [(), (1, 2), (2**31 - 1,)],
    array(STRING.not_null()): [(), ("a", ""), ("😀",)],
    array(decimal(38, 0).not_null()): [(Decimal("9" * 38),), ()],
    map_of(STRING.not_null(), INT.not_null()): [(), (("a", 1),), (("", -1), ("b", 2))],
    multiset(STRING.not_null()): [(), (("a", 2),)],
    row(("x", INT.not_null()), ("y", STRING.not_null())): [(1, "a"), (-1, "")],
}
TYPES = list(VALUES)
UNITS = (
    *("MILLENNIUM", "CENTURY", "DECADE", "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOY", "ISOYEAR", "EPOCH"),
    *("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND"),
)
UNIT = {"EXTRACT": 0, "TIMESTAMPADD": 0, "TIMESTAMPDIFF": 0, "FLOOR": 1, "CEIL": 1, "CEILING": 1}
"""Where a function takes a unit of time, which is a literal."""
ATTEMPTS = 10
"""Calls tried of each function."""
SCALARS = sorted((f for f in FUNCTIONS if isinstance(f, ScalarFunction)), key=lambda f: f.name)


def calls(function: ScalarFunction, chance: random.Random) -> Iterator[tuple[list[DataType | Literal], DataType]]:
    """Arguments that the function takes: types for columns, and literals where only those will do; with the type of
    the result. Types alike come first, then any mix."""
    lists: list[list[DataType | Literal]] = [[]]
    lists += [[t] * n for n in (1, 2, 3) for t in TYPES]
    lists += [list(pair) for pair in itertools.product(TYPES, repeat=2)]
    lists += [[STRING, a, b] for a in (STRING, INT) for b in TYPES]
    lists += [[chance.choice(TYPES) for _ in range(n)] for n in (3, 3, 4) for _ in range(200)]
    if function.name in UNIT:
        given = [*([t] for t in TYPES), *([t, u] for t in (BIGINT, *TYPES) for u in TYPES)]
        lists = [[*a[: UNIT[function.name]], _unit(u), *a[UNIT[function.name] :]] for a in given for u in UNITS] + lists
    found: list[tuple[list[DataType | Literal], DataType]] = []
    for given in lists:
        types = [t.type if isinstance(t, Literal) else t.not_null() for t in given]
        try:
            _, result = resolve_call(function, types, [t if isinstance(t, Literal) else None for t in given])
        except (TypeMismatchError, IndexError):
            continue
        found.append((given, result))
    chance.shuffle(found)
    yield from found[: ATTEMPTS * (4 if function.name in UNIT else 1)]


def _unit(name: str) -> Literal:
    return Literal(name, char(len(name)).not_null())


def column(type_: DataType, chance: random.Random, rows: int) -> list[Literal]:
    return [Literal(chance.choice(VALUES[type_]), type_.not_null()) for _ in range(rows)]


def row_by_row(
    name: str, args: Sequence[Sequence[Literal]], constant: Sequence[bool], rows: int
) -> Iterator[tuple[Expr, int, pa.Array | ExpressionError]]:
    """The call over rows of arguments, as one batch where no row fails, else row by row: the call, the first row, and the
    values or the error. `constant`: arguments that are literals (of one row only)."""
    function = FUNCTIONS.scalar(name)
    literals = [a[0] if c else None for a, c in zip(args, constant, strict=True)]
    try:
        wanted, result = resolve_call(function, [a[0].type for a in args], literals)
    except ExpressionError:
        # A constant pattern is read while binding, and may be wrong.
        return
    parts: list[Expr] = []
    arrays: list[pa.Array] = []
    for values, is_constant, type_ in zip(args, constant, wanted, strict=True):
        part: Expr = values[0]
        if not is_constant:
            part = InputRef(len(arrays), values[0].type)
            arrays.append(pa.concat_arrays([pa.repeat(literal_scalar(v), 1) for v in values]))
        parts.append(part if part.type.same_ignoring_nullability(type_) else Cast(part, type_))
    call = Call(name, tuple(parts), result)
    arrays = arrays or [pa.array([True] * rows)]
    batch = pa.RecordBatch.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])
    evaluator = Evaluator([call], FUNCTIONS)
    try:
        yield call, 0, evaluator.evaluate(batch, BatchContext(rows))[0]
    except ExpressionError as error:
        if rows == 1:
            yield call, 0, error
            return
        for at in range(rows):
            try:
                yield call, at, evaluator.evaluate(batch.slice(at, 1), BatchContext(1))[0]
            except ExpressionError as one:
                yield call, at, one


def misplaced_nulls(values: pa.Array, type_: DataType) -> bool:
    """Whether a value, or a part of one, is NULL where the type says NOT NULL."""
    if not type_.nullable and values.null_count:
        return True
    known = values.drop_null()
    match type_.root:
        case TypeRoot.ARRAY:
            return misplaced_nulls(known.flatten(), type_.children[0])
        case TypeRoot.MAP:
            flat = pa.ListArray.from_arrays(known.offsets, known.items).flatten()
            return misplaced_nulls(flat, type_.children[1])
        case TypeRoot.ROW:
            return any(misplaced_nulls(known.field(i), f.type) for i, f in enumerate(type_.fields))
        case _:
            return False
