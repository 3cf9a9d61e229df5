"""Parameters of statements: where they stand, which types they have, what is wrong with them."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import Row, TableEnvironment

ZONED = dt.datetime(2024, 1, 2, 3, 4, 5, 600, tzinfo=dt.timezone(dt.timedelta(hours=2)))


@pytest.fixture
def t_env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        made.execute_script(
            "CREATE TABLE t (a INT, b STRING, c DECIMAL(10, 2));"
            "INSERT INTO t VALUES (1, 'one', 1.50), (2, 'two', 2.00), (3, NULL, 3.25)"
        )
        yield made


def rows(t_env: TableEnvironment, statement: str, *values: Any, **named: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(r) for r in t_env.execute_sql(statement, named or list(values))), key=str)


def failure(t_env: TableEnvironment, statement: str, values: Any = None, **more: Any) -> SqlEngineError:
    with pytest.raises(SqlEngineError) as caught:
        list(t_env.execute_sql(statement, values, **more))
    return caught.value


def marked(error: SqlEngineError) -> str:
    """The text that the error's caret stands under."""
    assert error.span is not None and error.text is not None
    return error.text[error.span.start : error.span.end]


@pytest.mark.parametrize(
    ("statement", "values", "answer"),
    [
        ("SELECT a FROM t WHERE a = ? AND c > $2", [2, 1], [(2,)]),
        ("SELECT a FROM t WHERE a = $2 OR b = $1", ["one", 3], [(1,), (3,)]),
        ("SELECT a FROM t WHERE a = :n OR a = :n + 1", {"n": 1}, [(1,), (2,)]),
        ("SELECT a FROM t WHERE a IN (?, ?)", [1, 3], [(1,), (3,)]),
        ("SELECT a FROM t WHERE (a, b) IN ((?, ?))", [1, "one"], [(1,)]),
        ("SELECT a FROM t WHERE a NOT IN (?, 2)", [1], [(3,)]),
        ("SELECT a FROM t WHERE a BETWEEN ? AND ?", [2, 9], [(2,), (3,)]),
        ("SELECT a FROM t WHERE b LIKE ?", ["%w%"], [(2,)]),
        ("SELECT a FROM t WHERE ?", [True], [(1,), (2,), (3,)]),
        ("SELECT a FROM t WHERE NOT ? OR a = 1", [True], [(1,)]),
        ("SELECT a FROM t WHERE a < ?", [2.5], [(1,), (2,)]),
        ("SELECT a FROM t WHERE a < ?", [3_000_000_000], [(1,), (2,), (3,)]),
        ("SELECT a FROM t WHERE c = ?", [Decimal("2.000")], [(2,)]),
        ("SELECT a FROM t WHERE b = ?", [None], []),
        ("SELECT a FROM t WHERE b IS NOT DISTINCT FROM ?", [None], [(3,)]),
        ("SELECT a + ?, ? FROM t WHERE a = 1", [1, "x"], [(2, "x")]),
        ("SELECT ? = ?, ? || 'x'", [1, 1, "a"], [(True, "ax")]),
        ("SELECT CAST(? AS INT), CAST(? AS STRING), TRY_CAST(? AS INT)", ["12", 5, "x"], [(12, "5", None)]),
        ("SELECT CASE WHEN a = ? THEN ? ELSE ? END FROM t WHERE a < 3", [1, "y", "n"], [("n",), ("y",)]),
        ("SELECT COALESCE(b, ?) FROM t WHERE a = 3", ["none"], [("none",)]),
        ("SELECT ROUND(?, 1), UPPER(?), SUBSTRING('abc', ?)", [1.26, "u", 2], [(1.3, "U", "bc")]),
        ("SELECT a FROM t ORDER BY a LIMIT ? OFFSET ?", [1, 1], [(2,)]),
        ("SELECT a FROM t ORDER BY a FETCH FIRST ? ROWS ONLY", [1], [(1,)]),
        ("SELECT a FROM t ORDER BY a LIMIT ?", [None], [(1,), (2,), (3,)]),
        ("SELECT (SELECT MAX(a) FROM t WHERE a < ?)", [3], [(2,)]),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM t AS u WHERE u.a = t.a + ?)", [2], [(1,)]),
        ("SELECT SUM(a) FILTER (WHERE a > ?), COUNT(*) FROM t HAVING COUNT(*) > ?", [1, 2], [(5, 3)]),
        ("SELECT a % $1, COUNT(*) FROM t GROUP BY a % $1", [2], [(0, 1), (1, 2)]),
        ("WITH u AS (SELECT a FROM t WHERE a > ?) SELECT * FROM u UNION ALL SELECT ?", [2, 9], [(3,), (9,)]),
        ("SELECT x FROM (VALUES (?, 1), (2, ?)) AS v (x, y) WHERE y > ?", [7, 8, 0], [(2,), (7,)]),
        ("SELECT t.a FROM t JOIN t AS u ON t.a = u.a AND u.a > ?", [2], [(3,)]),
        ("SELECT x FROM UNNEST(?) AS v (x)", [[4, 5]], [(4,), (5,)]),
        ("SELECT ?[2], ?['k'], ?", [["a", "b"], {"k": 1}, Row(1, "x")], [("b", 1, (1, "x"))]),
        ("SELECT '?', `b` FROM t WHERE a = ? -- ?\n", [1], [("?", "one")]),
        ("EXECUTE SELECT ?", [1], [(1,)]),
    ],
)
def test_a_parameter_stands_where_an_expression_may(
    t_env: TableEnvironment, statement: str, values: Any, answer: list[tuple[Any, ...]]
) -> None:
    assert sorted((tuple(r) for r in t_env.execute_sql(statement, values)), key=str) == answer
    with t_env.prepare(statement) as prepared:
        for _ in range(2):
            assert sorted((tuple(r) for r in prepared.execute(values)), key=str) == answer


