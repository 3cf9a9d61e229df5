"""What a table can be made to give: results, rows in the forms of other libraries, inserts, plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from runtime.core.rooms import Room
from runtime.core.schema import Schema
from sqlengine.expression.sql_words import ExplainDetail
from sqlengine.results.result import Result
from sqlengine.table_api.table_descriptor import TableDescriptor
from sqlengine.values.code import Code, compose, path_sql
from sqlengine.values.html import schema_html

if TYPE_CHECKING:
    import runtime.spark.session as _spark_session
    import sqlengine.frames.streaming as _spark_streaming
    import sqlengine.frames.writing as _spark_writing
    from sqlengine.table_api.compiled_plan import CompiledPlan
    from sqlengine.table_api.query import Query
else:
    _spark_session = Room("runtime.spark.session")
    _spark_streaming = Room("sqlengine.frames.streaming")
    _spark_writing = Room("sqlengine.frames.writing")

__all__ = ["Outcomes", "TablePipeline"]


class Outcomes:
    """The ways in which a table is run."""

    engine: Any
    schema: Schema
    query: Query
    operation: str

    def execute(self) -> Result:
        """Run the query: the changes of its answer come as the result is read."""
        return self.engine.run(self.query.code, self.operation)

    def to_spark(self, session: Any = None) -> Any:
        """The final rows as a DataFrame of PySpark (input must end)."""
        return self.execute().to_spark(session)

    def to_spark_stream(
        self, checkpoint: str, session: Any = None, *, changelog: bool = True, interval: str = "1 s"
    ) -> Any:
        """The changes as a streaming DataFrame, for `writeStream`: a job of this environment computes them, where its
        jobs run.

        Args:
            checkpoint: a folder, or a URI that pyarrow knows, for the state of the query and changes that Spark has not
                taken yet. With it and Spark's own `checkpointLocation` the stream goes on after a restart, each change
                once. For one query.
            session: the Spark session; that of the environment, the active one, or a new one when not given.
            changelog: whether the first column is `op`, the row kind.
            interval: how often changes become visible to Spark, each time with a checkpoint.

        Raises UnsupportedError E1632 without `changelog` for a query whose rows are taken back.
        """
        return _spark_streaming.stream_of(
            self.engine.environment,
            self.query.code.sql,
            self.schema,
            checkpoint,
            session or self.engine.environment.session.target.spark or _spark_session.spark_session(),
            changelog=changelog,
            interval=interval,
        )

    def write_to(self, writer: Callable[..., Any], session: Any = None) -> Result:
        """Write the rows with Spark: with each checkpoint, or at the end, `writer` gets those since the last one as a
        DataFrame, whose rows tasks of Spark read from files.

            totals.write_to(lambda frame: frame.write.mode("append").parquet("/data/totals"))

        A function of two parameters gets the commit's name, too. A job that goes on after a crash may carry out a commit
        again, under the same name; no other commit has it.

        Args:
            session: the Spark session; that of the environment, the active one, or a new one when not given.

        Raises PlanningError E1701 for a query whose rows are taken back.
        """
        table = _spark_writing.function_table(self.engine.environment, self.schema, writer, session)
        return self.engine.run(self.insert_code(table), "write_to(...)")

    def execute_insert(self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False) -> Result:
        """Write the rows into a table of the catalog, or a described one, by position; `overwrite` replaces its
        rows."""
        return self.insert_into(table_path_or_descriptor, overwrite).execute()

    def insert_into(self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False) -> TablePipeline:
        """The INSERT into such a table, to explain, execute, or add to a statement set."""
        return TablePipeline(self, self.engine.target(table_path_or_descriptor), overwrite)

    def insert_code(self, table: str, overwrite: bool = False) -> Code:
        """INSERT INTO a table as SQL."""
        words = "INSERT OVERWRITE" if overwrite else "INSERT INTO"
        return compose([f"{words} {path_sql(table)} ", self.query.code])

    def explain(self, *extra_details: ExplainDetail | str) -> str:
        """The plans of the query as text; details as in EXPLAIN, for example "CHANGELOG_MODE"."""
        return self.engine.explain(self.query.code, self.operation, extra_details)

    def print_explain(self, *extra_details: ExplainDetail | str) -> None:
        """Print `explain`."""
        print(self.explain(*extra_details))

    def to_arrow(self) -> pa.Table:
        """The rows of a query whose input ends, as an Arrow table."""
        return self.execute().to_arrow()

    def to_pandas(self) -> Any:
        """The rows of a query whose input ends, as a pandas DataFrame."""
        return self.execute().to_pandas()

    def to_polars(self) -> Any:
        """The rows of a query whose input ends, as a polars DataFrame."""
        return self.execute().to_polars()

    def to_changelog(self) -> Iterator[pa.RecordBatch]:
        """The changes of the answer, a record batch for each epoch that changed something: its first column, `op`, is
        the row kind (`+I`, `-U`, `+U`, `-D`)."""
        return self.execute().to_changelog()

    def _repr_html_(self) -> str:
        """In a notebook: the columns, and the SQL. Nothing runs before `execute`."""
        return schema_html([(f.name, str(f.type)) for f in self.schema], self.query.code.sql)


class TablePipeline:
    """An INSERT that was not run yet."""

    def __init__(self, rows: Outcomes, table: str, overwrite: bool) -> None:
        self.rows = rows
        self.table = table
        self.overwrite = overwrite

    @property
    def code(self) -> Code:
        """The INSERT as SQL."""
        return self.rows.insert_code(self.table, self.overwrite)

    def execute(self) -> Result:
        """Run it, as `execute_insert` does."""
        return self.rows.engine.run(self.code, f'execute_insert("{self.table}")')

    def compile_plan(self) -> CompiledPlan:
        """The plan of the INSERT, to execute, or to keep in a file."""
        return self.rows.engine.compile(self.code, f'insert_into("{self.table}")')

    def explain(self, *extra_details: ExplainDetail | str) -> str:
        """The plans of the INSERT as text."""
        return self.rows.engine.explain(self.code, f'insert_into("{self.table}")', extra_details)

    def print_explain(self, *extra_details: ExplainDetail | str) -> None:
        """Print `explain`."""
        print(self.explain(*extra_details))
