"""Common types, comparison types, casts that are allowed, and what a call's signature says."""

from __future__ import annotations

import pytest

from runtime.core.errors import TypeMismatchError
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
    TimeAttribute,
    array,
    char,
    decimal,
    map_of,
    row,
    timestamp,
    timestamp_ltz,
)
from runtime.expr.library import builtin_functions
from runtime.expr.typing import common_type, comparison_type, explicit_cast, implicit_cast, resolve_call

FUNCTIONS = builtin_functions()


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ((INT, decimal(2, 1)), "DECIMAL(11, 1)"),
        ((char(3), char(4)), "VARCHAR(4)"),
        ((char(3), char(3)), "CHAR(3)"),
        ((TINYINT, BIGINT), "BIGINT"),
        ((INT, DOUBLE), "DOUBLE"),
        ((FLOAT, INT), "FLOAT"),
        ((FLOAT, decimal(3, 1)), "DOUBLE"),
        ((INT.not_null(), NULL), "INT"),
        ((INT.not_null(), INT.not_null()), "INT NOT NULL"),
        ((decimal(38, 0), decimal(10, 5)), "DECIMAL(38, 5)"),
        ((timestamp(0), timestamp(3)), "TIMESTAMP(3)"),
        ((array(char(1)), array(char(3))), "ARRAY<VARCHAR(3)>"),
        ((map_of(INT, char(1)), map_of(BIGINT, char(1))), "MAP<BIGINT, CHAR(1)>"),
        ((row(("a", INT)), row(("b", BIGINT))), "ROW<`a` BIGINT>"),
        ((timestamp(3, TimeAttribute.ROWTIME), timestamp(3)), "TIMESTAMP(3)"),
        ((DATE, timestamp(0)), None),
        ((char(1), INT), None),
        ((INTERVAL_MONTH, INTERVAL_SECOND), None),
        ((array(INT), INT), None),
    ],
)
def test_common_type(types: tuple[DataType, ...], expected: str | None) -> None:
    found = common_type(types)
    assert (None if found is None else str(found)) == expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (INT, decimal(2, 1), "DECIMAL(11, 1)"),
        (timestamp(3), STRING, "TIMESTAMP(6)"),
        (DATE, char(10), "DATE"),
        (DATE, timestamp(3), "TIMESTAMP(3)"),
        (timestamp(3), timestamp_ltz(6), "TIMESTAMP_LTZ(6)"),
        (char(1), char(3), "STRING"),
        (STRING, INT, None),
        (BOOLEAN, INT, None),
        (TIME, DATE, None),
    ],
)
def test_comparison_type(a: DataType, b: DataType, expected: str | None) -> None:
    found = comparison_type(a, b)
    assert (None if found is None else str(found)) == expected


def test_casts_that_flink_allows() -> None:
    assert implicit_cast(SMALLINT, BIGINT) and not implicit_cast(BIGINT, INT)
    assert implicit_cast(char(3), STRING) and not implicit_cast(STRING, INT)
    assert explicit_cast(STRING, INT) and not explicit_cast(INT, timestamp(3))
    assert explicit_cast(STRING, BYTES) and not explicit_cast(INT, BYTES)
    assert explicit_cast(BIGINT, INTERVAL_SECOND) and not explicit_cast(INTERVAL_SECOND, BIGINT)
    assert explicit_cast(array(STRING), array(INT)) and not explicit_cast(STRING, array(INT))
    assert not explicit_cast(row(("a", INT), ("b", INT)), row(("a", INT)))
    assert not explicit_cast(DATE, TIME) and explicit_cast(TIME, timestamp(3))


def resolve(name: str, *types: DataType) -> str:
    coerced, result = resolve_call(FUNCTIONS.scalar(name), types)
    return f"{', '.join(map(str, coerced))} -> {result}"


def test_calls() -> None:
    assert resolve("+", BIGINT.not_null(), INT.not_null()) == "BIGINT NOT NULL, BIGINT NOT NULL -> BIGINT NOT NULL"
    assert resolve("+", decimal(5, 2), INT.not_null()) == "DECIMAL(5, 2), INT NOT NULL -> DECIMAL(13, 2)"
    assert resolve("POWER", INT.not_null(), decimal(3, 1)) == "DOUBLE NOT NULL, DOUBLE -> DOUBLE"
    assert resolve("IS NULL", INT) == "INT -> BOOLEAN NOT NULL"
    assert resolve("AND", BOOLEAN, BOOLEAN.not_null(), BOOLEAN) == "BOOLEAN, BOOLEAN NOT NULL, BOOLEAN -> BOOLEAN"
    assert resolve("COALESCE", INT, BIGINT.not_null()) == "BIGINT, BIGINT NOT NULL -> BIGINT NOT NULL"
    assert resolve("ABS", NULL) == "INT -> INT"


def test_a_time_attribute_is_lost_by_functions() -> None:
    _, result = resolve_call(FUNCTIONS.scalar("+"), [timestamp(3, TimeAttribute.ROWTIME), INTERVAL_SECOND])
    assert result.time_attribute is None


def test_misfit_names_what_was_given_and_what_fits() -> None:
    with pytest.raises(TypeMismatchError) as caught:
        resolve("SQRT", STRING, INT)
    assert caught.value.code == "E1301"
    assert caught.value.message == "SQRT does not take (STRING, INT)"
    assert caught.value.hint == "it takes: SQRT(<DOUBLE>)"
