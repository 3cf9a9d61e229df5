"""DataFrames of PySpark as tables, and tables as DataFrames. Part of the tests with a real Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runtime.spark.session import spark_session
from sqlengine.environment import TableEnvironment

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int32()),
        "name": ["ann", "bob", None, "ann"],
        "amount": pa.array([Decimal("9.50"), Decimal("1.00"), Decimal("2.25"), None], pa.decimal128(10, 2)),
        "at": pa.array([dt.datetime(2024, 1, 1, 0, 0, s, tzinfo=dt.UTC) for s in range(4)], pa.timestamp("us", "UTC")),
        "tags": [["a"], [], None, ["b", "c"]],
    }
)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    session = spark_session("local[2,4]")
    yield session
    session.stop()


@pytest.mark.long
def test_a_frame_is_a_table_and_filters_go_into_spark(spark: Any) -> None:
    t_env = TableEnvironment.create()
    t_env.create_temporary_view("orders", spark.createDataFrame(ROWS))
    assert t_env.execute_sql("SELECT * FROM orders").to_arrow().to_pylist() == ROWS.to_pylist()
    query = "SELECT name, SUM(amount) AS total FROM orders WHERE id < 4 AND name IS NOT NULL GROUP BY name"
    assert "id < 4" in t_env.explain_sql(query)
    frame = t_env.sql_query(query).to_spark(spark)
    assert sorted(map(tuple, frame.collect())) == [("ann", Decimal("9.50")), ("bob", Decimal("1.00"))]


@pytest.mark.long
def test_a_streaming_frame_is_a_table_without_an_end(spark: Any, tmp_path: Path) -> None:
    spark.createDataFrame(ROWS.select(["id", "name"])).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id INT, name STRING").parquet(str(tmp_path / "in"))
    t_env = TableEnvironment.create()
    t_env.create_temporary_view("orders", stream)
    result = t_env.execute_sql("SELECT COUNT(*) AS n, MAX(id) FROM orders")
    for row in result:
        if row["n"] == 4:
            break
    result.cancel()
    t_env.close()
