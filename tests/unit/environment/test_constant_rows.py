"""INSERT ... VALUES and IN over many constants: columns, not expressions, with the same answers and places of errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from planner.logical.expressions import all_expressions
from planner.logical.nodes import Scan
from runtime.core.errors import SqlEngineError
from runtime.expr.nodes import Constants, InList, Literal
from runtime.local.job import Job
from sqlengine import TableEnvironment
from sqlengine.parse import parse_statement
from sqlengine.parse.constant_rows import ConstantRows
from sqlengine.statements.planning import plan_query

COLUMNS = (
    "i INT, b BIGINT, d DECIMAL(10, 2), f DOUBLE, s STRING, c CHAR(3), v VARCHAR(2), ok BOOLEAN, dd DATE, "
    "ts TIMESTAMP(3), lt TIMESTAMP_LTZ(3), t TIME"
)
ROWS = [
    "(1, 12, 1.25, 1e3, 'it''s', 'abc', 'ab', TRUE, DATE '2024-02-29', TIMESTAMP '2024-01-01 00:00:01.5', "
    "TIMESTAMP_LTZ '2024-07-01 12:00:00', TIME '10:11:12')",
    "(-7, 99999999999, -3, -2.5E-3, 'ß😀', 'def', '', false, DATE '1969-12-31', TIMESTAMP '1969-12-31 23:59:59.123456', "
    "NULL, TIME '00:00:00')",
    "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "( - 3 , 5, .5, 0e0, '\n', 'xyz', 'q', null, NULL, TIMESTAMP '2024-1-5 1:02:03', TIMESTAMP_LTZ '2024-01-01', NULL)",
    "(0, 007, 12., 1e0, '', 'efg', 'zz', NULL, DATE '2024-1-9', NULL, NULL, TIME '1:2:3')",
]


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Callable[[type], list[object]]:
    """The objects of a class that are made from now on."""

    def made(kind: type) -> list[object]:
        found: list[object] = []
        begin = kind.__init__

        def counted(self: object, *args: Any, **kwargs: Any) -> None:
            found.append(self)
            begin(self, *args, **kwargs)

        monkeypatch.setattr(kind, "__init__", counted)
        return found

    return made


def rows_of(t_env: TableEnvironment, table: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in t_env.execute_sql(f"SELECT * FROM {table}").to_arrow().to_pylist()]


@pytest.mark.parametrize("many", [1, 40])
def test_constants_are_what_expressions_would_be(t_env: TableEnvironment, many: int) -> None:
    t_env.execute_sql("SET 'table.local-time-zone' = 'Europe/Berlin'")
    for name in ("direct", "source", "written"):
        t_env.execute_sql(f"CREATE TABLE {name} ({COLUMNS})")
    rows = ", ".join(ROWS * many)
    t_env.execute_sql(f"INSERT INTO direct VALUES {rows}")
    t_env.execute_sql(f"INSERT INTO source SELECT * FROM (VALUES {rows})")
    for row in ROWS * many:
        # A comment has the grammar read the row.
        t_env.execute_sql(f"INSERT INTO written VALUES {row[:-1]} /* as written */)")
    assert rows_of(t_env, "direct") == rows_of(t_env, "written")
    assert rows_of(t_env, "source") == rows_of(t_env, "written")


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_each_row_alone(t_env: TableEnvironment, row: int) -> None:
    for name in ("direct", "written"):
        t_env.execute_sql(f"CREATE TABLE {name} ({COLUMNS})")
    t_env.execute_sql(f"INSERT INTO direct VALUES {ROWS[row]}")
    t_env.execute_sql(f"INSERT INTO written VALUES {ROWS[row][:-1]} /* as written */)")
    assert rows_of(t_env, "direct") == rows_of(t_env, "written")


def test_rows_of_constants_make_neither_expressions_nor_a_job(
    t_env: TableEnvironment, count: Callable[[type], list[object]]
) -> None:
    t_env.execute_sql("CREATE TABLE t (i INT, s STRING, d DECIMAL(10, 2), ts TIMESTAMP(3))")
    literals, jobs = count(Literal), count(Job)
    rows = ", ".join(f"({i}, 's{i}', {i}.5, TIMESTAMP '2024-01-01 00:00:{i % 60:02d}')" for i in range(2_000))
    t_env.execute_sql(f"INSERT INTO t VALUES {rows}")
    assert len(literals) < 20 and not jobs
    assert t_env.execute_sql("SELECT COUNT(*), SUM(d) FROM t").to_arrow().to_pylist() == [
        {"EXPR$0": 2_000, "EXPR$1": pytest.approx(2_000_000)}
    ]


def test_many_rows_of_a_query_are_a_table(t_env: TableEnvironment) -> None:
    rows = ", ".join(f"({i}, 's{i}')" for i in range(500))
    statement: Any = parse_statement(f"SELECT * FROM (VALUES {rows}) AS t (a, b) WHERE a >= 498")
    planned = plan_query(t_env.session, statement.query.query)
    assert isinstance(planned.optimized.inputs[0], Scan)
    found = t_env.execute_sql(statement.text).to_arrow().to_pylist()
    assert found == [{"a": 498, "b": "s498"}, {"a": 499, "b": "s499"}]


def place(t_env: TableEnvironment, statement: str) -> tuple[str, str]:
    """The code of the error of a statement, and the text that it points at."""
    with pytest.raises(SqlEngineError) as caught:
        t_env.execute_sql(statement)
    span = caught.value.span
    return caught.value.code, "" if span is None else statement[span.start : span.end]


def test_errors_point_at_the_row_or_the_value(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE t (i INT, d DATE)")
    good = [f"({i}, DATE '2024-01-01')" for i in range(1_000)]

    def with_row(row: str) -> str:
        return "INSERT INTO t VALUES " + ",\n ".join([*good[:700], row, *good[700:]])

    assert place(t_env, with_row("(1, DATE '2024-01-01', 3)")) == ("E1223", "(1, DATE '2024-01-01', 3)")
    assert place(t_env, with_row("(700)")) == ("E1223", "(700)")
    assert place(t_env, with_row("(1, DATE '2023-02-29')")) == ("E1308", "DATE '2023-02-29'")
    assert place(t_env, with_row("(99999999999999999999, NULL)")) == ("E1307", "99999999999999999999")
    assert place(t_env, with_row("(1, DATE '2024-01-01' garbage)"))[0] == "E1100"
    assert place(t_env, with_row("('x', NULL)"))[0] == "E1303"
    assert place(t_env, with_row("(9999999999, NULL)"))[0] == "E1313"
    assert rows_of(t_env, "t") == []


LISTS = {
    "i": [str(i) for i in range(-20, 20)],
    "b": [str(10**10 + i) for i in range(40)],
    "d": [f"{i}.25" for i in range(40)],
    "f": [f"{i}e0" for i in range(-3, 40)],
    "s": [f"'s{i}'" for i in range(39)] + ["'it''s'"],
    "c": [f"'{i:03d}'" for i in range(40)],
    "dd": [f"DATE '2024-01-{i:02d}'" for i in range(1, 31)],
    "ts": [f"TIMESTAMP '2024-01-01 00:00:{i:02d}'" for i in range(40)],
    "lt": [f"TIMESTAMP_LTZ '2024-01-01 00:00:{i:02d}'" for i in range(40)],
}
VALUES = (
    "(7, 10000000007, 7.25, 7e0, 's7', '007', 'ab', TRUE, DATE '2024-01-07', TIMESTAMP '2024-01-01 00:00:07', "
    "TIMESTAMP_LTZ '2024-01-01 00:00:07', NULL)",
    "(700, 7, 7.26, -0e0, 'it''s', '070', 'ab', TRUE, DATE '2025-01-07', TIMESTAMP '2024-01-01 00:00:07.5', "
    "TIMESTAMP_LTZ '2024-01-01 01:00:07', NULL)",
    ROWS[2],
)


@pytest.mark.parametrize("column", LISTS)
@pytest.mark.parametrize("null", ["", ", NULL"])
def test_in_over_constants_is_what_equalities_would_be(t_env: TableEnvironment, column: str, null: str) -> None:
    t_env.execute_sql(f"CREATE TABLE t ({COLUMNS})")
    t_env.execute_sql("INSERT INTO t VALUES " + ", ".join(VALUES))
    listed = ", ".join(LISTS[column]) + null
    either = " OR ".join(f"{column} = {item}" for item in LISTS[column])
    if null:
        either = f"({either} OR CAST(NULL AS BOOLEAN))"
    found = t_env.execute_sql(
        f"SELECT {column} IN ({listed}) AS a, {either} AS b, {column} NOT IN ({listed}) AS c, NOT ({either}) AS d, "
        f"CASE WHEN {column} IN ({listed}) THEN 1 ELSE 0 END AS e FROM t"
    ).to_arrow()
    assert found["a"] == found["b"] and found["c"] == found["d"]
    assert found["e"].to_pylist() == [1 if x else 0 for x in found["a"].to_pylist()]
    assert True in found["a"].to_pylist()


def test_a_long_list_is_one_part_of_the_expression(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE t (i INT)")
    statement: Any = parse_statement(f"SELECT * FROM t WHERE i IN ({', '.join(map(str, range(10_000)))})")
    planned = plan_query(t_env.session, statement.query.query)
    expressions = all_expressions(planned.optimized)
    (listed,) = (e for e in expressions if isinstance(e, InList))
    assert len(expressions) < 10 and isinstance(listed.items[0], Constants) and len(listed.items[0].values) == 10_000


@pytest.mark.parametrize(
    "text", ["VALUES (1 + 1)", "VALUES (1, 'a' \n 'b')", "VALUES (1 /* one */)", "VALUES ((1), 2)", "VALUES (X'0a')"]
)
def test_what_is_more_than_constants_is_read_by_the_grammar(text: str) -> None:
    statement: Any = parse_statement(text)
    assert not any(isinstance(row, ConstantRows) for row in statement.query.query.expressions)


def test_a_row_that_goes_on_is_an_expression(t_env: TableEnvironment) -> None:
    assert rows_of(t_env, "(VALUES (1), (2) + 3)") == [(1,), (5,)]
