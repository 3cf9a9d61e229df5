"""A read replica shows what another database has: statements that would change anything are refused."""

from __future__ import annotations

from runtime.core.errors import PlanningError
from sqlengine.database.replica_state import ReplicaState
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.reading import without_header

__all__ = ["check"]

_READS = (
    st.QueryStatement, st.Subscribe, st.Show, st.Describe, st.Explain, st.Set, st.Reset, st.UseCatalog, st.UseDatabase,
    st.BeginEpoch, st.EndEpoch, st.RollbackEpoch, st.Flush, st.Prepare, st.ExecutePrepared, st.Deallocate,
)  # fmt: skip


def check(statement: st.Statement, replica: ReplicaState) -> None:
    """Raises PlanningError E1722."""
    if isinstance(statement, st.Explain):
        if "ANALYZE" not in statement.details or isinstance(statement.statement, st.QueryStatement):
            return
    elif isinstance(statement, _READS) or (isinstance(statement, st.CreateView | st.DropView) and statement.temporary):
        return
    words = " ".join(without_header(statement.text).split()[:1]).upper()
    raise PlanningError(
        f"this server is a read replica: {words} would change something",
        code="E1722",
        span=statement.span,
        hint=f"connect to the server that it follows, {replica.leader}",
    )
