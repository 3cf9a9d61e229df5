"""Changes of the rows of tables in memory: INSERT of rows that stand in the statement, UPDATE, DELETE, TRUNCATE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from connectors.memory import MemoryTable, OpenChanges
from runtime.core.cancellation import Stopped
from runtime.core.changelog import DELETE, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.core.errors import (
    BindError,
    ExpressionError,
    PlanningError,
    TypeMismatchError,
    UnsupportedError,
    did_you_mean,
)
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.types import BIGINT
from runtime.local.job import Job
from runtime.plan.nodes import PhysicalNode
from runtime.state.keyed import KeyIndex
from sqlengine.bind.defaults import assigned_defaults
from sqlengine.catalog.objects import CatalogTable, MaterializedView, PhysicalColumn
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.trees import Tree, delete_query, is_values, update_query
from sqlengine.results.result import Result, fold
from sqlengine.statements.constant_rows import constant_rows
from sqlengine.statements.epochs import in_epoch, together
from sqlengine.statements.planning import plan_query
from sqlengine.text.amounts import counted_rows

if TYPE_CHECKING:
    import sqlengine.statements.parameter_rows as _parameter_rows
else:
    _parameter_rows = Room("sqlengine.statements.parameter_rows")

__all__ = ["change_rows", "computed_rows", "delete", "insert_known", "is_short", "truncate", "update"]

_COUNT = BIGINT.not_null()
_SHORT_TEXT = 1000
"""Characters of the VALUES of an INSERT that is carried out together with others."""


def insert_known(statement: st.Insert, session: Session, table: CatalogTable) -> Result | None:
    """An INSERT of rows that stand in the statement; None for any other. It is a change of the table as UPDATE and DELETE
    are: nothing has to run. It is counted among the jobs all the same, so that their names do not depend on what an INSERT
    reads."""
    parameters = session.parameters
    given = parameters if parameters is not None and parameters.keys else None

    def write() -> Result | None:
        if given is None:
            rows = constant_rows(session, statement, table)
        else:
            rows = _parameter_rows.parameter_rows(session, statement, table, given)
        if rows is None:
            return None
        session.jobs.next_id()
        changes, told = ChangelogBatch(rows), f"written to {table.path.name}"
        return in_epoch(
            session, lambda: change_rows(session, session.to_write(table), changes, told, str(table.path)), blind=True
        )

    return together(session, write, table.storage) if is_short(statement, session, table) else write()


def is_short(statement: st.Insert, session: Session, table: CatalogTable) -> bool:
    """Whether an INSERT is one of a few known rows into a table in memory, which may be carried out with others."""
    parameters = session.parameters
    many = parameters is not None and bool(parameters.keys) and parameters.count_of_rows > 1
    few = len(statement.query.text) <= _SHORT_TEXT and not many
    return table.connector is None and few and is_values(statement.query.query) and not session.user_functions


def _memory_target(session: Session, name: st.ObjectName, verb: str) -> tuple[CatalogTable, MemoryTable | OpenChanges]:
    found = session.catalogs.get(name.parts, name.span)
    if not isinstance(found, CatalogTable) or found.connector is not None:
        view = f"a {found.kind}" if isinstance(found, MaterializedView) else "a view"
        what = "not one" if isinstance(found, CatalogTable) else view
        raise UnsupportedError(
            f'{verb} works on tables in memory; "{found.path.name}" is {what}',
            code="E1607",
            span=name.span,
            hint="a table without the option 'connector' lives in memory"
            if isinstance(found, CatalogTable)
            else f"{verb} the rows of the tables that it reads",
        )
    if session.memory_table(found).append_only:
        raise PlanningError(
            f'"{found.path.name}" is append-only: its rows cannot be updated or deleted',
            code="E1710",
            span=name.span,
            hint="give it a PRIMARY KEY, or create it WITH ('changelog-mode' = 'retract')",
        )
    return found, session.to_write(found)


def update(statement: st.Update, session: Session) -> Result:
    """Change rows of a table in memory, as one epoch."""
    return in_epoch(session, lambda: _update(statement, session))


def _update(statement: st.Update, session: Session) -> Result:
    table, contents = _memory_target(session, statement.table, "UPDATE")
    statement = statement.with_(assignments=assigned_defaults(statement.assignments, table))
    names = [c.name for c in table.columns if isinstance(c, PhysicalColumn)]
    for name, _ in statement.assignments:
        if name.text not in names:
            raise BindError(
                f'unknown column "{name.text}"', code="E1201", span=name.span, hint=did_you_mean(name.text, names)
            )
        if name.text in table.primary_key:
            raise TypeMismatchError(
                f'"{name.text}" is part of the primary key and cannot be updated',
                code="E1433",
                span=name.span,
                hint="DELETE the row and INSERT another one",
            )
    rows = _rows_now(session, update_query(statement, table.path.parts, contents.schema))
    width = len(names)
    if statement.relations is not None:
        rows = _each_once(rows, contents)
    old, new = rows.select(list(range(width))), rows.select(list(range(width, 2 * width)))
    _check_not_null(contents, new)
    count = rows.num_rows
    before = ChangelogBatch(_renamed(old, names), np.full(count, UPDATE_BEFORE, dtype=np.int8))
    after = ChangelogBatch(_renamed(new, names), np.full(count, UPDATE_AFTER, dtype=np.int8))
    pairs = ChangelogBatch.concat([before, after]).take(np.arange(2 * count).reshape(2, count).T.ravel())
    return change_rows(session, contents, pairs, f"updated in {table.path.name}")


def _each_once(rows: pa.RecordBatch, contents: MemoryTable | OpenChanges) -> pa.RecordBatch:
    """Of the old rows beside their new values, each as often as the table has it: one that has met several others takes the
    values of the first."""
    table = contents.table if isinstance(contents, OpenChanges) else contents
    positions = table.key_positions
    index = KeyIndex([rows.schema.types[p] for p in positions], exact=not table.primary_key)
    slots, is_first = index.insert([rows.column(p) for p in positions], rows.num_rows)
    first = np.flatnonzero(is_first)
    if table.primary_key:
        return rows.take(pa.array(first))
    there = contents.contents().combine_chunks()
    held = [there.column(p).combine_chunks() for p in positions]
    found = index.find(held, there.num_rows)
    counts = np.bincount(found[found >= 0], minlength=index.capacity)
    return rows.take(pa.array(np.repeat(first, counts[slots[first]])))


def _check_not_null(contents: MemoryTable | OpenChanges, rows: pa.RecordBatch) -> None:
    for column, f in zip(rows.columns, contents.schema, strict=True):
        if not f.type.nullable and column.null_count:
            raise ExpressionError(
                f'column "{f.name}" of {contents.name} is NOT NULL, and {column.null_count} of the updated rows would have no value',
                code="E2011",
                hint="leave such rows out with WHERE, or use COALESCE",
            )


def delete(statement: st.Delete, session: Session) -> Result:
    """Remove rows of a table in memory, as one epoch."""
    return in_epoch(session, lambda: _delete(statement, session))


def _delete(statement: st.Delete, session: Session) -> Result:
    table, contents = _memory_target(session, statement.table, "DELETE")
    rows = _rows_now(session, delete_query(statement, table.path.parts, contents.schema))
    return change_rows(
        session,
        contents,
        ChangelogBatch(_renamed(rows, list(contents.schema.names)), np.full(rows.num_rows, DELETE, dtype=np.int8)),
        f"deleted from {table.path.name}",
    )


def truncate(statement: st.Truncate, session: Session) -> Result:
    """Remove all rows of a table in memory, as one epoch."""
    return in_epoch(session, lambda: _truncate(statement, session))


def _truncate(statement: st.Truncate, session: Session) -> Result:
    table, contents = _memory_target(session, statement.table, "TRUNCATE")
    done = f"deleted from {table.path.name}"
    rows = session.snapshot(table).rows.combine_chunks().to_batches()
    if not rows:
        return change_rows(session, contents, ChangelogBatch.empty(contents.schema), done)
    return change_rows(
        session,
        contents,
        ChangelogBatch(rows[0], np.full(rows[0].num_rows, DELETE, dtype=np.int8)),
        done,
    )


def _rows_now(session: Session, query: Tree) -> pa.RecordBatch:
    """The answer over the tables as they are now."""
    planned = plan_query(session, query)
    return computed_rows(planned.physical, planned.schema, session)


def computed_rows(plan: PhysicalNode, schema: Schema, session: Session) -> pa.RecordBatch:
    """The answer of a plan over rows that are there, while others have the lock. Raises Stopped."""
    job = Job("change", [plan], session.job_settings())
    with session.without_lock():
        batches = [output for (output,) in job.epochs() if output is not None]
    if job.status == "CANCELED":
        raise Stopped
    return fold(batches, schema)


def _renamed(rows: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(rows.columns, names=names)


def change_rows(
    session: Session, contents: MemoryTable | OpenChanges, batch: ChangelogBatch, done: str, counted: str = "rows"
) -> Result:
    """Apply a change of so many rows; an updated row counts once. `counted`: the name of the count's column."""
    if len(batch):
        contents.apply(batch)
    count = len(batch) if batch.kinds is None else int(np.count_nonzero(batch.kinds != UPDATE_BEFORE))
    result = Result.table(Schema.of((counted, _COUNT)), [[count]], summary=f"{counted_rows(count)} {done}")
    result.rows_changed = count
    return result
