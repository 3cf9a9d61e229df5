"""Definitions whose form in PostgreSQL the engine does not have: RENAME of any kind by ALTER TABLE, DROP .. CASCADE, and
REFRESH MATERIALIZED VIEW."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlengine.api.environment import TableEnvironment
from sqlengine.catalog.catalog import CatalogObject
from sqlengine.catalog.objects import CatalogTable, CatalogView, MaterializedView
from sqlengine.server.postgres.notices import Notice, missing
from sqlengine.server.postgres.sqlstate import PgError
from sqlengine.server.postgres.statements import Outcome
from sqlengine.server.postgres.types import Described, PgType
from sqlengine.server.postgres.words import Reader

__all__ = ["DefinitionStatement", "read_definition"]

Path = tuple[str, ...]


@dataclass(frozen=True)
class _Rename:
    path: Path
    to: str


@dataclass(frozen=True)
class _Drop:
    """DROP of a kind: TABLE, VIEW, MATERIALIZED VIEW, SCHEMA; of several things, or with what reads them."""

    kind: str
    paths: tuple[Path, ...]
    if_exists: bool
    cascades: bool


@dataclass(frozen=True)
class _Refresh:
    path: Path


def read_definition(environment: TableEnvironment, text: str) -> DefinitionStatement | None:
    """A statement of these; None for another one."""
    reader = Reader(text)
    if reader.accept("alter"):
        found = _rename(reader)
    elif reader.accept("drop"):
        found = _drop(reader)
    elif reader.accept("refresh", "materialized", "view"):
        reader.accept("concurrently")
        path = _path(reader)
        reader.accept("with", "data")
        reader.end()
        found = _Refresh(path)
    else:
        return None
    return None if found is None else DefinitionStatement(environment, found)


def _kind(reader: Reader) -> str | None:
    if reader.accept("materialized", "view"):
        return "MATERIALIZED VIEW"
    word = reader.accept_any("table", "view", "schema")
    return None if word is None else word.upper()


def _rename(reader: Reader) -> _Rename | None:
    """ALTER TABLE renames all kinds of relations, as in PostgreSQL."""
    kind = _kind(reader)
    if kind is None or kind == "SCHEMA":
        return None
    reader.accept("if", "exists")
    path = _path(reader)
    if not reader.accept("rename", "to"):
        return None
    to = _path(reader)
    if not reader.ended:
        return None
    return _Rename(path, to[-1])


def _drop(reader: Reader) -> _Drop | None:
    kind = _kind(reader)
    if kind is None:
        return None
    if_exists = reader.accept("if", "exists")
    paths = [_path(reader)]
    while reader.accept(","):
        paths.append(_path(reader))
    cascades = reader.accept("cascade")
    if not cascades and not reader.accept("restrict") and len(paths) == 1:
        return None
    return _Drop(kind, tuple(paths), if_exists, cascades) if reader.ended else None


def _path(reader: Reader) -> Path:
    parts = [reader.name()]
    while reader.accept("."):
        parts.append(reader.name())
    return tuple(parts)


def _sql(path: Sequence[str]) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in path)


class DefinitionStatement:
    """One of these statements."""

    parameters: Sequence[PgType | None] = ()
    columns: Sequence[Described] | None = None
    in_failed_transaction = False
    defines = True

    def __init__(self, environment: TableEnvironment, asked: _Rename | _Drop | _Refresh) -> None:
        self._environment = environment
        self._asked = asked
        self.writes = "DROP" if isinstance(asked, _Drop) else "ALTER" if isinstance(asked, _Rename) else "REFRESH"

    def run(self, values: Sequence[Any]) -> Outcome:
        """See `Statement`."""
        match self._asked:
            case _Rename(path=path, to=to):
                found = self._get(path)
                word = "VIEW" if isinstance(found, CatalogView) else "TABLE"
                self._execute(f"ALTER {word} {_sql(found.path.parts)} RENAME TO {_sql((*found.path.parts[:-1], to))}")
                return Outcome(lambda _: f"ALTER {word}")
            case _Refresh(path=path):
                return self._refresh(path)
            case _Drop() as drop:
                return self._drop(drop)

    def _refresh(self, path: Path) -> Outcome:
        """A materialized view is always up to date. What the names in its query mean may have changed since it was made:
        it follows them then, and keeps the state that stays right."""
        found = self._get(path)
        if not isinstance(found, MaterializedView):
            raise PgError("42809", f'"{path[-1]}" is not a materialized view')
        catalogs = self._environment.session.catalogs
        before = catalogs.current_catalog, catalogs.current_database
        catalogs.use_database(found.path.catalog, found.path.database)
        try:
            self._execute(f"CREATE OR REPLACE MATERIALIZED VIEW {_sql(found.path.parts)} AS {found.text}")
        finally:
            catalogs.use_database(*before)
        return Outcome(lambda _: "REFRESH MATERIALIZED VIEW")

    def _drop(self, drop: _Drop) -> Outcome:
        kind = drop.kind
        notices: list[Notice] = []
        way = "CASCADE" if drop.cascades else "RESTRICT"
        for path in drop.paths:
            if kind == "SCHEMA":
                if drop.if_exists and not self._has_schema(path):
                    notices.append(missing("schema", path[-1]))
                self._execute(f"DROP DATABASE {'IF EXISTS ' if drop.if_exists else ''}{_sql(path)} {way}")
                continue
            found = self._find(path)
            if found is None and drop.if_exists:
                notices.append(missing(kind.lower(), path[-1]))
                continue
            found = found or self._get(path)
            if drop.cascades:
                for reader in self._readers(found):
                    told = f"drop cascades to {_word(reader).lower()} {reader.path.name}"
                    notices.append(Notice(told, "NOTICE", "00000"))
                    self._execute(f"DROP {_word(reader)} {_sql(reader.path.parts)}")
            self._execute(f"DROP {kind} {_sql(found.path.parts)}")
        return Outcome(lambda _: f"DROP {kind}", notices=notices)

    def _readers(self, thing: CatalogObject) -> Iterator[CatalogObject]:
        """The materialized views that read a table or view, those that read them first."""
        session = self._environment.session
        if isinstance(thing, CatalogView):
            return
        for view in session.views.dependents(thing.storage):
            found = session.catalogs.find(view)
            if found is not None:
                yield from self._readers(found)
                yield found

    def _find(self, path: Path) -> CatalogObject | None:
        catalogs = self._environment.session.catalogs
        return catalogs.find(catalogs.qualify(path))

    def _has_schema(self, path: Path) -> bool:
        catalogs = self._environment.session.catalogs
        return path[-1] in catalogs.seen_databases(path[0] if len(path) > 1 else catalogs.current_catalog)

    def _get(self, path: Path) -> CatalogObject:
        return self._environment.session.catalogs.get(path)

    def _execute(self, text: str) -> None:
        self._environment.execute_sql(text)


def _word(thing: CatalogObject) -> str:
    return (
        "TABLE"
        if isinstance(thing, CatalogTable)
        else "MATERIALIZED VIEW"
        if isinstance(thing, MaterializedView)
        else "VIEW"
    )
