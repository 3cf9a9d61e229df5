"""Operators and numeric functions against Flink's recorded answers (categories arithmetic, interval, temporal), and
decimals at random."""

from __future__ import annotations

import datetime
import decimal as pydecimal
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from expression_builders import FUNCTIONS, big, call, dec, lit, text, value

from runtime.core.errors import ExpressionError, TypeMismatchError
from runtime.core.types import (
    BIGINT,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL_MONTH,
    INTERVAL_SECOND,
    TIME,
    TINYINT,
    decimal,
    timestamp,
    timestamp_ltz,
)
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.expr.nodes import InputRef

OPERATORS: list[tuple[str, Any, Any, str | None, str]] = [
    ("+", 1, 2, "3", "INT"),
    ("+", lit(127, TINYINT), lit(1, TINYINT), "-128", "TINYINT"),
    ("+", big(2**63 - 1), 1, "-9223372036854775808", "BIGINT"),
    ("+", dec("9" * 38, 38, 0), 1, None, "DECIMAL(38, 0) NULL"),
    ("+", lit(1.5, FLOAT), 2, "3.5", "FLOAT"),
    ("+", lit(1.1, FLOAT), dec("1.1", 3, 1), "2.200000023841858", "DOUBLE"),
    ("+", dec("5", 10, 2), big(1), "6.00", "DECIMAL(22, 2)"),
    ("-", 5, 8, "-3", "INT"),
    ("-", dec("0.10", 10, 2), dec("0.101", 10, 3), "-0.001", "DECIMAL(12, 3)"),
    ("-", 0.3, 0.1, "0.19999999999999998", "DOUBLE"),
    ("*", 1000000, 1000000, "-727379968", "INT"),
    ("*", dec("1.5", 10, 2), dec("2.25", 10, 2), "3.3750", "DECIMAL(21, 4)"),
    ("*", dec("9" * 38, 38, 0), 10, None, "DECIMAL(38, 0) NULL"),
    ("*", dec("1", 38, 0), 10, "10", "DECIMAL(38, 0) NULL"),
    ("*", 1e308, 10, "Infinity", "DOUBLE"),
    ("*", dec("1", 20, 10), dec("1", 20, 10), "1.00000000000000000", "DECIMAL(38, 17)"),
    (
        "*",
        dec("123456789.123456789", 18, 9),
        dec("987654321.987654321", 18, 9),
        "121932631356500531.347203169112635269",
        "DECIMAL(37, 18)",
    ),
    ("/", -7, 2, "-3", "INT"),
    ("/", dec("1.0", 2, 1), 3, "0.333333333333", "DECIMAL(13, 12)"),
    ("/", big(10), 4, "2", "BIGINT"),
    ("/", dec("1", 38, 18), dec("3", 38, 18), "0.333333", "DECIMAL(38, 6) NULL"),
    ("/", dec("2", 5, 0), 3, "0.66666666667", "DECIMAL(16, 11)"),
    ("/", big(-(2**63)), big(-1), "-9223372036854775808", "BIGINT"),
    ("/", 0.0, 0.0, "NaN", "DOUBLE"),
    ("%", 7, -3, "1", "INT"),
    ("%", -7, 3, "-1", "INT"),
    ("%", dec("7.5", 2, 1), 2, "1.5", "DECIMAL(2, 1)"),
    ("%", dec("5", 10, 2), dec("3", 4, 3), "2.000", "DECIMAL(4, 3)"),
    ("MOD", big(10), 4, "2", "INT"),
    ("MOD", dec("7.25", 3, 2), dec("0.5", 2, 1), "0.25", "DECIMAL(3, 2)"),
]


@pytest.mark.parametrize(("name", "a", "b", "expected", "type_"), OPERATORS)
def test_operators(name: str, a: Any, b: Any, expected: str | None, type_: str) -> None:
    expr = call(name, a, b)
    shown = str(expr.type) if not expr.type.nullable else f"{expr.type} NULL"
    assert (text(expr), shown) == (expected, type_ if type_.endswith(" NULL") else f"{type_} NOT NULL")


