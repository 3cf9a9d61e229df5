"""INSERT, UPDATE and DELETE with RETURNING: the rows that the statement has changed, as PostgreSQL gives them.

RETURNING computes values of each row: of INSERT and UPDATE as it is now, of DELETE as it was. They are computed before the
epoch of the statement ends, so that nothing has changed where one of them fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from connectors.memory import OpenChanges
from connectors.memory.snapshot import TableSnapshot
from runtime.core.changelog import DELETE, UPDATE_BEFORE, ChangelogBatch
from runtime.core.errors import UnsupportedError
from runtime.core.node import Node
from runtime.core.schema import Schema
from runtime.plan.nodes import CalcExec, PhysicalNode, SourceExec, WatermarkExec
from runtime.plan.walk import walk
from sqlengine.catalog.objects import CatalogTable
from sqlengine.database.session import Session
from sqlengine.parameters.binding import rewritten
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.trees import is_values, returning_query
from sqlengine.results.result import Result
from sqlengine.statements.epochs import in_epoch
from sqlengine.statements.planning import PlannedQuery, plan_insert, plan_query, query_schema
from sqlengine.statements.row_changes import computed_rows

__all__ = ["returning_schema", "with_rows"]

Change = TypeVar("Change", st.Insert, st.Update, st.Delete)


def returning_schema(statement: st.Insert | st.Update | st.Delete, session: Session) -> Schema:
    """The columns of what RETURNING says. Raises UnsupportedError E1607 for a table with a connector."""
    return query_schema(session, returning_query(statement, _table(statement, session).path.parts))


def with_rows(statement: Change, session: Session, run: Callable[[Change, Session], Result]) -> Result:
    """Carry out the statement without RETURNING by `run`, and give the rows that RETURNING says.

    Raises:
        UnsupportedError: E1607, the table has a connector; E1600, what RETURNING says is no value of a row, or the input
            of an INSERT never ends.
    """
    table = _table(statement, session)
    assert statement.returning is not None
    planned = _planned(statement, table, session)
    if not all(isinstance(node, SourceExec | CalcExec | WatermarkExec) for node in walk(planned.physical)):
        raise UnsupportedError(
            "RETURNING gives values of each changed row: no aggregate, no function with OVER, no subquery",
            span=statement.returning.span,
            hint="SELECT them from the table, before or behind the statement, in one epoch",
        )
    bare, blind = statement.with_(returning=None), False
    if isinstance(bare, st.Insert):
        _check_ends(bare, table, session)
        blind = is_values(bare.query.query) and bare.on_conflict is None

    def change() -> tuple[int, pa.RecordBatch]:
        contents = session.to_write(table)
        assert isinstance(contents, OpenChanges)
        before = len(contents.batches)
        try:
            run(bare, session)
            changed = _chosen(contents.batches[before:], contents.schema, isinstance(bare, st.Delete))
            return changed.num_rows, _computed(planned.physical, table, changed, session)
        except BaseException:
            contents.forget_since(before)
            raise

    count, rows = in_epoch(session, change, blind=blind)
    summary = f"{count:,} row{'' if count == 1 else 's'} changed in {table.path.name}"
    result = Result(planned.schema, [ChangelogBatch(rows)], summary=summary)
    result.returns = True
    return result


def _table(statement: st.Insert | st.Update | st.Delete, session: Session) -> CatalogTable:
    found = session.catalogs.get(statement.table.parts, statement.table.span)
    if not isinstance(found, CatalogTable) or found.connector is not None:
        raise UnsupportedError(
            f'RETURNING works on tables in memory; "{found.path.name}" is not one',
            code="E1607",
            span=statement.table.span,
            hint="leave RETURNING out",
        )
    return found


def _planned(statement: st.Insert | st.Update | st.Delete, table: CatalogTable, session: Session) -> PlannedQuery:
    """The plan of what RETURNING says, which is not kept: a prepared statement keeps that of the statement itself."""
    query, parameters = returning_query(statement, table.path.parts), session.parameters
    if parameters is None:
        return plan_query(session, query)
    plans, parameters.plans = parameters.plans, None
    try:
        return plan_query(session, query)
    finally:
        parameters.plans = plans


def _check_ends(statement: st.Insert, table: CatalogTable, session: Session) -> None:
    if is_values(statement.query.query) or statement.on_conflict is not None:
        return
    plan = plan_insert(session, statement, table, live=False).physical
    if not all(node.table.bounded for node in walk(plan) if isinstance(node, SourceExec)):
        raise UnsupportedError(
            "RETURNING needs input that ends",
            span=statement.table.span,
            hint="SUBSCRIBE TO the table shows its changes as they come",
        )


def _chosen(changes: Sequence[ChangelogBatch], schema: Schema, removed: bool) -> pa.RecordBatch:
    """The rows that were removed, or those that are there now."""
    if not changes:
        return ChangelogBatch.empty(schema).rows
    whole = ChangelogBatch.concat(list(changes))
    if whole.kinds is None:
        return whole.rows
    kept = whole.kinds == DELETE if removed else (whole.kinds != DELETE) & (whole.kinds != UPDATE_BEFORE)
    return whole.filter(np.asarray(kept)).decoded().rows


def _computed(plan: PhysicalNode, table: CatalogTable, rows: pa.RecordBatch, session: Session) -> pa.RecordBatch:
    """The answer of the plan with these rows in the place of the table."""
    contents = pa.Table.from_batches([rows])

    def change(node: Node) -> Node:
        if not isinstance(node, SourceExec) or not isinstance(node.table, TableSnapshot):
            return node
        schema = session.memory_table(table).schema
        return node.with_(table=TableSnapshot(str(table.path), schema, contents, node.table.schema.names))

    return computed_rows(rewritten(plan, change), plan.schema, session)
