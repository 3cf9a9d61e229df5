"""The two sides of the comparison: DuckDB over plain contents, and this engine fed with changes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.memory import MemoryTable
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch, ChangelogMode
from runtime.core.schema import Schema
from sqlengine import TableEnvironment
from sqlengine.catalog.objects import CatalogTable, MaterializedView
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.verify.rows import rows_of
from tests.oracle import large_decimals
from tests.oracle.differences import WRONG_OPTIMIZERS, in_batch_mode
from tests.oracle.generate_cases import Definition
from tests.oracle.generate_lives import LIVES, Life
from tests.oracle.generate_tables import Change, Contents, Row, Table
from tests.oracle.key_claims import KeyClaims

__all__ = ["Engine", "Oracle"]

_SECONDS = 30.0


class Oracle:
    """DuckDB over the contents of a case's tables. One connection serves all cases, each in a schema of its own.

    Materialized views are tables that are filled when the contents change. `plain`: it runs queries as they are written,
    without its optimizer.
    """

    _connection: duckdb.DuckDBPyConnection | None = None
    _schemas = 0

    def __init__(self, tables: Sequence[Table], definitions: Sequence[Definition], *, plain: bool = False) -> None:
        if Oracle._connection is None:
            Oracle._connection = duckdb.connect(config={"threads": 1, "disabled_optimizers": WRONG_OPTIMIZERS})
            large_decimals.register(Oracle._connection)
        Oracle._schemas += 1
        self._schema = f"case{Oracle._schemas}"
        self._sql = Oracle._connection.cursor()
        self._sql.execute(f"CREATE SCHEMA {self._schema}; USE {self._schema}")
        self._plain = plain
        if plain:
            self._sql.execute("PRAGMA disable_optimizer")
        self._tables = tables
        self._views = definitions
        self._fresh = False

    def load(self, contents: Contents) -> None:
        """Take over the contents."""
        pairs = zip(self._tables, contents.rows, strict=True)
        self.load_arrow([pa.Table.from_batches([table.batch(rows)]) for table, rows in pairs])

    def load_arrow(self, tables: Sequence[pa.Table]) -> None:
        """Take over the contents, a table each; they may have more columns than ours."""
        for table, loaded in zip(self._tables, tables, strict=True):
            self._sql.register("loaded", loaded)
            self._sql.execute(f"CREATE OR REPLACE TABLE {table.name} AS SELECT * FROM loaded")
            self._sql.unregister("loaded")
        self._fresh = False

    def execute(self, statements: str) -> None:
        """Carry out statements that change the tables."""
        self._sql.execute(statements)
        self._fresh = False

    def rows(self, query: str) -> list[Row]:
        """The answer. Raises duckdb.Error for what DuckDB cannot do."""
        if not self._fresh:
            for view in self._views:
                what = "TABLE" if view.how == "MATERIALIZED VIEW" else "VIEW"
                self._sql.execute(f"CREATE OR REPLACE {what} {view.name} AS {view.query.sql.duck}")
            self._fresh = True
        return self._answer(query)

    def batch_rows(self, query: str) -> list[Row]:
        """The answer in batch mode, over materialized views as streams have filled them."""
        plain = [view for view in self._views if view.how == "VIEW"]
        texts = [query, *(view.query.sql.duck for view in plain)]
        if all(in_batch_mode(t) == t for t in texts):
            return self.rows(query)
        for view in plain:
            self._sql.execute(f"CREATE OR REPLACE VIEW {view.name} AS {in_batch_mode(view.query.sql.duck)}")
        self._fresh = False
        return self._answer(in_batch_mode(query))

    def _answer(self, query: str) -> list[Row]:
        """Raises duckdb.Error, too, when it takes very long: some joins have no end."""
        limit = threading.Timer(_SECONDS, self._sql.interrupt)
        limit.start()
        try:
            return self._sql.execute(query).fetchall()
        finally:
            limit.cancel()

    def close(self) -> None:
        self._sql.execute(f"USE main; DROP SCHEMA {self._schema} CASCADE")
        if self._plain:
            self._sql.execute("PRAGMA enable_optimizer")
        self._sql.close()


class Engine:
    """This engine with the case's tables, all operators guarded."""

    def __init__(
        self,
        tables: Sequence[Table],
        definitions: Sequence[Definition],
        disabled: Sequence[str] = (),
        life: Life = LIVES[0],
        path: Path | None = None,
    ) -> None:
        self._config = {"optimizer.disabled_rules": ",".join(disabled)} if disabled else {}
        self._life, self._path = life, path
        self._tables = tables
        self._open()
        for table in tables:
            self.environment.execute_sql(table.ddl())
            if table.sends in ("after-images", "key-only deletes"):
                self._send_by_key(table)
        for definition in definitions:
            self.environment.execute_sql(f"CREATE {definition.how} {definition.name} AS {definition.query.sql.ours}")

    def _open(self) -> None:
        path = None if self._path is None else str(self._path)
        self.environment = TableEnvironment.create(self._config, path=path)
        self.session = self.environment.session
        self.session.harness.checked = True
        self.session.harness.restarts = self._life.restarts
        self.session.harness.job_options.update(self._life.options)

    def restart(self) -> None:
        """Close the database, which is in a folder, and open it again."""
        self.environment.close()
        self._open()

    def _send_by_key(self, table: Table) -> None:
        """Put a table that gives its followers no old images in place of the one just made."""
        made = self.session.catalogs.get((table.name,), None)
        assert isinstance(made, CatalogTable)
        plain = self.session.memory_table(made)
        by_key = _TableByKey(plain, key_only=table.sends == "key-only deletes")
        by_key.on_publish = plain.on_publish
        with self.session.alone(redefines=True):
            self.session.database.keep(made.storage, by_key)

    def create_view(self, name: str, query: str) -> None:
        self.environment.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")

    def claims(self, query: str, *, below: bool) -> KeyClaims:
        """Keep the rows of a query by the keys that are claimed of it."""
        statement = parse_statement(query)
        assert isinstance(statement, st.QueryStatement)
        return KeyClaims(self.session, "claimed", statement.query.query, below=below)

    def take(self, changes: Sequence[Change]) -> None:
        """One epoch with these changes."""
        touched = []
        for index, table in enumerate(self._tables):
            own = [c for c in changes if c.table == index]
            if own:
                memory = self.memory(table.name)
                memory.apply(_batch(table, own))
                touched.append(memory)
        if touched:
            self.session.publish(touched)
        for view in self.session.views.jobs():
            if view.failure is not None:
                raise view.failure

    @property
    def largest_output(self) -> int:
        """The most rows that an operator of a view has given so far."""
        return max((v.rows_out for view in self.session.views.jobs() for v in view.job.dataflow.vertices), default=0)

    def memory(self, name: str) -> MemoryTable:
        """A table or materialized view in memory."""
        found = self.session.catalogs.get((name,), None)
        assert isinstance(found, CatalogTable | MaterializedView)
        return self.session.memory_table(found)

    def view_rows(self, name: str) -> list[Row]:
        """The contents of a materialized view."""
        return rows_of(self.memory(name).contents())

    def query_rows(self, query: str) -> list[Row]:
        """The answer to a query now."""
        return rows_of(self.environment.execute_sql(query).to_arrow())

    def batch_rows(self, query: str, rows_an_epoch: int) -> list[Row]:
        """The answer in batch mode, however many epochs that takes. Raises AssertionError when a change is not +I."""
        t_env = self.environment
        t_env.execute_sql("SET 'execution.runtime-mode' = 'batch'")
        self.session.harness.job_options["sqlengine.epoch.max-rows"] = str(rows_an_epoch)
        try:
            changes = list(t_env.execute_sql(query).changes())
        finally:
            del self.session.harness.job_options["sqlengine.epoch.max-rows"]
            t_env.execute_sql("SET 'execution.runtime-mode' = 'streaming'")
        if any((c.kinds_or_inserts() != INSERT).any() for c in changes):
            raise AssertionError("in batch mode there are changes other than +I")
        return [row for c in changes for row in rows_of(pa.Table.from_batches([c.rows]))]

    def schema(self, name: str) -> Schema:
        """Names and types of a table or materialized view in memory."""
        return self.memory(name).schema

    def close(self) -> None:
        self.environment.close()


