"""What a test cannot give to a simulated environment is told with the row, the column and what to write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runtime.core.errors import SqlEngineError
from sqlengine.testing.simulated import SimulatedEnvironment


@pytest.fixture
def t_env() -> Iterator[SimulatedEnvironment]:
    with SimulatedEnvironment.create() as made:
        made.execute_script(
            "CREATE TABLE t (id INT NOT NULL, price DECIMAL(6, 2), at TIMESTAMP(3), names ARRAY<STRING>, WATERMARK FOR at AS at);"
            "CREATE TABLE plain (id INT); CREATE VIEW v AS SELECT * FROM t;"
            "CREATE TABLE outside (id INT) WITH ('connector' = 'datagen')"
        )
        yield made


@pytest.mark.parametrize(
    ("table", "row", "columns", "problem"),
    [
        ("t", "1 | 2", (), "row 1 for t has 2 values for 4 columns; they are: id | price | at | names"),
        ("t", "1 | x", ("id", "price"), 'row 1 for t: "x" is no DECIMAL(6, 2) for column "price"'),
        ("t", "2.5", ("id",), 'row 1 for t: "2.5" is no INT for column "id"'),
        ("t", "1 | 2013-13-01", ("id", "at"), 'is no TIMESTAMP(3) for column "at"'),
        ("t", "1 | a, b", ("id", "names"), "write it as in SQL, such as ARRAY[1, 2]"),
        ("t", "NULL", ("id",), 'column "id" of t is NOT NULL, and row 1 has no value for it'),
        ("t", "1", ("nmaes",), 't has no column "nmaes"; did you mean "names"?'),
        ("t", "-D 1 | 2013-01-01", ("id", "at"), "is append-only: its rows cannot be updated or deleted"),
        ("v", "1", (), "'v' is a view: it takes no input"),
        ("outside", "1", (), "'outside' has the connector 'datagen'"),
        ("plian", "1", (), 'did you mean "plain"?'),
    ],
)
def test_what_is_no_input(
    t_env: SimulatedEnvironment, table: str, row: str, columns: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(SqlEngineError) as caught:
        t_env.input(table, row, columns=columns)
    assert problem in str(caught.value)


def test_time_that_cannot_move(t_env: SimulatedEnvironment) -> None:
    for call, problem in (
        (lambda: t_env.advance_watermark(by="1 s"), "has no watermark yet that could move on"),
        (lambda: t_env.advance_watermark("2013-01-01", of="plain"), "plain has no watermark"),
        (lambda: t_env.advance_clock("1969-12-31"), "the clock is at 1970-01-01 00:00:00 and does not go back"),
        (lambda: t_env.advance_clock("noon"), "'noon' is no time"),
        (lambda: t_env.changes("outside"), "is no table in memory"),
        (lambda: t_env.keep_inserts("SELECT 1"), "a job is made of INSERT statements"),
    ):
        with pytest.raises(SqlEngineError, match=problem):
            call()


def test_a_job_that_fails_tells_so(t_env: SimulatedEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE halves (h INT)")
    t_env.keep_inserts("INSERT INTO halves SELECT 10 / id FROM plain")
    t_env.input("plain", (5,), (2,))
    with pytest.raises(SqlEngineError, match="division by zero"):
        t_env.input("plain", (0,))
    assert t_env.changes("halves") == ["+I 2", "+I 5"]
