"""The program that pyright checks does run; every public name and method has a docstring and full annotations."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

import sqlengine
from sqlengine import Expression, JobClient, Result, StatementSet, Table, TableDescriptor, TableEnvironment
from sqlengine.table_api.grouped import GroupedTable, OverWindowedTable, WindowedTable, WindowGroupedTable
from tests.unit.table_api.typed_program import followed, program


def test_the_typed_program_runs() -> None:
    assert program() == [("ANN", 1), ("BOB", 2)]
    with TableEnvironment.create() as t_env:
        assert asyncio.run(followed(t_env.from_elements([1, 2], ["a"]))) == ["+I", "+I"]


PUBLIC = (
    *(Expression, JobClient, Result, StatementSet, Table, TableDescriptor, TableEnvironment),
    *(GroupedTable, OverWindowedTable, WindowedTable, WindowGroupedTable),
)


@pytest.mark.parametrize("cls", PUBLIC, ids=lambda c: c.__name__)
def test_every_method_says_what_it_does_and_what_types_it_has(cls: type) -> None:
    for name, member in inspect.getmembers(cls):
        function: Any = member.fget if isinstance(member, property) else member
        if name.startswith("_") or not inspect.isfunction(function) or not function.__module__.startswith("sqlengine"):
            continue
        assert function.__doc__ or name == "build", f"{cls.__name__}.{name} has no docstring"
        signature = inspect.signature(function)
        bare = [
            p
            for p in list(signature.parameters.values())
            if p.annotation is inspect.Parameter.empty and p.name != "self"
        ]
        assert not bare, f"{cls.__name__}.{name}: {bare} without a type"
        assert signature.return_annotation is not inspect.Signature.empty, f"{cls.__name__}.{name} gives no type"


# What PyFlink's Table API has (reference 9.4) and SQL or Python can mean.
FLINK = {
    TableEnvironment: "create execute_sql sql_query from_path from_elements from_pandas from_descriptor "
    "create_temporary_table create_temporary_view create_temporary_function create_temporary_system_function "
    "create_table register_catalog use_catalog use_database list_catalogs list_databases list_tables list_views "
    "list_functions list_user_defined_functions create_statement_set explain_sql get_config drop_temporary_view "
    "drop_temporary_table drop_temporary_function get_current_catalog get_current_database",
    Table: "select alias filter where group_by distinct join left_outer_join right_outer_join full_outer_join "
    "join_lateral left_outer_join_lateral minus minus_all union union_all intersect intersect_all order_by offset fetch "
    "limit window over_window add_columns add_or_replace_columns rename_columns drop_columns map flat_map aggregate "
    "flat_aggregate execute_insert insert_into execute to_pandas explain print_schema get_schema to_changelog "
    "for_system_time_as_of to_arrow to_polars to_spark",
    Result: "collect print wait get_job_client",
    JobClient: "get_job_id get_job_status cancel stop_with_savepoint trigger_savepoint",
    StatementSet: "add_insert_sql add_insert explain execute",
    sqlengine: "col lit row array map_ if_then_else and_ or_ not_ null_of range_ with_columns without_columns call "
    "call_sql coalesce udf udtf udaf udtaf Tumble Slide Session Over DataTypes EnvironmentSettings row_interval "
    "UNBOUNDED_ROW UNBOUNDED_RANGE CURRENT_ROW CURRENT_RANGE",
    sqlengine.functions: "concat concat_ws current_date current_timestamp localtime localtimestamp json_exists "
    "json_value json_query json_object json_array pi e rand",
}


@pytest.mark.parametrize("owner", FLINK, ids=lambda o: o.__name__)
def test_what_flink_has_is_there(owner: Any) -> None:
    assert [name for name in FLINK[owner].split() if not hasattr(owner, name)] == []
