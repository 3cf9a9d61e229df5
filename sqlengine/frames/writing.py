"""Functions of the program as tables that are written: each commit is a DataFrame of Spark that one of them gets."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from runtime.core.errors import TypeMismatchError
from runtime.core.schema import Schema
from runtime.spark.cluster import staging_place
from runtime.spark.data_source import spark_schema
from runtime.spark.session import spark_session
from runtime.spark.table_commits import Calls
from runtime.spark.table_sink import SparkTableSink, StagedFields
from runtime.spi.registry import ConnectorFactory, TableRequest
from sqlengine.frames.table_text import quoted
from sqlengine.values.data_types import TableSchema

if TYPE_CHECKING:
    from sqlengine.frames.environment import Environment

__all__ = ["function_table"]

_numbers = itertools.count(1)


def function_table(environment: Environment, schema: Schema, function: Any, session: Any) -> str:
    """Declare a temporary table of these columns whose rows a function gets. Gives its name.

    Raises:
        TypeMismatchError: E1329 it is no function of one or two parameters.
    """
    calls = _called(function)
    spark = session or environment.session.target.spark or spark_session()
    name = f"spark_writer_{next(_numbers)}"

    def sink(request: TableRequest) -> SparkTableSink:
        columns = spark_schema(request.schema.arrow)
        fields = StagedFields(columns.jsonValue(), tuple(quoted(column) for column in request.schema.names))
        staging = staging_place(spark, request.environment)
        return SparkTableSink(request.name, request.schema, name, spark, Calls(calls), fields, staging)

    environment.session.registry.connectors.add(
        ConnectorFactory(name=name, document="a function of the program that gets DataFrames", sink=sink)
    )
    columns = TableSchema(tuple((f.name, f.type.materialized()) for f in schema)).ddl
    environment.execute_sql(f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ('connector' = '{name}')")
    return name


def _called(function: Any) -> Callable[[Any, str], Any]:
    try:
        parameters = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    except (TypeError, ValueError):
        parameters = []
    if len(parameters) not in (1, 2):
        raise TypeMismatchError(
            "write_to takes a function of a DataFrame, or of a DataFrame and the name of the commit",
            code="E1329",
            hint='lambda frame: frame.write.mode("append").saveAsTable("t")',
        )
    return function if len(parameters) == 2 else lambda frame, commit: function(frame)
