"""The rows of an INSERT whose input ends, computed before they are written: for statements that look at them first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from connectors.memory import MemoryTable, OpenChanges
from planner.lower.sink import NOT_NULL_ENFORCER
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ExpressionError, UnsupportedError
from runtime.plan.nodes import SourceExec
from runtime.plan.walk import walk
from sqlengine.catalog.objects import CatalogTable, is_numbered
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result, sorted_positions
from sqlengine.statements.epochs import in_epoch
from sqlengine.statements.planning import plan_inserted
from sqlengine.statements.row_changes import change_rows, computed_rows
from sqlengine.statements.row_numbers import numbered_columns

__all__ = ["insert_computed", "inserted_rows", "without_null"]


def inserted_rows(statement: st.Insert, session: Session, table: CatalogTable) -> pa.RecordBatch | None:
    """The rows that an INSERT gives its table, in the columns of that and in the order of its ORDER BY, numbered; None
    where its input does not end."""
    session.to_write(table)
    planned = plan_inserted(session, statement, table)
    if not all(node.table.bounded for node in walk(planned.physical) if isinstance(node, SourceExec)):
        return None
    rows = computed_rows(planned.physical, planned.schema, session)
    if planned.order:
        rows = rows.take(pa.array(sorted_positions(rows, planned.order)))
    columns = rows.columns[: planned.visible]
    if is_numbered(table):
        columns = numbered_columns(session, statement, table, columns)
    return pa.RecordBatch.from_arrays(list(columns), names=list(rows.schema.names[: planned.visible]))


def insert_computed(statement: st.Insert, session: Session, table: CatalogTable) -> Result:
    """Carry out an INSERT of a query whose rows are numbered, or sorted.

    Raises UnsupportedError E1607 where its input does not end."""

    def write() -> Result:
        rows = inserted_rows(statement, session, table)
        if rows is None:
            raise UnsupportedError(
                f'the rows of "{table.path.name}" are numbered, which needs input that ends',
                code="E1607",
                span=statement.table.span,
                hint="a job writes to a table without identity column",
            )
        contents = session.to_write(table)
        target = contents.table if isinstance(contents, OpenChanges) else contents
        taken = without_null(contents, target.exactly(rows), session)
        told = f"written to {table.path.name}"
        return change_rows(session, contents, ChangelogBatch(taken), told, str(table.path))

    return in_epoch(session, write)


def without_null(contents: MemoryTable | OpenChanges, rows: pa.RecordBatch, session: Session) -> pa.RecordBatch:
    """The rows that NOT NULL columns take."""
    missing = np.zeros(rows.num_rows, np.bool_)
    for column, f in zip(rows.columns, contents.schema, strict=True):
        if not f.type.nullable and column.null_count:
            if session.options.get(NOT_NULL_ENFORCER).upper() != "DROP":
                raise ExpressionError(
                    f'column "{f.name}" of {contents.name} is NOT NULL, and {column.null_count} of the rows would have no value',
                    code="E2011",
                    hint="leave such rows out with WHERE, or use COALESCE",
                )
            missing |= np.asarray(column.is_null())
    return rows.take(pa.array(np.flatnonzero(~missing))) if missing.any() else rows
