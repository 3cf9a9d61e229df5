"""What questions to the catalogue read: relations of the catalogue, and tables and views of users."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlengine.server.postgres.catalogue.definitions import COLUMNS, INFORMATION

__all__ = ["LIVE_SCHEMA", "LIVE_TABLES", "SCHEMA", "OwnTable", "home", "own_tables", "take_own_tables"]

SCHEMA = "cat"
"""The schema of the catalogue's tables in DuckDB."""
LIVE_SCHEMA = "temp"
"""That of tables which are filled for each question."""
LIVE_TABLES = frozenset(
    ("pg_stat_activity", "pg_locks", "pg_stat_database", "pg_stat_user_tables", "pg_stat_all_tables")
)


@dataclass(frozen=True)
class OwnTable:
    """A table or view of users. `name`: in DuckDB; `text`: as the question names it; `columns`: in lower case, those that it may
    need, None for all."""

    name: str
    text: str
    columns: frozenset[str] | None


def own_tables(tree: exp.Expr) -> list[exp.Table]:
    """Where tables and views of users stand in it."""
    named = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
    return [
        table
        for table in tree.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier)
        and home(table) is None
        and (table.args.get("db") or table.name.lower() not in named)
    ]


def take_own_tables(tree: exp.Expr) -> tuple[OwnTable, ...]:
    """Have the tables of users named as they are in DuckDB; gives them."""
    found: dict[str, OwnTable] = {}
    tables = own_tables(tree)
    columns = _columns(tree, {table.alias_or_name.lower() for table in tables})
    for table in tables:
        parts = [part for part in (table.args.get("catalog"), table.args.get("db"), table.this) if part is not None]
        text = ".".join(part.sql(dialect="postgres") for part in parts)
        known = found.setdefault(text, OwnTable(f"own_{len(found)}", text, columns))
        if not table.alias:
            table.set("alias", exp.TableAlias(this=table.this.copy()))
        table.set("this", exp.to_identifier(known.name))
        table.set("db", None)
        table.set("catalog", None)
    return tuple(found.values())


def _columns(tree: exp.Expr, rows: set[str]) -> frozenset[str] | None:
    """The names that may be those of columns, in lower case; None where all columns are needed. `rows`: names that stand for
    whole rows."""
    whole = any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))
    whole = whole or any(column.name.lower() in rows for column in tree.find_all(exp.Column))
    whole = whole or any(join.args.get("method") for join in tree.find_all(exp.Join))
    return None if whole else frozenset(name.name.lower() for name in tree.find_all(exp.Identifier))


def home(table: exp.Table) -> str | None:
    """The schema in DuckDB of a table of the catalogue; None for another table."""
    name, schema = table.name.lower(), table.db.lower()
    if name in COLUMNS and schema in ("", "pg_catalog"):
        return LIVE_SCHEMA if name in LIVE_TABLES else SCHEMA
    return "info" if schema == "information_schema" and name in INFORMATION else None
