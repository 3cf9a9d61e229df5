"""INSERT of rows that stand in the statement into a table in memory: computed at once, without a plan and a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from connectors.memory import MemorySink
from connectors.values.constants import ConstantTable
from planner.logical.nodes import LogicalNode, Project, Scan
from planner.lower.sink import UPSERT_MATERIALIZE
from runtime.core.errors import ExpressionError, Span
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot
from runtime.eval.context import BatchContext
from runtime.eval.evaluator import Evaluator
from runtime.expr.cast.dispatch import convert
from runtime.expr.nodes import Cast, ColumnRef, Expr
from runtime.expr.rewrite import to_input_refs
from runtime.expr.typing import implicit_cast
from sqlengine.bind import bind_insert
from sqlengine.bind.constants import ConstantColumn, constant_columns, constant_query
from sqlengine.catalog.objects import CatalogTable, PhysicalColumn, is_numbered
from sqlengine.database.binding import Binding
from sqlengine.database.recovery import savepoint_named
from sqlengine.database.session import Session
from sqlengine.options.verify import VERIFY
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.constant_rows import ConstantRows, only_constants

if TYPE_CHECKING:
    import sqlengine.bind.fitting as _fits
    import sqlengine.statements.row_numbers as _row_numbers
else:
    _fits = Room("sqlengine.bind.fitting")
    _row_numbers = Room("sqlengine.statements.row_numbers")

__all__ = ["constant_rows", "needs_job"]


def constant_rows(session: Session, statement: st.Insert, target: CatalogTable) -> pa.RecordBatch | None:
    """The rows of an INSERT of constants in the columns of the table; None for any other INSERT, and for one that needs
    a job: NULL in a NOT NULL column, ON CONFLICT, a savepoint to go on from, a job that verifies itself.

    Raises the errors of `bind_insert`; ExpressionError at the first value that its column cannot take."""
    written = only_constants(statement.query.query)
    if written is None or target.connector is not None or needs_job(session, statement):
        return None
    contents = session.memory_table(target)
    found = constant_columns(written, session.time_zone)
    if found is None:
        return None
    filled = any(isinstance(c, PhysicalColumn) and (c.default or c.identity) for c in target.columns)
    direct = None if filled else _direct(statement, contents.schema, found, session.time_zone)
    if direct is not None:
        return pa.RecordBatch.from_arrays(direct, names=list(contents.schema.names))
    query = constant_query(found)
    sink = MemorySink(contents, live=False)
    plan = bind_insert(statement, target, sink, Binding(session, False), query).input
    scan, values = _projected(plan)
    assert isinstance(scan.table, ConstantTable)
    rows = scan.table.rows
    if all(isinstance(value, ColumnRef) for value in values):
        columns = rows.columns
    else:
        refs = [to_input_refs(value, scan.columns) for value in values]
        context = BatchContext(rows.num_rows, session.time_zone, session.clock.now() if filled else 0)
        try:
            columns = Evaluator(refs, session.functions).evaluate(rows, context)
        except ExpressionError as error:
            error.span = error.span or _place(written, scan, values, session.time_zone)
            raise
    if is_numbered(target):
        columns = _row_numbers.numbered_columns(session, statement, target, columns)
    schema = sink.schema
    if any(column.null_count and not f.type.nullable for f, column in zip(schema, columns, strict=True)):
        return None
    return pa.RecordBatch.from_arrays(columns, names=list(schema.names))


def _direct(
    statement: st.Insert, schema: Schema, found: Sequence[ConstantColumn], time_zone: str
) -> list[pa.Array] | None:
    """The columns of the table, where nothing can be wrong with the statement: `bind_insert` says the same, and what is
    wrong. None where that has to be asked, or a value does not fit."""
    names = schema.names
    filled = tuple(c.text for c in statement.columns) or names
    if len(filled) != len(found) or len(set(filled)) < len(filled) or not set(filled) <= set(names):
        return None
    given = dict(zip(filled, found, strict=True))
    columns: list[pa.Array] = []
    for field in schema:
        column = given.get(field.name)
        if column is None or column.type.root is TypeRoot.NULL:
            values = pa.nulls(len(found[0].values), field.type.arrow)
        elif _is_of(column.type, field.type):
            values = column.values
        elif implicit_cast(column.type, field.type) and (
            not statement.assigns or _fits.always_fits(column.type, field.type)
        ):
            converted = convert(column.values, column.type, field.type, time_zone)
            if converted.failed is not None:
                return None
            values = converted.values
        else:
            return None
        if values.null_count and not field.type.nullable:
            return None
        columns.append(values)
    return columns


def _is_of(source: DataType, target: DataType) -> bool:
    """Whether values of one type are values of the other as they are."""
    if source.is_character and target.root is TypeRoot.VARCHAR:
        return source.precision <= target.precision
    return source.same_ignoring_nullability(target)


def needs_job(session: Session, statement: st.Insert) -> bool:
    """Whether an INSERT of rows that stand in the statement is more than a change of its table."""
    return bool(
        statement.overwrite
        or statement.partition is not None
        or statement.on_conflict is not None
        or statement.hints
        or session.options.get(VERIFY)
        or session.options.get(UPSERT_MATERIALIZE).upper() == "FORCE"
        or savepoint_named(session)
    )


def _projected(plan: LogicalNode) -> tuple[Scan, Sequence[Expr]]:
    if isinstance(plan, Project):
        scan = plan.input
        values: Sequence[Expr] = [value for _, value in plan.items]
    else:
        scan, values = plan, [column.ref() for column in plan.columns]
    assert isinstance(scan, Scan)
    return scan, values


def _place(written: ConstantRows, scan: Scan, values: Sequence[Expr], time_zone: str) -> Span | None:
    """Where the first value stands that cannot be cast."""
    assert isinstance(scan.table, ConstantTable)
    ids = [column.id for column in scan.columns]
    for value in values:
        if isinstance(value, Cast) and isinstance(value.value, ColumnRef):
            position = ids.index(value.value.id)
            failed = convert(scan.table.rows.column(position), value.value.type, value.type, time_zone).failed
            if failed is not None and failed.any():
                return list(written.cell_spans())[int(np.flatnonzero(failed)[0]) * len(ids) + position]
    return None
