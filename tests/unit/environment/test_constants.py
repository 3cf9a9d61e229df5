"""A constant in SQL is computed as a column of that value is: value, type and padding."""

from __future__ import annotations

import pytest

from sqlengine import TableEnvironment

TEXTS = ["", "a", "😀x", "😀😀😀😀", "straße", "  x ", "é", "12.5", "0001-01-01", "9999-12-31 23:59:59.999"]
EXPRESSIONS = [
    *("CAST({0} AS CHAR(3))", "CAST({0} AS VARCHAR(3))", "CAST({0} AS CHAR(3)) || '|'", "CAST({0} AS BYTES)"),
    *("CHAR_LENGTH({0})", "REVERSE({0})", "LPAD({0}, 5, '😀')", "RPAD({0}, 2, 'x')", "SUBSTRING({0} FROM 2 FOR 2)"),
    *("TRIM({0})", "OVERLAY({0} PLACING '😀' FROM 2)", "POSITION('x' IN {0})", "INITCAP({0})", "ASCII({0})"),
    *("TRY_CAST({0} AS DECIMAL(3, 1))", "TRY_CAST({0} AS DATE)", "TRY_CAST({0} AS TIMESTAMP(3))", "TO_DATE({0})"),
    *("{0} = CAST({0} AS CHAR(8))", "{0} LIKE '_x%'", "{0} IN ('a', '😀x', '12.5  ')", "COALESCE({0}, 'none')"),
]
NUMBERS = ["0", "-1", "2147483647", "9223372036854775807", "1.5", "0.005", "99999999999999999.9", "1e300", "-0e0"]
CASTS = [
    *("CAST({0} AS DECIMAL(5, 2))", "CAST({0} AS DECIMAL(38, 20))", "CAST({0} AS INT)", "CAST({0} AS STRING)"),
    *(
        "CAST({0} AS DOUBLE)",
        "ROUND({0}, 1)",
        "ROUND({0}, -1)",
        "{0} * 10",
        "{0} / 3",
        "- {0}",
        "SIGN({0})",
        "CEIL({0})",
    ),
]


@pytest.fixture(scope="module")
def environment() -> TableEnvironment:
    return TableEnvironment.create()


def _both(environment: TableEnvironment, expressions: list[str], values: list[str], types: list[str]) -> None:
    columns = ", ".join(f"c{i} {t} NOT NULL" for i, t in enumerate(types))
    environment.execute_sql("DROP TABLE IF EXISTS given")
    environment.execute_sql(f"CREATE TABLE given ({columns})")
    environment.execute_sql(f"INSERT INTO given VALUES ({', '.join(values)})")
    for expression in expressions:
        of_columns = ", ".join(expression.format(f"c{i}") for i in range(len(values)))
        of_constants = ", ".join(expression.format(v) for v in values)
        (columns_row,) = environment.execute_sql(f"SELECT {of_columns} FROM given").collect()
        (constants_row,) = environment.execute_sql(f"SELECT {of_constants} FROM given").collect()
        (alone,) = environment.execute_sql(f"SELECT {of_constants}").collect()
        shown = [str(list(row)) for row in (columns_row, constants_row, alone)]
        assert shown[0] == shown[1] == shown[2], expression


def test_texts(environment: TableEnvironment) -> None:
    values = [f"'{t}'" for t in TEXTS]
    _both(environment, EXPRESSIONS, values, ["STRING"] * len(values))


def test_a_text_of_a_fixed_length(environment: TableEnvironment) -> None:
    values = [f"'{t}'" for t in TEXTS if t]
    _both(environment, EXPRESSIONS, values, [f"CHAR({len(t)})" for t in TEXTS if t])


def test_numbers(environment: TableEnvironment) -> None:
    types = ["INT", "INT", "INT", "BIGINT", "DECIMAL(2, 1)", "DECIMAL(4, 3)", "DECIMAL(18, 1)", "DOUBLE", "DOUBLE"]
    casts = [c for c in CASTS if "DECIMAL" not in c]
    _both(environment, casts, NUMBERS, types)
    _both(environment, CASTS, NUMBERS[:-2], types[:-2])
