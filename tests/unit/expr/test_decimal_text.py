"""A DECIMAL as text has all digits of its scale, and never an exponent."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext

import pyarrow as pa
import pytest

from runtime.core.types import decimal
from runtime.expr.cast.text import to_text

TYPES = [(p, s) for p in (8, 18, 19, 38) for s in (0, 1, 2, 5, 6, 7, 8, 18, 38) if s <= p]


@pytest.mark.parametrize(("precision", "scale"), TYPES)
def test_all_digits(precision: int, scale: int) -> None:
    chance, most = random.Random(scale), 10**precision - 1
    units = [0, 1, -1, most, -most] + [
        chance.choice([1, -1]) * chance.randrange(10 ** chance.randint(0, precision)) for _ in range(60)
    ]
    with localcontext() as context:
        context.prec = 60
        values = [None, *(Decimal(unit).scaleb(-scale) for unit in units)]
        expected = [None if value is None else f"{value:f}" for value in values]
    array = pa.array(values, pa.decimal128(precision, scale))
    assert to_text(array, decimal(precision, scale), "UTC").to_pylist() == expected
    assert to_text(array.slice(3), decimal(precision, scale), "UTC").to_pylist() == expected[3:]
