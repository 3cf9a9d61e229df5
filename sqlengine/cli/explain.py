"""`sqlengine explain`: the plans of a file's queries; definitions are carried out, so that names exist, but nothing is
read or written."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from runtime.core.errors import OptionError, SqlEngineError, did_you_mean
from runtime.core.secrets import masked_sql
from sqlengine.api.environment import TableEnvironment, located
from sqlengine.database.session import Session
from sqlengine.options.dialect import DIALECT
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import parse_script
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.reading import without_header
from sqlengine.statements.dispatch import execute
from sqlengine.statements.explain import plan_text
from sqlengine.statements.planning import bound_view
from sqlengine.statements.tables import described_table
from sqlengine.statements.views import described_materialized_view
from sqlengine.terminal.colours import Paint
from sqlengine.terminal.scripts import named, scripts

__all__ = ["explain_command"]

DETAILS = ("CHANGELOG_MODE", "ESTIMATED_COST", "STATE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")
_PLANNED = (st.QueryStatement, st.Insert, st.StatementSet, st.CreateMaterializedView)
_CARRIED_OUT = (
    ddl.CreateTable, ddl.AlterTable, ddl.AlterView, ddl.AlterDatabase, ddl.AlterCatalog, st.CreateView, st.CreateDatabase,
    st.CreateCatalog, st.DropTable, st.DropView, st.DropMaterializedView, st.DropDatabase, st.DropCatalog, st.UseCatalog, st.UseDatabase,
    st.Set, st.Reset,
)  # fmt: skip


def explain_command(texts: Sequence[str], files: Sequence[str], options: dict[str, str], details: str) -> int:
    """Print the plans of all statements that have one; gives the exit status."""
    wanted = tuple(d.strip().upper() for d in details.split(",") if d.strip())
    for detail in wanted:
        if detail not in DETAILS:
            raise OptionError(f"unknown detail {detail}", code="E1618", hint=did_you_mean(detail, DETAILS))
    paint = Paint(sys.stdout)
    with TableEnvironment.create(options) as environment:
        for source, text in scripts(texts, files):
            with named(source):
                for statement in parse_script(text, environment.session.options.get(DIALECT)):
                    try:
                        _explain(statement, wanted, environment.session, paint)
                    except SqlEngineError as error:
                        raise located(error, text) from error.__cause__
    return 0


def _explain(statement: st.Statement, details: tuple[str, ...], session: Session, paint: Paint) -> None:
    inner = statement.statement if isinstance(statement, st.Explain) else statement
    filled = isinstance(inner, ddl.CreateTable) and inner.query is not None
    if filled or isinstance(inner, _PLANNED):
        plans = plan_text(inner, session, details).rstrip("\n")
        shown = masked_sql(" ".join(without_header(inner.text).split()))
        print(paint(f"-- {shown if len(shown) <= 100 else shown[:97] + '...'}", "bold"))
        print(plans + "\n", flush=True)
    if isinstance(statement, st.Explain):
        return
    made = None
    if isinstance(inner, ddl.CreateTable) and filled:
        made = described_table(inner, session)
    elif isinstance(inner, st.CreateMaterializedView):
        made = described_materialized_view(inner, session, bound_view(session, inner.query.query))
    elif isinstance(inner, _CARRIED_OUT):
        execute(inner, session)
    if made is not None:
        with session.alone(redefines=True):
            session.catalogs.replace(made)
