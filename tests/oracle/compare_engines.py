"""The two sides of the comparison: DuckDB over plain contents, and this engine fed with changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.memory import MemoryTable
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch, ChangelogMode
from sqlengine import TableEnvironment
from sqlengine.catalog.objects import CatalogTable, MaterializedView
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.verify.rows import rows_of
from tests.oracle.differences import WRONG_OPTIMIZERS
from tests.oracle.generate_cases import Definition
from tests.oracle.generate_lives import LIVES, Life
from tests.oracle.generate_tables import Change, Contents, Row, Table
from tests.oracle.key_claims import KeyClaims

__all__ = ["Engine", "Oracle"]


class Oracle:
    """DuckDB over the contents of a case's tables. One connection serves all cases.

    `plain`: it runs queries as they are written, without its optimizer.
    """

    _connection: duckdb.DuckDBPyConnection | None = None

    def __init__(self, tables: Sequence[Table], definitions: Sequence[Definition], *, plain: bool = False) -> None:
        if Oracle._connection is None:
            Oracle._connection = duckdb.connect(config={"threads": 1, "disabled_optimizers": WRONG_OPTIMIZERS})
        self._sql = Oracle._connection.cursor()
        self._plain = plain
        if plain:
            self._sql.execute("PRAGMA disable_optimizer")
        self._tables = tables
        self._views = {d.name: d.query.sql.duck for d in definitions}

    def load(self, contents: Contents) -> None:
        """Take over the contents."""
        for table, rows in zip(self._tables, contents.rows, strict=True):
            loaded = pa.Table.from_batches([table.batch(rows)])
            self._sql.register("loaded", loaded)
            self._sql.execute(f"CREATE OR REPLACE TABLE {table.name} AS SELECT * FROM loaded")
            self._sql.unregister("loaded")

    def rows(self, query: str) -> list[Row]:
        """The answer. Raises duckdb.Error for what DuckDB cannot do."""
        for name, text in self._views.items():
            self._sql.execute(f"CREATE OR REPLACE VIEW {name} AS {text}")
        return self._sql.execute(query).fetchall()

    def close(self) -> None:
        for name in reversed(self._views):
            self._sql.execute(f"DROP VIEW IF EXISTS {name}")
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
    ) -> None:
        config = {"optimizer.disabled_rules": ",".join(disabled)} if disabled else {}
        self.environment = TableEnvironment.create(config)
        self.session = self.environment.session
        self.session.checked = True
        self.session.restarts = life.restarts
        self.session.job_options.update(life.options)
        self._tables = tables
        for table in tables:
            self.environment.execute_sql(table.ddl())
            if table.sends in ("after-images", "key-only deletes"):
                self._send_by_key(table)
        for definition in definitions:
            self.environment.execute_sql(f"CREATE {definition.how} {definition.name} AS {definition.query.sql.ours}")

    def _send_by_key(self, table: Table) -> None:
        """Put a table that gives its followers no old images in place of the one just made."""
        made = self.session.catalogs.get((table.name,), None)
        assert isinstance(made, CatalogTable)
        plain = self.session.memory_table(made)
        self.session.memory[made.storage] = _TableByKey(plain, key_only=table.sends == "key-only deletes")

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
