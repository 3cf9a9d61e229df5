"""A table as of a moment, for `FOR SYSTEM_TIME AS OF`: what is kept of it, or why it cannot be known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from connectors.memory import MemoryTable
from connectors.memory.rows import TableVersion
from connectors.memory.snapshot import PastRows
from runtime.core.errors import PlanningError, Span
from sqlengine.catalog.objects import CatalogTable, CatalogView, EpochNumber, MaterializedView, OpenTable
from sqlengine.database.session import Session
from sqlengine.table_options.memory_tables import HISTORY

__all__ = ["moment_text", "no_epochs", "no_history", "past_table"]

_START = datetime(1970, 1, 1, tzinfo=UTC)


def past_table(
    found: CatalogTable | CatalogView | MaterializedView,
    session: Session,
    span: Span | None,
    moment: int | EpochNumber,
    *,
    live: bool,
) -> OpenTable:
    """A table or materialized view as it was at a moment, milliseconds since 1970, or at the end of an epoch.

    Args:
        live: a view reads it.
    Raises:
        PlanningError: E1721, nobody knows what it was then.
        NotShown: it is not shown yet.
    """
    if isinstance(found, CatalogView) or (isinstance(found, CatalogTable) and found.connector is not None):
        raise no_history(found.path.name, "view" if isinstance(found, CatalogView) else "table with a connector", span)
    table = session.memory_table(found)
    if isinstance(moment, EpochNumber):
        rows = _of_epoch(found, table, session, span, moment)
        declared = _declared(found)
        return OpenTable(declared, PastRows(str(found.path), table.schema, str(moment), rows, counted=not live), None)
    histories = session.database.histories
    history, now = histories.of(table), histories.now()
    oldest = None if history is None else history.oldest(now)
    text = moment_text(moment, session.time_zone)
    failure: PlanningError | None = None
    if oldest is None:
        failure = _keeps_none(found, span)
    elif moment > now:
        now_text = moment_text(now, session.time_zone)
        failure = _unknown(
            f'nobody knows yet what "{found.path.name}" is as of {text}: it is {now_text} now',
            span,
            "without FOR SYSTEM_TIME AS OF it is read as it is now",
        )
    elif moment < oldest:
        kept = moment_text(oldest, session.time_zone)
        failure = _unknown(
            f'the history of "{found.path.name}" goes back to {kept}, and not to {text}',
            span,
            f"the option '{HISTORY}' says how long it is kept",
        )
    if failure is not None and not (histories.lost_is_read and (oldest is None or moment <= now)):
        raise failure
    rows = failure or session.database.rows_as_of(table, moment)
    return OpenTable(_declared(found), PastRows(str(found.path), table.schema, text, rows, counted=not live), None)


def _of_epoch(
    found: CatalogTable | MaterializedView,
    table: MemoryTable,
    session: Session,
    span: Span | None,
    epoch: EpochNumber,
) -> TableVersion:
    database = session.database
    history = database.histories.of(table)
    if history is None:
        raise _keeps_none(found, span)
    newest = database.shown.epoch
    if epoch.number > newest:
        raise _unknown(
            f'nobody knows yet what "{found.path.name}" is as of {epoch}: the newest epoch is {newest}',
            span,
            "system.history says in which epoch a table has changed last",
        )
    rows = database.rows_after_epoch(table, epoch.number)
    if rows is None:
        raise _unknown(
            f'the history of "{found.path.name}" does not go back to {epoch}',
            span,
            f"the option '{HISTORY}' says how long it is kept; system.history has the first epoch",
        )
    return rows


def _declared(found: CatalogTable | MaterializedView) -> CatalogTable:
    if isinstance(found, CatalogTable):
        return found
    return CatalogTable(found.path, found.columns, primary_key=found.primary_key)


def _keeps_none(found: CatalogTable | MaterializedView, span: Span | None) -> PlanningError:
    kind = "TABLE" if isinstance(found, CatalogTable) else found.kind.upper()
    hint = f"ALTER {kind} {found.path.name} SET ('{HISTORY}' = '1 d') keeps it from then on"
    return _unknown(f'"{found.path.name}" keeps no history', span, hint)


def no_epochs(name: str, span: Span | None) -> PlanningError:
    """The error E1721 for tables of lakes."""
    return _unknown(
        f'"{name}" is a table of another system, which knows no epochs of this one',
        span,
        "read it FOR SYSTEM_TIME AS OF a timestamp",
    )


def no_history(name: str, what: str, span: Span | None) -> PlanningError:
    """The error E1721 for what can keep no history."""
    hint = "tables without connector, materialized views and materialized tables can keep one"
    if what in ("view", "common table"):
        hint = "read the tables in its query FOR SYSTEM_TIME AS OF"
    return _unknown(f'"{name}" is a {what} and keeps no history', span, hint)


def moment_text(moment: int, time_zone: str) -> str:
    """A moment in a time zone, as SQL writes it."""
    try:
        at = (_START + timedelta(milliseconds=moment)).astimezone(ZoneInfo(time_zone))
    except OverflowError:
        return f"{moment} ms since 1970"
    text = at.strftime("%Y-%m-%d %H:%M:%S")
    return f"{text}.{moment % 1000:03d}" if moment % 1000 else text


def _unknown(message: str, span: Span | None, hint: str) -> PlanningError:
    return PlanningError(message, code="E1721", span=span, hint=hint)