NAMED: list[tuple[str, tuple[Any, ...], str | None, str]] = [
    ("POWER", (2, 10), "1024.0", "DOUBLE"),
    ("ABS", (-(2**31),), "-2147483648", "INT"),
    ("SQRT", (2,), "1.4142135623730951", "DOUBLE"),
    ("LN", (-1,), "NaN", "DOUBLE"),
    ("LOG10", (0,), "-Infinity", "DOUBLE"),
    ("LOG", (2, 8), "3.0", "DOUBLE"),
    ("LOG", (1, 5), "Infinity", "DOUBLE"),
    ("COT", (0,), "Infinity", "DOUBLE"),
    ("COSH", (-2.5,), "6.132289479663686", "DOUBLE"),
    ("ATAN2", (-1, 0), "-1.5707963267948966", "DOUBLE"),
    ("DEGREES", (1,), "57.29577951308232", "DOUBLE"),
    ("SIGN", (2.5,), "1.0", "DOUBLE"),
    ("BIN", (5,), "101", "STRING"),
    ("HEX", (-1,), "F" * 16, "STRING"),
    ("HEX", ("\u00e9",), "C3A9", "STRING"),
    ("CEIL", (dec("-1.2", 2, 1),), "-1", "DECIMAL(2, 0)"),
    ("FLOOR", (dec("-1.25", 10, 2),), "-2", "DECIMAL(10, 0)"),
    ("ROUND", (dec("1.2345", 5, 4), 2), "1.23", "DECIMAL(4, 2)"),
    ("ROUND", (dec("-2.5", 2, 1),), "-3", "DECIMAL(2, 0)"),
    ("ROUND", (dec("1234.567", 7, 3), -2), "1200", "DECIMAL(5, 0)"),
    ("ROUND", (dec("9.995", 4, 3), 2), "10.00", "DECIMAL(4, 2)"),
    ("ROUND", (1.005, 2), "1.01", "DOUBLE"),
    ("ROUND", (123456.0, -3), "123000.0", "DOUBLE"),
    ("TRUNCATE", (dec("-42.999", 5, 3),), "-42", "DECIMAL(3, 0)"),
    ("TRUNCATE", (42.345, 2), "42.34", "DOUBLE"),
    ("TRUNCATE", (1299, -2), "1200", "INT"),
]


@pytest.mark.parametrize(("name", "args", "expected", "type_"), NAMED)
def test_functions(name: str, args: tuple[Any, ...], expected: str | None, type_: str) -> None:
    expr = call(name, *args)
    assert (text(expr), str(expr.type)) == (expected, f"{type_} NOT NULL")


def test_unhex_is_null_for_what_is_not_hexadecimal() -> None:
    assert value(call("UNHEX", "616263")) == b"abc"
    assert value(call("UNHEX", "F")) == b"\x0f"
    assert value(call("UNHEX", "zz")) is None


@pytest.mark.parametrize(("a", "b"), [(1, 0), (dec("1.5", 3, 1), 0), (big(1), big(0))])
def test_division_by_zero_fails_with_advice(a: Any, b: Any) -> None:
    for name in ("/", "%"):
        with pytest.raises(ExpressionError) as caught:
            value(call(name, a, b))
        assert caught.value.code == "E2102" and "NULLIF" in (caught.value.hint or "")


def test_null_by_zero_is_null() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([None, 4], pa.int32()), pa.array([0, 2], pa.int32())], names=["a", "b"])
    quotient = call("/", InputRef(0, INT), InputRef(1, INT))
    assert Evaluator([quotient], FUNCTIONS).evaluate(rows, BatchContext(2))[0].to_pylist() == [None, 2]


def at(iso: str, precision: int = 0) -> Any:
    return lit(datetime.datetime.fromisoformat(iso), timestamp(precision))


def day(iso: str) -> Any:
    return lit(datetime.date.fromisoformat(iso), DATE)


HOUR = lit(3_600_000, INTERVAL_SECOND)
MONTH = lit(1, INTERVAL_MONTH)
MOMENTS: list[tuple[Any, str, str]] = [
    (call("+", day("2024-01-31"), MONTH), "2024-02-29", "DATE"),
    (call("-", day("2024-03-31"), MONTH), "2024-02-29", "DATE"),
    (call("+", day("2024-01-01"), lit(36 * 3_600_000, INTERVAL_SECOND)), "2024-01-02", "DATE"),
    (call("+", lit(datetime.time(23, 30), TIME), HOUR), "00:30:00", "TIME(0)"),
    (call("-", at("2024-02-29 00:00:00"), lit(13, INTERVAL_MONTH)), "2023-01-29 00:00:00", "TIMESTAMP(0)"),
    (call("+", HOUR, at("1969-12-31 23:30:00")), "1970-01-01 00:30:00", "TIMESTAMP(0)"),
    (call("MINUS_DATE", at("2024-03-01 12:00:00"), at("2024-02-29 10:30:00")), "+1 01:30:00.000", "INTERVAL SECOND(3)"),
    (call("MINUS_MONTHS", at("2024-03-30 12:00:00"), at("2024-01-31 10:30:00")), "+0-01", "INTERVAL MONTH"),
    (call("*", lit(86_400_000, INTERVAL_SECOND), 3), "+3 00:00:00.000", "INTERVAL SECOND(3)"),
    (call("NEGATE", MONTH), "-0-01", "INTERVAL MONTH"),
]


