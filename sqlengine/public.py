"""Everything that `from sqlengine import ...` gives."""

from __future__ import annotations

from runtime.core.errors import SqlEngineError, render
from sqlengine.api.environment import ProcedureContext, TableEnvironment
from sqlengine.api.environment_settings import EnvironmentSettings
from sqlengine.expression.column_selection import range_, with_columns, without_columns
from sqlengine.expression.constructors import (
    and_,
    array,
    call,
    call_sql,
    coalesce,
    col,
    if_then_else,
    lit,
    map_,
    not_,
    null_of,
    or_,
    row,
    unnest,
)
from sqlengine.expression.expression import Expression
from sqlengine.expression.sql_words import (
    ExplainDetail,
    JsonExistsOnError,
    JsonOnNull,
    JsonQueryOnEmptyOrError,
    JsonQueryWrapper,
    JsonType,
    JsonValueOnEmptyOrError,
    TimeIntervalUnit,
    TimePointUnit,
)
from sqlengine.notebook.magics import load_ipython_extension
from sqlengine.results.job_client import JobClient
from sqlengine.results.result import Result, ResultKind, SqlEngineWarning
from sqlengine.table_api.compiled_plan import CompiledPlan, PlanReference
from sqlengine.table_api.statement_set import StatementSet
from sqlengine.table_api.table import Table
from sqlengine.table_api.table_descriptor import TableDescriptor
from sqlengine.table_api.windows import (
    CURRENT_RANGE,
    CURRENT_ROW,
    UNBOUNDED_RANGE,
    UNBOUNDED_ROW,
    Cumulate,
    Over,
    Session,
    Slide,
    Tumble,
    row_interval,
)
from sqlengine.user_functions.bases import (
    AggregateFunction,
    AsyncScalarFunction,
    ScalarFunction,
    TableAggregateFunction,
    TableFunction,
)
from sqlengine.user_functions.context import FunctionContext, MetricGroup
from sqlengine.user_functions.declare import udaf, udf, udtaf, udtf
from sqlengine.user_functions.procedures import Procedure, procedure
from sqlengine.user_functions.process import ProcessTableFunction, udptf
from sqlengine.user_functions.views import ListView, MapView
from sqlengine.values.data_types import DataTypes, TableSchema
from sqlengine.values.rows import Row, RowKind

Schema = TableSchema
"""The columns of a table under the name that PyFlink gives them."""

__all__ = [
    "CURRENT_RANGE",
    "CURRENT_ROW",
    "UNBOUNDED_RANGE",
    "UNBOUNDED_ROW",
    "AggregateFunction",
    "CompiledPlan",
    "Cumulate",
    "DataTypes",
    "EnvironmentSettings",
    "Expression",
    "JobClient",
    "Over",
    "PlanReference",
    "Procedure",
    "ProcedureContext",
    "ProcessTableFunction",
    "Result",
    "Row",
    "ScalarFunction",
    "Session",
    "Slide",
    "SqlEngineError",
    "SqlEngineWarning",
    "StatementSet",
    "Table",
    "TableAggregateFunction",
    "TableDescriptor",
    "TableEnvironment",
    "TableFunction",
    "TableSchema",
    "Tumble",
    "and_",
    "array",
    "call",
    "call_sql",
    "coalesce",
    "col",
    "if_then_else",
    "lit",
    "load_ipython_extension",
    "map_",
    "not_",
    "null_of",
    "or_",
    "procedure",
    "range_",
    "render",
    "row",
    "row_interval",
    "udaf",
    "udf",
    "udptf",
    "udtaf",
    "udtf",
    "unnest",
    "with_columns",
    "without_columns",
    "ResultKind",
    "RowKind",
    "ExplainDetail",
    "JsonExistsOnError",
    "JsonOnNull",
    "JsonQueryOnEmptyOrError",
    "JsonQueryWrapper",
    "JsonType",
    "JsonValueOnEmptyOrError",
    "TimeIntervalUnit",
    "TimePointUnit",
    "AsyncScalarFunction",
    "FunctionContext",
    "MetricGroup",
    "ListView",
    "MapView",
    "Schema",
]
