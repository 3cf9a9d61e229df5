"""`sqlengine explain`: the plans of a file's queries; definitions are carried out so that names exist."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.errors import OptionError, SqlEngineError, did_you_mean
from sqlengine.cli.scripts import scripts
from sqlengine.environment import TableEnvironment, located
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import parse_script
from sqlengine.parse import statement_nodes as st
from sqlengine.statements.dispatch import execute
from sqlengine.statements.explain import plan_text

__all__ = ["explain_command"]

DETAILS = ("CHANGELOG_MODE", "ESTIMATED_COST", "STATE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")
_PLANNED = (st.QueryStatement, st.Insert, st.StatementSet, st.CreateMaterializedView)
_SKIPPED = (
    st.Update,
    st.Delete,
    st.Truncate,
    st.Flush,
    st.BeginEpoch,
    st.EndEpoch,
    st.Subscribe,
    st.Show,
    st.Describe,
    st.StopJob,
)


def explain_command(texts: Sequence[str], files: Sequence[str], options: dict[str, str], details: str) -> int:
    wanted = tuple(d.strip().upper() for d in details.split(",") if d.strip())
    for detail in wanted:
        if detail not in DETAILS:
            raise OptionError(f"unknown detail {detail}", hint=did_you_mean(detail, DETAILS))
    with TableEnvironment.create(options) as environment:
        session = environment.session
        for name, text in scripts(texts, files):
            for statement in parse_script(text):
                inner = statement.statement if isinstance(statement, st.Explain) else statement
                try:
                    if isinstance(inner, _PLANNED) or (isinstance(inner, ddl.CreateTable) and inner.query is not None):
                        print(f"-- {' '.join(inner.text.split())[:100]}")
                        print(plan_text(inner, session, wanted))
                        print()
                    if not isinstance(inner, (*_SKIPPED, st.QueryStatement, st.Insert, st.StatementSet)):
                        execute(inner, session)
                except SqlEngineError as error:
                    error.source = name
                    raise located(error, text) from error.__cause__
    return 0