@pytest.mark.parametrize(("expr", "expected", "type_"), MOMENTS)
def test_points_in_time(expr: Any, expected: str, type_: str) -> None:
    assert (text(expr), str(expr.type)) == (expected, f"{type_} NOT NULL")


def test_months_are_added_to_local_time_and_hours_to_the_instant() -> None:
    noon = lit(datetime.datetime(2024, 3, 30, 11, 0), timestamp_ltz(3))
    assert text(call("+", noon, MONTH), "Europe/Berlin") == "2024-04-30 12:00:00.000"
    assert text(call("+", noon, lit(24 * 3_600_000, INTERVAL_SECOND)), "Europe/Berlin") == "2024-03-31 13:00:00.000"


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("-", day("2024-03-01"), day("2024-02-01")),
        ("+", MONTH, HOUR),
        ("/", HOUR, 2),
        ("+", "a", 1),
    ],
)
def test_operands_that_do_not_fit(name: str, a: Any, b: Any) -> None:
    with pytest.raises(TypeMismatchError) as caught:
        call(name, a, b)
    assert caught.value.code == "E1301"


@pytest.mark.parametrize(("precision", "scale"), [(9, 2), (18, 6), (38, 10), (38, 38)])
def test_decimal_arithmetic_equals_python_decimals(precision: int, scale: int) -> None:
    rng = np.random.default_rng(precision)
    width = [int(w) for w in rng.integers(1, precision + 1, 400)]
    raw = [
        Decimal(int(rng.integers(-9, 10)) * 10 ** (w - 1) + int(rng.integers(0, 10 ** min(w - 1, 18) or 1))).scaleb(
            -scale
        )
        for w in width
    ]
    left = pa.array(raw[:200], pa.decimal128(precision, scale))
    right = pa.array(raw[200:], pa.decimal128(precision, scale))
    rows = pa.RecordBatch.from_arrays([left, right], names=["a", "b"])
    type_ = decimal(precision, scale)
    exprs = [call(op, InputRef(0, type_), InputRef(1, type_)) for op in ("+", "-", "*")]
    results = Evaluator(exprs, FUNCTIONS).evaluate(rows, BatchContext(200))
    with pydecimal.localcontext() as exact:
        exact.prec = 100
        for op, expr, result in zip("+-*", exprs, results, strict=True):
            for x, y, got in zip(raw[:200], raw[200:], result.to_pylist(), strict=True):
                full = {"+": x + y, "-": x - y, "*": x * y}[op]
                rounded = full.quantize(Decimal(1).scaleb(-expr.type.scale), pydecimal.ROUND_HALF_UP)
                fits = abs(rounded) < Decimal(10) ** (expr.type.precision - expr.type.scale)
                assert got == (rounded if fits else None)


def test_round_of_doubles_equals_rounding_their_digits() -> None:
    rng = np.random.default_rng(3)
    numbers = np.concatenate(
        [rng.normal(0, 1000, 500), np.round(rng.normal(0, 50, 500), 3) + 0.0005, rng.integers(-999, 999, 200) / 2]
    )
    rows = pa.RecordBatch.from_arrays([pa.array(numbers)], names=["x"])
    column = InputRef(0, DOUBLE)
    for digits in (-2, 0, 1, 3):
        for name, mode in (("ROUND", pydecimal.ROUND_HALF_UP), ("TRUNCATE", pydecimal.ROUND_DOWN)):
            got = (
                Evaluator([call(name, column, digits)], FUNCTIONS)
                .evaluate(rows, BatchContext(len(numbers)))[0]
                .to_pylist()
            )
            want = [float(Decimal(repr(x)).quantize(Decimal(1).scaleb(-digits), mode)) for x in numbers.tolist()]
            assert got == want


def test_big_integers_wrap_in_columns() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([2**62, None, -(2**63)])], names=["a"])
    doubled = call("*", InputRef(0, BIGINT), big(2))
    assert Evaluator([doubled], FUNCTIONS).evaluate(rows, BatchContext(3))[0].to_pylist() == [-(2**63), None, 0]
