"""What a client is told beside the answer: warnings, and what IF EXISTS has passed over.

Source: PostgreSQL 15, 43.9 "Errors and Messages", and `client_min_messages` in 20.11.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlengine.catalog.catalog import Catalogs
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import statement_nodes as st

__all__ = ["Notice", "is_wanted", "missing", "notice_fields", "skipping"]

_LEVELS = ("DEBUG5", "DEBUG4", "DEBUG3", "DEBUG2", "DEBUG1", "LOG", "NOTICE", "WARNING", "ERROR")


@dataclass(frozen=True)
class Notice:
    """A sentence for the client, with its severity and SQLSTATE."""

    message: str
    severity: str = "WARNING"
    state: str = "01000"


def notice_fields(notice: Notice) -> Iterator[tuple[str, str]]:
    """The fields of a NoticeResponse."""
    yield "S", notice.severity
    yield "V", notice.severity
    yield "C", notice.state
    yield "M", notice.message


def is_wanted(notice: Notice, least: str) -> bool:
    """Whether a client is told of it that has set `client_min_messages` to `least`."""
    level = least.upper()
    return level not in _LEVELS or _LEVELS.index(notice.severity) >= _LEVELS.index(level)


def skipping(statement: st.Statement, catalogs: Catalogs) -> Notice | None:
    """What a statement is going to pass over, because of its IF EXISTS or IF NOT EXISTS."""
    match statement:
        case (
            ddl.CreateTable(if_not_exists=True, name=name)
            | st.CreateView(if_not_exists=True, name=name)
            | st.CreateMaterializedView(if_not_exists=True, name=name)
        ) if _is_there(catalogs, name.parts):
            return Notice(f'relation "{name.parts[-1]}" already exists, skipping', "NOTICE", "42P07")
        case st.CreateDatabase(if_not_exists=True, name=name) if _has_schema(catalogs, name.parts):
            return Notice(f'schema "{name.parts[-1]}" already exists, skipping', "NOTICE", "42P06")
        case st.DropTable(if_exists=True, name=name) if not _is_there(catalogs, name.parts):
            return missing("table", name.parts[-1])
        case st.DropView(if_exists=True, name=name) if not _is_there(catalogs, name.parts):
            return missing("view", name.parts[-1])
        case st.DropMaterializedView(if_exists=True, name=name) if not _is_there(catalogs, name.parts):
            return missing("materialized view", name.parts[-1])
        case st.DropDatabase(if_exists=True, name=name) if not _has_schema(catalogs, name.parts):
            return missing("schema", name.parts[-1])
        case _:
            return None


def missing(kind: str, name: str) -> Notice:
    """What DROP IF EXISTS says of a thing that is not there."""
    return Notice(f'{kind} "{name}" does not exist, skipping', "NOTICE", "00000")


def _is_there(catalogs: Catalogs, parts: tuple[str, ...]) -> bool:
    return catalogs.find(catalogs.qualify(parts)) is not None


def _has_schema(catalogs: Catalogs, parts: tuple[str, ...]) -> bool:
    *above, name = parts
    return name in catalogs.seen_databases(above[0] if above else catalogs.current_catalog)
