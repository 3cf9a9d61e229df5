"""DECIMAL cells of files with any number of digits: rounded half away from zero, or rejected where they do not fit."""

from __future__ import annotations

import random
from decimal import ROUND_HALF_UP, Decimal, localcontext
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.formats.text_values import round_decimal
from sqlengine import TableEnvironment

TYPES = [(38, 0), (38, 4), (38, 18), (38, 37), (38, 38), (20, 10), (5, 0)]


def rounded(number: str, precision: int, scale: int) -> Decimal | None:
    with localcontext() as context:
        context.prec = 300
        exact = Decimal(number).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
        return exact if abs(exact) < Decimal(10) ** (precision - scale) else None


def drawn(chance: random.Random) -> str:
    def digits(count: int) -> str:
        return "".join(chance.choices("0123456789", k=count))

    whole, places = chance.choice((0, 1, 5, 30, 34, 37, 38)), chance.choice((0, 1, 4, 10, 30, 37, 38, 39, 40, 50, 90))
    fraction = chance.choice((digits(places), "9" * places, "0" * (places - 1) + "5", "4" + "9" * (places - 1)))
    exponent = chance.choice(("", "", "", "e-9", "e3", "E-20"))
    before = f"{chance.choice('123456789')}{digits(whole - 1)}" if whole else "0"
    return f"{chance.choice(('', '-'))}{before}{f'.{fraction}' if places else ''}{exponent}"


@pytest.mark.parametrize(("precision", "scale"), TYPES)
@pytest.mark.parametrize("format_", ["csv", "json"])
def test_cells_of_any_length(tmp_path: Path, format_: str, precision: int, scale: int) -> None:
    chance = random.Random(f"{format_} {precision} {scale}")
    numbers = [drawn(chance) for _ in range(300)]
    line = "{},{}\n" if format_ == "csv" else '{{"i":{},"x":{}}}\n'
    (tmp_path / "numbers").write_text("".join(line.format(i, n) for i, n in enumerate(numbers)), encoding="utf-8")
    with TableEnvironment.create() as environment:
        environment.execute_sql(
            f"CREATE TABLE t (i INT, x DECIMAL({precision}, {scale})) WITH ('connector' = 'filesystem', "
            f"'path' = '{tmp_path}', 'format' = '{format_}', '{format_}.ignore-parse-errors' = 'true')"
        )
        rows = environment.execute_sql("SELECT i, x FROM t WHERE x IS NOT NULL").to_arrow().to_pylist()
    found = {row["i"]: row["x"] for row in rows}
    wanted = {i: rounded(number, precision, scale) for i, number in enumerate(numbers)}
    assert found == {i: value for i, value in wanted.items() if value is not None}


@pytest.mark.parametrize("scale", [0, 3, 18, 37])
def test_rounding_of_76_digits(scale: int) -> None:
    """Arrow's own rounding, to which cells of more than 38 digits are given."""
    chance = random.Random(scale)
    wide = pa.decimal256(76, scale + 1)
    numbers = [chance.choice((1, -1)) * chance.randrange(10 ** (38 + chance.randrange(1))) for _ in range(100)]
    numbers += [n // 10 * 10 + 5 for n in numbers]
    given = pa.array([Decimal(n).scaleb(-scale - 1) for n in numbers], wide)
    wanted = [rounded(str(Decimal(n).scaleb(-scale - 1)), 38, scale) for n in numbers]
    assert round_decimal(given, pa.decimal128(38, scale)).to_pylist() == wanted