VALUES: list[tuple[Any, str]] = [
    (True, "BOOLEAN"),
    (7, "INT"),
    (-(1 << 40), "BIGINT"),
    (1 << 70, "DECIMAL(22, 0)"),
    (2.5, "DOUBLE"),
    (float("inf"), "DOUBLE"),
    (Decimal("-1.250"), "DECIMAL(4, 3)"),
    (Decimal("1E+3"), "DECIMAL(4, 0)"),
    ("it's; -- \N{SNOWMAN} '", "STRING"),
    ("", "STRING"),
    (b"\x00\xff", "BYTES"),
    (dt.date(2024, 2, 29), "DATE"),
    (dt.time(1, 2, 3, 4000), "TIME(3)"),
    (dt.datetime(2024, 1, 2, 3, 4, 5, 6), "TIMESTAMP(6)"),
    (ZONED, "TIMESTAMP_LTZ(6)"),
    (dt.timedelta(days=1, milliseconds=5), "INTERVAL SECOND(3)"),
    ([1, None, 3], "ARRAY<INT>"),
    ([[1.5], []], "ARRAY<ARRAY<DOUBLE>>"),
    ({"k": [1]}, "MAP<STRING NOT NULL, ARRAY<INT>>"),
    (Row(id=1, name="ann"), "ROW<`id` INT, `name` STRING>"),
]


@pytest.mark.parametrize(("value", "type_"), VALUES, ids=lambda v: str(v)[:30])
def test_a_value_has_the_sql_type_of_its_python_type(t_env: TableEnvironment, value: Any, type_: str) -> None:
    result = t_env.execute_sql("SELECT ? AS x, ? AS y", [value, None])
    assert str(result.schema["x"].type if hasattr(result.schema, "get") else result.schema[0].type) == type_
    assert [tuple(r) for r in result] == [(value, None)]
    t_env.execute_sql(f"CREATE TABLE kept (x {type_.replace(' NOT NULL', '')})")
    t_env.execute_sql("INSERT INTO kept VALUES (?)", [value])
    t_env.execute_sql("INSERT INTO kept VALUES (:x)", rows=[{"x": value}, {"x": None}])
    t_env.execute_sql("INSERT INTO kept SELECT ?", [value])
    assert sorted((r[0] for r in t_env.execute_sql("SELECT * FROM kept")), key=str) == sorted(
        [value] * 3 + [None], key=str
    )


