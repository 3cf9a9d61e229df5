"""A file of SQLite, its connections, and its errors in our words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from urllib.parse import quote

from connectors.databases.parts import named
from connectors.sqlite.columns import Column, quoted
from runtime.core.errors import ConnectorError, UnavailableError, did_you_mean

__all__ = ["EPOCHS", "Relation", "connected", "described", "stamp", "table_names", "telling"]

EPOCHS = "_sqlengine_epochs"
_PASSING = ("locked", "busy", "disk i/o error", "unable to open")
_SHAPES = ("no such table", "no such column", "has no column", "on conflict clause does not match")
_BUSY_SECONDS = 2.0


@contextmanager
def telling(path: str, what: str = "") -> Generator[None]:
    """Errors of SQLite as ConnectorError E3161 (refused), E3162 (a row that may not be), E3163 (a table or column that is not
    there), or UnavailableError E3150, what passes. `what`: the table, for messages."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        message = f"{what + ': ' if what else ''}SQLite at {path}: {text}"
        lowered = text.lower()
        if isinstance(error, sqlite3.IntegrityError):
            hint = "nothing of its transaction was written: correct the row, or the table"
            raise ConnectorError(message, code="E3162", hint=hint) from error
        if any(part in lowered for part in _SHAPES):
            hint = "has the table other columns or keys than those that are declared here?"
            raise ConnectorError(message, code="E3163", hint=hint) from error
        if "utf-8" in lowered:
            hint = "declare the column as BYTES"
            raise ConnectorError(message, code="E3164", hint=hint) from error
        if any(part in lowered for part in _PASSING):
            raise UnavailableError(message, hint="does another process write for a long time?") from error
        raise ConnectorError(message, code="E3161", hint="the message is SQLite's own") from error


@contextmanager
def connected(path: str, mode: str = "ro") -> Generator[sqlite3.Connection]:
    """A connection whose transactions are said: `ro` reads, `rw` also writes. Raises ConnectorError E3101 without a file."""
    if not os.path.isfile(path):
        raise ConnectorError(f"there is no SQLite database at {path}", code="E3101", hint="check the path")
    with telling(path):
        address = f"file:{quote(os.path.abspath(path))}?mode={mode}"
        connection = sqlite3.connect(
            address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
    with closing(connection):
        yield connection


def stamp(path: str) -> list[list[int]]:
    """What changes when the database does: size in bytes and time of modification in nanoseconds, also of its log."""
    found: list[list[int]] = []
    for name in (path, path + "-wal"):
        try:
            status = os.stat(name)
            found.append([status.st_size, status.st_mtime_ns])
        except OSError:
            found.append([0, 0])
    return found


@dataclass(frozen=True)
class Relation:
    """A table or view."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    def column(self, name: str) -> Column:
        """Raises ConnectorError E3163 when there is none of this name."""
        return named(self.columns, name, self.name)


def table_names(connection: sqlite3.Connection) -> list[str]:
    """Tables and views."""
    found = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
        "AND name <> ? ORDER BY 1",
        (EPOCHS,),
    )
    return [name for (name,) in found]


def described(connection: sqlite3.Connection, name: str) -> Relation:
    """A table. Raises ConnectorError E3163 when there is none."""
    rows = connection.execute(f"PRAGMA table_info({quoted(name)})").fetchall()
    if not rows:
        names = table_names(connection)
        raise ConnectorError(
            f'there is no table "{name}" in the SQLite database',
            code="E3163",
            hint=did_you_mean(name, names) or "check the option 'table-name'",
        )
    columns = tuple(
        Column(called, declared, not (not_null or place)) for _, called, declared, not_null, _, place in rows
    )
    key = sorted((place, called) for _, called, _, _, _, place in rows if place)
    return Relation(name, columns, tuple(called for _, called in key))
