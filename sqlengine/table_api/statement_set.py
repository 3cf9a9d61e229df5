"""Statement sets: several INSERTs that run as one job."""

from __future__ import annotations

from typing import Any

from runtime.core.errors import UnsupportedError
from sqlengine.expression.given import wanted
from sqlengine.expression.sql_words import ExplainDetail
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.table_api.compiled_plan import CompiledPlan
from sqlengine.table_api.outcomes import TablePipeline
from sqlengine.table_api.table import Table
from sqlengine.table_api.table_descriptor import TableDescriptor
from sqlengine.values.code import Code, Mark, compose

__all__ = ["StatementSet"]


class StatementSet:
    """INSERTs that run as one job: common inputs and computations are shared.

    inserts = t_env.create_statement_set()
    inserts.add_insert("totals", totals).add_insert_sql("INSERT INTO big SELECT * FROM orders WHERE amount > 100")
    inserts.execute().wait()
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._inserts: list[Code] = []
        self._keeps: list[Any] = []

    def add_insert(
        self, target_path_or_descriptor: str | TableDescriptor, table: Table, overwrite: bool = False
    ) -> StatementSet:
        """Insert the rows of a table into a table of the catalog, or a described one, by position; checked when the set
        is explained or executed."""
        wanted("add_insert", "a table", table, Table, 'add_insert_sql("INSERT INTO ..") takes SQL')
        return self.add(table.insert_into(target_path_or_descriptor, overwrite))

    def add(self, table_pipeline: TablePipeline) -> StatementSet:
        """An INSERT that `insert_into` has made."""
        self._inserts.append(table_pipeline.code)
        self._keeps.append(getattr(table_pipeline.rows, "keeps", ()))
        return self

    def add_insert_sql(self, stmt: str) -> StatementSet:
        """INSERT INTO as text. Raises UnsupportedError E1606 for another statement."""
        parsed = parse_statement(stmt)
        if not isinstance(parsed, st.Insert):
            raise UnsupportedError(
                "a statement set holds INSERT statements only",
                code="E1606",
                span=parsed.span,
                text=stmt,
                hint="execute_sql carries out others",
            )
        text = stmt[parsed.span.start : parsed.span.end]
        self._inserts.append(Code(text, text, (Mark(0, len(text), text, 0, len(text)),)))
        return self

    def explain(self, *extra_details: ExplainDetail | str) -> str:
        """The plans of all INSERTs as text."""
        return self._engine.explain(self._code, "explain()", extra_details)

    def print_explain(self, *extra_details: ExplainDetail | str) -> None:
        """Print `explain`."""
        print(self.explain(*extra_details))

    def compile_plan(self) -> CompiledPlan:
        """The plan of the INSERTs, to execute, or to keep in a file; the set stays as it is."""
        return self._engine.compile(self._code, "compile_plan()")

    def execute(self) -> Result:
        """Run the INSERTs and clear the set, which may then be filled again."""
        code, keeps = self._code, self._keeps
        result = self._engine.run(code, "execute()")
        # What Python has given lives as long as the job may read it.
        result.keeps = keeps
        self._inserts, self._keeps = [], []
        return result

    @property
    def _code(self) -> Code:
        parts: list[str | Code] = ["EXECUTE STATEMENT SET BEGIN "]
        for insert in self._inserts:
            parts += [insert, "; "]
        return compose([*parts, "END"])

    def __len__(self) -> int:
        return len(self._inserts)
