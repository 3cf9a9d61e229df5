"""Frames by the names of their variables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from runtime.core.errors import BindError
from sqlengine import SqlEngineWarning, TableEnvironment
from sqlengine.api.environment import TableEnvironment as Environment
from sqlengine.results.result import Result

of_the_module = pa.table({"a": [7, 8]})


@pytest.fixture
def t_env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        yield made


def rows(result: Result) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in result.to_arrow().to_pylist())


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, lambda d: pl.DataFrame(d).lazy()])
def test_frames_of_the_caller(t_env: TableEnvironment, make: Any) -> None:
    frame = make({"a": [1, 2], "b": ["x", "y"]})
    assert rows(t_env.execute_sql("SELECT frame.b, f2.a FROM frame JOIN frame AS f2 ON f2.a = frame.a + 1")) == [
        ("x", 2)
    ]
    assert len(frame.collect() if isinstance(frame, pl.LazyFrame) else frame) == 2


def test_tables_and_variables_of_the_module(t_env: TableEnvironment) -> None:
    some = t_env.sql_query("SELECT a + 1 AS a FROM of_the_module")
    few = some.where(some.a > 8)
    assert few.schema.names == ("a",)
    assert rows(t_env.execute_sql("SELECT some.a, few.a FROM some LEFT JOIN few ON few.a = some.a")) == [
        (8, None),
        (9, 9),
    ]


def test_a_query_keeps_what_the_variable_was(t_env: TableEnvironment) -> None:
    frame = pa.table({"a": [1]})
    query = t_env.sql_query("SELECT a FROM frame")
    frame = pa.table({"a": [2]})
    both = query.union_all(t_env.sql_query("SELECT a FROM frame"))
    assert rows(both.execute()) == [(1,), (2,)]
    assert frame.num_rows == 1


def test_statements_that_read(t_env: TableEnvironment) -> None:
    frame = pa.table({"a": [1, 2]})
    t_env.execute_sql("CREATE TABLE kept AS SELECT * FROM frame")
    t_env.execute_sql("INSERT INTO kept SELECT a + 10 FROM frame WHERE a > ?", [1]).wait()
    assert "frame" in t_env.explain_sql("SELECT * FROM frame")
    *_, last = t_env.execute_script("INSERT INTO kept SELECT 0 FROM frame LIMIT 1; SELECT a FROM kept")
    assert rows(last) == [(0,), (1,), (2,), (12,)]
    t_env.execute_sql("SET 'sqlengine.sql.dialect' = 'postgres'")
    assert rows(t_env.execute_sql("SELECT frame.a::text FROM frame")) == [("1",), ("2",)]
    assert rows(t_env.sql_query("SELECT frame.a::text FROM frame").execute()) == [("1",), ("2",)]
    assert frame.num_rows == 2


def test_what_catalogs_and_with_know_comes_first(t_env: TableEnvironment) -> None:
    frame = of_the_module
    t_env.execute_sql("CREATE TABLE frame (a STRING)")
    assert rows(t_env.execute_sql("SELECT a FROM frame")) == []
    with pytest.raises(BindError, match="unknown table"):
        t_env.execute_sql("WITH of_the_module AS (SELECT * FROM nobody) SELECT * FROM of_the_module")
    assert frame.num_rows == 2


def test_places_of_errors_are_those_of_the_text(t_env: TableEnvironment) -> None:
    frame = of_the_module
    for ask in (t_env.execute_sql, t_env.sql_query, t_env.explain_sql):
        with pytest.raises(BindError) as raised:
            ask("SELECT 1 FROM frame AS f WHERE f.b = 1")
        text, span = raised.value.text, raised.value.span
        assert text is not None and span is not None and text[span.start : span.end] == "f.b"
    assert frame.num_rows == 2


def test_a_view_keeps_no_variable(t_env: TableEnvironment) -> None:
    with pytest.raises(BindError, match="create_temporary_view") as raised:
        t_env.execute_sql("CREATE VIEW v AS SELECT * FROM of_the_module")
    assert raised.value.code == "E1202"


def test_the_engine_names_no_variables_of_its_own(t_env: TableEnvironment) -> None:
    asked: dict[str, Any] = {"__name__": "sqlengine.server.anything", "secret": of_the_module, "t_env": t_env}
    with pytest.raises(BindError, match="unknown table"):
        exec("t_env.execute_sql('SELECT * FROM secret')", asked)
    with pytest.raises(BindError, match="unknown table"):
        exec("t_env.sql_query('SELECT * FROM secret')", asked)
    with pytest.raises(BindError, match="unknown table"):
        exec("t_env.execute_script('SELECT * FROM secret')", asked)


def test_variables_that_are_no_frames(t_env: TableEnvironment) -> None:
    number, text, kind = 1, "of_the_module", Environment
    for name in ("number", "text", "kind", "pd"):
        with pytest.raises(BindError, match=f'unknown table "{name}"'):
            t_env.execute_sql(f"SELECT * FROM {name}")
    assert (number, text, kind) is not None


def test_a_script_is_told_its_variables(t_env: TableEnvironment) -> None:
    told = list(t_env.run_script("SELECT a FROM df", variables={"df": of_the_module}))
    assert rows(told[0]) == [(7,), (8,)]
    with pytest.raises(BindError, match="unknown table"):
        list(t_env.run_script("SELECT a FROM of_the_module", variables={}))


def test_a_warning_shows_the_line_of_the_program(t_env: TableEnvironment) -> None:
    statement = "SELECT 1 AS a WHERE NULL = 1"
    for ask in (t_env.execute_sql, t_env.execute_script, lambda text: list(t_env.run_script(text)), t_env.prepare):
        with pytest.warns(SqlEngineWarning) as caught:
            ask(statement)
        assert {one.filename for one in caught} == {__file__}
