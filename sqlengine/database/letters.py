"""The table into which jobs write the rows that they reject (`sqlengine.rejected.table`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from connectors.memory import MemorySink
from runtime.core.changelog import APPEND
from runtime.core.errors import OptionError, SqlEngineError
from runtime.core.likeness import did_you_mean
from runtime.local.dead_letters import LETTER_SCHEMA, NEVER_NULL, LetterTable
from runtime.local.job_settings import JobSettings
from runtime.local.rejected import REJECTED_TABLE
from runtime.plan.base import PhysicalNode
from runtime.plan.nodes import SinkExec
from sqlengine.catalog.objects import CatalogTable
from sqlengine.database.session import Session
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.roles.privileges import Target

__all__ = ["with_letters"]


def with_letters(session: Session, settings: JobSettings, roots: Sequence[PhysicalNode]) -> JobSettings:
    """What a job is given, with where it writes what it rejects. As it is for a query, a view, and what fills tables in
    memory at once: these may be computed again, and have system.rejected.

    Raises OptionError E1532 for a table that cannot take rejected rows.
    """
    if not any(_writes(node) for node in roots):
        return settings
    return replace(settings, letters=_letter_table(session, settings.options.get(REJECTED_TABLE)))


def _letter_table(session: Session, given: str) -> LetterTable:
    try:
        named = parse_statement(f"DESCRIBE {given}")
    except SqlEngineError as error:
        raise _unfit(given, "is not the name of a table", hint=error.message) from None
    if not isinstance(named, st.Describe) or named.name is None:
        raise _unfit(given, "is not the name of a table")
    table = session.catalogs.get(named.name.parts, None)
    if not isinstance(table, CatalogTable) or table.connector is None:
        raise _unfit(given, "is no table with a connector", hint="system.rejected has rejected rows in memory")
    if session.authority is not None and not table.temporary:
        session.authority.require("INSERT", Target("table", table.path.parts))
    sink = session.open_sink(table, {}, live=True)
    if sink.primary_key:
        raise _unfit(given, "has a primary key, which rejected rows have not")
    if sink.accepts(APPEND) != APPEND:
        raise _unfit(given, "takes no rows alone")
    known = {field.name: field.type for field in LETTER_SCHEMA}
    for field in sink.schema:
        type_ = known.get(field.name)
        if type_ is None:
            near = did_you_mean(field.name, known)
            columns = ", ".join(f"{f.name} {f.type}" for f in LETTER_SCHEMA)
            raise _unfit(given, f'has a column "{field.name}"', hint=near or f"its columns may be {columns}")
        if field.type.with_nullable(True) != type_:
            raise _unfit(given, f'has a column "{field.name}" of type {field.type}', hint=f"it is {type_}")
        if not field.type.nullable and field.name not in NEVER_NULL:
            raise _unfit(given, f'has a column "{field.name}" that is NOT NULL', hint="not every rejected row has it")
    return LetterTable(str(table.path), sink)


def _writes(node: PhysicalNode) -> bool:
    """Whether a plan is that of a job whose output stays."""
    return isinstance(node, SinkExec) and not (isinstance(node.table, MemorySink) and not node.table.live)


def _unfit(given: str, why: str, *, hint: str | None = None) -> OptionError:
    return OptionError(f"'{REJECTED_TABLE.key}' = '{given}': it {why}", code="E1532", hint=hint)
