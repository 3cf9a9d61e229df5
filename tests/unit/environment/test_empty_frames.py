"""Aggregates over frames without rows: what a column is declared as, and DISTINCT over values that differ, change nothing."""

from __future__ import annotations

import pytest

from sqlengine import TableEnvironment

TYPES = {"i": "INT", "b": "BIGINT", "d": "DECIMAL(10, 2)", "w": "DECIMAL(38, 2)", "f": "DOUBLE", "s": "STRING"}
NUMBERS = ("SUM", "SUM0", "AVG", "STDDEV_POP", "VAR_SAMP")
ANY = ("COUNT", "MIN", "MAX", "FIRST_VALUE", "LISTAGG", "ARRAY_AGG", "COLLECT")
FRAMES = (
    "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    "RANGE BETWEEN 2 PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
)


@pytest.mark.parametrize("frame", FRAMES)
def test_an_empty_frame(t_env: TableEnvironment, frame: str) -> None:
    for table, suffix in (("sure", " NOT NULL"), ("unsure", "")):
        columns = ", ".join(f"{name} {type_}{suffix}" for name, type_ in TYPES.items())
        t_env.execute_sql(f"CREATE TABLE {table} ({columns})")
        t_env.execute_sql(f"INSERT INTO {table} VALUES (1, 2, 1.5, 2.5, 3.5, 'a'), (2, 3, 4.5, 5.5, 6.5, 'b')")
    calls = [(f, c) for f in NUMBERS for c in "ibdwf"] + [
        (f, c) for f in ANY for c in TYPES if f != "LISTAGG" or c == "s"
    ]

    def answers(table: str, distinct: str) -> list[object]:
        shown = ", ".join(f"{f}({distinct}{c}) OVER (ORDER BY i {frame}) AS x{n}" for n, (f, c) in enumerate(calls))
        return [tuple(row) for row in t_env.execute_sql(f"SELECT i, {shown} FROM {table}")]

    expected = answers("unsure", "")
    assert len(expected) == 2
    assert answers("sure", "") == expected
    assert answers("sure", "DISTINCT ") == expected
    assert answers("unsure", "DISTINCT ") == expected