class _TableByKey(MemoryTable):
    """A table in memory whose followers are sent after-images, as an upsert source sends them."""

    def __init__(self, plain: MemoryTable, *, key_only: bool) -> None:
        super().__init__(plain.name, plain.schema, plain.primary_key)
        self._key_only = key_only

    @property
    def mode(self) -> ChangelogMode:
        return ChangelogMode(True, False, True, True, self._key_only)

    def deliver(self, step: ChangelogBatch) -> None:
        step = step.filter(step.kinds_or_inserts() != UPDATE_BEFORE)
        if self._key_only:
            gone = pa.array(step.kinds_or_inserts() == DELETE)
            columns = [
                c if n in self.primary_key else pc.if_else(gone, pa.scalar(None, c.type), c)
                for n, c in zip(self.schema.names, step.columns, strict=True)
            ]
            step = ChangelogBatch(pa.RecordBatch.from_arrays(columns, schema=step.rows.schema), step.kinds)
        super().deliver(step)


def _batch(table: Table, changes: Sequence[Change]) -> ChangelogBatch:
    """The changes of a table in order: pairs where a row is replaced."""
    rows: list[Any] = []
    kinds: list[int] = []
    for change in changes:
        both = change.old is not None and change.new is not None
        if change.old is not None:
            rows.append(change.old)
            kinds.append(UPDATE_BEFORE if both else DELETE)
        if change.new is not None:
            rows.append(change.new)
            kinds.append(UPDATE_AFTER if both else INSERT)
    return ChangelogBatch(table.batch(rows), np.array(kinds, dtype=np.int8) if any(kinds) else None)
