"""EXPLAIN: the plans of a statement, without running it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.explain import explain_text
from runtime.core.errors import UnsupportedError
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.types import STRING
from sqlengine.catalog.objects import CatalogTable
from sqlengine.database.session import Session
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.statements.explain_analyze import ANALYZE, explain_analyze
from sqlengine.statements.explain_restore import restore_text
from sqlengine.statements.planning import (
    Planned,
    PlannedQuery,
    lower_context,
    plan_insert,
    plan_query,
    plan_statement_set,
)
from sqlengine.statements.tables import get_table

if TYPE_CHECKING:
    import sqlengine.statements.compiled_plans as _compiled_plans
    import sqlengine.statements.views as _views
else:
    _compiled_plans = Room("sqlengine.statements.compiled_plans")
    _views = Room("sqlengine.statements.views")

__all__ = ["explain", "explained", "plan_text", "replaces"]

RESTORE = "RESTORE"


def explain(statement: st.Explain, session: Session) -> Result:
    """One row, one column: the text of the plans; with ANALYZE, of the plan that has run."""
    if ANALYZE in statement.details and not isinstance(statement.statement, st.ExecutePlan):
        plans = planned(statement.statement, session)
        return explain_analyze(statement.statement, [p.physical for p in plans], session)
    text = plan_text(statement.statement, session, statement.details)
    return Result.table(Schema.of(("result", STRING.not_null())), [[text]])


def plan_text(statement: st.Statement, session: Session, details: tuple[str, ...] = ()) -> str:
    """The logical plan as bound and as optimized, and the physical plan; `details` as in EXPLAIN. RESTORE alone is
    only about saved state, and nothing runs for ANALYZE."""
    if isinstance(statement, st.ExecutePlan):
        return _compiled_plans.explained_plan(statement, session, details)
    plans = planned(statement, session)
    details = tuple(detail for detail in details if detail != ANALYZE)
    if replaces(statement):
        assert isinstance(statement, st.CreateMaterializedView)
        becomes = _views.explained_replacement(statement, session)
        if becomes is not None:
            return f"{_sections(plans, session, details)}\n\n== Replacement ==\n{becomes}"
    if RESTORE in details:
        restore = restore_text([p.physical for p in plans], session)
        rest = tuple(detail for detail in details if detail != RESTORE)
        return f"{_sections(plans, session, rest)}\n\n== Restore ==\n{restore}" if rest else restore
    return _sections(plans, session, details)


def _sections(plans: Sequence[Planned], session: Session, details: tuple[str, ...]) -> str:
    order = next((p.order for p in plans if isinstance(p, PlannedQuery) and p.sorts_shown_rows), ())
    context = lower_context(session, batch=all(p.batch for p in plans))
    text = explain_text([(p.bound, p.optimized, p.physical) for p in plans], details, context, order)
    where = session.target.described(session.options, [p.physical for p in plans])
    return f"{text}\n\n== Execution ==\n{where}" if where else text


def explained(statement: st.Statement, session: Session, details: tuple[str, ...]) -> str:
    """The same for a statement that is not carried out: nobody waits for it."""
    if replaces(statement):
        with session.alone():
            return plan_text(statement, session, details)
    return session.at_a_version(lambda: plan_text(statement, session, details))


def replaces(statement: st.Statement) -> bool:
    """Whether a statement may give a materialized view another query: then EXPLAIN looks at the view that is there."""
    return isinstance(statement, st.CreateMaterializedView) and statement.or_replace


def planned(statement: st.Statement, session: Session) -> list[Planned]:
    """The plans of a query, an INSERT, a statement set, or of the query of a definition."""
    match statement:
        case st.QueryStatement(query=query):
            return [plan_query(session, query.query)]
        case st.Insert(table=name):
            return [plan_insert(session, statement, get_table(session, name), live=False)]
        case st.StatementSet(statements=inner):
            inserts: list[tuple[st.Insert, CatalogTable]] = [
                (i, get_table(session, i.table)) for i in inner if isinstance(i, st.Insert)
            ]
            return list(plan_statement_set(session, inserts, live=False))
        case st.CreateMaterializedView(query=query):
            return [plan_query(session, query.query, live=True)]
        case st.CreateView(query=query):
            return [plan_query(session, query.query)]
        case ddl.CreateTable(query=query) if query is not None:
            return [plan_query(session, query.query)]
        case _:
            raise UnsupportedError(
                "EXPLAIN takes a query, an INSERT, or a statement that contains one",
                code="E1610",
                span=statement.span,
                hint="other statements have no plan: run them",
            )
