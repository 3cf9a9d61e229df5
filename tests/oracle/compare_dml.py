"""DML as SQL: after each statement, or epoch of several, the tables and the views over them hold what DuckDB's hold; a
query within an open epoch sees what the statements before it have done."""

from __future__ import annotations

from contextlib import closing, suppress

import duckdb

from sqlengine.verify.rows import Row
from tests.oracle.compare_engines import Engine, Oracle
from tests.oracle.compare_rows import differing, null_where_none_may_be
from tests.oracle.generate_dml import DmlCase
from tests.oracle.generate_tables import Contents
from tests.oracle.generate_text import Column, Query
from tests.oracle.outcomes import Broken, Skipped, told

__all__ = ["Sides", "check_dml_case"]

_MOST_ROWS = 2000


class Sides:
    """Both engines with the tables and views of a case."""

    def __init__(self, case: DmlCase) -> None:
        self.case = case
        self.oracle = Oracle(case.tables, case.definitions)
        self.oracle.load(Contents(case.tables))
        self.engine: Engine | None = None

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()
        with suppress(duckdb.Error):
            # Of a transaction that a failure has left open.
            self.oracle.execute("ROLLBACK")
        self.oracle.close()

    def kept(self) -> list[tuple[str, tuple[Column, ...]]]:
        """The tables and materialized views, with their columns."""
        views = [(d.name, d.query.columns) for d in self.case.definitions if d.how == "MATERIALIZED VIEW"]
        return [(t.name, t.columns) for t in self.case.tables] + views

    def compare(self, where: str, what: str, ours: list[Row], theirs: list[Row], columns: tuple[Column, ...]) -> None:
        found = differing(ours, theirs, [c.kind for c in columns])
        if found is not None:
            raise Broken(f"{what} differs {where}:\n{found}")

    def compare_all(self, where: str) -> None:
        assert self.engine is not None
        for view in self.engine.session.views.jobs():
            if view.failure is not None:
                raise view.failure
        for name, columns in self.kept():
            rows = self.engine.view_rows(name)
            self.compare(where, name, rows, self.oracle.rows(f"SELECT * FROM {name}"), columns)
            wrong = null_where_none_may_be(self.engine.schema(name), rows)
            if wrong is not None:
                raise Broken(f"{name} {where}: {wrong}")

    def run(self) -> None:
        self.engine = engine = Engine(self.case.tables, self.case.definitions, life=self.case.life)
        execute = engine.environment.execute_sql
        for number, step in enumerate(self.case.steps, 1):
            if step.end:
                execute("BEGIN EPOCH")
                self.oracle.execute("BEGIN TRANSACTION")
            for part in step.parts:
                if isinstance(part, Query):
                    theirs = self.rows(part.sql.duck)
                    self.compare(f"in step {number}", "a query", engine.query_rows(part.sql.ours), theirs, part.columns)
                else:
                    self.change(part.duck)
                    execute(part.ours)
            if step.end:
                execute(step.end)
                self.oracle.execute("COMMIT" if step.end == "END EPOCH" else "ROLLBACK")
            self.compare_all(f"after step {number}")

    def rows(self, query: str) -> list[Row]:
        try:
            return self.oracle.rows(query)
        except duckdb.Error as error:
            raise Skipped(f"DuckDB: {error}") from error

    def change(self, statements: str) -> None:
        try:
            self.oracle.execute(statements)
            for name, _ in self.kept():
                if self.oracle.rows(f"SELECT COUNT(*) FROM {name}")[0][0] > _MOST_ROWS:
                    raise Skipped("too many rows")
        except duckdb.Error as error:
            raise Skipped(f"DuckDB: {error}") from error


def check_dml_case(case: DmlCase) -> None:
    """Raises Broken where the tables differ or the engine fails, Skipped for a case that says nothing."""
    with closing(Sides(case)) as sides, told("E1714"):
        sides.run()
