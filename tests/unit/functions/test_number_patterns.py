"""TO_CHAR of numbers against PostgreSQL: patterns that people write, and random ones. FUZZ_CASES is how many of those."""

from __future__ import annotations

import os
import random
from decimal import Decimal

import psycopg
import pytest

from runtime.core.errors import ExpressionError
from runtime.expr.number_patterns import REAL_DIGITS, number_text
from tests.servers.postgres import PostgresServer

CASES = int(os.environ.get("FUZZ_CASES", "150"))
PATTERNS = [
    "999",
    "9990",
    "0999",
    "999.99",
    "FM999.99",
    "FM990.00",
    "9,999",
    "9,999,999.99",
    "99G999D99",
    "S999",
    "999S",
    "S9.99",
    "999MI",
    "MI999",
    "PL999",
    "999PL",
    "SG999",
    "999SG",
    "999PR",
    "FM999PR",
    "FM9.9",
    "0.0",
    ".99",
    "FM.99",
    "9.",
    "00000",
    "FM00000",
    "999,999,990.00",
    "FM999,999,990.00",
    "L999",
    '"a"999"b"',
    "99V99",
    "RN",
    "FMRN",
    "rn",
    "9.99EEEE",
    "9EEEE",
    "999th",
    "999TH",
    "FM999th",
    "0,000",
    "FM0,000.99",
    "9999999999",
    "FM9999999999.999999",
    "S0999.9",
    "FMS999",
    "FM999MI",
    "9-9",
    "$999.99",
    "FM$999,990.00",
    "990D9",
    "FM09",
    "9999.999S",
    "9.9.9",
    "9PR9",
    "S9S",
    "S9MI",
    "EEEE9",
    "9V9.9",
]
PARTS = ("9", "0", "9", "9", ",", ".", "FM", "S", "MI", "PL", "SG", "PR", "G", "D", "L", " ", "V", "9", "0")
NUMBERS = [
    "0",
    "1",
    "-1",
    "0.5",
    "-0.5",
    "12",
    "123",
    "-123",
    "1234.567",
    "-1234.567",
    "0.001",
    "-0.001",
    "99.995",
    "1e3",
    "123456789",
    "0.05",
    "-0.05",
    "10.10",
    "100",
    "-9.99",
    "485",
    "3999",
    "5.25",
    "-12.34",
    "987654321098765.4",
]
TYPES = {"numeric": (Decimal, 15), "float8": (float, 15), "float4": (float, REAL_DIGITS)}


def patterns() -> list[str]:
    choose = random.Random(CASES)
    made = ["".join(choose.choice(PARTS) for _ in range(choose.randint(2, 9))) for _ in range(CASES)]
    return [*PATTERNS, *made]


@pytest.mark.parametrize("kind", TYPES)
def test_they_are_those_of_postgresql(postgres_server: PostgresServer, kind: str) -> None:
    read, digits = TYPES[kind]
    # The last one has no Roman number, and so fails there.
    numbers = NUMBERS if kind != "float4" else ["0", "1", "-0.5", "12.5", "-123.25", "1234.5", "100000", "-0.125"]
    with postgres_server.connect() as connection:
        for pattern in patterns():
            shown = numbers[:-1] if "RN" in pattern.upper() else numbers
            asked = "SELECT " + ", ".join(f"to_char('{number}'::{kind}, %s)" for number in shown)
            try:
                wanted = connection.execute(asked, [pattern] * len(shown)).fetchone()
            except psycopg.Error:
                with pytest.raises(ExpressionError):
                    pytest.fail(f"{pattern}: {number_text(read(shown[0]), pattern, digits)}")
                continue
            assert tuple(number_text(read(number), pattern, digits) for number in shown) == wanted, pattern
