"""The files that define the catalogue, and the names that they define."""

from __future__ import annotations

import importlib.resources
import re
from typing import Final

__all__ = ["CLASSES", "COLUMNS", "FUNCTIONS", "INFORMATION", "KEYWORDS", "PREFIX", "SCRIPTS", "quoted"]

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

KEYWORDS: Final = frozenset((
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "authorization", "between",
    "bigint", "binary", "bit", "boolean", "both", "case", "cast", "char", "character", "check", "coalesce",
    "collate", "collation", "column", "concurrently", "constraint", "create", "cross", "current_catalog",
    "current_date", "current_role", "current_schema", "current_time", "current_timestamp", "current_user", "dec",
    "decimal", "default", "deferrable", "desc", "distinct", "do", "else", "end", "except", "exists", "extract",
    "false", "fetch", "float", "for", "foreign", "freeze", "from", "full", "grant", "greatest", "group", "grouping",
    "having", "ilike", "in", "initially", "inner", "inout", "int", "integer", "intersect", "interval", "into", "is",
    "isnull", "join", "lateral", "leading", "least", "left", "like", "limit", "localtime", "localtimestamp",
    "national", "natural", "nchar", "none", "normalize", "not", "notnull", "null", "nullif", "numeric", "offset",
    "on", "only", "or", "order", "out", "outer", "overlaps", "overlay", "placing", "position", "precision",
    "primary", "real", "references", "returning", "right", "row", "select", "session_user", "setof", "similar",
    "smallint", "some", "substring", "symmetric", "table", "tablesample", "then", "time", "timestamp", "to",
    "trailing", "treat", "trim", "true", "union", "unique", "user", "using", "values", "varchar", "variadic",
    "verbose", "when", "where", "window", "with", "xmlattributes", "xmlconcat", "xmlelement", "xmlexists",
    "xmlforest", "xmlnamespaces", "xmlparse", "xmlpi", "xmlroot", "xmlserialize", "xmltable"
))  # fmt: skip
"""Words that are names in quotes alone. Source: PostgreSQL 15, appendix C, all that are not "non-reserved"."""
_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")


def quoted(name: str) -> str:
    """A name as PostgreSQL's `quote_ident` writes it."""
    if _PLAIN.fullmatch(name) and name not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'
