"""Catalogs that are kept in a file: definitions outlive the process.

    CREATE CATALOG work WITH ('type' = 'file', 'path' = 'work.sql')

The file is a SQL script, so that people can read it, keep it under version control, and run it elsewhere. It is read
when the catalog is created and written anew, whole and at once, after each statement that changes a definition in it.
Rows of tables in memory, and what ANALYZE TABLE has found, are not kept.

A definition that cannot be carried out any more (a view over a table that is gone) stays in the file as it is, and is
told as a warning. A file that somebody else has changed in the meantime is not overwritten.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from runtime.core.errors import CatalogError, ConnectorError, OptionError, Span, SqlEngineError
from runtime.core.logs import Log
from runtime.core.secrets import masked_sql
from sqlengine.catalog.catalog import Catalog, Database
from sqlengine.database.session import Session
from sqlengine.parse import parse_script
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.statements.create_text import create_text, database_text, definition_text, quoted

__all__ = ["FILE", "CatalogFile", "check_files", "load_file", "open_file", "save_files"]

_log = Log("catalog")

FILE = "file"
_HEAD = "-- Definitions of a catalog of sqlengine. Written anew when they change: comments of your own are not kept.\n"


@dataclass(slots=True)
class CatalogFile:
    """The file of a catalog. `text` is what was last read or written; None before there is a file. `unread` are
    statements, with their databases, that could not be carried out."""

    path: Path
    text: str | None = None
    unread: list[tuple[str, str]] = field(default_factory=list)


def open_file(options: dict[str, str], span: Span) -> CatalogFile:
    """The file that a catalog's options name. Raises OptionError E1504 without a path, ConnectorError E3300 for one
    that cannot be read."""
    name = options.get("path")
    if not name:
        raise OptionError(
            "a catalog of type 'file' needs the option 'path'",
            code="E1504",
            span=span,
            hint="for example 'path' = 'work.sql'",
        )
    path = Path(name).expanduser().absolute()
    return CatalogFile(path, _read(path))


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConnectorError(
            f"cannot read {path}: {reason}", code="E3300", hint="give a file of SQL that a catalog was kept in"
        ) from error


def load_file(catalog: Catalog, session: Session, execute: Callable[[st.Statement, Session], Result]) -> list[str]:
    """Carry out the definitions in a catalog's file; gives a warning for each that failed.

    What fails because something else is not there yet is tried again after the rest. Raises SqlSyntaxError for a file
    that is no SQL, with the place in it.
    """
    file = catalog.file
    assert isinstance(file, CatalogFile)
    if not file.text:
        return []
    try:
        statements = parse_script(file.text)
    except SqlEngineError as error:
        error.source = str(file.path)
        raise
    made = {s.name.parts[-1]: s for s in statements if isinstance(s, st.CreateDatabase)}
    if made:
        catalog.databases.clear()
        for name, statement in made.items():
            catalog.databases[name] = Database(name, statement.comment, st.options_dict(statement.options))
    catalogs = session.catalogs
    before = (catalogs.current_catalog, catalogs.current_database)
    database = next(iter(catalog.databases))
    waiting: list[tuple[str, st.Statement]] = []
    for statement in statements:
        if isinstance(statement, st.UseDatabase):
            database = statement.name.parts[-1]
        elif not isinstance(statement, st.CreateDatabase):
            waiting.append((database, statement))
    failures: list[SqlEngineError] = []
    while waiting:
        failed: list[tuple[str, st.Statement]] = []
        failures = []
        for database, statement in waiting:
            catalogs.current_catalog, catalogs.current_database = catalog.name, database
            try:
                execute(statement, session)
            except SqlEngineError as error:
                failed.append((database, statement))
                failures.append(error)
            finally:
                catalogs.current_catalog, catalogs.current_database = before
        if len(failed) == len(waiting):
            break
        waiting = failed
    file.unread = [(database, statement.text) for database, statement in waiting]
    return [
        f"{file.path.name}: {masked_sql(' '.join(statement.text.split()))[:60]}: {error.code} {error.message}"
        for (_, statement), error in zip(waiting, failures, strict=True)
    ]


def definitions(catalog: Catalog) -> str:
    """The script that makes all of a catalog again."""
    file = catalog.file
    unread = file.unread if isinstance(file, CatalogFile) else []
    parts = [_HEAD]
    for database in catalog.databases.values():
        parts.append(_created(database))
        parts.append(f"USE {quoted(database.name)};\n")
        for definition in database.definitions.values():
            if not definition.is_kept:
                continue
            parts.append(definition_text(definition, name=quoted(definition.path.name), masked=False) + ";\n")
        for thing in database.objects.values():
            parts.append(create_text(thing, name=quoted(thing.path.name), masked=False) + ";\n")
        parts += [text + ";\n" for where, text in unread if where == database.name]
    return "\n".join(parts)


def _created(database: Database) -> str:
    text = database_text(database, name=quoted(database.name), masked=False)
    return text.replace("CREATE DATABASE", "CREATE DATABASE IF NOT EXISTS", 1) + ";\n"


def _files(session: Session) -> list[tuple[Catalog, CatalogFile]]:
    return [(c, c.file) for c in session.catalogs.catalogs() if isinstance(c.file, CatalogFile)]


def check_files(session: Session) -> None:
    """Before a definition changes: raise CatalogError E1417 when a file is not as it was last read or written."""
    for catalog, file in _files(session):
        if _read(file.path) != file.text:
            raise CatalogError(
                f'the file of the catalog "{catalog.name}" was changed by somebody else: {file.path}',
                code="E1417",
                hint=f"DROP CATALOG {catalog.name} and create it again to go on from what the file says now",
            )


def save_files(session: Session) -> None:
    """After a definition has changed: write the files that say something else. Raises ConnectorError E3321; the
    definition holds until the end of the session then."""
    for catalog, file in _files(session):
        text = definitions(catalog)
        if text == file.text:
            continue
        beside = file.path.with_name(f".{file.path.name}.{os.getpid()}")
        try:
            # Options may hold passwords: nobody else reads a file that is new.
            mode = file.path.stat().st_mode & 0o777 if file.path.exists() else 0o600
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            os.replace(beside, file.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise ConnectorError(
                f"cannot write {file.path}: {error.strerror}",
                code="E3321",
                hint="the definition is there until the session ends, and is not in the file",
            ) from error
        file.text = text
        _log.info("the definitions of %s are written to %s", catalog.name, file.path, path=str(file.path))


def catalog_name(path: str) -> str:
    """The name of a catalog for a file: that of the file, as far as it is a name."""
    name = re.sub(r"\W+", "_", Path(path).expanduser().stem).strip("_")
    return name if name and not name[0].isdigit() else f"catalog_{name}".rstrip("_")
