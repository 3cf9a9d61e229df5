"""A program of a user: pyright checks, in strict mode, that an editor knows the type of everything in it, and
`test_typed_program.py` runs it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import assert_type

import pyarrow as pa

from sqlengine import (
    CURRENT_ROW,
    AggregateFunction,
    DataTypes,
    EnvironmentSettings,
    Expression,
    JobClient,
    Over,
    Result,
    Row,
    StatementSet,
    Table,
    TableDescriptor,
    TableEnvironment,
    TableSchema,
    Tumble,
    col,
    lit,
    range_,
    row_interval,
    udaf,
    udf,
    udtf,
    unnest,
    with_columns,
)
from sqlengine import functions as F


@udf
def loud(text: str) -> str:
    return text.upper()


@udtf(result_types={"letter": "STRING"})
def letters(text: str) -> Iterator[str]:
    yield from text


@udaf(result_type="BIGINT")
class Longest(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return [0]

    def accumulate(self, accumulator: list[int], value: str) -> None:
        accumulator[0] = max(accumulator[0], len(value))

    def get_value(self, accumulator: list[int]) -> int:
        return accumulator[0]


def program() -> list[tuple[str, int]]:
    """Use every way in."""
    t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    assert_type(t_env, TableEnvironment)
    schema = TableSchema().column("id", DataTypes.INT()).column("name", "STRING").column("at", "TIMESTAMP(3)")
    t_env.create_table("people", TableDescriptor.for_managed().schema(schema.watermark("at", "at").primary_key("id")))
    assert_type(t_env.list_tables(), list[str])
    noon = dt.datetime(2024, 1, 1, 12)
    types = {"id": "INT", "name": "STRING", "at": "TIMESTAMP(3)"}
    given = t_env.from_elements([(1, "ann", noon), (2, "bob", noon)], types)
    assert_type(given, Table)
    written = given.execute_insert("people")
    assert_type(written, Result)
    assert_type(written.get_job_client(), JobClient | None)
    people = t_env.from_path("people")
    t_env.create_table("seen", TableDescriptor.for_managed().schema(schema.watermark("at", "at")))
    seen = t_env.from_path("seen")
    assert_type(people.name, Expression)
    assert_type(people.where(col("id") > 0).select("name", (col("id") + 1).alias("next")), Table)
    assert_type(col("id").sum.alias("total"), Expression)
    assert_type(F.upper(col("name")), Expression)
    assert_type(loud(col("name")), Expression)
    assert_type(Longest(col("name")), Expression)
    windowed = seen.window(Tumble.over(lit(1).rows).on("at").alias("w")).group_by(col("w")).select(col("id").max)
    assert_type(windowed, Table)
    assert_type(people.join_lateral(letters(col("name")).alias("letter")), Table)
    assert_type(people.left_outer_join_lateral(unnest(F.split(col("name"), "n")).alias("part")), Table)
    versions = people.for_system_time_as_of(col("at")).alias("vid", "vname", "vat")
    assert_type(seen.join(versions, col("id") == col("vid")), Table)
    over = Over.partition_by("name").order_by("at").preceding(row_interval(2)).following(CURRENT_ROW)
    assert_type(seen.select(with_columns(range_("id", "name")), col("id").sum.over(over)), Table)
    assert_type(people.to_arrow(), pa.Table)
    assert_type(people.to_changelog(), Iterator[pa.RecordBatch])
    assert_type(people.explain("CHANGELOG_MODE"), str)
    statements = t_env.create_statement_set()
    assert_type(statements.add_insert("people", people), StatementSet)
    assert_type(statements.explain(), str)
    for row in people.execute():
        assert_type(row, Row)
        assert_type(row.kind, str)
    listener = people.execute().listen(print_rows)
    listener.join()
    return [(row[0], row[1]) for row in people.select(loud(col("name")), col("id")).order_by("id").execute()]


async def followed(table: Table) -> list[str]:
    """The same for asyncio."""
    found: list[str] = []
    async for row in table.execute():
        assert_type(row, Row)
        found.append(row.kind)
    async for rows in table.execute().rows_async():
        assert_type(rows, list[Row])
    return found


def print_rows(rows: list[Row]) -> None:
    """Take note of an epoch."""
    assert rows
