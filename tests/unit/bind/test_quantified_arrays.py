"""Comparisons with ANY and ALL of an array: every one of a small world, against what the SQL standard says of them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable

import pytest

from sqlengine import TableEnvironment

VALUES = (None, 1, 2, 3)
ARRAYS = [None, *(list(a) for n in range(4) for a in itertools.product((None, 1, 2), repeat=n))]
OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def quantified(value: int | None, sign: str, every: bool, array: list[int | None] | None) -> bool | None:
    if array is None:
        return None
    compare = OPERATORS[sign]
    results = [None if value is None or x is None else compare(value, x) for x in array]
    if (not every) in results:
        return not every
    return None if None in results else every


@pytest.mark.parametrize("sign", OPERATORS)
def test_every_value_and_array(t_env: TableEnvironment, sign: str) -> None:
    t_env.execute_sql("CREATE TABLE t (n INT PRIMARY KEY NOT ENFORCED, x BIGINT, a ARRAY<INT>)")
    cases = list(itertools.product(VALUES, ARRAYS))
    rows = []
    for n, (value, array) in enumerate(cases):
        text = "NULL" if array is None else "'{" + ",".join("NULL" if x is None else str(x) for x in array) + "}'"
        rows.append(f"({n}, {'NULL' if value is None else value}, CAST({text} AS ARRAY<INT>))")
    for row in rows:
        t_env.execute_sql(f"INSERT INTO t VALUES {row}").wait()
    query = f"SELECT n, x {sign} ANY (a) AS any_, x {sign} ALL (a) AS all_, NOT x {sign} SOME (a) AS none FROM t"
    found = {r["n"]: (r["any_"], r["all_"], r["none"]) for r in t_env.execute_sql(query).to_arrow().to_pylist()}
    for n, (value, array) in enumerate(cases):
        any_ = quantified(value, sign, False, array)
        assert found[n] == (any_, quantified(value, sign, True, array), None if any_ is None else not any_), cases[n]
