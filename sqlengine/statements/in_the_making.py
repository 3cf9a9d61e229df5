"""Which definitions wait for a view or table that another session is making, and which objects a definition is about."""

from __future__ import annotations

from sqlengine.catalog.objects import CatalogView, ObjectPath
from sqlengine.database.filling import Filling
from sqlengine.database.session import Session
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import statement_nodes as st

__all__ = ["defined_names", "in_the_way", "meets"]

_OBJECTS = (
    ddl.CreateTable, st.CreateView, st.CreateMaterializedView, st.DropTable, st.DropView, st.DropMaterializedView,
    ddl.AlterTable, ddl.AlterView, ddl.AlterMaterializedTable, ddl.AlterMaterializedView,
    st.AlterModel, st.DropModel,
)  # fmt: skip
_DATABASES = (st.CreateDatabase, ddl.AlterDatabase, st.DropDatabase)
_CATALOGS = (st.CreateCatalog, ddl.AlterCatalog, st.DropCatalog)


def in_the_way(statement: st.Statement, session: Session) -> Filling | None:
    """What is being made by another session and has to be there, or to have failed, before a statement can be carried
    out: the statement makes, changes or drops the same object, or one that is read, or what holds them. Called with the
    lock held."""
    making = session.views.in_the_making
    if isinstance(statement, st.Restore):
        return next(iter(making))
    names = defined_names(statement, session)
    return next((f for f in making if any(meets(name, path) for path in (f.path, *f.reads) for name in names)), None)


def defined_names(statement: st.Statement, session: Session) -> list[tuple[str, ...]]:
    """Catalog, database and name, or the first of these, of what a statement defines."""
    if isinstance(statement, _CATALOGS):
        return [(statement.name.text,)]
    if isinstance(statement, _DATABASES):
        return [session.catalogs.qualify((*statement.name.parts[-2:], "")).parts[:2]]
    if not isinstance(statement, _OBJECTS):
        return []
    path = session.catalogs.qualify(statement.name.parts)
    found = [path]
    thing = session.catalogs.find(path)
    if thing is not None and not isinstance(thing, CatalogView):
        found.append(thing.storage)
    if isinstance(statement, (ddl.AlterTable, ddl.AlterView)) and isinstance(statement.action, ddl.RenameTo):
        found.append(session.catalogs.qualify(statement.action.name.parts))
    return [path.parts for path in found]


def meets(name: tuple[str, ...], path: ObjectPath) -> bool:
    """Whether a path is what a name of `defined_names` says, or within it."""
    return path.parts[: len(name)] == name
