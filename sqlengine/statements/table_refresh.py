"""How a materialized table is brought up to date, as its statement says."""

from __future__ import annotations

from dataclasses import replace

from runtime.core.errors import BindError, OptionError, Span, did_you_mean, pointing_at
from sqlengine.bind.literals import moment
from sqlengine.bind.time_travel import milliseconds
from sqlengine.catalog.objects import MaterializedView, PhysicalColumn, TableRefresh
from sqlengine.database.binding import Binding
from sqlengine.database.session import Session
from sqlengine.options.database import FRESHNESS_CONTINUOUS, FRESHNESS_FULL, FULL_FROM
from sqlengine.parse import statement_nodes as st
from sqlengine.statements.lasting_views import meaning
from sqlengine.table_options.memory_tables import HISTORY, check_view_option

__all__ = ["check_options", "described_refresh", "start_of"]

_MILLISECONDS = {"SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}
_SCHEDULES = {
    "SECOND": (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30),
    "MINUTE": (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30),
    "HOUR": (1, 2, 3, 4, 6, 8, 12),
    "DAY": (1,),
}
"""What FRESHNESS may be with REFRESH_MODE = FULL: what divides the next larger unit, as in Flink."""
_PARTITION_FIELDS = "partition.fields."


def described_refresh(
    statement: st.CreateMaterializedView,
    session: Session,
    columns: tuple[PhysicalColumn, ...],
    existing: MaterializedView | None,
    start: int | None,
) -> TableRefresh | None:
    """What a statement says of it; None for a materialized view. One that alters a table keeps what that says.

    Raises:
        OptionError: FRESHNESS or an option is wrong (E1503, E1501).
        BindError: a partition column is not in the query (E1424).
    """
    written = statement.table
    if written is None:
        return None
    catalog, database = session.catalogs.current_catalog, session.catalogs.current_database
    if statement.alters and existing is not None and existing.refresh is not None:
        return replace(existing.refresh, start=start)
    options = st.options_dict(statement.options)
    check_options(options, statement)
    names = [c.name for c in columns]
    for name in written.partitioned_by:
        if name.text not in names:
            raise BindError(
                f'the query has no column "{name.text}" for PARTITIONED BY',
                code="E1424",
                span=name.span,
                hint=did_you_mean(name.text, names) or f"its columns are {', '.join(names)}",
            )
    full = written.mode == "FULL"
    if written.freshness is None:
        milliseconds = session.options.get(FRESHNESS_FULL if full else FRESHNESS_CONTINUOUS)
        freshness = f"INTERVAL '{milliseconds // 1000}' SECOND"
    else:
        text, unit = written.freshness
        milliseconds = _milliseconds(text, unit, written.freshness_span)
        freshness = f"INTERVAL '{int(text)}' {unit}"
        if written.mode is None:
            full = milliseconds >= session.options.get(FULL_FROM)
        if full and int(text) not in _SCHEDULES[unit]:
            known = ", ".join(map(str, _SCHEDULES[unit]))
            raise OptionError(
                f"a FRESHNESS of {int(text)} {unit} is no schedule",
                code="E1503",
                span=written.freshness_span,
                hint=f"with REFRESH_MODE = FULL it is one of {known} {unit}",
            )
    return TableRefresh(
        freshness,
        milliseconds,
        full,
        written.mode is not None,
        tuple(name.text for name in written.partitioned_by),
        options,
        written.suspended,
        catalog,
        database,
        meaning(session.options),
        start,
    )


def start_of(statement: st.CreateMaterializedView, session: Session) -> int | None:
    """The moment (milliseconds since 1970) from which on rows count, as a statement says; None: all do. RESUME keeps that of
    the table that is there.

    Raises:
        OptionError: E1503, no such interval.
        SqlSyntaxError: E1308, no such timestamp.
    """
    written = None if statement.table is None else statement.table.start
    found = session.catalogs.find(session.catalogs.qualify(statement.name.parts))
    there = found.refresh if isinstance(found, MaterializedView) else None
    if written is None or (written.resume and there is not None):
        return None if written is None or there is None else there.start
    if written.kind == "NOW":
        now = session.database.histories.now()
        return now if written.ago is None else now - _milliseconds(*written.ago, written.span)
    if isinstance(written.moment, str):
        with pointing_at(written.span):
            local = moment("TIMESTAMP", written.moment, session.time_zone)
            return milliseconds(local, Binding(session, True), written.span)
    return written.moment


def _milliseconds(text: str, unit: str, span: Span | None) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0) or unit not in _MILLISECONDS:
        raise OptionError(
            f"a FRESHNESS of '{text}' {unit} is not possible",
            code="E1503",
            span=span,
            hint="write a whole number above 0 and SECOND, MINUTE, HOUR or DAY, such as INTERVAL '5' MINUTE",
        )
    return int(text) * _MILLISECONDS[unit]


def check_options(options: dict[str, str], statement: st.Statement) -> None:
    """Raises OptionError E1501 for an option that says where the rows are: they are kept in the database."""
    for key, value in options.items():
        if key == HISTORY:
            with pointing_at(statement.span):
                check_view_option(key, value, "materialized table")
        elif key != "format" and not key.startswith(_PARTITION_FIELDS):
            raise OptionError(
                f"a materialized table has no option '{key}'",
                code="E1501",
                span=statement.span,
                hint="its rows are kept in the database; INSERT INTO a table with a connector writes them elsewhere",
            )
