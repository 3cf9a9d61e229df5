"""INSERT INTO a table in memory VALUES with parameters: the expressions of the row over columns of values, without a plan
and a job. What was made of the statement is kept where it is prepared."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from connectors.memory import MemorySink
from planner.logical.nodes import LogicalNode, Project, Values
from runtime.eval.context import BatchContext
from runtime.eval.evaluator import Evaluator
from runtime.expr.analysis import contains, is_deterministic, is_dynamic
from runtime.expr.nodes import ColumnRef, Expr, InputRef, Parameter, SubqueryExpr, transform
from sqlengine.catalog.objects import CatalogTable, is_numbered
from sqlengine.database.binding import Binding
from sqlengine.database.session import Session
from sqlengine.parameters.binding import Parameters, Slot
from sqlengine.parameters.rows import value_rows
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.trees import is_values
from sqlengine.statements.constant_rows import needs_job
from sqlengine.statements.planning import bound_insert
from sqlengine.statements.row_numbers import numbered_columns

__all__ = ["parameter_rows"]


@dataclass(frozen=True)
class _Program:
    """A row of VALUES, to be computed over columns of values; `slots` are the columns."""

    slots: tuple[Slot, ...]
    row: Evaluator


def parameter_rows(
    session: Session, statement: st.Insert, target: CatalogTable, parameters: Parameters
) -> pa.RecordBatch | None:
    """The rows of the INSERT in the columns of the table; None for one that is no single row of VALUES over which
    nothing but functions of its values stands, for one that needs a job, and where NULL would come into a NOT NULL
    column.

    Raises the errors of `bind_insert`; ExpressionError for a value that its column cannot take."""
    if target.connector is not None or needs_job(session, statement) or not is_values(statement.query.query):
        return None
    kept = None if parameters.plans is None else parameters.plans.find(session, parameters)
    if not isinstance(kept, _Program):
        kept = _program(session, statement, target, parameters)
        if kept is None:
            return None
        if parameters.plans is not None:
            parameters.plans.keep(kept, session, parameters)
    count = parameters.count_of_rows
    parameters.slots = list(kept.slots)
    columns = kept.row.evaluate(value_rows(parameters, count), BatchContext(count, session.time_zone))
    if is_numbered(target):
        columns = numbered_columns(session, statement, target, columns)
    schema = session.memory_table(target).schema
    if any(column.null_count and not f.type.nullable for f, column in zip(schema, columns, strict=True)):
        return None
    return pa.RecordBatch.from_arrays(columns, names=list(schema.names))


def _program(session: Session, statement: st.Insert, target: CatalogTable, parameters: Parameters) -> _Program | None:
    sink = MemorySink(session.memory_table(target), live=False)
    parameters.read[:] = [(target.path, target)]
    parameters.keeps_places = True
    try:
        row = _row(bound_insert(statement, target, sink, Binding(session, False)).input)
    finally:
        parameters.keeps_places = False
    functions = session.functions
    if row is None or any(
        contains(e, SubqueryExpr) or is_dynamic(e, functions) or not is_deterministic(e, functions) for e in row
    ):
        return None
    slots = parameters.slots

    def over(expr: Expr) -> Expr:
        if not isinstance(expr, Parameter):
            return expr
        return InputRef(slots.index((expr.key, expr.type)), expr.type)

    return _Program(tuple(slots), Evaluator([transform(e, over) for e in row], functions))


def _row(plan: LogicalNode) -> list[Expr] | None:
    """The expressions of the only row, in the columns of the table."""
    match plan:
        case Values(rows=(cells,)):
            return list(cells)
        case Project(input=Values(rows=(cells,), produced=columns), items=items):
            given = {column.id: cell for column, cell in zip(columns, cells, strict=True)}
            return [transform(e, lambda x: given[x.id] if isinstance(x, ColumnRef) else x) for _, e in items]
        case _:
            return None
