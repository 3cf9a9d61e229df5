"""What a database says of its tables: their columns, keys, comments, and where their rows lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from connectors.databases.parts import named
from connectors.postgres.columns import Column
from connectors.postgres.connection import quoted, run
from runtime.core.errors import ConnectorError, did_you_mean

__all__ = ["Leaf", "Relation", "described"]

_HELD = ("r", "m")
"""Kinds of relations whose rows lie in blocks: tables and materialized views."""
_COLUMNS = """
WITH RECURSIVE given AS (
  SELECT a.attnum, a.attname, a.attnotnull, a.atttypid AS type, a.atttypmod AS modifier,
    format_type(a.atttypid, a.atttypmod) AS declared, col_description(a.attrelid, a.attnum) AS comment
  FROM pg_attribute AS a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
), base AS (
  SELECT attnum, type, modifier, false AS is_domain, attnotnull AS not_null FROM given
  UNION ALL
  SELECT b.attnum, t.typbasetype, CASE WHEN b.modifier < 0 THEN t.typtypmod ELSE b.modifier END, true,
    b.not_null OR t.typnotnull
  FROM base AS b JOIN pg_type AS t ON t.oid = b.type WHERE t.typtype = 'd'
)
SELECT g.attname, COALESCE(e.typname, t.typname), b.modifier, g.declared, NOT b.not_null, e.oid IS NOT NULL, b.is_domain,
  COALESCE(e.typnamespace, t.typnamespace) = 'pg_catalog'::regnamespace AND COALESCE(e.typtype, t.typtype) = 'b', g.comment
FROM given AS g JOIN base AS b USING (attnum) JOIN pg_type AS t ON t.oid = b.type AND t.typtype <> 'd'
LEFT JOIN pg_type AS e ON t.typcategory = 'A' AND e.oid = t.typelem
ORDER BY g.attnum
"""
_LEAVES = """
WITH RECURSIVE tree AS (
  SELECT %s::oid AS oid UNION SELECT i.inhrelid FROM pg_inherits AS i JOIN tree AS t ON i.inhparent = t.oid
)
SELECT n.nspname, c.relname, c.relkind::text, pg_relation_filenode(c.oid)::int8,
  CASE WHEN c.relkind IN ('r', 'm') THEN pg_relation_size(c.oid) / current_setting('block_size')::int8 ELSE 0 END
FROM tree AS t JOIN pg_class AS c ON c.oid = t.oid JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind <> 'p' ORDER BY 1, 2
"""


@dataclass(frozen=True)
class Leaf:
    """A part of a table that lies in blocks of its own: a partition, an heir, or the table itself.

    Attributes:
        file: changes when all rows are written anew.
    """

    schema: str
    name: str
    kind: str
    file: int | None
    blocks: int

    @property
    def sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"


@dataclass(frozen=True)
class Relation:
    """A table, view or partitioned table."""

    schema: str
    name: str
    kind: str
    rows: float | None
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    comment: str | None
    leaves: tuple[Leaf, ...]

    @property
    def sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def lies_in_blocks(self) -> bool:
        return bool(self.leaves) and all(leaf.kind in _HELD for leaf in self.leaves)

    def column(self, name: str) -> Column:
        """Raises ConnectorError E3163 when there is none of this name."""
        return named(self.columns, name, f"{self.schema}.{self.name}")


def described(connection: Any, schema: str, name: str, *, leaves: bool = False) -> Relation:
    """A table of a database. Raises ConnectorError E3163 when there is none."""
    found = run(
        connection,
        "SELECT c.oid, c.relkind::text, c.reltuples, obj_description(c.oid, 'pg_class') FROM pg_class AS c "
        "JOIN pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'v', 'm', 'f', 'p')",
        [schema, name],
    ).fetchone()
    if found is None:
        raise _missing(connection, schema, name)
    oid, kind, rows, comment = found
    columns = tuple(Column(*row) for row in run(connection, _COLUMNS, [oid]).fetchall())
    key = run(
        connection,
        "SELECT a.attname FROM pg_index AS i CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place) "
        "JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.number "
        "WHERE i.indrelid = %s AND i.indisprimary ORDER BY k.place",
        [oid],
    ).fetchall()
    parts = run(connection, _LEAVES, [oid]).fetchall() if leaves else []
    return Relation(
        schema,
        name,
        kind,
        float(rows) if rows >= 0 else None,
        columns,
        tuple(column for (column,) in key),
        comment,
        tuple(Leaf(*part) for part in parts),
    )


def _missing(connection: Any, schema: str, name: str) -> ConnectorError:
    there: Sequence[tuple[str, str]] = run(
        connection,
        "SELECT n.nspname, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')",
    ).fetchall()
    names = [table if found == schema else f"{found}.{table}" for found, table in there]
    elsewhere = next((f"it is in the schema {s}: '{s}.{t}'" for s, t in there if t == name), None)
    return ConnectorError(
        f'there is no table "{name}" in the schema "{schema}"',
        code="E3163",
        hint=elsewhere or did_you_mean(name, names) or "check the option 'table-name'",
    )
