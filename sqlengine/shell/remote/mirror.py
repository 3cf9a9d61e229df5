"""The names that a server knows, in the catalog of the shell itself: what completion suggests, and no more."""

from __future__ import annotations

import contextlib

from runtime.core.errors import SqlEngineError
from runtime.core.types import DataType
from sqlengine.catalog.catalog import Database
from sqlengine.catalog.objects import CatalogTable, ObjectPath, PhysicalColumn
from sqlengine.database.session import Session
from sqlengine.shell.remote.connection import Connection
from sqlengine.shell.remote.tables import type_of

__all__ = ["refresh"]

MOST_COLUMNS = 20_000
_COLUMNS = f"""
SELECT n.nspname, c.relname, a.attname, a.atttypid
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
AND n.nspname NOT IN ('pg_catalog', 'information_schema')
ORDER BY 1, 2, a.attnum LIMIT {MOST_COLUMNS}
"""


def refresh(connection: Connection, session: Session) -> None:
    """Look at the server's names anew. Where it does not tell them, there is nothing to suggest, and no error."""
    found: dict[tuple[str, str], list[tuple[str, DataType]]] = {}
    with contextlib.suppress(SqlEngineError):
        for answer in connection.ask(_COLUMNS):
            for schema, table, column, oid in answer.rows:
                if schema and table and column and oid and oid.isdecimal():
                    found.setdefault((schema, table), []).append((column, type_of(int(oid))))
    catalogs = session.catalogs
    catalog = catalogs.current_catalog
    for database in {schema for schema, _ in found}:
        catalogs.create_database(catalog, Database(database), if_not_exists=True)
    for thing in list(catalogs.all_objects()):
        catalogs.remove(thing)
    for (schema, table), columns in found.items():
        path = ObjectPath(catalog, schema, table)
        catalogs.create(CatalogTable(path, tuple(PhysicalColumn(n, t) for n, t in columns)), replace=True)