def test_values_of_other_libraries_are_taken(t_env: TableEnvironment) -> None:
    class Name(str):
        pass

    given = [
        np.int64(5),
        np.float32(0.5),
        np.bool_(True),
        np.datetime64("2024-01-01T00:00:01"),
        bytearray(b"x"),
        Name("n"),
    ]
    expected = (5, 0.5, True, dt.datetime(2024, 1, 1, 0, 0, 1), b"x", "n")
    assert rows(t_env, "SELECT ?, ?, ?, ?, ?, ?", *given) == [expected]


def test_rows_are_changed_by_parameters(t_env: TableEnvironment) -> None:
    assert rows(t_env, "UPDATE t SET b = ?, c = c + ? WHERE a = ?", "new", 1, 1) == [(1,)]
    assert rows(t_env, "DELETE FROM t WHERE a = :gone", gone=2) == [(1,)]
    t_env.execute_sql("INSERT INTO t (b, a) SELECT ?, a + ? FROM t WHERE a = 1", ["copy", 10])
    assert rows(t_env, "SELECT * FROM t") == [
        (1, "new", Decimal("2.50")),
        (11, "copy", None),
        (3, None, Decimal("3.25")),
    ]
    t_env.execute_sql("CREATE TABLE made AS SELECT a, ? AS tag FROM t WHERE a < ?", ["x", 5])
    assert rows(t_env, "SELECT * FROM made") == [(1, "x"), (3, "x")]


def test_a_statement_is_carried_out_for_many_rows(t_env: TableEnvironment) -> None:
    seen: list[int] = []
    t_env.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
    t_env.execute_sql("DELETE FROM t")
    assert rows_of(t_env.execute_sql("INSERT INTO t VALUES (?, ?, ?)", rows=((i, f"n{i}", i) for i in range(100)))) == [
        (100,)
    ]
    seen.append(rows(t_env, "SELECT n FROM v")[0][0])
    assert rows_of(t_env.execute_sql("UPDATE t SET b = ? WHERE a = ?", rows=[("x", 1), ("y", 2), ("z", 200)])) == [(2,)]
    assert rows_of(t_env.execute_sql("DELETE FROM t WHERE a >= :low", rows=[{"low": 50}, {"low": 40}])) == [(60,)]
    assert rows_of(t_env.execute_sql("INSERT INTO t VALUES (?, 'c', ?)", rows=[])) == [(0,)]
    seen.append(rows(t_env, "SELECT n FROM v")[0][0])
    assert seen == [100, 40]
    assert rows(t_env, "SELECT b FROM t WHERE a IN (1, 2)") == [("x",), ("y",)]


def rows_of(result: Any) -> list[tuple[Any, ...]]:
    return [tuple(r) for r in result]


def test_rows_of_many_go_to_any_table(t_env: TableEnvironment, tmp_path: Any) -> None:
    t_env.execute_sql(
        f"CREATE TABLE f (a INT, b STRING) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'json')"
    )
    t_env.execute_sql("INSERT INTO f VALUES (?, UPPER(?))", rows=[(i, "x") for i in range(5)])
    t_env.execute_sql("INSERT INTO f VALUES ($1, 'y')", rows=[[7]])
    t_env.execute_sql("INSERT INTO f VALUES (?, ?), (9, ?)", rows=[[8, "a", "b"]])
    assert rows(t_env, "SELECT COUNT(*), MAX(a) FROM f WHERE a >= ?", 1) == [(7, 9)]


def test_many_rows_change_all_or_nothing(t_env: TableEnvironment) -> None:
    before = rows(t_env, "SELECT * FROM t")
    with pytest.raises(SqlEngineError, match="E1330"):
        t_env.execute_sql("INSERT INTO t VALUES (?, ?, ?)", rows=[(1, "x", 1), ("no", "x", 1)])
    with pytest.raises(SqlEngineError, match="E21"):
        t_env.execute_sql("UPDATE t SET a = a / ?", rows=[[1], [0]])
    assert rows(t_env, "SELECT * FROM t") == before


