"""What a job of a database in a folder reads, writes or calls stays as it is while the job is there: the job is made again
from its statement when the database is opened."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.errors import CatalogError, Span
from sqlengine.catalog.objects import CatalogTable, CatalogView
from sqlengine.database.jobs import RunningJob
from sqlengine.database.session import Session
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import statement_nodes as st
from sqlengine.statements.in_the_making import defined_names, meets

__all__ = ["check_unused"]


def check_unused(statement: st.Statement, session: Session) -> None:
    """Before a statement is carried out. Raises CatalogError E1410 when a job uses what it drops, replaces or changes."""
    running = [job for job in session.jobs.active() if job.uses.reads or job.uses.writes]
    if not running or getattr(statement, "temporary", False):
        return
    if isinstance(statement, st.DropFunction | st.AlterFunction):
        name = statement.name.parts[-1].upper()
        if name not in session.own_functions:
            _refuse_function(name, running, statement.name.span)
    elif _changes(statement, session):
        _refuse(defined_names(statement, session), running, statement)


def _changes(statement: st.Statement, session: Session) -> bool:
    """Whether a statement drops, replaces or changes objects that all sessions have."""
    match statement:
        case ddl.CreateTable():
            return statement.replace
        case st.CreateView() | st.CreateMaterializedView():
            return statement.or_replace
        case st.DropDatabase():
            return statement.cascade
        case st.DropCatalog():
            return True
        case st.DropModel() | st.AlterModel():
            model = session.catalogs.find_definition("model", session.catalogs.qualify(statement.name.parts))
            return model is not None and not model.temporary
        case st.DropTable() | st.DropView() | st.DropMaterializedView() | ddl.AlterTable() | ddl.AlterView():
            found = session.catalogs.find(session.catalogs.qualify(statement.name.parts))
            return not (isinstance(found, CatalogTable | CatalogView) and found.temporary)
        case _:
            return False


def _refuse(names: Sequence[tuple[str, ...]], running: Sequence[RunningJob], statement: st.Statement) -> None:
    written = getattr(statement, "name", None)
    for job in running:
        for verb, paths in (("read", job.uses.reads), ("written", job.uses.writes)):
            for path in sorted(paths, key=str):
                if any(meets(name, path) for name in names):
                    raise CatalogError(
                        f'"{path.name}" is {verb} by the job "{job.id}", which is made again from its statement when the '
                        "database is opened",
                        code="E1410",
                        span=getattr(written, "span", None),
                        hint=f"end the job first: STOP JOB '{job.id}'",
                    )


def _refuse_function(name: str, running: Sequence[RunningJob], span: Span) -> None:
    for job in running:
        if name in job.uses.functions:
            raise CatalogError(
                f'{name} is called by the job "{job.id}", which is made again from its statement when the database is '
                "opened",
                code="E1410",
                span=span,
                hint=f"end the job first: STOP JOB '{job.id}'",
            )
