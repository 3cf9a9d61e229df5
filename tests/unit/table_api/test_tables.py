"""Tables made of what Python has, what they give, and errors that name the Python expression."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from runtime.core.errors import SqlEngineError, render
from sqlengine import (
    CURRENT_RANGE,
    DataTypes,
    Over,
    Table,
    TableEnvironment,
    TableSchema,
    Tumble,
    call,
    call_sql,
    col,
    lit,
    row_interval,
)


@pytest.fixture(scope="module")
def env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        made.execute_script(
            """CREATE TABLE orders (id INT, customer STRING, amount DECIMAL(10, 2), ts TIMESTAMP(3),
                 WATERMARK FOR ts AS ts);
               INSERT INTO orders VALUES (1, 'a', 2.50, TIMESTAMP '2024-01-01 00:00:00'),
                 (2, 'b', 1.00, TIMESTAMP '2024-01-01 00:01:00'), (3, 'a', 4.00, TIMESTAMP '2024-01-01 00:20:00');
               CREATE TABLE totals (customer STRING, total DECIMAL(38, 2), PRIMARY KEY (customer) NOT ENFORCED)"""
        )
        yield made


def rows(table: Table) -> list[tuple[object, ...]]:
    return [tuple(r) for r in table.execute()]


def test_elements_with_and_without_types(env: TableEnvironment) -> None:
    assert rows(env.from_elements([(1, "a"), (2, None)])) == [(1, "a"), (2, None)]
    assert env.from_elements([(1, "a")], ["id", "name"]).schema.names == ("id", "name")
    typed = env.from_elements(
        [{"id": 1}, {"id": 2, "at": dt.datetime(2024, 1, 1)}], {"id": "INT", "at": "TIMESTAMP(3)"}
    )
    assert [str(t) for t in typed.schema.types] == ["INT", "TIMESTAMP(3)"]
    assert rows(typed) == [(1, None), (2, dt.datetime(2024, 1, 1))]
    nested = DataTypes.ROW(
        [DataTypes.FIELD("a", DataTypes.ARRAY("INT")), DataTypes.FIELD("d", DataTypes.DECIMAL(4, 1))]
    )
    assert rows(env.from_elements([([1, 2], Decimal("1.5"))], nested)) == [([1, 2], Decimal("1.5"))]
    assert rows(env.from_elements([1, 2, 3], ["n"]).select(col("n").sum.alias("s")))[-1] == (6,)
    assert rows(env.from_elements([], {"n": "INT"})) == []


def test_arrow_pandas_and_polars_come_and_go(env: TableEnvironment) -> None:
    arrow = pa.table({"a": pa.array([1, 2], pa.uint8()), "s": pa.array(["x", "y"]).dictionary_encode()})
    table = env.from_arrow(arrow)
    assert [str(t) for t in table.schema.types] == ["SMALLINT", "STRING"]
    assert table.where(col("a") > 1).to_arrow().to_pydict() == {"a": [2], "s": ["y"]}
    assert rows(env.from_arrow(arrow, ["b", "c"]).select("c")) == [("x",), ("y",)]
    frame = pd.DataFrame({"a": [1, 2], "t": pd.to_datetime(["2024-01-01", "2024-01-02"])}, index=[7, 8])
    back = env.from_pandas(frame).to_pandas()
    assert back["a"].tolist() == [1, 2]
    assert back["t"].tolist() == frame["t"].tolist()
    polars = pl.DataFrame({"a": [1, None], "s": ["x", "y"], "l": [[1], [2, 3]]})
    assert env.from_polars(polars).to_polars().equals(polars)


def test_rows_live_as_long_as_a_table_or_view_reads_them(env: TableEnvironment) -> None:
    before = set(env.session.python_tables)
    derived = env.from_elements([(1,)], ["n"]).select((col("n") + 1).alias("m"))
    assert rows(derived.union_all(derived)) == [(2,), (2,)]
    env.create_temporary_view("numbers", env.from_elements([(5,)], ["n"]))
    del derived
    assert len(set(env.session.python_tables) - before) == 1
    assert env.execute_sql("SELECT n FROM numbers").to_arrow().to_pydict() == {"n": [5]}
    assert rows(env.from_path("numbers").select("n")) == [(5,)]
    env.drop_temporary_view("numbers")
    assert set(env.session.python_tables) == before
    env.create_temporary_view("numbers", env.from_elements([(6,)], ["n"]))
    env.execute_sql("CREATE DATABASE other")
    env.execute_sql("USE other")
    env.create_temporary_view("numbers", env.from_elements([(7,)], ["n"]))
    env.drop_temporary_view("numbers")
    env.execute_sql("USE default_database")
    assert rows(env.from_path("numbers")) == [(6,)]
    env.drop_temporary_view("numbers")
    assert set(env.session.python_tables) == before


def test_sql_lets_go_of_rows_too(env: TableEnvironment) -> None:
    before = set(env.session.python_tables)

    def held() -> int:
        return len(set(env.session.python_tables) - before)

    def name(kind: str) -> None:
        getattr(env, kind)("numbers", env.from_elements([(5,)], ["n"]))

    for kind, word in ("create_temporary_view", "TEMPORARY VIEW"), ("create_view", "VIEW"):
        name(kind)
        env.execute_sql(f"ALTER {word.removeprefix('TEMPORARY ')} numbers RENAME TO others")
        assert held() == 1 and rows(env.from_path("others")) == [(5,)]
        env.execute_sql(f"DROP {word} others")
        assert held() == 0
    name("create_view")
    env.execute_sql("ALTER VIEW numbers AS SELECT 1 AS n")
    assert held() == 0 and rows(env.from_path("numbers")) == [(1,)]
    env.execute_sql("DROP VIEW numbers")


def test_insert_and_changelog(env: TableEnvironment) -> None:
    totals = env.from_path("orders").group_by("customer").select("customer", col("amount").sum.alias("total"))
    totals.execute_insert("totals").wait()
    assert sorted(rows(env.from_path("totals"))) == [("a", Decimal("6.50")), ("b", Decimal("1.00"))]
    changes = pa.Table.from_batches(totals.to_changelog())
    assert changes.column_names == ["op", "customer", "total"]
    assert sorted(zip(*changes.to_pydict().values(), strict=True)) == [
        ("+I", "a", Decimal("6.50")),
        ("+I", "b", Decimal("1.00")),
    ]


def test_a_notebook_shows_columns_and_rows(env: TableEnvironment) -> None:
    table = env.from_path("orders").where(col("customer") == "<a>")
    assert "&lt;a&gt;" in table._repr_html_()
    assert "TIMESTAMP(3) *ROWTIME*" in table._repr_html_()


def test_schemas_as_ddl() -> None:
    schema = (
        TableSchema()
        .column("id", DataTypes.BIGINT())
        .column("ts", "TIMESTAMP(3)")
        .column_by_expression("p", "PROCTIME()")
        .watermark("ts", "ts - INTERVAL '1' SECOND")
        .primary_key("id")
    )
    assert schema.ddl == (
        "id BIGINT NOT NULL, ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND, "
        "PRIMARY KEY (id) NOT ENFORCED"
    )


MISTAKES: dict[str, tuple[Callable[[TableEnvironment, Table], object], str]] = {
    "column": (
        lambda e, o: o.select(col("id"), col("amont") + 1),
        """E1201 unknown column "amont"
  at 1:19
  1 | select(col("id"), col("amont") + 1)
                        ^^^^^^^^^^^^
  hint: did you mean "amount"?""",
    ),
    "function": (
        lambda e, o: o.where(call("UPER", col("customer")) == "A"),
        """E1203 unknown function UPER
  at 1:7
  1 | where(call("UPER", col("customer")) == 'A')
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: did you mean "UPPER"?""",
    ),
    "types": (
        lambda e, o: o.where((col("id") + 1 > True) & (col("id") < 3)),
        """E1304 INT and BOOLEAN cannot be compared
  at 1:8
  1 | where((col("id") + 1 > True) & (col("id") < 3))
             ^^^^^^^^^^^^^^^^^^^^
  hint: CAST one of them, for example CAST(.. AS BOOLEAN)""",
    ),
    "group": (
        lambda e, o: o.group_by("customer").select("customer", col("amount")),
        """E1217 the column "amount" is not grouped
  at 1:20
  1 | select("customer", col("amount"))
                         ^^^^^^^^^^^^^
  hint: add it to GROUP BY, or aggregate it, for example MAX(..)""",
    ),
    "truth": (
        lambda e, o: o.where(col("id") > 1 and col("id") < 3),
        """E1322 col("id") > 1 has no truth value in Python: it is computed later, for every row
  hint: combine conditions with & | ~ and parentheses in place of `and`, `or`, `not` and `a < b < c`""",
    ),
    "none": (
        lambda e, o: o.where(col("id") == None),  # noqa: E711
        """E1328 a comparison of col("id") with None is never true: NULL equals nothing
  hint: write col("id").is_null""",
    ),
    "value": (
        lambda e, o: o.where(col("id") == Decimal),
        """E1321 a Python value of type type has no SQL literal
  hint: columns are col('name'); values are numbers, texts, dates, times, lists, tuples and dicts""",
    ),
    "join": (
        lambda e, o: o.join(o.select("id", "amount"), col("id") == col("id")),
        """E1205 both tables of the join have a column "id"
  hint: rename one first: right.rename_columns(col("id").alias("right_id"))""",
    ),
    "window": (
        lambda e, o: o.window(Tumble.over(lit(1).hour).on("id").alias("w")).group_by("w").select(col("w").start),
        """E1231 TUMBLE takes a TIMESTAMP or TIMESTAMP_LTZ column, and "id" is an INT
  at 1:36
  1 | window(Tumble.over(lit(1).hour).on(col("id")).alias("w"))
                                         ^^^^^^^^^
  hint: declare WATERMARK FOR a column of such a type, or a column AS PROCTIME()""",
    ),
    "window without time": (
        lambda e, o: o.window(Tumble.over(lit(1).hour).alias("w")),
        """E1230 the window lacks .on(col("ts"))
  hint: add .on(col("ts")) to Tumble.over(lit(1).hour).alias("w")""",
    ),
    "window key": (
        lambda e, o: o.window(Tumble.over(lit(1).hour).on("ts").alias("w")).group_by("customer"),
        """E1216 the window "w" is not among the keys of group_by
  hint: group_by(col("w"), ...)""",
    ),
    "frame": (
        lambda e, o: o.select(
            col("id").sum.over(Over.order_by("ts").preceding(row_interval(1)).following(CURRENT_RANGE))
        ),
        """E1214 preceding and following are not of one kind: one counts rows, the other compares values
  hint: CURRENT_ROW and UNBOUNDED_ROW go with row_interval, CURRENT_RANGE and UNBOUNDED_RANGE with lengths of time""",
    ),
    "distinct": (
        lambda e, o: o.select(col("id").distinct),
        """E1322 .distinct follows an aggregate, and col("id") is none
  hint: for example col("a").count.distinct""",
    ),
    "interval": (
        lambda e, o: o.select(col("id").minutes),
        """E1323 col("id").minutes is no interval: only a whole literal number becomes one
  hint: write lit(10).minutes; a computed number is multiplied: lit(1).minutes * col("n")""",
    ),
    "syntax": (
        lambda e, o: o.select(call_sql("id +")),
        """E1100 unexpected ")"; expected an expression
  at 1:8
  1 | select(call_sql('id +'))
             ^^^^^^^^^^^^^^^^""",
    ),
    "sql": (
        lambda e, o: e.sql_query("SELECT id,\n  amont FROM orders"),
        """E1201 unknown column "amont"
  at 2:3
  2 |   amont FROM orders
        ^^^^^
  hint: did you mean "amount"?""",
    ),
    "path": (
        lambda e, o: e.from_path("ordrs"),
        """E1202 unknown table "ordrs"
  at 1:1
  1 | from_path("ordrs")
      ^^^^^^^^^^^^^^^^^^
  hint: did you mean "orders"?""",
    ),
    "set": (
        lambda e, o: o.union(o.select("id")),
        """E1223 the queries of UNION have 4 and 1 columns
  at 1:1
  1 | union(right)
      ^^^^^^^^^^^^
  hint: select the same number of columns on both sides""",
    ),
    "sink": (
        lambda e, o: o.execute_insert("totals"),
        """E1224 the query has 4 columns for 2 columns of totals
  query: [id: INT, customer: STRING, amount: DECIMAL(10, 2), ts: TIMESTAMP(3)]
  table: [customer: STRING NOT NULL, total: DECIMAL(38, 2)]
  at 1:1
  1 | execute_insert("totals")
      ^^^^^^^^^^^^^^^^^^^^^^^^
  hint: name the columns to fill: INSERT INTO t (a, b) SELECT ..""",
    ),
    "dropped": (
        lambda e, o: o.drop_columns("custmer"),
        """E1201 unknown column "custmer"
  at 1:14
  1 | drop_columns(col("custmer"))
                   ^^^^^^^^^^^^^^
  hint: did you mean "customer"?""",
    ),
    "elements": (
        lambda e, o: e.from_elements([(1, "a"), (2,)], ["id", "name"]),
        """E1325 row 2 has 1 values for 2 columns
  hint: the columns are id, name""",
    ),
    "cell": (
        lambda e, o: e.from_elements([(1,), ("x",)], {"id": "INT"}),
        """E1325 values of the column "id" do not fit INT: Could not convert 'x' with type str: tried to convert to int32
  hint: give the column's type in the schema, or convert the values""",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_errors_name_the_python_expression(env: TableEnvironment, name: str) -> None:
    mistake, expected = MISTAKES[name]
    with pytest.raises(SqlEngineError) as caught:
        mistake(env, env.from_path("orders"))
    assert render(caught.value) == expected


def test_an_error_while_running_names_it_too(env: TableEnvironment) -> None:
    failing = env.from_path("orders").select(col("id"), (col("customer").cast("INT") + 1).alias("n"))
    with pytest.raises(SqlEngineError) as caught:
        failing.to_arrow()
    assert 'col("customer")' in render(caught.value)


def test_an_unknown_attribute_of_a_table(env: TableEnvironment) -> None:
    with pytest.raises(AttributeError, match='did you mean "customer"'):
        _ = env.from_path("orders").custmer
