"""COMMENT ON: what is said of tables, views and their columns, as COMMENT in their definitions says it."""

from __future__ import annotations

from dataclasses import replace

from runtime.core.errors import BindError, did_you_mean
from sqlengine.catalog.objects import CatalogTable, CatalogView, MaterializedView
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.statements.planning import object_schema

__all__ = ["comment_on"]


def comment_on(statement: st.CommentOn, session: Session) -> Result:
    """Set a comment, or take it away. Raises BindError E1201 for a column that is not there."""
    found = session.catalogs.get(statement.name.parts, statement.name.span)
    if statement.column is None:
        session.catalogs.replace(replace(found, comment=statement.comment))
        return Result.ok()
    names = list(object_schema(session, found).names)
    name = statement.column.text
    if name not in names:
        raise BindError(
            f'"{found.path.name}" has no column "{name}"',
            code="E1201",
            span=statement.column.span,
            hint=did_you_mean(name, names),
        )
    session.catalogs.replace(_with_comment(found, names, name, statement.comment))
    return Result.ok()


def _with_comment(
    found: CatalogTable | CatalogView | MaterializedView, names: list[str], name: str, comment: str | None
) -> CatalogTable | CatalogView | MaterializedView:
    match found:
        case CatalogView():
            known = found.column_comments or (None,) * len(names)
            comments = tuple(comment if n == name else c for n, c in zip(names, known, strict=True))
            return replace(found, columns=tuple(names), column_comments=comments)
        case MaterializedView():
            return replace(
                found, columns=tuple(replace(c, comment=comment) if c.name == name else c for c in found.columns)
            )
        case CatalogTable():
            return replace(
                found, columns=tuple(replace(c, comment=comment) if c.name == name else c for c in found.columns)
            )
