"""ALTER MATERIALIZED VIEW .. SET and RESET, and what the options of views and tables change of what is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from runtime.core.errors import CatalogError, pointing_at
from sqlengine.catalog.objects import CatalogTable, MaterializedView
from sqlengine.database.session import Session
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.table_options.memory_tables import check_view_option, history_retention

__all__ = ["alter_materialized_view", "changed_options", "checked_options", "keep_history"]


def alter_materialized_view(statement: ddl.AlterMaterializedView, session: Session) -> Result:
    """Change the options of a view."""
    span = statement.name.span
    view = session.catalogs.get(statement.name.parts, span, "materialized view")
    if not isinstance(view, MaterializedView) or view.refresh is not None:
        kind = view.kind if isinstance(view, MaterializedView) else "view or table"
        raise CatalogError(
            f'"{view.path.name}" is a {kind}, not a materialized view',
            code="E1409",
            span=span,
            hint="SHOW MATERIALIZED VIEWS",
        )
    if isinstance(statement.action, ddl.SetOptions):
        checked_options(statement.action.options, "materialized view")
    changed = replace(view, own_options=changed_options(view.options, statement.action))
    # What it has let gather belongs to the time before.
    session.views.check(view.path)
    session.catalogs.replace(changed)
    keep_history(changed, session)
    return Result.ok()


def checked_options(options: Sequence[ddl.Option], what: str) -> Mapping[str, str]:
    """The options of a materialized view. Raises OptionError E1503 for one that it does not have, E1500 for a wrong
    value."""
    for option in options:
        with pointing_at(option.span):
            check_view_option(option.key, option.value, what)
    return st.options_dict(tuple(options))


def changed_options(options: Mapping[str, str], action: ddl.SetOptions | ddl.ResetOptions) -> dict[str, str]:
    """Options after SET or RESET."""
    if isinstance(action, ddl.SetOptions):
        return {**options, **st.options_dict(action.options)}
    gone = {key.text for key in action.keys}
    return {key: value for key, value in options.items() if key not in gone}


def keep_history(table: CatalogTable | MaterializedView, session: Session) -> None:
    """Have the rows of a table or view keep their history as its options say, from now on."""
    contents, retention = session.memory.get(table.storage), history_retention(table)
    if contents is not None:
        histories, durable = session.database.histories, session.durable
        if durable is not None and (retention is not None or histories.of(contents) is not None):
            durable.checkpoint_is_wanted = True
        histories.keep(contents, retention)
