"""CREATE TABLE in the catalog of another system."""

from __future__ import annotations

from runtime.core.errors import UnsupportedError, pointing_at
from sqlengine.catalog.catalog import TableMaker
from sqlengine.catalog.objects import CatalogTable
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.statements.tables import insert_query

__all__ = ["create_foreign_table"]


def create_foreign_table(
    table: CatalogTable, statement: st.CreateTable, session: Session, elsewhere: TableMaker
) -> Result:
    """Make a table there; `AS query` fills it with INSERT. A query that cannot begin leaves no table; one that fails
    later leaves it without the rows that were not committed."""
    if statement.replace:
        raise UnsupportedError(
            f'"{table.path.name}" cannot be replaced where it is',
            code="E1627",
            span=statement.name.span,
            hint="drop it there, then use CREATE TABLE",
        )
    with pointing_at(statement.name.span):
        made = elsewhere.create(table)
    if statement.query is None:
        return Result.ok()
    try:
        return insert_query(session, made, statement.query, statement.text)
    except BaseException:
        elsewhere.drop(made)
        raise
