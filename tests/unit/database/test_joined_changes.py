"""UPDATE .. FROM and DELETE .. USING against a naive model: each row changes once, whatever it meets."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlengine import TableEnvironment

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8)


def _rows(t_env: TableEnvironment, text: str) -> list[tuple[int, ...]]:
    return [tuple(row) for row in t_env.execute_sql(text)]


def _filled(rows: list[tuple[int, ...]], others: list[tuple[int, int]], keyed: bool) -> TableEnvironment:
    t_env = TableEnvironment.create()
    key = "id INT PRIMARY KEY NOT ENFORCED, " if keyed else ""
    t_env.execute_sql(f"CREATE TABLE t ({key}k INT, v INT)")
    t_env.execute_sql("CREATE TABLE s (k INT, w INT)")
    t_env.execute_sql(f"INSERT INTO t VALUES {', '.join(map(str, rows))}")
    t_env.execute_sql(f"INSERT INTO s VALUES {', '.join(map(str, others))}")
    return t_env


@pytest.mark.parametrize("keyed", [False, True])
@settings(max_examples=12, deadline=None)
@given(pairs=ROWS, others=ROWS)
def test_each_row_changes_once(keyed: bool, pairs: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    rows: list[tuple[int, ...]] = [(i, *pair) for i, pair in enumerate(pairs)] if keyed else list(pairs)
    with _filled(rows, others, keyed) as t_env:
        t_env.execute_sql("UPDATE t SET v = t.v * 10 + s.w FROM s WHERE s.k = t.k AND s.w > 0")
        after = _rows(t_env, "SELECT * FROM t")
        values = {k: [w for other, w in others if other == k and w > 0] for k, _ in pairs}
        untouched = [row for row in rows if not values[row[-2]]]
        assert not Counter(untouched) - Counter(after) and len(after) == len(rows)
        changed = Counter((*row[:-1], row[-1] // 10) for row in (Counter(after) - Counter(untouched)).elements())
        assert changed == Counter(rows) - Counter(untouched)
        assert all(row[-1] % 10 in values[row[-2]] for row in (Counter(after) - Counter(untouched)).elements())


@pytest.mark.parametrize("keyed", [False, True])
@settings(max_examples=12, deadline=None)
@given(pairs=ROWS, others=ROWS)
def test_rows_that_meet_another_go(keyed: bool, pairs: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    rows: list[tuple[int, ...]] = [(i, *pair) for i, pair in enumerate(pairs)] if keyed else list(pairs)
    with _filled(rows, others, keyed) as t_env:
        t_env.execute_sql("DELETE FROM t USING s WHERE s.k = t.k AND s.w >= t.v")
        kept = [row for row in rows if not any(k == row[-2] and w >= row[-1] for k, w in others)]
        assert Counter(_rows(t_env, "SELECT * FROM t")) == Counter(kept)
