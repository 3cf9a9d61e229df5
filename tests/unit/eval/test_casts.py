"""CAST against Flink's recorded answers (categories cast_matrix, conversion and types of the vectors)."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pyarrow as pa
import pytest
from expression_builders import big, cast, dec, lit, text, value

from runtime.core.errors import ExpressionError
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
    NULL,
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
    row,
    timestamp,
    timestamp_ltz,
    varchar,
)
from runtime.eval.evaluator import BatchContext
from runtime.expr.cast import cast_array
from runtime.expr.nodes import Literal


def binary(length: int) -> DataType:
    return DataType(TypeRoot.BINARY, length)


def varbinary(length: int) -> DataType:
    return DataType(TypeRoot.VARBINARY, length)


def moment(iso: str, precision: int) -> Literal:
    return lit(datetime.datetime.fromisoformat(iso), timestamp(precision))


FROM_TEXT: list[tuple[str, DataType, str]] = [
    ("12", STRING, "12"),
    ("12", varchar(1), "1"),
    ("12", varbinary(4), "12"),
    ("true", BOOLEAN, "TRUE"),
    ("12", TINYINT, "12"),
    ("12", FLOAT, "12.0"),
    ("2024-02-29", DATE, "2024-02-29"),
    ("2024-02-29 12:34:56.789", timestamp(3), "2024-02-29 12:34:56.789"),
    ("12  ", char(3), "12 "),
    ("12  ", binary(1), "1"),
    ("12  ", BYTES, "12  "),
    ("12  ", decimal(4, 1), "12.0"),
    ("12  ", SMALLINT, "12"),
    ("12  ", DOUBLE, "12.0"),
    ("12  ", TIME, "12:00:00"),
    ("12", DATE, "0012-01-01"),
    ("hello", char(3), "hel"),
    ("", char(2), "  "),
    ("abc", binary(2), "ab"),
    ("yes", BOOLEAN, "TRUE"),
    ("0", BOOLEAN, "FALSE"),
    (" 12 ", INT, "12"),
    ("12.9", INT, "12"),
    ("+5", INT, "5"),
    ("NaN", DOUBLE, "NaN"),
    ("1e400", DOUBLE, "Infinity"),
    ("-1.5E-7", DOUBLE, "-1.5E-7"),
    ("2024-02", DATE, "2024-02-01"),
    ("2024-02-29 12:00:00", DATE, "2024-02-29"),
    ("1582-10-10", DATE, "1582-10-10"),
    ("1:2:3", TIME, "01:02:03"),
    ("12:34:56.789", TIME, "12:34:56"),
    ("2024-02-29 12:34:56.123456789", timestamp(3), "2024-02-29 12:34:56.123"),
    ("2024-02-29", timestamp(3), "2024-02-29 00:00:00.000"),
    ("2024-02-29 00:00:00", timestamp(3), "2024-02-29 00:00:00.000"),
    ("2024-02-29 12:34:56", timestamp_ltz(3), "2024-02-29 12:34:56.000"),
    ("2024-01-01 00:00:00.123456789", timestamp_ltz(9), "2024-01-01 00:00:00.123456789"),
    ("1e3", decimal(10, 2), "1000.00"),
    ("-0.00", decimal(5, 2), "0.00"),
    ("1.005", decimal(5, 2), "1.01"),
    ("1e-3", decimal(5, 2), "0.00"),
    (".5", decimal(5, 2), "0.50"),
    ("9" * 38, decimal(38, 0), "9" * 38),
    ("0." + "0" * 30 + "1", decimal(38, 31), "0." + "0" * 30 + "1"),
    ("123456789012345678901234567890.1234567", decimal(38, 7), "123456789012345678901234567890.1234567"),
    ("-9223372036854775808", BIGINT, "-9223372036854775808"),
]


@pytest.mark.parametrize(("source", "target", "expected"), FROM_TEXT)
def test_text(source: str, target: DataType, expected: str) -> None:
    assert text(cast(source, target)) == expected


FAILING: list[tuple[str, DataType]] = [
    ("12", BOOLEAN),
    ("2", BOOLEAN),
    ("1e3", INT),
    ("abc", INT),
    ("300", TINYINT),
    ("inf", DOUBLE),
    ("1234.5", decimal(5, 2)),
    ("0x1F", INT),
    ("\u0661", INT),
    ("", INT),
    (".", decimal(5, 2)),
    ("9223372036854775808", BIGINT),
    ("9" * 39, decimal(38, 0)),
    ("2023-02-29", DATE),
    ("20240229", DATE),
    ("25:00:00", TIME),
    ("2024-02-29 12", timestamp(3)),
    ("12  ", timestamp_ltz(3)),
    ("0000-01-01 00:00:00", timestamp(3)),
    ("2024-02-29 12:34:56+02:00", timestamp_ltz(3)),
    ("2024-02-29T10:00:00", timestamp(3)),
]


@pytest.mark.parametrize(("source", "target"), FAILING)
def test_text_that_does_not_read(source: str, target: DataType) -> None:
    with pytest.raises(ExpressionError) as caught:
        value(cast(source, target))
    assert caught.value.code == "E2101"
    assert f"'{source}'" in caught.value.message and str(target) in caught.value.message
    assert "TRY_CAST" in (caught.value.hint or "")
    assert value(cast(source, target, safe=True)) is None


OTHERS: list[tuple[Literal, DataType, str | None]] = [
    (lit(b"12", binary(2)), char(3), "12 "),
    (lit(b"\xff", binary(1)), STRING, "\ufffd"),
    (lit(b"\1\2\3", binary(3)), binary(2), "\1\2"),
    (lit(b"\1", binary(1)), binary(3), "\1\0\0"),
    (lit(True, BOOLEAN), varchar(1), "T"),
    (lit(True, BOOLEAN), decimal(3, 1), "1.0"),
    (dec("12.75", 6, 2), char(3), "12."),
    (dec("12.75", 6, 2), decimal(4, 1), "12.8"),
    (dec("12.75", 6, 2), SMALLINT, "12"),
    (dec("0.00", 5, 2), BOOLEAN, "FALSE"),
    (lit(math.nan), BOOLEAN, "TRUE"),
    (lit(math.nan), INT, "0"),
    (lit(1e20), INT, "2147483647"),
    (lit(1e20), TINYINT, "-1"),
    (lit(-12.9), BIGINT, "-12"),
    (big(3000000000), INT, "-1294967296"),
    (dec("3000000000", 12, 0), INT, "-1294967296"),
    (lit(1e40), FLOAT, "Infinity"),
    (lit(16777217), FLOAT, "1.6777216E7"),
    (lit(300), TINYINT, "44"),
    (dec("-1.235", 4, 3), decimal(5, 2), "-1.24"),
    (dec("12345.6", 6, 1), decimal(5, 2), None),
    (lit(0.1), decimal(20, 18), "0.100000000000000000"),
    (lit(123), decimal(2, 0), None),
    (lit(1e30), decimal(5, 2), None),
    (lit(1e-5), STRING, "1.0E-5"),
    (lit(1e7), STRING, "1.0E7"),
    (lit(12345678.9), STRING, "1.23456789E7"),
    (lit(-0.0), STRING, "-0.0"),
    (lit(0.00012345), STRING, "1.2345E-4"),
    (lit(0.001), STRING, "0.001"),
    (lit(-math.inf), STRING, "-Infinity"),
    (lit(1.7976931348623157e308), STRING, "1.7976931348623157E308"),
    (dec("1e-10", 20, 12), STRING, "0.000000000100"),
    (lit(datetime.date(2024, 2, 29), DATE), timestamp(3), "2024-02-29 00:00:00.000"),
    (lit(datetime.time(12, 34, 56), TIME), timestamp_ltz(3), "1970-01-01 12:34:56.000"),
    (moment("2024-02-29 23:59:59.999", 3), TIME, "23:59:59"),
    (moment("2024-02-29 23:59:59.999", 3), timestamp(0), "2024-02-29 23:59:59"),
    (moment("1969-07-20 20:17:40.123", 3), timestamp(9), "1969-07-20 20:17:40.123000000"),
    (lit(-14, INTERVAL_MONTH), STRING, "-1-02"),
    (lit(93784567, INTERVAL_SECOND), STRING, "+1 02:03:04.567"),
    (lit(5), INTERVAL_MONTH, "+0-05"),
    (big(5000), INTERVAL_SECOND, "+0 00:00:05.000"),
    (lit(("a", "b,c"), array(varchar(3))), STRING, "[a, b,c]"),
    (lit((1, None), array(INT)), STRING, "[1, NULL]"),
    (lit(((1,), (2, 3)), array(array(INT))), array(array(DOUBLE)), "[[1.0], [2.0, 3.0]]"),
    (lit((("1", 2),), map_of(char(1), INT)), map_of(INT, STRING), "{1=2}"),
    (
        lit((1, "x", None, True), row(("a", INT), ("b", char(1)), ("c", STRING), ("d", BOOLEAN))),
        STRING,
        "(1, x, NULL, TRUE)",
    ),
    (Literal(None, NULL), decimal(4, 1), None),
]


@pytest.mark.parametrize(("source", "target", "expected"), OTHERS)
def test_values(source: Literal, target: DataType, expected: str | None) -> None:
    assert text(cast(source, target)) == expected


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (lit(("1", "x"), array(STRING)), array(INT)),
        (lit(("x", 1), row(("a", char(1)), ("b", INT))), row(("a", INT), ("b", INT))),
        (lit((("x", 1),), map_of(char(1), INT)), map_of(INT, INT)),
        (lit(math.nan), decimal(5, 2)),
    ],
)
def test_a_failing_part_fails_the_whole_row(source: Literal, target: DataType) -> None:
    with pytest.raises(ExpressionError):
        value(cast(source, target))
    assert value(cast(source, target, safe=True)) is None


def test_only_failing_rows_become_null_and_null_does_not_fail() -> None:
    texts = pa.array(["1", "x", None, "3"])
    assert cast_array(texts, STRING, INT, True, BatchContext(4)).to_pylist() == [1, None, None, 3]
    lists = pa.array([["1"], ["2", "x"], None, []])
    assert cast_array(lists, array(STRING), array(INT), True, BatchContext(4)).to_pylist() == [[1], None, None, []]
    sliced = pa.array([["9"], ["1"], ["x", "2"], ["3"]]).slice(1)
    assert cast_array(sliced, array(STRING), array(INT), True, BatchContext(3)).to_pylist() == [[1], None, [3]]


def local(iso: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(iso)


def test_session_zone_with_daylight_saving() -> None:
    context: Any = BatchContext(3, "Europe/Berlin")
    times = pa.array([local("2024-03-31 02:30:00"), local("2024-10-27 02:30:00"), None], pa.timestamp("us"))
    instants = cast_array(times, timestamp(3), timestamp_ltz(3), False, context)
    # Java: a skipped local time moves forward by the gap, a doubled one is the earlier.
    assert instants.cast(pa.int64()).to_pylist() == [1711848600000000, 1729989000000000, None]
    shown = cast_array(instants, timestamp_ltz(3), STRING, False, context)
    assert shown.to_pylist() == ["2024-03-31 03:30:00.000", "2024-10-27 02:30:00.000", None]


def test_random_doubles_read_back_from_their_text() -> None:
    import numpy as np

    bits = np.random.default_rng(7).integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    finite = bits[np.isfinite(bits)]
    context = BatchContext(len(finite))
    texts = cast_array(pa.array(finite), DOUBLE, STRING, False, context)
    back = cast_array(texts, STRING, DOUBLE, False, context)
    assert np.array_equal(back.to_numpy(), finite)
    assert texts.to_pylist()[:200] == [java_text(x) for x in finite[:200].tolist()]


def java_text(x: float) -> str:
    digits, exponent = f"{x!r}".lower(), 0
    mantissa = digits
    if "e" in digits:
        mantissa, power = digits.split("e")
        exponent = int(power)
    if 1e-3 <= abs(x) < 1e7:
        return digits if "." in digits else digits + ".0"
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{exponent}"