MISTAKES: list[tuple[str, Any, str, str]] = [
    ("SELECT ?", None, "E1251", "?"),
    ("SELECT ?, ?", [1], "E1251", "?"),
    ("SELECT $1", [1, 2], "E1251", "$1"),
    ("SELECT $2", [1], "E1251", "$2"),
    ("SELECT ?", 5, "E1251", "?"),
    ("SELECT ?", "x", "E1251", "?"),
    ("SELECT ?", {"x": 1}, "E1251", "?"),
    ("SELECT :x", [1], "E1251", ":x"),
    ("SELECT :amount", {"amuont": 1}, "E1252", ":amount"),
    ("SELECT :a, :b", {"a": 1}, "E1252", ":b"),
    ("SELECT ?, :b", [1], "E1253", ":b"),
    ("SELECT ?, $1", [1], "E1253", "$1"),
    ("SELECT a FROM t WHERE a = ?", ["x"], "E1304", "a = ?"),
    ("INSERT INTO t VALUES (?, 'x', 1)", ["x"], "E1313", "VALUES (?, 'x', 1)"),
    ("SELECT a FROM t LIMIT ?", [-1], "E1219", "?"),
    ("SELECT a FROM t LIMIT ?", ["1"], "E1219", "?"),
    ("SELECT ?", [object()], "E1321", "?"),
    ("SELECT ?", [10**40], "E1307", "?"),
    ("SELECT ?", [Decimal("NaN")], "E1307", "?"),
    ("SELECT ?", [["a", 1]], "E1330", "?"),
    ("SELECT ?", ["\ud800"], "E1330", "?"),
    ("CREATE VIEW v AS SELECT ?", [1], "E1250", "?"),
    ("CREATE MATERIALIZED VIEW v AS SELECT ?", [1], "E1250", "?"),
    ("ALTER VIEW v AS SELECT ?", [1], "E1250", "?"),
    ("CREATE TABLE x (a INT, b AS a + ?)", [1], "E1250", "?"),
    ("SELECT LISTAGG(b, ?) FROM t", [","], "E1309", "?"),
    ("SELECT window_start FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(a), ?))", [1], "E1", "?"),
    ("SELECT SUM(a) OVER (ORDER BY a ROWS BETWEEN ? PRECEDING AND CURRENT ROW) FROM t", [1], "E1", "?"),
    ("SELECT * FROM ?", ["t"], "E1100", "?"),
    ("SET 'a' = ?", ["t"], "E1100", "?"),
]


@pytest.mark.parametrize(("statement", "values", "code", "place"), MISTAKES)
def test_mistakes_with_parameters_say_where(
    t_env: TableEnvironment, statement: str, values: Any, code: str, place: str
) -> None:
    error = failure(t_env, statement, values)
    assert error.code.startswith(code)
    assert error.code != "E9100"
    assert marked(error) == place
    assert error.hint or code in ("E1100", "E1313")


def test_rows_are_for_changes(t_env: TableEnvironment) -> None:
    assert failure(t_env, "SELECT ?", rows=[[1]]).code == "E1635"
    assert failure(t_env, "INSERT INTO t VALUES (1, 'x', 1)", rows=[[1]]).code == "E1251"
    assert failure(t_env, "INSERT INTO t VALUES (?, 'x', 1)", [1], rows=[[1]]).code == "E1251"
    assert failure(t_env, "INSERT INTO t VALUES (?, 'x', 1)", rows=[[1], [1, 2]]).code == "E1251"


def test_secrets_stay_secret(t_env: TableEnvironment, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "hunter2 of the parameters"
    plan = t_env.execute_sql("EXPLAIN SELECT a FROM t WHERE b = UPPER(?) || 'x'", [secret]).collect().next()[0]
    assert "$1" in plan
    texts = [plan, str(failure(t_env, "SELECT CAST(? AS INT)", [secret]))]
    texts += [str(failure(t_env, "SELECT a FROM t WHERE a = ?", [secret]))]
    texts += [str(failure(t_env, "INSERT INTO t VALUES (?, '', 1)", [secret]))]
    texts += [str(failure(t_env, "SELECT a FROM t LIMIT ?", [secret])), caplog.text]
    with t_env.prepare("SELECT CAST(? AS DATE)") as prepared:
        with pytest.raises(SqlEngineError) as caught:
            list(prepared.execute([secret]))
        texts += [str(caught.value), repr(prepared)]
    assert [text for text in texts if "hunter2" in text.lower()] == []
