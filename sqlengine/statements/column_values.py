"""What columns have of which a row says nothing: checked when a table is declared, computed when one is added."""

from __future__ import annotations

from typing import NoReturn

import pyarrow as pa

from runtime.core.errors import Span, UnsupportedError
from runtime.eval.context import BatchContext
from runtime.eval.evaluator import Evaluator
from runtime.expr.analysis import is_deterministic, is_dynamic
from sqlengine.bind.defaults import bind_default
from sqlengine.catalog.objects import CatalogTable, PhysicalColumn
from sqlengine.database.binding import Binding
from sqlengine.database.session import Session
from sqlengine.parse.sequence_names import asks_for_number
from sqlengine.statements.sequences import with_whole_names

__all__ = ["added_values", "check_identifiers", "refuse_from_query", "with_checked_values"]


def with_checked_values(table: CatalogTable, session: Session) -> CatalogTable:
    """The table with default values that name sequences by their whole names.

    Raises what is wrong with default values, which are computed once, and UnsupportedError E1607 for a numbered column of a
    table with a connector."""
    table = with_whole_names(table, session)
    for column in table.columns:
        if not isinstance(column, PhysicalColumn):
            continue
        if column.default is not None:
            if asks_for_number(column.default.expression):
                bind_default(column, Binding(session, False), table.path.name)
            else:
                added_values(table, column, 1, session, open_rows=False)
        if session.catalogs.maker(table) is not None and (column.default or column.identity):
            raise UnsupportedError(
                f'the column "{column.name}" has a default value, of which the catalog {table.path.catalog} knows nothing',
                code="E1607",
                hint="leave DEFAULT and GENERATED out",
            )
        if column.identity is not None and table.connector is not None:
            raise UnsupportedError(
                f'the column "{column.name}" cannot be numbered: the rows of {table.path.name} are not kept here',
                code="E1607",
                hint="leave the connector out, or write the numbers yourself",
            )
    return table


def refuse_from_query(span: Span) -> NoReturn:
    """A table that a query makes has numbered columns: their numbers would be given before it is there."""
    raise UnsupportedError(
        "a table made from a query has no numbered column",
        span=span,
        hint="CREATE TABLE without AS, and INSERT INTO it",
    )


def added_values(
    table: CatalogTable, column: PhysicalColumn, count: int, session: Session, *, open_rows: bool
) -> pa.Array:
    """What rows that are there have in a column that is added. `open_rows`: some of them are those of an open epoch.

    Raises UnsupportedError E1607 where those would not be the same twice."""
    if column.identity is not None:
        _check_open(column, open_rows)
        return session.database.sequences.take(table, column, count)
    if column.default is None:
        return pa.nulls(count, column.type.arrow)
    value = bind_default(column, Binding(session, False), table.path.name)
    functions = session.functions
    if not is_deterministic(value, functions) or is_dynamic(value, functions):
        _check_open(column, open_rows)
    rows = pa.RecordBatch.from_arrays([pa.nulls(count, pa.int8())], names=["0"])
    (found,) = Evaluator([value], functions).evaluate(rows, BatchContext(count, session.time_zone, session.clock.now()))
    return found


def _check_open(column: PhysicalColumn, open_rows: bool) -> None:
    if open_rows:
        raise UnsupportedError(
            f'the column "{column.name}" has other values each time, and an epoch is open that has changed rows',
            code="E1607",
            hint="END EPOCH first",
        )


def check_identifiers(table: CatalogTable, span: Span) -> None:
    """Raise UnsupportedError E1600 for identifiers (UUID) in a table with a connector, whose texts nobody checks."""
    wrong = next((c.name for c in table.columns if isinstance(c, PhysicalColumn) and c.type.is_uuid), None)
    if table.connector is not None and wrong is not None:
        raise UnsupportedError(
            f'the column "{wrong}" of a table with a connector cannot be UUID',
            span=span,
            hint="make it a STRING, and CAST it AS UUID where it is read",
        )
