"""Arrow columns as Python values, and rows."""

from __future__ import annotations

import copy
import datetime as dt
import pickle
from decimal import Decimal

import pytest

from sqlengine import Row, TableEnvironment
from sqlengine.values.rows import Timestamp9


def only(sql: str) -> Row:
    with TableEnvironment.create() as t_env:
        (row,) = t_env.execute_sql(sql).collect()
        return row


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("CAST(1 AS TINYINT)", 1),
        ("TRUE", True),
        ("CAST(NULL AS INT)", None),
        ("CAST(1.5 AS DOUBLE)", 1.5),
        ("CAST(12.30 AS DECIMAL(8, 2))", Decimal("12.30")),
        ("'text'", "text"),
        ("X'0aff'", b"\x0a\xff"),
        ("DATE '2024-02-29'", dt.date(2024, 2, 29)),
        ("TIME '10:11:12'", dt.time(10, 11, 12)),
        ("TIMESTAMP '2024-01-01 00:00:00.123456'", dt.datetime(2024, 1, 1, 0, 0, 0, 123456)),
        ("TO_TIMESTAMP_LTZ(1500, 3)", dt.datetime(1970, 1, 1, 0, 0, 1, 500000, dt.UTC)),
        ("INTERVAL '1' DAY", dt.timedelta(days=1)),
        ("INTERVAL '14' MONTH", 14),
        ("ARRAY[1, NULL, 3]", [1, None, 3]),
        ("MAP['a', 1, 'b', NULL]", {"a": 1, "b": None}),
        ("ROW(1, 'x')", (1, "x")),
        ("ARRAY[ROW(1, ARRAY['a']), ROW(2, ARRAY['b', 'c'])]", [(1, ["a"]), (2, ["b", "c"])]),
        ("MAP['k', ARRAY[MAP[1, DATE '2024-01-01']]]", {"k": [{1: dt.date(2024, 1, 1)}]}),
    ],
)
def test_values(expression: str, value: object) -> None:
    (found,) = only(f"SELECT {expression} AS v")
    assert found == value and type(found) in (type(value), Row)


def test_nanoseconds_wherever_they_stand() -> None:
    moment = "CAST('2024-01-01 00:00:00.123456789' AS TIMESTAMP(9))"
    row = only(f"SELECT {moment} AS t, ARRAY[{moment}, NULL] AS a, MAP['k', {moment}] AS m, ROW({moment}) AS r")
    expected = Timestamp9.of(1704067200123456789, None)
    assert (row.t, row.a, row.m, row.r) == (expected, [expected, None], {"k": expected}, (expected,))
    assert row.t.nanosecond == 789 and str(row.t) == "2024-01-01 00:00:00.123456789"


def test_multiset_counts_its_values() -> None:
    assert only("SELECT COLLECT(x) AS c FROM (VALUES ('a'), ('b'), ('a')) AS t(x)").c == {"a": 2, "b": 1}


def test_slices_of_nested_columns() -> None:
    with TableEnvironment.create({"sqlengine.epoch.max-rows": "1"}) as t_env:
        t_env.execute_sql(
            "CREATE TABLE t AS SELECT * FROM (VALUES (1, ARRAY['a']), (2, ARRAY['b', 'c']), (3, CAST(NULL AS ARRAY<STRING>))) AS v(i, a)"
        )
        rows = sorted(t_env.execute_sql("SELECT i, a, ROW(i, a) AS r, MAP[i, a] AS m FROM t").collect())
    assert [tuple(row) for row in rows] == [
        (1, ["a"], (1, ["a"]), {1: ["a"]}),
        (2, ["b", "c"], (2, ["b", "c"]), {2: ["b", "c"]}),
        (3, None, (3, None), {3: None}),
    ]


def test_row_is_a_tuple_with_names() -> None:
    row = only("SELECT 1 AS a, 'x' AS b, 3 AS `count`")
    assert row == (1, "x", 3) and hash(row) == hash((1, "x", 3))
    assert (row.a, row["b"], row["count"], row[-1], row[:2]) == (1, "x", 3, 3, (1, "x"))
    assert row.as_dict() == {"a": 1, "b": "x", "count": 3}
    assert repr(row) == "+I(a=1, b='x', count=3)"
    assert row.names == ("a", "b", "count") and row.kind == "+I"
    with pytest.raises(AttributeError, match="no column 'nope'; it has a, b, count"):
        _ = row.nope
    with pytest.raises(KeyError):
        _ = row["nope"]


def test_rows_can_be_copied_and_pickled() -> None:
    row = only("SELECT 1 AS a, CAST('2024-01-01 00:00:00.123456789' AS TIMESTAMP(9)) AS t")
    for again in (copy.copy(row), copy.deepcopy(row), pickle.loads(pickle.dumps(row))):
        assert again == row and again.names == row.names and again.kind == row.kind and again.t.nanosecond == 789


def test_nanoseconds_compare() -> None:
    earlier, later = Timestamp9.of(1001, None), Timestamp9.of(1002, None)
    assert earlier < later and later > earlier and earlier <= later and later >= earlier and earlier != later
    assert Timestamp9.of(1000, None) == dt.datetime(1970, 1, 1, 0, 0, 0, 1) < earlier
