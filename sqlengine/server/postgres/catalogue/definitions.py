"""The files that define the catalogue, and the names that they define."""

from __future__ import annotations

import importlib.resources
import re
from typing import Final

__all__ = ["CLASSES", "COLUMNS", "FUNCTIONS", "INFORMATION", "PREFIX", "SCRIPTS"]

PREFIX: Final = "pgf_"
"""Stands before the names of functions."""

_FILES = importlib.resources.files("sqlengine.server.postgres.catalogue")
SCRIPTS: Final = tuple(
    (_FILES / name).read_text("utf-8") for name in ("pg_catalog.sql", "functions.sql", "information_schema.sql")
)
"""Statements of DuckDB that make tables, functions and views, in this order."""

_TABLE = re.compile(r"CREATE TABLE cat\.(\w+) \((.+?)\n\);", re.DOTALL)

_VIEW = re.compile(r"CREATE VIEW cat\.(\w+) AS SELECT(.+?)\n  FROM", re.DOTALL)

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    **{name: tuple(column.split()[0] for column in columns.split(",")) for name, columns in _TABLE.findall(SCRIPTS[0])},
    **{name: tuple(re.findall(r"AS (\w+)(?=,|$)", columns)) for name, columns in _VIEW.findall(SCRIPTS[0])},
}
"""The columns of each table of `pg_catalog`."""

CLASSES: Final = {
    "pg_class": 1259,
    "pg_constraint": 2606,
    "pg_database": 1262,
    "pg_namespace": 2615,
    "pg_proc": 1255,
    "pg_type": 1247,
}
"""The numbers of tables of the catalogue that clients know, and that descriptions and `tableoid` name."""

FUNCTIONS: Final = frozenset(re.findall(rf"CREATE MACRO {PREFIX}(\w+)\(", SCRIPTS[1]))
"""The names of the functions, in lower case."""

INFORMATION: Final = frozenset(re.findall(r"CREATE VIEW info\.(\w+) AS", SCRIPTS[2]))
"""The views of `information_schema`."""
